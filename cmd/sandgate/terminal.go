package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/ui/vtfilter"
)

// A programsOutput is where a program's own output goes: byte for byte into a file or a
// pipe, and onto a terminal without what the terminal would act on. While a person is asked there
// nothing of it gets there: a program could wipe the question away, and draw another in its place.
type programsOutput struct {
	out, err io.Writer
	filters  []*vtfilter.Writer
	last     *tail
	asking   sync.Mutex // held while a person is asked
}

// ask keeps what the program writes until done is called.
func (p *programsOutput) ask() (done func(), err error) {
	p.asking.Lock()
	for _, f := range p.filters {
		if err := f.Yield(); err != nil {
			p.asking.Unlock()
			return nil, fmt.Errorf("put the terminal right before the question: %w", err)
		}
	}
	return p.asking.Unlock, nil
}

// A waiting writer writes while nobody is asked.
type waiting struct {
	asking *sync.Mutex
	io.Writer
}

// Write implements io.Writer.
func (w waiting) Write(b []byte) (int, error) {
	w.asking.Lock()
	defer w.asking.Unlock()
	return w.Writer.Write(b)
}

func (a *app) programsOutput(c *console) *programsOutput {
	p := &programsOutput{}
	if c != nil { // what is redirected is no terminal
		screen := vtfilter.NewScreen(c.tty)
		p.filters = append(p.filters, screen)
		p.last = &tail{w: screen}
		c.screen = p.last
		p.out, p.err = a.out, a.err
		return p
	}
	p.last = &tail{w: p.filtered(a.err)}
	p.out, p.err = p.filtered(a.out), p.last
	return p
}

func (p *programsOutput) filtered(w io.Writer) io.Writer {
	if !isTerminal(w) {
		return w
	}
	f := vtfilter.New(w)
	p.filters = append(p.filters, f)
	return waiting{&p.asking, f}
}

// input is a person's keys for the program, while nobody is asked. What answers a question is not the
// program's, and no line is on its way to it when one is asked.
func (p *programsOutput) input(r io.Reader) io.Reader {
	if f, ok := r.(*os.File); ok && isTerminal(f) {
		return waitingInput{&p.asking, f}
	}
	return r
}

type waitingInput struct {
	asking *sync.Mutex
	tty    *os.File
}

// Read implements io.Reader.
func (w waitingInput) Read(b []byte) (int, error) {
	for {
		if _, err := onTerminal(w.tty, func(fd int) (bool, error) { return readable(fd, nil) }); err != nil {
			return 0, err
		}
		if n, got, err := w.take(b); got || err != nil {
			return n, err
		}
	}
}

// take reads what is there, if the answer to a question has not been it.
func (w waitingInput) take(b []byte) (n int, got bool, err error) {
	w.asking.Lock()
	defer w.asking.Unlock()
	got, err = onTerminal(w.tty, func(fd int) (bool, error) { return readable(fd, &unix.Timeval{}) })
	if got {
		n, err = w.tty.Read(b)
	}
	return n, got, err
}

// readable waits until a read would not.
func readable(fd int, limit *unix.Timeval) (bool, error) {
	for {
		var set unix.FdSet
		set.Set(fd)
		n, err := unix.Select(fd+1, &set, nil, nil, limit)
		if !errors.Is(err, unix.EINTR) {
			return n > 0, err
		}
	}
}

// end is for when the program has ended: what is written next is not its.
func (p *programsOutput) end() {
	for _, f := range p.filters {
		_ = f.Close() // a terminal that is gone
	}
}

// said is the end of the program's error output.
func (p *programsOutput) said() string {
	p.last.mu.Lock()
	defer p.last.mu.Unlock()
	return string(p.last.kept)
}

// A tail keeps the end of what is written through it.
type tail struct {
	w    io.Writer
	mu   sync.Mutex
	kept []byte
}

const maxTail = 4 << 10

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	t.kept = append(t.kept, b[max(len(b)-maxTail, 0):]...)
	t.kept = append(t.kept[:0], t.kept[max(len(t.kept)-maxTail, 0):]...)
	t.mu.Unlock()
	return t.w.Write(b)
}

// onTerminal does something with a descriptor, and leaves it as it is for reading: File.Fd
// would make reads block for good, and closing the file would end none.
func onTerminal[T any](f *os.File, do func(fd int) (T, error)) (got T, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return got, err
	}
	if outer := raw.Control(func(fd uintptr) { got, err = do(int(fd)) }); outer != nil {
		return got, outer
	}
	return got, err
}
