package sandboxinit

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// openTerminal makes a pseudo-terminal in the sandbox's own devpts, pty(7), puts
// the program's side in place of its streams, and sends the other side out. The
// terminal of the person who runs sandgate never comes in here: anything done to a
// terminal from inside, pushing characters included, is done to this one.
func (w *worker) openTerminal(t *sandboxprofile.Terminal, fds []int) (op string, errno syscall.Errno) {
	if t == nil {
		return "", 0
	}
	pair, op, err := newTerminal(*t)
	defer closeAll(pair)
	if err == nil {
		for i, fd := range fds[:3] {
			if !t.Has(i) {
				continue
			}
			if err = unix.Dup3(pair[1], fd, unix.O_CLOEXEC); err != nil {
				op = "dup3"
				break
			}
		}
	}
	if err == nil {
		op, err = "send the terminal", w.ctl.sendWith(wire.Frame{Opened: &wire.Opened{}}, pair[:1])
	}
	if errors.As(err, &errno) || err == nil {
		return op, errno
	}
	return op, unix.EIO
}

// newTerminal gives both ends of a terminal, ours first.
func newTerminal(t sandboxprofile.Terminal) (pair []int, op string, err error) {
	ours, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, "open /dev/ptmx", err
	}
	pair = []int{ours}
	if err := unix.IoctlSetPointerInt(ours, unix.TIOCSPTLCK, 0); err != nil {
		return pair, "unlock the terminal", err
	}
	if err := unix.IoctlSetWinsize(ours, unix.TIOCSWINSZ, &unix.Winsize{Row: t.Rows, Col: t.Columns}); err != nil {
		return pair, "set the size of the terminal", err
	}
	// By the descriptor: the name /dev/pts/N could be another's, ioctl_tty(2).
	theirs, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(ours), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return pair, "open the terminal", errno
	}
	return append(pair, int(theirs)), "", nil
}
