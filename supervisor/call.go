package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/background"
	"github.com/sandgate/sandgate/supervisor/batch"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/supervisor/gateway"
	"github.com/sandgate/sandgate/supervisor/outcome"
	"github.com/sandgate/sandgate/supervisor/review"
	"github.com/sandgate/sandgate/supervisor/violation"
	"github.com/sandgate/sandgate/tools"
)

// Call takes one tool call from request to reply. It is the only way a tool runs.
//
//	receive -> check -> decide -> confine -> run -> record -> reply
//
// Each step takes what the one before it made. A refusal at any of them goes to
// the same last two, so that nothing is left out of the log.
func (s *Supervisor) Call(ctx context.Context, peer unixsock.Peer, req protocol.ToolsCall, notify func(protocol.Method, any)) (protocol.CallResult, error) {
	return s.callAt(ctx, nil, peer, req, notify)
}

// callAt is Call for a call that has a place in a batch, or nil.
func (s *Supervisor) callAt(ctx context.Context, at *batch.Place, peer unixsock.Peer, req protocol.ToolsCall, notify outcome.Notify) (protocol.CallResult, error) {
	if req.Tool == protocol.ToolRunBackground && s.draftOf(req.SessionID) == nil {
		return s.startTask(ctx, at, peer, req, notify)
	}
	return s.carryOut(ctx, at, awaited{}, peer, req, notify)
}

// carryOut takes a call along its path. It returns when the program has ended, also
// one that runs in the background.
func (s *Supervisor) carryOut(ctx context.Context, at *batch.Place, k kind, peer unixsock.Peer, req protocol.ToolsCall, notify outcome.Notify) (protocol.CallResult, error) {
	c, err := s.receive(k, peer, req, notify)
	if err != nil {
		at.End(approval.Decision{}, err)
		return protocol.CallResult{}, err // no session, no entry: the server refuses what nobody opened
	}
	c.place = at
	defer s.release(c)
	ctx, cancel := c.join(ctx)
	defer cancel()
	if d := c.session.draft; d != nil {
		r, err := s.inDraft(ctx, c, d)
		at.End(review.Rejected(err))
		return r, err
	}
	err = failure.WithCause(ctx, s.perform(ctx, c))
	c.kind.over(c)
	if errors.Is(err, errReview) {
		r, err := s.reviewed(ctx, c)
		at.End(review.Rejected(err))
		return r, err
	}
	defer at.End(c.decision, err)
	return s.reply(c, s.record(c, err))
}

// perform is the middle of the path: everything between the request and the log.
func (s *Supervisor) perform(ctx context.Context, c *call) error {
	proposal, err := s.check(ctx, c)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.kind.notFound(c, err) {
		return nil // nothing to decide about: a result with status 127 or 126
	}
	if err == nil && proposal.Review && s.cfg.DraftOver == nil {
		return c.kind.onDraft()
	}
	grant, err := s.decide(ctx, c, proposal, err)
	if err != nil {
		return err
	}
	if err := c.awaitTurn(ctx); err != nil {
		return err
	}
	plan, err := s.approvedPlan(grant)
	if err != nil {
		return err
	}
	act := acts[plan.Kind]
	if act == nil {
		return fmt.Errorf("supervisor: bug: %s has made a plan that nobody carries out (kind %q)", plan.Tool, plan.Kind)
	}
	return act(s, ctx, c, plan)
}

// acts is how a plan is acted on, by its kind. Each releases it first.
var acts = map[tools.Kind]func(*Supervisor, context.Context, *call, tools.Plan) error{
	tools.Sandboxed: (*Supervisor).runWidened,
	tools.OnTask:    (*Supervisor).operate,
	tools.ByServer:  (*Supervisor).callServer,
	tools.ByAgent:   func(_ *Supervisor, _ context.Context, c *call, plan tools.Plan) error { return c.release(plan) },
}

// receive finds the session and registers the call, so that status shows it and
// closing the session ends it.
func (s *Supervisor) receive(k kind, peer unixsock.Peer, req protocol.ToolsCall, notify outcome.Notify) (*call, error) {
	if notify == nil {
		notify = func(protocol.Method, any) {}
	}
	c := &call{kind: k, peer: peer, req: req, notify: notify, started: time.Now()}
	return c, s.register(c)
}

// check finds the tool, holds the arguments against its schema, and has it plan.
// What comes out is the whole truth about the call: profile included, which is
// the tool's own intersected with the operator's. Nothing has happened yet.
func (s *Supervisor) check(ctx context.Context, c *call) (tools.Proposal, error) {
	p, err := c.kind.propose(ctx, s, c)
	if err != nil {
		return p, err
	}
	if err := c.session.bindTask(&p); err != nil {
		return p, err
	}
	bounds.Freeze(&p, c.session.mode)
	bounds.Withhold(&p, c.session.mode)
	c.proposal, c.args = p, c.req.Args
	c.profile, c.digest = s.digests(p.Plan)
	c.warnings = c.profile.Warnings
	c.kind.checked(c)
	return p, nil
}

// decide asks approval, which also hears of a tool's own refusal, and hands its answer
// to the log. While the disk takes it a sandbox is made ready; no tool starts before
// the entry is there (release).
func (s *Supervisor) decide(ctx context.Context, c *call, p tools.Proposal, checked error) (approval.Grant, error) {
	if checked != nil && !approval.IsBlocked(checked) {
		return approval.Grant{}, checked
	}
	if err := s.refuseUnconfined(); checked == nil && err != nil {
		return approval.Grant{}, err
	}
	grant, err := s.ask(ctx, c, p, checked)
	if isDeferred(err) {
		return grant, err // nothing is decided; the agent comes back for it
	}
	c.decision = decisionOf(grant, err)
	s.take(c, grant)
	if logErr := s.logDecision(ctx, c); logErr != nil {
		return approval.Grant{}, logErr
	}
	if s.cfg.Decided != nil {
		s.cfg.Decided(c.decision, s.cfg.Log.RedactedText(c.subject()))
	}
	return grant, err
}

// take notes what was approved where it differs from the request: the approver has
// edited the arguments, or nobody was shown the call.
func (s *Supervisor) take(c *call, g approval.Grant) {
	x, err := approval.Granted[subject](g)
	if err != nil {
		return
	}
	if d := g.Decision(); d.Pattern == nil && d.Source != approval.SourceAllowRule && c.session.mode != approval.ApproveAll {
		c.shown = x.Proposal
	}
	if g.Digest() == c.digest {
		return
	}
	if g.Decision().AskedDigest != "" {
		asked := c.proposal.Plan
		c.asked = &asked
	}
	c.proposal, c.args, c.digest, c.profile = x.Proposal, x.args, g.Digest(), s.profiles.Known(x.Plan.Profile)
	c.warnings = c.profile.Warnings
}

// unseen is what a remembered pattern or a standing rule permits of a proposal, as a rule of
// the configuration would: no person saw this call, so it has nothing that needs an approval
// of its own.
func (s *Supervisor) unseen(c *call, p tools.Proposal) func() (any, string) {
	if p.Request == nil || len(p.Withheld)+len(p.Unchanged)+len(p.Unasked) == 0 && !p.EmptyHome {
		return nil
	}
	return sync.OnceValues(func() (any, string) {
		q := p
		q.Request = nil
		bounds.Withhold(&q, c.session.mode)
		p.Plan = q.Plan
		return subject{p, c.req.Args}, s.digestOf(p.Plan)
	})
}

// approvedPlan takes the plan out of the grant: exactly what was shown runs. The digest
// is computed again; if it is not what was approved, the approval does not count.
func (s *Supervisor) approvedPlan(g approval.Grant) (tools.Plan, error) {
	x, err := approval.Granted[subject](g)
	if err != nil {
		return tools.Plan{}, failure.Drift(err)
	}
	if s.digestOf(x.Plan) != g.Digest() {
		return tools.Plan{}, failure.Drift(errors.New("the plan is not the one that was approved"))
	}
	return x.Plan, nil
}

// release is called when everything is ready, and lets the plan be acted on: its
// decision is on the disk, and the files that it depends on, checked once more, are
// what was approved.
func (c *call) release(plan tools.Plan) error {
	if c.durable == nil {
		return errors.New("supervisor: bug: a plan that nobody has decided about")
	}
	if err := c.durable(); err != nil {
		return err
	}
	for _, pin := range plan.Pins {
		if err := pin.Verify(); err != nil {
			return failure.Drift(err)
		}
	}
	if err := tools.Again(c.shown); err != nil {
		return failure.Drift(err)
	}
	return nil
}

// confine gives a sandbox for the plan's profile, and no other.
func (s *Supervisor) confine(ctx context.Context, c *call, plan tools.Plan) (confine.Sandbox, error) {
	if err := s.refuseUnconfined(); err != nil {
		return nil, err
	}
	if err := review.Within(s.cfg.DraftOver, plan.Profile); err != nil {
		return nil, err
	}
	ctx, err := s.trusting(c.named(ctx), c, plan.Profile)
	if err != nil {
		return nil, err
	}
	own, thaw, err := s.frozen.Take(ctx, plan)
	c.thaw = append(c.thaw, thaw...)
	if err != nil {
		return nil, err
	}
	stands := s.frozen.Enter(c, plan.Profile, own)
	defer stands.Done()
	ctx = confine.WithShares(ctx, bounds.Shares(c.proposal, c.decision, c.session.mode))
	box, err := c.session.confiner.Prepare(confine.WithFrozen(ctx, stands.Frozen), plan.Profile)
	if err != nil {
		return nil, err
	}
	stands.Stand(box)
	c.warnings = slices.Concat(c.warnings, stands.Warnings(plan.Class))
	return box, nil
}

// named lets package confine name the cause of each file that it keeps.
func (c *call) named(ctx context.Context) context.Context {
	return confine.ForCall(ctx, string(c.session.id)+"/"+string(c.req.CallID))
}

// run does the action and streams what it writes.
func (s *Supervisor) run(ctx context.Context, c *call, plan tools.Plan, box confine.Sandbox) error {
	c.enforced = box.Enforced()
	if w, ok := box.(confine.Watched); ok {
		c.look = w.Look
	}
	if plan.Action.Kind == sandboxprofile.Exec {
		last := c.enforced
		s.enforced.Store(&last)
	}
	if w, ok := box.(confine.Warned); ok {
		c.warnings = slices.Concat(c.warnings, w.Warnings())
	}
	stop, err := s.openNetwork(ctx, c, plan, box)
	if err != nil {
		return err
	}
	if err := c.kind.open(s, c, plan.Profile.Limits.Output); err != nil {
		return errors.Join(err, stop())
	}
	ended, err := s.keepChanges(c, plan)
	if err != nil {
		return errors.Join(err, stop())
	}
	c.kind.leave(s, c)
	c.result, err = s.start(ctx, c, plan, box)
	ended()
	c.enforced.Ceiling = c.result.Ceiling
	if c.output.Finish() {
		c.result.Truncated = true
	}
	c.violations = append(c.violations, slices.Concat(outcome.LeftBy(c.result.Planted), outcome.Gone(c.result.Gone))...)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	policy := violation.Policy{Profile: plan.Profile, Operator: s.cfg.Operator}
	c.violations = append(c.violations, outcome.Refusals(policy, plan.Action, c.result, c.output, c.violations)...)
	if err := outcome.EndError(ctx, c.result, plan.Profile.Limits); err != nil {
		return err
	}
	if c.proposal.Plan.JSONOutput {
		c.structured, err = c.output.Json(c.result)
	}
	return err
}

// start does the action with the secrets that its program is given. They are
// read here, behind every decision, and go to the sandbox and nowhere else.
func (s *Supervisor) start(ctx context.Context, c *call, plan tools.Plan, box confine.Sandbox) (confine.Result, error) {
	action, files, err := c.session.network.WithSecrets(plan)
	if err != nil {
		return confine.Result{}, err
	}
	defer gateway.CloseAll(files)
	released := false
	stdio := c.output.Stdio(plan.Action.Exec)
	stdio.Files = files
	stdio.Hold = func() error {
		if err := c.release(plan); err != nil {
			return err
		}
		released = true
		c.notify(protocol.MethodToolState, protocol.ToolState{CallID: c.req.CallID, State: protocol.Running, Exposed: c.exposed})
		return nil
	}
	r, err := box.Run(c.named(ctx), action, stdio)
	if err == nil && r.Cause != confine.NotStarted && !released {
		err = errors.New("supervisor: bug: the sandbox did not ask before it began")
	}
	return r, err
}

// reply makes the result.
func (s *Supervisor) reply(c *call, err error) (protocol.CallResult, error) {
	if err := s.end(c, err); err != nil {
		return protocol.CallResult{}, err
	}
	return callResult(c, s.ownWarnings(c)), nil
}

// startTask takes a call along its path in the background, and answers when the
// program runs, or when it is clear that it will not.
func (s *Supervisor) startTask(ctx context.Context, at *batch.Place, peer unixsock.Peer, req protocol.ToolsCall, notify outcome.Notify) (protocol.CallResult, error) {
	return background.Start(ctx, s.cfg.Tasks.Output, func(own context.Context, t *background.Task) (protocol.CallResult, error) {
		return s.carryOut(own, at, inBackground{task: t}, peer, req, notify)
	})
}
