package supervisor

import (
	"context"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestADraftIsAllThatACallMayWrite: also what a person has let a call write is refused where
// the draft does not lie over it.
func TestADraftIsAllThatACallMayWrite(t *testing.T) {
	s := &Supervisor{cfg: Config{DraftOver: []string{"/ws"}}}
	for _, row := range []struct {
		paths map[string]sandboxprofile.Rights
		ok    bool
	}{
		{map[string]sandboxprofile.Rights{"/usr": sandboxprofile.Read, "/ws": sandboxprofile.Read | sandboxprofile.Write}, true},
		{map[string]sandboxprofile.Rights{"/ws/below": sandboxprofile.Write, "/tmp": sandboxprofile.Write}, true},
		{map[string]sandboxprofile.Rights{"/ws": sandboxprofile.Write, "/home/me/notes": sandboxprofile.Write}, false},
		{map[string]sandboxprofile.Rights{"/wsx": sandboxprofile.Write}, false},
	} {
		err := s.withinDraft(sandboxprofile.Profile{Paths: row.paths, Scratch: []string{"/tmp"}})
		if (err == nil) != row.ok {
			t.Errorf("%v: %v", row.paths, err)
		}
	}
	if err := (&Supervisor{}).withinDraft(sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{"/home": sandboxprofile.Write}}); err != nil {
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
		q, err := keepQuestion("d", DraftChanges{Names: 1, Digest: "x"}, []string{everything})
		if err != nil {
			t.Fatal(err)
		}
		q.SessionID, q.Mode = "s", stricter(approval.ApproveAll, approval.Interactive)
		c := approval.NewController(o)
		if err := c.OpenSession("s"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Decide(context.Background(), q); err == nil {
			t.Errorf("%s has a draft kept that nobody has seen", name)
		} else if !strings.Contains(err.Error(), "nobody is connected") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
