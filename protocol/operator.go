package protocol

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sandgate/sandgate/approval"
)

// A Peer is who is at the other end of a connection, as the kernel says.
type Peer struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
	PID int `json:"pid"`
}

// An Approval is a request that waits for an answer.
type Approval struct {
	ID        ApprovalID `json:"id"`
	SessionID SessionID  `json:"session_id"`
	CallID    CallID     `json:"call_id,omitempty"` // as the agent named it
	Agent     string     `json:"agent"`
	Tool      ToolName   `json:"tool"`
	// Description, Payload, Presentation and Details come from the tool and the
	// agent: show them escaped.
	Description string         `json:"description"`
	Payload     map[string]any `json:"payload,omitempty"`
	// Presentation is set by approvals.show only.
	Presentation   *approval.Presentation `json:"presentation,omitempty"`
	Details        map[string]string      `json:"details,omitempty"`
	GroupID        string                 `json:"group_id,omitempty"`
	BatchRemaining []string               `json:"batch_remaining,omitempty"`
	PlanDigest     string                 `json:"plan_digest,omitempty"`
	Created        time.Time              `json:"created"`
	Expires        time.Time              `json:"expires"` // no answer by then is a denial
}

// ApprovalsList is the answer to approvals.list and approvals.subscribe, oldest
// first. After approvals.subscribe, a request may be both in the list and in an
// approval.requested notification: know them by their id.
type ApprovalsList struct {
	Approvals []Approval `json:"approvals"`
}

// ApprovalsShowParams ask for one pending request with its presentation.
type ApprovalsShowParams struct {
	ID ApprovalID `json:"id"`
}

// Verdict is allow or deny. Its zero value is neither, and refused.
type Verdict string

// The two verdicts.
const (
	Allow Verdict = "allow"
	Deny  Verdict = "deny"
)

// ApprovalsDecide answers pending requests: exactly one of ID, IDs and Group
// says which.
type ApprovalsDecide struct {
	ID       ApprovalID          `json:"id,omitempty"`
	IDs      []ApprovalID        `json:"ids,omitempty"`
	Group    string              `json:"group,omitempty"` // all pending requests of this group id
	Decision Verdict             `json:"decision"`
	Scope    approval.Scope      `json:"scope,omitempty"` // "" is once
	Mode     approval.RejectMode `json:"mode,omitempty"`  // of a denial; "" is reject_hard
	Feedback string              `json:"feedback,omitempty"`
}

// ApprovalsDecided answers approvals.decide, one entry for each request. When a
// single ID was given and its answer failed, the response is that error instead.
type ApprovalsDecided struct {
	Results []Decided `json:"results"`
}

// Decided is what became of one answer: a decision or an error.
type Decided struct {
	ID       ApprovalID         `json:"id"`
	Decision *approval.Decision `json:"decision,omitempty"`
	Error    *Error             `json:"error,omitempty"`
}

// ApprovalEvent is the content of the approval.* notifications.
type ApprovalEvent struct {
	Approval Approval `json:"approval"`
	// Decision is set by approval.resolved.
	Decision *approval.Decision `json:"decision,omitempty"`
}

// Status describes a running supervisor.
type Status struct {
	Version         string        `json:"version"`
	ProtocolVersion int           `json:"protocol_version"`
	PID             int           `json:"pid"`
	Started         time.Time     `json:"started"`
	Config          string        `json:"config,omitempty"` // "" is the embedded default
	Mode            approval.Mode `json:"mode"`
	Sessions        int           `json:"sessions"`
	CallsRunning    int           `json:"calls_running"`
	CallsTotal      int64         `json:"calls_total"`
	Pending         int           `json:"pending_approvals"`
	Approvers       int           `json:"approvers"` // connections that have subscribed
	ToolsDigest     string        `json:"tools_digest,omitempty"`
	Sandbox         SandboxStatus `json:"sandbox"`
	Audit           AuditStatus   `json:"audit"`
	Warnings        []string      `json:"warnings,omitempty"`
}

// SandboxStatus says whether tools can be confined, and by what.
type SandboxStatus struct {
	Ready      bool       `json:"ready"`
	Reason     string     `json:"reason,omitempty"` // why not
	Hint       string     `json:"hint,omitempty"`
	EnforcedBy EnforcedBy `json:"enforced_by"`
}

// AuditStatus is the state of the audit log.
type AuditStatus struct {
	Path    string `json:"path,omitempty"`
	Entries int64  `json:"entries"`
	Error   string `json:"error,omitempty"` // why nothing can be written
}

// SessionsList is the answer to sessions.list.
type SessionsList struct {
	Sessions []SessionInfo `json:"sessions"`
}

// SessionInfo describes an open session.
type SessionInfo struct {
	ID           SessionID       `json:"id"`
	Agent        string          `json:"agent"`
	Peer         Peer            `json:"peer"`
	Mode         approval.Mode   `json:"mode"`
	Opened       time.Time       `json:"opened"`
	Calls        int             `json:"calls"`
	CallsRunning int             `json:"calls_running"`
	Metadata     json.RawMessage `json:"metadata,omitempty"`
}

func (p *ApprovalsShowParams) Validate() error { return checkID("params.id", string(p.ID)) }

func (p *ApprovalsDecide) Validate() error {
	if err := p.checkTarget(); err != nil {
		return err
	}
	if p.Decision != Allow && p.Decision != Deny {
		return &FieldError{Path: "params.decision", Reason: fmt.Sprintf("must be allow or deny, not %q", p.Decision)}
	}
	if p.Decision == Allow && p.Mode != "" {
		return &FieldError{Path: "params.mode", Reason: "only a denial has a mode"}
	}
	switch p.Scope {
	case "", approval.Once, approval.Session, approval.Agent, approval.Global:
	default:
		return &FieldError{Path: "params.scope", Reason: fmt.Sprintf("unknown scope %q", p.Scope),
			Hint: "scopes: once, session, agent, global"}
	}
	switch p.Mode {
	case "", approval.RejectSoft, approval.RejectHard, approval.RejectExplain:
	default:
		return &FieldError{Path: "params.mode", Reason: fmt.Sprintf("unknown mode %q", p.Mode),
			Hint: "modes of a denial: reject_soft, reject_hard, reject_explain"}
	}
	return nil
}

// checkTarget wants exactly one of id, ids and group.
func (p *ApprovalsDecide) checkTarget() error {
	given := 0
	for _, set := range []bool{p.ID != "", len(p.IDs) > 0, p.Group != ""} {
		if set {
			given++
		}
	}
	if given != 1 {
		return &FieldError{Path: "params", Reason: "exactly one of id, ids and group must say what is decided"}
	}
	for i, id := range p.IDs {
		if err := checkID(fmt.Sprintf("params.ids[%d]", i), string(id)); err != nil {
			return err
		}
	}
	return checkOptionalID("params.id", string(p.ID))
}
