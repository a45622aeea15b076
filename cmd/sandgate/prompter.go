package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// ttyPrompter asks the person at the controlling terminal. It never reads
// standard input, which belongs to the program, so nothing that is piped into
// `sandgate run` can be taken for an answer.
type ttyPrompter struct {
	mu sync.Mutex // one question at a time
}

func (t *ttyPrompter) Prompt(ctx context.Context, p approval.Pending) (approval.Answer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return approval.Answer{}, fmt.Errorf("no terminal to ask on: %w", err)
	}
	defer tty.Close()
	stop := context.AfterFunc(ctx, func() { tty.Close() })
	defer stop()
	ask(tty, p)
	line, err := bufio.NewReader(tty).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return approval.Answer{}, err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return approval.Answer{Allow: true, Approver: "terminal"}, nil
	}
	return approval.Answer{Approver: "terminal"}, nil
}

// ask shows the request as every other approver sees it: nothing in it can look
// like the question, which is ours.
func ask(w io.Writer, p approval.Pending) {
	a := protocol.Approval{
		ID: protocol.ApprovalID(p.ID), SessionID: protocol.SessionID(p.SessionID), Agent: p.Agent, Tool: protocol.ToolName(p.ToolName),
		Description: p.Description, Payload: p.Payload, Presentation: p.Presentation, Details: p.Details,
		PlanDigest: p.Digest, Created: p.Requested, Expires: p.Expires,
	}
	fmt.Fprintf(w, "\nsandgate asks about\n%sallow? [y]es, [n]o (default n): ", fit(w, present.Essence(&a)))
}
