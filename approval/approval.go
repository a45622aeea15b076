package approval

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// A Context describes a call to a tool that decides whether the call needs approval.
type Context struct {
	ToolName string         `json:"tool_name"`
	Args     map[string]any `json:"args"`
	// Metadata carries what a framework wants to add (run id, caller).
	Metadata map[string]any `json:"metadata,omitempty"`
}

// A Request asks for approval of one call.
type Request struct {
	ToolName    string `json:"tool_name"`
	Description string `json:"description"`
	// Payload is the fingerprint by which "the same again" is recognised: two
	// requests are the same when their tool names are equal and their payloads
	// are deeply equal as canonical JSON. The tool chooses the granularity.
	Payload map[string]any `json:"payload"`
	// Covers says in words what an answer covers that is remembered, where that is more
	// than the very call: "this file, with any content". "" is the call as it is.
	Covers string `json:"covers,omitempty"`
	// Once, if set, says why an answer that allows the call cannot be remembered for it.
	Once         string        `json:"once,omitempty"`
	Presentation *Presentation `json:"presentation,omitempty"`
	GroupID      string        `json:"group_id,omitempty"`
}

// A Presentation is how a request is shown to a person.
type Presentation struct {
	Type     PresentationType `json:"type"`
	Content  string           `json:"content"`
	Language string           `json:"language,omitempty"`
	// Metadata holds "full_content" when Content was cut for display.
	Metadata map[string]any `json:"metadata,omitempty"`
}

// PresentationType is text, diff, file_content, command or structured.
type PresentationType string

const (
	Text        PresentationType = "text"
	Diff        PresentationType = "diff"
	FileContent PresentationType = "file_content"
	Command     PresentationType = "command"
	Structured  PresentationType = "structured"
)

// Aware is implemented by a tool that knows when it needs approval. CheckApproval is pure and
// fast. It returns nil if no approval is needed, a request if a person must be asked, and a
// *Blocked error if the call is never allowed.
type Aware interface {
	CheckApproval(Context) (*Request, error)
}

// Blocked is the permission error: the call is not allowed, in any mode.
type Blocked struct {
	Reason string // for people
	Rule   string // what decided
	Hint   string // for the model: what would be allowed instead
}

func (b *Blocked) Error() string { return "blocked: " + b.Reason }

// IsBlocked reports whether err is, or wraps, a *Blocked.
func IsBlocked(err error) bool {
	var b *Blocked
	return errors.As(err, &b)
}

// Mode is how a controller treats a request.
type Mode string

const (
	Interactive Mode = "interactive"
	ApproveAll  Mode = "approve_all"
	Strict      Mode = "strict"
)

// tighten returns the stricter of two modes; "" in a call keeps the controller's own. An
// unknown word counts as Strict, so a misspelt mode from an agent, which may only tighten,
// never loosens.
func (m Mode) tighten(call Mode) Mode {
	if call == "" {
		call = m
	}
	for _, strictest := range []Mode{Strict, Interactive} {
		if m.known() == strictest || call.known() == strictest {
			return strictest
		}
	}
	return ApproveAll
}

func (m Mode) known() Mode {
	if m == Interactive || m == ApproveAll {
		return m
	}
	return Strict
}

// Scope is how far an answer reaches.
type Scope string

const (
	Once    Scope = "once"
	Session Scope = "session"
	Agent   Scope = "agent"
	Global  Scope = "global"
)

// RejectMode says how a denial affects the calls that follow.
type RejectMode string

const (
	RejectSoft    RejectMode = "reject_soft"    // this call only
	RejectHard    RejectMode = "reject_hard"    // this call and the rest of its batch
	RejectExplain RejectMode = "reject_explain" // not run; the model is asked to explain first
)

// A Call is one question to a Controller. Subject is the plan; the Grant returns the same
// value, so that exactly what was approved runs. As JSON it is all that is data: an Outer in
// another process is given the rest apart.
type Call struct {
	// ID is the caller's own name for the call, for the record. It may come from
	// an agent, so no answer refers to it: a pending request has an ID that the
	// controller made (Pending.ID).
	ID        string
	SessionID string
	Agent     string
	// Peer is the client that makes the call: what waits for its calls is bounded.
	Peer string
	// SessionName, SessionMetadata and Metadata are the caller's own description of its session and
	// the call, shown to the approver (JSON or nil). They do not affect the decision.
	SessionName     string
	SessionMetadata json.RawMessage `json:",omitempty"`
	Metadata        json.RawMessage `json:",omitempty"`

	ToolName  string
	Connector string
	// DenialsOf are connectors whose remembered denials hold for this call too: it is one
	// of theirs, made in a way that calls for more care. Their allows do not.
	DenialsOf []string
	BatchID   string
	Mode      Mode // may only tighten the controller's own; "" means the controller's

	// Request is nil when the tool needs no approval. Err is the tool's
	// *Blocked, if any.
	Request *Request
	Err     error `json:"-"`

	Digest  string // of Subject
	Subject any    `json:"-"`
	// Unseen, where the answer was given to another call (a remembered pattern, a standing
	// rule), is what is permitted instead, with its digest. If it is nil, Subject is
	// permitted.
	Unseen func() (subject any, digest string) `json:"-"`
	// Boundary is everything that the call could reach. Within reports whether that is no more than
	// an earlier boundary: a remembered answer covers only what was shown with it. Both are nil if
	// the payload already says everything.
	Boundary func() string          `json:"-"`
	Within   func(then string) bool `json:"-"`
	// Reach lists what the call touches, for matching patterns.
	Reach Reach
	// Args are the arguments as the agent gave them, a JSON object, for the
	// approver; "" where there is nothing to show or edit.
	Args json.RawMessage `json:",omitempty"`
	// Revise makes the call that it would be with other arguments, checked and planned
	// as this one was; nil where arguments cannot be edited. The approver gets its
	// error, and the request stays pending.
	Revise func(args json.RawMessage) (Call, error) `json:"-"`
	// Rule names the part of the configuration that asks, for display.
	Rule string
	// Annotations are the tool's claims about itself; nil means none.
	Annotations *Annotations
	// Foreign is set if no tool has looked at the call: only a list that calls the
	// tool safe, or a policy that lets unknown tools be, spares the question.
	Foreign bool
	// CallerAsks is set if the caller asks its own user: a call that needs a person is then refused
	// as approval_required.
	CallerAsks bool
	// Asked, if not nil, is called with the id of the request (Pending.ID) when a person must be
	// asked, before Decide waits for the answer.
	Asked func(requestID string) `json:"-"`
	// ApprovalID is that of a request which was made with Defer.
	ApprovalID string
	// ByFullName is for Rules, and set by the controller: the tool is dangerous, or each
	// call of it a question of its own, so an allow rule covers it only without a wildcard.
	ByFullName bool
	// ByItself says why an answer that allows the call is for this call alone, pattern or not,
	// or is "".
	ByItself string
	// Changed says that the tool is not what it was when a call of it was last let
	// through: no allow rule was made for what it is now.
	Changed bool
	// Present builds the presentation when an approver opens the request.
	Present func(context.Context) (*Presentation, error) `json:"-"`
	// Details tells the approver more: rule, directory, profile in words. It is
	// called once, when the request begins to wait, and does no I/O.
	Details func() map[string]string `json:"-"`
	// BatchRemaining lists what would come after this call, for the approver.
	BatchRemaining []string
}

// An Answer is an approver's decision on a pending request.
type Answer struct {
	Allow    bool
	Scope    Scope      // "" is Once
	Reject   RejectMode // "" is RejectHard
	Feedback string
	Approver string // who answers: "uid 1000, pid 4242", never from the agent's side
	// Interrupt, with a denial, ends the rest of the batch and tells the agent to
	// end its turn.
	Interrupt bool
	// Args, with an allow, replace the arguments of the call. They go through the
	// tool's own check again, and a remembered answer is about them.
	Args json.RawMessage
	// Digest, if set, is the Call.Digest that the approver was shown: an answer is for
	// that plan, and a call that would now be another one is shown again first.
	Digest string
	// Pattern, with a scope beyond Once, is remembered in place of the call. It
	// has to fit the call at hand.
	Pattern *Pattern
	// ExpiresAfter and Uses limit a remembered answer; 0 means no limit.
	ExpiresAfter time.Duration
	Uses         int
}

// A Decision is the record of one decision.
type Decision struct {
	ID        string     `json:"id"`
	RequestID string     `json:"request_id"` // Pending.ID; "" if no one was asked
	CallID    string     `json:"call_id,omitempty"`
	SessionID string     `json:"session_id"`
	Agent     string     `json:"agent,omitempty"`
	ToolName  string     `json:"tool_name"`
	Connector string     `json:"connector,omitempty"`
	Action    Action     `json:"action"`
	Scope     Scope      `json:"scope,omitempty"`
	Reject    RejectMode `json:"reject_mode,omitempty"`
	Source    Source     `json:"source"`         // the step of the order that decided
	Rule      string     `json:"rule,omitempty"` // the rule or remembered answer that decided, if one did
	Reason    string     `json:"reason,omitempty"`
	Approver  string     `json:"approver,omitempty"`
	Feedback  string     `json:"feedback,omitempty"`
	Interrupt bool       `json:"interrupt,omitempty"` // the agent must end its turn
	Digest    string     `json:"digest,omitempty"`    // of what was decided on
	// AskedDigest is of what was asked for, and Args are the arguments instead of
	// it, where the approver edited them.
	AskedDigest string          `json:"asked_digest,omitempty"`
	Args        json.RawMessage `json:"args,omitempty"`
	Pattern     *Pattern        `json:"pattern,omitempty"` // that was remembered
	Time        time.Time       `json:"time"`
}

// Action is the outcome of a decision.
type Action string

const (
	NotNeeded       Action = "not_needed"
	Approved        Action = "approved"
	SessionApproved Action = "session_approved"
	Denied          Action = "denied"
	BlockedAction   Action = "blocked"
	TimedOut        Action = "timed_out"
	Dismissed       Action = "dismissed"
	LeftToCaller    Action = "left_to_caller" // nothing was decided: the caller asks a person itself
)

// State is where a request stands.
type State string

const (
	StatePending   State = "pending"
	StateApproved  State = "approved"
	StateDenied    State = "denied"
	StateDismissed State = "dismissed"
)

// State is the state that a leaves a request in. An action that this
// package does not know is a denial.
func (a Action) State() State {
	switch a {
	case NotNeeded, Approved, SessionApproved:
		return StateApproved
	case Dismissed:
		return StateDismissed
	}
	return StateDenied
}

// A DeniedError is returned by Controller.Decide for every refusal; Decision
// says by whom and why.
type DeniedError struct {
	Decision Decision
	Code     Code
	Hint     string // for the model

	cause error // the tool's *Blocked, or why the context ended
}

func (e *DeniedError) Error() string { return "denied: " + e.Decision.Reason }

// Unwrap gives the tool's *Blocked or the context's error, where there is one.
func (e *DeniedError) Unwrap() error { return e.cause }

// Code classifies a refusal; the wire uses the same words.
type Code string

const (
	CodeDenied     Code = "denied"
	CodeBlocked    Code = "blocked"
	CodeTimeout    Code = "approval_timeout"
	CodeNoApprover Code = "no_approver"
	CodeCancelled  Code = "cancelled"
	CodeLimit      Code = "limit_exceeded"
	CodeDeferred   Code = "approval_required"
)
