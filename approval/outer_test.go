package approval

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
)

// outerFunc decides as it is told.
type outerFunc func(Call) (Decision, error)

func (f outerFunc) Decide(_ context.Context, c Call) (Decision, error) { return f(c) }

func (outerFunc) Check(Call) (Verdict, error) { return Verdict{}, errors.New("gone") }

func (outerFunc) Recorded(string) error { return nil }

// TestOuterPermitsWhatItWasShown: of what a call can be, that runs which was decided about, and
// nothing that was not.
func TestOuterPermitsWhatItWasShown(t *testing.T) {
	approved := func(digest string) func(Call) (Decision, error) {
		return func(Call) (Decision, error) { return Decision{Action: Approved, Digest: digest}, nil }
	}
	denied := &DeniedError{Decision: Decision{Action: Denied, Reason: "no"}, Code: CodeDenied}
	for name, row := range map[string]struct {
		decide outerFunc
		err    error // of the tool's check
		want   any   // nil: denied
	}{
		"the call":              {decide: approved("sha256:1"), want: "the plan"},
		"what nobody was shown": {decide: approved("sha256:unseen"), want: "less"},
		"an edit": {decide: func(c Call) (Decision, error) {
			edited, err := c.Revise(json.RawMessage(`{}`))
			return Decision{Action: Approved, Digest: edited.Digest}, err
		}, want: "the edit"},
		"an edit that was not made": {decide: approved("sha256:edit")},
		"another plan":              {decide: approved("sha256:2")},
		"no plan":                   {decide: approved("")},
		"no yes":                    {decide: func(Call) (Decision, error) { return Decision{Digest: "sha256:1"}, nil }},
		"a denial":                  {decide: func(Call) (Decision, error) { return Decision{}, denied }},
		"nobody there": {decide: func(Call) (Decision, error) {
			return Decision{Action: Approved, Digest: "sha256:1"}, errors.New("gone")
		}},
		"what the tool blocks": {decide: approved("sha256:1"), err: &Blocked{Reason: "never"}},
	} {
		call := writeCall().with(func(c *Call) {
			c.Err = row.err
			c.Unseen = func() (any, string) { return "less", "sha256:unseen" }
			c.Revise = func(json.RawMessage) (Call, error) { return Call{Subject: "the edit", Digest: "sha256:edit"}, nil }
		})
		c := NewController(Options{Outer: row.decide})
		for how, decide := range map[string]func(context.Context, Call) (Grant, error){"decide": c.Decide, "defer": c.Defer} {
			g, err := decide(context.Background(), call)
			var refused *DeniedError
			if (row.want == nil) != errors.As(err, &refused) || g.subject != row.want {
				t.Errorf("%s, %s: %v, %v", how, name, g.subject, err)
			}
		}
		if v := c.Check(call); v.Effect != Deny {
			t.Errorf("%s: check of who is gone: %+v", name, v)
		}
	}
}
