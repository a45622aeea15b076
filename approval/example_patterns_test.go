package approval_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/sandgate/sandgate/approval"
)

// A program of one's own, without sandgate: a file tool that says what it touches,
// an approver that has a pattern remembered, and a denial that nothing erases.
func Example_patterns() {
	ctx := context.Background()
	c := approval.NewController(approval.Options{Prompter: careful{}})
	for _, file := range []string{"/w/notes/a.md", "/w/notes/b.md", "/w/notes/b.sh", "/w/secret/c.md"} {
		grant, err := c.Decide(ctx, approval.Call{
			Request: &approval.Request{ToolName: "write", Description: "Write " + file, Payload: map[string]any{"path": file}},
			Subject: file,
			Reach: approval.Reach{
				Elements: []approval.Element{{Kind: approval.PathGlob, Name: file}},
				Offers: func() []approval.Pattern {
					dir := file[:strings.LastIndexByte(file, '/')]
					return []approval.Pattern{{Kind: approval.PathGlob, Value: dir + "/*.md"}}
				},
			},
		})
		if err != nil {
			fmt.Println(err)
			continue
		}
		written, err := approval.Granted[string](grant)
		fmt.Println("written:", written, err)
	}
	answers, _ := c.Remembered()
	for _, m := range answers {
		fmt.Println(m.Key.Effect, m.Pattern.Text()+", used", m.Hits, "times")
	}
	// Output:
	// asked: Write /w/notes/a.md
	// written: /w/notes/a.md <nil>
	// written: /w/notes/b.md <nil>
	// asked: Write /w/notes/b.sh
	// denied: rejected by careful: not a script
	// asked: Write /w/secret/c.md
	// denied: rejected by careful: never there
	// allow every .md file in /w/notes, used 1 times
	// deny every .md file in /w/secret, used 0 times
}

// careful allows notes, and wants that remembered.
type careful struct{}

func (careful) Prompt(_ context.Context, p approval.Pending) (approval.Answer, error) {
	fmt.Println("asked:", approval.EscapeLine(p.Description))
	a := approval.Answer{Approver: "careful", Reject: approval.RejectSoft, Feedback: "not a script"}
	pattern := p.Offers[0].Pattern()
	if pattern.Kind == approval.WholeTool { // there is no narrower one
		return a, nil
	}
	a.Scope, a.Pattern = approval.Session, &pattern
	if strings.HasPrefix(pattern.Value, "/w/secret/") {
		a.Feedback = "never there"
		return a, nil
	}
	return approval.Answer{Allow: true, Approver: "careful", Scope: a.Scope, Pattern: a.Pattern}, nil
}
