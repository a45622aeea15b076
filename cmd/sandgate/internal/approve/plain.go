package approve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/terminal"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
	"github.com/sandgate/sandgate/ui/present"
)

// The plain mode of approve: lines in, lines out. It serves scripts, terminals
// that cannot move the cursor, and screen readers.

// A prompt shows one request at a time, in their turns. All that it writes is fitted.
type prompt struct {
	*cli.App
	approver *client.Approver
	input    *lineReader
	waiting  []protocol.ApprovalID // the first has been shown
	turns    map[protocol.ApprovalID]uint64
	// What is on the screen of the first: with its presentation, after an edit that
	// of the edited arguments, and a pattern that waits for its yes.
	shown   protocol.Approval
	args    json.RawMessage
	pattern *protocol.ApprovalsDecide
	unread  terminal.Unread
	gone    present.Gone
	// guard says which lines of a person count; lines of a script always do.
	guard guard.Guard
	begun time.Time // of the guard's clock
	// asking is the question that comes once an answer counts, which is when due fires.
	asking string
	due    <-chan time.Time
	asked  int  // questions
	told   bool // why the question does not come yet
	// early is a line of a script that came before there was a request for it.
	early *inputLine
}

func (p *prompt) loop(ctx context.Context, events <-chan client.Event) error {
	for {
		if p.early != nil && len(p.waiting) > 0 {
			line := *p.early
			p.early = nil
			if err := p.answer(ctx, line.text); err != nil {
				return err
			}
			continue
		}
		lines := p.input.lines
		if p.early != nil {
			lines = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.due:
			if err := p.put(); err != nil {
				return err
			}
		case e, ok := <-events:
			if !ok {
				p.lost(ctx)
				return cli.WithStatus(cli.ExitInternal, client.ErrClosed)
			}
			if err := p.event(ctx, e); err != nil {
				return err
			}
		case line, ok := <-lines:
			if !ok {
				return nil
			}
			if !p.input.interactive {
				p.early = &line
			} else if err := p.typed(ctx, line); err != nil {
				return err
			}
		}
	}
}

// lost keeps the line that a person is writing, and those after it, from the shell below: it
// would carry them out.
func (p *prompt) lost(ctx context.Context) {
	if !p.input.interactive || len(p.waiting) == 0 && !p.guard.Held() {
		return
	}
	for {
		fmt.Fprintf(p.Out, "\n%v; press Enter to leave: ", client.ErrClosed)
		select {
		case <-ctx.Done():
			return
		case line, ok := <-p.input.lines:
			if !ok || strings.TrimSpace(line.text) == "" {
				return
			}
		}
	}
}

func (p *prompt) now() time.Duration { return time.Since(p.begun) }

// typed takes a line from a terminal, under the rule of the screens. Nobody knows when a
// line was begun. So after a request that somebody else ended, only an empty line goes on;
// text that was being typed for it answers nothing. A line that was entered before the
// question stood there was meant for another.
func (p *prompt) typed(ctx context.Context, l inputLine) error {
	now := p.now()
	switch {
	case p.guard.Held():
		if strings.TrimSpace(l.text) == "" && p.guard.Release(now, now, guard.Enter) {
			return p.show(ctx)
		}
		fmt.Fprint(p.Out, "that line was for the request that has ended; press Enter to continue: ")
	case len(p.waiting) == 0:
	case p.asking != "":
		return p.pause()
	case l.prompted != p.input.prompted.Load():
		fmt.Fprint(p.Out, "that line was typed before the request; answer it now: ")
	case !p.guard.Answer(now, now, false):
		fmt.Fprint(p.Out, "that line came too soon after the request; answer it now: ")
	default:
		switch more, err := p.input.moreFollows(); {
		case err != nil:
			return cli.WithStatus(cli.ExitInternal, err)
		case more:
			p.pattern = nil
			return p.again(terminal.OneLine)
		}
		return p.answer(ctx, l.text)
	}
	return nil
}

func (p *prompt) event(ctx context.Context, e client.Event) error {
	id := e.Approval.ID
	at := slices.Index(p.waiting, id)
	if e.Kind == client.Resolved {
		delete(p.turns, id)
	}
	if e.Kind == client.Resolved && at >= 0 && present.Withdrawn(e.Decision) {
		seen := &e.Approval
		if p.shown.ID == id && p.args == nil {
			seen = &p.shown
		}
		p.gone.Add(seen, at == 0, time.Now())
	}
	switch {
	case e.Kind == client.Requested && at < 0:
		p.turns[id] = e.Approval.Turn
		at := len(p.waiting)
		for at > 1 && p.turns[p.waiting[at-1]] > p.turns[id] {
			at--
		}
		p.waiting = slices.Insert(p.waiting, at, id)
		if len(p.waiting) == 1 && !p.guard.Held() {
			return p.show(ctx)
		}
	case e.Kind == client.Resolved && at == 0 && p.input.interactive && !p.guard.Held():
		p.waiting = p.waiting[1:]
		p.guard.Ended(p.now())
		p.asking = ""
		p.input.prompted.Add(1)
		fmt.Fprintf(p.Out, "\n%s:\n%s\nPress Enter to continue: ", id, present.Ended(&e.Approval, e.Decision))
	case e.Kind == client.Resolved && at == 0 && !p.guard.Held():
		fmt.Fprintf(p.Out, "\n%s: %s\n", id, outcome(e.Decision))
		p.waiting = p.waiting[1:]
		return p.show(ctx)
	case e.Kind == client.Resolved && at >= 0:
		p.waiting = slices.Delete(p.waiting, at, at+1)
	}
	return nil
}

func outcome(d *approval.Decision) string {
	if d == nil {
		return "no longer waiting"
	}
	return approval.EscapeLine(strings.TrimSpace(string(d.Action) + ": " + d.Reason))
}

// show puts the oldest request on the screen, and passes over those that have
// ended in the meantime.
func (p *prompt) show(ctx context.Context) error {
	p.args, p.pattern, p.unread = nil, nil, terminal.Unread{}
	for len(p.waiting) > 0 {
		one, err := p.approver.Show(ctx, p.waiting[0])
		var e *protocol.Error
		if errors.As(err, &e) {
			p.waiting = p.waiting[1:]
			continue
		}
		if err != nil {
			return cli.WithStatus(cli.ExitInternal, err)
		}
		p.shown = one
		text := "\n" + terminal.LookTwice(&p.gone, &one) + present.Essence(&one)
		fmt.Fprint(p.Out, text)
		p.unread.Scrolled = terminal.Scrolled(p.Out, text)
		return p.question()
	}
	return nil
}

// question asks about what has just been written.
func (p *prompt) question() error {
	more := ""
	if n := len(p.waiting) - 1; n > 0 {
		more = fmt.Sprintf("%d more waiting. ", n)
	}
	return p.ask(fmt.Sprintf("%s%s %s, %s %s, %s %s, %s %s;\n? explains (an empty line denies): ",
		more, present.Deny.Key, present.Deny.Words, present.DenialsKey, present.DenialsWords, present.RememberKey, present.RememberWords, present.AllowOnce.Key, present.AllowOnce.Words))
}

// ask asks a person as soon as an answer counts, and a script at once.
func (p *prompt) ask(question string) error {
	p.asked++
	p.guard.Look(p.now(), string(p.shown.ID), strconv.Itoa(p.asked))
	p.asking = question
	p.told = false
	if p.input.interactive { // nobody knows whether somebody is typing, until they have paused
		p.guard.Key(p.now(), p.now(), false)
		p.due = time.After(p.guard.Due() - p.now())
		return nil
	}
	return p.put()
}

// put writes the question, when nothing has been typed for a while. This program can stand
// still at any moment, and read late what was typed early. What it reads after this was typed after this.
func (p *prompt) put() error {
	if p.asking == "" { // its request has ended
		return nil
	}
	if wait := p.guard.Due() - p.now(); p.input.interactive && wait > 0 {
		p.due = time.After(wait)
		return nil
	}
	switch typed, err := p.input.begin(); {
	case err != nil:
		return cli.WithStatus(cli.ExitInternal, fmt.Errorf("drop what was typed ahead: %w", err))
	case typed:
		return p.pause()
	}
	fmt.Fprint(p.Out, p.asking)
	p.asking = ""
	return nil
}

// pause puts the question off because somebody is typing.
func (p *prompt) pause() error {
	p.guard.Key(p.now(), p.now(), false)
	if !p.told {
		fmt.Fprint(p.Out, terminal.WasTyping)
	}
	p.told = true
	p.due = time.After(p.guard.Due() - p.now())
	return nil
}

// A lineReader reads lines on a goroutine of its own, which lives as long as the
// process: nothing can interrupt a read from a terminal.
type lineReader struct {
	lines       chan inputLine
	interactive bool
	tty         *os.File     // if it is interactive
	mu          sync.Mutex   // held while the terminal is read, and while what it holds is dropped
	prompted    atomic.Int64 // how many questions have been put on the screen
}

type inputLine struct {
	text     string
	prompted int64 // lineReader.prompted when the terminal gave the beginning of the line
}

func readLines(r io.Reader) *lineReader {
	l := &lineReader{lines: make(chan inputLine), interactive: cli.IsTerminal(r)}
	if l.interactive {
		l.tty = r.(*os.File)
		go l.readTerminal()
		return l
	}
	go func() {
		defer close(l.lines)
		s := bufio.NewScanner(r)
		for s.Scan() {
			l.lines <- inputLine{s.Text(), l.prompted.Load()}
		}
	}()
	return l
}

// begin begins a question, unless there is unread typed text: that is dropped, and no question begins.
// All that is read after it begins was typed later.
func (l *lineReader) begin() (typed bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.interactive {
		typed, err = terminal.DropTyped(l.tty)
	}
	if !typed && err == nil {
		l.prompted.Add(1)
	}
	return typed, err
}

// moreFollows reports whether more comes right behind a line that was just read.
func (l *lineReader) moreFollows() (bool, error) {
	select {
	case _, more := <-l.lines:
		if more { // and what comes behind that is older than the next question
			return true, nil
		}
	case <-time.After(50 * time.Millisecond):
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return terminal.DropTyped(l.tty)
}

func (l *lineReader) readTerminal() {
	defer close(l.lines)
	var line inputLine
	chunk := make([]byte, 4096) // a terminal has no longer lines
	for {
		n, prompted, err := l.read(chunk)
		if line.text == "" {
			line.prompted = prompted
		}
		line.text += string(chunk[:n])
		for text, rest, ok := strings.Cut(line.text, "\n"); ok; text, rest, ok = strings.Cut(rest, "\n") {
			l.lines <- inputLine{text, line.prompted}
			line = inputLine{rest, prompted}
		}
		if err != nil {
			if line.text != "" {
				l.lines <- line
			}
			return
		}
	}
}

// read reads what was typed, and how many questions stood there then.
func (l *lineReader) read(b []byte) (n int, prompted int64, err error) {
	for got := false; !got && err == nil; {
		if _, err := cli.OnTerminal(l.tty, func(fd int) (bool, error) { return terminal.Readable(fd, nil) }); err != nil {
			return 0, 0, err
		}
		l.mu.Lock()
		n, got, err = terminal.ReadNow(l.tty, b)
		prompted = l.prompted.Load()
		l.mu.Unlock()
	}
	return n, prompted, err
}
