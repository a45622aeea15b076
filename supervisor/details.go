package supervisor

import (
	"context"
	"slices"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/changes"
	"github.com/sandgate/sandgate/supervisor/undo"
	"github.com/sandgate/sandgate/tools"
)

func (s *Supervisor) details(p tools.Proposal, digest string, warnings []string) map[string]string {
	d := bounds.Details(p, digest, warnings)
	if s.keeper().Keeps(p.Plan) && !s.keeper().Rests(p.Plan) {
		d["undo"] = "what it changes in files can be put back"
	}
	return d
}

func (s *Supervisor) keeper() undo.Keeper {
	return undo.Keeper{Store: s.cfg.Changes, Caches: s.cfg.Caches, Workdir: s.cfg.Workdir}
}

// LookAhead begins to look at what calls under a profile may change.
func (s *Supervisor) LookAhead(p sandboxprofile.Profile) { s.keeper().LookAhead(p) }

// keepChanges has what a call changes kept until ended is called. It fails if nothing can be kept of a call that nobody
// was asked about because it can be undone.
func (s *Supervisor) keepChanges(c *call, plan tools.Plan) (ended func(), err error) {
	k := s.keeper()
	if !k.Keeps(plan) {
		return func() {}, nil
	}
	warnings, end, failed := k.Begin(plan, changes.Call{
		Session: string(c.session.id), Call: string(c.req.CallID), Agent: c.session.agent, Tool: string(c.req.Tool),
		Subject: s.cfg.Log.RedactedText(c.subject()), Started: c.started, Lasting: c.kind.lasting(),
	})
	if failed != nil && s.askedUnkept(c) {
		end()
		return nil, &protocol.Error{Code: protocol.CodeBlocked, Message: "it did not run: what it changes " + undo.NotUndone + ": " + approval.EscapeLine(failed.Error()),
			HintText: "it needs no approval only while it can be undone: repeat the call, and a person is asked"}
	}
	c.warnings = slices.Concat(c.warnings, warnings)
	return func() { c.warnings = slices.Concat(c.warnings, end()) }, nil
}

// askedUnkept reports whether nobody was asked about a call, and somebody would be by now, since nothing is kept of it.
func (s *Supervisor) askedUnkept(c *call) bool {
	if c.proposal.Request != nil || c.session.mode == approval.ApproveAll {
		return false
	}
	p, err := c.kind.propose(context.Background(), s, c)
	return err == nil && p.Request != nil
}
