package highlight

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/chroma/v2"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func join(lines [][]Part) string {
	var text []string
	for _, line := range lines {
		var b strings.Builder
		for _, p := range line {
			b.WriteString(p.Text)
		}
		text = append(text, b.String())
	}
	return strings.Join(text, "\n")
}

// parts are what is not plain, by kind.
func parts(lines [][]Part, k Kind) (list []string) {
	for _, line := range lines {
		for _, p := range line {
			if text := strings.TrimSpace(p.Text); p.Kind == k && text != "" {
				list = append(list, text)
			}
		}
	}
	return list
}

func TestLines(t *testing.T) {
	for language, c := range map[string]struct {
		text string
		kind Kind
		want []string
	}{
		"bash":   {"if true; then echo 'a b'; fi # why", Comment, []string{"# why"}},
		"sh":     {"echo 'a b' \"c$(d)\"", String, []string{"'a b'", "c"}},
		"python": {"def f():\n    return 'x' # y\n", Keyword, []string{"def", "return"}},
		"JSON":   {`{"a": "b"}`, String, []string{`"b"`}},
		"go":     {"package x // y\n\nvar s = `a\nb`", String, []string{"`a", "b`"}},
		"html":   {"<p>x</p><style>p{}</style><!-- y -->", Comment, []string{"<!-- y -->"}},
		"docker": {"# y\nRUN echo 'a'\n", String, []string{"'a'"}},
	} {
		lines := Lines(t.Context(), language, c.text)
		if join(lines) != c.text {
			t.Errorf("%s: %q became %q", language, c.text, join(lines))
		}
		if diff := cmp.Diff(c.want, parts(lines, c.kind)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s\n%v", language, diff, lines)
		}
	}
	if Lines(t.Context(), "klingon", "x") != nil || Lines(t.Context(), "bash", strings.Repeat("x", maxBytes+1)) != nil {
		t.Error("an unknown language or a long text has parts")
	}
}

// TestEveryLanguageLoads: each name leads to rules that work.
func TestEveryLanguageLoads(t *testing.T) {
	for language := range languages() {
		if got := join(Lines(t.Context(), language, "a 'b' 1\n")); got != "a 'b' 1\n" {
			t.Errorf("%s: %q", language, got)
		}
	}
}

// TestTimeIsBounded: what was not reached when the time is up is there, and plain.
func TestTimeIsBounded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	text := "echo 'a'\necho 'b'"
	lines := Lines(ctx, "python", text)
	if join(lines) != text || parts(lines, String) != nil {
		t.Errorf("%v", lines)
	}
}

type brokenLexer struct {
	chroma.Lexer
	give func() chroma.Token
}

func (b brokenLexer) Tokenise(*chroma.TokeniseOptions, string) (chroma.Iterator, error) {
	return b.give, nil
}

// TestALexerIsNotTrusted: one that changes the text, or panics, colours nothing.
func TestALexerIsNotTrusted(t *testing.T) {
	for name, give := range map[string]func() chroma.Token{
		"changes": func() chroma.Token { return chroma.Token{Type: chroma.Comment, Value: "ls"} },
		"panics":  func() chroma.Token { panic("lexer") },
	} {
		if got := tokenise(t.Context(), brokenLexer{give: give}, "rm"); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func checkParts(t interface {
	Helper()
	Fatalf(string, ...any)
}, language, text string) {
	t.Helper()
	lines := Lines(context.Background(), language, text)
	if lines != nil && join(lines) != text {
		t.Fatalf("%s: %q became %q", language, text, join(lines))
	}
}

func TestPartsAreTheText(t *testing.T) {
	names := slices.Sorted(maps.Keys(languages()))
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]rune("ab \n\t'\"`#/*<>{}()$|;&\\é日\r\x00"))
		checkParts(t, rapid.SampledFrom(names).Draw(t, "language"), rapid.StringOf(letters).Draw(t, "text"))
	})
}

func FuzzLines(f *testing.F) {
	f.Add("bash", "echo $(ls | sort) <<E\nx\nE\n")
	f.Add("go", "package x\r\nvar s = `a\r\nb`;")
	f.Add("html", "<script>`${")
	f.Fuzz(func(t *testing.T, language, text string) { checkParts(t, language, text) })
}

// TestOnlyCommentsHaveTheirColour: what looks like a comment of a command and runs does not, and
// neither does anything where the text is not what bash reads. The twin does.
func TestOnlyCommentsHaveTheirColour(t *testing.T) {
	for _, text := range []string{
		"echo ${x# rm -r y}", "echo $((16#ff)) ; rm x", "echo a#b", `echo \# rm x`, "echo '# rm x'", "cat <<E\n# x\nE",
		"echo <U+2019># rm x", "echo →   # x", "if # x", "echo \"$(rm x) # y\"", "case x in\n# | y) rm z",
	} {
		if got := parts(Lines(t.Context(), "bash", text), Comment); len(got) != 0 {
			t.Errorf("%q: %q is a comment", text, got)
		}
	}
	for text, want := range map[string]string{"rm x # tidy up": "# tidy up", "#!/bin/sh\nls": "#!/bin/sh", "echo a | b;# c": "# c", "echo 'a' <<E # b\n# x\nE": "# b"} {
		if got := parts(Lines(t.Context(), "bash", text), Comment); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := parts(Lines(t.Context(), "bash", "a && b | c > d"), Operator); len(got) != 3 {
		t.Errorf("%q", got)
	}
}
