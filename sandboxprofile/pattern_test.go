package sandboxprofile_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	. "github.com/sandgate/sandgate/sandboxprofile"
	"pgregory.net/rapid"
)

func TestMatchPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{".git/hooks", "/a/.git/hooks/pre-commit", true},
		{".git/hooks", "/a/.git/hooks", true},
		{".git/hooks", "/.git/hooks", true},
		{".git/hooks", "/a/.git", false},
		{".git/hooks", "/a/x.git/hooks", false},
		{".git/hooks", "/a/.git/hooks2", false},
		{".git/hooks", "/a/.git/x/hooks", false},
		{".env.*.local", "/a/.env.test.local", true},
		{".env.*.local", "/a/.env.local", false},
		{"*.pem", "/a/b.pem/c", true},
		{"*", "/", false},
		{"*", "/a", true},
		{"a/*/c", "/a/b/c", true},
		{"a/*/c", "/a/b/b/c", false},
		{"[", "/a", true},
		{"", "/a", true},
		{"/a", "/b", true},
		{`a\*`, "/a*", true},
		{`a\*`, "/ab", false},
	} {
		if got := MatchPattern(c.pattern, c.path); got != c.want {
			t.Errorf("MatchPattern(%q, %q) = %v", c.pattern, c.path, got)
		}
	}
}

func TestParsePattern(t *testing.T) {
	for _, bad := range []string{"", "/a", "a/", "a//b", ".", "..", "a/../b", "**", "a/**", "[", "a/[b", "a\x00"} {
		if ParsePattern(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	for _, good := range []string{"a", ".env", "a/b", "*.pem", "a/*/b", "[ab]c", "a b", "é"} {
		if err := ParsePattern(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestMatcherAgreesWithEachPattern(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		patterns := rapid.SliceOfN(genPattern, 0, 4).Draw(t, "patterns")
		name := genPath.Draw(t, "path")
		m := NewMatcher(patterns)
		if got, want := m.Match(name), slices.ContainsFunc(patterns, func(p string) bool { return MatchPattern(p, name) }); got != want {
			t.Fatalf("%q on %s: the list says %v, its patterns %v", patterns, name, got, want)
		}
		above := false
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			above = above || m.MatchLast(dir)
		}
		if got := above || m.MatchLast(name); name != "/" && got != m.Match(name) {
			t.Fatalf("%q on %s: from the root down %v, at once %v", patterns, name, got, m.Match(name))
		}
	})
}

func FuzzParsePattern(f *testing.F) {
	for _, s := range []string{".git/hooks", "[", "a//b", "\\", "*/?", "..", "[a-"} {
		f.Add(s, "/x/y")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		name = path.Clean("/" + name)
		matched := MatchPattern(pattern, name)
		if ParsePattern(pattern) != nil {
			if !matched {
				t.Fatalf("malformed %q does not cover %q", pattern, name)
			}
			return
		}
		if matched && !MatchPattern(pattern, strings.TrimSuffix(name, "/")+"/below") {
			t.Fatalf("%q covers %q and not what lies below it", pattern, name)
		}
	})
}

func BenchmarkMatcher(b *testing.B) {
	m := NewMatcher([]string{".git/hooks", ".git/config", ".env", ".env.*.local", "*.pem", ".ssh", "id_rsa", ".bashrc"})
	for b.Loop() {
		m.MatchLast("/home/someone/project/node_modules/package/lib/index.js")
	}
}
