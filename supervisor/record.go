package supervisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// A decisionEntry is what the log keeps of a decision: who or what decided, and
// the plan it was about, whole but for the bytes of a file.
type decisionEntry struct {
	Description string            `json:"description,omitempty"`
	Rule        string            `json:"rule,omitempty"`
	Decision    approval.Decision `json:"decision"`
	Plan        *planEntry        `json:"plan,omitempty"`
	Content     *contentEntry     `json:"content,omitempty"`
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
	Violations any             `json:"violations,omitempty"`
}

// logDecision is durable when it returns nil.
func (s *Supervisor) logDecision(ctx context.Context, c *call) error {
	e := decisionEntry{Rule: c.proposal.Rule, Decision: c.decision}
	if r := c.proposal.Request; r != nil {
		e.Description = r.Description
	}
	if c.digest != "" {
		plan, content := withoutContent(c.proposal.Plan)
		e.Plan, e.Content = &planEntry{Plan: plan, ProfileDigest: plan.Profile.Digest()}, content
		if _, known := s.logged.LoadOrStore(e.Plan.ProfileDigest, true); !known {
			e.Plan.Profile = &plan.Profile
		}
	}
	// A call that is cancelled at this very moment has still been decided.
	err := s.append(context.WithoutCancel(ctx), c.entry(audit.KindDecision, e))
	c.logged = err == nil
	return err
}

// append writes one entry. Its error is audit_unavailable on the wire.
func (s *Supervisor) append(ctx context.Context, r audit.Record) error {
	_, err := s.cfg.Log.Append(ctx, r)
	if err == nil {
		s.auditFailure.Store(nil)
		return nil
	}
	s.auditFailure.Store(&err)
	return auditWire(err)
}

// logEnd closes the call in the log. A call that never came to a decision has
// only this entry, of kind refused.
func (s *Supervisor) logEnd(c *call, failure *protocol.Error) error {
	kind := audit.KindEnd
	if !c.logged {
		kind = audit.KindRefused
	}
	e := endEntry{
		Error: failure, ExitCode: c.result.ExitCode, Signal: c.result.Signal, Errno: c.result.Errno, Cause: string(c.result.Cause),
		DurationMS: c.result.Duration.Milliseconds(), TotalMS: time.Since(c.started).Milliseconds(),
		Stdout: c.result.Stdout, Stderr: c.result.Stderr, Truncated: c.result.Truncated,
	}
	if len(c.violations) > 0 {
		e.Violations = c.violations
	}
	if c.enforced.Backend != "" {
		e.EnforcedBy = c.enforced
	}
	return s.append(context.Background(), c.entry(kind, e))
}

func (c *call) entry(kind audit.Kind, data any) audit.Record {
	return audit.Record{
		Kind: kind, Session: string(c.session.id), Call: string(c.req.CallID), Peer: auditPeer(c.peer),
		Agent: c.session.agent, Tool: string(c.req.Tool), Digest: c.digest, Data: data,
	}
}

func auditPeer(p unixsock.Peer) *audit.Peer {
	return &audit.Peer{UID: uint32(p.UID), GID: uint32(p.GID), PID: int32(p.PID)}
}

// withoutContent replaces the bytes of a file to be written, or the edits of one
// as JSON, by their size and digest: the log proves what was written without holding it.
func withoutContent(p tools.Plan) (tools.Plan, *contentEntry) {
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
	sum := sha256.Sum256(content)
	p.Action.File = &op
	return p, &contentEntry{Bytes: len(content), SHA256: hex.EncodeToString(sum[:])}
}

// decisionOf is the decision in a grant, or in the refusal that came instead.
func decisionOf(g approval.Grant, err error) approval.Decision {
	var denied *approval.DeniedError
	if errors.As(err, &denied) {
		return denied.Decision
	}
	return g.Decision()
}
