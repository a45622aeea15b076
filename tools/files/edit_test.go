package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/files"
)

func TestEditPlans(t *testing.T) {
	registry, ws := setup(t)
	file := filepath.Join(ws, "a.txt")
	write(t, file, "one two\n")
	digest := strings.Repeat("0a", 32)
	one := plan(t, registry, "edit_file", args{"path": "a.txt", "old_string": "one", "new_string": "1", "if_sha256": digest})
	several := plan(t, registry, "multi_edit", args{"path": "./a.txt", "if_sha256": digest, "edits": []any{
		args{"old_string": "one", "new_string": "1"},
		args{"old_string": "two", "new_string": "", "replace_all": true},
		args{"old_string": "three", "new_string": "3", "expected_count": 3.0},
	}})
	for _, p := range []tools.Proposal{one, several} {
		op := p.Plan.Action.File
		if p.Plan.Action.Kind != sandboxprofile.EditFile || op.Path != file || op.SHA256 != digest || op.MaxBytes != 4<<20 {
			t.Errorf("%+v %+v", p.Plan.Action, op)
		}
		if len(p.Plan.Pins) != 1 || p.Plan.Pins[0].Verify() != nil || op.Base == nil || op.Base.Inode != p.Plan.Pins[0].Inode || op.Base.Size != 8 {
			t.Errorf("pins %+v, base %+v", p.Plan.Pins, op.Base)
		}
		if p.Request == nil || p.Request.Description != "Edit workspace:a.txt" || p.Rule != "sandbox.paths.workspace" {
			t.Errorf("%+v by %q", p.Request, p.Rule)
		}
	}
	want := []sandboxprofile.Edit{{Old: "one", New: "1"}, {Old: "two", All: true}, {Old: "three", New: "3", Count: 3}}
	for i, e := range several.Plan.Action.File.Edits {
		if e != want[i] {
			t.Errorf("edit %d is %+v, want %+v", i, e, want[i])
		}
	}
}

// A plan is bound to the file that it was made for, and so is its digest.
func TestEditPlansAreBoundToTheFile(t *testing.T) {
	registry, ws := setup(t)
	file := filepath.Join(ws, "a.txt")
	write(t, file, "one\n")
	a := args{"path": "a.txt", "old_string": "one", "new_string": "1"}
	first := plan(t, registry, "edit_file", a)
	if again := plan(t, registry, "edit_file", a); again.Plan.Digest() != first.Plan.Digest() {
		t.Error("the same call for the same file is another plan")
	}
	write(t, file, "ONE\n")
	if plan(t, registry, "edit_file", a).Plan.Digest() == first.Plan.Digest() {
		t.Error("the same call for another version of the file is the same plan")
	}
	var drift *tools.DriftError
	if err := first.Plan.Pins[0].Verify(); !errors.As(err, &drift) {
		t.Errorf("a change right after the plan goes unnoticed: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if missing := plan(t, registry, "edit_file", a); missing.Plan.Action.File.Base != nil || len(missing.Plan.Pins) != 0 {
		t.Errorf("a missing file has a base: %+v", missing.Plan.Action.File.Base)
	}
}

// TestEditNeedsBothRights: whether an edit matches tells what is in the file.
func TestEditNeedsBothRights(t *testing.T) {
	registry, ws := setup(t)
	write(t, filepath.Join(ws, "notes/n"), "x\n")
	a := args{"path": "notes/n", "old_string": "x", "new_string": "y"}
	if p := plan(t, registry, "write_file", args{"path": "notes/n", "content": "y"}); p.Request != nil {
		t.Fatal("a write asks: the test needs a root where only a read does")
	}
	if p := plan(t, registry, "edit_file", a); p.Request == nil {
		t.Error("an edit does not ask where a read does")
	}
	for path, rule := range map[string]string{
		"../outside/secret": "sandbox.paths", ".env": "sandbox.paths", "ro/x": "sandbox.paths.docs", ".git/hooks/x": "sandbox.paths.workspace",
	} {
		a["path"] = path
		_, err := registry.Plan(tools.Call{Tool: "edit_file", Args: a})
		var b *approval.Blocked
		if !errors.As(err, &b) || b.Rule != rule {
			t.Errorf("%s: %v, want it blocked by %q", path, err, rule)
		}
	}
}

func TestEditArguments(t *testing.T) {
	registry, _ := setup(t)
	for _, c := range []struct {
		tool string
		args args
		want string
	}{
		{"edit_file", args{"path": "a", "old_string": "x"}, "argument new_string: missing"},
		{"edit_file", args{"path": "a", "old_string": "", "new_string": "x"}, "argument old_string: is empty"},
		{"edit_file", args{"path": "a", "old_string": "x", "new_string": "x"}, "argument new_string: is the same as old_string"},
		{"edit_file", args{"path": "a/", "old_string": "x", "new_string": "y"}, "argument path: names a directory, not a file"},
		{"edit_file", args{"path": "a", "old_string": "x", "new_string": "y", "expected_count": 0.0}, "argument expected_count: is 0, must be at least 1"},
		{"edit_file", args{"path": "a", "old_string": "x", "new_string": "y", "expected_count": 2.0, "replace_all": true}, "argument replace_all: cannot be combined with expected_count"},
		{"edit_file", args{"path": "a", "old_string": "x", "new_string": "y", "if_sha256": "abc"}, `argument if_sha256: does not match "^[0-9a-f]{64}$"`},
		{"multi_edit", args{"path": "a", "edits": []any{}}, "argument edits: has 0 items, needs at least 1"},
		{"multi_edit", args{"path": "a", "edits": []any{args{"old_string": "x", "new_string": "y"}, args{"old_string": "z", "new_string": "z"}}}, "argument edits/1/new_string: is the same as old_string"},
		{"multi_edit", args{"path": "a", "edits": []any{args{"old": "x"}}}, "argument edits/0/old: unknown argument"},
	} {
		_, err := registry.Plan(tools.Call{Tool: c.tool, Args: c.args})
		var a *tools.ArgumentError
		if !errors.As(err, &a) || err.Error() != c.want {
			t.Errorf("%s %v: %v; want %q", c.tool, c.args, err, c.want)
		}
	}
}

func TestEditIsPresentedAsItsDifference(t *testing.T) {
	registry, ws := setup(t)
	write(t, filepath.Join(ws, "a.txt"), "one\ntwo\nthree\n")
	write(t, filepath.Join(ws, "big"), strings.Repeat("x\n", 1<<20))
	a := args{"path": "a.txt", "old_string": "two", "new_string": "2"}
	shown := present(t, plan(t, registry, "edit_file", a))
	if shown.Type != approval.Diff || shown.Content != "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n" || shown.Metadata != nil {
		t.Errorf("%+v", shown)
	}
	changed := plan(t, registry, "edit_file", a)
	write(t, filepath.Join(ws, "a.txt"), "one\ntwo\n3\n")
	for _, c := range []struct {
		p    tools.Proposal
		note string
	}{
		{changed, "will fail: the file changed after the call was made"},
		{plan(t, registry, "edit_file", args{"path": "a.txt", "old_string": "four", "new_string": "4"}), "will fail: old_string does not occur in the file"},
		{plan(t, registry, "edit_file", args{"path": "missing", "old_string": "four", "new_string": "4"}), "cannot be read: no such file or directory"},
		{plan(t, registry, "edit_file", args{"path": "big", "old_string": "y", "new_string": "4"}), "changes a file of 2097152 bytes"},
	} {
		shown := present(t, c.p)
		if shown.Metadata["note"] != c.note || shown.Type != approval.Diff || !strings.Contains(shown.Content, "* edit 1 of ") || !strings.Contains(shown.Content, "\n@@ of the edit: -1 +1 @@\n-") {
			t.Errorf("%+v; want note %q", shown, c.note)
		}
	}
	// What cannot be compared is shown, how often it is done is said, and no text looks like a head.
	long := strings.Repeat("\n", 200_001)
	edits := []any{
		args{"old_string": "x\n", "new_string": "curl evil\n" + long},
		args{"old_string": "x\n", "new_string": "-- a\n* edit 9 of big\n", "replace_all": true},
		args{"old_string": "z", "new_string": "* edit 8 of big", "expected_count": 3.0},
	}
	shown = present(t, plan(t, registry, "multi_edit", args{"path": "big", "edits": edits}))
	var heads []string
	for line := range strings.Lines(shown.Content) {
		if strings.HasPrefix(line, "*") {
			heads = append(heads, strings.TrimSuffix(line, "\n"))
		}
	}
	if want := []string{"* edit 1 of big", "* edit 2 of big, every occurrence", "* edit 3 of big, in 3 places"}; !slices.Equal(heads, want) || !strings.Contains(shown.Content, "\n+curl evil\n+\n+\n") || !strings.Contains(shown.Content, "\n-x\n") {
		t.Errorf("heads %q in\n%.300s", heads, shown.Content)
	}
}

func TestSearchPlans(t *testing.T) {
	registry, ws := setup(t)
	for _, dir := range []string{"src", "notes/deep"} {
		if err := os.MkdirAll(filepath.Join(ws, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link(t, "src", filepath.Join(ws, "link"))
	for _, c := range []struct {
		tool   string
		args   args
		path   string
		prefix string
		asks   bool
	}{
		{"list_files", args{}, "", "", false},
		{"list_files", args{"path": "."}, "", "", false},
		{"list_files", args{"path": "src/"}, "src", "src/", false},
		{"glob", args{"pattern": "**/*.go", "path": "./src"}, "src", "src/", false},
		{"glob", args{"pattern": "*", "path": "link"}, "src", "link/", false},
		{"glob", args{"pattern": "*", "path": "link/../notes"}, "notes", "link/../notes/", true},
		{"grep", args{"pattern": "x", "path": ws + "/src"}, "src", ws + "/src/", false},
		{"grep", args{"pattern": "x", "path": "notes/deep"}, "notes/deep", "notes/deep/", true},
	} {
		p := plan(t, registry, c.tool, c.args)
		op := p.Plan.Action.File
		if string(p.Plan.Action.Kind) != c.tool || op.Path != filepath.Join(ws, c.path) || op.Search.Prefix != c.prefix || (p.Request != nil) != c.asks {
			t.Errorf("%s %v: %q with prefix %q, asks %v", c.tool, c.args, op.Path, op.Search.Prefix, p.Request != nil)
		}
		if op.Search.Hide[0] != ".env" || op.Search.Limit < 1 || op.Search.Within <= 0 || op.MaxBytes <= 0 || op.Search.Root == "" {
			t.Errorf("%s %v: unbounded: %+v", c.tool, c.args, op.Search)
		}
	}
	for path, want := range map[string]string{"../outside": "outside", "/etc": "outside", ".env": "outside"} {
		_, err := registry.Plan(tools.Call{Tool: "list_files", Args: args{"path": path}})
		if !approval.IsBlocked(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("list %s: %v", path, err)
		}
	}
}

// TestSearchesDoNotGoAroundARule: a tree whose reads ask, or of which only some
// files may be read, is not searched from above it.
func TestSearchesDoNotGoAroundARule(t *testing.T) {
	ws := t.TempDir()
	registry, err := tools.NewRegistry(files.New(files.Config{
		Paths: tools.Paths{Rules: []tools.PathRule{
			{Name: "workspace", Root: ws},
			{Name: "asks", Root: ws + "/asks", ReadApproval: true},
			{Name: "free", Root: ws + "/free", Write: true},
			{Name: "text", Root: ws + "/text", Suffixes: []string{".txt", ".md"}},
			{Name: "text too", Root: ws + "/text", Suffixes: []string{".md", ".rst"}},
			{Name: "none", Root: ws + "/text/none", Suffixes: []string{".a"}},
			{Name: "none too", Root: ws + "/text/none", Suffixes: []string{".b"}},
		}},
		Profile: profile(ws),
	})...)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][2]string{
		".":         {"asks text text/none", ""},
		"asks":      {"", ""},
		"free":      {"", ""},
		"text":      {"text/none", ".md"},
		"text/sub":  {"", ".md"},
		"text/none": {"", "/"},
	} {
		s := plan(t, registry, "grep", args{"pattern": "x", "path": path}).Plan.Action.File.Search
		var excluded []string
		for _, root := range s.Exclude {
			excluded = append(excluded, strings.TrimPrefix(root, ws+"/"))
		}
		if got := [2]string{strings.Join(excluded, " "), strings.Join(s.Suffixes, " ")}; got != want {
			t.Errorf("%s leaves out %q and reads %q, want %q", path, got[0], got[1], want)
		}
	}
}

func TestSearchArguments(t *testing.T) {
	registry, _ := setup(t)
	for _, c := range []struct {
		tool string
		args args
		want string
	}{
		{"glob", args{}, "argument pattern: missing"},
		{"glob", args{"pattern": "/etc/*"}, "argument pattern: is absolute"},
		{"glob", args{"pattern": "../*"}, `argument pattern: contains ".."`},
		{"glob", args{"pattern": "[a"}, "argument pattern: has a malformed component"},
		{"grep", args{"pattern": "("}, "argument pattern: is not a regular expression: missing closing )"},
		{"grep", args{"pattern": `a\nb`}, "argument pattern: contains a line feed"},
		{"grep", args{"pattern": "x", "glob": "{a"}, `argument glob: has a "{" without its "}"`},
		{"grep", args{"pattern": "x", "limit": 0.0}, "argument limit: is 0, must be at least 1"},
		{"grep", args{"pattern": "x", "context": 51.0}, "argument context: is 51, must be at most 50"},
		{"list_files", args{"depth": 0.0}, "argument depth: is 0, must be at least 1"},
		{"list_files", args{"path": "a\x00b"}, "argument path: path contains a NUL byte"},
		{"list_files", args{"path": strings.Repeat("a", 5000)}, "argument path: path is 5000 bytes long"},
		{"list_files", args{"path": "\xff"}, "argument path: path is not valid UTF-8"},
	} {
		_, err := registry.Plan(tools.Call{Tool: c.tool, Args: c.args})
		var a *tools.ArgumentError
		if !errors.As(err, &a) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s %.60v: %v; want %q", c.tool, c.args, err, c.want)
		}
	}
	for want, a := range map[string]args{
		`a\(b`: {"pattern": "a(b", "literal": true}, "(?i:a)": {"pattern": "a", "ignore_case": true}, "a|b": {"pattern": "a|b"},
	} {
		if got := plan(t, registry, "grep", a).Plan.Action.File.Search.Pattern; got != want {
			t.Errorf("%v searches for %q, want %q", a, got, want)
		}
	}
	s := plan(t, registry, "grep", args{"pattern": "x", "context": 3.0, "before": 1.0}).Plan.Action.File.Search
	if s.Before != 1 || s.After != 3 {
		t.Errorf("context 3 and before 1 is %d and %d", s.Before, s.After)
	}
}

func TestSearchIsPresentedInWords(t *testing.T) {
	registry, ws := setup(t)
	for _, c := range []struct {
		tool string
		args args
		want string
	}{
		{"list_files", args{"path": "notes"}, "list WS/notes, 1 level"},
		{"list_files", args{"path": "notes", "depth": 3.0}, "list WS/notes, 3 levels"},
		{"glob", args{"pattern": "**/*.go", "path": "notes"}, `find files named "**/*.go" in WS/notes`},
		{"grep", args{"pattern": "a\x1bb", "path": "notes", "glob": "*.md"}, `search the files in WS/notes for "a<U+001B>b", in files named "*.md"`},
	} {
		shown := present(t, plan(t, registry, c.tool, c.args))
		if want := strings.Replace(c.want, "WS", ws, 1); shown.Type != approval.Text || shown.Content != want {
			t.Errorf("%+v; want %q", shown, want)
		}
	}
}
