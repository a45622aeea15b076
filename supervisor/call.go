package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// notifyFunc sends a notification to the agent that made the call.
type notifyFunc func(protocol.Method, any)

// Call takes one tool call from request to reply. It is the only way a tool runs.
//
//	receive -> check -> decide -> confine -> run -> record -> reply
//
// Each step takes what the one before it made. A refusal at any of them goes to
// the same last two, so that nothing is left out of the log.
func (s *Supervisor) Call(ctx context.Context, peer unixsock.Peer, req protocol.ToolsCall, notify func(protocol.Method, any)) (protocol.CallResult, error) {
	c, err := s.receive(peer, req, notify)
	if err != nil {
		return protocol.CallResult{}, err // no session, no entry: the server refuses what nobody opened
	}
	defer s.release(c)
	ctx, cancel := c.session.join(ctx)
	defer cancel()
	err = s.perform(ctx, c)
	return s.reply(c, s.record(c, err))
}

// perform is the middle of the path: everything between the request and the log.
func (s *Supervisor) perform(ctx context.Context, c *call) error {
	proposal, err := s.check(c)
	if c.notFound(err) {
		return nil // nothing to decide about: a result with status 127 or 126
	}
	grant, err := s.decide(ctx, c, proposal, err)
	if err != nil {
		return err
	}
	plan, err := approvedPlan(grant)
	if err != nil {
		return err
	}
	box, err := s.confine(ctx, c, plan)
	if err != nil {
		return err
	}
	defer box.Close()
	return s.run(ctx, c, plan, box)
}

// A call is what one request becomes on its way. Fields are set by the step
// named beside them and read by later ones.
type call struct {
	session *session           // receive
	peer    unixsock.Peer      // receive
	req     protocol.ToolsCall // receive
	notify  notifyFunc         // receive
	started time.Time          // receive

	proposal  tools.Proposal    // check
	digest    string            // check, of the plan
	warnings  []string          // check, of the profile
	unstarted string            // check: what to say of a program that is not there
	decision  approval.Decision // decide
	logged    bool              // decide: a decision entry is in the log

	result   confine.Result   // run
	enforced confine.Enforced // run
	output   *output          // run
	// run: connections that were refused, protected names that appeared
	violations []protocol.Violation
}

// receive finds the session and registers the call, so that status shows it and
// closing the session ends it.
func (s *Supervisor) receive(peer unixsock.Peer, req protocol.ToolsCall, notify notifyFunc) (*call, error) {
	if notify == nil {
		notify = func(protocol.Method, any) {}
	}
	c := &call{peer: peer, req: req, notify: notify, started: time.Now()}
	return c, s.register(c)
}

// check finds the tool, holds the arguments against its schema, and has it plan.
// What comes out is the whole truth about the call: profile included, which is
// the tool's own intersected with the operator's. Nothing has happened yet.
func (s *Supervisor) check(c *call) (tools.Proposal, error) {
	if c.req.Defer || c.req.ApprovalID != "" {
		return tools.Proposal{}, &protocol.Error{Code: protocol.CodeInvalidParams, Field: "params.defer",
			Message: "deferred approvals are not supported yet", HintText: "call without defer, and wait for the answer"}
	}
	args, err := c.req.DecodeArgs()
	if err != nil {
		return tools.Proposal{}, &protocol.Error{Code: protocol.CodeInvalidArguments, Message: err.Error()}
	}
	p, err := s.cfg.Tools.Plan(tools.Call{Tool: string(c.req.Tool), Args: args, Metadata: c.req.Metadata})
	if err != nil {
		return p, err
	}
	p.Plan.Profile = sandboxprofile.Intersect(p.Plan.Profile, s.cfg.Operator)
	if ms := c.req.TimeoutMS; ms > 0 {
		limits := &p.Plan.Profile.Limits
		limits.Wall = min(limits.Wall, time.Duration(ms)*time.Millisecond)
	}
	c.proposal, c.digest, c.warnings = p, p.Plan.Digest(), sandboxprofile.Warnings(p.Plan.Profile)
	return p, nil
}

// decide asks approval, which also hears of a tool's own refusal, and makes its
// answer durable. No tool starts before the entry of its decision is on the disk.
func (s *Supervisor) decide(ctx context.Context, c *call, p tools.Proposal, checked error) (approval.Grant, error) {
	if checked != nil && !approval.IsBlocked(checked) {
		return approval.Grant{}, checked
	}
	if err := s.refuseUnconfined(); checked == nil && err != nil {
		return approval.Grant{}, err
	}
	id, done := s.ask(c)
	grant, err := s.cfg.Approvals.Decide(ctx, s.question(id, c, p, checked))
	done()
	c.decision = decisionOf(grant, err)
	if logErr := s.logDecision(ctx, c); logErr != nil {
		return approval.Grant{}, logErr
	}
	return grant, err
}

// question is a call as approval sees it.
func (s *Supervisor) question(id string, c *call, p tools.Proposal, checked error) approval.Call {
	q := approval.Call{
		ID:        id,
		SessionID: string(c.session.id),
		Agent:     c.session.agent,
		ToolName:  string(c.req.Tool),
		BatchID:   c.req.GroupID,
		Mode:      c.session.mode,
		Request:   p.Request,
		Err:       checked,
		Digest:    c.digest,
		Subject:   p.Plan,
		Present:   p.Present,
		Details:   details(p, c.digest, c.warnings),
	}
	for _, b := range c.req.BatchRemaining {
		q.BatchRemaining = append(q.BatchRemaining, b.String())
	}
	return q
}

// approvedPlan takes the plan out of the grant: what was shown is what runs. The
// digest is computed again, and the files that the plan stands on are looked at
// again; if either is not what was approved, the approval does not count.
func approvedPlan(g approval.Grant) (tools.Plan, error) {
	plan, ok := g.Subject().(tools.Plan)
	if !ok || plan.Digest() != g.Digest() {
		return tools.Plan{}, drift(errors.New("the plan is not the one that was approved"))
	}
	for _, pin := range plan.Pins {
		if err := pin.Verify(); err != nil {
			return tools.Plan{}, drift(err)
		}
	}
	return plan, nil
}

func drift(err error) error {
	return &protocol.Error{
		Code:     protocol.CodeDenied,
		Message:  "changed between approval and start: " + err.Error(),
		HintText: "call again, so that what is there now can be approved",
	}
}

// confine gives a sandbox for the plan's profile, and no other.
func (s *Supervisor) confine(ctx context.Context, c *call, plan tools.Plan) (confine.Sandbox, error) {
	if err := s.refuseUnconfined(); err != nil {
		return nil, err
	}
	return c.session.confiner.Prepare(ctx, plan.Profile)
}

// run does the action and streams what it writes.
func (s *Supervisor) run(ctx context.Context, c *call, plan tools.Plan, box confine.Sandbox) error {
	c.enforced = box.Enforced()
	c.output = newOutput(c.req.CallID, c.notify, c.session.stdin, c.session.sink)
	c.notify(protocol.MethodToolState, protocol.ToolState{CallID: c.req.CallID, State: protocol.Running})
	stop, err := s.openEgress(ctx, c, plan, box)
	if err != nil {
		return err
	}
	c.result, err = box.Run(ctx, plan.Action, c.output.stdio())
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	c.reportAppeared()
	return endError(ctx, c.result, plan.Profile.Limits)
}

// endError says why a call that started did not end by itself. Its partial
// output is in the log's counts and has been streamed.
func endError(ctx context.Context, r confine.Result, l sandboxprofile.Limits) error {
	switch r.Cause {
	case confine.TimedOut:
		return &protocol.Error{Code: protocol.CodeTimedOut,
			Message:  fmt.Sprintf("timed out after %v; everything it had started was killed", l.Wall),
			HintText: "split the work, or run it with a longer limits.timeout if the operator agrees"}
	case confine.OutputLimit:
		return &protocol.Error{Code: protocol.CodeLimitExceeded,
			Message:  fmt.Sprintf("wrote more than %d bytes of output and was killed", l.Output),
			HintText: "write to a file, or print less (head, tail, grep)"}
	case confine.PidsLimit:
		return &protocol.Error{Code: protocol.CodeLimitExceeded,
			Message:  fmt.Sprintf("had more than %d processes and was killed", l.Pids),
			HintText: "start fewer at a time (make -j4)"}
	case confine.Cancelled:
		return &protocol.Error{Code: protocol.CodeCancelled, Message: context.Cause(ctx).Error()}
	default:
		return nil
	}
}

// record writes how the call ended. The error it returns is what the agent is
// told: its own if the log took the entry, audit_unavailable if not.
func (s *Supervisor) record(c *call, err error) error {
	failure := wireError(err)
	if logErr := s.logEnd(c, failure); logErr != nil {
		return logErr
	}
	if failure == nil {
		return nil
	}
	return s.withEvidence(c, failure)
}

// reply makes the result.
func (s *Supervisor) reply(c *call, err error) (protocol.CallResult, error) {
	c.session.count(err)
	c.notify(protocol.MethodToolState, protocol.ToolState{CallID: c.req.CallID, State: protocol.Done})
	if err != nil {
		return protocol.CallResult{}, err
	}
	return callResult(c, s.warnings(c)), nil
}
