package client_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// An agent: one call, its output as it comes, and what the model is told when
// it is refused.
func Example_agent() {
	ctx := context.Background()
	a, err := client.DialAgent(ctx, "", client.WithProgram("my-agent", "1.0"))
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	s, err := a.OpenSession(ctx, protocol.SessionOpen{Agent: "my-agent"})
	if err != nil {
		log.Fatal(err)
	}
	r, err := s.Call(ctx, "shell", map[string]any{"command": "go test ./..."},
		client.OnOutput(func(o protocol.ToolOutput) { os.Stdout.Write(o.Bytes()) }))
	if err != nil {
		log.Fatal(err) // a *protocol.Error has a code, and a hint for the model
	}
	fmt.Println("exit status", r.ExitCode)
}

// An approver: it allows what reads, and denies the rest softly.
func Example_approver() {
	ctx := context.Background()
	p, err := client.DialApprover(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer p.Close()
	events, err := p.Subscribe(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for e := range events {
		if e.Kind != client.Requested {
			continue
		}
		d := protocol.ApprovalsDecide{ID: e.Approval.ID, Decision: protocol.Deny, Mode: "reject_soft", Feedback: "only reading, please"}
		if e.Approval.Tool == "read_file" {
			d = protocol.ApprovalsDecide{ID: e.Approval.ID, Decision: protocol.Allow}
		}
		if _, err := p.Decide(ctx, d); err != nil {
			log.Print(err) // somebody else may have answered first
		}
	}
}
