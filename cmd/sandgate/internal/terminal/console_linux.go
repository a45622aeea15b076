package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A Console is the person's terminal while a program has one of its own, which is made
// inside its sandbox. Nothing done to that one reaches this one: keys go in, and output
// comes out through a filter. nil if there is none.
type Console struct {
	tty    *os.File // opened anew: its flags are ours
	before *unix.Termios
	Size   *sandboxprofile.Terminal
	screen io.Writer

	mu     sync.Mutex // of inside, raw and closed
	inside *os.File   // the other end of the program's terminal
	raw    bool
	closed bool
	resize chan os.Signal
	sent   atomic.Int32 // SIGINT that were ours
}

// OpenConsole gives the person's terminal, if a program is to have one: in the
// foreground, and with a standard output that is not a pipe. The program that reads
// from the pipe may want the keys, as pagers do.
func OpenConsole(a *cli.App) *Console {
	var apart uint8
	for i, stream := range []any{a.In, cli.Bare(a.Out), cli.Bare(a.Err)} {
		file, ok := stream.(*os.File)
		if !ok {
			return nil
		}
		if cli.IsTerminal(file) {
			continue
		}
		apart |= 1 << i
		if st, err := file.Stat(); i == 1 && (err != nil || st.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0) {
			return nil
		}
	}
	if apart == 1|2|4 {
		return nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	c := &Console{tty: tty, resize: make(chan os.Signal, 1)}
	c.before, err = cli.OnTerminal(tty, func(fd int) (*unix.Termios, error) { return unix.IoctlGetTermios(fd, unix.TCGETS) })
	group, other := cli.OnTerminal(tty, func(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.TIOCGPGRP) })
	if err != nil || other != nil || group != unix.Getpgrp() {
		tty.Close()
		return nil
	}
	c.Size = &sandboxprofile.Terminal{Rows: 24, Columns: 80, Apart: apart}
	if w := c.window(); w != nil && w.Row > 0 && w.Col > 0 {
		c.Size.Rows, c.Size.Columns = w.Row, w.Col
	}
	return c
}

func (c *Console) window() *unix.Winsize {
	w, err := cli.OnTerminal(c.tty, func(fd int) (*unix.Winsize, error) { return unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ) })
	if err != nil {
		return nil
	}
	return w
}

// Streams are the streams that the supervisor connects.
func (c *Console) Streams() *confine.Terminal {
	if c == nil {
		return nil
	}
	return &confine.Terminal{Keys: c, Screen: c.screen, Opened: c.opened, Ended: c.ended}
}

// opened makes the program's terminal like the person's, and hands this one over.
func (c *Console) opened(inside *os.File) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.inside = inside
	_, _ = cli.OnTerminal(inside, func(fd int) (any, error) { return nil, unix.IoctlSetTermios(fd, unix.TCSETS, c.before) }) // it has settings of its own
	c.fit()
	c.take()
	signal.Notify(c.resize, syscall.SIGWINCH)
	go func() {
		for range c.resize {
			c.mu.Lock()
			c.fit()
			c.mu.Unlock()
		}
	}()
}

// fit gives the program's terminal this one's size.
func (c *Console) fit() {
	if w := c.window(); w != nil && w.Row > 0 && w.Col > 0 {
		_, _ = cli.OnTerminal(c.inside, func(fd int) (any, error) { return nil, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, w) }) // it may have ended
	}
}

// take has the terminal hand over keys as they are pressed, cfmakeraw(3).
func (c *Console) take() {
	raw := *c.before
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag = raw.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	c.set(&raw)
	c.raw = true
}

func (c *Console) set(t *unix.Termios) {
	_, _ = cli.OnTerminal(c.tty, func(fd int) (any, error) { return nil, unix.IoctlSetTermios(fd, unix.TCSETS, t) }) // a terminal that is gone
}

func (c *Console) giveBack() {
	if c.raw {
		c.set(c.before)
	}
	c.raw = false
}

// ended gives the terminal back: keys that come from now on are for who comes next.
func (c *Console) ended() {
	_ = c.tty.SetReadDeadline(time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.giveBack()
	}
}

// Close gives the terminal back as it was.
func (c *Console) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	signal.Stop(c.resize)
	c.giveBack()
	c.tty.Close()
}

// Read gives keys to the program. Those that make signals do so inside, and as outside
// reach the others of this job: those in its pipeline, and who waits for it.
func (c *Console) Read(p []byte) (int, error) {
	n, err := c.tty.Read(p)
	if n == 0 || err != nil {
		return n, err
	}
	t, fault := cli.OnTerminal(c.inside, func(fd int) (*unix.Termios, error) { return unix.IoctlGetTermios(fd, unix.TCGETS) })
	if fault != nil || t.Lflag&unix.ISIG == 0 {
		return n, nil
	}
	switch {
	case bytes.IndexByte(p[:n], t.Cc[unix.VINTR]) >= 0:
		c.sent.Add(1)
		_ = unix.Kill(0, unix.SIGINT)
	case bytes.IndexByte(p[:n], t.Cc[unix.VSUSP]) >= 0:
		c.suspend()
	}
	return n, nil
}

// sentItself reports whether a signal was one of those that Read has sent.
func (c *Console) sentItself(n os.Signal) bool {
	if c == nil || n != syscall.SIGINT || c.sent.Load() == 0 {
		return false
	}
	c.sent.Add(-1)
	return true
}

// suspend stops the program and this job until somebody continues it, unless the program
// handles that key itself: a shell does, and a plain program has no one in its sandbox
// who would continue it.
func (c *Console) suspend() {
	leader, err := cli.OnTerminal(c.inside, func(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.TIOCGSID) })
	group, err2 := cli.OnTerminal(c.inside, func(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.TIOCGPGRP) })
	if err != nil || err2 != nil || leader <= 1 || group != leader || seesTo(leader, unix.SIGTSTP) {
		return
	}
	if unix.Kill(-group, unix.SIGSTOP) != nil {
		return
	}
	c.mu.Lock()
	c.giveBack()
	c.mu.Unlock()
	_ = unix.Kill(0, unix.SIGTSTP) // we go on from here
	c.mu.Lock()
	if !c.closed {
		c.take()
		c.fit()
	}
	c.mu.Unlock()
	_ = unix.Kill(-group, unix.SIGCONT)
}

// seesTo reports whether a process catches or ignores a signal, proc_pid_status(5).
func seesTo(pid int, n unix.Signal) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		if name != "SigIgn" && name != "SigCgt" {
			continue
		}
		if mask, err := strconv.ParseUint(value, 16, 64); err != nil || mask&(1<<(n-1)) != 0 {
			return true
		}
	}
	return false
}
