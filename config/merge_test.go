package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/sandgate/sandgate/internal/units"
)

// combined are the rows that say how files are merged.
func combined() []row {
	return slices.DeleteFunc(rows(), func(r row) bool { return r.how == "" })
}

// TestTableHasEveryKeyOnce: a key that no line speaks of would be dropped from all files
// but one, and its denials with it.
func TestTableHasEveryKeyOnce(t *testing.T) {
	covered := func(key string) (lines []string) {
		for _, r := range combined() {
			if key == r.key || within(key, r.key) {
				lines = append(lines, r.key)
			}
		}
		return lines
	}
	keys := 0
	walkKeys(reflect.TypeFor[Config](), "", func(path string, k key) {
		if slices.ContainsFunc(combined(), func(r row) bool { return within(r.key, path) }) {
			return // a section, whose keys have lines of their own
		}
		keys++
		if lines := covered(path); len(lines) != 1 {
			t.Errorf("%s is in the lines %q of the table, want one", path, lines)
		}
	})
	if keys < 50 {
		t.Fatalf("only %d keys were looked at", keys)
	}
	for _, r := range rows() {
		if r.text == "" || (r.over == nil) != (r.how == "") || (r.within == nil) != (r.how == "") {
			t.Errorf("%s: the line is not whole", r.key)
		}
	}
}

// TestDocumentHasTheTable holds the table of the document against the one of the code.
func TestDocumentHasTheTable(t *testing.T) {
	const file, head = "../docs/configuration.md", "| key | combination | untrusted |\n|---|---|---|\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), head)
	have, after, end := strings.Cut(rest, "\n\n")
	if !ok || !end {
		t.Fatal("there is no table")
	}
	var lines []string
	for _, r := range combined() {
		say := "no"
		if r.narrows {
			say = "narrows"
		}
		lines = append(lines, fmt.Sprintf("| `%s` | %s | %s |", r.key, r.how, say))
	}
	want := strings.Join(lines, "\n")
	if *update {
		if err := os.WriteFile(file, []byte(before+head+want+"\n\n"+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("rows (-code +document), -update rewrites them:\n%s", diff)
	}
}

// layerOf parses a file of a tier.
func layerOf(t testing.TB, env Env, tier Tier, trusted bool, text string) Layer {
	t.Helper()
	name := filepath.Join(env.Cwd, string(tier)+".yaml")
	c, err := Parse([]byte(text), name, env)
	if err != nil {
		t.Fatal(err)
	}
	return Layer{Tier: tier, Name: name, Trusted: trusted, Config: c}
}

func mergedOf(t testing.TB, env Env, layers ...Layer) *Config {
	t.Helper()
	base, err := embedded(env)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Merge(base, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestOneFileIsMergedToItself, whatever is in it.
func TestOneFileIsMergedToItself(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		env := testEnv(t)
		for _, tier := range []Tier{TierUser, TierAdmin} {
			l := layerOf(t, env, tier, true, string(archive.Files[0].Data))
			l.Config.Sources = []Source{{Tier: tier, Name: l.Name}}
			before, err := l.Config.Explain()
			if err != nil {
				t.Fatal(err)
			}
			c := mergedOf(t, env, l)
			after, err := c.Explain()
			if diff := cmp.Diff(string(before), string(after)); err != nil || diff != "" {
				t.Errorf("%s as the file of %s (-alone +merged): %v\n%s", file, tier, err, diff)
			}
			if diff := cmp.Diff(l.Config.Notices, c.Notices); diff != "" || len(c.Unused) > 0 {
				t.Errorf("%s: notices (-alone +merged):\n%s\nunused: %v", file, diff, c.Unused)
			}
		}
	}
}

// TestMerge walks the table: what each line makes of an administrator's, a user's and a
// workspace's file, the last first trusted and then not.
func TestMerge(t *testing.T) {
	for _, c := range []struct {
		field, admin, user, workspace string
		trusted, untrusted            string // of the result, as Explain has them
	}{
		{"pids", "sandbox: {limits: {pids: 64}}", "sandbox: {limits: {pids: 128}}", "sandbox: {limits: {pids: 100}}",
			"64 # admin", "64 # admin"},
		{"pids", "", "sandbox: {limits: {pids: 128}}", "sandbox: {limits: {pids: 6000}}", "6000 # workspace", "128 # user"},
		{"pids", "", "sandbox: {limits: {pids: 128}}", "sandbox: {limits: {pids: 16}}", "16 # workspace", "16 # workspace"},
		{"pids", "", "", "sandbox: {limits: {pids: 6000}}", "6000 # workspace", "4096 # default"},
		{"deny_cache", "", "approval: {deny_cache: 1m}", "approval: {deny_cache: 1h}", "1h # workspace", "1h # workspace"},
		{"deny_cache", "approval: {deny_cache: 1m}", "", "approval: {deny_cache: 1s}", "1m # admin", "1m # admin"},
		{"require_os_sandbox", "", "sandbox: {require_os_sandbox: true}", "sandbox: {require_os_sandbox: false}", "true # user", "true # user"},
		{"require_os_sandbox", "", "", "sandbox: {require_os_sandbox: false}", "false # workspace", "true # default"},
		{"debug", "", "sandbox: {debug: true}", "sandbox: {debug: false}", "false # workspace", "false # workspace"},
		{"debug", "", "", "sandbox: {debug: true}", "true # workspace", "false # default"},
		{"mode", "approval: {mode: interactive}", "approval: {mode: approve_all}", "approval: {mode: strict}", "strict # workspace", "strict # workspace"},
		{"mode", "", "approval: {mode: strict}", "approval: {mode: approve_all}", "strict # user", "strict # user"},
		{"unknown_tools", "approval: {unknown_tools: deny}", "approval: {unknown_tools: allow}", "", "deny # admin", "deny # admin"},
		{"deny_private", "egress: {deny_private: true}", "egress: {deny_private: false}", "", "true # admin", "true # admin"},
		{"network", "shell: {network: none}", "shell: {network: host}", "shell: {network: host}", "none # admin", "none # admin"},
		{"network", "", "shell: {network: none}", "shell: {network: host}", "host # workspace", "none # user"},
		{"network", "", "shell: {network: host}", "shell: {network: none}", "none # workspace", "none # workspace"},
		{"sync", "", "audit: {sync: never}", "audit: {sync: always}", "always # workspace", "always # workspace"},
		{"store", "", "approval: {store: memory}", "approval: {store: bbolt}", "bbolt # workspace", "memory # user"},
		{"store", "approval: {store: bbolt}", "approval: {store: memory}", "", "bbolt # admin", "bbolt # admin"},
		{"policy", "policy: careful", "policy: balanced", "policy: autonomous", "careful # admin", "careful # admin"},
		{"policy", "", "policy: careful", "policy: autonomous", "autonomous # workspace", "careful # user"},
		{"default", "", "policy: balanced", "", "confined # policy balanced", "confined # policy balanced"},
		{"write_approval", "", "policy: autonomous", "", "false # policy autonomous", "false # policy autonomous"},
		{"write_approval", "", "", "policy: balanced", "false # policy balanced", "true # default"},
		{"write_approval", "policy: careful", "policy: balanced", "", "true # policy careful", "true # policy careful"},
		{"write_approval", "", "policy: balanced", "sandbox: {paths: {workspace: {root: ., mode: rw, write_approval: true}}}", "true # workspace", "true # workspace"},
		{"profile", "sandbox: {profile: hardened}", "sandbox: {profile: default}", "", "default # user", "default # user"},
	} {
		for i, want := range []string{c.trusted, c.untrusted} {
			env := testEnv(t)
			var layers []Layer
			for _, x := range []struct {
				tier    Tier
				text    string
				trusted bool
			}{{TierAdmin, c.admin, true}, {TierUser, c.user, true}, {TierWorkspace, c.workspace, i == 0}} {
				if x.text != "" {
					layers = append(layers, layerOf(t, env, x.tier, x.trusted, x.text))
				}
			}
			text, err := mergedOf(t, env, layers...).Explain()
			if err != nil {
				t.Fatal(err)
			}
			got := lineOf(string(text), c.field)
			value, tier, _ := strings.Cut(want, " # ")
			if !strings.HasPrefix(got, value+" #") || !strings.Contains(got, tier) {
				t.Errorf("%+v: %s is %q, want %q", c, c.field, got, want)
			}
		}
	}
}

// TestAnUntrustedFileListsNoHosts: what reaches every host is asked about where calls may
// change what it starts, and what reaches listed hosts is not. So a repository's file takes
// the network away, and never names the hosts that are reached in place of all.
func TestAnUntrustedFileListsNoHosts(t *testing.T) {
	for _, c := range []struct {
		ours, theirs string
		want         [2]NetworkMode // with the file trusted, and not
	}{
		{"host", "none", [2]NetworkMode{NetworkNone, NetworkNone}},
		{"host", "{allow: [a.example.org]}", [2]NetworkMode{NetworkAllow, NetworkHost}},
		{"host", `{allow: [], services: {db: "127.0.0.1:5432"}}`, [2]NetworkMode{NetworkAllow, NetworkHost}},
		{"host", "{expose: [8080]}", [2]NetworkMode{NetworkNone, NetworkHost}},
		{"{allow: [a.example.org, b.example.org]}", "{allow: [a.example.org]}", [2]NetworkMode{NetworkAllow, NetworkAllow}},
	} {
		for i, want := range c.want {
			env := testEnv(t)
			merged := mergedOf(t, env, layerOf(t, env, TierUser, true, "shell: {network: "+c.ours+"}"), layerOf(t, env, TierWorkspace, i == 0, "shell: {network: "+c.theirs+"}"))
			if got := merged.Shell.Network.Mode; got != want {
				t.Errorf("%s below %s, trusted %v: %s, want %s", c.theirs, c.ours, i == 0, got, want)
			}
			unused := slices.ContainsFunc(merged.Unused, func(n Notice) bool { return n.Field == "shell.network" })
			if should := i == 1 && want == NetworkHost; unused != should {
				t.Errorf("%s below %s, trusted %v: told as unused %v: %v", c.theirs, c.ours, i == 0, unused, merged.Unused)
			}
		}
	}
}

// TestAnUntrustedRuleListsNoHosts: nor does it in a rule of its own, whose network bounds what the
// person's rule lets run.
func TestAnUntrustedRuleListsNoHosts(t *testing.T) {
	for _, c := range []struct {
		ours, theirs string
		kept         [2]bool // with the file trusted, and not
	}{
		{"host", "{allow: [a.example.org]}", [2]bool{true, false}},
		{"host", "none", [2]bool{true, true}},
		{"{allow: [a.example.org, b.example.org]}", "{allow: [a.example.org]}", [2]bool{true, true}},
	} {
		for i, want := range c.kept {
			env := testEnv(t)
			merged := mergedOf(t, env, layerOf(t, env, TierUser, true, "shell: {network: "+c.ours+", rules: [{pattern: make test, approval: false}]}"),
				layerOf(t, env, TierWorkspace, i == 0, "shell: {network: "+c.ours+", rules: [{pattern: make, network: "+c.theirs+"}]}"))
			got := slices.ContainsFunc(merged.Shell.Rules, func(r Rule) bool { return r.Pattern == "make" && r.Network != nil })
			unused := slices.ContainsFunc(merged.Unused, func(n Notice) bool { return n.Field == "shell.rules[0].network" })
			if got != want || unused == want {
				t.Errorf("%s below %s, trusted %v: in force %v, told as unused %v", c.theirs, c.ours, i == 0, got, unused)
			}
		}
	}
}

// lineOf is what follows a key in a text, where it is last.
func lineOf(text, key string) (found string) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), key+": "); ok {
			found = strings.TrimSpace(rest)
		}
	}
	return found
}

// TestUnusedIsNamed: each value of a file that is not trusted which widens is named with
// its place, and each that does not has its effect.
func TestUnusedIsNamed(t *testing.T) {
	env := testEnv(t)
	write(t, filepath.Join(env.Home, "key"), "x")
	c := mergedOf(t, env, layerOf(t, env, TierWorkspace, false, `version: 1
sandbox:
  paths:
    workspace: {root: ., mode: rw, write_approval: false}
    up: {root: .., mode: rw}
  presets: [system, go]
  protect: ["*.lock"]
  hide: ["*.key"]
  env: {allow: [PATH, SECRET], set: {LD_PRELOAD: x.so}}
  limits: {pids: 9999, memory: 1MiB}
  profile: hardened
shell:
  network: {allow: [a.example.org], services: {db: "127.0.0.1:5432"}}
  default: {allowed: true, approval: false}
  rules:
    - {pattern: ls, approval: false}
    - {pattern: rm, allowed: false}
    - {pattern: make, description: "nothing to worry about"}
  credentials: {TOKEN: {file: ~/key, service: db}}
tools: {mine: {command: [/bin/true]}}
approval: {mode: approve_all, safe_tools: [read_file, more], dangerous_tools: [other], store: memory}
audit: {path: x.jsonl, redact: [{name: all, pattern: "[a-z]+"}]}
`))
	var fields []string
	for _, n := range c.Unused {
		fields = append(fields, n.Field)
		if n.Position.File == "" || n.Position.Line == 0 || n.Text == "" {
			t.Errorf("%+v says not where, or not why", n)
		}
	}
	want := []string{
		"sandbox.paths.workspace.write_approval", "sandbox.paths.up.root", "sandbox.presets[1]", "sandbox.env.allow[1]", "sandbox.env.set.LD_PRELOAD",
		"sandbox.limits.pids", "shell.network", "shell.default", "shell.rules[0]", "shell.rules[2].description", "shell.credentials.TOKEN", "tools.mine",
		"approval.mode", "approval.safe_tools[1]", "approval.dangerous_tools[0]", "approval.store", "audit.path", "audit.redact[0]",
	}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("unused (-want +got):\n%s", diff)
	}
	if c.Sandbox.Limits.Memory != units.MiB || len(c.OperatorProfiles()) != 1 || len(c.Shell.Rules) != 3 || !c.Shell.Rules[0].Narrows || c.Shell.Rules[2].Description != "" ||
		!slices.Equal(c.Sandbox.Presets, []string{"system"}) || !slices.Equal(c.Sandbox.Hide, []string{DefaultList, "*.key"}) || len(c.Tools) != 0 ||
		!slices.Equal(c.Approval.Guarded, []string{"other"}) || slices.Contains(c.Approval.DangerousTools, "other") {
		t.Errorf("what narrows has no effect, or what widens has: %+v", c)
	}
}

// TestWorkspaceNamesNoProfileFile: what a tool could write is no bound for it.
func TestWorkspaceNamesNoProfileFile(t *testing.T) {
	env := testEnv(t)
	write(t, filepath.Join(env.Cwd, "p.yaml"), "name: p\n")
	base, err := embedded(env)
	if err != nil {
		t.Fatal(err)
	}
	for _, trusted := range []bool{false, true} {
		_, err = Merge(base, layerOf(t, env, TierWorkspace, trusted, "sandbox: {profile: ./p.yaml}"))
		if p := problemsOf(t, err); len(p) != 1 || p[0].Field != "sandbox.profile" || p[0].Position.Line != 1 {
			t.Errorf("trusted %v: %v", trusted, err)
		}
	}
	mergedOf(t, env, layerOf(t, env, TierUser, true, "sandbox: {profile: ./p.yaml}"))
}

// TestSuffixesWithNothingInCommon: an empty list would be every file.
func TestSuffixesWithNothingInCommon(t *testing.T) {
	env := testEnv(t)
	base, err := embedded(env)
	if err != nil {
		t.Fatal(err)
	}
	user := layerOf(t, env, TierUser, true, "sandbox: {paths: {workspace: {root: ., suffixes: [.go, .tar.gz]}}}")
	with := func(suffixes string) Layer {
		return layerOf(t, env, TierWorkspace, false, "sandbox: {paths: {w: {root: ., suffixes: ["+suffixes+"]}}}")
	}
	c, err := Merge(base, user, with(".md"))
	if p := problemsOf(t, err); len(p) != 1 || p[0].Field != "sandbox.paths.w.suffixes" || !slices.Equal(c.Sandbox.Paths[0].Suffixes, []string{"/"}) {
		t.Errorf("%v, %+v", err, c.Sandbox.Paths)
	}
	if c, err = Merge(base, user, with(".gz, .c")); err != nil || !slices.Equal(c.Sandbox.Paths[0].Suffixes, []string{".tar.gz"}) {
		t.Errorf("%v, %+v", err, c.Sandbox.Paths)
	}
}

func TestMeetNetworks(t *testing.T) {
	list := func(ask bool, hosts ...string) Network {
		return Network{Mode: NetworkAllow, Allow: hostRules(hosts...), Ask: ask}
	}
	none, host := Network{Mode: NetworkNone}, Network{Mode: NetworkHost}
	services := func(address string) Network {
		return Network{Mode: NetworkAllow, Services: map[string]string{"db": address}}
	}
	for _, c := range []struct{ a, b, want Network }{
		{none, host, none}, {host, host, host}, {host, list(true, "a.org"), list(true, "a.org")}, {none, list(true, "a.org"), none},
		{list(true, "a.org"), list(false, "a.org", "b.org"), list(false, "a.org")}, {list(true, "a.org"), list(true, "b.org"), list(true)},
		{list(false, "a.org"), list(false, "b.org"), none},
		{services("127.0.0.1:1"), services("127.0.0.1:1"), services("127.0.0.1:1")}, {services("127.0.0.1:1"), services("127.0.0.1:2"), none},
		{Network{Mode: NetworkNone, Expose: []Port{{80, 8080}, {9090, 9090}}}, Network{Mode: NetworkNone, Expose: []Port{{9090, 9090}}}, Network{Mode: NetworkNone, Expose: []Port{{9090, 9090}}}},
		{Network{Mode: NetworkNone, Expose: []Port{{9090, 9090}}}, none, none}, {Network{Mode: NetworkNone, Expose: []Port{{9090, 9090}}}, host, Network{Mode: NetworkNone, Expose: []Port{{9090, 9090}}}},
	} {
		if got := MeetNetworks(c.a, c.b); !sameNetwork(got, c.want) {
			t.Errorf("%+v and %+v: %+v, want %+v", c.a, c.b, got, c.want)
		}
		if got := MeetNetworks(c.b, c.a); got.Mode != c.want.Mode || got.Ask != c.want.Ask || len(got.Allow) != len(c.want.Allow) || len(got.Expose) != len(c.want.Expose) {
			t.Errorf("%+v and %+v: %+v, want %+v", c.b, c.a, got, c.want)
		}
	}
}

// TestAdminsNetworkBoundsToolsOfOthers: a custom tool is no way around it.
func TestAdminsNetworkBoundsToolsOfOthers(t *testing.T) {
	env := testEnv(t)
	tool := "tools: {%: {command: [/bin/true], sandbox: {network: host}}}"
	admin := layerOf(t, env, TierAdmin, true, "shell: {network: none}\n"+strings.ReplaceAll(tool, "%", "theirs"))
	user := layerOf(t, env, TierUser, true, strings.ReplaceAll(tool, "%", "mine"))
	got := map[string]NetworkMode{}
	c := mergedOf(t, env, admin, user)
	for _, tool := range c.Tools {
		got[tool.Name] = tool.Sandbox.Network.Mode
	}
	if want := map[string]NetworkMode{"theirs": NetworkHost, "mine": NetworkNone}; !reflect.DeepEqual(got, want) {
		t.Errorf("networks %v, want %v", got, want)
	}
	if !slices.ContainsFunc(c.Notices, func(n Notice) bool { return n.Field == "tools.mine.sandbox.network" }) {
		t.Errorf("nothing is said of it: %v", c.Notices)
	}
}

// TestNamesKeepTheirDirectories: where a directory is narrowed to parts, rules and tools
// that name it go on meaning what they meant, and nothing more.
func TestNamesKeepTheirDirectories(t *testing.T) {
	env := testEnv(t)
	user := layerOf(t, env, TierUser, true, `
sandbox: {paths: {workspace: {root: ., mode: rw}, notes: {root: ~/notes, mode: rw}}}
shell:
  rules:
    - {pattern: make, approval: false, sandbox_paths: [workspace]}
    - {pattern: ls, approval: false, sandbox_paths: [notes]}
    - {pattern: rm, sandbox_paths: [notes]}
tools: {mine: {command: [/bin/true], sandbox: {paths: {workspace: rw, notes: ro}}}}
`)
	c := mergedOf(t, env, user, layerOf(t, env, TierWorkspace, false, "sandbox: {paths: {code: {root: src, mode: rw}, notes: {root: cache}}}"))
	var paths []string
	for _, p := range c.Sandbox.Paths {
		paths = append(paths, p.Name+" "+string(p.Mode)+" "+filepath.Base(p.Root))
	}
	if want := []string{"workspace rw src", "notes_2 ro cache"}; !slices.Equal(paths, want) {
		t.Errorf("paths %q, want %q", paths, want)
	}
	if got := c.Shell.Rules[0].SandboxPaths; !slices.Equal(got, []string{"workspace", "notes_2"}) {
		t.Errorf("make is for %q", got)
	}
	if got := c.Shell.Rules[1].SandboxPaths; !slices.Equal(got, []string{nowhere}) {
		t.Errorf("ls is for %q: nothing of notes is left", got)
	}
	if got := c.Shell.Rules[2].SandboxPaths; got != nil {
		t.Errorf("rm is asked about in %q only", got)
	}
	if got := c.Tools[0].Sandbox.Paths; !reflect.DeepEqual(got, map[string]Mode{"workspace": ReadWrite, "notes_2": ReadWrite}) {
		t.Errorf("the tool has %v", got)
	}
}
