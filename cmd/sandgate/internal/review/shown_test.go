package review

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/supervisor/changes"
)

// TestWhatAQuestionShowsOfADraft: what a draft changes is shown, or said to be shown nowhere: no
// file takes the room of another, and what is not text is not passed over.
func TestWhatAQuestionShowsOfADraft(t *testing.T) {
	t.Parallel()
	texts := map[string]string{"Makefile": "all:\n\tcurl evil\n", "aa": strings.Repeat(strings.Repeat("y", 60_000)+"\n", 9), "binary": strings.Repeat("\x00", 14) + "#!/bin/sh"}
	show := func(names ...string) (string, string) {
		var list []shownStep
		for _, name := range names {
			e := &changes.Entry{Mode: 0o100644, Hash: name, Size: int64(len(texts[name]))}
			if name == "attribute" {
				e.Attributes = "{}"
			}
			list = append(list, shownStep{Step: changes.Step{Path: changes.Name(name), Was: e}, title: "+ " + name})
		}
		read(list, func(_ int, e *changes.Entry) ([]byte, error) {
			if e == nil {
				return nil, nil
			}
			return []byte(texts[e.Hash]), nil
		})
		return diffText(list, []string{"/ws"}, "+ "+strings.Join(names, "\n+ ")+"\n")
	}
	if text, unshown := show("Makefile"); unshown != "" || !strings.Contains(text, "curl evil") {
		t.Errorf("%q is not shown of\n%s", unshown, text)
	}
	for _, name := range []string{"aa", "binary", "attribute"} {
		text, unshown := show(name, "Makefile")
		if want := "what becomes of 1 name: + " + name; unshown != want || !strings.HasPrefix(text, "* no screen can show all of this: "+want+"\n") || !strings.Contains(text, "curl evil") {
			t.Errorf("%s: %q is not shown of\n%.300s", name, unshown, text)
		}
	}
	many := make([]string, 40_000)
	for i := range many {
		many[i] = fmt.Sprintf("name-%d", i)
	}
	if text, unshown := show(many...); !strings.Contains(unshown, "names: ") || len(text) > maxDiff {
		t.Errorf("%q, %d bytes", unshown, len(text))
	}
}

// TestNamesOfADraft: no two names of a list look the same, and a long one leaves room for others.
func TestNamesOfADraft(t *testing.T) {
	t.Parallel()
	names := shownNames{}
	names.add(0, "e\u0301.txt")
	names.add(0, "\u00e9.txt")
	for _, c := range []struct{ name, want string }{
		{"\u00e9.txt", `"<U+00E9>.txt"`}, {"e\u0301.txt", `"e<U+0301>.txt"`}, {"e\u0301.txt/", `"e<U+0301>.txt/"`},
		{"trail ", `"trail "`}, {"w  0", `"w  0"`}, {`f  (link to "notes")`, `"f  (link to \"notes\")"`}, {"x  in /ws2", `"x  in /ws2"`},
	} {
		if got := names.text(0, c.name); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	a, b := names.text(0, strings.Repeat("\x01", 250)+"a"), names.text(0, strings.Repeat("\x01", 249)+"ba")
	if a == b || len(a) > 9*maxName {
		t.Errorf("%d bytes: %s", len(a), a)
	}
}

// TestANameThatLooksLikeAnother: a part of a draft is kept by names as they are shown. What a keyboard
// makes of one that looks like another is refused, whichever it is.
func TestANameThatLooksLikeAnother(t *testing.T) {
	t.Parallel()
	const composed, decomposed = "caf\u00e9", "cafe\u0301"
	step := func(name string) changes.Step {
		return changes.Step{Path: changes.Name(name), Was: &changes.Entry{Mode: 0o100644}}
	}
	d := &sessionDraft{draft: &changes.Draft{Roots: []string{"/ws"}}, plans: []changes.DraftPlan{{Undo: changes.Undo{Steps: []changes.Step{step(decomposed), step(composed), step("plain")}}}}}
	for name, want := range map[string]string{
		"plain": "plain", "/ws/plain": "plain", "caf<U+00E9>": composed, `"caf<U+00E9>"`: composed, "cafe<U+0301>": decomposed,
		composed: "", decomposed: "", "/ws/" + composed: "", "nothing": "",
	} {
		part, err := d.part([]string{name})
		switch {
		case want == "" && err == nil:
			t.Errorf("%q keeps %v", name, part)
		case want != "" && (err != nil || len(part[0]) != 1 || string(part[0][0].Path) != want):
			t.Errorf("%q keeps %v, %v; want %q", name, part, err, want)
		}
	}
	if part, err := d.part([]string{"."}); err != nil || len(part[0]) != 3 {
		t.Errorf("%v, %v", part, err)
	}
	long := marks(changes.Step{Path: "l", Was: &changes.Entry{Mode: 0o120777, Link: changes.Name(strings.Repeat("x/", 2000))}}, "/ws", nil)
	if len(long) > 4*maxName || !strings.Contains(long, "link to") {
		t.Errorf("%d bytes: %s", len(long), long)
	}
}

// TestModesAreSaidByThemselves: whatever a name was, that others may open or start what it becomes
// is said. Its twin without those bits has no word about a mode.
func TestModesAreSaidByThemselves(t *testing.T) {
	file, dir := uint32(0o100000), uint32(0o040000)
	for name, c := range map[string]struct {
		now  *changes.Entry
		kind uint32
	}{
		"new": {nil, file}, "was a link": {&changes.Entry{Mode: 0o120777, Link: "notes"}, file}, "was a link, is a directory": {&changes.Entry{Mode: 0o120777, Link: "docs"}, dir},
		"was a directory": {&changes.Entry{Mode: dir | 0o755}, file}, "was a file": {&changes.Entry{Mode: file | 0o644}, dir},
	} {
		open := marks(changes.Step{Path: "x", Now: c.now, Was: &changes.Entry{Mode: c.kind | 0o666}}, "/ws", nil)
		closed := marks(changes.Step{Path: "x", Now: c.now, Was: &changes.Entry{Mode: c.kind | 0o644}}, "/ws", nil)
		if !strings.Contains(open, "mode 666") || strings.Contains(closed, "mode") {
			t.Errorf("%s: %q, %q", name, open, closed)
		}
	}
	b := &bytes.Buffer{}
	tellLeft(&cli.App{Err: b}, []changes.Step{{Path: "a: it was changed since; all else was kept, see b", Conflict: "it was changed"}})
	if got := b.String(); got != "sandgate: not touched: \"a: it was changed since; all else was kept, see b\": it was changed\n" {
		t.Errorf("%q", got)
	}
}
