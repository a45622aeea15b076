package mcp

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/guard"
)

// TestNothingOfAnAgentsIsOutsideOfTheBlock: a client may draw the question as Markdown, and what
// is said about a request has names and words of the agent's in it.
func TestNothingOfAnAgentsIsOutsideOfTheBlock(t *testing.T) {
	const hostile = "b](http:evil.example)<details>`**fine**``` "
	for name, a := range map[string]*protocol.Approval{
		"whole":   {ID: "1", Tool: "shell", Description: "Run " + hostile},
		"unshown": {ID: "2", Tool: "shell", Description: "Run it", Presentation: &approval.Presentation{Type: approval.Text, Content: "x", Metadata: map[string]any{approval.Unshown: hostile}}},
	} {
		message := form(a, "Look twice: it differs in "+hostile+" now.\n").Message
		outside, block, fenced := strings.Cut(message, "```")
		if outside != asks || !fenced || !strings.Contains(block, "evil.example") || !strings.Contains(block, "Look twice") {
			t.Errorf("%s: %q outside of\n%s", name, outside, message)
		}
		// The fence is longer than any in the text, and is closed at the end alone.
		fence := message[len(outside):strings.Index(message, "text\n")]
		if strings.Count(message, fence) != 2 || !strings.HasSuffix(message, "\n"+fence+"\n") {
			t.Errorf("%s: the block ends within\n%s", name, message)
		}
	}
}

// TestManyWithdrawnHideNone: an agent withdraws what its person reads behind a flood of others that wait. What looks like
// that comes with a warning all the same.
func TestManyWithdrawnHideNone(t *testing.T) {
	e := &elicitation{asked: map[protocol.ApprovalID]context.CancelFunc{}, shown: "read"}
	request := func(id protocol.ApprovalID, command string) *protocol.Approval {
		return &protocol.Approval{ID: id, Tool: "shell", Payload: map[string]any{"command": command}}
	}
	withdraw := func(a *protocol.Approval) {
		e.asked[a.ID] = func() {}
		e.event(client.Event{Kind: client.Resolved, Approval: *a})
	}
	withdraw(request("read", "make test"))
	for i := range 500 {
		withdraw(request(protocol.ApprovalID(fmt.Sprint("flood", i)), strings.Repeat("other ", 9)))
	}
	if like := e.gone.Like(request("next", "make tests"), time.Now()); !strings.Contains(like, "withdrawn") {
		t.Errorf("%q", like)
	}
}

// TestSessionsShareAPerson: who is about to answer a question of one session, which is withdrawn, does not answer the next one
// in another session of their client: it takes an answer as late as one in the same session.
func TestSessionsShareAPerson(t *testing.T) {
	last := new(lately)
	first, second := &elicitation{last: last, began: time.Now()}, &elicitation{last: last, began: time.Now()}
	first.look("alone", 0)
	if wait := first.guard.Due() - first.now(); wait > guard.Settle {
		t.Errorf("the first question waits %v", wait)
	}
	last.note() // it goes
	second.look("next", 0)
	if wait := second.guard.Due() - second.now(); wait < guard.Other-100*time.Millisecond {
		t.Errorf("a question in another session waits %v", wait)
	}
}
