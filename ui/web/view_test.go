package web

import (
	"context"
	"encoding/json"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
	"github.com/sandgate/sandgate/ui/present/presenttest"
)

// TestPageHasNoWayToMarkup: the scripts use nothing that turns text into markup or code,
// the document has no script or style of its own in it, and nothing is loaded from elsewhere.
func TestPageHasNoWayToMarkup(t *testing.T) {
	list, err := assets.ReadDir("assets")
	if err != nil || len(list) < 5 {
		t.Fatal(list, err)
	}
	for _, f := range list {
		b, err := assets.ReadFile("assets/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for _, word := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "srcdoc", "DOMParser", "createContextualFragment", "javascript:"} {
			if strings.Contains(text, word) {
				t.Errorf("%s has %s", f.Name(), word)
			}
		}
		for _, pattern := range []string{`<script(?:>| [^>]*[^>]>[^<])`, `<style`, `\sstyle=`, `\son[a-z]+=`} {
			if strings.HasSuffix(f.Name(), ".html") && regexp.MustCompile(pattern).MatchString(text) {
				t.Errorf("%s has %s", f.Name(), pattern)
			}
		}
		if strings.HasSuffix(f.Name(), ".html") && !strings.Contains(text, ` translate="no">`) {
			t.Errorf("%s lets a browser translate commands", f.Name())
		}
		for _, address := range regexp.MustCompile(`https?://[^\s"'`+"`"+`]+`).FindAllString(text, -1) {
			if address != "http://www.w3.org/2000/svg" {
				t.Errorf("%s leads to %s", f.Name(), address)
			}
		}
	}
}

// TestWhatItCanDoComesFirst: the page puts what a call can do at most above the thing itself,
// and what speaks against it below.
func TestWhatItCanDoComesFirst(t *testing.T) {
	b, err := assets.ReadFile("assets/requests.js")
	if err != nil {
		t.Fatal(err)
	}
	_, sheet, ok := strings.Cut(string(b), "\n  sheet(sheet, view) {")
	effect, content, careful := strings.Index(sheet, `el("dl.strip"`), strings.Index(sheet, "content(view.whole"), strings.Index(sheet, `el("ul.careful"`)
	for _, block := range []string{`sheet.careful.length > 0 && el("ul.careful", { "data-block": true,`, `sheet.first.length > 0 && el("div", { "data-block": true }`} {
		if !strings.Contains(sheet, block) {
			t.Errorf("no %s: an answer would count before it was on the screen", block)
		}
	}
	if !ok || effect < 0 || content < effect || careful < content {
		t.Errorf("effect at %d, content at %d, what speaks against it at %d", effect, content, careful)
	}
}

// TestFilesAreTheirKeys: the page asks for nothing that is not there, and each file has
// the type that a browser insists on.
func TestFilesAreTheirKeys(t *testing.T) {
	files := Files()
	for _, name := range []string{"/", "/main.js", "/page.css", "/icon.svg", "/requests.js", "/panels.js", "/list.js", "/guard.js", "/channel.js", "/dom.js", "/board.js"} {
		if files[name] == nil {
			t.Errorf("no %s", name)
		}
	}
	if files["/index.html"] != nil || files["/assets/main.js"] != nil {
		t.Error("a file has a second name")
	}
	for name, want := range map[string]string{"a.js": "text/javascript; charset=utf-8", "a.css": "text/css; charset=utf-8", "a.bin": "application/octet-stream"} {
		if got := mediaType(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func request() *protocol.Approval {
	return &protocol.Approval{
		ID: "req-1", SessionID: "s-1", Agent: "co\x1bder", Tool: "write_file", Description: "Write\u202e", GroupID: "g",
		Payload: map[string]any{"path": "\u200bx"}, Args: json.RawMessage(`{"n":9007199254740993,"t":"` + "\u202e" + `"}`),
		Presentation: &approval.Presentation{Type: approval.Diff, Content: "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\u200b\n+++ b\n--- c\n\n\n\n\n\n z"},
		Details:      map[string]string{"warnings": "one\nmore", "may write": "/w"}, BatchRemaining: []string{"shell \x1b[2J"},
		Patterns: []approval.Offer{{Kind: approval.ArgvPrefix, Value: "go test", Text: "all of \x1bit", Matched: []string{"m\u2066"}}},
	}
}

// TestSheetIsEscaped: no text that the page is given has a character that a person would
// not see, except where the page sends it back: the value of a pattern.
func TestSheetIsEscaped(t *testing.T) {
	a := request()
	b, err := json.Marshal(sheetOf(t.Context(), a))
	if err != nil {
		t.Fatal(err)
	}
	if text := unquoted(t, b); approval.Escape(text) != text {
		t.Errorf("not escaped: %q", text)
	}
	for _, want := range []string{"<U+202E>", "<U+200B>", "<U+2066>"} {
		if !strings.Contains(unquoted(t, b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
	s := sheetOf(t.Context(), a)
	if !strings.Contains(s.Args, "9007199254740993") || !strings.Contains(s.Args, `\u202e`) {
		t.Errorf("arguments %s", s.Args)
	}
}

// TestASheetHasEachOfItsLists: the page draws what it is told. A list that is nothing, where it
// looks for one, would leave a panel half drawn, and its keys without a meaning.
func TestASheetHasEachOfItsLists(t *testing.T) {
	a := request()
	for _, once := range []string{"", "not all files that it starts are held"} {
		a.Once = once
		b, err := json.Marshal(sheetOf(t.Context(), a))
		if err != nil || strings.Contains(string(b), `":null`) || !strings.Contains(string(b), `"notes":[`) {
			t.Errorf("%q: %s %v", once, b, err)
		}
	}
}

// unquoted is every string of a JSON text, one a line.
func unquoted(t *testing.T, b []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			all.WriteString(v + "\n")
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return all.String()
}

// TestDiffLinesAreWhatTheyAre: after the names of the files, three pluses are an added
// line and three dashes a removed one.
func TestDiffLinesAreWhatTheyAre(t *testing.T) {
	var got []string
	for _, l := range sheetOf(t.Context(), request()).Lines {
		got = append(got, l.How)
	}
	if want := "head head head removed added removed gap "; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", strings.Join(got, " "), want)
	}
}

func contentOf(a *protocol.Approval) string {
	text, _ := present.Content(a)
	return text
}

// TestHeadsOfADraftAreNotText: what sandgate says of a draft's files has a class and a style
// of its own, and a file's line that reads like it has another.
func TestHeadsOfADraftAreNotText(t *testing.T) {
	for _, c := range []struct {
		shown approval.Presentation
		how   []string
	}{
		{approval.Presentation{Type: approval.Diff, Content: "* in /w: 1 changed\n* ~ deploy.sh\n@@ -1 +1,2 @@\n * ~ docs/x\n+* ~ docs/y\n"}, []string{"name", "name", "head", "", "added"}},
		{approval.Presentation{Type: approval.Command, Content: "  sh c.sh\n  ── c.sh, which\n\n── c.sh, which\n│ ── d.sh, which\n", Metadata: map[string]any{approval.Margin: "  "}}, []string{"", "", "", "name", ""}},
		{approval.Presentation{Type: approval.Command, Content: "── c.sh"}, []string{""}},
	} {
		lines := linesOf(&protocol.Approval{Presentation: &c.shown}, c.shown.Content, nil, nil)
		for i, want := range c.how {
			if i >= len(lines) || lines[i].How != want {
				t.Errorf("line %d: %+v, want %q", i, lines, want)
			}
		}
	}
	if b, err := assets.ReadFile("assets/page.css"); err != nil || !strings.Contains(string(b), ".content .name {") {
		t.Error("they have no style", err)
	}
}

// FuzzLines: whatever a content is, its lines are escaped, and colours change no letter.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "echo `x\n\n'b'`", "a\n\n\n\n\n\nb", "echo \x1b[2J # x", "--- a\n+++ b\n@@\n+x", "for f in *; do\n  x " + strings.Repeat(" ", 90) + "y\ndone"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, text string, diff bool) {
		kind := approval.Command
		if diff {
			kind = approval.Diff
		}
		a := &protocol.Approval{ID: "r", Presentation: &approval.Presentation{Type: kind, Content: text, Language: "bash"}}
		plain := linesOf(a, contentOf(a), nil, nil)
		coloured := sheetOf(context.Background(), a).Lines
		if len(plain) != len(coloured) {
			t.Fatalf("%d lines, %d with colours", len(plain), len(coloured))
		}
		for i, l := range coloured {
			if l.Parts == nil {
				t.Fatalf("line %d would be null", i)
			}
			if got := textOf(l.Parts); got != textOf(plain[i].Parts) || approval.EscapeLine(got) != got {
				t.Errorf("line %d: %q, plain %q", i, got, textOf(plain[i].Parts))
			}
		}
	})
}

// TestTheScriptIsShort: what is written by hand stays small enough to be read, with its
// comments and blank lines.
func TestTheScriptIsShort(t *testing.T) {
	files, err := fs.Glob(assets, "assets/*.js")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, name := range files {
		b, err := assets.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.Count(string(b), "\n")
	}
	if lines == 0 || lines >= 1500 {
		t.Errorf("%d lines of script", lines)
	}
}

// TestThePageTellsForeignTexts: no text of a sheet has a foreign one read as ours.
func TestThePageTellsForeignTexts(t *testing.T) {
	for _, text := range presenttest.Texts() {
		glob := approval.Pattern{Kind: approval.PathGlob, Value: "/ws/" + text + "/**"}
		a := &protocol.Approval{Agent: text, Tool: "ask", Description: "do " + text, Payload: map[string]any{"files": map[string]any{"/ws/" + text: ""}}, SessionName: text,
			Details: map[string]string{"directory": "/ws/" + text}, Patterns: []approval.Offer{{Kind: glob.Kind, Text: glob.Text(), Matched: []string{text, text}}}}
		s := sheetOf(t.Context(), a)
		said := []string{s.Agent, s.Wants, s.Place, s.Title, string(present.Outcome(a, nil))}
		for _, f := range append(s.First, s.Depth...) {
			said = append(said, f.Text)
		}
		for _, o := range s.Offers {
			said = append(said, string(o.Text))
			for _, scope := range present.Scopes() {
				said = append(said, string(o.Allow[scope.Scope]), string(o.Deny[scope.Scope]))
			}
			for _, n := range append(o.Notes, o.DenyNotes...) {
				said = append(said, string(n.Text))
			}
		}
		presenttest.Check(t, "page", strings.Join(said, "\n"))
	}
}

// TestAnEditHidesNoLikeness: what was withdrawn is remembered as the agent asked for it, not as a person was about to edit
// it: what looks like that says so.
func TestAnEditHidesNoLikeness(t *testing.T) {
	request := func(id protocol.ApprovalID, command string) *protocol.Approval {
		return &protocol.Approval{ID: id, Tool: "shell", Payload: map[string]any{"command": command}}
	}
	p := &page{looked: map[protocol.ApprovalID]*protocol.Approval{"one": request("one", "git clean -fdx build")}}
	p.sheet(t.Context(), request("one", "true"))
	p.eventOf(client.Event{Kind: client.Resolved, Approval: protocol.Approval{ID: "one", Tool: "shell"}})
	if s := p.sheet(t.Context(), request("two", "git clean -fdx .")); !strings.Contains(s.Like, "withdrawn") {
		t.Errorf("%q", s.Like)
	}
}
