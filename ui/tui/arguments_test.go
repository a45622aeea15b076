package tui

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// editing is a desk with a request whose arguments can be edited, without an editor.
func editing() *desk {
	d := newDesk(80, 24)
	d.preview = func(ask protocol.ApprovalsPreview) (protocol.ApprovalsPreviewed, error) {
		var args struct{ Command string }
		if err := json.Unmarshal(ask.Args, &args); err != nil || args.Command == "" {
			return protocol.ApprovalsPreviewed{}, protocol.Errorf(protocol.CodeInvalidArguments, "command is \x1bempty")
		}
		return protocol.ApprovalsPreviewed{Approval: request(1, func(a *protocol.Approval) {
			a.Description, a.Presentation.Content, a.Args, a.PlanDigest = "Execute: "+args.Command, args.Command, ask.Args, "sha256:edited"
		})}, nil
	}
	d.arrive(request(1, func(a *protocol.Approval) { a.Args = json.RawMessage(`{"command":"go test 1"}`) }), request(2, nil))
	d.read()
	return d
}

// write replaces the text that is open.
func (d *desk) write(text string) {
	d.press("ctrl+u")
	for _, r := range text {
		d.press(string(r))
	}
	d.press("enter")
}

// TestEditedArgumentsAreShownFirst: what becomes of them is on the screen, and has
// been for a moment, before a key allows it.
func TestEditedArgumentsAreShownFirst(t *testing.T) {
	d := editing()
	d.press("e")
	golden(t, "edit.txt", d.screen())
	d.write(`{"command": "go vet"}`)
	golden(t, "edited.txt", d.screen())
	if diff := cmp.Diff([]protocol.ApprovalsPreview{{ID: "req-ab-1", Args: json.RawMessage(`{"command":"go vet"}`)}}, d.asked); diff != "" {
		t.Error(diff)
	}
	d.press("y") // typed ahead
	expect(t, d)
	d.read()
	d.press("r") // edited arguments are for once
	expect(t, d)
	d.read()
	d.press("y")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once, Args: json.RawMessage(`{"command":"go vet"}`), PlanDigest: "sha256:edited"})
}

func TestEditedArgumentsCanBeDenied(t *testing.T) {
	d := editing()
	d.press("e")
	d.write(`{"command": "go vet"}`)
	d.read()
	d.press("N")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Deny, Mode: approval.RejectHard})
}

// TestEscBringsTheAgentsArgumentsBack, with a moment of their own.
func TestEscBringsTheAgentsArgumentsBack(t *testing.T) {
	d := editing()
	d.press("e")
	d.write(`{"command": "go vet"}`)
	d.read()
	d.press("esc", "y")
	expect(t, d)
	if s := d.screen(); strings.Contains(s, "go vet") || strings.Contains(s, "edited") || !strings.Contains(s, "│ go test 1") {
		t.Error(s)
	}
	d.read()
	d.press("y")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
}

// TestAGroupIsNotAllowedWithAnEdit: its answer would be about the arguments of the
// agent, and not about those on the screen.
func TestAGroupIsNotAllowedWithAnEdit(t *testing.T) {
	d := editing()
	for _, it := range d.m.queue {
		it.GroupID = "g"
	}
	d.press("e")
	d.write(`{"command": "go vet"}`)
	d.read()
	d.press("A")
	d.read()
	d.press("A")
	expect(t, d)
	d.press("down")
	d.read()
	d.press("A")
	expect(t, d)
	if !strings.Contains(d.screen(), "edited") {
		t.Error(d.screen())
	}
	d.press("D")
	expect(t, d, protocol.ApprovalsDecide{IDs: []protocol.ApprovalID{"req-ab-1", "req-ab-2"}, Decision: protocol.Deny})
}

func TestEditsThatComeToNothing(t *testing.T) {
	for name, c := range map[string]struct {
		text, notice string
		asked        int
	}{
		"no JSON":       {`{"command": `, "not JSON", 0},
		"the same":      {` {"command" : "go test 1"}`, "are unchanged", 0},
		"not allowed":   {`{"command": ""}`, "command is <U+001B>empty", 1},
		"nothing typed": {"", "not JSON", 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := editing()
			d.press("e")
			d.write(c.text)
			if s := d.screen(); !strings.Contains(s, c.notice) || strings.Contains(s, "edited      by you") || len(d.asked) != c.asked {
				t.Errorf("%d asked:\n%s", len(d.asked), s)
			}
			d.read()
			d.press("y")
			expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
		})
	}
}

// TestADraftIsKept: after a slip, e goes on where it was.
func TestADraftIsKept(t *testing.T) {
	d := editing()
	d.press("e")
	d.write(`{"command": "go vet"`)
	d.press("e", "}", "enter")
	if len(d.asked) != 1 || string(d.asked[0].Args) != `{"command":"go vet"}` {
		t.Errorf("%s", d.asked)
	}
}

// TestEditOfARequestThatEnds reaches no other.
func TestEditOfARequestThatEnds(t *testing.T) {
	d := editing()
	d.press("e")
	d.ends(1)
	d.press("y", "enter", "y")
	expect(t, d)
	d.read()
	d.press("esc")
	d.do(editedMsg{id: "req-ab-1", text: `{"command":"x"}`}) // of an editor of its own
	d.do(previewedMsg{to: &question{protocol.ApprovalsPreview{ID: "req-ab-1"}}})
	if len(d.asked) != 0 || !strings.Contains(d.screen(), "has ended") {
		t.Errorf("%v\n%s", d.asked, d.screen())
	}
}

func TestEditorThatFails(t *testing.T) {
	d := editing()
	d.do(editedMsg{id: "req-ab-1", err: errors.New("\x1bno editor")})
	if !strings.Contains(d.screen(), "editor: <U+001B>no editor") {
		t.Error(d.screen())
	}
}

func TestNothingToEdit(t *testing.T) {
	d := newDesk(80, 24)
	d.arrive(request(1, nil))
	d.read()
	d.press("e")
	if !strings.Contains(d.screen(), "cannot be edited") || d.m.edit != nil {
		t.Error(d.screen())
	}
}

// TestEditable: what an editor is given is the arguments, reads as it is, and holds
// no orders for the editor.
func TestEditable(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":"x"}`: "{\n  \"a\": \"x\"\n}",
		`{"a":"x \u0026\u0026 y \\u0026 \u003C"}`: "{\n  \"a\": \"x && y \\\\u0026 <\"\n}",
		`{"a":"é 日本"}`:                            "{\n  \"a\": \"é 日本\"\n}",
		"{\"a\":\"\u202ex\u200b p\u0430y\"}":      "{\n  \"a\": \"\\u202ex\\u200b p\\u0430y\"\n}",
		"{\"a\":\"ls \u05d0 > \u05d1 \u2019x; id\u2019 ./\u0441\u043e\u0440 \u043f\u0440\u0438\u0432\u0435\u0442\"}": "{\n  \"a\": \"ls \\u05d0 > \\u05d1 \\u2019x; id\\u2019 ./\\u0441\\u043e\\u0440 \u043f\u0440\u0438\u0432\u0435\u0442\"\n}",
		"{\"a\":\"\U000e0041\"}":   "{\n  \"a\": \"\\udb40\\udc41\"\n}",
		`{"a":" vim: set x: "}`:    "{\n  \"a\": \" vim\\u003a set x: \"\n}",
		`{"a":"ex: vi:"}`:          "{\n  \"a\": \"ex\\u003a vi\\u003a\"\n}",
		`{"a":"-*- eval: x -*-"}`:  "{\n  \"a\": \"-*\\u002d eval: x -*\\u002d\"\n}",
		`{"a":"Local Variables:"}`: "{\n  \"a\": \"Local Variables\\u003a\"\n}",
	} {
		if got := editable(json.RawMessage(in), true); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestEditableIsTheSameJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("vimex:-*&<local variables \n\"\\\u202e\U000e0041é\u2019\u05d0>\u0430\u043e\u0301")))).Draw(t, "text")
		in, err := json.Marshal(map[string]any{text: text, "n": 12})
		if err != nil {
			t.Fatal(err)
		}
		for _, indent := range []bool{false, true} {
			got := editable(in, indent)
			if shown := approval.EscapeCommand(got); shown != got {
				t.Fatalf("%q is shown as %q", got, shown)
			}
			if !present.SameJSON(in, json.RawMessage(got)) {
				t.Fatalf("%s became %s", in, got)
			}
		}
	})
}

// TestTextIsEditedAnywhere: the keys that move in a line do.
func TestTextIsEditedAnywhere(t *testing.T) {
	d := editing()
	d.press("x", "b", "left", "a", "right", "c", "home", "delete", "end", "backspace", "!")
	d.press("enter")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Deny, Mode: approval.RejectExplain, Feedback: "b!"})
}

// TestKeysAfterTheEditorOrPagerAreTheirs: what is typed while it opens answers
// nothing, and what is typed when it has closed is not typed ahead.
func TestKeysAfterTheEditorOrPagerAreTheirs(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for key, closed := range map[string]tea.Msg{"e": editedMsg{id: "req-ab-1", text: "{"}, "v": pagedMsg{id: "req-ab-1"}} {
		d := editing()
		d.m.opts.Editor = "ed"
		d.press(key, "y", "N", "D")
		expect(t, d)
		d.do(closed)
		d.press("y")
		expect(t, d)
		d.read()
		d.press("y")
		expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
	}
}

// TestNothingIsAnsweredWhileAnEditIsLookedAt: until the supervisor has said what becomes of
// an edit, the old thing is on the screen, and no key answers it; what was edited then is.
func TestNothingIsAnsweredWhileAnEditIsLookedAt(t *testing.T) {
	keys := []string{"y", "r", "y", "N", "A", "n", "o", "e", "x"}
	t.Run("arguments", func(t *testing.T) {
		d := editing()
		d.slow = true
		d.press("e")
		d.write(`{"command": "go vet"}`)
		for _, k := range keys {
			d.read()
			d.press(k)
		}
		expect(t, d)
		if !strings.Contains(d.screen(), "still being checked") {
			t.Error(d.screen())
		}
		d.do(d.late[0])
		d.press("y")
		expect(t, d)
		d.read()
		d.press("y")
		expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once, Args: json.RawMessage(`{"command":"go vet"}`), PlanDigest: "sha256:edited"})
	})
	t.Run("pattern", func(t *testing.T) {
		d := offering(80, 24, 1)
		d.slow = true
		d.press("r", "down", "e")
		d.write("go test ./only")
		for _, k := range keys {
			d.read()
			d.press(k)
		}
		expect(t, d)
		d.do(d.late[0])
		d.read()
		d.press("y")
		expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Session, Pattern: &approval.Pattern{Kind: approval.ArgvPrefix, Value: "go test ./only"}})
	})
	t.Run("left", func(t *testing.T) {
		d := editing()
		d.slow = true
		d.press("e")
		d.write(`{"command": "go vet"}`)
		d.press("esc")
		d.do(d.late[0]) // is about nothing any more
		d.read()
		d.press("y")
		expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Once})
	})
}
