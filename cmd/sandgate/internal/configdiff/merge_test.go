package configdiff

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/ruleservice"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/hostrule"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// fragments are what files of every tier are drawn from: for each key some values,
// narrow and wide. %W is the workspace.
var fragments = map[string][]string{
	"sandbox.paths": {
		"{workspace: {root: %W, mode: rw, write_approval: false}}", "{workspace: {root: %W, mode: ro}}", "{outer: {root: %W/.., mode: rw, write_approval: false}}",
		"{workspace: {root: %W, mode: rw}, sub: {root: %W/sub, mode: ro, read_approval: true}}", "{sub: {root: %W/sub, mode: rw, write_approval: false}}",
		"{workspace: {root: %W, mode: rw, write_approval: false}, sub: {root: %W/link, mode: rw, write_approval: false}}",
		"{workspace: {root: %W, mode: rw, suffixes: [.md, .txt]}}", "{other: {root: %W/../other, mode: rw, write_approval: false}, workspace: {root: %W, mode: ro, suffixes: [.txt]}}",
		// The root in which commands start asks, and another one does not, or asks before a read.
		"{workspace: {root: %W, mode: rw}, other: {root: %W/../other, mode: rw, write_approval: false}}", "{other: {root: %W/../other, mode: rw, write_approval: false}}",
		"{workspace: {root: %W, mode: rw, write_approval: false}, sub: {root: %W/sub, mode: ro, read_approval: true}}",
	},
	"sandbox.presets": {"[system]", "[system, git, go]", "[]"},
	"sandbox.protect": {"[]", "[default]", `["*.lock"]`},
	"sandbox.hide":    {"[]", "[default]", `["*.txt"]`},
	"sandbox.env":     {"{allow: [PATH]}", "{allow: [PATH, HOME, SSH_AUTH_SOCK]}", `{set: {LD_PRELOAD: /evil.so}}`},
	"sandbox.limits":  {"{memory: 1GiB, pids: 16}", "{memory: 64GiB, pids: 4096, timeout: 1h}", "{timeout: 1s, output: 1KiB}"},
	"sandbox.profile": {"hardened", "read-only", "workspace-write"},
	"shell.network": {
		"none", "host", `{allow: ["*.example.org", "pypi.org:443"]}`, `{allow: [a.example.org], ask: true}`, `{expose: [8080]}`,
		`{allow: ["a.example.org:443", "b.example.org:22"], ask: true, expose: [8080, 9090]}`, `{allow: [], services: {db: "127.0.0.1:5432"}}`,
	},
	"shell.default": {"{allowed: true, approval: false}", "{allowed: true, approval: true}", "{allowed: false}"},
	"shell.rules": {
		"[{pattern: ls, approval: false}]", "[{pattern: ls}]", "[{pattern: ls, allowed: false}]", "[{pattern: rm, approval: false}, {pattern: cat, allowed: false}]",
		"[{pattern: ls -l, approval: false}, {pattern: ls, approval: true}, {pattern: touch, approval: false}]", "[{pattern: cat, read_only: true, approval: false}]",
		"[{pattern: echo, approval: false, limits: {memory: 1MiB}}]", "[{pattern: make, approval: false}]", "[{pattern: make, approval: false, network: {allow: [a.example.org]}}]",
	},
	"approval.mode":            {"strict", "interactive", "approve_all"},
	"approval.unknown_tools":   {"deny", "ask", "allow"},
	"approval.elicitation":     {"true", "false"},
	"approval.safe_tools":      {"[read_file]", "[read_file, list_files, glob, grep, mine]", "[]"},
	"approval.dangerous_tools": {"[mine]", "[shell, write_file, edit_file, glob_extra]"},
	"tools": {
		"{mine: {command: [/bin/true]}}", "{mine: {command: [/bin/sh], approval: {required: false}, sandbox: {network: host}}}",
		`{mine: {command: [/bin/sh], sandbox: {network: {allow: [a.example.org]}, presets: [], env: {allow: [PATH]}, limits: {pids: 3}}}}`,
	},
	"egress": {"{deny_private: false}", "{limits: {open: 1, bytes: 1KiB}}"},
}

// A tierText is a file: a value for some keys.
type tierText map[string]string

// drawTier chooses some keys, and one value of each.
func drawTier(t *rapid.T, name string) tierText {
	keys := slices.Sorted(maps.Keys(fragments))
	text := tierText{}
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 0, 8, rapid.ID).Draw(t, name+" keys") {
		text[key] = rapid.SampledFrom(fragments[key]).Draw(t, name+" "+key)
	}
	return text
}

func (x tierText) String() string {
	var b strings.Builder
	sections := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(x)) {
		section, inner, nested := strings.Cut(key, ".")
		if !nested {
			fmt.Fprintf(&b, "%s: %s\n", key, x[key])
			continue
		}
		sections[section] = append(sections[section], "  "+inner+": "+x[key]+"\n")
	}
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		fmt.Fprintf(&b, "%s:\n%s", section, strings.Join(sections[section], ""))
	}
	return b.String()
}

// mergeSite is a workspace for files that are not on the disk.
type mergeSite struct {
	t   testing.TB
	env config.Env
}

func newMergeSite(t testing.TB) mergeSite {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return newMergeSiteIn(t, top)
}

func newMergeSiteIn(t testing.TB, top string) mergeSite {
	t.Helper()
	for _, dir := range []string{"w/sub", "other", "home", "state"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../other", filepath.Join(top, "w/link")); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"HOME": "home", "XDG_CONFIG_HOME": "home/.config", "XDG_STATE_HOME": "state"} {
		t.Setenv(name, filepath.Join(top, dir))
	}
	t.Chdir(filepath.Join(top, "w"))
	env, err := assemble.Env()
	if err != nil {
		t.Fatal(err)
	}
	return mergeSite{t, env}
}

// layer parses a file; false means that such a file does not load by itself.
func (s mergeSite) layer(tier config.Tier, trusted bool, text tierText) (config.Layer, bool) {
	name := filepath.Join(s.env.Cwd, string(tier)+".yaml")
	c, err := config.Parse([]byte(strings.ReplaceAll(text.String(), "%W", s.env.Cwd)), name, s.env)
	return config.Layer{Tier: tier, Name: name, Trusted: trusted, Config: c}, err == nil
}

// merged gives what files make together; false means that they do not fit together,
// so that nothing starts.
func (s mergeSite) merged(layers ...config.Layer) (*config.Config, bool) {
	base, err := config.Default(s.env.Cwd)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := config.Merge(base, layers...)
	return c, err == nil
}

const catsMarkdown = `{"dir": "%W", "command": "cat sub/b.md"}`

func hidesMarkdown(p sandboxprofile.Profile) bool {
	return slices.ContainsFunc(p.Hide, func(pattern string) bool { return strings.HasSuffix(pattern, "*.md") })
}

// mergeCalls name every path in full: where a command starts is another matter.
var mergeCalls = []struct{ tool, args string }{
	{"shell", `{"dir": "%W", "command": "ls"}`}, {"shell", `{"dir": "%W", "command": "ls -l %W/sub"}`}, {"shell", `{"dir": "%W", "command": "cat %W/a.txt"}`},
	{"shell", `{"dir": "%W", "command": "rm -r %W/x; ls"}`}, {"shell", `{"dir": "%W", "command": "touch %W/sub/f"}`},
	{"shell", `{"dir": "%W", "command": "echo $(ls) > %W/../other/f"}`}, {"shell", `{"dir": "%W", "command": "make; $x"}`},
	{"shell", `{"dir": "%W", "command": "make"}`}, {"shell", `{"dir": "%W/../other", "command": "make"}`}, {"shell", `{"dir": "%W", "command": "cd ../other && make"}`},
	{"shell", `{"command": "make"}`}, {"shell", catsMarkdown}, {"run_background", `{"dir": "%W/../other", "command": "make"}`}, {"read_file", `{"path": "%W/a.txt"}`}, {"read_file", `{"path": "%W/sub/b.md"}`}, {"read_file", `{"path": "%W/../other/f"}`}, {"read_file", `{"path": "%W/.env"}`},
	{"write_file", `{"path": "%W/a.lock", "content": ""}`}, {"write_file", `{"path": "%W/sub/b.md", "content": ""}`},
	{"write_file", `{"path": "%W/.git/hooks/x", "content": ""}`}, {"list_files", `{"path": "%W"}`}, {"mine", `{}`},
}

// outcome is what a configuration makes of a call, and what tools would run under.
type mergeOutcome struct {
	decisions []protocol.CheckDecision
	// reads says of each decision that it is the class's: the call changes nothing. asks
	// says of each that somebody is asked, or would be if the mode let anybody.
	reads, asks       []bool
	programs, byFiles sandboxprofile.Profile
	tools             map[string]sandboxprofile.Profile // of the custom tools
	elicits           bool                              // an agent's client may answer
}

func (s mergeSite) outcome(t interface{ Fatal(...any) }, c *config.Config) mergeOutcome {
	var calls []sampleCall
	for _, call := range mergeCalls {
		calls = append(calls, sampleCall{RulesTest: protocol.RulesTest{Tool: protocol.ToolName(call.tool), Args: []byte(strings.ReplaceAll(call.args, "%W", s.env.Cwd))}})
	}
	of, err := outcomeOf(c, calls)
	if err != nil {
		t.Fatal(err)
	}
	o := mergeOutcome{elicits: c.Approval.Elicitation, programs: of.profiles[ofPrograms], byFiles: of.profiles[ofFiles], tools: map[string]sandboxprofile.Profile{}}
	for name, p := range of.profiles {
		if tool, ok := strings.CutPrefix(name, ofTool); ok {
			o.tools[tool] = p
		}
	}
	for _, got := range of.calls {
		o.decisions = append(o.decisions, got.Decision)
		o.reads = append(o.reads, got.Decision == protocol.CheckAllow && got.Rule == "shell.reads")
		o.asks = append(o.asks, got.Decision == protocol.CheckAsk || got.Decision == protocol.CheckDeny && got.Step == string(approval.SourceMode))
	}
	return o
}

// looser names in what after is more permissive than before; "" if in nothing.
func looser(before, after mergeOutcome) string {
	for i, call := range mergeCalls {
		// A file may take a directory away. Then what was asked about, because it could change
		// or read something there, reads what is left, and the kernel holds it to that: what
		// remains below /tmp is the sandbox's own. The profiles are compared below.
		if after.reads[i] && before.asks[i] {
			continue
		}
		// Or it takes the network away. Then what was asked about, because it reaches every host
		// and starts what calls may change, reaches nothing any more.
		if p := after.programs.Network; before.asks[i] && before.programs.Network.Mode == sandboxprofile.NetworkHost && p.Mode == sandboxprofile.NetworkNone && len(p.Expose) == 0 {
			continue
		}
		// Or it hides the file. Then what was asked about, because it reads that, finds nothing.
		if before.asks[i] && call.args == catsMarkdown && hidesMarkdown(after.programs) {
			continue
		}
		if looseness[after.decisions[i]] > looseness[before.decisions[i]] {
			return fmt.Sprintf("%s %s: %s, and then %s", call.tool, call.args, before.decisions[i], after.decisions[i])
		}
	}
	if after.elicits && !before.elicits {
		return "clients may answer"
	}
	profiles := map[string][2]sandboxprofile.Profile{
		"programs": {before.programs, after.programs}, "file tools": {before.byFiles, after.byFiles},
	}
	for name, p := range after.tools {
		was, ok := before.tools[name]
		if !ok {
			return "there is a tool " + name
		}
		profiles["the tool "+name] = [2]sandboxprofile.Profile{was, p}
	}
	for name, p := range profiles {
		for _, host := range mergeHosts {
			if before, after := reached(p[0].Network, host), reached(p[1].Network, host); after > before {
				return fmt.Sprintf("%s of %s: %d, and then %d", host, name, before, after)
			}
		}
		p[0].Env.Names = slices.Concat(p[0].Env.Names, slices.Collect(maps.Keys(assemble.ProxyVariables())), assemble.WithoutNetwork()) // which narrowing the network adds
		p[1].Network.Allow = p[0].Network.Allow                                                                                         // the profile compares lists as they are written
		if !sandboxprofile.Within(p[1], p[0]) {
			return fmt.Sprintf("the profile of %s:\n%+v\nand then\n%+v", name, sandboxprofile.Diff(p[0], p[1]), p[1].Paths)
		}
	}
	return ""
}

var mergeHosts = []string{"a.example.org:443", "a.example.org:80", "b.example.org:22", "b.example.org:443", "pypi.org:443", "pypi.org:80", "db=127.0.0.1:5432", "other.net:443"}

// reached says what becomes of a connection: refused, asked about, or made.
func reached(n sandboxprofile.Network, host string) int {
	switch n.Mode {
	case sandboxprofile.NetworkHost:
		return 2
	case sandboxprofile.NetworkNone:
		return 0
	}
	all := func(rules []string) bool {
		if strings.Contains(host, "=") {
			return slices.Contains(rules, host)
		}
		t, err := hostrule.CredentialHost(host)
		return err == nil && slices.ContainsFunc(rules, func(rule string) bool {
			r, err := hostrule.Parse(rule)
			return err == nil && r.Matches(t)
		})
	}
	switch {
	case !slices.ContainsFunc(n.Allow, func(rules []string) bool { return !all(rules) }):
		return 2
	case n.Ask:
		return 1
	}
	return 0
}

// drawStack draws an administrator's and a user's file, each of which may be absent.
func (s mergeSite) drawStack(t *rapid.T) (layers []config.Layer, text string) {
	for _, tier := range []config.Tier{config.TierAdmin, config.TierUser} {
		if !rapid.Bool().Draw(t, string(tier)) {
			continue
		}
		x := drawTier(t, string(tier))
		if l, ok := s.layer(tier, true, x); ok {
			layers = append(layers, l)
			text += fmt.Sprintf("--- %s\n%s", tier, x)
		}
	}
	return layers, text
}

// TestUntrustedFileNeverLoosens: whatever stands in a file that is not trusted, no call
// is decided more freely with it, and no profile is wider.
func TestUntrustedFileNeverLoosens(t *testing.T) {
	s := newMergeSite(t)
	rapid.Check(t, func(rt *rapid.T) {
		layers, text := s.drawStack(rt)
		x := drawTier(rt, "workspace")
		l, ok := s.layer(config.TierWorkspace, false, x)
		if !ok {
			rt.Skip("a file that does not load stops everything")
		}
		before, fits := s.merged(layers...)
		after, still := s.merged(append(slices.Clone(layers), l)...)
		if !fits || !still {
			rt.Skip("files that do not fit together stop everything")
		}
		if what := looser(s.outcome(rt, before), s.outcome(rt, after)); what != "" {
			rt.Fatalf("%s--- workspace, not trusted\n%s%s", text, x, what)
		}
	})
}

// TestTakenAwayIsNotShown: a file that takes the workspace away leaves a name in the
// sandbox's own /tmp. To read that needs nobody, also where the mode refuses whatever is
// asked about: the file that a hidden name stood for is not there.
func TestTakenAwayIsNotShown(t *testing.T) {
	s := newMergeSite(t)
	admin, ok := s.layer(config.TierAdmin, true, tierText{"approval.mode": "strict", "sandbox.hide": `["*.txt"]`})
	less, ok2 := s.layer(config.TierWorkspace, false, tierText{"sandbox.paths": "{sub: {root: %W/sub, mode: rw, write_approval: false}}"})
	before, fits := s.merged(admin)
	after, fits2 := s.merged(admin, less)
	if !ok || !ok2 || !fits || !fits2 {
		t.Fatal("the files do not load")
	}
	was, is := s.outcome(t, before), s.outcome(t, after)
	if what := looser(was, is); what != "" {
		t.Fatal(what)
	}
	name := s.env.Cwd + "/a.txt"
	if got := is.programs.Rights(name); sandboxprofile.Read.SubsetOf(got) {
		t.Errorf("%s: %v, and then %v", name, was.programs.Rights(name), got)
	}
}

// TestTrustShowsWhatItWidens: where nothing of a file is without effect, trusting it
// widens nothing. Otherwise somebody would vouch for what was not shown.
func TestTrustShowsWhatItWidens(t *testing.T) {
	s := newMergeSite(t)
	rapid.Check(t, func(rt *rapid.T) {
		layers, text := s.drawStack(rt)
		x := drawTier(rt, "workspace")
		l, ok := s.layer(config.TierWorkspace, false, x)
		if !ok {
			rt.Skip()
		}
		base, fits := s.merged(layers...)
		untrusted, still := s.merged(append(slices.Clone(layers), l)...)
		if !fits || !still || len(untrusted.Unused) > 0 {
			rt.Skip()
		}
		l.Trusted = true
		trusted, ok := s.merged(append(slices.Clone(layers), l)...)
		if !ok {
			rt.Skip()
		}
		if what := looser(s.outcome(rt, base), s.outcome(rt, trusted)); what != "" {
			rt.Fatalf("%s--- workspace\n%s%s", text, x, what)
		}
	})
}

// TestTrustShowsWhatLosesItsName: a path of the user's, whose name the workspace's file gives to
// another directory, is then as what lies around it, and that is shown if it is wider.
func TestTrustShowsWhatLosesItsName(t *testing.T) {
	s := newMergeSite(t)
	for theirs, wider := range map[string]bool{"sec: {root: %W/../other, mode: ro}": true, "docs: {root: %W/../other, mode: ro}": false} {
		admin, ok := s.layer(config.TierUser, true, tierText{"sandbox.paths": "{ws: {root: %W/.., mode: rw, write_approval: true}, sec: {root: %W/sub, mode: ro, read_approval: true}}"})
		l, loads := s.layer(config.TierWorkspace, false, tierText{"sandbox.paths": "{ws: {root: %W/.., mode: rw, write_approval: true}, " + theirs + "}"})
		if !ok || !loads {
			t.Fatal("a file does not load")
		}
		c, ok := s.merged(admin, l)
		told := slices.ContainsFunc(c.Unused, func(n config.Notice) bool { return strings.Contains(n.Field, "sandbox.paths.sec") })
		if !ok || told != wider {
			t.Errorf("%s: told %v, want %v: %+v", theirs, told, wider, c.Unused)
		}
	}
}

// TestNarrowedFilesAreChangeableStill: a repository's own configuration cannot take a
// question away by what it takes away: the files that a call starts came with it.
func TestNarrowedFilesAreChangeableStill(t *testing.T) {
	s := newMergeSite(t)
	free := "{workspace: {root: %W, mode: rw, write_approval: false}}"
	mine := tierText{
		"sandbox.paths": free, "sandbox.protect": "[]", "sandbox.hide": "[]",
		"tools": "{mine: {command: [/bin/sh], approval: {required: false}, sandbox: {network: host}}}",
	}
	admin, ok := s.layer(config.TierAdmin, true, mine)
	if !ok {
		t.Fatal("the administrator's file does not load")
	}
	for name, narrow := range map[string]tierText{
		"nothing":    {},
		"read-only":  {"sandbox.paths": "{workspace: {root: %W, mode: ro}}"},
		"asked":      {"sandbox.paths": "{workspace: {root: %W, mode: rw, write_approval: true}}"},
		"elsewhere":  {"sandbox.paths": "{sub: {root: %W/sub, mode: ro}}"},
		"protected":  {"sandbox.protect": `["*"]`},
		"hidden":     {"sandbox.hide": `["*.sh"]`},
		"suffixes":   {"sandbox.paths": "{workspace: {root: %W, mode: rw, write_approval: false, suffixes: [.md]}}"},
		"start here": {"sandbox.paths": "{workspace: {root: %W, mode: ro}, sub: {root: %W/sub, mode: ro}}"},
	} {
		for _, trusted := range []bool{false, true} {
			l, ok := s.layer(config.TierWorkspace, trusted, narrow)
			if !ok {
				t.Fatalf("%s: the file does not load", name)
			}
			c, ok := s.merged(admin, l)
			if !ok {
				t.Fatalf("%s: the files do not fit together", name)
			}
			d, err := ruleservice.NewLocal(c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.TestRules(context.Background(), protocol.RulesTest{Tool: "mine", Args: []byte("{}")})
			d.Close()
			if err != nil || got.Decision != protocol.CheckAsk {
				t.Errorf("%s, trusted %t: %v %s, want ask (%v)", name, trusted, got.Decision, got.Reason, err)
			}
		}
	}
	// The twin: what the administrator has made read-only could never be changed.
	mine["sandbox.paths"] = "{workspace: {root: %W, mode: ro}}"
	if admin, ok = s.layer(config.TierAdmin, true, mine); !ok {
		t.Fatal("the administrator's file does not load")
	}
	c, _ := s.merged(admin)
	d, err := ruleservice.NewLocal(c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got, err := d.TestRules(context.Background(), protocol.RulesTest{Tool: "mine", Args: []byte("{}")}); err != nil || got.Decision != protocol.CheckAllow {
		t.Errorf("read-only for everybody: %v %s (%v)", got.Decision, got.Reason, err)
	}
}

// TestProgramsDoNotSeeASuffixedPart: a directory of which tools have some files only is
// not a program's by lying in another one.
func TestProgramsDoNotSeeASuffixedPart(t *testing.T) {
	s := newMergeSite(t)
	l, ok := s.layer(config.TierUser, true, tierText{"sandbox.paths": "{workspace: {root: %W, mode: rw}, sub: {root: %W/sub, mode: ro, suffixes: [.md]}}"})
	c, fits := s.merged(l)
	if !ok || !fits {
		t.Fatal("the file does not load")
	}
	for tool, want := range map[string][2]sandboxprofile.Rights{
		"shell":     {sandboxprofile.Read | sandboxprofile.Write | sandboxprofile.Execute, 0},
		"read_file": {sandboxprofile.Read | sandboxprofile.Write | sandboxprofile.Execute, sandboxprofile.Read | sandboxprofile.Execute},
	} {
		p, _, err := assemble.ProfileFor(*c, tool, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]sandboxprofile.Rights{p.Rights(s.env.Cwd + "/f"), p.Rights(s.env.Cwd + "/sub/f.md")}; got != want {
			t.Errorf("%s has %v, want %v", tool, got, want)
		}
	}
}

// TestNoTierRemovesTheFloor: whatever the user's file and a trusted one of the workspace
// say, no call is decided more freely than what the administrator's file sets.
func TestNoTierRemovesTheFloor(t *testing.T) {
	s := newMergeSite(t)
	floor := tierText{
		"sandbox.paths":   "{workspace: {root: %W, mode: rw}, sub: {root: %W/sub, mode: ro}}",
		"sandbox.presets": "[system]", "sandbox.hide": `[default, "*.txt"]`, "sandbox.protect": `[default, "*.lock"]`,
		"sandbox.env": "{allow: [PATH]}", "sandbox.limits": "{memory: 1GiB, pids: 16, timeout: 1s, output: 1KiB, cpu: 1s, file_size: 1MiB, open_files: 9}",
		"shell.network": `{allow: ["*.example.org"]}`, "shell.default": "{allowed: false}",
		"shell.rules":   "[{pattern: cat, allowed: false}, {pattern: ls}, {pattern: rm, approval: true}]",
		"approval.mode": "strict", "approval.unknown_tools": "deny", "approval.elicitation": "false",
	}
	admin, ok := s.layer(config.TierAdmin, true, floor)
	alone, fits := s.merged(admin)
	if !ok || !fits {
		t.Fatal("the floor does not load")
	}
	rapid.Check(t, func(rt *rapid.T) {
		user, workspace := drawTier(rt, "user"), drawTier(rt, "workspace")
		for _, x := range []tierText{user, workspace} {
			delete(x, "tools") // one more tool is no call that the floor speaks of
			if strings.Contains(x["sandbox.env"], "set") {
				delete(x, "sandbox.env")
			}
		}
		u, ok1 := s.layer(config.TierUser, true, user)
		w, ok2 := s.layer(config.TierWorkspace, true, workspace)
		if !ok1 || !ok2 {
			rt.Skip()
		}
		c, fits := s.merged(admin, u, w)
		if !fits {
			rt.Skip()
		}
		if what := looser(s.outcome(rt, alone), s.outcome(rt, c)); what != "" {
			rt.Fatalf("--- user\n%s--- workspace, trusted\n%s%s", user, workspace, what)
		}
		before := s.outcome(rt, c)
		if bounded := c.KeepFloor(); len(bounded) > 0 {
			rt.Fatalf("--- user\n%s--- workspace, trusted\n%sthe floor once more takes away %v", user, workspace, bounded)
		}
		if after := s.outcome(rt, c); looser(before, after) != "" || looser(after, before) != "" {
			rt.Fatalf("the floor once more changes something: %s%s", looser(before, after), looser(after, before))
		}
	})
}

// TestADenyOfAnyTierHolds adds what denies to the file of a tier that is there.
func TestADenyOfAnyTierHolds(t *testing.T) {
	s := newMergeSite(t)
	denies := map[string]string{
		"shell.rules": "[{pattern: ls, allowed: false}, {pattern: touch, allowed: false}]", "shell.default": "{allowed: false}", "sandbox.hide": `[default, "*.md"]`,
		"sandbox.protect": `[default, "*.md"]`, "approval.unknown_tools": "deny", "approval.mode": "strict",
	}
	rapid.Check(t, func(rt *rapid.T) {
		texts := map[config.Tier]tierText{}
		for _, tier := range []config.Tier{config.TierAdmin, config.TierUser, config.TierWorkspace} {
			texts[tier] = drawTier(rt, string(tier))
		}
		trusted := rapid.Bool().Draw(rt, "trusted")
		stack := func() (layers []config.Layer, ok bool) {
			for _, tier := range []config.Tier{config.TierAdmin, config.TierUser, config.TierWorkspace} {
				l, ok := s.layer(tier, trusted || tier != config.TierWorkspace, texts[tier])
				if !ok {
					return nil, false
				}
				layers = append(layers, l)
			}
			return layers, true
		}
		where := rapid.SampledFrom(slices.Sorted(maps.Keys(texts))).Draw(rt, "where")
		key := rapid.SampledFrom(slices.Sorted(maps.Keys(denies))).Draw(rt, "deny")
		delete(texts[where], key) // a file says a thing once
		if _, in := texts[where]["sandbox.hide"]; key == "shell.rules" && in {
			rt.Skip()
		}
		first, ok1 := stack()
		texts[where][key] = denies[key]
		second, ok2 := stack()
		if !ok1 || !ok2 {
			rt.Skip()
		}
		before, fits := s.merged(first...)
		after, still := s.merged(second...)
		if !fits || !still {
			rt.Skip()
		}
		if what := looser(s.outcome(rt, before), s.outcome(rt, after)); what != "" {
			rt.Fatalf("%v\n%s: %s in %s: %s", texts, key, denies[key], where, what)
		}
	})
}
