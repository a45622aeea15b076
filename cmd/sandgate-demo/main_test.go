package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// TestRecordedCallsLoad proves that the shipped list is sound and that each
// kind of end is in it.
func TestRecordedCallsLoad(t *testing.T) {
	steps, err := loadSteps(filepath.Join("..", "..", "scripts", "demo.d", "calls.json"))
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]bool{}
	for _, s := range steps {
		ends[s.Expect] = true
	}
	for _, want := range []string{"exit 0", "blocked", "denied", "timed_out"} {
		if !ends[want] {
			t.Errorf("no call of the list ends with %q", want)
		}
	}
}

func TestLoadStepsRefuses(t *testing.T) {
	for name, list := range map[string]string{
		"an unknown field":    `[{"tool": "shell", "expect": "exit 0", "nope": 1}]`,
		"a call without tool": `[{"expect": "exit 0"}]`,
		"no expectation":      `[{"tool": "shell"}]`,
		"another answer":      `[{"tool": "shell", "expect": "exit 0", "answer": "perhaps"}]`,
	} {
		file := filepath.Join(t.TempDir(), "calls.json")
		if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := loadSteps(file); err == nil {
			t.Errorf("a list with %s was loaded", name)
		}
	}
}

func TestPersonAnswers(t *testing.T) {
	for line, want := range map[string]protocol.ApprovalsDecide{
		"y\n":       {ID: "a-1", Decision: protocol.Allow},
		" YES \n":   {ID: "a-1", Decision: protocol.Allow},
		"s\n":       {ID: "a-1", Decision: protocol.Allow, Scope: approval.Session},
		"n\n":       {ID: "a-1", Decision: protocol.Deny},
		"\n":        {ID: "a-1", Decision: protocol.Deny},
		"":          {ID: "a-1", Decision: protocol.Deny},
		"yes sir\n": {ID: "a-1", Decision: protocol.Deny},
	} {
		p := &person{in: strings.NewReader(line), out: &bytes.Buffer{}}
		got := p.ask(protocol.Approval{ID: "a-1"})
		if got.ID != want.ID || got.Decision != want.Decision || got.Scope != want.Scope {
			t.Errorf("%q is %+v, want %+v", line, got, want)
		}
	}
}

// TestScriptDeniesWhatItDidNotForesee proves that the scripted operator does not
// wave through a question that the list has no answer for.
func TestScriptDeniesWhatItDidNotForesee(t *testing.T) {
	d := newDemo(&bytes.Buffer{}, []step{{Tool: "shell", Expect: "exit 0"}})
	if got := d.script(protocol.Approval{ID: "a-1"}).Decision; got != protocol.Deny {
		t.Errorf("an unforeseen question was answered with %q", got)
	}
	d.outcomes = []outcome{{step: d.steps[0]}}
	if d.unexpected() == nil {
		t.Error("an unforeseen question is not an error at the end")
	}

	d = newDemo(&bytes.Buffer{}, []step{{Tool: "shell", Expect: "exit 0", Answer: protocol.Allow}})
	if got := d.script(protocol.Approval{ID: "a-2", Tool: "path"}).Decision; got != protocol.Deny {
		t.Errorf("a question about another thing than the call was answered with %q", got)
	}
	if got := d.script(protocol.Approval{ID: "a-1", Tool: "shell"}).Decision; got != protocol.Allow {
		t.Errorf("a foreseen question was answered with %q", got)
	}
	d.outcomes = []outcome{{step: d.steps[0]}}
	if err := d.unexpected(); err != nil {
		t.Error(err)
	}
}

func TestUnexpectedEnd(t *testing.T) {
	d := newDemo(&bytes.Buffer{}, []step{{Tool: "shell", Expect: "denied"}})
	d.outcomes = []outcome{{step: d.steps[0], err: protocol.Errorf(protocol.CodeDenied, "no")}}
	if err := d.unexpected(); err != nil {
		t.Error(err)
	}
	d.outcomes[0].err = nil
	if err := d.unexpected(); err == nil || !strings.Contains(err.Error(), `"exit 0", expected "denied"`) {
		t.Errorf("a call that was to be denied and ran: %v", err)
	}
}

func TestTableIsOneLineACallAndEscaped(t *testing.T) {
	var out bytes.Buffer
	d := newDemo(&out, nil)
	d.outcomes = []outcome{{
		step:   step{Tool: "shell", Args: []byte(`{"command": "echo a\nb \u001b[31m\u202e"}`)},
		result: protocol.CallResult{Decision: protocol.Decision{Action: approval.Approved, Approver: "uid 0, pid 1"}},
	}}
	d.table()
	got := out.String()
	if strings.ContainsAny(got, "\x1b\u202e") || strings.Count(got, "\n") != 5 {
		t.Errorf("table is\n%q", got)
	}
	for _, want := range []string{"$ echo a<U+000A>b", "approved", "uid 0, pid 1", "exit 0"} {
		if !strings.Contains(got, want) {
			t.Errorf("table has no %q:\n%s", want, got)
		}
	}
}
