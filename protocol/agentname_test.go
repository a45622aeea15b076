package protocol

import "testing"

// TestAgentName: whatever a program calls itself, the name is one that a session opens
// with, and none of sandgate's words.
func TestAgentName(t *testing.T) {
	for own, want := range map[string]string{
		"cursor": "mcp/cursor", "Visual Studio Code": "mcp/Visual-Studio-Code", "My App (beta)": "mcp/My-App-beta", "café": "mcp/café",
		"": "mcp", " ": "mcp", "::": "mcp", "sandgate": "mcp", "x: allowed by rule": "mcp", "a\u202eb": "mcp/a-b", "\xff": "mcp",
	} {
		got := AgentName("mcp", own)
		if got != want {
			t.Errorf("%q: %q, want %q", own, got, want)
		}
		if err := (&SessionOpen{Agent: got}).Validate(); err != nil {
			t.Errorf("%q: %v", got, err)
		}
	}
}
