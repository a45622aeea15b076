package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
	"github.com/sandgate/sandgate/ui/present"
)

// ttyPrompter asks the person at the controlling terminal. It never reads
// standard input, which belongs to the program, so nothing that is piped into
// `sandgate run` can be taken for an answer. Under the rule of ui/guard it asks only once
// the request has stood for long enough and nobody is typing: a line that was typed ahead, or only begun,
// was meant for something else.
type ttyPrompter struct {
	mu   sync.Mutex // one question at a time
	open func() (*os.File, error)
	// quiet keeps the program's output from the terminal until done is called. It is nil where none
	// gets there.
	quiet func() (done func(), err error)
	guard guard.Guard
	begun time.Time // of the guard's clock
	gone  present.Gone
}

func newTTYPrompter() *ttyPrompter {
	return &ttyPrompter{open: func() (*os.File, error) { return os.OpenFile("/dev/tty", os.O_RDWR, 0) }, begun: time.Now()}
}

func (t *ttyPrompter) now() time.Duration { return time.Since(t.begun) }

func (t *ttyPrompter) Prompt(ctx context.Context, p approval.Pending) (approval.Answer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tty, err := t.open()
	if err != nil {
		return approval.Answer{}, fmt.Errorf("no terminal to ask on: %w", err)
	}
	defer tty.Close()
	stop := context.AfterFunc(ctx, func() { tty.Close() })
	defer stop()
	if t.quiet != nil {
		done, err := t.quiet()
		if err != nil {
			return approval.Answer{}, err
		}
		defer done()
	}
	for t.guard.Held() {
		line, err := t.read(ctx, tty, "\nThe request above has ended, and nothing ran. An empty line goes on: ")
		if err != nil {
			return approval.Answer{}, err
		}
		if line == "" {
			t.guard.Release(t.now(), t.now(), guard.Enter)
		}
	}
	return t.ask(ctx, tty, p)
}

// ask shows the request as every other approver sees it, until it is answered: nothing in
// it can look like the question, which is ours.
func (t *ttyPrompter) ask(ctx context.Context, tty *os.File, p approval.Pending) (approval.Answer, error) {
	a := requestOf(p)
	text := "\nsandgate asks about\n" + lookTwice(&t.gone, &a) + present.Essence(&a)
	fmt.Fprint(fitted{tty}, text)
	unread := unread{scrolled: scrolled(tty, text)}
	for round := 0; ; round++ {
		t.guard.Look(t.now(), p.ID, strconv.Itoa(round))
		line, err := t.read(ctx, tty, "allow? [y]es, [n]o, [v]iew all (default n): ")
		if ctx.Err() != nil {
			t.guard.Ended(t.now())
			if time.Now().Before(p.Expires) {
				t.gone.Add(&a, true, time.Now())
			}
		}
		if err != nil {
			return approval.Answer{}, err
		}
		allow := (line == "y" || line == "yes") && t.guard.Answer(t.now(), t.now(), false)
		switch {
		case line == "v":
			unread.known = true
			fmt.Fprint(fitted{tty}, present.Text(&a, time.Now(), true))
			continue
		case allow:
			if why := unread.holds(&a); why != "" {
				fmt.Fprint(fitted{tty}, why)
				continue
			}
		}
		return approval.Answer{Allow: allow, Approver: "terminal"}, nil
	}
}

// read asks as soon as an answer counts, and takes a line that was typed after that.
func (t *ttyPrompter) read(ctx context.Context, tty *os.File, question string) (string, error) {
	for told, typed := false, true; typed; { // nobody knows whether somebody is typing, until they have paused
		t.guard.Key(t.now(), t.now(), false)
		select {
		case <-time.After(t.guard.Due() - t.now()):
		case <-ctx.Done():
			return "", ctx.Err()
		}
		var err error
		if typed, err = dropTyped(tty); err != nil {
			return "", fmt.Errorf("drop what was typed ahead: %w", err)
		}
		if typed && !told {
			fmt.Fprint(fitted{tty}, wasTyping)
			told = true
		}
	}
	fmt.Fprint(tty, question)
	line, err := bufio.NewReader(tty).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.ToLower(strings.TrimSpace(line)), nil
}

// requestOf is a request as the approvers of a supervisor see it.
func requestOf(p approval.Pending) protocol.Approval {
	return protocol.Approval{
		ID: protocol.ApprovalID(p.ID), SessionID: protocol.SessionID(p.SessionID), Agent: p.Agent, Tool: protocol.ToolName(p.ToolName),
		Description: p.Description, Payload: p.Payload, Presentation: p.Presentation, Details: p.Details,
		PlanDigest: p.Digest, Created: p.Requested, Expires: p.Expires,
	}
}
