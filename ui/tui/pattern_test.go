package tui

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

func offering(width, height, n int) *desk {
	d := newDesk(width, height)
	d.preview = func(ask protocol.ApprovalsPreview) (protocol.ApprovalsPreviewed, error) {
		if err := ask.Pattern.Check(); err != nil {
			return protocol.ApprovalsPreviewed{}, protocol.Errorf(protocol.CodeInvalidParams, "%v", err)
		}
		return protocol.ApprovalsPreviewed{Pattern: &approval.Offer{Kind: ask.Pattern.Kind, Value: ask.Pattern.Value, Text: ask.Pattern.Text()}}, nil
	}
	d.arrive(request(1, func(a *protocol.Approval) {
		for i := range n {
			p := approval.Pattern{Kind: approval.ArgvPrefix, Value: "go test" + strings.Repeat(" ./x", i)}
			a.Patterns = append(a.Patterns, approval.Offer{Kind: p.Kind, Value: p.Value, Text: p.Text(), Whole: true})
		}
		if n > 0 {
			a.Patterns[0].Matched, a.Patterns[0].Unshown = []string{"shell: go test ./a", "shell: go test \x1b./b"}, 3
			a.Patterns[0].Whole = false
		}
	}), request(2, nil))
	d.read()
	return d
}

// TestPatternIsShownWithItsReach: what holds from then on and would have been covered
// stands there before the one key that answers.
func TestPatternIsShownWithItsReach(t *testing.T) {
	for key, scope := range map[string]approval.Scope{"s": approval.Session, "a": approval.Agent, "g": approval.Global} {
		d := offering(80, 24, 2)
		d.press("r", "down")
		golden(t, "patterns.txt", d.screen())
		d.press(key)
		expect(t, d)
		if key == "a" {
			golden(t, "pattern_agent.txt", d.screen())
		}
		d.press("y") // the sentence has only now changed
		expect(t, d)
		d.read()
		d.press("N") // the other one
		expect(t, d)
		d.press("y")
		expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: scope,
			Pattern: &approval.Pattern{Kind: approval.ArgvPrefix, Value: "go test"}})
	}
}

// TestAnAnswerOnceIsCalledSo: where allowing this very call is never remembered, no key says that it
// is; a denial of it is.
func TestAnAnswerOnceIsCalledSo(t *testing.T) {
	for once, words := range map[string]string{"": "[y] Allow and remember", "not all that it starts is held": "[y] Allow once"} {
		d := newDesk(80, 24)
		d.arrive(request(1, func(a *protocol.Approval) { a.Once = once }))
		d.read()
		d.press("r")
		if !strings.Contains(d.screen(), words) || strings.Contains(d.screen(), "Nothing is remembered") != (once != "") {
			t.Errorf("%q: %s", once, d.screen())
		}
		d.press("tab")
		if !strings.Contains(d.screen(), "[N] Deny and remember") || !strings.Contains(d.screen(), "From now on") {
			t.Errorf("%q: %s", once, d.screen())
		}
	}
}

// TestPatternIsDenied: Tab turns it round, and it is N then.
func TestPatternIsDenied(t *testing.T) {
	d := offering(80, 24, 2)
	d.press("r", "down", "tab")
	golden(t, "patterns_deny.txt", d.screen())
	d.read()
	d.press("y")
	expect(t, d)
	d.press("N")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Deny, Scope: approval.Session,
		Pattern: &approval.Pattern{Kind: approval.ArgvPrefix, Value: "go test"}})
}

func TestPatternIsEdited(t *testing.T) {
	d := offering(80, 24, 1)
	d.press("r", "down", "e")
	d.write("go")
	if !strings.Contains(d.screen(), "too wide") && !strings.Contains(d.screen(), "go") {
		t.Error(d.screen())
	}
	d.press("e")
	d.write("go test ./only")
	want := []approval.Pattern{{Kind: approval.ArgvPrefix, Value: "go"}, {Kind: approval.ArgvPrefix, Value: "go test ./only"}}
	var got []approval.Pattern
	for _, ask := range d.asked {
		got = append(got, *ask.Pattern)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	d.read()
	d.press("y")
	expect(t, d, protocol.ApprovalsDecide{ID: "req-ab-1", Decision: protocol.Allow, Scope: approval.Session,
		Pattern: &approval.Pattern{Kind: approval.ArgvPrefix, Value: "go test ./only"}})
}

// TestKeysInTheChooserAllowNothing: only y does, and only once the sentence has stood.
func TestKeysInTheChooserAllowNothing(t *testing.T) {
	for _, key := range []string{"enter", "A", "N", "x", "n", "D", "s", "g", "up", "down"} {
		d := offering(80, 24, 2)
		d.press("r")
		d.read()
		d.press(key, key)
		expect(t, d)
		d.press("esc")
		if d.m.chooser != nil || !strings.Contains(d.screen(), "│ go test 1") {
			t.Error(d.screen())
		}
	}
}

// TestPatternsOfARequestThatEnds: the chooser ends with it.
func TestPatternsOfARequestThatEnds(t *testing.T) {
	d := offering(80, 24, 2)
	d.press("r")
	d.read()
	d.ends(1)
	d.press("y", "y")
	d.read()
	d.press("y")
	expect(t, d)
	d.press("esc")
	d.do(previewedMsg{to: &question{protocol.ApprovalsPreview{ID: "req-ab-2", Pattern: &approval.Pattern{}}}, result: protocol.ApprovalsPreviewed{Pattern: &approval.Offer{}}})
	if d.m.chooser != nil {
		t.Error("an offer of an earlier question opened a chooser")
	}
}

func TestNoPatterns(t *testing.T) {
	d := offering(80, 24, 0)
	d.press("r")
	if d.m.chooser == nil || !strings.Contains(d.screen(), "exactly this call: go test 1") {
		t.Error(d.screen())
	}
	d = editing()
	d.press("e")
	d.write(`{"command":"go vet"}`)
	d.press("r")
	if d.m.chooser != nil {
		t.Error("remembering with edited arguments")
	}
}

// TestManyPatternsFit: the marked one is on the screen, whatever its size.
func TestManyPatternsFit(t *testing.T) {
	for _, size := range [][2]int{{40, 14}, {80, 24}} {
		d := offering(size[0], size[1], 9)
		d.press("r")
		for i := range 9 {
			s := d.screen()
			fitsScreen(t, s, size[0], size[1])
			if !strings.Contains(s, "  ▸  ") {
				t.Errorf("%v: %d is out of sight:\n%s", size, i, s)
			}
			d.press("down")
		}
	}
}

// TestHostilePatterns: what comes with an offer is escaped too.
func TestHostilePatterns(t *testing.T) {
	d := offering(80, 24, 1)
	d.press("r", "down")
	if s := d.screen(); !strings.Contains(s, "<U+001B>./b") || strings.Contains(s, "\x1b./b") {
		t.Error(s)
	}
	var a protocol.Approval
	if err := json.Unmarshal([]byte(`{"patterns":[{"kind":"host","value":"x:1","text":"a\u001bb"}]}`), &a); err != nil {
		t.Fatal(err)
	}
	d.m.chooser.offers, d.m.chooser.at = a.Patterns, 0
	if s := d.screen(); !strings.Contains(s, "a<U+001B>b") {
		t.Error(s)
	}
}

// TestNothingIsRememberedUnsaid: y and N count only where the whole sentence that holds from
// then on, and what is said about it, stand on the screen.
func TestNothingIsRememberedUnsaid(t *testing.T) {
	long := "commands that begin with `go test " + strings.Repeat("./a/very/long/path ", 6) + "END"
	for _, size := range [][2]int{{40, 14}, {60, 15}, {60, 20}, {80, 17}, {80, 24}, {200, 50}} {
		for _, key := range []string{"y", "N"} {
			d := offering(size[0], size[1], 4)
			for i := range d.m.cursor().shown.Patterns {
				d.m.cursor().shown.Patterns[i].Text = long
			}
			d.press("r", "down", "g")
			if key == "N" {
				d.press("tab")
			}
			s := strings.Join(strings.Fields(strings.ReplaceAll(d.screen(), "┆", "")), " ")
			whole := strings.Contains(s, "whichever agent asks, until you remove it: commands") && strings.Contains(s, "/path END") && strings.Contains(s, "and 3 more")
			if key == "N" {
				whole = strings.Contains(s, "refused without asking, whichever agent asks, until you remove it: commands") && strings.Contains(s, "/path END") && strings.Contains(s, "and 3 more")
			}
			d.read()
			d.press(key)
			if got := d.answers(); (len(got) == 1) != whole {
				t.Errorf("%v %s: whole %v, %v\n%s", size, key, whole, got, d.screen())
			}
			if size == [2]int{40, 14} && whole || size == [2]int{80, 24} && !whole {
				t.Errorf("%v: whole %v\n%s", size, whole, d.screen())
			}
			fitsScreen(t, d.screen(), size[0], size[1])
		}
	}
}
