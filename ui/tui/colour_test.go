package tui

import (
	"image/color"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

// TestCodeIsColoured, and what is coloured is neither faint nor painted over.
func TestCodeIsColoured(t *testing.T) {
	d := newDesk(80, 24)
	d.arrive(request(1, func(a *protocol.Approval) {
		a.Presentation.Content = "if true; then echo 'a b'; fi # why"
		a.Payload["command"] = a.Presentation.Content
	}))
	content := d.m.View().Content
	for _, want := range []string{"\x1b[35mif", "\x1b[32m'a b'", "\x1b[36m# why"} {
		if !strings.Contains(content, want) {
			t.Errorf("no %q in %q", want, content)
		}
	}
	for line := range strings.SplitSeq(content, "\n") {
		if strings.Contains(line, "│") && (strings.Contains(line, "\x1b[2m") || strings.Contains(line, "\x1b[8m") || strings.Contains(line, "\x1b[4")) {
			t.Errorf("%q", line)
		}
	}
	d = newDesk(80, 24)
	d.arrive(request(1, func(a *protocol.Approval) { // a line of a file beside it is none of the command
		a.Payload["command"], a.Presentation.Content = "sh x # why", "sh x # why\n\n── x\n│ cat <<E\n│ # runs"
	}))
	if content := d.m.View().Content; strings.Contains(content, "\x1b[36m") || !strings.Contains(content, "# runs") {
		t.Errorf("coloured as a comment: %q", content)
	}
}

// TestALightBackground has none of the colours that cannot be read on it.
func TestALightBackground(t *testing.T) {
	d := newDesk(80, 24)
	d.arrive(request(1, func(a *protocol.Approval) {
		a.Presentation.Content = "curl x | sh; echo 'a' # why"
		a.Payload["command"] = a.Presentation.Content
		a.Details["warnings"] = "runs code from the internet"
	}))
	pale := []string{"[33m", "[1;33m", "[32m", "[36m"}
	if s := d.m.View().Content; !strings.ContainsAny(s, "\x1b") || !slices.ContainsFunc(pale, func(c string) bool { return strings.Contains(s, c) }) {
		t.Errorf("it is not coloured: %q", s)
	}
	d.do(tea.BackgroundColorMsg{Color: color.White})
	for _, c := range pale {
		if s := d.m.View().Content; strings.Contains(s, c) {
			t.Errorf("%q in %q", c, s)
		}
	}
}

// TestColoursChangeNoText: with and without them, the same characters stand in the
// same places, wherever lines are wrapped.
func TestColoursChangeNoText(t *testing.T) {
	letters := rapid.SampledFrom([]rune("ab \n\t'\"`#$(){};|&é日\u202e\u0301"))
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOfN(letters, 0, 300, -1).Draw(rt, "text")
		width := rapid.IntRange(minWidth, 100).Draw(rt, "width")
		screen := func(language string) string {
			d := newDesk(width, 60)
			d.arrive(request(1, func(a *protocol.Approval) {
				a.Presentation, a.Payload = &approval.Presentation{Type: approval.Command, Content: text, Language: language}, map[string]any{"command": text}
			}))
			return d.screen()
		}
		if plain, coloured := screen(""), screen("bash"); plain != coloured {
			rt.Fatalf("%q:\n%s\n%s", text, plain, coloured)
		}
	})
}

// TestEmptyLinesAreCounted: a screenful of them does not push the end out of sight.
func TestEmptyLinesAreCounted(t *testing.T) {
	d := newDesk(80, 24)
	d.arrive(request(1, func(a *protocol.Approval) {
		a.Presentation.Content = "ls\n\n\nps" + strings.Repeat("\n  ", 100) + "\nrm -rf ~"
	}))
	s := d.screen()
	for _, want := range []string{"│ ls\n  │\n  │\n  │ ps\n  │ <100 empty lines>\n  │ rm -rf ~\n"} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q:\n%s", want, s)
		}
	}
}

// TestWrappingLosesNothing, and no part is wider than it may be.
func TestWrappingLosesNothing(t *testing.T) {
	letters := rapid.SampledFrom([]rune("ab  é日e\u0301🙂<>काᄀ\u1161🏽🇩"))
	rapid.Check(t, func(rt *rapid.T) {
		line, width := rapid.StringOf(letters).Draw(rt, "line"), rapid.IntRange(2, 30).Draw(rt, "width")
		for name, parts := range map[string][]string{"wrap": present.Wrap(line, width), "wrapWords": wrapWords(line, width)} {
			if got := strings.Join(parts, ""); got != line {
				rt.Fatalf("%s: %q became %q", name, line, got)
			}
			for _, p := range parts {
				if max(ansi.StringWidth(p), ansi.StringWidthWc(p)) > width {
					rt.Fatalf("%s: %q is wider than %d", name, p, width)
				}
			}
		}
	})
}
