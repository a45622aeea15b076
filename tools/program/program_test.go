package program_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/program"
)

type args = map[string]any

// fixture is the tool over a real tree: bin/ can be run, ws/ is the workspace,
// hidden/ is on PATH and outside the profile.
type fixture struct {
	t        testing.TB
	base     string
	registry *tools.Registry
	profile  sandboxprofile.Profile
	env      []string
}

func setup(t testing.TB) fixture {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{t: t, base: base}
	f.file("bin/tool", 0o755, "\x7fELF")
	f.file("bin/python3", 0o755, "\x7fELF")
	f.file("bin/plain", 0o644, "")
	f.file("hidden/secret", 0o755, "\x7fELF")
	f.file("ws/build.sh", 0o755, "#!/bin/sh\n")
	f.file("ws/x.py", 0o644, "print()\n")
	f.file("ws/sub/y", 0o644, "")
	const rx = sandboxprofile.Read | sandboxprofile.Execute
	f.profile = sandboxprofile.Profile{
		Paths:   map[string]sandboxprofile.Rights{f.path("bin"): rx, f.path("ws"): rx | sandboxprofile.Write},
		Scratch: []string{f.path("scratch")},
	}
	f.env = tools.BuildEnv([]string{"PATH"}, nil, []string{"PATH=" + f.path("hidden") + ":" + f.path("bin")}, "")
	f.registry, err = tools.NewRegistry(program.New(program.Config{
		Paths:   tools.Paths{Rules: []tools.PathRule{{Name: "workspace", Root: f.path("ws"), Write: true}}},
		Profile: f.profile,
		Env:     f.env,
		Starts: func(argv []string, dir string) []tools.Started {
			return []tools.Started{{Name: argv[len(argv)-1], Dir: dir, Optional: true}}
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f fixture) path(rel string) string { return filepath.Join(f.base, rel) }

func (f fixture) file(rel string, mode os.FileMode, content string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(f.path(rel)), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(f.path(rel), []byte(content), mode); err != nil {
		f.t.Fatal(err)
	}
}

func (f fixture) plan(a args) (tools.Proposal, error) {
	return f.registry.Plan(tools.Call{Tool: "run", Args: a})
}

func argv(words ...string) []any {
	list := make([]any, len(words))
	for i, w := range words {
		list[i] = w
	}
	return list
}

func TestRunPlansOneExec(t *testing.T) {
	f := setup(t)
	for _, c := range []struct {
		args      args
		path, dir string
		pins      []string
	}{
		{args{"argv": argv("tool", "a", "b c")}, "bin/tool", "ws", []string{"bin/tool", "ws/a", "ws/b", "ws/c"}},
		{args{"argv": argv("tool"), "dir": "sub"}, "bin/tool", "ws/sub", []string{"bin/tool"}},
		{args{"argv": argv("tool"), "dir": f.path("bin")}, "bin/tool", "bin", []string{"bin/tool"}},
		{args{"argv": argv("tool"), "dir": f.path("scratch/x")}, "bin/tool", "scratch/x", []string{"bin/tool"}},
		{args{"argv": argv("../build.sh"), "dir": "sub"}, "ws/build.sh", "ws/sub", []string{"SH", "ws/build.sh"}},
		{args{"argv": argv("python3", "x.py")}, "bin/python3", "ws", []string{"bin/python3", "ws/x.py"}},
		{args{"argv": argv("python3", "../x.py"), "dir": "sub"}, "bin/python3", "ws/sub", []string{"bin/python3", "ws/x.py"}},
	} {
		p, err := f.plan(c.args)
		if err != nil {
			t.Errorf("%v: %v", c.args, err)
			continue
		}
		var words []string
		for _, w := range c.args["argv"].([]any) {
			words = append(words, w.(string))
		}
		want := sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
			Path: f.path(c.path), Argv: words, Dir: f.path(c.dir), Env: f.env,
		}}
		if !reflect.DeepEqual(p.Plan.Action, want) || !reflect.DeepEqual(p.Plan.Profile, f.profile) || p.Plan.Tool != "run" {
			t.Errorf("%v plans %+v", c.args, p.Plan.Action.Exec)
		}
		if got := f.pins(p); !reflect.DeepEqual(got, c.pins) {
			t.Errorf("%v pins %q, want %q", c.args, got, c.pins)
		}
	}
}

// pins names the pinned files from the fixture's base; the host's sh is "SH".
func (f fixture) pins(p tools.Proposal) []string {
	var names []string
	for _, pin := range p.Plan.Pins {
		rel, err := filepath.Rel(f.base, pin.Path)
		if err != nil || !filepath.IsLocal(rel) {
			rel = "SH"
		}
		names = append(names, rel)
	}
	return names
}

func TestRunAlwaysAsks(t *testing.T) {
	f := setup(t)
	p, err := f.plan(args{"argv": argv("tool", "it's", "\x1b[2J", strings.Repeat("x", 200))})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"argv": []string{"tool", "it's", "\x1b[2J", strings.Repeat("x", 200)}, "dir": f.path("ws")}
	if p.Request == nil || p.Request.ToolName != "run" || !reflect.DeepEqual(p.Request.Payload, want) {
		t.Fatalf("request %+v", p.Request)
	}
	if d := p.Request.Description; !strings.HasPrefix(d, `Run tool 'it'\''s' '<U+001B>[2J' xxx`) || !strings.Contains(d, " more characters> xxx") {
		t.Errorf("description %q", d)
	}
	shown, err := p.Present(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	wantShown := &approval.Presentation{
		Type:     approval.Command,
		Content:  `tool 'it'\''s' '` + "\x1b[2J' " + strings.Repeat("x", 200),
		Language: "bash",
		Metadata: map[string]any{"dir": f.path("ws"), "executable": f.path("bin/tool")},
	}
	if !reflect.DeepEqual(shown, wantShown) {
		t.Errorf("shown as %+v", shown)
	}
}

// TestRunSaysWhatItTouches, for patterns, where somebody can tell.
func TestRunSaysWhatItTouches(t *testing.T) {
	f := setup(t)
	call := tools.Call{Args: args{"argv": argv("tool", "a"), "dir": "sub"}}
	c := program.Config{Paths: tools.Paths{Rules: []tools.PathRule{{Name: "workspace", Root: f.path("ws"), Write: true}}}, Profile: f.profile, Env: f.env}
	if p, err := program.New(c).Plan(call); err != nil || p.Reach.Elements != nil || p.Reach.Left != nil {
		t.Errorf("%+v, %v", p.Reach, err)
	}
	c.Reach = func(argv []string, dir string) approval.Reach {
		return approval.Reach{Elements: []approval.Element{{Kind: approval.ArgvPrefix, Words: append(argv, dir)}}}
	}
	p, err := program.New(c).Plan(call)
	want := []approval.Element{{Kind: approval.ArgvPrefix, Words: []string{"tool", "a", f.path("ws/sub")}}}
	if err != nil || !reflect.DeepEqual(p.Reach.Elements, want) {
		t.Errorf("%+v, %v", p.Reach.Elements, err)
	}
}

func TestRunQuotesSoThatAShellReadsTheSameWords(t *testing.T) {
	f := setup(t)
	f.file("bin/A=b", 0o755, "")
	for _, c := range []struct {
		argv []any
		want string
	}{
		{argv("tool", "--a=b", "x/y.z"), "tool --a=b x/y.z"},
		{argv("A=b"), "'A=b'"},
		{argv("tool", "", "a b", "$HOME", "*", "~", "#x", "a\nb"), "  tool '' 'a b' '$HOME' '*' '~' '#x' 'a\n  b'\n"}, // of two lines, behind a margin
	} {
		p, err := f.plan(args{"argv": c.argv})
		if err != nil {
			t.Fatal(err)
		}
		if shown, err := p.Present(context.Background()); err != nil || shown.Content != c.want {
			t.Errorf("%q is shown as %+v, %v; want %q", c.argv, shown, err, c.want)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	f := setup(t)
	for _, c := range []struct {
		name string
		args args
		want error
	}{
		{"no such program", args{"argv": argv("nothing")}, tools.ErrNotFound},
		{"a program outside the profile", args{"argv": argv("secret")}, tools.ErrNotFound},
		{"the same by its path", args{"argv": argv(f.path("hidden/secret"))}, tools.ErrNotFound},
		{"a file that is no program", args{"argv": argv("plain")}, tools.ErrNotExecutable},
		{"a directory", args{"argv": argv("./sub")}, tools.ErrNotExecutable},
	} {
		if p, err := f.plan(c.args); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v; want %v", c.name, p.Plan.Action.Exec, err, c.want)
		}
	}
	for _, c := range []struct {
		args args
		want string
	}{
		{args{}, "argument argv: missing"},
		{args{"argv": "tool"}, "argument argv: expected array, got string"},
		{args{"argv": argv()}, "argument argv: has 0 items, needs at least 1"},
		{args{"argv": argv("")}, "argument argv: names no program"},
		{args{"argv": argv("tool", "a\x00b")}, "argument argv/1: contains a NUL byte"},
		{args{"argv": argv("tool"), "dir": "a\x00b"}, "argument dir: path contains a NUL byte"},
		{args{"argv": argv("tool"), "cwd": "x"}, "argument cwd: unknown argument"},
	} {
		var a *tools.ArgumentError
		if _, err := f.plan(c.args); !errors.As(err, &a) || err.Error() != c.want {
			t.Errorf("%v: %v; want %q", c.args, err, c.want)
		}
	}
	for _, dir := range []string{"..", "/", "/root", f.path("hidden"), f.path("missing")} {
		_, err := f.plan(args{"argv": argv("tool"), "dir": dir})
		var b *approval.Blocked
		if !errors.As(err, &b) || !strings.Contains(b.Reason, "outside the sandbox") || b.Hint == "" {
			t.Errorf("dir %q: %v; want it blocked", dir, err)
		}
	}
}

// What was approved is bound to the files it stands on: another script behind
// the same name is another plan, and the old plan's pins no longer hold.
func TestAnotherScriptIsDrift(t *testing.T) {
	f := setup(t)
	call := args{"argv": argv("python3", "x.py")}
	before, err := f.plan(call)
	if err != nil {
		t.Fatal(err)
	}
	for _, pin := range before.Plan.Pins {
		if err := pin.Verify(); err != nil {
			t.Errorf("unchanged: %v", err)
		}
	}
	f.file("ws/x.py", 0o644, "import os; os.system('evil')\n")
	after, err := f.plan(call)
	if err != nil {
		t.Fatal(err)
	}
	if before.Plan.Digest() == after.Plan.Digest() {
		t.Error("another script has the same digest")
	}
	var drift *tools.DriftError
	if err := before.Plan.Pins[1].Verify(); !errors.As(err, &drift) || drift.Path != f.path("ws/x.py") {
		t.Errorf("the pin of the script: %v; want drift", err)
	}
}

func TestZeroConfigRunsNothing(t *testing.T) {
	_, err := program.New(program.Config{Paths: tools.Paths{Cwd: "/"}}).Plan(tools.Call{Args: args{"argv": argv("sh")}})
	if !errors.Is(err, tools.ErrNotFound) {
		t.Errorf("%v; want that no program is found", err)
	}
	_, err = program.New(program.Config{Paths: tools.Paths{Cwd: "/"}}).Plan(tools.Call{Args: args{"argv": argv("sh"), "dir": "/usr"}})
	if !approval.IsBlocked(err) {
		t.Errorf("in a directory: %v; want it blocked", err)
	}
}
