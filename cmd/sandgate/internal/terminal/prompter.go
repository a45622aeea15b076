package terminal

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
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
	"github.com/sandgate/sandgate/ui/present"
)

// Prompter asks the person at the controlling terminal. It never reads
// standard input, which belongs to the program, so nothing that is piped into
// `sandgate run` can be taken for an answer. Under the rule of ui/guard it asks only once
// the request has stood for long enough and nobody is typing: a line that was typed ahead, or only begun,
// was meant for something else.
type Prompter struct {
	mu   sync.Mutex // one question at a time
	Open func() (*os.File, error)
	// Quiet keeps the program's output from the terminal until done is called. It is nil where none
	// gets there.
	Quiet func() (done func(), err error)
	Guard guard.Guard
	begun time.Time // of the guard's clock
	gone  present.Gone
}

func NewPrompter() *Prompter {
	return &Prompter{Open: func() (*os.File, error) { return os.OpenFile("/dev/tty", os.O_RDWR, 0) }, begun: time.Now()}
}

func (t *Prompter) Now() time.Duration { return time.Since(t.begun) }

func (t *Prompter) Prompt(ctx context.Context, p approval.Pending) (approval.Answer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tty, err := t.Open()
	if err != nil {
		return approval.Answer{}, fmt.Errorf("no terminal to ask on: %w", err)
	}
	defer tty.Close()
	stop := context.AfterFunc(ctx, func() { tty.Close() })
	defer stop()
	if t.Quiet != nil {
		done, err := t.Quiet()
		if err != nil {
			return approval.Answer{}, err
		}
		defer done()
	}
	for t.Guard.Held() {
		line, err := t.Read(ctx, tty, "\nThe request above has ended, and nothing ran. Press Enter to continue: ")
		if err != nil {
			return approval.Answer{}, err
		}
		if line == "" {
			t.Guard.Release(t.Now(), t.Now(), guard.Enter)
		}
	}
	return t.ask(ctx, tty, p)
}

// ask shows the request as every other approver sees it, until it is answered: nothing in
// it can look like the question, which is ours.
func (t *Prompter) ask(ctx context.Context, tty *os.File, p approval.Pending) (approval.Answer, error) {
	a := requestOf(p)
	text := "\nsandgate asks about\n" + LookTwice(&t.gone, &a) + present.Essence(&a)
	fmt.Fprint(Fitted{tty}, text)
	unread := Unread{Scrolled: Scrolled(tty, text)}
	for round := 0; ; round++ {
		t.Guard.Look(t.Now(), p.ID, strconv.Itoa(round))
		line, err := t.Read(ctx, tty, "allow? [y]es, [n]o, [v]iew all (default n): ")
		if ctx.Err() != nil {
			t.Guard.Ended(t.Now())
			if time.Now().Before(p.Expires) {
				t.gone.Add(&a, true, time.Now())
			}
		}
		if err != nil {
			return approval.Answer{}, err
		}
		allow := (line == "y" || line == "yes") && t.Guard.Answer(t.Now(), t.Now(), false)
		switch {
		case line == "v":
			unread.Known = true
			fmt.Fprint(Fitted{tty}, present.Text(&a, time.Now(), true))
			continue
		case allow:
			if why := unread.Holds(&a); why != "" {
				fmt.Fprint(Fitted{tty}, why)
				continue
			}
		}
		return approval.Answer{Allow: allow, Approver: "terminal"}, nil
	}
}

// Read asks as soon as an answer counts, and takes a line that was typed after that, alone. Of several lines at once
// none answers: somebody has pasted a text.
func (t *Prompter) Read(ctx context.Context, tty *os.File, question string) (string, error) {
	for {
		line, err := t.readOne(ctx, tty, question)
		if err != nil {
			return "", err
		}
		pasted := false
		if strings.HasSuffix(line, "\n") {
			if pasted, err = MoreFollows(tty); err != nil {
				return "", err
			}
		}
		if !pasted {
			return strings.ToLower(strings.TrimSpace(line)), nil
		}
		fmt.Fprint(tty, OneLine)
	}
}

func (t *Prompter) readOne(ctx context.Context, tty *os.File, question string) (string, error) {
	for told, typed := false, true; typed; { // nobody knows whether somebody is typing, until they have paused
		t.Guard.Key(t.Now(), t.Now(), false)
		select {
		case <-time.After(t.Guard.Due() - t.Now()):
		case <-ctx.Done():
			return "", ctx.Err()
		}
		var err error
		if typed, err = DropTyped(tty); err != nil {
			return "", fmt.Errorf("drop what was typed ahead: %w", err)
		}
		if typed && !told {
			fmt.Fprint(Fitted{tty}, WasTyping)
			told = true
		}
	}
	fmt.Fprint(tty, question)
	line, err := bufio.NewReader(tty).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return line, nil
}

// requestOf is a request as the approvers of a supervisor see it.
func requestOf(p approval.Pending) protocol.Approval {
	return protocol.Approval{
		ID: protocol.ApprovalID(p.ID), SessionID: protocol.SessionID(p.SessionID), Agent: p.Agent, Tool: protocol.ToolName(p.ToolName),
		Description: p.Description, Payload: p.Payload, Presentation: p.Presentation, Details: p.Details,
		PlanDigest: p.Digest, Created: p.Requested, Expires: p.Expires,
	}
}

// Confirm asks only the person at the terminal: piped input is not an answer. how says
// what to do without a terminal.
func Confirm(command, question, how string) error {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return cli.WithHint(cli.UsageError(fmt.Errorf("%s: no terminal to ask on: %w", command, err)), how)
	}
	defer tty.Close()
	switch line, err := ConfirmOn(tty, question); {
	case err != nil:
		return cli.WithStatus(cli.ExitInternal, err)
	case line == "y", line == "yes":
		return nil
	}
	return cli.WithStatus(cli.ExitDenied, fmt.Errorf("%s: nothing was done", command))
}

// ConfirmOn asks under the rule of the screens: a line that was typed before the question had stood for long
// enough was meant for something else, such as the program that has just ended.
func ConfirmOn(tty *os.File, question string) (string, error) {
	p := NewPrompter()
	fmt.Fprint(Fitted{tty}, question)
	p.Guard.Look(p.Now(), question, "")
	return p.Read(context.Background(), tty, " [y]es, [n]o (default n): ")
}
