package approval_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/sandgate/sandgate/approval"
)

// person answers from a list, and stands for a terminal or a chat window.
type person struct{ answers []approval.Answer }

func (p *person) Prompt(_ context.Context, r approval.Pending) (approval.Answer, error) {
	fmt.Printf("? %s %v\n", approval.EscapeLine(r.Description), r.Payload)
	a := p.answers[0]
	p.answers = p.answers[1:]
	return a, nil
}

// A Go function becomes a tool that asks before it sends, and the body of the
// mail stays out of the question and of what is remembered.
func ExampleRequire() {
	send := approval.Require(
		approval.NewTool("send_email", func(_ context.Context, args map[string]any) (any, error) {
			return fmt.Sprintf("sent to %v", args["to"]), nil
		}),
		approval.Describe(func(args map[string]any) string { return fmt.Sprintf("Send email to %v", args["to"]) }),
		approval.Exclude("body"),
	)
	c := approval.NewController(approval.Options{Prompter: &person{[]approval.Answer{
		{Allow: true, Scope: approval.Session},
		{Reject: approval.RejectSoft, Feedback: "ask Bob first"},
	}}})

	for _, mail := range []map[string]any{
		{"to": "ann@example.org", "body": "hello"},
		{"to": "ann@example.org", "body": "hello again"},
		{"to": "all@example.org", "body": "hello everybody"},
	} {
		result, err := c.Run(context.Background(), send, mail, approval.Call{})
		var denied *approval.DeniedError
		if errors.As(err, &denied) {
			fmt.Printf("%v\n  to the model: %s\n", denied, denied.Hint)
			continue
		}
		fmt.Println(result)
	}
	// Output:
	// ? Send email to ann@example.org map[to:ann@example.org]
	// sent to ann@example.org
	// sent to ann@example.org
	// ? Send email to all@example.org map[to:all@example.org]
	// denied: rejected by prompter: ask Bob first
	//   to the model: The user rejected this call. Go on without it. Feedback: ask Bob first
}

// A program with its own tools calls Decide and runs what the grant carries.
func ExampleController_Decide() {
	c := approval.NewController(approval.Options{Mode: approval.ApproveAll})
	argv := []string{"git", "status"}
	grant, err := c.Decide(context.Background(), approval.Call{
		Request: approval.Simple("shell", map[string]any{"argv": argv}),
		Subject: argv,
	})
	approved, _ := approval.Granted[[]string](grant)
	fmt.Println(approved, grant.Decision().Action, err)

	grant, err = c.Decide(context.Background(), approval.Call{
		ToolName: "shell", Subject: []string{"rm", "-rf", "/"},
		Err: &approval.Blocked{Reason: "rm is not allowed"},
	})
	fmt.Println(err)
	_, err = approval.Granted[[]string](grant) // a grant that is none carries nothing
	fmt.Println(err != nil)
	// Output:
	// [git status] approved <nil>
	// denied: rm is not allowed
	// true
}
