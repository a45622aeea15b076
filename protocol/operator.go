package protocol

import (
	"bytes"
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

// An Approval is a request that waits for an answer: an approval.Pending in the words of this
// protocol, which stay when those of the decision point change.
type Approval struct {
	ID        ApprovalID `json:"id"`
	SessionID SessionID  `json:"session_id"`
	CallID    CallID     `json:"call_id,omitempty"` // as the agent named it
	Agent     string     `json:"agent"`
	// SessionName, SessionMetadata and Metadata come from the agent runtime, about its
	// session and the call. Secrets in them are replaced, and long ones are left out;
	// show them escaped.
	SessionName     string          `json:"session_name,omitempty"`
	SessionMetadata json.RawMessage `json:"session_metadata,omitempty"`
	Metadata        json.RawMessage `json:"metadata,omitempty"`
	Tool            ToolName        `json:"tool"`
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
	// Connector is where the tool comes from, such as an MCP server; "" is here.
	Connector string `json:"connector,omitempty"`
	// Rule is the rule of the configuration that asks, and Cause is the reason when it
	// is not the tool itself: unknown_tool, annotations.
	Rule  string `json:"rule,omitempty"`
	Cause string `json:"cause,omitempty"`
	// Args are the arguments as the agent gave them, and what an edit starts
	// from. They are set by approvals.show and approvals.preview only, and where
	// an edit is possible.
	Args json.RawMessage `json:"args,omitempty"`
	// Patterns could be remembered in place of this very call. They are set by
	// approvals.show and approvals.preview only.
	Patterns []approval.Offer `json:"patterns,omitempty"`
	// Once, if set, says why an answer that allows this very call is not remembered.
	Once string `json:"once,omitempty"`
	// Omitted: something of the request is left out for its length. In lists and
	// notifications, approvals.show has it.
	Omitted bool `json:"omitted,omitempty"`
	// Deferred: the agent does not wait; it will ask again after the answer.
	Deferred bool `json:"deferred,omitempty"`
	// Turn is the place of the request among those that wait: lists have the lowest first, and of the same
	// turn the one that came first. So no agent's requests stand before all of another's.
	Turn    uint64    `json:"turn,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"` // no answer by then is a denial
}

// UnmarshalJSON implements json.Unmarshaler. An agent's numbers stay as they were written: as a float64 a long one would be
// another number on the screen, and 1e400 an error, for which no approver saw what else waits.
func (a *Approval) UnmarshalJSON(text []byte) error {
	type plain Approval
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode((*plain)(a))
}

// ApprovalsSubscribe narrows a connection permanently, if it names a session.
type ApprovalsSubscribe struct {
	// SessionID is a session that the same process has opened: the connection sees and
	// answers its requests alone, each once. The configuration has to allow it.
	SessionID SessionID `json:"session_id,omitempty"`
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

// ApprovalsPreview asks what a pending request would be with other arguments, or
// what a pattern would cover, before either is sent with approvals.decide.
type ApprovalsPreview struct {
	ID      ApprovalID        `json:"id"`
	Args    json.RawMessage   `json:"args,omitempty"`
	Pattern *approval.Pattern `json:"pattern,omitempty"`
}

// ApprovalsPreviewed answers approvals.preview. What cannot be done is an error
// instead, with the reason.
type ApprovalsPreviewed struct {
	Approval Approval        `json:"approval"`          // with the arguments and their presentation
	Pattern  *approval.Offer `json:"pattern,omitempty"` // what the given one covers
}

// Verdict is allow, deny or dismiss. Its zero value is not an answer, and is refused.
type Verdict string

// The verdicts.
const (
	Allow   Verdict = "allow"
	Deny    Verdict = "deny"
	Dismiss Verdict = "dismiss" // the call is refused, and nothing decided about it
)

// ApprovalsDecide answers pending requests: exactly one of ID, IDs and Group
// says which.
type ApprovalsDecide struct {
	ID       ApprovalID          `json:"id,omitempty"`
	IDs      []ApprovalID        `json:"ids,omitempty"`
	Group    string              `json:"group,omitempty"` // all pending requests of this group id; not of an allow
	Decision Verdict             `json:"decision"`
	Scope    approval.Scope      `json:"scope,omitempty"` // "" is once
	Mode     approval.RejectMode `json:"mode,omitempty"`  // of a denial; "" is reject_hard
	Feedback string              `json:"feedback,omitempty"`
	// Interrupt, with a denial, tells the agent to end its turn.
	Interrupt bool `json:"interrupt,omitempty"`
	// Args, with an allow of a single ID, replace the arguments of the call.
	Args json.RawMessage `json:"args,omitempty"`
	// PlanDigest, with a single ID, is that of what was shown: of approvals.preview, where
	// there are Args. The answer is refused, and the request waits on, if the call would
	// now do something else.
	PlanDigest string `json:"plan_digest,omitempty"`
	// Pattern, with a scope beyond once and a single ID, is remembered in place of
	// the call.
	Pattern *approval.Pattern `json:"pattern,omitempty"`
	// Expires, with a scope beyond once, ends what is remembered earlier.
	Expires *Expires `json:"expires,omitempty"`
}

// Expires says when a remembered answer ends, whichever comes first. At scope
// session it ends with the session in any case.
type Expires struct {
	AfterMS int64 `json:"after_ms,omitempty"`
	Uses    int   `json:"uses,omitempty"`
}

// Remembered is the answer to approvals.remembered: those of open sessions
// first, each oldest first.
type Remembered struct {
	Answers []RememberedAnswer `json:"answers"`
	More    bool               `json:"more,omitempty"` // than fit into a message
}

// A RememberedAnswer decides calls until it is forgotten or expires. It covers
// the very call of its payload, or what its pattern matches. It is an approval.Memory in the
// words of this protocol.
type RememberedAnswer struct {
	ID          string            `json:"id"`
	Decision    Verdict           `json:"decision"`
	Scope       approval.Scope    `json:"scope"`
	Holder      string            `json:"holder,omitempty"` // the session or the agent
	Tool        ToolName          `json:"tool"`
	Connector   string            `json:"connector,omitempty"`
	Description string            `json:"description,omitempty"` // of the request that was answered
	Payload     string            `json:"payload,omitempty"`     // canonical JSON; left out where it is long
	Pattern     *approval.Pattern `json:"pattern,omitempty"`
	// Text says in words what the pattern covers.
	Text      string     `json:"text,omitempty"`
	Approver  string     `json:"approver"`
	Feedback  string     `json:"feedback,omitempty"`
	SessionID SessionID  `json:"session_id,omitempty"` // where it was given
	Created   time.Time  `json:"created"`
	Expires   *time.Time `json:"expires,omitempty"`   // null: not by time
	UsesLeft  *int       `json:"uses_left,omitempty"` // null: any number
	LastUsed  *time.Time `json:"last_used,omitempty"` // null: never
	Hits      int        `json:"hits"`
}

// ApprovalsForget drops one remembered answer by its id.
type ApprovalsForget struct {
	ID string `json:"id"`
}

// ApprovalsDecided answers approvals.decide, one entry for each request. When a
// single ID was given and its answer failed, the response is that error instead.
type ApprovalsDecided struct {
	Results []Decided `json:"results"`
}

// Decided is the result of one answer: a decision or an error.
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
	// Sources are the files of the configuration, the administrator's first, as they
	// were at the start. Stale says what of them is no longer so on the disk.
	Sources []ConfigSource `json:"sources,omitempty"`
	Stale   []string       `json:"stale,omitempty"`
	HTTP    *HTTPStatus    `json:"http,omitempty"` // nil: it does not listen
}

// A ConfigSource is a file of the configuration.
type ConfigSource struct {
	Tier    string `json:"tier"`
	File    string `json:"file"`
	Digest  string `json:"digest"`
	Trusted bool   `json:"trusted"`
}

// HTTPStatus says where the web page and the bridges are.
type HTTPStatus struct {
	Address   string `json:"address"`    // on loopback
	TokenFile string `json:"token_file"` // what programs show
}

// SandboxStatus says whether tools can be confined, and by what.
type SandboxStatus struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"` // why not
	Hint   string `json:"hint,omitempty"`
	// EnforcedBy is what enforced the limits of the last program that ran, or before
	// the first one of a sandbox that was built at the start, without a network. What
	// holds a call is in its result.
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
	More     bool          `json:"more,omitempty"` // than fit into a message
}

// SessionInfo describes an open session.
type SessionInfo struct {
	ID           SessionID       `json:"id"`
	Agent        string          `json:"agent"`
	Name         string          `json:"name,omitempty"`
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
	if p.Decision != Allow && p.Decision != Deny && p.Decision != Dismiss {
		return &FieldError{Path: "params.decision", Reason: fmt.Sprintf("must be allow, deny or dismiss, not %q", p.Decision)}
	}
	if err := p.checkParts(); err != nil {
		return err
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

// checkParts holds what is said beside the decision against it.
func (p *ApprovalsDecide) checkParts() error {
	beyondOnce := p.Scope != "" && p.Scope != approval.Once
	for _, rule := range []struct {
		field  string
		broken bool
		reason string
	}{
		{"mode", p.Mode != "" && p.Decision != Deny, "only a denial has a mode"},
		{"interrupt", p.Interrupt && p.Decision != Deny, "only a denial can interrupt"},
		{"scope", beyondOnce && p.Decision == Dismiss, "a dismissal is not remembered"},
		{"args", len(p.Args) > 0 && (p.Decision != Allow || p.ID == ""), "edited arguments go with an allow of a single id"},
		{"args", len(p.Args) > 0 && !isObject(p.Args), "must be an object"},
		{"plan_digest", p.PlanDigest != "" && (p.Decision != Allow || p.ID == ""), "the digest of what was shown goes with an allow of a single id"},
		{"pattern", p.Pattern != nil && (p.Decision == Dismiss || p.ID == ""), "a pattern goes with an answer to a single id"},
		{"pattern", p.Pattern != nil && !beyondOnce, "a pattern needs the scope session, agent or global"},
		{"expires", p.Expires != nil && !beyondOnce, "only a remembered answer can expire: give a scope"},
		{"expires", p.Expires != nil && (p.Expires.AfterMS < 0 || p.Expires.Uses < 0 || *p.Expires == Expires{}), "needs after_ms or uses, greater than 0"},
		{"expires.after_ms", p.Expires != nil && p.Expires.AfterMS > maxExpiryMS, "is more than ten years"},
	} {
		if rule.broken {
			return &FieldError{Path: "params." + rule.field, Reason: rule.reason}
		}
	}
	return nil
}

// maxExpiryMS is ten years: beyond it, a time.Duration would overflow.
const maxExpiryMS = 10 * 366 * 24 * 60 * 60 * 1000

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

func (p *ApprovalsPreview) Validate() error {
	if len(p.Args) > 0 && !isObject(p.Args) {
		return &FieldError{Path: "params.args", Reason: "must be an object"}
	}
	return checkID("params.id", string(p.ID))
}

func (p *ApprovalsForget) Validate() error { return checkID("params.id", p.ID) }

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
	if p.Group != "" && p.Decision == Allow { // agents choose the ids of groups, and add to them
		return &FieldError{Path: "params.group", Reason: "an allow names the requests that were looked at: use ids"}
	}
	for i, id := range p.IDs {
		if err := checkID(fmt.Sprintf("params.ids[%d]", i), string(id)); err != nil {
			return err
		}
	}
	return checkOptionalID("params.id", string(p.ID))
}
