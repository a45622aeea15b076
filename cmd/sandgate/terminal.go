package main

import (
	"io"
	"os"
	"sync"

	"github.com/sandgate/sandgate/ui/vtfilter"
)

// A programsOutput is where a program's own output goes: byte for byte into a file or a
// pipe, and onto a terminal without what the terminal would act on.
type programsOutput struct {
	out, err io.Writer
	filters  []*vtfilter.Writer
	last     *tail
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
	return f
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
