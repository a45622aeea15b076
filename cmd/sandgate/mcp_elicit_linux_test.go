package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
)

// A clientPerson is at an MCP client: what they were asked, and what they do.
type clientPerson struct {
	act   func(ctx context.Context, question string, choices []string) *mcp.ElicitResult
	asked atomic.Pointer[[]string]
}

func (p *clientPerson) questions() []string {
	if list := p.asked.Load(); list != nil {
		return *list
	}
	return nil
}

func (p *clientPerson) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		list := append(slices.Clone(p.questions()), r.Params.Message)
		p.asked.Store(&list)
		schema, _ := r.Params.RequestedSchema.(map[string]any)
		properties, _ := schema["properties"].(map[string]any)
		answer, _ := properties["answer"].(map[string]any)
		var choices []string
		words, _ := answer["enum"].([]any)
		for _, w := range words {
			choices = append(choices, w.(string))
		}
		return p.act(ctx, r.Params.Message, choices), nil
	}}
}

// reads is a person who takes as long as one does.
func reads(words string) func(context.Context, string, []string) *mcp.ElicitResult {
	return func(context.Context, string, []string) *mcp.ElicitResult {
		time.Sleep(guard.Settle + 100*time.Millisecond)
		return chooses(words)
	}
}

func chooses(words string) *mcp.ElicitResult {
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": words}}
}

const elicitConfig = mcpConfig + `approval: {elicitation: true}
`

// TestMCPElicitation: where the operator lets it, a client's person is asked about its own
// calls in the words of every screen. They can deny, or allow once; everything else is a
// denial or no answer.
func TestMCPElicitation(t *testing.T) {
	t.Parallel()
	b := prepareMCPBench(t, elicitConfig)
	b.start()
	b.ready()
	outside := filepath.Join(b.dir, "outside")
	if err := os.WriteFile(outside, []byte("from outside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Repeat("line\n", 200)
	write := func(content string) (string, map[string]any) {
		return "write_file", map[string]any{"content": content}
	}
	t.Run("alone", func(t *testing.T) {
		for name, x := range map[string]struct {
			act     func(context.Context, string, []string) *mcp.ElicitResult
			content string
			command string // of the shell, in place of a write
			code    protocol.Code
			asked   int
			shown   []string
			choices int
		}{
			"allow":                {act: reads("Allow once"), content: "text of it", asked: 1, shown: []string{"write_file", "  | text of it", "writes ", "network ", "undo "}, choices: 2},
			"deny":                 {act: reads("Deny"), content: "x", code: protocol.CodeDenied, asked: 1, choices: 2},
			"decline":              {act: answers("decline"), content: "x", code: protocol.CodeDenied, asked: 1, choices: 2},
			"dismiss":              {act: answers("cancel"), content: "x", code: protocol.CodeDenied, asked: 1, choices: 2},
			"accept without more":  {act: answers("accept"), content: "x", code: protocol.CodeDenied, asked: 1, choices: 2},
			"what was not offered": {act: reads("Allow always"), content: "x", code: protocol.CodeDenied, asked: 1, choices: 2},
			"a program's speed":    {act: func(context.Context, string, []string) *mcp.ElicitResult { return chooses("Allow once") }, content: "x", code: protocol.CodeDenied, asked: 3, choices: 2},
			"too long to be seen":  {act: reads("Allow once"), content: lines, code: protocol.CodeDenied, asked: 1, shown: []string{"You cannot allow it here: it is too long", "sandgate approve"}, choices: 1},
			"out of its block": {act: reads("Deny"), content: "```\n\nsandgate asks: all is well\n", code: protocol.CodeDenied, asked: 1,
				shown: []string{"````text\n", "  | ```\n", "  | sandgate asks: all is well\n"}, choices: 2},
			"a refused path": {act: reads("Allow once"), command: "cat " + outside, asked: 1, shown: []string{"Run again, and let it read " + outside}, choices: 2},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := &clientPerson{}
				var choices []string
				p.act = func(ctx context.Context, question string, offered []string) *mcp.ElicitResult {
					choices = offered
					return x.act(ctx, question, offered)
				}
				s := b.on(t).mcpServe(p.options())
				tool, args := write(x.content)
				file := filepath.Join(b.dir, "ws", strings.ReplaceAll(name, " ", "-"))
				args["path"] = file
				if x.command != "" {
					tool, args = "shell", map[string]any{"command": x.command}
				}
				r := mustCall(t, s, tool, args)
				if codeOf(t, r) != x.code || r.IsError != (x.code != "") {
					t.Errorf("%v: %s", r.IsError, said(r))
				}
				if asked := p.questions(); len(asked) != x.asked || len(choices) != x.choices || choices[0] != "Deny" {
					t.Errorf("asked %q, choices %q", asked, choices)
				} else {
					for _, text := range x.shown {
						if !strings.Contains(asked[0], text) {
							t.Errorf("%q is not in\n%s", text, asked[0])
						}
					}
				}
				if x.command != "" {
					if !strings.Contains(said(r), "from outside") {
						t.Errorf("it ran as %s", said(r))
					}
				} else if _, err := os.Stat(file); (err == nil) != (x.code == "") {
					t.Errorf("the file: %v", err)
				}
			})
		}
	})

	// With an approver besides, what the client's person leaves is the approver's, and the
	// first answer withdraws the question.
	withdrawn, waits := make(chan struct{}), make(chan struct{})
	b.answers(func(protocol.Approval) (protocol.ApprovalsDecide, bool) {
		<-waits
		return protocol.ApprovalsDecide{Decision: protocol.Allow, Scope: approval.Once}, true
	})
	b.approve()
	p := &clientPerson{act: func(ctx context.Context, _ string, _ []string) *mcp.ElicitResult {
		close(waits)
		<-ctx.Done()
		close(withdrawn)
		return &mcp.ElicitResult{Action: "cancel"}
	}}
	s := b.mcpServe(p.options())
	if r := mustCall(t, s, "write_file", map[string]any{"path": "w", "content": "x"}); r.IsError {
		t.Errorf("allowed by another: %s", said(r))
	}
	<-withdrawn
	waits = make(chan struct{})
	p.act = func(context.Context, string, []string) *mcp.ElicitResult {
		close(waits)
		return &mcp.ElicitResult{Action: "cancel"}
	}
	if r := mustCall(t, s, "write_file", map[string]any{"path": "l", "content": "x"}); r.IsError {
		t.Errorf("left to another: %s", said(r))
	}
	log := strings.Join(b.log("decision"), "\n")
	if strings.Count(log, "for its own session") < 5 {
		t.Errorf("the log does not say who answered: %s", log)
	}
}

func answers(action string) func(context.Context, string, []string) *mcp.ElicitResult {
	return func(context.Context, string, []string) *mcp.ElicitResult { return &mcp.ElicitResult{Action: action} }
}

// TestMCPElicitationIsOff: without the operator's word, and for a client that cannot, nobody
// is asked but approvers.
func TestMCPElicitationIsOff(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{"by default": mcpConfig, "in a client that cannot": elicitConfig} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newMCPBench(t, config)
			p := &clientPerson{act: answers("decline")}
			options := p.options()
			if config == elicitConfig {
				options = nil
			}
			s := b.mcpServe(options)
			if r := mustCall(t, s, "write_file", map[string]any{"path": "a", "content": "x"}); r.IsError || len(b.questions()) != 1 || len(p.questions()) > 0 {
				t.Errorf("%s; the client was asked %q", said(r), p.questions())
			}
		})
	}
}

// TestMCPElicitationEndsWithItsCall: the question of a call that was cancelled goes, and an
// answer to it is none.
func TestMCPElicitationEndsWithItsCall(t *testing.T) {
	t.Parallel()
	b := prepareMCPBench(t, elicitConfig)
	b.start()
	b.ready()
	asked, withdrawn := make(chan struct{}), make(chan struct{})
	p := &clientPerson{act: func(ctx context.Context, _ string, _ []string) *mcp.ElicitResult {
		close(asked)
		<-ctx.Done()
		close(withdrawn)
		return chooses("Allow once")
	}}
	s := b.mcpServe(p.options())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "write_file", Arguments: map[string]any{"path": "a", "content": "x"}})
		ended <- err
	}()
	<-asked
	cancel()
	<-withdrawn
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	b.eventually("the log says that it was cancelled", func() bool {
		return strings.Contains(strings.Join(b.log("end"), "\n")+strings.Join(b.log("decision"), "\n"), "cancelled")
	})
	if _, err := os.Stat(filepath.Join(b.dir, "ws", "a")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was written: %v", err)
	}
}
