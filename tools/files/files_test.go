package files_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/files"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// setup gives the file tools over a workspace on disk, and the workspace's path.
func setup(t testing.TB) (*tools.Registry, string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws := filepath.Join(base, "ws")
	for _, dir := range []string{"ws/notes", "ws/ro", "outside"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(base, "outside/secret"), "secret\n")
	registry, err := tools.NewRegistry(files.New(files.Config{
		Paths: tools.Paths{
			Rules: []tools.PathRule{
				{Name: "workspace", Root: ws, Write: true, WriteApproval: true},
				{Name: "notes", Root: filepath.Join(ws, "notes"), Write: true, ReadApproval: true},
				{Name: "docs", Root: filepath.Join(ws, "ro")},
			},
			Hide:    []string{".env"},
			Protect: []string{".git/hooks"},
		},
		Profile: profile(ws),
	})...)
	if err != nil {
		t.Fatal(err)
	}
	return registry, ws
}

func profile(ws string) sandboxprofile.Profile {
	return sandboxprofile.Profile{
		Paths:  map[string]sandboxprofile.Rights{ws: sandboxprofile.Read | sandboxprofile.Write},
		Limits: sandboxprofile.Limits{Output: 1 << 20, FileSize: 4 << 20},
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

type args = map[string]any

func plan(t testing.TB, r *tools.Registry, tool string, a args) tools.Proposal {
	t.Helper()
	p, err := r.Plan(tools.Call{Tool: tool, Args: a})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, a, err)
	}
	return p
}

func TestReadFilePlans(t *testing.T) {
	registry, ws := setup(t)
	link(t, "ws", filepath.Join(filepath.Dir(ws), "alias"))
	for _, c := range []struct {
		args args
		want sandboxprofile.Operation
		rule string
		asks bool
	}{
		{args{"path": "a.txt"}, sandboxprofile.Operation{Path: "a.txt", MaxBytes: 256 << 10}, "sandbox.paths.workspace", false},
		{args{"path": "../alias/a.txt"}, sandboxprofile.Operation{Path: "a.txt", MaxBytes: 256 << 10}, "sandbox.paths.workspace", false},
		{args{"path": "ro/x", "offset": 3.0, "limit": 10.0}, sandboxprofile.Operation{Path: "ro/x", MaxBytes: 256 << 10, FirstLine: 3, Lines: 10}, "sandbox.paths.docs", false},
		{args{"path": "a", "encoding": "utf-16"}, sandboxprofile.Operation{Path: "a", MaxBytes: 256 << 10, Encoding: "utf-16"}, "sandbox.paths.workspace", false},
		{args{"path": "a", "encoding": "utf-8"}, sandboxprofile.Operation{Path: "a", MaxBytes: 256 << 10}, "sandbox.paths.workspace", false},
		{args{"path": "a", "max_bytes": 5.0}, sandboxprofile.Operation{Path: "a", MaxBytes: 5}, "sandbox.paths.workspace", false},
		{args{"path": "a", "max_bytes": float64(8 << 20)}, sandboxprofile.Operation{Path: "a", MaxBytes: 1 << 20}, "sandbox.paths.workspace", false}, // the output limit
		{args{"path": "notes/n"}, sandboxprofile.Operation{Path: "notes/n", MaxBytes: 256 << 10}, "sandbox.paths.notes", true},
	} {
		p := plan(t, registry, "read_file", c.args)
		c.want.Path = filepath.Join(ws, c.want.Path)
		want := tools.Plan{Tool: "read_file", Kind: tools.Sandboxed, Action: sandboxprofile.Action{Kind: sandboxprofile.ReadFile, File: &c.want}, Profile: profile(ws)}
		if !reflect.DeepEqual(p.Plan, want) || p.Rule != c.rule || (p.Request != nil) != c.asks {
			t.Errorf("%v: %+v of %+v by %q, asks: %v", c.args, p.Plan.Action.Kind, p.Plan.Action.File, p.Rule, p.Request != nil)
		}
	}
}

func TestWriteFilePlans(t *testing.T) {
	registry, ws := setup(t)
	for _, c := range []struct {
		args args
		want sandboxprofile.Operation
		rule string
		asks bool
	}{
		{args{"path": "a.txt", "content": "x"}, sandboxprofile.Operation{Path: "a.txt", Content: []byte("x")}, "sandbox.paths.workspace", true},
		{args{"path": "a.txt", "content": ""}, sandboxprofile.Operation{Path: "a.txt", Content: []byte{}}, "sandbox.paths.workspace", true},
		{args{"path": "n/e/w", "content": "x", "make_parents": true}, sandboxprofile.Operation{Path: "n/e/w", Content: []byte("x"), MakeParents: true}, "sandbox.paths.workspace", true},
		{args{"path": "notes/n", "content": "x"}, sandboxprofile.Operation{Path: "notes/n", Content: []byte("x")}, "sandbox.paths.notes", false},
		{args{"path": "b", "content": "AP8=", "encoding": "base64"}, sandboxprofile.Operation{Path: "b", Content: []byte{0, 255}}, "sandbox.paths.workspace", true},
		{args{"path": "b", "content": "AP8=", "encoding": "utf-8"}, sandboxprofile.Operation{Path: "b", Content: []byte("AP8=")}, "sandbox.paths.workspace", true},
	} {
		p := plan(t, registry, "write_file", c.args)
		c.want.Path = filepath.Join(ws, c.want.Path)
		want := tools.Plan{Tool: "write_file", Kind: tools.Sandboxed, Action: sandboxprofile.Action{Kind: sandboxprofile.WriteFile, File: &c.want}, Profile: profile(ws)}
		if c.asks { // the answer is about what is replaced: nothing
			want.Pins = []tools.Pin{{Path: c.want.Path, Absent: true}}
		}
		if !reflect.DeepEqual(p.Plan, want) || p.Rule != c.rule || (p.Request != nil) != c.asks {
			t.Errorf("%v: %+v by %q, asks: %v", c.args, p.Plan.Action.File, p.Rule, p.Request != nil)
		}
	}
}

func TestRefusals(t *testing.T) {
	registry, ws := setup(t)
	link(t, "../outside/secret", filepath.Join(ws, "out"))
	link(t, "../outside", filepath.Join(ws, "outdir"))
	for _, c := range []struct{ tool, path, rule, says string }{
		{"read_file", "../outside/secret", "sandbox.paths", "outside"},
		{"read_file", "/etc/passwd", "sandbox.paths", "outside"},
		{"read_file", "out", "sandbox.paths", "outside"},
		{"read_file", ".env", "sandbox.paths", "outside"},
		{"write_file", "out", "sandbox.paths", "outside"},
		{"write_file", "outdir/new", "sandbox.paths", "outside"},
		{"write_file", ".env", "sandbox.paths", "outside"},
		{"write_file", "ro/x", "sandbox.paths.docs", "read-only"},
		{"write_file", ".git/hooks/pre-commit", "sandbox.paths.workspace", "write-protected"},
	} {
		a := args{"path": c.path}
		if c.tool == "write_file" {
			a["content"] = "x"
		}
		_, err := registry.Plan(tools.Call{Tool: c.tool, Args: a})
		var b *approval.Blocked
		if !errors.As(err, &b) || b.Rule != c.rule || !strings.Contains(b.Reason, c.says) || b.Hint == "" {
			t.Errorf("%s %q: %v (%+v); want it blocked by %q", c.tool, c.path, err, b, c.rule)
		}
	}
}

func TestBadArguments(t *testing.T) {
	registry, _ := setup(t)
	for _, c := range []struct {
		tool string
		args args
		want string
	}{
		{"read_file", args{}, "argument path: missing"},
		{"read_file", args{"path": ""}, "argument path: is empty"},
		{"read_file", args{"path": "a\x00"}, "argument path: path contains a NUL byte"},
		{"read_file", args{"path": "a", "offset": 0.0}, "argument offset: is 0, must be at least 1"},
		{"read_file", args{"path": "a", "max_bytes": 1e12}, "argument max_bytes: is 1000000000000, must be at most 8388608"},
		{"read_file", args{"path": "a", "lines": 1.0}, "argument lines: unknown argument"},
		{"write_file", args{"path": "a"}, "argument content: missing"},
		{"write_file", args{"path": "a/", "content": ""}, "argument path: names a directory, not a file"},
		{"write_file", args{"path": "a", "content": 1.0}, "argument content: expected string, got integer"},
		{"write_file", args{"path": "a", "content": "!", "encoding": "base64"}, "argument content: is not base64: illegal base64 data at input byte 0"},
		{"write_file", args{"path": "a", "content": strings.Repeat("x", 4<<20+1)}, "argument content: is 4194305 bytes, more than sandbox.limits.file_size, 4194304 bytes"},
	} {
		_, err := registry.Plan(tools.Call{Tool: c.tool, Args: c.args})
		var a *tools.ArgumentError
		if !errors.As(err, &a) || err.Error() != c.want {
			t.Errorf("%s %.60v: %v; want %q", c.tool, c.args, err, c.want)
		}
	}
}

func TestTheRequestIsAboutTheFileAndNotItsContent(t *testing.T) {
	registry, ws := setup(t)
	link(t, "a.txt", filepath.Join(ws, "link"))
	var requests []*approval.Request
	for _, a := range []args{
		{"path": "a.txt", "content": "one"},
		{"path": "./notes/../a.txt", "content": "two", "make_parents": true},
		{"path": filepath.Join(ws, "a.txt"), "content": "three"},
		{"path": "link", "content": "four"},
	} {
		requests = append(requests, plan(t, registry, "write_file", a).Request)
	}
	want := &approval.Request{
		ToolName:    "write_file",
		Description: "Write to workspace:a.txt",
		Payload:     map[string]any{"sandbox": "workspace", "path": filepath.Join(ws, "a.txt")},
		Covers:      "this file, with any content",
	}
	for i, got := range requests {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("request %d is %+v, want %+v", i, got, want)
		}
	}
	if got := plan(t, registry, "read_file", args{"path": "notes/\x1b[2Jn"}).Request.Description; got != `Read from notes:"<U+001B>[2Jn"` {
		t.Errorf("a name with a control sequence is described as %q", got)
	}
}

// TestAnAnswerIsAboutOneWorkspace: what is remembered of a file in one workspace is not
// about the file of the same name in another one, whose root has the same name.
func TestAnAnswerIsAboutOneWorkspace(t *testing.T) {
	here, ws := setup(t)
	there, other := setup(t)
	if ws == other {
		t.Fatal("one workspace")
	}
	for _, x := range []struct {
		tool string
		args args
	}{
		{"write_file", args{"path": "a.txt", "content": "one"}},
		{"edit_file", args{"path": "a.txt", "old_string": "x", "new_string": "y"}},
		{"read_file", args{"path": "notes/a.txt"}},
		{"list_files", args{"path": "notes"}},
		{"glob", args{"path": "notes", "pattern": "*"}},
		{"grep", args{"path": "notes", "pattern": "x"}},
	} {
		one, two, again := plan(t, here, x.tool, x.args).Request, plan(t, there, x.tool, x.args).Request, plan(t, here, x.tool, x.args).Request
		if one == nil || two == nil {
			t.Fatalf("%s %v is not asked about", x.tool, x.args)
		}
		if reflect.DeepEqual(one.Payload, two.Payload) || !reflect.DeepEqual(one.Payload, again.Payload) {
			t.Errorf("%s: %v in one workspace, %v in the other", x.tool, one.Payload, two.Payload)
		}
	}
}

func TestTheDigestCoversTheContent(t *testing.T) {
	registry, _ := setup(t)
	one := plan(t, registry, "write_file", args{"path": "a", "content": "one"}).Plan.Digest()
	two := plan(t, registry, "write_file", args{"path": "a", "content": "two"}).Plan.Digest()
	if one == two || one != plan(t, registry, "write_file", args{"path": "./a", "content": "one"}).Plan.Digest() {
		t.Error("the digest is not that of what would be done")
	}
}

func present(t testing.TB, p tools.Proposal) *approval.Presentation {
	t.Helper()
	shown, err := p.Present(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

func TestWriteIsPresentedAsWhatItChanges(t *testing.T) {
	registry, ws := setup(t)
	write(t, filepath.Join(ws, "old.txt"), "one\ntwo\nthree\n")
	write(t, filepath.Join(ws, "binary"), "\x89PNG\r\n\x1a\n\x00\x00")
	write(t, filepath.Join(ws, "big"), strings.Repeat("x\n", 1<<20))
	write(t, filepath.Join(ws, "a\n+++ b"), "one\n")
	if err := syscall.Mkfifo(filepath.Join(ws, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args args
		want approval.Presentation
	}{
		{"a changed file", args{"path": "old.txt", "content": "one\n2\nthree\n"}, approval.Presentation{
			Type: approval.Diff, Language: "diff",
			Content: "--- a/old.txt\n+++ b/old.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
		}},
		{"a lost line feed", args{"path": "old.txt", "content": "one\ntwo\nthree"}, approval.Presentation{
			Type: approval.Diff, Language: "diff",
			Content: "--- a/old.txt\n+++ b/old.txt\n@@ -1,3 +1,3 @@\n one\n two\n-three\n+three\n\\ No newline at end of file\n",
		}},
		{"the same content", args{"path": "old.txt", "content": "one\ntwo\nthree\n"}, approval.Presentation{
			Type: approval.Text, Content: "old.txt: the content stays the same",
		}},
		{"a new file", args{"path": "new.py", "content": "print()\n"}, approval.Presentation{
			Type: approval.FileContent, Content: "print()\n", Language: "python",
		}},
		{"a new file in a new directory", args{"path": "n/e/w", "content": "x"}, approval.Presentation{
			Type: approval.FileContent, Content: "x",
		}},
		{"over a binary file", args{"path": "binary", "content": "text\n"}, approval.Presentation{
			Type: approval.FileContent, Content: "text\n", Metadata: map[string]any{"replaces": "Binary file: image/png (10 bytes)"},
		}},
		{"binary over text", args{"path": "old.txt", "content": "AAE=", "encoding": "base64"}, approval.Presentation{
			Type: approval.FileContent, Content: "\x00\x01", Metadata: map[string]any{"replaces": "a file of 14 bytes"},
		}},
		{"over a file too big to compare", args{"path": "big", "content": "small\n"}, approval.Presentation{
			Type: approval.FileContent, Content: "small\n", Metadata: map[string]any{"replaces": "a file of 2097152 bytes"},
		}},
		{"over a directory", args{"path": "notes/../ro/..", "content": "x"}, approval.Presentation{
			Type: approval.FileContent, Content: "x", Metadata: map[string]any{"replaces": "cannot be read: not a regular file"},
		}},
		{"over a FIFO nobody writes to", args{"path": "fifo", "content": "x"}, approval.Presentation{
			Type: approval.FileContent, Content: "x", Metadata: map[string]any{"replaces": "cannot be read: not a regular file"},
		}},
		{"a name that looks like a diff", args{"path": "a\n+++ b", "content": "two\n"}, approval.Presentation{
			Type: approval.Diff, Language: "diff",
			Content: "--- a/\"a<U+000A>+++ b\"\n+++ b/\"a<U+000A>+++ b\"\n@@ -1 +1 @@\n-one\n+two\n",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := present(t, plan(t, registry, "write_file", c.args)); !reflect.DeepEqual(*got, c.want) {
				t.Errorf("got  %+v\nwant %+v", *got, c.want)
			}
		})
	}
}

// Between the plan and the prompt a tool may put a link in the file's place, or
// in that of a directory above it. What it leads to is not shown.
func TestPresentingFollowsNoLink(t *testing.T) {
	registry, ws := setup(t)
	if err := os.MkdirAll(filepath.Join(ws, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := plan(t, registry, "write_file", args{"path": "file", "content": "x"})
	below := plan(t, registry, "write_file", args{"path": "dir/secret", "content": "x"})
	link(t, "../outside/secret", filepath.Join(ws, "file"))
	if err := os.Remove(filepath.Join(ws, "dir")); err != nil {
		t.Fatal(err)
	}
	link(t, "../outside", filepath.Join(ws, "dir"))
	for _, p := range []tools.Proposal{file, below} {
		shown := present(t, p)
		replaces, _ := shown.Metadata["replaces"].(string)
		if shown.Type != approval.FileContent || !strings.Contains(replaces, syscall.ELOOP.Error()) {
			t.Errorf("%+v; want the new content and %q", shown, syscall.ELOOP)
		}
	}
}

func TestReadIsPresentedInWords(t *testing.T) {
	registry, ws := setup(t)
	for _, c := range []struct {
		args args
		want string
	}{
		{args{"path": "notes/n"}, "read WS/notes/n, at most 262144 bytes"},
		{args{"path": "notes/n", "offset": 5.0}, "read WS/notes/n, from line 5, at most 262144 bytes"},
		{args{"path": "notes/n", "limit": 5.0}, "read WS/notes/n, lines 1 to 5, at most 262144 bytes"},
		{args{"path": "notes/n", "offset": 5.0, "limit": 2.0, "max_bytes": 9.0}, "read WS/notes/n, lines 5 to 6, at most 9 bytes"},
	} {
		got := present(t, plan(t, registry, "read_file", c.args))
		if want := strings.Replace(c.want, "WS", ws, 1); got.Type != approval.Text || got.Content != want {
			t.Errorf("%v: %+v; want %q", c.args, got, want)
		}
	}
}

func TestPresentingStopsWithItsContext(t *testing.T) {
	registry, _ := setup(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p := plan(t, registry, "write_file", args{"path": "a", "content": "x"})
	if shown, err := p.Present(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Present = %+v, %v; want %v", shown, err, context.Canceled)
	}
}

func TestZeroConfigRefusesEveryPath(t *testing.T) {
	for _, tool := range files.New(files.Config{}) {
		_, err := tool.Plan(tools.Call{Args: args{"path": "/etc/passwd", "content": ""}})
		if !approval.IsBlocked(err) {
			t.Errorf("%s: %v; want it blocked", tool.Definition().Name, err)
		}
	}
}

// The definitions are what a model is shown; a change of them is read in review.
func TestDefinitions(t *testing.T) {
	registry, _ := setup(t)
	var got bytes.Buffer
	encoder := json.NewEncoder(&got)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(registry.Definitions()); err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/definitions.json"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the definitions differ from %s; -update rewrites it:\n%s", golden, got.Bytes())
	}
}

func BenchmarkPlanRead(b *testing.B) {
	registry, _ := setup(b)
	call := tools.Call{Tool: "read_file", Args: args{"path": "notes/a/b.txt"}}
	for b.Loop() {
		if _, err := registry.Plan(call); err != nil {
			b.Fatal(err)
		}
	}
}
