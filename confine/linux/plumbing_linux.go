package linux

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
	"golang.org/x/sys/unix"
)

// plumbing is the pipes of one program.
type plumbing struct {
	child   []*os.File // what the program gets
	parent  []*os.File // what we keep
	outputs []output   // of parent, those that are read
	readers sync.WaitGroup
	budget  atomic.Int64
	lost    atomic.Bool
	n       [2]atomic.Int64
	over    chan<- struct{}
	// terminal is connected to a terminal, once the sandbox has made it.
	terminal *confine.Terminal
}

func newPlumbing(std confine.Stdio, terminal *sandboxprofile.Terminal, output int64, over chan<- struct{}) (*plumbing, error) {
	p := &plumbing{over: over}
	if terminal != nil {
		p.terminal = std.Terminal
		if p.terminal == nil {
			p.terminal = &confine.Terminal{Keys: std.Stdin, Screen: std.Stdout}
		}
		if terminal.Has(0) {
			std.Stdin = nil
		}
		if terminal.Has(1) {
			std.Stdout = nil
		}
		if terminal.Has(2) {
			std.Stderr = nil
		}
	}
	p.budget.Store(output)
	const most = wire.MaxFiles - 3 - 1 // its streams, and the latch
	if len(std.Files) > most {
		return nil, fmt.Errorf("confine: %d files for one program, at most %d", len(std.Files), most)
	}
	stdin, err := p.input(std.Stdin)
	if err != nil {
		return nil, err
	}
	p.child = []*os.File{stdin}
	for i, w := range []io.Writer{std.Stdout, std.Stderr} {
		if i == 1 && std.OneStream() {
			p.child = append(p.child, p.child[1])
			break
		}
		r, wr, err := outputPipe()
		if err != nil {
			p.close()
			return nil, fmt.Errorf("confine: pipe: %w", err)
		}
		p.child = append(p.child, wr)
		p.reads(r, i)
		go p.drain(i, r, w, true)
	}
	p.child = append(p.child, std.Files...)
	return p, nil
}

// outputPipe is os.Pipe, but that the end for writing is left as a program expects it:
// blocking, and unknown to Go's poller.
func outputPipe() (r, w *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	err = unix.SetNonblock(fds[0], true) // before NewFile, which asks
	r, w = os.NewFile(uintptr(fds[0]), "output"), os.NewFile(uintptr(fds[1]), "output")
	if err != nil {
		closeFiles([]*os.File{r, w})
	}
	return r, w, os.NewSyscallError("fcntl", err)
}

// attach connects the terminal that the sandbox has made for the program, once, and
// reports whether that was to be expected.
func (p *plumbing) attach(files []*os.File) bool {
	if p == nil || p.terminal == nil || len(files) != 1 {
		return false
	}
	// Not blocking, so that closing it ends reads and writes.
	fd, err := unix.FcntlInt(files[0].Fd(), unix.F_DUPFD_CLOEXEC, 0)
	closeFiles(files)
	if err != nil || unix.SetNonblock(fd, true) != nil {
		return false
	}
	tty := os.NewFile(uintptr(fd), "terminal")
	to := p.terminal
	p.terminal = nil
	p.reads(tty, 0)
	if to.Opened != nil {
		to.Opened(tty)
	}
	go func() {
		p.drain(0, tty, to.Screen, false) // ends with EIO when the last process has closed its side
		if to.Ended != nil {
			to.Ended()
		}
	}()
	if to.Keys != nil {
		go p.typeIn(tty, to.Keys)
	}
	return true
}

// typeIn writes what there is to read. At its end it presses Ctrl-D, as a person
// would; a program may take it for input, or not at all.
func (p *plumbing) typeIn(tty *os.File, r io.Reader) {
	const eot = "\x04"
	if _, err := io.Copy(tty, r); err == nil {
		_, _ = io.WriteString(tty, eot)
	}
}

// input gives the program's standard input. A reader is copied by a goroutine
// that ends when the pipe breaks; one blocked in Read outlives the action.
func (p *plumbing) input(r io.Reader) (*os.File, error) {
	if r == nil {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0) // os.Open would try to wait for it
		if err != nil {
			return nil, fmt.Errorf("confine: open %s: %w", os.DevNull, err)
		}
		return os.NewFile(uintptr(fd), os.DevNull), nil
	}
	rd, wr, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("confine: pipe: %w", err)
	}
	p.parent = append(p.parent, wr) // so that a write ends with the call, whoever has the other end
	go func() {
		defer wr.Close()
		_, _ = io.Copy(wr, r)
	}()
	return rd, nil
}

// drainBuffers hold what has been read of a stream; most programs write little, and
// all have two.
var drainBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// drain copies one stream until its last writer is dead, or, if r is the last to hold
// what it reads, until nobody reads w. What goes beyond the budget is dropped, and the
// program is ended for it.
func (p *plumbing) drain(i int, r *os.File, w io.Writer, last bool) {
	defer p.readers.Done()
	if w == nil {
		w = io.Discard
	}
	if to, ok := w.(*os.File); ok && p.splice(i, r, to) {
		return
	}
	buffer := drainBuffers.Get().(*[64 << 10]byte)
	defer drainBuffers.Put(buffer)
	buf := buffer[:]
	for {
		n, err := r.Read(buf)
		if n > 0 {
			p.n[i].Add(int64(n))
			keep := n
			if left := p.budget.Add(-int64(n)); left < 0 {
				keep = max(0, n+int(left))
				p.lost.Store(true)
				select {
				case p.over <- struct{}{}:
				default:
				}
			}
			if keep > 0 {
				if _, werr := w.Write(buf[:keep]); werr != nil && last {
					r.Close() // as outside: the program is told (EPIPE, SIGPIPE), and decides
					return
				} else if werr != nil {
					w = io.Discard
				}
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *plumbing) childFiles() []*os.File {
	if p == nil {
		return nil
	}
	return p.child
}

func (p *plumbing) closeChildFiles() {
	if p == nil {
		return
	}
	for _, f := range p.child {
		f.Close()
	}
	p.child = nil
}

// An output is a stream of the program's, which is read into stream number i.
type output struct {
	*os.File
	i int
}

func (p *plumbing) reads(r *os.File, i int) {
	p.parent, p.outputs = append(p.parent, r), append(p.outputs, output{r, i})
	p.readers.Add(1)
}

const (
	// outputLook is how often wait looks whether a stream is empty. What the kernel moves from
	// one end of a terminal to the other takes less.
	outputLook = 100 * time.Millisecond
	// outputOnWay is more than what may have been read of a stream and not been counted yet.
	outputOnWay = 2 * maxSpliced
)

// wait waits until everything that the programs wrote has been read. They have all ended, so
// that is what the streams hold now. Their end is not waited for: a program can have passed a
// descriptor of its output to another sandbox or a host program, through a socket, and that can
// hold it for ever, or write to it.
func (p *plumbing) wait() {
	ended := make(chan struct{})
	go func() { p.readers.Wait(); close(ended) }()
	most := make([]int64, len(p.outputs))
	for k, o := range p.outputs {
		most[k] = int64(unread(o.File)) + p.n[o.i].Load() + outputOnWay
	}
	for {
		select {
		case <-ended:
			return
		case <-time.After(outputLook):
		}
		for k, o := range p.outputs {
			if unread(o.File) == 0 || p.n[o.i].Load() > most[k] {
				_ = o.SetReadDeadline(time.Unix(0, 1)) // one that is closed has no reader
			}
		}
	}
}

// unread is how much a stream holds, 0 if it is closed.
func unread(f *os.File) (n int) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	}
	return n
}

func (p *plumbing) close() {
	p.closeChildFiles()
	for _, f := range p.parent {
		f.Close()
	}
}

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
