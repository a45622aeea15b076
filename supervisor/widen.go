package supervisor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/supervisor/widen"
	"github.com/sandgate/sandgate/tools"
)

// A program that the sandbox refused a path may need just that path. Then a person who is
// there is asked about it, by name, and a yes runs the call once more, with that one thing
// and no other. What the first run did stays done, and the question says so.

// maxWidened is how often one call may ask: a program decides by itself what it complains of.
const maxWidened = 3

// runWidened runs a plan, and once more for each thing that a person adds to it.
func (s *Supervisor) runWidened(ctx context.Context, c *call, plan tools.Plan) error {
	tried := map[string]bool{}
	for {
		err := s.runOnce(ctx, c, plan)
		if err != nil || len(tried) == maxWidened || !s.mayWiden(c, plan) {
			return err
		}
		w, ok := widen.Policy{Operator: s.cfg.Operator, Own: s.cfg.Own, Withheld: c.proposal.Withheld}.First(c.violations, plan)
		if !ok || tried[w.String()] {
			return nil
		}
		tried[w.String()] = true
		grant, err := s.askWider(ctx, c, w)
		var denied *approval.DeniedError
		switch {
		case errors.As(err, &denied):
			if failure.EndsBatch(denied.Decision) {
				c.denied(denied.Decision)
				return denied
			}
			return nil // the result says what was refused
		case err != nil:
			return err
		}
		if plan, err = s.approvedPlan(grant); err != nil {
			return err
		}
		if now, err := filepath.EvalSymlinks(w.Path); err != nil || now != w.Path {
			return failure.Drift(fmt.Errorf("%s is not what it was", w.Path))
		}
		x, _ := approval.Granted[subject](grant) // as in approvedPlan
		c.shown, c.proposal.Plan, c.digest, c.profile = x.Proposal, plan, grant.Digest(), s.profiles.Known(plan.Profile)
		c.violations, c.structured = nil, nil
		c.warnings = append(slices.Clone(c.warnings), "This is the second run: a person let it "+w.String()+", which the first one was refused.")
	}
}

func (s *Supervisor) runOnce(ctx context.Context, c *call, plan tools.Plan) error {
	box, err := s.confine(ctx, c, plan)
	if err != nil {
		return err
	}
	defer s.frozen.Leave(c) // a second run has a sandbox of its own
	defer box.Close()
	return s.run(ctx, c, plan, box)
}

// mayWiden reports whether a person may be asked about a call that has ended: it failed,
// the agent waits for it, and there is an approver.
func (s *Supervisor) mayWiden(c *call, plan tools.Plan) bool {
	failed := c.result.ExitCode != 0 || c.result.Signal != ""
	return failed && plan.Action.Kind == sandboxprofile.Exec && c.proposal.Hold != nil && c.kind.widens() && !c.req.Defer &&
		c.session.mode != approval.ApproveAll && c.session.mode != approval.Strict && s.cfg.Approvals.Approvers(string(c.session.id)) > 0
}

// askWider asks whether the call may run once more, with one thing more. The first run may
// not have been asked about, or other files may be there now: the question shows what the
// second run starts, and no other content runs.
func (s *Supervisor) askWider(ctx context.Context, c *call, w widen.Plan) (approval.Grant, error) {
	description := "Run again, and let it " + w.String() + ": " + tools.Shorten(s.cfg.Log.RedactedText(c.subject()))
	p := c.proposal
	p.Plan, p.Unheld = w.Plan, nil
	p.Request = bounds.InProfile(&approval.Request{
		ToolName: toolPath, Description: description,
		Payload: map[string]any{"path": w.Path, "right": string(w.Right), "protected": w.Lifted, "tool": string(c.req.Tool), "definition": p.Definition, "hosts": w.Plan.Profile.Network.Allow},
		Covers:  "this path for every call of the tool, with the same network and the same files that it starts, that fails for want of it: such a call runs twice",
	}, &w.Plan)
	p.Present = func(context.Context) (*approval.Presentation, error) {
		return &approval.Presentation{Type: approval.Text, Content: fmt.Sprintf(
			"It failed, and was refused to %s.\nA yes runs it once more from the beginning, with that and nothing else besides; what it did so far stays.\nfor: %s %s",
			w, c.req.Tool, c.args)}, nil
	}
	p = p.Hold(p)
	bounds.Freeze(&p, c.session.mode)
	digest := s.digestOf(p.Plan)
	return beside{s, c}.ask(ctx, bounded(approval.Call{
		ToolName: toolPath, Digest: digest, Subject: subject{p, c.args},
		Reach:   approval.Reach{Single: "each path is asked about by its name"},
		Request: p.Request, Present: p.Present,
		Details: func() map[string]string { return s.details(p, digest, c.warnings) },
	}, p.Plan))
}

// toolPath is the name under which questions about paths are asked.
const toolPath = "path"
