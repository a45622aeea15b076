package tools

import (
	"errors"
	"strings"
	"testing"
)

func TestArgument(t *testing.T) {
	tr := newTree(t)
	tr.mkdir("notes")
	tr.mkdir("data")
	tr.mkdir("cache/data")
	tr.mkdir("cache/.hidden")
	tr.link("cache/same", "../notes")
	paths := Paths{
		Cwd: tr.path("cache"),
		Rules: []PathRule{
			{Name: "notes", Root: tr.path("notes"), Write: true, Suffixes: []string{".txt"}},
			{Name: "same", Root: tr.path("notes"), Write: true},
			{Name: "cache", Root: tr.path("cache"), Write: true},
			{Name: "data", Root: tr.path("data"), Write: true},
			{Name: "hidden", Root: tr.path("outside")},
		},
	}
	for _, c := range []struct{ given, want string }{
		{"notes/log.txt", "BASE/notes/log.txt"},
		{"notes/a/../log.txt", "BASE/notes/a/../log.txt"},
		{"notes", "BASE/notes"},
		{"notes/", "BASE/notes"},
		{"./notes/log.txt", "./notes/log.txt"}, // says that it is relative
		{"notesx/log.txt", "notesx/log.txt"},
		{"x/notes", "x/notes"},
		{"cache/x", "BASE/cache/x"},
		{"same/x", "same/x"}, // both readings are one
		{"hidden/secret.txt", "BASE/outside/secret.txt"},
		{"/notes/x", "/notes/x"},
		{"", ""},
	} {
		got, err := paths.Argument(c.given)
		if want := strings.ReplaceAll(c.want, "BASE", tr.base); err != nil || got != want {
			t.Errorf("Argument(%q) = %q, %v; want %q", c.given, got, err, want)
		}
	}

	tr.mkdir("cache/cache")
	if got, err := paths.Argument("cache/x"); err != nil || got != "cache/x" {
		t.Errorf("Argument(cache/x) = %q, %v beside a directory of that name; want it relative", got, err)
	}

	_, err := paths.Argument("data/x")
	var bad *ArgumentError
	if !errors.As(err, &bad) || !strings.Contains(bad.Reason, tr.path("cache/data/x")) || !strings.Contains(bad.Reason, tr.path("data/x")+" of sandbox.paths.data") {
		t.Fatalf("Argument(data/x): %v; want both readings", err)
	}
	if !strings.Contains(bad.Hint, `"./data/x"`) {
		t.Errorf("hint %q does not say how to mean the first", bad.Hint)
	}
	for given, want := range map[string]string{"./data/x": "cache/data/x", tr.path("data/x"): "data/x", "notes/log.txt": "notes/log.txt"} {
		d, err := paths.DecideArgument(given, true)
		if err != nil || d.Effect != Allow || d.Path != tr.path(want) {
			t.Errorf("DecideArgument(%q) = %v %q, %v; want %s allowed", given, d.Effect, d.Path, err, want)
		}
	}
	d, err := paths.DecideArgument("notes/../../outside/secret.txt", false)
	if err != nil || d.Effect != Deny && d.Rule.Name != "hidden" {
		t.Errorf("a path that leaves the named one: %v by %v, %v", d.Effect, d.Rule, err)
	}
	if d, err := paths.DecideArgument("notes/../ws/a.txt", false); err != nil || d.Effect != Deny {
		t.Errorf("a path that leaves the named one for no other: %v, %v; want it denied", d.Effect, err)
	}
}

// A hidden entry of the working directory must not be told by an error that names it.
func TestArgumentTellsNothingOfHiddenEntries(t *testing.T) {
	tr := newTree(t)
	tr.mkdir("ws/private")
	tr.mkdir("data")
	paths := Paths{
		Cwd:   tr.path("ws"),
		Rules: []PathRule{{Name: "workspace", Root: tr.path("ws")}, {Name: "private", Root: tr.path("data")}},
	}
	paths.Hide = []string{"private"}
	got, err := paths.Argument("private/x")
	if err != nil || got != tr.path("data/x") {
		t.Errorf("Argument = %q, %v; want the named path", got, err)
	}
}

// Words of a command line are never read so: bash opens what is relative.
func TestDecideKnowsNoNames(t *testing.T) {
	tr := newTree(t)
	tr.mkdir("data")
	paths := Paths{Cwd: tr.path("ws"), Rules: []PathRule{{Name: "ws", Root: tr.path("ws")}, {Name: "data", Root: tr.path("data"), Write: true}}}
	if d, err := paths.Decide("data/x", true); err != nil || d.Effect != Deny || d.Path != tr.path("ws/data/x") {
		t.Errorf("Decide = %v %q, %v; want the relative path, denied", d.Effect, d.Path, err)
	}
}
