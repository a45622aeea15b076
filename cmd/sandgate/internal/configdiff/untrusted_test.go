package configdiff

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/ruleservice"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/must"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/tools"
)

// decided is what becomes of a call, and why.
func (s mergeSite) decided(c *config.Config, tool, args string) protocol.RulesTested {
	s.t.Helper()
	d, err := ruleservice.NewLocal(c)
	if err != nil {
		s.t.Fatal(err)
	}
	defer d.Close()
	got, err := d.TestRules(context.Background(), protocol.RulesTest{Tool: protocol.ToolName(tool), Args: []byte(strings.ReplaceAll(args, "%W", s.env.Cwd))})
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// put writes a program below the workspace and its neighbour.
func (s mergeSite) put(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.env.Cwd, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

// with is a user's file with a repository's own, which nobody trusts.
func (s mergeSite) with(user, repository tierText) *config.Config {
	s.t.Helper()
	layers := make([]config.Layer, 0, 2)
	for _, x := range []struct {
		tier    config.Tier
		trusted bool
		text    tierText
	}{{config.TierUser, true, user}, {config.TierWorkspace, false, repository}} {
		if x.text == nil {
			continue
		}
		l, ok := s.layer(x.tier, x.trusted, x.text)
		if !ok {
			s.t.Fatalf("the %s's file does not load", x.tier)
		}
		layers = append(layers, l)
	}
	c, ok := s.merged(layers...)
	if !ok {
		s.t.Fatal("the files do not fit together")
	}
	return c
}

// TestUntrustedFileMovesNothing: a repository's configuration that takes directories away
// moves programs, and the relative names of the user's rules and tools stay those of the
// directory that they were written for.
func TestUntrustedFileMovesNothing(t *testing.T) {
	s := newMergeSite(t)
	s.put("../other/scripts/gen.py", "print('the user')\n")
	s.put("scripts/gen.py", "print('the repository')\n")
	user := tierText{
		"policy":          "careful",
		"sandbox.paths":   "{tools: {root: %W/../other, mode: rw}, repo: {root: %W, mode: rw}}",
		"sandbox.workdir": "%W/../other",
		"shell.rules":     `[{pattern: python3 scripts/gen.py, approval: false}]`,
		"tools":           "{deploy: {command: [make, deploy], approval: {required: false}}}",
	}
	const call = `{"command": "python3 scripts/gen.py"}`
	dirs := func(c *config.Config) string {
		d, err := assemble.Derive(c, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		tool, err := assemble.CustomTool(c, d, nil, &c.Tools[0])
		if err != nil {
			t.Fatal(err)
		}
		return tool.Dir
	}
	other, err := filepath.EvalSymlinks(filepath.Join(s.env.Cwd, "../other"))
	if err != nil {
		t.Fatal(err)
	}
	alone := s.with(user, nil)
	if got := s.decided(alone, "shell", call); got.Decision != protocol.CheckAllow || dirs(alone) != other {
		t.Fatalf("without the repository's file: %s (%s), and the tool starts in %s", got.Decision, got.Reason, dirs(alone))
	}
	for name, x := range map[string]tierText{
		"takes the directory away": {"sandbox.paths": "{repo: {root: %W, mode: rw}}"},
		"makes it read-only":       {"sandbox.paths": "{tools: {root: %W/../other, mode: ro}, repo: {root: %W, mode: rw}}"},
		"leaves a part":            {"sandbox.paths": "{part: {root: %W/sub, mode: rw}}"},
	} {
		without := tierText{}
		for key, value := range user {
			if key != "sandbox.workdir" {
				without[key] = value
			}
		}
		for _, u := range []tierText{user, without} {
			c := s.with(u, x)
			got := s.decided(c, "shell", call)
			start := c.StartDir()
			if got.Decision == protocol.CheckAllow && start != other {
				t.Errorf("%s: the user's rule allows it in %s (%s)", name, start, got.Reason)
			}
			if dir := dirs(c); dir != other && dir != "/tmp" {
				t.Errorf("%s: the user's tool starts in %s", name, dir)
			}
		}
	}
	// The twin: a file that somebody vouched for moves them.
	l, _ := s.layer(config.TierUser, true, user)
	w, _ := s.layer(config.TierWorkspace, true, tierText{"sandbox.paths": "{repo: {root: %W, mode: rw}}", "sandbox.workdir": "%W"})
	c, ok := s.merged(l, w)
	if !ok {
		t.Fatal("the files do not fit together")
	}
	if got := s.decided(c, "shell", call); got.Decision != protocol.CheckAllow || dirs(c) != s.env.Cwd {
		t.Errorf("trusted: %s (%s), and the tool starts in %s", got.Decision, got.Reason, dirs(c))
	}
}

// TestUntrustedFileHidesNoText: what only the repository's configuration keeps from being
// written is shown and held like what may be written.
func TestUntrustedFileHidesNoText(t *testing.T) {
	s := newMergeSite(t)
	s.put("scripts/gen.py", "print('one')\n")
	user := tierText{"policy": "careful", "sandbox.paths": "{repo: {root: %W, mode: rw}}"}
	held := func(c *config.Config) []string {
		r, _, err := assemble.Tools(c, nil, assemble.Options{})
		if err != nil {
			t.Fatal(err)
		}
		args := map[string]any{"command": "python3 scripts/gen.py"}
		p, err := r.Plan(tools.Call{Tool: "shell", Args: args})
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		if p.Request != nil {
			files, _ := p.Request.Payload["files"].(map[string]any)
			for name := range files {
				list = append(list, strings.TrimPrefix(name, s.env.Cwd+"/"))
			}
		}
		return list
	}
	want := []string{"scripts/gen.py"}
	if got := held(s.with(user, nil)); !slices.Equal(got, want) {
		t.Fatalf("without the repository's file: %v", got)
	}
	for _, x := range []tierText{
		{"sandbox.paths": "{repo: {root: %W, mode: rw}, scripts: {root: %W/scripts, mode: ro}}"},
		{"sandbox.paths": "{repo: {root: %W, mode: ro}}"},
	} {
		if got := held(s.with(user, x)); !slices.Equal(got, want) {
			t.Errorf("%v: held are %v", x, got)
		}
	}
}

// TestUntrustedFileSaysNothingToApprovers: the reason of an asking rule stands in the
// question. That of one that denies goes to the agent.
func TestUntrustedFileSaysNothingToApprovers(t *testing.T) {
	s := newMergeSite(t)
	user := tierText{"policy": "careful", "sandbox.paths": "{repo: {root: %W, mode: rw}}"}
	c := s.with(user, tierText{"shell.rules": `[{pattern: make, reason: Checked already}, {pattern: rm, allowed: false, reason: Use trash}]`})
	if got := s.decided(c, "shell", `{"command": "make"}`); got.Decision != protocol.CheckAsk || strings.Contains(got.Reason, "Checked already") {
		t.Errorf("make: %s %q", got.Decision, got.Reason)
	}
	if got := s.decided(c, "shell", `{"command": "rm x"}`); got.Decision != protocol.CheckDeny || !strings.Contains(got.Reason, "Use trash") {
		t.Errorf("rm: %s %q", got.Decision, got.Reason)
	}
	unused, err := json.Marshal(c.Unused)
	if err != nil || !strings.Contains(string(unused), "shell.rules[0].reason") {
		t.Errorf("it is not said that the reason has no effect: %s", unused)
	}
}

// TestUntrustedFileAddsNoPrograms: a directory of the repository on PATH does not become one
// of trusted programs by being made read-only.
func TestUntrustedFileAddsNoPrograms(t *testing.T) {
	s := newMergeSite(t)
	s.put("bin/go", "#!/bin/sh\necho the repository\n")
	bin := filepath.Join(s.env.Cwd, "bin")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	user := tierText{"policy": "careful", "sandbox.paths": "{repo: {root: %W, mode: rw}}", "sandbox.env": "{allow: [PATH]}", "shell.rules": `[{pattern: go test, approval: false}]`}
	path := func(c *config.Config) string {
		d, err := assemble.Derive(c, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		value, _ := tools.LookupEnv(assemble.ProgramEnv(c, d), "PATH")
		return value
	}
	for _, x := range []tierText{nil, {"sandbox.paths": "{repo: {root: %W, mode: rw}, b: {root: %W/bin, mode: ro}}"}, {"sandbox.paths": "{repo: {root: %W, mode: ro}}"}} {
		c := s.with(user, x)
		if got := path(c); slices.Contains(strings.Split(got, ":"), bin) {
			t.Errorf("%v: PATH is %s", x, got)
		}
	}
	// The twin: what the user has made read-only is the user's to name.
	user["sandbox.paths"] = "{repo: {root: %W, mode: rw}, b: {root: %W/bin, mode: ro}}"
	c := s.with(user, nil)
	if got := path(c); !slices.Contains(strings.Split(got, ":"), bin) {
		t.Errorf("read-only by the user: PATH is %s", got)
	}
}

// TestUntrustedFileTakesNoName: a piece of a directory is not called what the user calls
// another one, which is what an approver reads.
func TestUntrustedFileTakesNoName(t *testing.T) {
	s := newMergeSite(t)
	user := tierText{"sandbox.paths": "{repo: {root: %W, mode: rw}, notes: {root: %W/../other, mode: rw}}"}
	c := s.with(user, tierText{"sandbox.paths": "{repo: {root: %W, mode: ro}, notes: {root: %W/sub, mode: rw}}"})
	for _, p := range c.Sandbox.Paths {
		if p.Name == "notes" {
			t.Errorf("notes is %s", p.Root)
		}
	}
	if len(c.Sandbox.Paths) != 2 {
		t.Errorf("paths: %+v", c.Sandbox.Paths)
	}
}

// TestUntrustedFileBringsNoCache: what reaches beyond the workspace sees no cache, and a
// repository's own configuration that takes that reach away brings none.
func TestUntrustedFileBringsNoCache(t *testing.T) {
	s := newMergeSite(t)
	for mine, want := range map[string]bool{"host": false, "none": true} {
		c := s.with(tierText{"shell.network": mine}, tierText{"shell.network": "none"})
		own, _, err := assemble.ProfileFor(*c, "shell", "")
		if _, got := own.Paths[assemble.CacheOf(c)]; got != want || err != nil {
			t.Errorf("the network is %s without the repository's file: a cache %t, want %t (%v)", mine, got, want, err)
		}
	}
}

// TestToolsAreUnderTheFilesAbove: what the administrator denies, sets and asks about holds
// for the tools of a user, and what the user denies for those of a workspace that somebody
// has vouched for.
func TestToolsAreUnderTheFilesAbove(t *testing.T) {
	s := newMergeSite(t)
	above := tierText{
		"sandbox.paths": "{ws: {root: %W, mode: rw}, sec: {root: %W/sub, mode: rw, read_approval: true, write_approval: true}}",
		"sandbox.env":   "{allow: [PATH], set: {GUARD: above}}",
		"shell.rules":   "[{pattern: rm, allowed: false}]",
	}
	below := tierText{"tools": "{clean: {command: [rm, -v, x], approval: {required: false}, sandbox: {paths: {ws: rw}, env: {set: {GUARD: below}}}}}"}
	paths := tierText{"sandbox.paths": "{ws: {root: %W, mode: rw}}", "tools": below["tools"]}
	ownDeny := tierText{"sandbox.paths": paths["sandbox.paths"], "tools": below["tools"], "shell.rules": above["shell.rules"]}
	for _, x := range []struct {
		name             string
		tier, other      config.Tier
		first, second    tierText
		denied, withheld bool
		guard            string
	}{
		{"an administrator above a user", config.TierAdmin, config.TierUser, above, paths, true, true, "above"},
		{"a user above a workspace", config.TierUser, config.TierWorkspace, above, paths, true, true, "below"},
		{"a user's own rule", config.TierAdmin, config.TierUser, tierText{"sandbox.paths": paths["sandbox.paths"]}, ownDeny, false, false, "below"},
	} {
		l, ok := s.layer(x.tier, true, x.first)
		l2, ok2 := s.layer(x.other, true, x.second)
		if !ok || !ok2 {
			t.Fatalf("%s: a file does not load by itself", x.name)
		}
		c, ok := s.merged(l, l2)
		if !ok {
			t.Fatalf("%s: the files do not fit together", x.name)
		}
		r, d, err := assemble.Tools(c, nil, assemble.Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Plan(tools.Call{Tool: "clean", Args: map[string]any{}})
		if denied := err != nil && strings.Contains(err.Error(), "not allowed"); denied != x.denied || !denied && err != nil {
			t.Errorf("%s: rm: %v", x.name, err)
		}
		tool, err := assemble.CustomTool(c, d, nil, &c.Tools[slices.IndexFunc(c.Tools, func(t config.Tool) bool { return t.Name == "clean" })])
		if err != nil {
			t.Fatal(err)
		}
		if guard, _ := tools.LookupEnv(tool.Environ, "GUARD"); guard != x.guard {
			t.Errorf("%s: GUARD is %q, want %q", x.name, guard, x.guard)
		}
		if withheld := len(tool.Withheld) > 0; withheld != x.withheld {
			t.Errorf("%s: withheld are %v", x.name, tool.Withheld)
		}
		if kept := len(tool.Unchanged) > 0; kept != x.withheld {
			t.Errorf("%s: unchanged are %v", x.name, tool.Unchanged)
		}
	}
}

// narrowing are what persons have configured, what files of repositories list that nobody trusts, and commands
// in directories: what decides them differs with the file.
type narrowing struct {
	site         mergeSite
	persons      map[string]tierText
	repositories []string
	dirs, lines  []string
}

func narrowings(t *testing.T) (w narrowing) {
	t.Helper()
	s := newMergeSite(t)
	w.site = s
	s.put("Makefile", "all:\n")
	s.put("../other/Makefile", "all:\n")
	s.put("sub/key", "secret\n")
	const rules = "[{pattern: make, approval: false}, {pattern: npm test, approval: false}, {pattern: cp, approval: false}, {pattern: cat, approval: false, exact: true}]"
	all := func(workspace, other, sub string) string {
		return "{workspace: {root: %W, " + workspace + "}, other: {root: %W/../other, " + other + "}, sub: {root: %W/sub, " + sub + "}}"
	}
	w.persons = map[string]tierText{
		"a directory beside one that asks": {"sandbox.paths": all("mode: rw", "mode: rw, write_approval: false", "mode: rw"), "shell.rules": rules},
		"a directory that asks in a free one": {"sandbox.paths": all("mode: rw, write_approval: false", "mode: rw", "mode: ro, read_approval: true"),
			"shell.default": "{allowed: true, approval: false}", "shell.network": "host"},
		"rules in a free one": {"sandbox.paths": all("mode: rw, write_approval: false", "mode: ro", "mode: rw, write_approval: true"), "shell.rules": rules},
	}
	w.repositories = []string{
		"{other: {root: %W/../other, mode: rw, write_approval: false}}", "{other: {root: %W/../other, mode: ro}}", "{workspace: {root: %W, mode: ro}}",
		"{sub: {root: %W/sub, mode: rw, write_approval: false}}", "{deep: {root: %W/sub/deep, mode: rw}}", "{src: {root: %W/src, mode: rw, write_approval: false}}",
		"{workspace: {root: %W, mode: rw}, other: {root: %W/../other, mode: rw, write_approval: false}}",
	}
	for _, dir := range []string{"src", "sub/deep"} {
		s.put(dir+"/f", "")
	}
	w.dirs = []string{"", "%W", "%W/../other", "%W/sub"}
	w.lines = []string{
		"make", "cd ../other && make", "cd %W/../other && npm test", "make -C ../other", "cat ../sub/key", "cat sub/key", "cat %W/sub/key", "sort %W/sub/key",
		"python3 -c 'open(\"../sub/key\")'", "cp %W/src/f %W/sub/key", "echo x > %W/../other/y", "ls", "npm test", "go vet ./...; make",
	}
	return w
}

// TestWhySaysWhatDecides: where a command is decided about with an untrusted file and without it, what
// explains the decision speaks of the rules of the stricter one, and what it offers is enough for both.
func TestWhySaysWhatDecides(t *testing.T) {
	w := narrowings(t)
	without, offered := 0, 0
	for name, person := range w.persons {
		for _, paths := range w.repositories {
			service, err := ruleservice.NewLocal(w.site.with(person, tierText{"sandbox.paths": paths}))
			if err != nil {
				t.Fatal(err)
			}
			test := func(dir, line string) protocol.RulesTested {
				args := map[string]any{"command": strings.ReplaceAll(line, "%W", w.site.env.Cwd)}
				if dir != "" {
					args["dir"] = strings.ReplaceAll(dir, "%W", w.site.env.Cwd)
				}
				got, err := service.TestRules(context.Background(), protocol.RulesTest{Tool: "shell", Args: must.JSON(args)})
				if err != nil && !strings.Contains(err.Error(), "argument dir") {
					t.Fatal(err)
				}
				return got
			}
			for _, dir := range w.dirs {
				for _, line := range w.lines {
					got := test(dir, line)
					if got.Decision != protocol.CheckAsk || strings.Contains(got.Reason, "beyond the workspace") || strings.HasSuffix(got.Reason, "is outside the paths that tools may write") {
						continue
					}
					asks := func(c protocol.ConsideredRule) bool {
						return c.Outcome == string(tools.Decides) && c.Effect == protocol.CheckAsk && c.Why != ""
					}
					if at := slices.IndexFunc(got.Considered, asks); at < 0 && !strings.Contains(got.Reason, " asks before a ") {
						t.Errorf("%s, and a repository's %s: %q in %q is asked about, %q, and no rule of %+v asks", name, paths, line, dir, got.Reason, got.Considered)
					} else if at >= 0 && got.Reason != got.Considered[at].Why {
						t.Errorf("%s, and a repository's %s: %q in %q is asked about since %q, and since %q", name, paths, line, dir, got.Reason, got.Considered[at].Why)
					} else if at >= 0 && strings.HasPrefix(got.Reason, "without the untrusted file") {
						without++
					}
					if got.Change == nil || len(got.Change.Add) == 0 {
						continue
					}
					offered++
					for _, r := range got.Change.Add {
						if _, err := service.AddRule(context.Background(), r); err != nil {
							t.Fatal(err)
						}
					}
					if now := test(dir, line); now.Decision != protocol.CheckAllow {
						t.Errorf("%s, and a repository's %s: %q in %q: %s, and then %s: %s", name, paths, line, dir, got.Change.How, now.Decision, now.Reason)
					}
					all, err := service.Rules(context.Background())
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range all.Rules {
						if r.Tier == string(config.TierUser) {
							if _, err := service.RemoveRule(context.Background(), r.ID, nil); err != nil {
								t.Fatal(err)
							}
						}
					}
				}
			}
			service.Close()
		}
	}
	if without == 0 || offered == 0 {
		t.Errorf("%d were decided without the file, and rules offered for %d", without, offered)
	}
}

// TestUntrustedPathsNeverLoosen: whichever directories an untrusted file leaves out, no command
// runs unasked that does not without the file: in the sandbox, and where an agent runs it itself.
func TestUntrustedPathsNeverLoosen(t *testing.T) {
	w := narrowings(t)
	s, persons, repositories, dirs, lines := w.site, w.persons, w.repositories, w.dirs, w.lines
	plans := func(c *config.Config) func(dir, line string, elsewhere bool) (unasked bool) {
		registry, _, err := assemble.Tools(c, nil, assemble.Options{Uncached: true})
		if err != nil {
			t.Fatal(err)
		}
		return func(dir, line string, elsewhere bool) bool {
			args := map[string]any{"command": strings.ReplaceAll(line, "%W", s.env.Cwd)}
			if dir != "" {
				args["dir"] = strings.ReplaceAll(dir, "%W", s.env.Cwd)
			}
			p, err := registry.Plan(tools.Call{Tool: "shell", Args: args, Elsewhere: elsewhere})
			return err == nil && p.Request == nil && (!elsewhere || p.Unheld == nil)
		}
	}
	for name, person := range persons {
		base := s.with(person, nil)
		without, ran := plans(base), 0
		for _, paths := range repositories {
			c := s.with(person, tierText{"sandbox.paths": paths})
			with := plans(c)
			for _, dir := range dirs {
				for _, line := range lines {
					for _, elsewhere := range []bool{false, true} {
						was, is := without(cmp.Or(dir, c.StartDir()), line, elsewhere), with(dir, line, elsewhere)
						if is && !was {
							t.Errorf("%s, and a repository's %s: %q in %q, elsewhere %t, is asked about, and then not", name, paths, line, dir, elsewhere)
						}
						if is {
							ran++
						}
					}
				}
			}
		}
		if ran == 0 { // the twin: not all is asked about
			t.Errorf("%s: nothing runs", name)
		}
	}
}

// TestAToolLendsNothing: a tool that nobody is asked about, and that has what no command has unasked,
// starts nothing that calls may change: the host or the directory would be theirs.
func TestAToolLendsNothing(t *testing.T) {
	s := newMergeSite(t)
	s.put("status.sh", "#!/bin/sh\n")
	s.put("../fixed/status.sh", "#!/bin/sh\n")
	s.put("sub/f", "")
	const changed, fixed = "[./status.sh]", "[%W/../fixed/status.sh]"
	for _, x := range []struct {
		name, command, network, sandbox string
		asks                            bool
	}{
		{"a host", changed, "{allow: [b.example.org]}", "paths: {workspace: rw}", true},
		{"a host, for the program's operand", "[sh, status.sh]", "{allow: [b.example.org]}", "paths: {workspace: rw}", true},
		{"a port", changed, "{expose: [8080]}", "paths: {workspace: rw}", true},
		{"a directory that asks before a read", changed, "none", "paths: {workspace: rw, sub: ro}", true},
		{"a directory that asks before a write", changed, "none", "paths: {workspace: rw, other: rw}", true},
		{"nothing", changed, "none", "paths: {workspace: rw}", false},
		{"no more than commands have", changed, "{allow: [a.example.org]}", "paths: {workspace: rw}, env: {allow: [PATH]}, limits: {pids: 30}", false},
		{"a host for what no call changes", fixed, "{allow: [b.example.org]}", "paths: {workspace: rw, fixed: ro}", false},
		{"a host for a program of no table", "[npx, -y, some-server]", "{allow: [b.example.org]}", "paths: {workspace: rw}", true},
		{"a directory for what no call changes", fixed, "none", "paths: {workspace: rw, fixed: ro, other: rw, sub: ro}", false},
	} {
		l, ok := s.layer(config.TierUser, true, tierText{
			"sandbox.paths": "{workspace: {root: %W, mode: rw, write_approval: false}, fixed: {root: %W/../fixed, mode: ro}," +
				" sub: {root: %W/sub, mode: ro, read_approval: true}, other: {root: %W/../other, mode: rw, write_approval: true}}",
			"shell.network": "{allow: [a.example.org, c.example.org]}",
			"tools":         "{mine: {command: " + x.command + ", approval: {required: false}, sandbox: {network: " + x.network + ", " + x.sandbox + "}}}",
			"mcp":           "{servers: {mine: {command: " + x.command + ", network: " + x.network + ", sandbox: {" + x.sandbox + "}}}}",
		})
		if !ok {
			t.Fatalf("%s: the file does not load", x.name)
		}
		c, ok := s.merged(l)
		if !ok {
			t.Fatalf("%s: nothing is merged", x.name)
		}
		r, d, err := assemble.Tools(c, nil, assemble.Options{Uncached: true})
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.Plan(tools.Call{Tool: "mine", Args: map[string]any{}})
		if err != nil || (p.Request != nil) != x.asks || (p.Reach.Exact != "") != x.asks {
			t.Errorf("%s: the tool: asks %t (%v), want %t; %q", x.name, p.Request != nil, err, x.asks, p.Reach.Exact)
		}
		servers, err := assemble.MCPServers(c, d, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = servers[0].Start(); (err != nil) != x.asks || err != nil && !strings.Contains(err.Error(), "calls may change") {
			t.Errorf("%s: the server: %v", x.name, err)
		}
	}
}
