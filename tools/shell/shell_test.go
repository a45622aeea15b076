package shell

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// A fixture is a real tree: bin/ is trusted and on PATH, ws/ is the workspace,
// docs/ a read-only root, and outside/ nothing of the sandbox's.
type fixture struct {
	base   string
	config Config
}

func newFixture(t testing.TB, rules ...Rule) fixture {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{base: base}
	for _, dir := range []string{"bin", "ws/sub", "docs", "outside", "home"} {
		f.must(t, os.MkdirAll(f.path(dir), 0o755))
	}
	for _, file := range []string{"bin/bash", "bin/ls", "ws/ls", "ws/run.sh", "outside/ls"} {
		f.must(t, os.WriteFile(f.path(file), []byte("#!/bin/sh\n"), 0o755))
	}
	for _, file := range []string{"ws/a.txt", "ws/.env", "docs/d.txt", "outside/secret"} {
		f.must(t, os.WriteFile(f.path(file), []byte("x\n"), 0o644))
	}
	f.must(t, os.Symlink(f.path("outside/secret"), f.path("ws/link")))
	f.must(t, os.Symlink("ls", f.path("bin/dir")))
	const all = sandboxprofile.Read | sandboxprofile.Write | sandboxprofile.Execute
	f.config = Config{
		Default: Default{Allowed: true, Approval: true},
		Rules:   rules,
		Paths: tools.Paths{
			Rules: []tools.PathRule{
				{Name: "workspace", Root: f.path("ws"), Write: true},
				{Name: "docs", Root: f.path("docs")},
			},
			Hide: []string{".env"}, Protect: []string{".git/hooks"}, Home: f.path("home"),
		},
		Profile: sandboxprofile.Profile{
			Paths: map[string]sandboxprofile.Rights{
				f.path("bin"): sandboxprofile.Read | sandboxprofile.Execute, f.path("ws"): all, f.path("docs"): sandboxprofile.Read,
			},
			Scratch: []string{"/tmp/scratch-of-the-sandbox"},
			Limits:  sandboxprofile.Limits{Wall: time.Minute},
		},
		Env: []string{"LANG=C", "PATH=" + f.path("bin")},
	}
	return f
}

func (f fixture) path(name string) string { return filepath.Join(f.base, name) }

func (f fixture) must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (f fixture) tool(t testing.TB) tools.Tool {
	t.Helper()
	tool, err := New(f.config)
	f.must(t, err)
	return tool
}

func call(args map[string]any) tools.Call { return tools.Call{Tool: "shell", Args: args} }

func (f fixture) effect(t testing.TB, command string) tools.Effect {
	t.Helper()
	p, err := f.tool(t).Plan(call(map[string]any{"command": command}))
	switch {
	case approval.IsBlocked(err):
		return tools.Deny
	case err != nil:
		t.Fatalf("%q: %v", command, err)
	case p.Request != nil:
		return tools.Ask
	}
	return tools.Allow
}

func allowing(pattern string) Rule { no := false; return Rule{Pattern: pattern, Approval: &no} }
func denying(pattern string) Rule {
	no := false
	return Rule{Pattern: pattern, Allowed: &no, Reason: "use the trash tool"}
}
func readOnly(pattern string) Rule { r := allowing(pattern); r.ReadOnly = true; return r }

func TestPlan(t *testing.T) {
	f := newFixture(t, allowing("ls"))
	p, err := f.tool(t).Plan(call(map[string]any{"command": "ls -l", "dir": "sub", "timeout_ms": json.Number("1500")}))
	f.must(t, err)
	exec := p.Plan.Action.Exec
	if exec.Path != f.path("bin/bash") || exec.Dir != f.path("ws/sub") {
		t.Errorf("runs %q in %q", exec.Path, exec.Dir)
	}
	if got := strings.Join(exec.Argv, "|"); got != "bash|--norc|--noprofile|-c|--|ls -l" {
		t.Errorf("argv %q", got)
	}
	if len(p.Plan.Pins) != 1 || p.Plan.Pins[0].Path != f.path("bin/bash") {
		t.Errorf("pins %+v", p.Plan.Pins)
	}
	if p.Plan.Profile.Limits.Wall != 1500*time.Millisecond || f.config.Profile.Limits.Wall != time.Minute {
		t.Errorf("limit %v, of the configuration %v", p.Plan.Profile.Limits.Wall, f.config.Profile.Limits.Wall)
	}
	if p.Request != nil || p.Rule != `shell.rules[0] "ls"` {
		t.Errorf("request %+v by %s", p.Request, p.Rule)
	}
	long, err := f.tool(t).Plan(call(map[string]any{"command": "ls", "timeout_ms": json.Number("3600000")}))
	f.must(t, err)
	if long.Plan.Profile.Limits.Wall != time.Minute {
		t.Errorf("a call has lengthened its limit to %v", long.Plan.Profile.Limits.Wall)
	}
}

func TestRequest(t *testing.T) {
	yes := true
	f := newFixture(t, Rule{Pattern: "git commit", Approval: &yes, Description: "Create a commit"})
	p, err := f.tool(t).Plan(call(map[string]any{"command": "git commit -m x"}))
	f.must(t, err)
	for _, other := range []map[string]any{{"command": "git commit -m x", "dir": "sub"}, {"command": "git commit -m x", "timeout_ms": json.Number("5")}} {
		q, err := f.tool(t).Plan(call(other))
		f.must(t, err)
		if approval.Equal(p.Request.Payload, q.Request.Payload) {
			t.Errorf("%v is the same to whoever remembers an answer", other)
		}
	}
	again, err := f.tool(t).Plan(call(map[string]any{"command": "git commit -m x", "dir": f.path("ws")}))
	f.must(t, err)
	if !approval.Equal(p.Request.Payload, again.Request.Payload) {
		t.Errorf("the same call is another: %v, %v", p.Request.Payload, again.Request.Payload)
	}
	if p.Request.Description != "Create a commit: git commit -m x" || p.Request.Payload["command"] != "git commit -m x" || p.Request.Payload["rule"] != "git commit" {
		t.Errorf("request %+v", p.Request)
	}
	shown, err := p.Present(context.Background())
	f.must(t, err)
	if shown.Type != approval.Command || shown.Content != "git commit -m x" || shown.Metadata["dir"] != f.path("ws") {
		t.Errorf("shown %+v", shown)
	}
	for _, line := range []string{"git commit -m x; touch evil", "git commit -m x > out", "V=1 git commit -m x", "git commit -m $(date)", "timeout 9 git commit -m x && touch evil"} {
		q, err := f.tool(t).Plan(call(map[string]any{"command": line}))
		f.must(t, err)
		if q.Request == nil || q.Request.Description != "Execute: "+line {
			t.Errorf("%q is described as %+v: the rule's words are about one command of it", line, q.Request)
		}
	}
	p, err = f.tool(t).Plan(call(map[string]any{"command": "make\x1b[8m"}))
	f.must(t, err)
	if p.Request == nil || strings.ContainsRune(p.Request.Description, 0x1b) {
		t.Errorf("description %+v", p.Request)
	}
}

func TestBlocked(t *testing.T) {
	f := newFixture(t, denying("rm"), allowing("ls"))
	_, err := f.tool(t).Plan(call(map[string]any{"command": "ls; rm x"}))
	var blocked *approval.Blocked
	if !errors.As(err, &blocked) || blocked.Reason != "use the trash tool" || blocked.Rule != `shell.rules[0] "rm"` || !strings.Contains(blocked.Hint, "ls") {
		t.Errorf("error %#v", err)
	}
	if got := f.effect(t, "ls; ls x"); got != tools.Allow {
		t.Errorf("without rm: %v", got)
	}
}

func TestArguments(t *testing.T) {
	f := newFixture(t, allowing("ls"))
	for _, c := range []struct {
		args  map[string]any
		field string
	}{
		{map[string]any{"command": " \n"}, "command"},
		{map[string]any{"command": "ls\x00x"}, "command"},
		{map[string]any{"command": "ls " + strings.Repeat("x", maxArgument)}, "command"},
		{map[string]any{"command": "ls", "dir": "x\x00"}, "dir"},
	} {
		_, err := f.tool(t).Plan(call(c.args))
		var bad *tools.ArgumentError
		if !errors.As(err, &bad) || bad.Field != c.field {
			t.Errorf("%.20q: error %v, want one of %q", c.args, err, c.field)
		}
	}
	for _, dir := range []string{"..", "/", f.path("outside"), "~"} {
		if _, err := f.tool(t).Plan(call(map[string]any{"command": "ls", "dir": dir})); !approval.IsBlocked(err) {
			t.Errorf("dir %q: %v, want blocked", dir, err)
		}
	}
}

// TestPathsOnDisk holds what a command line names against the real tree.
func TestPathsOnDisk(t *testing.T) {
	f := newFixture(t, allowing("ls"), allowing("echo"), readOnly("cat"), readOnly("git"))
	for command, want := range map[string]tools.Effect{
		"cat a.txt":                              tools.Allow,
		"cat ./sub/../a.txt":                     tools.Allow,
		"cat " + f.path("docs/d.txt"):            tools.Allow,
		"cat .env":                               tools.Ask,
		"cat link":                               tools.Ask,
		"cat ../outside/secret":                  tools.Ask,
		"cat " + f.path("outside/secret"):        tools.Ask,
		"cd sub && cat ../a.txt":                 tools.Allow,
		"cd sub && cat ../../outside/secret":     tools.Ask,
		"cd /etc":                                tools.Ask,
		"echo x > new.txt":                       tools.Allow,
		"echo x > sub/new.txt":                   tools.Allow,
		"cd sub; echo x > new.txt":               tools.Allow,
		"echo x > " + f.path("docs/new.txt"):     tools.Deny,
		"echo x > link":                          tools.Deny,
		"echo x > ../outside/new":                tools.Deny,
		"echo x > .git/hooks/pre-commit":         tools.Deny,
		"cd .git; echo x > hooks/pre-commit":     tools.Deny,
		"echo x > .env":                          tools.Deny,
		"echo x > /tmp/scratch-of-the-sandbox/x": tools.Allow, // it goes with the sandbox
		"ls < .env":                              tools.Ask,
		"ls < a.txt":                             tools.Allow,
		"git status":                             tools.Allow,
		"cd sub && git status":                   tools.Ask,
	} {
		if got := f.effect(t, command); got != want {
			t.Errorf("%q: %v, want %v", command, got, want)
		}
	}
	p, err := f.tool(t).Plan(call(map[string]any{"command": "git status", "dir": "sub"}))
	f.must(t, err)
	if p.Request == nil {
		t.Error("git status in another directory is not asked about")
	}
}

// TestProgramIdentity: a rule for a name is for the trusted program of that name.
func TestProgramIdentity(t *testing.T) {
	f := newFixture(t, allowing("ls"), allowing("./run.sh"))
	for command, want := range map[string]tools.Effect{
		"ls":                    tools.Allow,
		f.path("bin/ls"):        tools.Allow,
		f.path("bin/../bin/ls"): tools.Allow,
		"./ls":                  tools.Ask,
		f.path("ws/ls"):         tools.Ask,
		f.path("outside/ls"):    tools.Ask,
		"dir":                   tools.Ask,
		"./run.sh":              tools.Allow,
		"sub/../run.sh":         tools.Allow,
		"cd sub; ./run.sh":      tools.Ask,
	} {
		if got := f.effect(t, command); got != want {
			t.Errorf("%q: %v, want %v", command, got, want)
		}
	}
	f.config.Env = []string{"PATH=" + f.path("ws") + ":" + f.path("bin")}
	if got := f.effect(t, "ls"); got != tools.Ask {
		t.Errorf("ls found in the workspace first: %v, want ask", got)
	}
}

func TestSandboxPaths(t *testing.T) {
	r := allowing("cp")
	r.SandboxPaths = []string{"workspace"}
	f := newFixture(t, r)
	for command, want := range map[string]tools.Effect{
		"cp":                                tools.Allow,
		"cp a.txt --target-directory=sub/x": tools.Allow,
		"cp " + f.path("ws/a.txt"):          tools.Allow,
		"cp " + f.path("docs/d.txt"):        tools.Ask,
		"cp --target-directory=" + f.path("docs/d.txt"): tools.Ask,
		"cp ../docs/d.txt":                tools.Ask,
		"cp link":                         tools.Ask,
		"cp $x":                           tools.Ask,
		"cd " + f.path("docs") + " && cp": tools.Ask,
	} {
		if got := f.effect(t, command); got != want {
			t.Errorf("%q: %v, want %v", command, got, want)
		}
	}
}

// TestSandboxPathsAreThoseThatAreNamed: a rule for some directory holds wherever the call
// starts, as long as the command names no path outside of it.
func TestSandboxPathsAreThoseThatAreNamed(t *testing.T) {
	r := allowing("cp")
	r.SandboxPaths = []string{"docs"}
	f := newFixture(t, r)
	docs := f.path("docs")
	for command, want := range map[string]tools.Effect{
		"cp":                                     tools.Allow,
		"cp -v --force":                          tools.Allow,
		"cp " + docs + "/d.txt":                  tools.Allow,
		"cp --target-directory=" + docs + "/x -": tools.Ask, // "-" is a word like any other
		"cp -v " + docs:                          tools.Allow,
		"cp a.txt":                               tools.Ask,
		"cp -o a.txt":                            tools.Ask,
		"cp -oa.txt":                             tools.Ask,
		"cp -o" + docs + "/x":                    tools.Ask,
		"cp --out " + f.path("ws/a.txt"):         tools.Ask,
		"cp --target-directory=" + f.path("ws/a.txt"): tools.Ask,
		"cp ~/x":                          tools.Ask,
		"cp $x":                           tools.Ask,
		"cp *.txt":                        tools.Ask,
		"cd " + docs + " && cp d.txt":     tools.Allow,
		"cd " + docs + " && cp -td.txt":   tools.Allow,
		"cd sub && cp":                    tools.Ask,
		"cd $x; cp":                       tools.Ask,
		"cd " + docs + "; cd -; cp d.txt": tools.Ask,
	} {
		if got := f.effect(t, command); got != want {
			t.Errorf("%q: %v, want %v", command, got, want)
		}
	}
	d := f.tool(t).(*Tool).Policy().Decide("cp a.txt", "bash")
	if !strings.Contains(d.Reason, `a.txt is not in [docs], the paths of the rule "cp"`) {
		t.Errorf("the reason is %q", d.Reason)
	}
}

func TestNoShell(t *testing.T) {
	f := newFixture(t, allowing("ls"))
	f.must(t, os.Remove(f.path("bin/bash")))
	if _, err := f.tool(t).Plan(call(map[string]any{"command": "ls"})); !errors.Is(err, tools.ErrNotFound) {
		t.Errorf("error %v, want tools.ErrNotFound", err)
	}
}

// TestSchema compiles the schema as the registry does, and tries it.
func TestSchema(t *testing.T) {
	f := newFixture(t, allowing("ls"))
	registry, err := tools.NewRegistry(f.tool(t))
	f.must(t, err)
	if _, err := registry.Plan(call(map[string]any{"command": "ls"})); err != nil {
		t.Error(err)
	}
	for _, args := range []map[string]any{{}, {"command": 5}, {"command": ""}, {"command": "ls", "timeout_ms": 0}, {"command": "ls", "cwd": "x"}} {
		var bad *tools.ArgumentError
		if _, err := registry.Plan(call(args)); !errors.As(err, &bad) {
			t.Errorf("%v: %v, want an *ArgumentError", args, err)
		}
	}
}
