package protocol

import "github.com/sandgate/sandgate/approval"

// DecisionOf returns the part of a decision that an agent may see.
func DecisionOf(d approval.Decision) Decision {
	return Decision{
		Action: d.Action, Source: string(d.Source), Scope: d.Scope, Reason: d.Reason, Approver: d.Approver,
		Feedback: d.Feedback, Rule: d.Rule, Mode: d.Reject, Interrupt: d.Interrupt, Args: d.Args,
	}
}

// ApprovalOf is a pending request as it goes out. Its text is raw: the
// place that shows it must escape it.
func ApprovalOf(p approval.Pending) Approval {
	return Approval{
		ID: ApprovalID(p.ID), SessionID: SessionID(p.SessionID), Agent: p.Agent,
		SessionName: p.SessionName, SessionMetadata: p.SessionMetadata, Metadata: p.Metadata,
		CallID: CallID(p.CallID), Tool: ToolName(p.ToolName),
		Description: p.Description, Payload: p.Payload, Presentation: p.Presentation, Details: p.Details,
		GroupID: GroupOf(p), BatchRemaining: p.BatchRemaining, PlanDigest: p.Digest,
		Connector: p.Connector, Rule: p.Rule, Cause: p.Cause, Args: p.Args, Patterns: p.Offers, Once: p.Once, Deferred: p.Deferred, Turn: p.Turn,
		Created: p.Requested, Expires: p.Expires,
	}
}

// RememberedOf is a remembered answer as it goes out. Its text is raw, too.
func RememberedOf(m approval.Memory) RememberedAnswer {
	a := RememberedAnswer{
		ID: m.ID, Decision: Deny, Scope: m.Key.Scope, Holder: m.Key.Holder, Tool: ToolName(m.ToolName),
		Connector: m.Connector, Description: m.Description, Payload: m.Payload, Pattern: m.Pattern, Approver: m.Approver,
		Feedback: m.Feedback, SessionID: SessionID(m.SessionID), Created: m.Created, Hits: m.Hits,
	}
	if m.Key.Effect == approval.Allow {
		a.Decision = Allow
	}
	if m.Pattern != nil {
		a.Text = m.Pattern.Text()
	}
	if !m.Expires.IsZero() {
		a.Expires = &m.Expires
	}
	if m.Uses > 0 {
		left := max(m.Uses-m.Hits, 0)
		a.UsesLeft = &left
	}
	if !m.LastUsed.IsZero() {
		a.LastUsed = &m.LastUsed
	}
	return a
}

// GroupOf is the group of a request: the agent's, else the tool's own.
func GroupOf(p approval.Pending) string {
	if p.BatchID != "" {
		return p.BatchID
	}
	return p.GroupID
}
