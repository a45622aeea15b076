package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/bounds"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// alwaysReads is the tool shell with an analysis that takes every line for one that only
// reads: as wrong as one can be.
type alwaysReads struct{ *shell.Tool }

func (a alwaysReads) Plan(c tools.Call) (tools.Proposal, error) {
	p, err := a.Tool.Plan(c)
	p.Request, p.Unheld = nil, nil
	p.Plan.Action.Ceiling = &sandboxprofile.Ceiling{Class: sandboxprofile.ClassRead, AnyProgram: true}
	return p, err
}

// under is the tool shell whose calls nobody is asked about, under a ceiling of its own.
type under struct {
	*shell.Tool
	ceiling sandboxprofile.Ceiling
}

func (u under) Plan(c tools.Call) (tools.Proposal, error) {
	p, err := u.Tool.Plan(c)
	p.Request, p.Unheld, p.Plan.Action.Ceiling = nil, nil, &u.ceiling
	return p, err
}

// TestWhatCannotBeHeldDoesNotRun: a call whose ceiling nobody knows, or that its profile
// reaches beyond, is refused with what would help, and nothing of it runs. Its twin, under
// a ceiling that is held, does.
func TestWhatCannotBeHeldDoesNotRun(t *testing.T) {
	open := func(p *sandboxprofile.Profile) { p.Network.Mode = sandboxprofile.NetworkHost }
	for name, x := range map[string]struct {
		ceiling sandboxprofile.Ceiling
		why     string
	}{
		"no class":             {sandboxprofile.Ceiling{AnyProgram: true}, "class"},
		"programs and any":     {sandboxprofile.Ceiling{Class: sandboxprofile.ClassRead, AnyProgram: true, Programs: []string{"/bin/cat"}}, "name programs"},
		"beyond its workspace": {sandboxprofile.Ceiling{Class: sandboxprofile.ClassWorkspace, AnyProgram: true}, "its profile reaches further"},
		"held":                 {sandboxprofile.Ceiling{Class: sandboxprofile.ClassRead, AnyProgram: true}, ""},
		"no more than it has":  {sandboxprofile.Ceiling{Class: sandboxprofile.ClassBeyond, AnyProgram: true}, ""},
	} {
		f := newFixture(t, setup{mode: approval.Strict, profile: open, shell: func(s *shell.Tool) tools.Tool { return under{s, x.ceiling} }})
		r, e := f.call(context.Background(), "shell", command("echo ran; touch made"))
		_, missing := os.Stat(f.ws + "/made")
		switch {
		case x.why == "" && (e != nil || !strings.Contains(textOf(r), "ran\n") || (missing == nil) != (x.ceiling.Class == sandboxprofile.ClassBeyond)):
			t.Errorf("%s: %v, %+v, made: %v", name, e, r, missing)
		case x.why != "" && (e == nil || e.Code != protocol.CodeSandboxUnavailable || !strings.Contains(e.Message, x.why) || !strings.Contains(e.HintText, "the call") || missing == nil):
			t.Errorf("%s: %+v, made: %v", name, e, missing)
		}
	}
}

func command(line string) string {
	b, err := json.Marshal(map[string]string{"command": line})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// A target is a place outside of every sandbox that counts who reaches it.
type target struct {
	tcp, udp string
	reached  atomic.Int64
}

func newTarget(t *testing.T) *target {
	t.Helper()
	x := &target{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); u.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			x.reached.Add(1)
			c.Close()
		}
	}()
	go func() {
		b := make([]byte, 64)
		for {
			if _, _, err := u.ReadFrom(b); err != nil {
				return
			}
			x.reached.Add(1)
		}
	}()
	_, x.tcp, _ = net.SplitHostPort(l.Addr().String())
	_, x.udp, _ = net.SplitHostPort(u.LocalAddr().String())
	return x
}

// harms are commands of which each changes the workspace or reaches the target.
func (x *target) harms() []string {
	python := func(code string) string { return fmt.Sprintf("python3 -c %q", code) }
	return []string{
		"touch pwned", "echo x > old", "echo x >> old", ": > old", "rm -f old", "mv old moved", "mkdir made", "ln -s old link", "ln old hard",
		"cp old copy", "chmod 0700 old", "touch -d 1999-01-01 old", "truncate -s 0 old", "sed -i s/o/a/ old", "tee copy < old", "rm -rf sub",
		python("open('pwned', 'w')"), python("import os; os.close(os.open('old', os.O_RDONLY | os.O_TRUNC))"),
		"mv old /tmp/stolen",
		fmt.Sprintf("echo x > /dev/tcp/127.0.0.1/%s", x.tcp), fmt.Sprintf("echo x > /dev/udp/127.0.0.1/%s", x.udp),
		python("import socket; socket.create_connection(('127.0.0.1', " + x.tcp + "))"),
		python("import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', " + x.udp + "))"),
	}
}

// disguises are ways to hide a command from who reads the line: those by which lines once
// ran that nobody had allowed, and ordinary ones.
var disguises = []string{
	"%s", "(%s)", "{ %s; }", "eval '%[1]s'", "cat old; %s", "false || %s", "%s &\nwait",
	`: "${x:-'$(%s)'}"`, `: "${x:='$(%s)'}"`, ": \"${x:-'`%s`'}\"", "declare -a a='($(%s))'", "local() { :; }; readonly -A a='([k]=$(%s))'",
	": <<\"E\\$F\"\nE$F\n%s\nE\\$F", "x='a[$(%s)]'; : $((x))", "x='a[$(%s)]' bash -c ': $((x))'", "COLUMNS='a[$(%s)]' bash -c ': $((COLUMNS))'",
	"trap -- '%s' EXIT", "f() { %s; }; f", "coproc %s; wait", "env bash -c \"$(cat <<'END'\n%s\nEND\n)\"", "xargs -I{} bash -c '{}' <<'END'\n%s\nEND",
}

// populate fills a workspace, and gives everything in it that a command could change.
func populate(t interface{ Fatal(...any) }, ws string) {
	for name, content := range map[string]string{"old": "old content\n", "sub/inner": "inner\n"} {
		if err := os.MkdirAll(filepath.Dir(ws+"/"+name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ws+"/"+name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func workspaceOf(t interface{ Fatal(...any) }, ws string) string {
	var b strings.Builder
	err := filepath.Walk(ws, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		text := ""
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(content)
		}
		fmt.Fprintf(&b, "%s %v %v %q\n", path, info.Mode(), info.ModTime(), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestAWrongAnalysisHarmsNobody is the promise of a ceiling: whatever the analysis of a
// command line answers, a line that ran because "it only reads" has changed nothing and
// reached nobody. The tools have the whole network of the host here.
func TestAWrongAnalysisHarmsNobody(t *testing.T) {
	open := func(p *sandboxprofile.Profile) { p.Network.Mode = sandboxprofile.NetworkHost }
	f := newFixture(t, setup{mode: approval.Strict, profile: open, shell: func(s *shell.Tool) tools.Tool { return alwaysReads{s} }})
	populate(t, f.ws)
	x := newTarget(t)
	harms, before := x.harms(), workspaceOf(t, f.ws)
	check := func(t interface {
		Fatal(...any)
		Fatalf(string, ...any)
	}, line string) {
		r, e := f.call(context.Background(), "shell", command(line))
		if e != nil {
			t.Fatalf("%q: %v", line, e)
		}
		if after := workspaceOf(t, f.ws); after != before {
			t.Fatalf("%q changed the workspace:\n%s\nwas\n%s", line, after, before)
		}
		if n := x.reached.Load(); n != 0 {
			t.Fatalf("%q reached the target", line)
		}
		if r.Decision.Source != string(approval.SourceNotNeeded) || !strings.HasPrefix(r.EnforcedBy.Ceiling, "read: ") {
			t.Fatalf("%q: %+v, held by %+v", line, r.Decision, r.EnforcedBy)
		}
	}
	for _, harm := range harms {
		check(t, harm)
	}
	for _, disguise := range disguises {
		check(t, fmt.Sprintf(disguise, "touch pwned"))
	}
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.SampledFrom(harms).Draw(t, "harm")
		for range rapid.IntRange(0, 2).Draw(t, "layers") {
			line = fmt.Sprintf(rapid.SampledFrom(disguises).Draw(t, "disguise"), line)
		}
		check(t, line)
	})
}

// TestAPersonsAllowHasNoCeiling is the twin: the same lines do what they say once a
// person has allowed them, in the same sandbox.
func TestAPersonsAllowHasNoCeiling(t *testing.T) {
	open := func(p *sandboxprofile.Profile) { p.Network.Mode = sandboxprofile.NetworkHost }
	f := newFixture(t, setup{profile: open, fallback: &shell.Default{Allowed: true, Approval: true}})
	x := newTarget(t)
	f.say(t, approval.Answer{Allow: true})
	run := func(line string) {
		populate(t, f.ws)
		before, reached := workspaceOf(t, f.ws), x.reached.Load()
		r, e := f.call(context.Background(), "shell", command(line))
		if e != nil || r.EnforcedBy.Ceiling != "" || r.Decision.Action != approval.Approved {
			t.Errorf("%q: %v, %+v, %+v", line, e, r.Decision, r.EnforcedBy)
		}
		for range 1000 { // a datagram is on its way when its sender has ended
			if x.reached.Load() > reached || workspaceOf(t, f.ws) != before {
				return
			}
		}
		t.Errorf("%q did nothing: %+v", line, r)
	}
	for _, harm := range x.harms() {
		run(harm)
	}
	for _, disguise := range disguises[:7] {
		run(fmt.Sprintf(disguise, "touch pwned"))
		if err := os.Remove(f.ws + "/pwned"); err != nil {
			t.Error(err)
		}
	}
}

// TestWhatReadsIsFreeAndHeld: a command that only reads is not asked about; its plan, the
// log, the result and `why` say what holds it, and what it starts is what they name.
func TestWhatReadsIsFreeAndHeld(t *testing.T) {
	f := newFixture(t, setup{mode: approval.Strict, fallback: &shell.Default{Allowed: true, Approval: true}})
	populate(t, f.ws)
	for _, x := range []struct {
		line, out string
		programs  []string
	}{
		{"cat old", "old content\n", []string{"cat"}},
		{"cat old | sort -r; ls sub", "old content\ninner\n", []string{"bash", "cat", "ls", "sort"}},
		{"which cat > /dev/null && echo yes", "yes\n", nil}, // a script that the tables know
		{"cat < old > /tmp/kept && cat /tmp/kept", "old content\n", []string{"bash", "cat"}},
	} {
		r, e := f.call(context.Background(), "shell", command(x.line))
		if e != nil {
			t.Errorf("%q: %v", x.line, e)
			continue
		}
		if out := textOf(r); out != x.out || r.Decision.Rule != "shell.reads" || !strings.HasPrefix(r.EnforcedBy.Ceiling, "read: ") {
			t.Errorf("%q: %q, %+v, %+v", x.line, out, r.Decision, r.EnforcedBy)
		}
		for _, p := range x.programs {
			if !strings.Contains(r.EnforcedBy.Ceiling, p) {
				t.Errorf("%q: the ceiling does not name %s: %s", x.line, p, r.EnforcedBy.Ceiling)
			}
		}
	}
	for _, line := range []string{"touch new", "cat old > copy", "cat /etc/shadow"} {
		if r, e := f.call(context.Background(), "shell", command(line)); e == nil || e.Code != protocol.CodeDenied {
			t.Errorf("%q: %v, %+v", line, e, r)
		}
	}
	entries := 0
	for e, err := range audit.Query(f.logPath, audit.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == audit.KindDecision && strings.Contains(string(e.Data), `"ceiling":{"class":"read","programs":["/`) && strings.Contains(string(e.Data), `"class":"read"`) {
			entries++
		}
	}
	if entries != 4 {
		t.Errorf("%d decisions of the log name a ceiling, want 4", entries)
	}
}

// TestConfinedRunsWhatTheSandboxHolds: without rules a command changes the workspace, and
// what a rule asks about is asked about. Where the profile reaches further than that, or
// nobody holds the call, a person is asked.
func TestConfinedRunsWhatTheSandboxHolds(t *testing.T) {
	confined := &shell.Default{Allowed: true, Approval: true, Confined: true}
	f := newFixture(t, setup{mode: approval.Strict, fallback: confined, writes: true})
	populate(t, f.ws)
	for _, line := range []string{"touch new", "eval 'touch new2'", "sed -i s/old/new/ old", "python3 -c 'open(\"new3\", \"w\")'"} {
		r, e := f.call(context.Background(), "shell", command(line))
		if e != nil || r.ExitCode != 0 || r.EnforcedBy.Ceiling != "workspace: the profile gives no more" {
			t.Errorf("%q: %v, %+v", line, e, r)
		}
	}
	for _, name := range []string{"new", "new2", "new3"} {
		if _, err := os.Stat(f.ws + "/" + name); err != nil {
			t.Error(err)
		}
	}
	denied := func(f *fixture, line, why string) {
		t.Helper()
		if r, e := f.call(context.Background(), "shell", command(line)); e == nil || e.Code != protocol.CodeDenied {
			t.Errorf("%s: %q: %v, %+v", why, line, e, r)
		}
	}
	denied(f, "echo asked", "a rule asks")
	denied(f, "touch new4; echo asked", "a rule asks about a part")
	f = newFixture(t, setup{mode: approval.Strict, fallback: confined})
	populate(t, f.ws)
	denied(f, "cat old > new4", "writes of files are to be approved here")
	before := workspaceOf(t, f.ws)
	for _, line := range []string{"cp old new4", "tee new4 < old", "sed -i s/old/new/ old"} { // no text says so, and the kernel holds it
		if r, e := f.call(context.Background(), "shell", command(line)); e != nil || r.ExitCode == 0 || workspaceOf(t, f.ws) != before {
			t.Errorf("%q: %v, %+v", line, e, r)
		}
	}
	beyond := func(p *sandboxprofile.Profile) { p.Network.Mode = sandboxprofile.NetworkHost }
	wide := newFixture(t, setup{mode: approval.Strict, fallback: confined, profile: beyond})
	denied(wide, "touch new", "the network of the host is open")
	populate(t, wide.ws)
	if r, e := wide.call(context.Background(), "shell", command("cat old")); e != nil || textOf(r) != "old content\n" {
		t.Errorf("what reads is held there too: %v, %+v", e, r)
	}
	f = newFixture(t, setup{fallback: confined})
	if _, e := f.decideOn("shell", command("touch new"), protocol.AgentAsks); e == nil || e.Code != protocol.CodeApprovalRequired {
		t.Errorf("carried out elsewhere: %v", e)
	}
	if _, e := f.decideOn("shell", command("cat old"), protocol.AgentAsks); e == nil || e.Code != protocol.CodeApprovalRequired {
		t.Errorf("reading elsewhere: %v", e)
	}
}

var careful = &shell.Default{Allowed: true, Approval: true}

// TestWhatIsAskedAboutIsWithheld: a directory whose reads are to be approved is not there
// for a program that nobody was asked about, whatever its line says and whoever else let it
// run. The twin: who was asked has it.
func TestWhatIsAskedAboutIsWithheld(t *testing.T) {
	confined := &shell.Default{Allowed: true, Approval: true, Confined: true}
	for name, fallback := range map[string]*shell.Default{"by class": careful, "confined": confined, "by default": {Allowed: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, setup{fallback: fallback, asked: []string{"sub"}})
			populate(t, f.ws)
			f.say(t, approval.Answer{})
			unasked := []string{"grep -r inner .", "cat */inner", "cat s?b/inner", "ls -R"}
			if name != "by class" {
				unasked = append(unasked, "find . -type f -exec cat {} +", "tar -cf - . | strings", "for d in */; do cat $d/inner; done")
			}
			for _, line := range unasked {
				r, e := f.call(context.Background(), "shell", command(line))
				if e != nil || r.Decision.Source != string(approval.SourceNotNeeded) || strings.Contains(textOf(r), "inner\n") {
					t.Errorf("%q: %v, %q, %+v", line, e, textOf(r), r.Decision)
				} else if !strings.Contains(r.EnforcedBy.Ceiling, "nothing of "+f.ws+"/sub") {
					t.Errorf("%q: held by %+v", line, r.EnforcedBy)
				}
			}
			for _, line := range []string{"cat sub/inner", "cat < sub/inner", "cd sub && cat inner", "cat --squeeze-blank sub/inner", "dd if=sub/inner", "touch old; cat ./sub/../sub/inner"} {
				if r, e := f.call(context.Background(), "shell", command(line)); e == nil || e.Code != protocol.CodeDenied {
					t.Errorf("%q names it: %v, %+v", line, e, r)
				}
			}
			if r, e := f.call(context.Background(), "shell", `{"command": "cat inner", "dir": "sub"}`); e == nil || e.Code != protocol.CodeDenied {
				t.Errorf("it starts there: %v, %+v", e, r)
			}
			if _, err := os.Stat(f.ws + "/sub/inner"); err != nil {
				t.Error(err)
			}
		})
	}
	f := newFixture(t, setup{fallback: confined, asked: []string{"sub"}})
	populate(t, f.ws)
	f.say(t, approval.Answer{Allow: true})
	for _, line := range []string{"cat sub/inner", "cat sub/inner; grep -rh inner ."} {
		r, e := f.call(context.Background(), "shell", command(line))
		if e != nil || !strings.Contains(textOf(r), "inner\n") || r.Decision.Action != approval.Approved {
			t.Errorf("%q: %v, %q, %+v", line, e, textOf(r), r.Decision)
		}
	}
}

// TestARuleChangesNothingThatItDoesNotName: a directory whose writes are to be approved is read-only for
// a program that nobody was asked about, whoever let it run: calls that ask nobody write what a rule for the
// project runs. The twins: the directory in which commands start, one that the rule names, and who was asked.
func TestARuleChangesNothingThatItDoesNotName(t *testing.T) {
	const script = "import errno\nfor name in 'old', 'sub/inner':\n  try: open(name, 'a').write('more'); print('changed', name)\n  except OSError as e: print(errno.errorcode[e.errno], name)\n"
	confined := &shell.Default{Allowed: true, Approval: true, Confined: true}
	start := func(o setup) *fixture {
		o.kept = []string{"sub"}
		f := newFixture(t, o)
		populate(t, f.ws)
		writeFile(t, f.ws+"/all.py", script)
		return f
	}
	const words, argv = `{"command": "python3 all.py 1"}`, `{"argv": ["python3", "all.py", "1"]}`
	const neither, one, both = "EROFS old\nEROFS sub/inner\n", "changed old\nEROFS sub/inner\n", "changed old\nchanged sub/inner\n"
	check := func(name string, f *fixture, tool, args, want string) {
		t.Helper()
		if r, e := f.call(context.Background(), tool, args); e != nil || textOf(r) != want {
			t.Errorf("%s: %v, %q", name, e, textOf(r))
		}
	}
	check("by a rule", start(setup{fallback: confined, writes: true, unasked: "python3 all.py"}), "shell", words, one)
	check("by a rule, and the project asks too", start(setup{fallback: careful, unasked: "python3 all.py"}), "shell", words, one)
	check("by a rule beside one that names it", start(setup{fallback: confined, writes: true, unasked: "python3 all.py ./sub/x; uname"}), "shell",
		command("python3 all.py ./sub/x; uname > /dev/null"), one)
	check("by a rule beside what needs none", start(setup{fallback: confined, writes: true, unasked: "python3 all.py ./sub/x"}), "shell",
		command("cd .; python3 all.py ./sub/x; true ."), both)
	check("by a rule that names it", start(setup{fallback: confined, writes: true, unasked: "python3 all.py ./sub/x"}), "shell", command("python3 all.py ./sub/x"), both)
	check("by a default that allows", start(setup{writes: true}), "shell", command("cp old sub/inner 2>&1"), "cp: cannot create regular file 'sub/inner': Read-only file system\n")
	check("confined", start(setup{fallback: confined, writes: true}), "shell", words, one)
	check("confined, and the project asks too", start(setup{fallback: confined}), "shell", words, neither)
	f := start(setup{fallback: careful, writes: true})
	f.say(t, approval.Answer{Allow: true, Scope: approval.Session, Pattern: &approval.Pattern{Kind: approval.ArgvPrefix, Value: "python3 all.py"}})
	check("asked", f, "shell", words, both)
	check("by an answer to another call", f, "shell", command("python3 all.py 2"), one)
	check("asked, without a shell", f, "run", argv, both)
	check("by an answer to another call, without a shell", f, "run", `{"argv": ["python3", "all.py", "2"]}`, one)
}

// TestARuleChangesTheRootsThatItIsFor: a rule with sandbox_paths changes these roots and no other,
// whether the others ask before a write or not: a link, a default name of output leads nowhere. So does
// the confined default with a directory that takes writes unasked in one that asks.
func TestARuleChangesTheRootsThatItIsFor(t *testing.T) {
	confined := &shell.Default{Allowed: true, Approval: true, Confined: true}
	const readOnly = ": Read-only file system\n"
	for _, x := range []struct {
		name, line, want string
		setup            setup
	}{
		{"through a link, into one that asks", "cp sub/evil sub/in", "cp: cannot create regular file 'sub/in/evil'" + readOnly, setup{unasked: "cp"}},
		{"through a link, into one that asks nobody", "cp sub/evil sub/in", "cp: cannot create regular file 'sub/in/evil'" + readOnly, setup{unasked: "cp", writes: true}},
		{"by a default name", "split sub/evil", "split: xaa" + readOnly, setup{unasked: "split", writes: true}},
		{"beside a rule for all", "cp sub/evil sub/in; touch evil", "cp: cannot create regular file 'sub/in/evil'" + readOnly + "touch: cannot touch 'evil'" + readOnly,
			setup{unasked: "cp; touch", writes: true}},
		{"where it may", "cp -v sub/evil sub/copy", "'sub/evil' -> 'sub/copy'\n", setup{unasked: "cp"}},
		{"where it may, started there", "cd sub && cp -v evil copy", "'evil' -> 'copy'\n", setup{unasked: "cp", writes: true}},
		{"no rule, where it may", "cp -v sub/evil sub/copy", "'sub/evil' -> 'sub/copy'\n", setup{fallback: confined, free: []string{"sub"}, unasked: "none"}},
		{"no rule, through a link", "cp sub/evil sub/in", "cp: cannot create regular file 'sub/in/evil'" + readOnly, setup{fallback: confined, free: []string{"sub"}, unasked: "none"}},
	} {
		x.setup.mode, x.setup.within = approval.Strict, []string{"sub"}
		if x.setup.fallback == nil {
			x.setup.fallback, x.setup.kept = careful, []string{"sub"}
		}
		f := newFixture(t, x.setup)
		if err := os.MkdirAll(f.ws+"/sub/in", 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, f.ws+"/sub/evil", "evil")
		writeFile(t, f.ws+"/evil", "precious")
		if err := os.Symlink("../../evil", f.ws+"/sub/in/evil"); err != nil {
			t.Fatal(err)
		}
		r, e := f.call(context.Background(), "shell", command("{ "+x.line+"; } 2>&1"))
		content, err := os.ReadFile(f.ws + "/evil")
		if err != nil || string(content) != "precious" || e != nil || textOf(r) != x.want {
			t.Errorf("%s: %v, %q, want %q; the workspace has %q", x.name, e, textOf(r), x.want, content)
		}
	}
}

// TestARedirectionLeadsWhereItWasDecided: a line whose commands only read writes where the path rules let it, and
// nowhere that asks, also where a call before it in its batch has turned the name since.
func TestARedirectionLeadsWhereItWasDecided(t *testing.T) {
	for to, want := range map[string]string{"sub/turned": "precious", "sub/out": "precious"} {
		f := newFixture(t, setup{mode: approval.Strict, fallback: careful, unasked: "sh sub/link.sh; cat", within: []string{"sub"}, free: []string{"sub"}})
		if err := os.MkdirAll(f.ws+"/sub", 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, f.ws+"/sub/link.sh", "ln -s ../precious sub/turned")
		writeFile(t, f.ws+"/sub/evil", "evil")
		writeFile(t, f.ws+"/precious", want)
		calls := f.batchOf(2)
		for i, line := range []string{"sh sub/link.sh", "cat sub/evil > " + to} {
			calls.Calls[i].Tool, calls.Calls[i].Args = "shell", json.RawMessage(command(line))
		}
		got := f.batch(calls)
		if got[0].Error != nil {
			t.Errorf("the link: %v", got[0].Error)
		}
		if content, err := os.ReadFile(f.ws + "/precious"); err != nil || string(content) != want {
			t.Errorf("what asks has %q, %v", content, err)
		}
		if content, err := os.ReadFile(f.ws + "/sub/out"); to == "sub/out" && (err != nil || string(content) != "evil") {
			t.Errorf("what does not ask has %q, %v, %v", content, err, got[1].Error)
		}
	}
}

// TestWhatCallsLeaveInTmp: what a call leaves in /tmp that nobody was asked about and that no rule speaks of is not
// there for one that a rule or an answer lets be more, unless somebody was told that it is. The twins:
// calls that have nothing more, a call and the next one of the same rule, and a command that names /tmp.
func TestWhatCallsLeaveInTmp(t *testing.T) {
	const nothing = "cat: /tmp/x: No such file or directory\n"
	confined := &shell.Default{Allowed: true, Approval: true, Confined: true}
	start := func(o setup) (f *fixture, check func(line, want string)) {
		o.unasked, o.confiner = "sh one.sh; sh two.sh", standing
		o.timeout = 10 * time.Second
		f = newFixture(t, o)
		for _, name := range []string{"one", "two", "asked"} {
			writeFile(t, f.ws+"/"+name+".sh", "cat /tmp/x; echo "+name+" > /tmp/x\n")
		}
		return f, func(line, want string) {
			t.Helper()
			if r, e := f.call(context.Background(), "shell", command(line+" 2>&1")); e != nil || textOf(r) != want {
				t.Errorf("%s: %v, %q, want %q", line, e, textOf(r), want)
			}
		}
	}
	f, check := start(setup{fallback: careful})
	check("echo planted > /tmp/x", "")
	check("sh one.sh", nothing)
	check("sh one.sh", "one\n")
	check("sh two.sh", nothing)
	check("sh two.sh 2>&1; sh one.sh", nothing+"two\n")
	check("sh one.sh", "one\n")
	check("cat /tmp/x", "planted\n")

	told, scope, pattern := "", approval.Once, (*approval.Pattern)(nil)
	f.answer(t, func(p approval.Pending) {
		told = p.Details["caution"] + p.Once
		f.mustAnswer(t, p, approval.Answer{Allow: true, Scope: scope, Pattern: pattern, Approver: "test"})
	})
	check("sh asked.sh", nothing)
	if strings.Contains(told, "/tmp") {
		t.Errorf("a command that does not name /tmp is asked about with %q", told)
	}
	check("sh -x /tmp/x", "+ planted\n/tmp/x: 1: planted: not found\n")
	if n := strings.Count(told, "it names /tmp, where calls that ran without a prompt may have left files"); n != 2 {
		t.Errorf("a command that names /tmp is asked about with %q", told)
	}
	scope, pattern = approval.Session, &approval.Pattern{Kind: approval.ArgvPrefix, Value: "cp /tmp/x"}
	check("cp /tmp/x new", "")
	check("cp /tmp/x new", "cp: cannot stat '/tmp/x': No such file or directory\n") // what is there by now nobody was told
	pattern = nil
	const again = `mkdir -p made; cat "/t"mp/x; echo again > "/t"mp/x`
	check(again, nothing)
	check(again, nothing) // an answer that is remembered is not one that somebody has just given
	check(again, "again\n")
	check(again+" ", nothing)
	check("cat /tmp/x", "planted\n")

	for _, o := range []setup{{fallback: confined, writes: true}, {}} {
		f, check = start(o)
		f.say(t, approval.Answer{Allow: true})
		check("echo planted > /tmp/x; mkdir -p made", "")
		check("sh one.sh", "planted\n")
		check(`echo asked; cat "/t"mp/x`, "asked\n"+nothing)
		check("echo asked; cat /tmp/x", "asked\none\n")
	}
	_, check = start(setup{fallback: careful, mode: approval.ApproveAll})
	check("echo planted > /tmp/x", "")
	check("sh asked.sh", "planted\n")
}

// TestACheckTellsNoContentThatIsAskedAbout: what would be asked about before it is read is
// not told by what the plan holds of it.
func TestACheckTellsNoContentThatIsAskedAbout(t *testing.T) {
	f := newFixture(t, setup{fallback: careful, asked: []string{"sub"}})
	populate(t, f.ws)
	for name, told := range map[string]bool{"sub/inner": false, "old": true} {
		r, err := f.Check(context.Background(), self, protocol.ToolsCall{SessionID: f.session, CallID: "check", Tool: "shell", Args: []byte(command("bash " + name))})
		if err != nil || r.Decision != protocol.CheckAsk || strings.Contains(string(r.Plan), `"sha256"`) != told || (r.PlanDigest != "") != told {
			t.Errorf("%s: %v, %s, %s", name, err, r.PlanDigest, r.Plan)
		}
	}
}

// textOf is what a call has written.
func textOf(r protocol.CallResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

// TestAnAnswerToAnotherCallOpensNothing: what a remembered pattern or a standing rule lets run
// has no more than a rule of the configuration would give it: nothing of what is asked about
// before it is read, and with the network of the host nothing that calls may change. The
// twin is an answer to the very call.
func TestAnAnswerToAnotherCallOpensNothing(t *testing.T) {
	const all = `python3 all.py `
	script := "import os, sys\nprint('ran', os.listdir('sub'), len(sys.argv))\n"
	f := newFixture(t, setup{fallback: careful, unasked: "cat", asked: []string{"sub"}})
	populate(t, f.ws)
	if err := os.WriteFile(f.ws+"/all.py", []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	var asked int
	answer := approval.Answer{Allow: true, Approver: "test", Scope: approval.Session}
	f.answer(t, func(p approval.Pending) {
		asked++
		f.mustAnswer(t, p, answer)
	})
	call := func(tool, args string, questions int, inner bool) {
		t.Helper()
		asked = 0
		r, e := f.call(context.Background(), tool, args)
		if e != nil || asked != questions || strings.Contains(textOf(r), "inner") != inner {
			t.Errorf("%s %s: %v, %d questions, %q", tool, args, e, asked, textOf(r))
		}
	}
	call("shell", command(all+"1"), 1, true)
	call("shell", command(all+"1"), 0, true)              // the very call
	for _, target := range []string{"old", "sub/inner"} { // the same words, which lead elsewhere
		if err := errors.Join(os.RemoveAll(f.ws+"/link"), os.Symlink(target, f.ws+"/link")); err != nil {
			t.Fatal(err)
		}
		call("shell", command(all+"link"), 1, true)
		call("shell", command(all+"link"), 0, true)
		call("run", `{"argv": ["python3", "all.py", "link"]}`, 1, true)
		call("run", `{"argv": ["python3", "all.py", "link"]}`, 0, true)
	}
	answer.Pattern = &approval.Pattern{Kind: approval.ArgvPrefix, Value: "python3 all.py"}
	call("shell", command(all+"2"), 1, true)
	call("run", `{"argv": ["python3", "all.py", "2"]}`, 1, true)
	call("shell", command(all+"3"), 0, false)
	call("run", `{"argv": ["python3", "all.py", "3"]}`, 0, false)
	answer = approval.Answer{Allow: true, Approver: "test"}
	call("shell", command(all+"sub/inner"), 1, true)
	call("shell", command(all+"3; cat sub/inner"), 1, true)
	call("run", `{"argv": ["python3", "all.py", "sub/inner"]}`, 1, true)

	rules, err := approval.NewRules(approval.Rule{ID: "all", Effect: approval.Allow, Tool: "shell"})
	if err != nil {
		t.Fatal(err)
	}
	f.approvals.SetRules(rules)
	call("shell", command("python3 ./all.py"), 0, false)

	f = newFixture(t, setup{fallback: careful, unasked: "python3 gen.py", writes: true, profile: func(p *sandboxprofile.Profile) { p.Network.Mode = sandboxprofile.NetworkHost }})
	if err := os.WriteFile(f.ws+"/gen.py", []byte("print('ran')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	answer = approval.Answer{Allow: true, Approver: "test", Scope: approval.Session, Pattern: &approval.Pattern{Kind: approval.ArgvPrefix, Value: "touch notes"}}
	f.answer(t, func(p approval.Pending) {
		asked++
		f.mustAnswer(t, p, answer)
	})
	call("shell", command("touch notes"), 1, false)
	call("shell", command("touch notes"), 0, false)
	answer = approval.Answer{Allow: true, Approver: "test"}
	call("shell", command("touch notes; python3 gen.py"), 1, false)
}

// TestACommandGoesWhereItWasShownToGo: a link that is turned while a question about a command waits is a denial, in
// the directory it starts in and in any word; what is remembered is asked about again. The twins turn nothing.
func TestACommandGoesWhereItWasShownToGo(t *testing.T) {
	f := newFixture(t, setup{fallback: careful, writes: true})
	turn := func(target string) {
		if err := errors.Join(os.RemoveAll(f.ws+"/d"), os.Symlink(target, f.ws+"/d")); err != nil {
			t.Fatal(err)
		}
	}
	asked, turned := 0, false
	answer := approval.Answer{Allow: true, Approver: "test"}
	f.answer(t, func(p approval.Pending) {
		if asked++; turned {
			turn("b")
		}
		f.mustAnswer(t, p, answer)
	})
	for _, plain := range []bool{true, false} { // d is a directory, or a link already
		for _, x := range []struct{ tool, args string }{
			{"shell", command("touch d/new")},
			{"shell", command("cd d && touch new")},
			{"shell", command("dd status=none if=/dev/null of=d/new")},
			{"shell", command("touch . > d/new")},
			{"shell", command("touch q* d/new")},
			{"shell", command(`touch "$PWD" 'd/new'`)},
			{"shell", command("touch d/[n]ew")},
			{"shell", `{"command": "touch new", "dir": "d"}`},
			{"run", `{"argv": ["touch", "d/new"]}`},
			{"run", `{"argv": ["touch", "new"], "dir": "d"}`},
		} {
			for _, turned = range []bool{false, true} {
				if err := errors.Join(os.RemoveAll(f.ws+"/a"), os.RemoveAll(f.ws+"/b"), os.MkdirAll(f.ws+"/a", 0o755), os.MkdirAll(f.ws+"/b", 0o755)); err != nil {
					t.Fatal(err)
				}
				if turn("a"); plain {
					if err := errors.Join(os.RemoveAll(f.ws+"/d"), os.Mkdir(f.ws+"/d", 0o755)); err != nil {
						t.Fatal(err)
					}
				}
				r, e := f.call(context.Background(), x.tool, x.args)
				_, err := os.Lstat(f.ws + "/b/new")
				drifts := turned && (plain || !strings.Contains(x.args, "dir")) // the directory that was shown is where the link led
				if moved := err == nil; moved || (e != nil) != drifts || e != nil && !strings.Contains(e.Message, "its links changed") {
					t.Errorf("%s %s, turned: %v, a plain directory: %v: %v, %q, ran elsewhere: %v", x.tool, x.args, turned, plain, e, textOf(r), moved)
				}
			}
		}
	}
	turned, answer.Scope = false, approval.Session
	for _, x := range []struct {
		target string
		asked  int
	}{{"a", 1}, {"a", 0}, {"b", 1}, {"b", 0}, {"a", 0}} {
		turn(x.target)
		asked = 0
		if _, e := f.call(context.Background(), "shell", command("touch d/remembered")); e != nil || asked != x.asked {
			t.Errorf("remembered, and d leads to %s: %v, %d questions, want %d", x.target, e, asked, x.asked)
		}
	}
}

// TestNoOtherToolFindsWhatARuleLeaves: a tool and a rule of one name have each their own /tmp.
func TestNoOtherToolFindsWhatARuleLeaves(t *testing.T) {
	of := func(tool string) string {
		p := tools.Proposal{Plan: tools.Plan{Tool: tool}, Apart: []tools.Speaks{{Words: "pytest"}}}
		return bounds.Shares(p, approval.Decision{Source: approval.SourceNotNeeded}, approval.Interactive)
	}
	tool, rule, again := of("shell"), of("pytest"), of("shell")
	if tool == rule || tool != again {
		t.Errorf("%q, %q, %q", tool, rule, again)
	}
}
