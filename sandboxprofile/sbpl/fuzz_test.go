package sbpl

import (
	"path"
	"reflect"
	"strings"
	"testing"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// FuzzParse: reading ends without a panic, and what was read, written and read
// again is the same.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"(version 1)\n(deny default (with message \"x\"))", `(version 1)(allow file-read* (subpath "/a\"b\\"))`,
		`(version 1) ; c` + "\n" + `(deny x (require-all (regex #"^/a\.b$") (require-not (require-any (literal "/") (file-mode #o4000)))))`,
		`(allow`, `)`, `"`, `#"`, `"\n"`, strings.Repeat("(", 100), `(version 1)(allow network-outbound (remote ip "localhost:1"))`,
		`(version 1)(allow x (with message "y"))`, `(version 1)(allow x (regex #"("))`, `(version 1)(allow)`, `(version 1)x`, `(version 1)()`,
		`(version 1)(allow x ())`, `(version 1)(allow x (remote unix-socket (path-literal "/s")))`, `(version 1)(allow x (remote ip "1.2.3.4:5"))`,
	} {
		f.Add(s, "file-read-data", "/a")
	}
	f.Fuzz(func(t *testing.T, text, op, name string) {
		nodes, err := readAll(text)
		if err != nil {
			if p, err := Parse(text); err == nil {
				t.Fatalf("%q cannot be read, and is the policy %+v", text, p)
			}
			return
		}
		var b strings.Builder
		for _, n := range nodes {
			b.WriteString(n.String() + "\n")
		}
		again, err := readAll(b.String())
		if err != nil || !reflect.DeepEqual(withoutLines(nodes), withoutLines(again)) {
			t.Fatalf("%q\nbecomes %q\n%v", text, b.String(), err)
		}
		first, err1 := Parse(text)
		second, err2 := Parse(b.String())
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("%q: %v; again: %v", text, err1, err2)
		}
		r := Request{Op: op, Path: name}
		if err1 == nil && first.Decide(r).Allowed != second.Decide(r).Allowed {
			t.Fatalf("%q decides %+v in two ways", text, r)
		}
	})
}

func withoutLines(nodes []node) []node {
	plain := make([]node, len(nodes))
	for i, n := range nodes {
		plain[i] = node{kind: n.kind, text: n.text, list: withoutLines(n.list)}
	}
	return plain
}

// FuzzPattern: what a pattern covers, its expression covers, in every spelling
// of a letter's case.
func FuzzPattern(f *testing.F) {
	for _, c := range [][2]string{
		{".git/hooks", "x/.git/hooks/pre-commit"}, {"*.pem", "a.pem"}, {"[a-c]?", "bé"}, {`\*`, "*"}, {"[^a]", "b"}, {"?", "\xff"},
		{"a*b*c", "axxbyyc"}, {"[+--]", ","}, {"***", "x"}, {"(|){}^$", "(|){}^$"}, {`[\]]`, "]"}, {"k", "K"}, {"a b", "a b/c"}, {`\\0`, `\0`},
	} {
		f.Add(c[0], c[1])
	}
	f.Fuzz(func(t *testing.T, source, name string) {
		name = path.Clean("/w/" + name)
		p := sp.Profile{Paths: map[string]sp.Rights{"/": everyRight}, Hide: []string{source}, Limits: sp.NoLimits()}
		text, err := Compile(p, sp.Facts{}, Vars{Tag: "fuzz"})
		if err != nil {
			return
		}
		policy, err := Parse(text)
		if err != nil {
			t.Fatalf("pattern %q: %v", source, err)
		}
		if !sp.MatchPattern(source, name) || sp.Contains("/dev", name) {
			return
		}
		for _, spelling := range []string{name, upper(name)} {
			if got := policy.Rights(spelling); got != 0 {
				t.Fatalf("pattern %q covers %q; as %q it has %v\n%s", source, name, spelling, got, text)
			}
		}
	})
}

// upper changes the case of ASCII letters only.
func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// FuzzPath: a path with any characters is either refused, or means itself.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"a", `a"b`, `a\`, "a)(b", "a;b", "é", "a\nb", "\xff", "[a", "K", "a//b/../c", `\0`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		dir := path.Clean("/w/" + s)
		if !sp.Contains("/w", dir) || dir == "/w" {
			return
		}
		p := sp.Profile{Paths: map[string]sp.Rights{"/w": everyRight, dir: sp.Read, dir + "/in": everyRight}, Limits: sp.NoLimits()}
		text, err := Compile(p, sp.Facts{}, Vars{Tag: "fuzz"})
		if err != nil {
			return
		}
		policy, err := Parse(text)
		if err != nil {
			t.Fatalf("%q: %v\n%s", dir, err, text)
		}
		for name, want := range map[string]sp.Rights{dir: sp.Read, dir + "/x": sp.Read, dir + "/in": everyRight, dir + "/in/x": everyRight, "/x": 0} {
			if got := policy.Rights(name); got != want {
				t.Fatalf("%q with %q: got %v, want %v\n%s", name, dir, got, want, text)
			}
		}
	})
}
