package tasks_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
	"github.com/sandgate/sandgate/tools/tasks"
)

// plan is what the tool called name plans for arguments, with a shell that asks about all.
func plan(t *testing.T, name string, args map[string]any) tools.Proposal {
	t.Helper()
	p := planWith(t, shell.Default{Allowed: true, Approval: true}, name, args)
	if p.Request == nil {
		t.Fatalf("%s %v: nobody is asked", name, args)
	}
	return p
}

func planWith(t *testing.T, d shell.Default, name string, args map[string]any) tools.Proposal {
	t.Helper()
	dir := t.TempDir()
	profile := sandboxprofile.Top()
	sh, err := shell.New(shell.Config{
		Default: d, Profile: profile, Env: []string{"PATH=/usr/bin:/bin"},
		Paths: tools.Paths{Cwd: dir, Rules: []tools.PathRule{{Name: "workspace", Root: dir, Write: true}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tasks.New(tasks.Config{Shell: sh, Wall: time.Hour}) {
		if tool.Definition().Name == name {
			p, err := tool.Plan(tools.Call{Tool: name, Args: args})
			if err != nil {
				t.Fatalf("%s %v: %v", name, args, err)
			}
			return p
		}
	}
	t.Fatalf("no tool %s", name)
	return tools.Proposal{}
}

// TestAnAnswerIsForHowLongAndWhere: what is remembered of a task holds for the time and
// the terminal that were asked for, since both are in what is compared.
func TestAnAnswerIsForHowLongAndWhere(t *testing.T) {
	payload := func(more map[string]any) map[string]any {
		args := map[string]any{"command": "sleep 1"}
		maps.Copy(args, more)
		p := plan(t, tasks.Start, args).Request.Payload
		delete(p, "dir") // a new one each time
		return p
	}
	plain := payload(nil)
	// What is asked where the sandbox would have decided, and does not hold the command.
	unheld := planWith(t, shell.Default{Allowed: true, Approval: true, Confined: true}, tasks.Start, map[string]any{"command": "sleep 1; touch x", "terminal": map[string]any{"rows": json.Number("24")}}).Unheld
	if unheld == nil || unheld.Payload["background"] != true || unheld.Payload["terminal"] == nil || !strings.HasPrefix(unheld.Description, "In the background, with a terminal: ") {
		t.Errorf("%+v", unheld)
	}
	for name, more := range map[string]map[string]any{
		"a shorter time": {"timeout_ms": json.Number("1000")},
		"a terminal":     {"terminal": map[string]any{"rows": json.Number("24")}},
	} {
		if got := payload(more); reflect.DeepEqual(got, plain) || !reflect.DeepEqual(got, payload(more)) {
			t.Errorf("%s: %v, and without it %v", name, got, plain)
		}
	}
	if got := payload(nil); !reflect.DeepEqual(got, plain) {
		t.Errorf("the same task: %v and %v", got, plain)
	}
}

// TestInputIsAskedAboutEachTime: an answer to what is written to a program stands for no
// other input.
func TestInputIsAskedAboutEachTime(t *testing.T) {
	if p := plan(t, tasks.Input, map[string]any{"task_id": "t-1", "input": "y\n"}); p.Reach.Single == "" {
		t.Errorf("the reach of input: %+v", p.Reach)
	}
	if p := plan(t, tasks.Start, map[string]any{"command": "sleep 1"}); p.Reach.Single != "" {
		t.Errorf("the reach of a task: %+v", p.Reach)
	}
}
