package approval

import (
	"encoding/json"
	"testing"
)

// TestCallsThatNoToolHasSeen: such a call is asked about unless a list or the policy
// spares it; the twin, which a tool has looked at, is let be.
func TestCallsThatNoToolHasSeen(t *testing.T) {
	policy := func(unknown Effect) *ToolPolicy {
		return &ToolPolicy{Unknown: unknown, Safe: []string{"read_*"}, Dangerous: []string{"shell"}, Known: []string{"mcp_*"}}
	}
	for _, tt := range []struct {
		policy       *ToolPolicy
		tool         string
		foreign, own Effect
	}{
		{nil, "mystery", Ask, Allow},
		{policy(Ask), "mystery", Ask, Ask},
		{policy(Allow), "mystery", Allow, Allow},
		{policy(Deny), "mystery", Deny, Deny},
		{policy(Deny), "read_it", Allow, Allow},
		{policy(Allow), "shell", Ask, Allow},
		{policy(Allow), "mcp_search", Ask, Allow},
	} {
		for _, x := range []struct {
			foreign bool
			want    Effect
		}{{true, tt.foreign}, {false, tt.own}} {
			call := Call{ToolName: tt.tool, Foreign: x.foreign, Args: json.RawMessage(`{"url":"https://a.example"}`)}
			if v := NewController(Options{Tools: tt.policy}).Check(call); v.Effect != x.want {
				t.Errorf("%+v, foreign %v: %+v, want %s", tt, x.foreign, v, x.want)
			}
		}
	}
}

// TestTheCallerAsks: where a person has to be asked, nobody is; what is decided without
// one is decided as ever.
func TestTheCallerAsks(t *testing.T) {
	c := NewController(Options{Rules: mustRules(t, Rule{Effect: Deny, Tool: "never"}, Rule{Effect: Allow, Tool: "always"})})
	for tool, want := range map[string]struct {
		code   Code
		action Action
		source Source
	}{
		"write_file": {CodeDeferred, LeftToCaller, SourceAsk},
		"never":      {CodeDenied, Denied, SourceDenyRule},
		"always":     {"", Approved, SourceAllowRule},
	} {
		call := writeCall().with(func(c *Call) { c.ToolName, c.Request.ToolName, c.CallerAsks = tool, tool, true })
		grant, err := c.Decide(t.Context(), call)
		d, code := grant.Decision(), Code("")
		if err != nil {
			denied := decided{grant, err}.denied(t)
			d, code = denied.Decision, denied.Code
		}
		if code != want.code || d.Action != want.action || d.Source != want.source || d.ID == "" {
			t.Errorf("%s: %q, %+v", tool, code, d)
		}
	}
	if LeftToCaller.State() == StateApproved || len(c.Pending()) != 0 {
		t.Error("what is left to the caller counts as approved, or waits")
	}
}

// TestDenialsOfAnotherConnector: they hold for a call that says so, and no allow does.
func TestDenialsOfAnotherConnector(t *testing.T) {
	bubble(func(t *testing.T) {
		for _, allow := range []bool{false, true} {
			c := NewController(Options{})
			askAndAnswer(t, c, writeCall(), Answer{Allow: allow, Scope: Agent})
			for _, x := range []struct {
				connector string
				of        []string
				want      Effect
			}{
				{"", nil, map[bool]Effect{false: Deny, true: Allow}[allow]},
				{"elsewhere", nil, Ask},
				{"elsewhere", []string{""}, map[bool]Effect{false: Deny, true: Ask}[allow]},
				{"elsewhere", []string{"github"}, Ask},
			} {
				if v := c.Check(writeCall().with(func(c *Call) { c.Connector, c.DenialsOf = x.connector, x.of })); v.Effect != x.want {
					t.Errorf("allow %v, %+v: %+v", allow, x, v)
				}
			}
		}
	})(t)
}
