package supervisor

import (
	"context"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// reviewedAfter is the tool shell whose lines that begin with true are reviewed.
type reviewedAfter struct{ *shell.Tool }

func (r reviewedAfter) Plan(c tools.Call) (tools.Proposal, error) {
	p, err := r.Tool.Plan(c)
	p.Review = strings.HasPrefix(c.String("command"), "true")
	return p, err
}

// TestAnEditLeadsAroundNoReview: a call that is to be reviewed is not made of one that is not.
func TestAnEditLeadsAroundNoReview(t *testing.T) {
	f := newFixture(t, setup{fallback: careful, shell: func(sh *shell.Tool) tools.Tool { return reviewedAfter{sh} }})
	f.answer(t, func(p approval.Pending) {
		edited := approval.Answer{Allow: true, Approver: "test", Args: []byte(command("true; touch y"))}
		if _, err := f.approvals.Answer(p.ID, edited); err == nil || !strings.Contains(err.Error(), "has to be reviewed") {
			t.Errorf("edited: %v", err)
		}
		edited.Args = []byte(command("touch z"))
		f.mustAnswer(t, p, edited)
	})
	if _, e := f.call(context.Background(), "shell", command("touch x")); e != nil {
		t.Errorf("the twin: %v", e)
	}
}
