package terminal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/ui/vtfilter"
)

// A ProgramOutput is where a program's own output goes: byte for byte into a file or a pipe, and
// onto a terminal without what the terminal would act on. While a person is asked there, none of
// it gets there: a program could wipe the question away and draw another in its place.
type ProgramOutput struct {
	Out, Err io.Writer
	filters  []*vtfilter.Writer
	last     *tail
	keys     sync.Mutex // held while a person is asked: what they type is an answer

	mu    sync.Mutex
	asked bool
	kept  []*held
}

// Ask keeps what the program writes until done is called.
func (p *ProgramOutput) Ask() (done func(), err error) {
	p.keys.Lock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.filters {
		if err := f.Yield(); err != nil {
			p.keys.Unlock()
			return nil, fmt.Errorf("reset the terminal before the question: %w", err)
		}
	}
	p.asked = true
	return p.answered, nil
}

// answered shows what was kept.
func (p *ProgramOutput) answered() {
	p.show()
	p.keys.Unlock()
}

func (p *ProgramOutput) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = false
	for _, k := range p.kept {
		k.show()
	}
}

// A held writer keeps what is written to it while a person is asked. It never waits: a program that has
// ended, or was killed, would not be done until the question is.
type held struct {
	of   *ProgramOutput
	to   io.Writer
	text []byte
	lost int // bytes for which there was no room
}

const MaxHeld = 1 << 20

// Write implements io.Writer.
func (k *held) Write(b []byte) (int, error) {
	k.of.mu.Lock()
	defer k.of.mu.Unlock()
	if !k.of.asked {
		return k.to.Write(b)
	}
	room := min(len(b), MaxHeld-len(k.text))
	k.text = append(k.text, b[:room]...)
	k.lost += len(b) - room
	return len(b), nil
}

func (k *held) show() {
	_, _ = k.to.Write(k.text) // a terminal that is gone
	if k.lost > 0 {
		fmt.Fprintf(k.to, "\nsandgate: note: %d bytes that the program wrote during the question are not shown\n", k.lost)
	}
	k.text, k.lost = nil, 0
}

// NewProgramOutput is for a's streams. If they are one file (a terminal, or the log of 2>&1), so
// are Out and Err.
func NewProgramOutput(a *cli.App, c *Console) *ProgramOutput {
	p := newProgramOutput(a, c)
	if sameFile(cli.Bare(a.Out), cli.Bare(a.Err)) {
		p.Out = p.Err
	}
	return p
}

// OneStream reports whether Out and Err are one: a program writes both into one pipe, so that they
// keep their order.
func (p *ProgramOutput) OneStream() bool { return p.Out == p.Err }

func sameFile(out, err io.Writer) bool {
	o, ok := out.(*os.File)
	e, also := err.(*os.File)
	if !ok || !also {
		return false
	}
	a, errA := o.Stat()
	b, errB := e.Stat()
	return errA == nil && errB == nil && os.SameFile(a, b)
}

func newProgramOutput(a *cli.App, c *Console) *ProgramOutput {
	p := &ProgramOutput{}
	if c != nil { // what is redirected is no terminal
		screen := vtfilter.NewScreen(c.tty)
		p.filters = append(p.filters, screen)
		p.last = &tail{w: screen}
		c.screen = p.last
		p.Out, p.Err = cli.Bare(a.Out), cli.Bare(a.Err)
		return p
	}
	p.last = &tail{w: p.filtered(a.Err)}
	p.Out, p.Err = p.filtered(a.Out), p.last
	return p
}

func (p *ProgramOutput) filtered(w io.Writer) io.Writer {
	if !cli.IsTerminal(w) {
		return w
	}
	f := vtfilter.New(cli.Bare(w))
	p.filters = append(p.filters, f)
	k := &held{of: p, to: f}
	p.kept = append(p.kept, k)
	return k
}

// Input is a person's keys for the program, while no question is open. What answers a question is not
// the program's, and no line is on its way to it when one is asked.
func (p *ProgramOutput) Input(r io.Reader) io.Reader {
	if f, ok := r.(*os.File); ok && cli.IsTerminal(f) {
		return waitingInput{&p.keys, f}
	}
	return r
}

type waitingInput struct {
	keys *sync.Mutex
	tty  *os.File
}

// Read implements io.Reader.
func (w waitingInput) Read(b []byte) (int, error) {
	for {
		if _, err := cli.OnTerminal(w.tty, func(fd int) (bool, error) { return Readable(fd, nil) }); err != nil {
			return 0, err
		}
		if n, got, err := w.take(b); got || err != nil {
			return n, err
		}
	}
}

// take reads what is there, if the answer to a question has not been it.
func (w waitingInput) take(b []byte) (n int, got bool, err error) {
	w.keys.Lock()
	defer w.keys.Unlock()
	return ReadNow(w.tty, b)
}

// DropTyped drops what was typed and has not been read, and reports whether there was any, half a line too: a
// terminal that waits for the end of a line shows that only in its other mode. Keys that are dropped unseen
// may leave the end of a line that somebody is typing, which is then a line by itself.
func DropTyped(tty *os.File) (typed bool, err error) {
	return cli.OnTerminal(tty, func(fd int) (typed bool, err error) {
		lines, err := unix.IoctlGetTermios(fd, getTermios)
		if err != nil {
			return false, err
		}
		keys := *lines
		keys.Lflag &^= unix.ICANON
		keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
		if err := unix.IoctlSetTermios(fd, setTermios, &keys); err != nil {
			return false, err
		}
		if typed, err = Readable(fd, &unix.Timeval{}); typed {
			err = flush(fd)
		}
		return typed, errors.Join(err, unix.IoctlSetTermios(fd, setTermios, lines))
	})
}

// MoreFollows reports whether more comes right behind a line, faster than a person types, and drops that.
func MoreFollows(tty *os.File) (bool, error) {
	time.Sleep(50 * time.Millisecond)
	return DropTyped(tty)
}

// OneLine is said of lines that came at once.
const OneLine = "several lines at once count as pasted text: answer with a single line\n"

// WasTyping stands in place of a question while somebody types.
const WasTyping = "\ninput typed before the question is dropped; the question appears when you stop typing\n"

// ReadNow reads what a terminal has, and waits for nothing.
func ReadNow(tty *os.File, b []byte) (n int, got bool, err error) {
	got, err = cli.OnTerminal(tty, func(fd int) (bool, error) { return Readable(fd, &unix.Timeval{}) })
	if got {
		n, err = tty.Read(b)
	}
	return n, got, err
}

// Readable waits until a read would not.
func Readable(fd int, limit *unix.Timeval) (bool, error) {
	for {
		var set unix.FdSet
		set.Set(fd)
		n, err := unix.Select(fd+1, &set, nil, nil, limit)
		if !errors.Is(err, unix.EINTR) {
			return n > 0, err
		}
	}
}

// End is called when the program has ended: later output is not the program's.
func (p *ProgramOutput) End() {
	p.show() // a question ends with the program
	for _, f := range p.filters {
		_ = f.Close() // a terminal that is gone
	}
}

// StderrTail is the end of the program's error output.
func (p *ProgramOutput) StderrTail() string {
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
