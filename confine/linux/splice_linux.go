package linux

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// maxSpliced bounds one step, so that the count is never far behind the bytes moved.
const maxSpliced = 1 << 20

// splice moves a stream into a pipe without a copy of ours, and reports whether it came to the
// stream's end. Otherwise the rest is to be copied: the other side is not a pipe or has gone, or
// the budget is used up.
func (p *plumbing) splice(i int, r, to *os.File) bool {
	if st, err := to.Stat(); err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		return false
	}
	in, err := r.SyscallConn()
	if err != nil {
		return false
	}
	conn, err := to.SyscallConn()
	if err != nil {
		return false
	}
	out := -1
	if conn.Control(func(fd uintptr) { out = int(fd) }) != nil { // Fd would change whether it blocks, for others too
		return false
	}
	for {
		left := p.budget.Load()
		if left <= 0 {
			return false
		}
		var n int64
		var moved error
		waited := in.Read(func(fd uintptr) bool {
			n, moved = unix.Splice(int(fd), nil, out, nil, int(min(left, maxSpliced)), unix.SPLICE_F_NONBLOCK)
			return !errors.Is(moved, unix.EAGAIN) || pending(int(fd))
		})
		switch {
		case waited != nil:
			return true // closed: nobody wants the rest
		case errors.Is(moved, unix.EAGAIN): // it is full
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(out), Events: unix.POLLOUT}}, -1); err != nil && !errors.Is(err, unix.EINTR) {
				return false
			}
		case errors.Is(moved, unix.EINTR):
		case moved != nil:
			return false
		case n == 0:
			return true
		}
		if n > 0 {
			p.n[i].Add(n)
			p.budget.Add(-n)
		}
	}
}

// pending reports whether there is something to read, or the stream has ended.
func pending(fd int) bool {
	set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(set, 0)
	return err != nil || n > 0
}
