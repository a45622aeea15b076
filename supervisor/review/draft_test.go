package review

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/bounds"
)

// TestADraftIsAllThatACallMayWrite: also what a person has let a call write is refused where
// the draft does not cover it.
func TestADraftIsAllThatACallMayWrite(t *testing.T) {
	for _, row := range []struct {
		paths map[string]sandboxprofile.Rights
		ok    bool
	}{
		{map[string]sandboxprofile.Rights{"/usr": sandboxprofile.Read, "/ws": sandboxprofile.Read | sandboxprofile.Write}, true},
		{map[string]sandboxprofile.Rights{"/ws/below": sandboxprofile.Write, "/tmp": sandboxprofile.Write}, true},
		{map[string]sandboxprofile.Rights{"/ws": sandboxprofile.Write, "/home/me/notes": sandboxprofile.Write}, false},
		{map[string]sandboxprofile.Rights{"/wsx": sandboxprofile.Write}, false},
	} {
		err := Within([]string{"/ws"}, sandboxprofile.Profile{Paths: row.paths, Scratch: []string{"/tmp"}})
		if (err == nil) != row.ok {
			t.Errorf("%v: %v", row.paths, err)
		}
	}
	if err := Within(nil, sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{"/home": sandboxprofile.Write}}); err != nil {
		t.Errorf("without a draft: %v", err)
	}
}

// TestWhatIsAskedOnADraft: whether a draft is kept is a question of its own, whatever is allowed.
func TestWhatIsAskedOnADraft(t *testing.T) {
	all, err := approval.NewRules(approval.Rule{Effect: approval.Allow, Tool: "*"})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]approval.Options{
		"a mode":  {Mode: approval.ApproveAll, NoApprover: approval.NoApproverDeny},
		"a rule":  {Rules: all, NoApprover: approval.NoApproverDeny},
		"nothing": {NoApprover: approval.NoApproverDeny},
	} {
		q, err := Question("d", Changes{Names: 1, Digest: "x"}, []string{Everything})
		if err != nil {
			t.Fatal(err)
		}
		q.SessionID, q.Mode = "s", bounds.Stricter(approval.ApproveAll, approval.Interactive)
		c := approval.NewController(o)
		if err := c.OpenSession("s"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Decide(context.Background(), q); err == nil {
			t.Errorf("%s has a draft kept that nobody has seen", name)
		} else if !strings.Contains(err.Error(), "no approver is connected") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A movedDraft works on a copy of /ws at /copy.
type movedDraft struct{ Draft }

func (movedDraft) ID() string     { return "d" }
func (movedDraft) Copied() string { return "" }
func (movedDraft) Of(path string) string {
	if rest, below := strings.CutPrefix(path, "/copy"); below {
		return "/ws" + rest
	}
	return path
}

// TestADraftsCallIsOneOfTheSession: what is decided about a call on a draft is decided in the
// session whose draft it is, by the names of the workspace, and for that call alone, whatever an
// approver makes of it.
func TestADraftsCallIsOneOfTheSession(t *testing.T) {
	c := approval.NewController(approval.Options{NoApprover: approval.NoApproverDeny})
	if err := c.OpenSession("outside"); err != nil {
		t.Fatal(err)
	}
	defer c.Attach()()
	decider := Deciding{Approvals: c, Of: Asker{SessionID: "outside", Agent: "a", Mode: approval.Interactive}, Draft: movedDraft{}}
	write := func(path string) approval.Call {
		return approval.Call{
			SessionID: "inside", ToolName: "write_file", Digest: path, Mode: approval.ApproveAll,
			Request: &approval.Request{ToolName: "write_file", Payload: map[string]any{"path": path}},
			Reach:   approval.Reach{Elements: []approval.Element{{Kind: approval.PathGlob, Name: path}}},
		}
	}
	denied, pattern := write("/ws/a"), approval.Pattern{Kind: approval.PathGlob, Value: "/ws/a"}
	denied.SessionID, denied.Asked = "outside", func(id string) {
		if _, err := c.Answer(id, approval.Answer{Scope: approval.Session, Pattern: &pattern, Approver: "test"}); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Decide(context.Background(), denied); err == nil {
		t.Fatal("the denial is an allow")
	}
	for path, want := range map[string]approval.Effect{"/copy/a": approval.Deny, "/copy/b": approval.Ask} {
		if v, err := decider.Check(write(path)); err != nil || v.Effect != want {
			t.Errorf("%s: %+v, %v", path, v, err)
		}
	}

	asked := write("/copy/b")
	asked.Revise = func(json.RawMessage) (approval.Call, error) { return write("/copy/c"), nil }
	answered := 0
	asked.Asked = func(id string) {
		own := approval.Pattern{Kind: approval.PathGlob, Value: "/copy/c"}
		for _, a := range []approval.Answer{{Scope: approval.Session}, {Scope: approval.Agent, Pattern: &own}} {
			a.Allow, a.Args, a.Approver = true, json.RawMessage(`{}`), "test"
			if _, err := c.Answer(id, a); err == nil || !strings.Contains(err.Error(), onceOnDraft) {
				t.Errorf("%+v: %v", a, err)
			}
		}
		if _, err := c.Answer(id, approval.Answer{Allow: true, Args: json.RawMessage(`{}`), Approver: "test"}); err != nil {
			t.Error(err)
		}
		answered++
	}
	if d, err := decider.Decide(context.Background(), asked); err != nil || d.Digest != "/copy/c" || answered != 1 || d.SessionID != "outside" {
		t.Errorf("%+v, %v, asked %d times", d, err, answered)
	}
}
