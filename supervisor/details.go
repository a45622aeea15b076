package supervisor

import (
	"slices"

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

// keepChanges has what a call changes kept until ended is called.
func (s *Supervisor) keepChanges(c *call, plan tools.Plan) (ended func()) {
	k := s.keeper()
	if !k.Keeps(plan) {
		return func() {}
	}
	warnings, end := k.Begin(plan, changes.Call{
		Session: string(c.session.id), Call: string(c.req.CallID), Agent: c.session.agent, Tool: string(c.req.Tool),
		Subject: s.cfg.Log.RedactedText(c.subject()), Started: c.started, Lasting: c.kind.lasting(),
	})
	c.warnings = slices.Concat(c.warnings, warnings)
	return func() { c.warnings = slices.Concat(c.warnings, end()) }
}
