package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/tools"
)

// A decisionEntry is what the log keeps of a decision: who or what decided, and
// the plan it was about, whole but for the bytes of a file.
type decisionEntry struct {
	Description string            `json:"description,omitempty"`
	Rule        string            `json:"rule,omitempty"`
	Args        json.RawMessage   `json:"args,omitempty"` // without the content of files
	Decision    approval.Decision `json:"decision"`
	Plan        *planEntry        `json:"plan,omitempty"`
	Content     *contentEntry     `json:"content,omitempty"`
	// Metadata is what the agent runtime says about the call.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Elsewhere is set if the agent carries the call out itself.
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Asked is what the agent asked for, where the approver edited it.
	Asked *askedEntry `json:"asked,omitempty"`
}

// askedEntry is the plan that an edit replaced.
type askedEntry struct {
	Digest  string        `json:"digest"`
	Plan    *planEntry    `json:"plan"`
	Content *contentEntry `json:"content,omitempty"`
}

// planEntry is a plan with its profile by digest. The profile itself is written
// with the first decision of this supervisor that has it: it is the same for most
// calls, and larger than all the rest.
type planEntry struct {
	tools.Plan
	Profile       *sandboxprofile.Profile `json:"profile,omitempty"`
	ProfileDigest string                  `json:"profile_digest"`
}

// contentEntry stands for content that is not copied into the log.
type contentEntry struct {
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

type endEntry struct {
	Error      *protocol.Error `json:"error,omitempty"`
	ExitCode   int             `json:"exit_code"`
	Signal     string          `json:"signal,omitempty"`
	Errno      string          `json:"errno,omitempty"`
	Cause      string          `json:"cause,omitempty"`
	DurationMS int64           `json:"duration_ms"` // of the tool
	TotalMS    int64           `json:"total_ms"`    // from request to end, waiting for an approver included
	Stdout     int64           `json:"stdout_bytes"`
	Stderr     int64           `json:"stderr_bytes"`
	Truncated  bool            `json:"truncated,omitempty"`
	EnforcedBy any             `json:"enforced_by,omitempty"`
	Elsewhere  bool            `json:"elsewhere,omitempty"` // carried out by the agent: nothing enforced the profile
	Violations any             `json:"violations,omitempty"`

	Exposed []protocol.ExposedPort `json:"exposed,omitempty"`
	// Metadata is what the agent runtime says about a call that has no decision.
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// logDecision hands the decision to the log; c.durable says when it is on the disk.
func (s *Supervisor) logDecision(ctx context.Context, c *call) error {
	e := decisionEntry{Rule: c.proposal.Rule, Args: c.loggedArgs(c.req.Args), Decision: c.decision, Metadata: s.metadata(c), Elsewhere: c.kind.elsewhere()}
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
		e.Asked = &askedEntry{Digest: c.asked.Digest()}
		e.Asked.Plan, e.Asked.Content = s.planEntry(*c.asked, s.profiles.known(c.asked.Profile))
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

func (s *Supervisor) planEntry(p tools.Plan, profile knownProfile) (*planEntry, *contentEntry) {
	plan, content := withoutContent(p)
	e := &planEntry{Plan: plan, ProfileDigest: profile.digest}
	if _, known := s.logged.LoadOrStore(e.ProfileDigest, true); !known {
		e.Profile = &plan.Profile
	}
	return e, content
}

// append writes one entry. Its error is audit_unavailable on the wire.
func (s *Supervisor) append(ctx context.Context, r audit.Record) error {
	s.writeOwed()
	_, err := s.cfg.Log.Append(ctx, r)
	return s.appended(err)
}

// appended notes whether the log takes entries, and gives err as the agent is told it.
func (s *Supervisor) appended(err error) error {
	if err == nil {
		s.auditFailure.Store(nil)
		return nil
	}
	s.auditFailure.Store(&err)
	return auditWire(err)
}

// owedEnds are the ends of calls that ran and whose log had no room at that moment: without
// them the next start would take the calls for interrupted ones.
type owedEnds struct {
	mu  sync.Mutex
	all []audit.Record
}

// maxOwed bounds them. What is beyond is told by the next start as interrupted.
const maxOwed = 4096

func (o *owedEnds) add(r audit.Record) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.all) < maxOwed {
		o.all = append(o.all, r)
	}
}

// writeOwed writes what is owed before anything that comes later.
func (s *Supervisor) writeOwed() {
	s.owed.mu.Lock()
	defer s.owed.mu.Unlock()
	for len(s.owed.all) > 0 {
		r := s.owed.all[0]
		s.owed.all = s.owed.all[1:]
		if _, err := s.cfg.Log.Append(context.Background(), r); err != nil {
			s.owed.all = append(s.owed.all, r) // behind the others, if the fault is its own
			return
		}
	}
}

// logEnd closes the call in the log. A call that never came to a decision has
// only this entry, of kind refused.
func (s *Supervisor) logEnd(c *call, failure *protocol.Error) error {
	kind := audit.KindEnd
	if c.durable == nil || c.durable() != nil {
		kind = audit.KindRefused
	}
	e := endEntry{
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
	e.Elsewhere = c.kind.elsewhere()
	if c.enforced.Backend != "" {
		e.EnforcedBy = c.enforced
	}
	r := c.entry(kind, e)
	err := s.append(context.Background(), r)
	if err != nil && kind == audit.KindEnd {
		s.owed.add(r)
	}
	return err
}

// subject is what the call is about, in words for people; raw text.
func (c *call) subject() string {
	plan := c.proposal.Plan
	switch {
	case c.proposal.Request != nil:
		return c.proposal.Request.Description
	case plan.Action.Exec != nil:
		return tools.QuoteCommand(plan.Action.Exec.Argv)
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

// withoutContent replaces the bytes of a file to be written, the edits of one
// as JSON, or a program's standard input by their size and digest: the log proves
// what was written without holding it.
func withoutContent(p tools.Plan) (tools.Plan, *contentEntry) {
	if exec := p.Action.Exec; exec != nil && exec.Stdin != nil {
		program := *exec
		program.Stdin = nil
		p.Action.Exec = &program
		return p, contentOf(exec.Stdin)
	}
	p.MCP.Args = nil // they stand in the entry already
	if p.Action.File == nil {
		return p, nil
	}
	op := *p.Action.File
	var content []byte
	switch p.Action.Kind {
	case sandboxprofile.WriteFile:
		content, op.Content = op.Content, nil
	case sandboxprofile.EditFile:
		content, op.Edits = mustJSON(op.Edits), nil
	default:
		return p, nil
	}
	p.Action.File = &op
	return p, contentOf(content)
}

func contentOf(content []byte) *contentEntry {
	sum := sha256.Sum256(content)
	return &contentEntry{Bytes: len(content), SHA256: hex.EncodeToString(sum[:])}
}

// decisionOf is the decision in a grant, or in the refusal that came instead.
func decisionOf(g approval.Grant, err error) approval.Decision {
	var denied *approval.DeniedError
	if errors.As(err, &denied) {
		return denied.Decision
	}
	return g.Decision()
}
