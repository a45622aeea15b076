package hooks

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// shells are what runtimes hand a command line to, the last with everything on that
// changes how words are read.
var shells = [][]string{
	{"sh", "-c"},
	{"bash", "-c"},
	{"bash", "--posix", "-c"},
	{"bash", "-c", `eval "$BASH_EVALUATES"`}, // as runtimes wrap it
	{"bash", "-O", "expand_aliases", "-O", "extglob", "-O", "nullglob", "-O", "globstar", "-H", "-c"},
	{"zsh", "-fc"},
	{"zsh", "-o", "RC_QUOTES", "-o", "EXTENDED_GLOB", "-fc"},
	{"ksh", "-c"},
	{"fish", "--no-config", "-c"},
}

// read has a shell read a command line, and gives the words that a program would get.
func read(t interface{ Fatal(...any) }, shell []string, argv []string) []string {
	line := CommandLine(append([]string{"printf", `%s\0`}, argv...))
	cmd := exec.Command(shell[0], append(slices.Clone(shell[1:]), line)...)
	cmd.Env = append(os.Environ(), "BASH_EVALUATES=eval "+CommandLine([]string{line}))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(shell, argv, err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// words that would do something if one quote were missing.
var nasty = rapid.SampledFrom([]string{
	`'`, `''`, `'\''`, `"`, `\`, `\\'`, "`id`", "$(id)", "${HOME}", "!!", "*", "~", "=ls", "a\nb", "\r\n", "\t", " ", ";", "&&", "|", ">",
	"<<EOF\nx\nEOF\n", "#", "--", "-c", "é", "\u202e", "\x7f", "\x01", "{a,b}", "[a-z]", "$'\\x41'", "%s", "\\0",
})

// TestAnyShellReadsTheSameWords: what goes in is what a program gets, byte for byte.
func TestAnyShellReadsTheSameWords(t *testing.T) {
	for _, shell := range shells {
		if _, err := exec.LookPath(shell[0]); err != nil {
			t.Logf("%s is not here", shell[0])
			continue
		}
		rapid.Check(t, func(t *rapid.T) {
			text := rapid.Custom(func(t *rapid.T) string {
				parts := rapid.SliceOfN(rapid.OneOf(nasty, rapid.StringN(0, 8, -1)), 1, 6).Draw(t, "parts")
				return strings.ReplaceAll(strings.Join(parts, ""), "\x00", "") // refused before
			})
			argv := rapid.SliceOfN(text, 1, 40).Draw(t, "argv")
			if got := read(t, shell, argv); !slices.Equal(got, argv) {
				t.Fatalf("%v read %q as %q", shell, argv, got)
			}
		})
	}
}

// TestABackslashStandsOutsideOfQuotes: to fish it has a meaning within them, and `\'` would end no word.
func TestABackslashStandsOutsideOfQuotes(t *testing.T) {
	for text, want := range map[string]string{`a\'b`: `'a'\\''\''b'`, `\`: `''\\''`, `a'b`: `'a'\''b'`, "a b": "'a b'"} {
		if got := CommandLine([]string{text}); got != want {
			t.Errorf("%q is written %s, want %s", text, got, want)
		}
	}
}

// TestRewriteChangesTheCommandAlone: all other members stay, and a shell reads the
// model's command out of the new one as it was written.
func TestRewriteChangesTheCommandAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.OneOf(nasty, rapid.StringN(1, 40, -1)).Draw(t, "line")
		if line = strings.ReplaceAll(line, "\x00", ""); !utf8.ValidString(line) {
			t.Skip("JSON has no such string")
		}
		other := rapid.SampledFrom([]string{`120000`, `"<b>"`, `true`, `null`, `1e400`, `12345678901234567890`, `{"command":"x"}`}).Draw(t, "other")
		in := members{"command": quoteJSON(line), "timeout": json.RawMessage(other)}
		raw, err := rewrite(in, "command", []string{"printf", `%s`, "command=" + line})
		if err != nil {
			t.Fatal(err)
		}
		var out members
		if err := json.Unmarshal(raw, &out); err != nil || len(out) != 2 || string(out["timeout"]) != other {
			t.Fatalf("%s became %s: %v", other, raw, err)
		}
		command, err := out.string("command")
		if err != nil {
			t.Fatal(err)
		}
		got, err := exec.Command("bash", "-c", command).Output()
		if err != nil || string(got) != "command="+line {
			t.Fatalf("%q arrives as %q: %v", line, got, err)
		}
		if string(in["command"]) != string(quoteJSON(line)) {
			t.Fatal("the input was changed")
		}
	})
}

func TestALineThatNoShellWouldTake(t *testing.T) {
	if _, err := rewrite(members{}, "command", []string{strings.Repeat("'", maxLine/4)}); err == nil {
		t.Error("a line beyond the bound is taken")
	}
	if raw, err := rewrite(members{}, "command", []string{strings.Repeat("a", maxLine/2)}); err != nil || !bytes.Contains(raw, []byte("aaa")) {
		t.Error(err)
	}
}
