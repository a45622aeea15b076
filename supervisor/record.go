package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/internal/must"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/tools"
)

// logDecision hands the decision to the log; c.durable says when it is on the disk.
func (s *Supervisor) logDecision(ctx context.Context, c *call) error {
	e := history.DecisionEntry{Rule: c.proposal.Rule, Args: c.loggedArgs(c.req.Args), Decision: c.decision, Metadata: s.metadata(c), Elsewhere: c.kind.external()}
	if len(e.Decision.Args) > 0 {
		e.Decision.Args = c.loggedArgs(e.Decision.Args)
	}
	if r := c.proposal.Request; r != nil {
		e.Description = r.Description
	}
	if c.digest != "" {
		e.Plan, e.Content = s.planEntry(c.proposal.Plan, c.profile)
	}
	if c.asked != nil {
		e.Asked = &history.AskedEntry{Digest: c.asked.Digest()}
		e.Asked.Plan, e.Asked.Content = s.planEntry(*c.asked, s.profiles.Known(c.asked.Profile))
	}
	// A call that is cancelled at this very moment has still been decided.
	ctx = context.WithoutCancel(ctx)
	pending, err := s.cfg.Log.Submit(ctx, c.entry(audit.KindDecision, e))
	if err != nil {
		return s.appended(err)
	}
	c.durable = sync.OnceValue(func() error {
		_, err := pending.Wait(ctx)
		if err = s.appended(err); err == nil {
			_ = s.cfg.Approvals.Recorded(c.decision.RequestID) // or the next start finds it, and its decision in the log
		}
		return err
	})
	return nil
}

func (s *Supervisor) planEntry(p tools.Plan, profile bounds.KnownProfile) (*history.PlanEntry, *history.ContentEntry) {
	plan, content := history.WithoutContent(p)
	// Words of a command line stand in it already, where the log redacts TOKEN=value. As a path the value is not
	// recognized as a secret.
	plan.Pins = slices.DeleteFunc(slices.Clone(plan.Pins), tools.Pin.LeadsAsNamed)
	e := &history.PlanEntry{Plan: plan, ProfileDigest: profile.Digest}
	if _, known := s.logged.LoadOrStore(e.ProfileDigest, true); !known {
		e.Profile = &plan.Profile
	}
	return e, content
}

// append writes one entry. Its error is audit_unavailable on the wire.
func (s *Supervisor) append(ctx context.Context, r audit.Record) error {
	s.owed.Write(s.cfg.Log)
	_, err := s.cfg.Log.Append(ctx, r)
	return s.appended(err)
}

// appended notes whether the log takes entries, and returns err in the form for the
// agent.
func (s *Supervisor) appended(err error) error {
	if err == nil {
		s.auditFailure.Store(nil)
		return nil
	}
	s.auditFailure.Store(&err)
	return failure.Audit(err)
}

// logEnd closes the call in the log. A call that never came to a decision has
// only this entry, of kind refused.
func (s *Supervisor) logEnd(c *call, failure *protocol.Error) error {
	kind := audit.KindEnd
	if c.durable == nil || c.durable() != nil {
		kind = audit.KindRefused
	}
	e := history.EndEntry{
		Error: failure, ExitCode: c.result.ExitCode, Signal: c.result.Signal, Errno: c.result.Errno, Cause: string(c.result.Cause),
		DurationMS: c.result.Duration.Milliseconds(), TotalMS: time.Since(c.started).Milliseconds(),
		Stdout: c.result.Stdout, Stderr: c.result.Stderr, Truncated: c.result.Truncated,
		Exposed: c.exposed,
	}
	if len(c.violations) > 0 {
		e.Violations = c.violations
	}
	if kind == audit.KindRefused {
		e.Metadata = s.metadata(c)
	}
	e.Elsewhere = c.kind.external()
	if c.enforced.Backend != "" {
		e.EnforcedBy = c.enforced
	}
	r := c.entry(kind, e)
	err := s.append(context.Background(), r)
	if err != nil && kind == audit.KindEnd {
		s.owed.Add(r)
	}
	return err
}

// subject says what the call is about, in words for people; raw text.
func (c *call) subject() string {
	plan := c.proposal.Plan
	switch {
	case c.proposal.Request != nil:
		return c.proposal.Request.Description
	case plan.Action.Exec != nil:
		return tools.CommandOf(plan.Action.Exec.Argv)
	case plan.Action.File != nil:
		return plan.Action.File.Path
	}
	return string(c.loggedArgs(c.req.Args)) // refused before there was a plan
}

func (c *call) entry(kind audit.Kind, data any) audit.Record {
	return audit.Record{
		Kind: kind, Session: string(c.session.id), Call: string(c.req.CallID), Peer: audit.PeerOf(c.peer),
		Agent: c.session.agent, Tool: string(c.req.Tool), Digest: c.digest, Data: data,
	}
}

// loggedArgs is as much of a call's arguments as the log keeps. Those of a program
// that reads them are content, and left out.
func (c *call) loggedArgs(args json.RawMessage) json.RawMessage {
	if exec := c.proposal.Plan.Action.Exec; exec != nil && exec.Stdin != nil {
		return nil
	}
	return history.Args(string(c.req.Tool), args)
}

// decisionOf is the decision in a grant, or in the refusal that came instead.
func decisionOf(g approval.Grant, err error) approval.Decision {
	var denied *approval.DeniedError
	if errors.As(err, &denied) {
		return denied.Decision
	}
	return g.Decision()
}

// record writes how the call ended. The agent gets the error that it returns: its own
// if the log took the entry, audit_unavailable if not.
func (s *Supervisor) record(c *call, err error) error {
	if c.durable != nil {
		if logErr := c.durable(); logErr != nil {
			err = logErr
		}
	}
	if s.shortages.Note(err, time.Now()) {
		s.cfg.Faults.Warn("calls find no room on the host", "error", err)
	}
	failure := failure.Wire(err)
	if logErr := s.logEnd(c, failure); logErr != nil {
		return logErr
	}
	if failure == nil {
		return nil
	}
	return s.withEvidence(c, failure)
}

// end says that the call is over.
func (s *Supervisor) end(c *call, err error) error {
	c.session.count(err)
	c.notify(protocol.MethodToolState, protocol.ToolState{CallID: c.req.CallID, State: protocol.Done})
	return err
}

// metadata is what the runtime says about the call, cleaned by Told.
func (s *Supervisor) metadata(c *call) json.RawMessage {
	if len(c.req.Metadata) == 0 {
		return nil
	}
	if c.metadata == nil {
		c.metadata = history.Told(s.cfg.Log, must.JSON(c.req.Metadata))
	}
	return c.metadata
}
