package rulebook_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/supervisor/rulebook"
)

// decides asks what becomes of a call of an agent's tool that comes from a connector.
func (w *world) decides(agent, connector, tool string) approval.Effect {
	return w.approvals.Check(approval.Call{
		ToolName: tool, Connector: connector, Agent: agent, Mode: approval.Interactive, Request: &approval.Request{ToolName: tool},
	}).Effect
}

// TestRulesByAgentAndConnector: both are matched against calls, as globs and together.
func TestRulesByAgentAndConnector(t *testing.T) {
	w := newWorld(t)
	for _, r := range []config.StandingRule{
		{Effect: config.Allow, Tool: "WebSearch", Agent: "researcher"},
		{Effect: config.Allow, Connector: "git*", Tool: "search_*", Agent: "ci-?"},
		{Effect: config.Deny, Tool: "*", Agent: "banned"},
		{Effect: config.Deny, Connector: "gitlab"},
	} {
		if _, err := w.Add(r, change(nil)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		agent, connector, tool string
		want                   approval.Effect
	}{
		{"researcher", "", "WebSearch", approval.Allow},
		{"coder", "", "WebSearch", approval.Ask},
		{"researcher", "", "WebFetch", approval.Ask},
		{"ci-1", "github", "search_code", approval.Allow},
		{"ci-1", "github", "delete_repo", approval.Ask},
		{"ci-12", "github", "search_code", approval.Ask},
		{"ci-1", "gitlab", "search_code", approval.Deny}, // a deny beats it
		{"banned", "", "WebSearch", approval.Deny},
	} {
		if got := w.decides(c.agent, c.connector, c.tool); got != c.want {
			t.Errorf("%s of %s/%s: %v, want %v", c.agent, c.connector, c.tool, got, c.want)
		}
	}
	_, err := w.Add(config.StandingRule{Effect: config.Allow, Tool: "shell", Agent: "me"}, change(nil))
	if err == nil || !strings.Contains(err.Error(), "dangerous_tools") {
		t.Errorf("an agent's name has opened a dangerous tool: %v", err)
	}
}

// TestReplace: the new rule is there and the old one is not, in the file and in force, and
// when it cannot be, nothing has changed.
func TestReplace(t *testing.T) {
	w := newWorld(t)
	if _, err := w.Add(config.StandingRule{ID: "x", Effect: config.Deny, Tool: "old"}, change(nil)); err != nil {
		t.Fatal(err)
	}
	var events []string
	record := func(event string, r rulebook.Rule) error { events = append(events, event+" "+r.Tool); return nil }
	if r, err := w.Replace("x", config.StandingRule{Effect: config.Deny, Tool: "new"}, change(record)); err != nil || r.Tool != "new" || r.ID != "x" {
		t.Fatalf("%+v, %v", r, err)
	}
	if w.decides("a", "", "new") != approval.Deny || len(w.Rules()) != 1 || !slices.Equal(events, []string{"replace new"}) {
		t.Errorf("rules %+v, events %v", w.Rules(), events)
	}
	before, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	for name, try := range map[string]func() error{
		"no such rule": func() error {
			_, err := w.Replace("y", config.StandingRule{Effect: config.Deny, Tool: "z"}, change(nil))
			return err
		},
		"another id": func() error {
			_, err := w.Replace("x", config.StandingRule{ID: "y", Effect: config.Deny, Tool: "z"}, change(nil))
			return err
		},
		"one that loosens": func() error {
			_, err := w.Replace("x", config.StandingRule{Effect: config.Allow, Tool: "shell"}, change(nil))
			return err
		},
		"no record": func() error {
			_, err := w.Replace("x", config.StandingRule{Effect: config.Deny, Tool: "z"}, change(func(string, rulebook.Rule) error { return errors.New("full") }))
			return err
		},
	} {
		if try() == nil {
			t.Errorf("%s: replaced", name)
		}
	}
	if after, err := os.ReadFile(w.path); err != nil || string(after) != string(before) || w.Rules()[0].Tool != "new" {
		t.Errorf("a replacement that failed has changed something: %s", after)
	}
}

// TestTry: what a rule covers of the past, by itself, and nothing is added.
func TestTry(t *testing.T) {
	w := newWorld(t)
	command := func(agent, line string) history.Decision {
		return history.Decision{Entry: audit.Entry{Tool: "shell", Agent: agent}, Args: map[string]any{"command": line}}
	}
	past := []history.Decision{
		command("a", "git log -3"), command("a", "ls && git log"), command("a", "git push"), command("b", "sudo git log"),
		{Entry: audit.Entry{Tool: "github_push", Agent: "a"}, Record: approval.Decision{Connector: "github"}},
		{Entry: audit.Entry{Tool: "github_pull", Agent: "b"}, Record: approval.Decision{Connector: "github"}, Unfit: "redacted"},
		{Entry: audit.Entry{Tool: "shell", Agent: "b"}, Unfit: "redacted"},
		{Entry: audit.Entry{Tool: "db_drop", Agent: "a"}}, {Entry: audit.Entry{Tool: "dc_drop", Agent: "a"}},
	}
	all := func(yield func(history.Decision, error) bool) {
		for _, d := range past {
			if !yield(d, nil) {
				return
			}
		}
	}
	for name, c := range map[string]struct {
		rule             config.StandingRule
		covered, skipped int
	}{
		"a command":                   {config.StandingRule{Effect: config.Allow, Shell: "git log"}, 3, 2},
		"a denial":                    {config.StandingRule{Effect: config.Deny, Shell: "git push"}, 1, 2},
		"tools":                       {config.StandingRule{Effect: config.Deny, Tool: "github_*"}, 2, 0},
		"of one agent":                {config.StandingRule{Effect: config.Deny, Tool: "github_*", Agent: "b"}, 1, 0},
		"a connector":                 {config.StandingRule{Effect: config.Deny, Connector: "github"}, 2, 0},
		"by a glob no dangerous tool": {config.StandingRule{Effect: config.Allow, Tool: "d?_drop"}, 1, 0},
		"a dangerous tool":            {config.StandingRule{Effect: config.Allow, Tool: "db_drop"}, 1, 0},
		"a glob that denies":          {config.StandingRule{Effect: config.Deny, Tool: "d?_drop"}, 2, 0},
		"nothing":                     {config.StandingRule{Effect: config.Deny, Tool: "gitlab_*"}, 0, 0},
	} {
		got, err := w.Try(c.rule, all)
		if err != nil || got.Decisions != len(past) || len(got.Covered) != c.covered || got.Skipped != c.skipped {
			t.Errorf("%s: %d of %d covered, %d skipped, %v; want %d and %d", name, len(got.Covered), got.Decisions, got.Skipped, err, c.covered, c.skipped)
		}
	}
	for _, bad := range []config.StandingRule{
		{Effect: config.Deny}, {Effect: config.Ask, Tool: "x"}, {Effect: config.Allow, Shell: "git *"}, {Effect: config.Allow, Shell: "ls", Match: []string{"rm"}},
		{Effect: config.Allow, Tool: "*"}, {Effect: config.Allow, Tool: "shell"}, // what Add refuses
	} {
		if _, err := w.Try(bad, all); err == nil {
			t.Errorf("%+v was tried", bad)
		}
	}
	if len(w.Rules()) != 0 {
		t.Errorf("rules %+v after trying", w.Rules())
	}
}
