package protocol

import "encoding/json"

// ToolsDecide asks for the decision about a call that the agent's runtime carries out
// itself. It is decided and recorded like any other, and nothing is run: no sandbox
// holds such a call. Tool and Args are those of a tool of the session, whose rules hold
// then, or of one that only the runtime has.
type ToolsDecide struct {
	SessionID SessionID       `json:"session_id"`
	CallID    CallID          `json:"call_id"`
	Tool      ToolName        `json:"tool"`
	Args      json.RawMessage `json:"args,omitempty"`
	GroupID   string          `json:"group_id,omitempty"`
	Metadata  map[string]any  `json:"metadata,omitempty"`
	// Ask says whom to ask where a person has to be; "" is the approvers.
	Ask WhoIsAsked `json:"ask,omitempty"`
}

// WhoIsAsked says who has the question where a person has to answer one.
type WhoIsAsked string

const (
	ApproversAsk WhoIsAsked = "approvers"
	// AgentAsks leaves it to the agent: where a person has to be asked, the answer is
	// approval_required at once, without an approval id. What that person says is not
	// known here, and not recorded.
	AgentAsks WhoIsAsked = "agent"
)

// ToolsDecided allows the call; a refusal is an error, as of tools.call.
type ToolsDecided struct {
	Decision   Decision `json:"decision"`
	PlanDigest string   `json:"plan_digest"`
	// EnforcedBy is empty on every axis: nothing here holds what the agent does.
	EnforcedBy EnforcedBy `json:"enforced_by"`
	Warnings   []string   `json:"warnings,omitempty"`
}

// ToolsCall is the call that is decided about.
func (p ToolsDecide) ToolsCall() ToolsCall {
	return ToolsCall{SessionID: p.SessionID, CallID: p.CallID, Tool: p.Tool, Args: p.Args, GroupID: p.GroupID, Metadata: p.Metadata}
}

// Validate implements Validator.
func (p *ToolsDecide) Validate() error {
	switch p.Ask {
	case "", ApproversAsk, AgentAsks:
	default:
		return &FieldError{Path: "params.ask", Reason: "must be approvers or agent"}
	}
	c := p.ToolsCall()
	return c.Validate()
}
