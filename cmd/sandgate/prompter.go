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

func ask(w io.Writer, p approval.Pending) {
	fmt.Fprintf(w, "\nsandgate: %s asks: %s\n", approval.EscapeLine(p.ToolName), approval.EscapeLine(p.Description))
	if p.Presentation != nil {
		fmt.Fprintln(w, approval.Escape(p.Presentation.Content))
	}
	for _, k := range []string{"directory", "may write", "network", "rule"} {
		if v := p.Details[k]; v != "" {
			fmt.Fprintf(w, "  %s: %s\n", k, approval.EscapeLine(v))
		}
	}
	fmt.Fprint(w, "allow? [y]es, [n]o (default n): ")
}
