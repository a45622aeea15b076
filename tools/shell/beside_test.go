package shell

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// TestReadingRunsBesideNothingElse: what runs since tables say that it only reads is held to
// that by the kernel, or asked about: a rule by name for another command of the line, which
// takes the ceiling from all of it, takes nothing from this. What cannot be misread to any
// harm runs beside anything.
func TestReadingRunsBesideNothingElse(t *testing.T) {
	const rules = "go test;ro:sed;awk;ro:find;ro:rg;ro:git log;ro:git status;ro:cat;ro:jq;ro:sort"
	for command, want := range map[string]tools.Effect{
		"go test; sed -n 1p f": tools.Ask, "go test | rg x": tools.Ask, "git log -1 && go test": tools.Ask, "go test | sort -u": tools.Ask,
		"go test | awk '{print $1}'": tools.Ask, "find . -exec cat {} + && go test": tools.Ask, "find . -name $x; go test": tools.Ask,
		"sh -c 'rg x f'; go test": tools.Ask, "timeout 9 sed -n 1p f | go test": tools.Ask, "echo $(sed -n 1p f; go test)": tools.Ask,
		"go test; cat f": tools.Allow, "go test | jq .": tools.Allow, "git status; go test": tools.Allow, // all its words are the rule's
		"find . -name '*.go' -mtime -1; go test": tools.Allow, "sed -n 1p f | rg x": tools.Allow, "git log -1": tools.Allow, "cd sub; go test": tools.Allow,
	} {
		if d := decideFor(t, rules, command); d.Effect != want {
			t.Errorf("%q: %v, want %v: %+v", command, d.Effect, want, d.Parts)
		}
		if d := decideFor(t, "allow:*;"+rules, command); d.Effect != tools.Allow {
			t.Errorf("%q: %v, where the default allows: %+v", command, d.Effect, d.Parts)
		}
	}
	confined := &Tool{Config: Config{Default: Default{Allowed: true, Approval: true, Confined: true}}}
	for command, want := range map[string]sandboxprofile.Class{
		"go test; sed -n 1p f": sandboxprofile.ClassWorkspace, "sed -n 1p f | rg x": sandboxprofile.ClassRead, "go test; cat f": sandboxprofile.ClassBeyond,
	} {
		_, list := rulesOf(t, rules)
		d, class := confined.settled(mustPolicy(t, confined.Default, list).Decide(command, "bash"))
		if d.Effect != tools.Allow || class != want {
			t.Errorf("confined %q: %v, class %v, want %v", command, d.Effect, class, want)
		}
	}
}

// TestWhereNothingHolds: a call that an agent carries out itself is spared the question where nothing needs to be
// held: by a list of whole commands, or by a rule that has each word where the configuration keeps nobody from
// the network. What any reading of words lets run is asked about, as is whatever a configuration has the sandbox keep.
func TestWhereNothingHolds(t *testing.T) {
	home := func(f *fixture) {
		f.config.Profile.Scratch = append(f.config.Profile.Scratch, f.path("home"))
		f.config.Profile.Paths[f.path("home")] = sandboxprofile.Read
	}
	host := func(f *fixture) { f.config.Profile.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkHost} }
	asksIn := func(f *fixture) { f.config.Paths.Rules[0].ReadApproval = true }
	exact := func(pattern string, change func(*sandboxprofile.Profile)) Rule {
		r := allowing(pattern)
		if r.Exact = true; change != nil {
			b := sandboxprofile.Top()
			change(&b)
			r.Bound = &b
		}
		return r
	}
	oneHost := func(p *sandboxprofile.Profile) {
		p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"a.example"}}}
	}
	short := func(p *sandboxprofile.Profile) { p.Limits.Pids = 9 }
	reviewed := exact("date -u", func(*sandboxprofile.Profile) {})
	reviewed.Review = true
	rooted := exact("touch x", nil)
	rooted.SandboxPaths = []string{"workspace"}
	all := Default{Allowed: true}
	for _, x := range []struct {
		name     string
		rules    []Rule
		fallback Default
		change   func(*fixture)
		asks     []string
		runs     []string
	}{
		{"no rule", nil, Default{Allowed: true, Approval: true}, home, []string{"ls ~", "ls -R", "ls -la .", "ls; ls", "ls > x", "x=1; ls", "ls *", "$(ls)", "cd ~; ls", "cat a.txt", "git diff", "ls&"}, []string{"ls", "ls -la", " 'ls'  -l", "pwd", "git status"}},
		{"rules by name", []Rule{allowing("echo"), readOnly("cat"), readOnly("grep"), readOnly("git log"), readOnly("jq"), allowing("curl"), allowing("touch")}, Default{Allowed: true, Approval: true}, host,
			[]string{"cat a.txt", "cat ~/.ssh/key", "cat */*", "grep -R x .", "echo x", "echo x > new.txt", "git log", "jq -n env", "curl http://a.example/", "touch x", "http_proxy=http://h/; curl http://a.example/", "npm_config_x=y; echo x"}, []string{"ls"}},
		{"exact, and no word of the network", []Rule{exact("date -u", nil)}, Default{Allowed: true, Approval: true}, nil, []string{"date -u"}, nil},
		{"exact, where the configuration has the host's", []Rule{exact("date -u", nil)}, Default{Allowed: true, Approval: true}, host, []string{"date -u +%s", "date -u; ls", "x=1 date -u", "LANG=C date -u", "date -u > x", "cd sub && date -u"}, []string{"date -u"}},
		{"exact, and a host", []Rule{exact("date -u", oneHost), exact("ls", oneHost)}, Default{Allowed: true, Approval: true}, host, []string{"date -u", "ls"}, []string{"pwd"}},
		{"exact, and a limit", []Rule{exact("date -u", short)}, Default{Allowed: true, Approval: true}, host, []string{"date -u"}, nil},
		{"exact, and reviewed", []Rule{reviewed}, Default{Allowed: true, Approval: true}, host, []string{"date -u"}, nil},
		{"exact, beside what is asked about", []Rule{exact("date -u", nil)}, Default{Allowed: true, Approval: true}, func(f *fixture) { host(f); asksIn(f) }, []string{"date -u", "ls"}, nil},
		{"exact, for some directories", []Rule{rooted, exact("touch y", nil)}, Default{Allowed: true, Approval: true}, host, []string{"touch x"}, []string{"touch y"}},
		{"all, and no word of the network", nil, all, nil, []string{"touch x"}, []string{"ls"}},
		{"all, on the host's", nil, all, host, nil, []string{"touch x", "cat a.txt | tr a b"}},
		{"all, and a rule for a host", []Rule{{Pattern: "curl", Bound: exact("x", oneHost).Bound}}, all, host, []string{"curl http://a.example/"}, []string{"touch x"}},
		{"confined", nil, Default{Allowed: true, Approval: true, Confined: true}, host, []string{"touch x", "cat a.txt"}, []string{"ls"}},
	} {
		f := newFixture(t, x.rules...)
		f.must(t, os.Remove(f.path("ws/ls"))) // calls could change it
		if f.config.Default = x.fallback; x.change != nil {
			x.change(&f)
		}
		asked := func(command, dir string) bool {
			p, err := f.tool(t).Plan(tools.Call{Args: call(map[string]any{"command": command, "dir": dir}).Args, Elsewhere: true})
			if err != nil {
				t.Fatalf("%s: %q: %v", x.name, command, err)
			}
			return p.Request != nil || p.Unheld != nil
		}
		for _, command := range x.asks {
			if !asked(command, f.path("ws")) {
				t.Errorf("%s: %q is not asked about", x.name, command)
			}
		}
		for _, command := range x.runs {
			if asked(command, f.path("ws")) {
				t.Errorf("%s: %q is asked about", x.name, command)
			}
			if x.name == "no rule" && !asked(command, f.path("home")) {
				t.Errorf("%q is not asked about in the user's HOME", command)
			}
		}
	}
}

// TestProgramsOfALine: several programs that rules let run write nothing to HOME, where each looks for orders, by
// whatever words or links. One alone does, and several beside which nothing takes orders.
func TestProgramsOfALine(t *testing.T) {
	list := []Rule{allowing("cp"), allowing("git add"), allowing("git status"), allowing("tar"), allowing("curl http://a/"), readOnly("cat"), allowing("mkdir")}
	for command, want := range map[string]bool{
		"cp doc/rc ~/.gitconfig; git add a.txt": true, "cp -rt.. a.txt; git status": true, "tar xPf a.txt && git add a.txt": true, "git add a.txt | tar tf -": true,
		"find . -exec cp {} sub ';'; git add a.txt": true, "sh -c 'cp a.txt b; git add a.txt'": true, "git add $(cp a.txt b)": true, "cp a.txt b; ./run.sh": true,
		"cp a.txt ~/.gitconfig": false, "git add a.txt": false, "timeout 9 git add a.txt": false, "cp a.txt b; cat a.txt | wc -l": false, "mkdir d; cp a.txt d": false, "cat a.txt; ls": false,
	} {
		f := newFixture(t, list...)
		p, err := f.tool(t).Plan(call(map[string]any{"command": command}))
		if err != nil || p.EmptyHome != want {
			t.Errorf("%q: empty HOME %t, want %t (%v)", command, p.EmptyHome, want, err)
		}
		f.config.Default = Default{Allowed: true}
		if p, err := f.tool(t).Plan(call(map[string]any{"command": command})); err != nil || p.EmptyHome {
			t.Errorf("%q: empty HOME where all is allowed (%v)", command, err)
		}
	}
}

// TestPatternsLetNothingUnheldRun: what a remembered pattern allows stands beside as little.
func TestPatternsLetNothingUnheldRun(t *testing.T) {
	d, list := rulesOf(t, "ro:sed;ro:cat")
	p := mustPolicy(t, d, list).with(patterns("go test"))
	for command, left := range map[string]int{"go test; sed -n 1p f": 1, "go test; cat f": 0, "go test": 0} {
		if n := asks(p.Decide(command, "bash")); n != left {
			t.Errorf("%q: %d left to ask about, want %d", command, n, left)
		}
	}
}

// TestARuleForOnePlace: a rule that names an address is for no other, and for no data that it does not name.
func TestARuleForOnePlace(t *testing.T) {
	for command, want := range map[string]tools.Effect{
		"curl http://a/ http://b/": tools.Ask, "curl http://a/ -d @f": tools.Ask, "curl http://a/ --json @f": tools.Ask, "curl http://a/ -H @f": tools.Ask,
		"curl http://a/ -X DELETE": tools.Ask, "curl http://a/ -d@f": tools.Ask, "curl http://a/ --data=@f": tools.Ask, "curl http://a/ --url http://b/": tools.Ask,
		"curl http://a/ $x": tools.Ask, "curl http://a/ -- http://b/": tools.Ask, "rsync -a d h:e f i:j": tools.Ask, "dig a.example b.example": tools.Ask,
		"wget -q http://a/ http://b/": tools.Ask, "http GET http://b/": tools.Ask, "curl http://a/ -sSf": tools.Allow, "curl http://a/": tools.Allow,
		"rsync -a d h:e -v": tools.Allow, "wget -q http://a/": tools.Allow,
	} {
		if d := decideFor(t, "curl http://a/;rsync -a d h:e;wget -q http://a/;dig a.example;http GET", command); d.Effect != want {
			t.Errorf("%q: %v, want %v: %+v", command, d.Effect, want, d.Parts)
		}
	}
	for _, command := range []string{"curl http://b/", "curl -s http://b/ -d x"} {
		if d := decideFor(t, "curl", command); d.Effect != tools.Allow {
			t.Errorf("%q: %v under a rule for any address: %+v", command, d.Effect, d.Parts)
		}
	}
	if (Rule{Pattern: "curl", Approval: new(bool)}).Caution() == "" || (Rule{Pattern: "curl http://a/", Approval: new(bool)}).Caution() != "" {
		t.Error("a rule for any address says so, and one for an address does not")
	}
}

// TestXargsTakesTheLastOption: of -I, -L and -n xargs heeds the last, and appends words after
// the latter two. The real xargs says which.
func TestXargsTakesTheLastOption(t *testing.T) {
	for _, options := range []string{"-I QQ", "-iQQ", "-I QQ -n 9", "-n 9 -I QQ", "-I QQ -L 2", "-L 2 -I QQ", "-I QQ -n 1", "-n 1 -I QQ", "-iQQ -l2", "-I QQ -d X -n 2", "-n 2", ""} {
		command := "xargs " + options + " printf %s@ a"
		c := exec.Command("sh", "-c", command)
		c.Stdin = strings.NewReader("one\n")
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		allowed := decideFor(t, "exact:printf %s@ a", command).Effect == tools.Allow
		if appends := strings.Contains(string(out), "one"); appends && allowed {
			t.Errorf("%s appends its input, and is allowed by a rule without it", command)
		}
		if want := options == "-I QQ" || options == "-iQQ"; allowed != want {
			t.Errorf("%s: allowed %v, want %v", command, allowed, want)
		}
	}
}

// TestAnAssignmentThatMayFail: dash assigns nothing where a redirection fails.
func TestAnAssignmentThatMayFail(t *testing.T) {
	for command, want := range map[string]tools.Effect{
		"sh -c 'x=a < missing; ls $x'": tools.Ask, "x=a < missing; ls $x": tools.Ask, "sh -c 'x=a; ls $x'": tools.Allow,
	} {
		if d := decideFor(t, "exact:ls a", command); d.Effect != want {
			t.Errorf("%q: %v, want %v: %+v", command, d.Effect, want, d.Parts)
		}
	}
	out, err := exec.Command("dash", "-c", "x=a < missing; echo \"[$x]\"").Output()
	if err != nil || string(out) != "[]\n" {
		t.Errorf("dash says %q, %v: does it assign now?", out, err)
	}
}
