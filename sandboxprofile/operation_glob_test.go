package sandboxprofile_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/sandboxprofile"
)

func TestParseGlobRefuses(t *testing.T) {
	for glob, want := range map[string]string{
		"":                          "is empty",
		"/etc/*":                    "is absolute",
		"a/../b":                    `contains ".."`,
		"{a,..}/b":                  `contains ".."`,
		"[a":                        "malformed component",
		"{a,b":                      `"{" without its "}"`,
		strings.Repeat("{a,b}", 20): "more than 256 alternatives",
	} {
		if _, err := sandboxprofile.ParseGlob(glob); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", glob, err, want)
		}
	}
}

// matchSlowly is what Match means, without regard to time.
func matchSlowly(glob, parts []string) bool {
	switch {
	case len(glob) == 0:
		return len(parts) == 0
	case glob[0] == "**" && len(glob) == 1:
		return len(parts) > 0
	case glob[0] == "**":
		return matchSlowly(glob[1:], parts) || len(parts) > 0 && matchSlowly(glob, parts[1:])
	case len(parts) == 0:
		return false
	}
	ok, _ := path.Match(glob[0], parts[0])
	return ok && matchSlowly(glob[1:], parts[1:])
}

func TestGlobMatchesWhatItMeans(t *testing.T) {
	part := rapid.SampledFrom([]string{"a", "b", "ab", "x.go"})
	globPart := rapid.SampledFrom([]string{"a", "*", "?", "**", "a*", "*.go", "[ab]"})
	rapid.Check(t, func(t *rapid.T) {
		glob := rapid.SliceOfN(globPart, 1, 6).Draw(t, "glob")
		parts := rapid.SliceOfN(part, 1, 6).Draw(t, "path")
		g, err := sandboxprofile.ParseGlob(strings.Join(glob, "/"))
		if err != nil {
			t.Fatal(err)
		}
		name := strings.Join(parts, "/")
		if got, want := g.Match(name), matchSlowly(glob, parts); got != want {
			t.Fatalf("%q matches %q: %v, want %v", glob, name, got, want)
		}
		for i := 1; g.Match(name) && i < len(parts); i++ {
			if dir := strings.Join(parts[:i], "/"); !g.Enters(dir) {
				t.Fatalf("%q matches %q and does not enter %q", glob, name, dir)
			}
		}
	})
}

func TestGlobIsFast(t *testing.T) {
	g, err := sandboxprofile.ParseGlob(strings.Repeat("**/a*a*a*a*/", 60) + "b")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if g.Match(strings.Repeat(strings.Repeat("a", 60)+"/", 60) + "c") {
		t.Error("it matches")
	}
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
}

func FuzzGlob(f *testing.F) {
	for _, seed := range []string{"**/*.go", "{a,b{c,d}}/*", "[!a-z]?", `\{a\}`, "a//b", "./x", "{,}", "[]", "{[},]}"} {
		f.Add(seed, "a/b.go")
	}
	f.Fuzz(func(t *testing.T, glob, name string) {
		g, err := sandboxprofile.ParseGlob(glob)
		if err != nil {
			return
		}
		if dir := path.Dir(name); dir != "." && !strings.HasPrefix(name, "/") && path.Clean(name) == name && g.Match(name) && !g.Enters(dir) {
			t.Errorf("%q matches %q and does not enter %q", glob, name, dir)
		}
	})
}

func TestCompilePatternRefuses(t *testing.T) {
	for pattern, want := range map[string]string{
		"a(":               "is not a regular expression: missing closing )",
		`(?=a)`:            "is not a regular expression: invalid or unsupported Perl syntax",
		`a\nb`:             "line feed",
		"a\nb":             "line feed",
		"a{1001}":          "invalid repeat count",
		"((a{9}){9}){999}": "invalid repeat count",
		"(a{1000}|b{1000}){1}(c{1000}|d{1000})(e{1000}|f{1000})": "steps for each byte",
	} {
		if _, err := sandboxprofile.CompilePattern(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", pattern, err, want)
		}
	}
}

// missed reports whether one of the two quick looks says that text has no match.
func missed(p sandboxprofile.Pattern, text string) bool {
	lacks, _ := p.Lacks([]byte(text), nil)
	return lacks || p.Block != nil && !p.Block.MatchString(text)
}

func TestNeedle(t *testing.T) {
	for pattern, want := range map[string]string{
		"needle": "needle", "(?i)Needle": "needle, any case", `func \w+Error\(`: "Error(", "a|b": "", "(abc)+x": "abc", "(abc)*xy": "xy",
		"(?i)task": "ta, any case", "(?i)É": ", any case", "x{2,}": "x", "x{0,2}yz": "yz", "\uFFFDab": "ab", "": "",
	} {
		p, err := sandboxprofile.CompilePattern(pattern)
		got := p.Needle
		if p.Fold {
			got += ", any case"
		}
		if err != nil || got != want {
			t.Errorf("%q has in it %q, want %q; %v", pattern, got, want, err)
		}
	}
}

// TestBlockCoversLine: where a line matches, so does every text that it is part of.
func TestBlockCoversLine(t *testing.T) {
	atoms := rapid.SampledFrom([]string{"a", "b", "^", "$", `\b`, `\B`, ".", "[^a]", `\s`, `\A`, `\z`, "(?-m:$)", "(?s:.)", "x*", "(a|b)", "(?i:A)", "(?i:K)", "(?i:axs)", "ab+", "(?:bx){2}"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(atoms, 1, 4).Draw(t, "atoms"), "")
		p, err := sandboxprofile.CompilePattern(pattern)
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		text := rapid.StringMatching(`([abxABXksK\x{212A}\x{017F} ]{0,4}\n){1,4}`).Draw(t, "text")
		for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			if regexp.MustCompile(pattern).MatchString(line) != p.Line.MatchString(line) {
				t.Fatalf("%q is not itself for %q", pattern, line)
			}
			if p.Line.MatchString(line) && missed(p, text) {
				t.Fatalf("%q matches the line %q and not the text %q", pattern, line, text)
			}
		}
	})
}

func FuzzCompilePattern(f *testing.F) {
	for _, seed := range []string{"a|b", "^(a+)+$", `\pL{3}`, "(?i)x", "[[:alpha:]]", `\Qa\E`, "(?m)^", "a{0,1000}"} {
		f.Add(seed, "text\nlines\n")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		p, err := sandboxprofile.CompilePattern(pattern)
		if err != nil || p.Size > 500 || len(text) > 1000 {
			return
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			if p.Line.MatchString(line) && missed(p, text) {
				t.Errorf("%q matches the line %q and not the text %q", pattern, line, text)
			}
		}
	})
}
