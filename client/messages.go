package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A chat that keeps what /v1/messages says has approvals among its messages: requests, as
// calls of client.requestApproval, and answers. People need them; a model must not see
// them: it would take an answer for something that it can write itself.

// Names by which messages of an approval are known.
const (
	clientPrefix   = "client."   // of functions that only clients have
	approvalPrefix = "approval_" // of ids of requests
)

// ForModel gives the messages of a conversation, in OpenAI's chat format, without those
// about approvals: calls of client functions are taken out of the assistant's messages,
// and an assistant's message that had nothing else goes with them; so do results of the
// role tool that answer such a call or name a request. What people say in words stays.
// Members that it does not know stay as they are, and messages is not changed. Its error
// names the invalid message.
func ForModel(messages []json.RawMessage) ([]json.RawMessage, error) {
	removed := map[string]bool{} // ids of calls that were taken out
	kept := make([]json.RawMessage, 0, len(messages))
	for i, raw := range messages {
		m, err := forModel(raw, removed)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		if m != nil {
			kept = append(kept, m)
		}
	}
	return kept, nil
}

// forModel is one message, or nil if nothing of it is left.
func forModel(raw json.RawMessage, removed map[string]bool) (json.RawMessage, error) {
	var m struct {
		Role       string            `json:"role"`
		Content    json.RawMessage   `json:"content"`
		ToolCalls  []json.RawMessage `json:"tool_calls"`
		ToolCallID string            `json:"tool_call_id"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	switch {
	case m.Role == "tool" && (strings.HasPrefix(m.ToolCallID, approvalPrefix) || removed[m.ToolCallID]):
		return nil, nil
	case m.Role != "assistant" || len(m.ToolCalls) == 0:
		return raw, nil
	}
	calls, err := withoutClientCalls(m.ToolCalls, removed)
	switch {
	case err != nil:
		return nil, err
	case len(calls) == len(m.ToolCalls):
		return raw, nil
	case len(calls) == 0 && saysNothing(m.Content):
		return nil, nil
	}
	return withCalls(raw, calls)
}

func withoutClientCalls(calls []json.RawMessage, removed map[string]bool) ([]json.RawMessage, error) {
	var kept []json.RawMessage
	for _, raw := range calls {
		var c struct {
			ID       string `json:"id"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, err
		}
		if strings.HasPrefix(c.Function.Name, clientPrefix) {
			removed[c.ID] = true
			continue
		}
		kept = append(kept, raw)
	}
	return kept, nil
}

// saysNothing reports whether content is absent, null, "" or an empty list.
func saysNothing(content json.RawMessage) bool {
	switch string(bytes.TrimSpace(content)) {
	case "", "null", `""`, "[]":
		return true
	}
	return false
}

// withCalls is the message with other calls. Without any, the member is left out, as
// the format requires.
func withCalls(raw json.RawMessage, calls []json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	delete(members, "tool_calls")
	if len(calls) > 0 {
		list, err := json.Marshal(calls)
		if err != nil {
			return nil, err
		}
		members["tool_calls"] = list
	}
	return json.Marshal(members)
}
