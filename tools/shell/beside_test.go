package shell

import (
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

// TestWhereNothingHolds: a call that an agent carries out itself is spared the question by a
// person's word for its words, and not by a table.
func TestWhereNothingHolds(t *testing.T) {
	f := newFixture(t, allowing("echo"), Rule{Pattern: "git log", Approval: new(bool), ReadOnly: true}, Rule{Pattern: "cat", Approval: new(bool), ReadOnly: true})
	for command, asks := range map[string]bool{
		"git log --oneline": true, "xargs -n 9 -I X git log": true, "ls": true, "git log": false, "cat f": false, "echo x": false, "echo x | cat": false,
	} {
		p, err := f.tool(t).Plan(tools.Call{Args: call(map[string]any{"command": command}).Args, Elsewhere: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Request != nil || p.Unheld != nil; got != asks {
			t.Errorf("%q: asked about: %v, want %v", command, got, asks)
		}
	}
}

// TestNothingIsPrivateElsewhere: a call that an agent carries out itself has the user's HOME and /tmp, in
// which the sandbox would have nothing of theirs.
func TestNothingIsPrivateElsewhere(t *testing.T) {
	f := newFixture(t, readOnly("cat"), readOnly("grep"), allowing("echo"))
	f.config.Profile.Scratch = append(f.config.Profile.Scratch, f.path("home"))
	f.config.Profile.Paths[f.path("home")] = sandboxprofile.Read
	for command, asks := range map[string]bool{
		"cat ~/.ssh/key": true, "cat " + f.path("home/.ssh/key"): true, "grep -r . ~/.aws": true, "cat /tmp/scratch-of-the-sandbox/other": true,
		"cat < ~/.ssh/key": true, "cd ~ && cat .ssh/key": true, "echo x > /tmp/scratch-of-the-sandbox/x": true, "cat a.txt": false, "echo x > new.txt": false,
	} {
		for _, elsewhere := range []bool{true, false} {
			p, err := f.tool(t).Plan(tools.Call{Args: call(map[string]any{"command": command}).Args, Elsewhere: elsewhere})
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Request != nil || elsewhere && p.Unheld != nil; got != (asks && elsewhere) {
				t.Errorf("%q, elsewhere %t: asked about: %t", command, elsewhere, got)
			}
		}
	}
	for _, rule := range []Rule{allowing("jq"), readOnly("jq")} {
		f.config.Rules = []Rule{rule}
		for command, asks := range map[string]bool{
			`jq -n 'import "cred" as $d {search: "~/.config"}; $d'`: true, `jq -r .env a.txt`: false, `jq -n '$ENV.TOKEN'`: true, `jq -e 'env'`: true, `jq`: false,
		} {
			p, err := f.tool(t).Plan(tools.Call{Args: call(map[string]any{"command": command}).Args, Elsewhere: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Request != nil || p.Unheld != nil; got != asks {
				t.Errorf("%q by %+v: asked about: %t", command, rule, got)
			}
		}
	}
	p, err := f.tool(t).Plan(tools.Call{Args: call(map[string]any{"command": "cat .ssh/key", "dir": f.path("home")}).Args, Elsewhere: true})
	if err != nil || p.Request == nil {
		t.Errorf("in the user's HOME: %+v, %v", p.Request, err)
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
