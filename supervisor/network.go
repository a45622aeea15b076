package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/gateway"
	"github.com/sandgate/sandgate/tools"
)

// beside is a call as what asks and records beside its own question.
type beside struct {
	s *Supervisor
	c *call
}

func (b beside) Identity() egress.Identity {
	return egress.Identity{Session: string(b.c.session.id), Call: string(b.c.req.CallID)}
}

func (b beside) Tool() gateway.Tool {
	return gateway.Tool{Name: string(b.c.req.Tool), Definition: b.c.proposal.Definition, Args: b.c.args, Unallowed: b.c.unallowed()}
}

// unallowed reports whether nobody has allowed a command what its credentials do: the sandbox alone decided
// about it, or a rule or pattern allows it that starts what calls may change. A tool's own definition says so.
func (c *call) unallowed() bool {
	p, d := c.proposal, c.decision
	shown := p.Request != nil && d.Pattern == nil && d.Source != approval.SourceAllowRule
	under := p.Plan.Action.Ceiling
	return !shown && p.Definition == "" && (under != nil && under.Class < sandboxprofile.ClassBeyond || len(p.Changeable) > 0)
}

func (b beside) Record(e egress.Event) error {
	return b.s.append(context.Background(), b.c.entry(audit.KindConnection, e))
}

// Ask implements gateway.Caller. A program names hosts by itself, as many as it likes: those that a person
// would have to be asked about are bounded. What a person allows once holds for the call that waits for it,
// however often it connects; a denial that comes later ends that.
func (b beside) Ask(ctx context.Context, q approval.Call) error {
	q = b.of(q)
	about, eachMinute := "", gateway.MaxQuestions
	if !b.c.kind.staysBehind() && !b.c.kind.lasting() {
		eachMinute = 1
	}
	if (q.ToolName == gateway.ToolNetwork || q.ToolName == gateway.ToolCredential) && eachMinute == 1 {
		text, err := approval.Canonical(q.Request.Payload)
		if err != nil {
			return err
		}
		about = q.Digest + string(text) // a second run, with a path more, is another plan
	}
	if b.s.cfg.Approvals.Check(q).Effect == approval.Ask {
		switch may, allowed := b.c.beside.Take(about, time.Now(), eachMinute); {
		case allowed:
			return nil
		case !may:
			return fmt.Errorf("the program has caused %d questions; more are asked after a minute (%d)", gateway.MaxQuestions, eachMinute)
		}
	}
	grant, err := b.put(ctx, q)
	if d := grant.Decision(); err == nil && about != "" && d.Source == approval.SourceAsk && d.Scope == approval.Once {
		b.c.beside.Allow(about)
	}
	return err
}

// ask puts a question beside a call to people, and records the outcome.
func (b beside) ask(ctx context.Context, q approval.Call) (approval.Grant, error) {
	return b.put(ctx, b.of(q))
}

// of is a question as one of the call.
func (b beside) of(q approval.Call) approval.Call {
	c := b.c
	q.ID, q.Asked, q.BatchID = string(c.req.CallID), c.tellPending, c.req.GroupID
	q.SessionID, q.Agent, q.Peer, q.Mode = string(c.session.id), c.session.agent, c.session.peer.String(), c.session.mode
	if q.Digest == "" { // about the call as it runs: a remembered answer holds while calls reach no more than this one
		q = bounded(q, c.proposal.Plan)
		q.Digest = c.digest
		q.Details = func() map[string]string { return b.s.details(c.proposal, c.digest, c.warnings) }
	}
	return q
}

func (b beside) put(ctx context.Context, q approval.Call) (approval.Grant, error) {
	grant, err := b.s.cfg.Approvals.Decide(ctx, q)
	return grant, b.s.answered(q.Request.Description, q.Request.Payload, grant, err)
}

// trusting gives the call the authority that its profile needs, and its sandbox the
// certificates by which programs recognise it.
func (s *Supervisor) trusting(ctx context.Context, c *call, p sandboxprofile.Profile) (context.Context, error) {
	if len(p.Network.Terminated) == 0 {
		return ctx, nil
	}
	a, err := c.session.network.Authority(p, s.cfg.Egress)
	if err != nil {
		return ctx, &confine.Unenforceable{Part: "TLS that ends at the egress proxy", Reason: err.Error()}
	}
	c.authority = a
	return confine.WithTrust(ctx, a.Bundle), nil
}

// openNetwork serves the way out of a sandbox and the ways in, for as long as one call
// runs. stop ends both; its error means that a connection could not be recorded, or that the
// call was denied for one.
func (s *Supervisor) openNetwork(ctx context.Context, c *call, plan tools.Plan, box confine.Sandbox) (stop func() error, err error) {
	if plan.Class == sandboxprofile.ClassRead {
		return func() error { return nil }, nil // it has no socket
	}
	out, err := gateway.Out(ctx, s.cfg.Egress, &c.session.network, c.authority, beside{s, c}, plan, box)
	if err != nil {
		return nil, err
	}
	name, ends := c.kind.called(c)
	who := gateway.Holder{Session: string(c.session.id), Name: name, Ends: ends, Alone: c.kind.staysBehind()}
	in, err := gateway.In(ctx, s.cfg.Egress.Limits, &s.ports, who, beside{s, c}, plan, box)
	c.exposed, c.warnings = in.Exposed, slices.Concat(c.warnings, out.Warnings, in.Warnings)
	if err != nil {
		return nil, errors.Join(err, c.shut(out))
	}
	return func() error { return errors.Join(c.shut(out), in.Stop()) }, nil
}

// shut ends the way out, and notes what came of it.
func (c *call) shut(out gateway.Way) error {
	end := out.Stop()
	c.violations = append(c.violations, end.Violations...)
	c.warnings = slices.Concat(c.warnings, end.Warnings)
	if end.Denied == nil {
		return end.Err
	}
	c.denied(end.Denied.Decision)
	return errors.Join(end.Err, end.Denied)
}

// answered records the outcome of a question beside a call: the answers, and each allow
// that was remembered or that a rule gives. err is the question's own.
func (s *Supervisor) answered(description string, about map[string]any, g approval.Grant, err error) error {
	decision := decisionOf(g, err)
	if decision.RequestID == "" && err != nil {
		return err
	}
	if err := s.logAnswer(description, about, decision); err != nil {
		return err
	}
	if decision.RequestID != "" {
		_ = s.cfg.Approvals.Recorded(decision.RequestID) // or the next start finds it, and its answer in the log
	}
	return err
}
