package history

import (
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/tools"
)

func entries(list ...any) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		for _, x := range list {
			e, _ := x.(audit.Entry)
			err, _ := x.(error)
			if !yield(e, err) {
				return
			}
		}
	}
}

func entry(tool, data string) audit.Entry {
	return audit.Entry{Kind: audit.KindDecision, Tool: tool, Data: json.RawMessage(data)}
}

func TestDecisions(t *testing.T) {
	failed := errors.New("disk")
	var got []Decision
	var last error
	for d, err := range Decisions(entries(
		entry("shell", `{"args":{"command":"ls"},"decision":{"source":"ask","action":"approved"}}`),
		&audit.ChainError{}, // verify's to tell
		audit.Entry{Kind: audit.KindEnd},
		entry("shell", `{"args":{"command":"x [redacted:y:3]"},"decision":{"source":"ask"}}`),
		entry("shell", `{"args":{"command":"x [cut:99999:sha256:00]"}}`),
		entry("shell", `{"decision":{"source":"ask"}}`),
		entry("shell", `{"truncated":true,"bytes":9,"decision":5}`),
		failed,
		entry("shell", `{}`),
	)) {
		if err != nil {
			last = err
			break
		}
		got = append(got, d)
	}
	if !errors.Is(last, failed) || len(got) != 5 {
		t.Fatalf("%d decisions, then %v", len(got), last)
	}
	for i, want := range []string{"", "redacted or cut", "redacted or cut", "no arguments", "another format"} {
		if !strings.Contains(got[i].Unfit, want) || (want == "") != (got[i].Unfit == "") {
			t.Errorf("decision %d: %q, want %q", i, got[i].Unfit, want)
		}
	}
	if got[0].Subject() != "ls" || got[0].Entry.Data != nil {
		t.Errorf("decision 0: %+v", got[0])
	}
}

// TestPast walks every step of the order of a decision: none is forgotten here.
func TestPast(t *testing.T) {
	want := map[approval.Source]tools.Effect{
		approval.SourceBlocked: tools.Deny, approval.SourceDenyRule: tools.Deny, approval.SourceUnknownTool: tools.Deny,
		approval.SourceRememberedDeny: tools.Ask, approval.SourceBatch: tools.Ask, approval.SourceDeferred: tools.Ask,
		approval.SourceNotNeeded: tools.Allow, approval.SourceMode: tools.Deny, approval.SourceRememberedAllow: tools.Ask,
		approval.SourceAllowRule: tools.Allow, approval.SourceDenialCache: tools.Ask, approval.SourceAsk: tools.Ask,
	}
	for _, s := range approval.Steps() {
		past, ok := want[s]
		if d := (Decision{Record: approval.Decision{Source: s, Action: approval.Denied}}); !ok || d.Past() != past {
			t.Errorf("%s: %v, want %v (known: %v)", s, d.Past(), past, ok)
		}
	}
	if d := (Decision{Record: approval.Decision{Source: approval.SourceMode, Action: approval.Approved}}); d.Past() != tools.Allow {
		t.Errorf("mode approve_all: %v", d.Past())
	}
}

func TestAsked(t *testing.T) {
	for data, want := range map[string][2]bool{
		`{"decision":{"source":"ask","action":"approved"},"args":{}}`:                   {true, true},
		`{"decision":{"source":"ask","action":"denied"},"args":{}}`:                     {true, false},
		`{"decision":{"source":"ask","action":"timed_out"},"args":{}}`:                  {false, false},
		`{"decision":{"source":"remembered_allow","action":"approved"},"args":{}}`:      {false, false},
		`{"decision":{"source":"ask","action":"approved"},"args":{},"asked":{"x":"y"}}`: {false, false}, // edited
	} {
		answered, allowed := read(entry("shell", data)).Asked()
		if got := [2]bool{answered, allowed}; got != want {
			t.Errorf("%s: %v, want %v", data, got, want)
		}
	}
}

// TestArgs proves that the content of files is not kept, and that what is kept
// can be planned again.
func TestArgs(t *testing.T) {
	for _, c := range []struct {
		tool, args string
		want       map[string]any
	}{
		{"shell", `{"command":"ls","timeout_ms":1000}`, map[string]any{"command": "ls", "timeout_ms": json.Number("1000")}},
		{"write_file", `{"path":"a","content":"SECRET"}`, map[string]any{"path": "a", "content": ""}},
		{"edit_file", `{"path":"a","old_string":"SECRET","new_string":"SECRET"}`, map[string]any{"path": "a", "old_string": "-", "new_string": "+"}},
		{"multi_edit", `{"path":"a","edits":[{"old_string":"SECRET","new_string":"b"}]}`,
			map[string]any{"path": "a", "edits": []any{map[string]any{"old_string": "-", "new_string": "+"}}}},
		{"mine", `{"content":"kept"}`, map[string]any{"content": "kept"}},
	} {
		kept := Args(c.tool, json.RawMessage(c.args))
		if strings.Contains(string(kept), "SECRET") {
			t.Errorf("%s: kept %s", c.tool, kept)
		}
		got, err := restore(c.tool, kept)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: restored %v, %v, want %v", c.tool, got, err, c.want)
		}
	}
	if got := Args("list_files", nil); string(got) != "{}" {
		t.Errorf("no arguments: kept %s", got)
	}
	for _, none := range []string{`null`, `[]`, `{`} {
		if got := Args("shell", json.RawMessage(none)); got != nil {
			t.Errorf("%q: kept %s", none, got)
		}
	}
}
