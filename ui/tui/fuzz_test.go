package tui

import (
	"strings"
	"testing"
	"unicode"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// FuzzScreen draws requests with any text in any place. The screen fits, has no
// character that a terminal acts on, and nothing from outside begins a line but the
// title and what continues it.
func FuzzScreen(f *testing.F) {
	f.Add("ls", "bash", 80, 24)
	f.Add(hostile, "go", 41, 15)
	f.Add(strings.Repeat("広い x ", 200)+"\n│ ## forged margin\nend", "", 60, 20)
	f.Add("a"+strings.Repeat(" ", 300)+"; rm"+strings.Repeat("\n", 99)+"b", "python", 132, 50)
	f.Add("deny   [N deny]\n\rallow?\u0301\u0301\u0301\u0301\u0301\u0301", "html", 40, 14)
	f.Add(strings.Repeat("का", 66)+" ;touch a", "bash", 40, 16)
	f.Add(strings.Repeat("👍🏽", 40)+" ;touch a"+strings.Repeat("ᄀ", 50)+strings.Repeat("각", 50)+strings.Repeat("🇩🇪", 40)+"🇩", "bash", 40, 16)
	f.Add("rm א > ב; cp x/א.ב/y ع 12", "bash", 80, 24)
	f.Add("cat docs/שלום.txt a/ב/c", "bash", 60, 20)
	f.Fuzz(func(t *testing.T, text, language string, width, height int) {
		width, height = minWidth+(width&0x7f), minHeight+(height&0x3f)
		d := newDesk(width, height)
		d.arrive(request(1, func(a *protocol.Approval) {
			a.Agent, a.Tool, a.Description, a.Connector, a.Rule, a.Cause = text, protocol.ToolName(text), text, text, text, text
			a.Details = map[string]string{"rule": text, "warnings": text, "may write": text, text: text}
			a.Presentation = &approval.Presentation{Type: approval.Command, Content: text, Language: language,
				Metadata: map[string]any{"full_content": text, "note": text}}
			a.BatchRemaining = []string{text}
			a.Patterns = []approval.Offer{{Kind: approval.PatternKind(text), Value: text, Text: text, Matched: []string{text}}}
		}))
		d.read()
		for _, keys := range [][]string{{}, {"end"}, {"o"}, {"esc", "r"}, {"s", "down"}, {"esc", "tab"}, {"x"}} {
			d.press(keys...)
			checkScreen(t, d, width, height)
		}
	})
}

// showsAll: what the renderer has for the terminal is all of a view, whichever way the
// terminal measures.
func showsAll(t *testing.T, view string, width, height int) {
	t.Helper()
	for _, measure := range []ansi.Method{ansi.WcWidth, ansi.GraphemeWidth} {
		buf := uv.NewScreenBuffer(width, height)
		buf.Method = measure
		uv.NewStyledString(view).Draw(buf, buf.Bounds())
		for y, line := range strings.Split(ansi.Strip(view), "\n") {
			if got := strings.TrimRight(buf.Line(y).String(), " "); got != strings.TrimRight(line, " ") {
				t.Fatalf("%q of %q is on the screen", got, line)
			}
		}
	}
}

func checkScreen(t *testing.T, d *desk, width, height int) {
	t.Helper()
	screen := d.screen()
	fitsScreen(t, screen, width, height)
	showsAll(t, d.m.View().Content, width, height)
	if strings.ContainsFunc(strings.ReplaceAll(screen, "\n", ""), func(r rune) bool {
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
	}) {
		t.Fatalf("%q", screen)
	}
	for line := range strings.SplitSeq(screen, "\n") {
		if moves(line) {
			t.Fatalf("a terminal may draw this in another order: %q", line)
		}
	}
	for _, raw := range strings.Split(d.m.View().Content, "\x1b")[1:] {
		if !strings.HasPrefix(raw, "[") || strings.IndexByte(raw, 'm') < 0 || strings.Trim(raw[1:strings.IndexByte(raw, 'm')], "0123456789;:") != "" {
			t.Fatalf("an escape sequence that is no style: %q in %q", raw, ansi.Strip(raw))
		}
	}
}

// moves reports whether signs or digits stand between letters that are drawn from right to
// left, and no other letter does.
func moves(line string) bool {
	reversed, between := false, false
	for _, r := range line {
		switch {
		case unicode.In(r, unicode.Hebrew, unicode.Arabic):
			if reversed && between {
				return true
			}
			reversed, between = true, false
		case unicode.IsLetter(r):
			reversed = false
		case !unicode.Is(unicode.M, r):
			between = true
		}
	}
	return false
}
