package client_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// An agent: it makes a call, shows the output as it comes, and says how it ended.
func Example_agent() {
	socket, stop := supervisor() // a program leaves the path empty: the user's own supervisor
	defer stop()

	ctx := context.Background()
	agent := client.Reconnecting{Path: socket, Open: protocol.SessionOpen{Agent: "my-agent"}}
	defer agent.Close()
	show := client.OnOutput(func(o protocol.ToolOutput) { fmt.Printf("%s", o.Bytes()) })
	r, err := agent.Call(ctx, "shell", map[string]any{"command": "go test ./..."}, show)
	if err != nil {
		log.Fatal(err) // a *protocol.Error has a code, and a hint for the model
	}
	fmt.Println("exit status", r.ExitCode)
	// Output:
	// ok  	example.org/m	0.1s
	// exit status 0
}

// An approver: it lets files be read, denies everything else softly, and outlives
// restarts of the supervisor.
func Example_approver() {
	socket, stop := supervisor()
	defer stop()

	ctx, done := context.WithCancel(context.Background())
	err := client.Approve(ctx, socket, func(_ context.Context, _ *client.Approver, a protocol.Approval) (protocol.ApprovalsDecide, bool) {
		switch a.Tool {
		case "read_file":
			return protocol.ApprovalsDecide{Decision: protocol.Allow}, true
		case "farewell": // only this example has one; a program goes on
			done()
			return protocol.ApprovalsDecide{}, false
		}
		return protocol.ApprovalsDecide{Decision: protocol.Deny, Mode: "reject_soft", Feedback: "only reading, please"}, true
	})
	fmt.Println("ended:", err)
	// Output:
	// allow r1
	// deny r2 only reading, please
	// ended: context canceled
}

// A program that has work of its own between calls waits for a supervisor that is
// being restarted, for a while.
func ExampleReconnecting() {
	agent := client.Reconnecting{Path: "/nowhere/agent.sock", Open: protocol.SessionOpen{Agent: "my-agent"}, Wait: 10 * time.Millisecond}
	_, err := agent.Call(context.Background(), "read_file", map[string]any{"path": "README.md"})
	fmt.Println(err)
	// Output:
	// connect to the supervisor at "/nowhere/agent.sock": dial unix /nowhere/agent.sock: connect: no such file or directory
}

// supervisor is one that runs every command well, and asks a few things.
func supervisor() (socket string, stop func()) {
	return client.FakeSupervisor(func(r client.FakeRequest) {
		switch r.Method {
		case protocol.MethodSessionOpen:
			r.Reply(protocol.SessionOpened{SessionID: "s-1"})
		case protocol.MethodToolsCall:
			var p protocol.ToolsCall
			if err := protocol.UnmarshalParams(r.Message, &p); err != nil {
				log.Fatal(err)
			}
			r.Notify(protocol.MethodToolOutput, protocol.NewToolOutput(p.CallID, protocol.Stdout, []byte("ok  \texample.org/m\t0.1s\n")))
			r.Reply(protocol.CallResult{})
		case protocol.MethodApprovalsSubscribe:
			for _, a := range []protocol.Approval{{ID: "r1", Tool: "read_file"}, {ID: "r2", Tool: "shell"}, {ID: "r3", Tool: "farewell"}} {
				r.Notify(protocol.MethodApprovalRequested, protocol.ApprovalEvent{Approval: a})
			}
			r.Reply(protocol.ApprovalsList{})
		case protocol.MethodApprovalsDecide:
			var p protocol.ApprovalsDecide
			if err := protocol.UnmarshalParams(r.Message, &p); err != nil {
				log.Fatal(err)
			}
			fmt.Println(strings.TrimSpace(fmt.Sprint(p.Decision, " ", p.ID, " ", p.Feedback)))
			r.Reply(protocol.ApprovalsDecided{Results: []protocol.Decided{{ID: p.ID}}})
		}
	})
}
