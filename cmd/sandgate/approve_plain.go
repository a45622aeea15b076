package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// The plain mode of approve: lines in, lines out. It serves scripts, terminals
// that cannot move the cursor, and screen readers.

// A prompt shows one request at a time, the oldest first.
type prompt struct {
	*app
	approver *client.Approver
	input    *lineReader
	waiting  []protocol.ApprovalID // the first is on the screen
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
		case e, ok := <-events:
			if !ok {
				return withStatus(exitInternal, client.ErrClosed)
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

// typed takes a line from a terminal. One that was entered before the request on
// the screen came up was meant for another, or for nothing.
func (p *prompt) typed(ctx context.Context, l inputLine) error {
	if len(p.waiting) == 0 || l.prompted != p.input.prompted.Load() {
		return nil
	}
	return p.answer(ctx, l.text)
}

func (p *prompt) event(ctx context.Context, e client.Event) error {
	id := e.Approval.ID
	at := slices.Index(p.waiting, id)
	switch {
	case e.Kind == client.Requested && at < 0:
		p.waiting = append(p.waiting, id)
		if len(p.waiting) == 1 {
			return p.show(ctx)
		}
	case e.Kind == client.Resolved && at == 0:
		fmt.Fprintf(p.out, "\n%s: %s\n", id, outcome(e.Decision))
		p.waiting = p.waiting[1:]
		return p.show(ctx)
	case e.Kind == client.Resolved && at > 0:
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
	for len(p.waiting) > 0 {
		one, err := p.approver.Show(ctx, p.waiting[0])
		var e *protocol.Error
		if errors.As(err, &e) {
			p.waiting = p.waiting[1:]
			continue
		}
		if err != nil {
			return withStatus(exitInternal, err)
		}
		fmt.Fprintln(p.out)
		if err := printApproval(p.out, one); err != nil {
			return err
		}
		fmt.Fprint(p.out, "allow? [y]es once, [s]ession, [a]gent, [g]lobal, [n]o, e[x]plain (default no, to the whole batch): ")
		p.input.prompted.Add(1)
		return nil
	}
	return nil
}

// answer answers the request on the screen, and shows the next.
func (p *prompt) answer(ctx context.Context, text string) error {
	id := p.waiting[0]
	p.waiting = p.waiting[1:]
	results, err := p.approver.Decide(ctx, answerTo(id, text))
	var e *protocol.Error
	switch {
	case errors.As(err, &e):
		p.complain(err)
	case err != nil:
		return withStatus(exitInternal, err)
	case len(results) == 1 && results[0].Decision != nil:
		fmt.Fprintf(p.out, "%s: %s (%s)\n", id, results[0].Decision.Action, results[0].Decision.Scope)
	}
	return p.show(ctx)
}

// answerTo reads a line as an answer. What is none denies, and hard.
func answerTo(id protocol.ApprovalID, text string) protocol.ApprovalsDecide {
	d := protocol.ApprovalsDecide{ID: id, Decision: protocol.Deny}
	text = strings.TrimSpace(text)
	if text == "n" { // N is the hard one, as on the screen
		d.Mode = approval.RejectSoft
	}
	switch strings.ToLower(text) {
	case "y", "yes":
		d.Decision = protocol.Allow
	case "s", "session":
		d.Decision, d.Scope = protocol.Allow, approval.Session
	case "a", "agent":
		d.Decision, d.Scope = protocol.Allow, approval.Agent
	case "g", "global":
		d.Decision, d.Scope = protocol.Allow, approval.Global
	case "x", "explain":
		d.Mode = approval.RejectExplain
	}
	return d
}

// A lineReader reads lines on a goroutine of its own, which lives as long as the
// process: nothing can interrupt a read from a terminal.
type lineReader struct {
	lines       chan inputLine
	interactive bool
	prompted    atomic.Int64 // how many requests have been put on the screen
}

type inputLine struct {
	text     string
	prompted int64 // lineReader.prompted when the line was entered
}

func readLines(r io.Reader) *lineReader {
	l := &lineReader{lines: make(chan inputLine), interactive: isTerminal(r)}
	go func() {
		defer close(l.lines)
		s := bufio.NewScanner(r)
		for s.Scan() {
			l.lines <- inputLine{s.Text(), l.prompted.Load()}
		}
	}()
	return l
}
