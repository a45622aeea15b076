package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// FuzzParse checks that no text takes the loader down, that every refusal is an
// *Error with a position, and that what loads marshals and loads again equal.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.txtar", "testdata/bad/*.txtar"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds in %s: %v", pattern, err)
		}
		for _, file := range files {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(archive.Files[0].Data)
		}
	}
	text, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(Init(""))
	for _, s := range []string{"", "\xef\xbb\xbfversion: 1", "%YAML 1.1\n---\n", "? ", "- ", "--- |\n", "{", "&a", "*a", "\t", "a: |\n\tb", "...", "!!map {}", "<<: {}"} {
		f.Add([]byte(s))
	}
	env := testEnv(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(env, string(data))
		var e *Error
		switch {
		case err == nil:
			reload(t, c, env)
		case !errors.As(err, &e):
			t.Fatalf("got %T: %v", err, err)
		default:
			checkProblems(t, e, strings.Count(string(data), "\n")+2)
		}
	})
}

// FuzzMerge checks that no two files that load take the merger down, whosever they are,
// that what comes out can be shown, and that the floor holds it already.
func FuzzMerge(f *testing.F) {
	files, err := filepath.Glob("testdata/good/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	var seeds [][]byte
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		seeds = append(seeds, archive.Files[0].Data)
	}
	for _, a := range seeds {
		for _, b := range seeds {
			f.Add(a, b)
		}
	}
	f.Add([]byte("sandbox: {paths: {a: {root: .}}}"), []byte("sandbox: {paths: {a: {root: src, mode: rw}, b: {root: .., suffixes: [.go]}}}"))
	env := testEnv(f)
	base, err := embedded(env)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		first, err1 := Parse(a, filepath.Join(env.Cwd, "a.yaml"), env)
		second, err2 := Parse(b, filepath.Join(env.Cwd, "b.yaml"), env)
		if err1 != nil || err2 != nil {
			return
		}
		for _, trusted := range []bool{false, true} {
			c, err := Merge(base, Layer{TierAdmin, "a.yaml", true, first}, Layer{TierWorkspace, "b.yaml", trusted, second})
			var e *Error
			if errors.As(err, &e) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Explain(); err != nil {
				t.Fatal(err)
			}
			if bounded := c.KeepFloor(); len(bounded) > 0 {
				t.Fatalf("the floor once more takes away %v", bounded)
			}
		}
	})
}

// checkProblems holds every problem to a position in the text, and to a message
// that a terminal shows on one line.
func checkProblems(t *testing.T, e *Error, lines int) {
	if len(e.Problems) == 0 {
		t.Fatal("an error without a problem")
	}
	for _, p := range e.Problems {
		if p.Position.Line < 1 || p.Position.Line > lines || p.Position.Column < 1 || p.Text == "" {
			t.Errorf("problem %+v", p)
		}
		if strings.ContainsFunc(p.String(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("a control character in %q", p.String())
		}
	}
}
