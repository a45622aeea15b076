package httpgate

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// The bridge for approvals in a chat: a stream of tool_permission events, and an answer
// to each by POST.

// A permissionEvent is a request. Its texts are raw, as on the operator socket.
type permissionEvent struct {
	Type           string              `json:"type"` // tool_permission
	PermissionID   protocol.ApprovalID `json:"permission_id"`
	ConversationID protocol.SessionID  `json:"conversation_id"`
	ToolName       protocol.ToolName   `json:"tool_name"`
	Input          json.RawMessage     `json:"input"`
	Suggestions    []suggestion        `json:"permission_suggestions"`
	BlockedPath    *string             `json:"blocked_path"` // that the request is about; null if it is about none
	CWD            string              `json:"cwd,omitempty"`
	Description    string              `json:"description"`
	ExpiresMS      int64               `json:"expires_ms"`
	about
	shows
}

// A suggestion is a pattern that can be remembered, to be sent back as pattern.
type suggestion struct {
	Kind  approval.PatternKind `json:"kind"`
	Value string               `json:"value"`
	Text  string               `json:"text"`
}

// A permissionEnd says that a request is over, so that its prompt can go away.
type permissionEnd struct {
	Type           string              `json:"type"` // tool_permission_resolved
	PermissionID   protocol.ApprovalID `json:"permission_id"`
	ConversationID protocol.SessionID  `json:"conversation_id"`
	Behavior       string              `json:"behavior"`
	Message        string              `json:"message,omitempty"`
	about
}

func permissionOf(ctx context.Context, p *client.Approver, e client.Event) any {
	a := e.Approval
	switch e.Kind {
	case client.Resolved:
		end := permissionEnd{Type: "tool_permission_resolved", PermissionID: a.ID, ConversationID: a.SessionID, Behavior: "deny", about: aboutOf(a)}
		if d := e.Decision; d != nil {
			if allowed(d) {
				end.Behavior = "allow"
			}
			end.Message = d.Reason
		}
		return end
	case client.Requested:
		input, shown, _ := inputOf(ctx, p, a) // one that is over now has its end coming
		m := permissionEvent{
			Type: "tool_permission", PermissionID: a.ID, ConversationID: a.SessionID, ToolName: a.Tool, Input: input,
			Suggestions: []suggestion{}, CWD: shown.Details["directory"], Description: a.Description, ExpiresMS: a.Expires.UnixMilli(),
			about: aboutOf(a), shows: showsOf(shown),
		}
		for _, o := range shown.Patterns {
			m.Suggestions = append(m.Suggestions, suggestion{o.Kind, o.Value, o.Text})
		}
		if path, ok := shown.Details["path"]; ok {
			m.BlockedPath = &path
		}
		return m
	}
	return nil
}

// allowed reports whether a decision lets the call run.
func allowed(d *approval.Decision) bool {
	return d.Action == approval.Approved || d.Action == approval.SessionApproved
}

// A permissionAnswer is the answer to a tool_permission. Scope, Pattern, Interrupt and
// UpdatedInput go beyond that protocol.
type permissionAnswer struct {
	ConversationID protocol.SessionID  `json:"conversation_id,omitempty"`
	CWD            string              `json:"cwd,omitempty"` // of the client; nothing depends on it
	PermissionID   protocol.ApprovalID `json:"permission_id"`
	Behavior       string              `json:"behavior"`
	Message        string              `json:"message,omitempty"`
	Scope          approval.Scope      `json:"scope,omitempty"`
	Pattern        *approval.Pattern   `json:"pattern,omitempty"`
	Interrupt      bool                `json:"interrupt,omitempty"`
	UpdatedInput   json.RawMessage     `json:"updated_input,omitempty"`
}

// decide is the answer in the supervisor's words. A denial is of this one call: the agent
// goes on with a permission error.
func (p permissionAnswer) decide() (protocol.ApprovalsDecide, error) {
	d := protocol.ApprovalsDecide{Scope: p.Scope, Pattern: p.Pattern, Args: p.UpdatedInput, Interrupt: p.Interrupt}
	switch p.Behavior {
	case "allow":
		d.Decision = protocol.Allow
	case "deny":
		d.Decision, d.Mode, d.Feedback = protocol.Deny, approval.RejectSoft, p.Message
	default:
		return d, protocol.Errorf(protocol.CodeInvalidParams, "behavior must be allow or deny, not %q", p.Behavior)
	}
	return d, nil
}

func (s *Server) permissionAnswered(w http.ResponseWriter, r *http.Request) {
	var p permissionAnswer
	if !readJSON(w, r, &p) {
		return
	}
	if p.PermissionID == "" {
		writeProblem(w, protocol.Errorf(protocol.CodeInvalidParams, "body.permission_id: missing").
			WithHint("send the permission_id of the tool_permission event that this answers"))
		return
	}
	err := s.answer(r.Context(), p.PermissionID, func(a protocol.Approval) (protocol.ApprovalsDecide, error) {
		if p.ConversationID != "" && p.ConversationID != a.SessionID {
			return protocol.ApprovalsDecide{}, protocol.Errorf(protocol.CodeUnknownApproval, "no request %q is pending in that conversation", p.PermissionID)
		}
		return p.decide()
	})
	if err != nil {
		writeProblem(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]bool{"ok": true})
}
