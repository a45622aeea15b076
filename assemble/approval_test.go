package assemble

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/tools"
)

// namedTool is a tool that is only a name.
type namedTool string

func (n namedTool) Definition() tools.Definition {
	return tools.Definition{Name: string(n), InputSchema: json.RawMessage(`{"type":"object"}`)}
}

func (namedTool) Plan(tools.Call) (tools.Proposal, error) { return tools.Proposal{}, nil }

// TestToolPolicyOfAConfiguration: built-in tools, and those of `tools` that say
// whether they ask, are known; unknown_tools is about the others.
func TestToolPolicyOfAConfiguration(t *testing.T) {
	registry, err := tools.NewRegistry(namedTool("multi_edit"), namedTool("silent"), namedTool("spoken"), namedTool("vouched"))
	if err != nil {
		t.Fatal(err)
	}
	for unknown, want := range map[config.Effect]approval.Effect{config.Ask: approval.Ask, config.Allow: approval.Allow, config.Deny: approval.Deny, "": approval.Deny} {
		cfg := &config.Config{
			Approval: config.Approval{UnknownTools: unknown, SafeTools: []string{"vouched"}, DangerousTools: []string{"shell"}},
			Tools:    []config.Tool{{Name: "silent"}, {Name: "spoken"}, {Name: "vouched"}},
			Origins:  map[string]config.Position{"tools.spoken.approval.required": {}},
		}
		p := ToolPolicy(cfg, registry)
		for name, want := range map[string]approval.Effect{
			"multi_edit": approval.Allow, "spoken": approval.Allow, "vouched": approval.Allow, "shell": approval.Allow,
			"silent": want, "from elsewhere": want,
		} {
			if got := p.Effect(name, nil); got != want {
				t.Errorf("unknown_tools: %q: %s is %s, want %s", unknown, name, got, want)
			}
		}
	}
}

// TestWhatIsAsDangerousIsGuarded: what does the same as a dangerous tool is allowed by no glob, and is no better known.
func TestWhatIsAsDangerousIsGuarded(t *testing.T) {
	for dangerous, want := range map[string][]string{
		"shell": {"shell", "run", "run_background", "task_input"}, "run*": {"shell", "run", "run_background", "task_input"},
		"edit_file": {"write_file", "edit_file", "multi_edit"}, "other": nil,
	} {
		cfg := &config.Config{Approval: config.Approval{DangerousTools: []string{dangerous}}}
		registry, err := tools.NewRegistry()
		if err != nil {
			t.Fatal(err)
		}
		if got := ToolPolicy(cfg, registry).Guarded; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", dangerous, got, want)
		}
	}
}
