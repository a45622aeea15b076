package supervisor

import (
	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// bound gives a proposal that asks nobody its ceiling, and every plan its class. What a
// person allows has none: it does what its profile says. What nobody allows has that of
// the tool, which knows what its answer rests on; of a tool that says nothing, the
// configuration has let the call be, with all that its profile gives.
func bound(p *tools.Proposal) {
	a := &p.Plan.Action
	has := sandboxprofile.ClassOf(p.Plan.Profile, *a)
	if l := a.Ceiling; p.Request == nil && p.Unheld != nil && l != nil && l.Class == sandboxprofile.ClassWorkspace && has > l.Class {
		p.Request = unheld(p, has.Can())
	}
	p.Plan.Class = has
	switch {
	case p.Request != nil, p.Plan.MCP != nil, a.Kind == "":
		a.Ceiling = nil
		return
	case a.Ceiling == nil:
		a.Ceiling = &sandboxprofile.Ceiling{Class: has, AnyProgram: true}
	}
	p.Plan.Class = min(has, a.Ceiling.Class)
}

// unheld is the question about a call that nothing holds to its ceiling.
func unheld(p *tools.Proposal, why string) *approval.Request {
	r := *p.Unheld
	r.Description += " (" + why + ")"
	return &r
}
