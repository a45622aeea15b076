package shell

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/tools"
)

// tiered gives rules to a tier.
func tiered(name string, narrows bool, list []Rule) []Rule {
	list = slices.Clone(list)
	for i := range list {
		list[i].Tier, list[i].Narrows = name, narrows
	}
	return list
}

func policyOfTiers(t testing.TB, d Default, closed []string, rules ...[]Rule) *Policy {
	t.Helper()
	p, err := newPolicy(d, closed, slices.Concat(rules...), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestStrictestTierDecides walks what two files can say about one command.
func TestStrictestTierDecides(t *testing.T) {
	const ask, allow, deny = tools.Ask, tools.Allow, tools.Deny
	for _, c := range []struct {
		admin, user, workspace string // the last is not trusted
		closed                 []string
		command                string
		want                   tools.Effect
	}{
		{"ls", "", "", nil, "ls", allow},
		{"", "ls", "", nil, "ls", allow},
		{"", "", "ls", nil, "ls", ask}, // it cannot allow
		{"", "ls", "ask:ls", nil, "ls", ask},
		{"", "ls", "deny:ls", nil, "ls", deny},
		{"ask:git", "git status", "", nil, "git status", ask},
		{"git status", "ask:git", "", nil, "git status", ask},
		{"deny:git push", "git", "git push", nil, "git push", deny},
		{"deny:rm", "ls", "", nil, "ls", allow},
		{"", "ls", "ls -l;ask:ls", nil, "ls -l", allow}, // the first of its own that matches speaks for it
		{"", "ls", "ls -l;ask:ls", nil, "ls -a", ask},
		{"ls", "make", "", []string{"admin"}, "make", deny},
		{"ls", "make", "", []string{"admin"}, "ls", allow},
		{"ls", "make", "", []string{"user"}, "ls", deny},
		{"ls", "make", "", []string{"workspace"}, "ls", deny},
		{"ls", "make", "ls", []string{"workspace"}, "ls", allow},
		{"ls", "make", "ls", []string{"workspace"}, "ls; make", deny},
	} {
		d := Default{Allowed: len(c.closed) == 0, Approval: true}
		_, admin := rulesOf(t, c.admin)
		_, user := rulesOf(t, c.user)
		_, workspace := rulesOf(t, c.workspace)
		p := policyOfTiers(t, d, c.closed, tiered("user", false, user), tiered("admin", false, admin), tiered("workspace", true, workspace))
		for _, q := range []*Policy{p, p.In("/elsewhere"), p.copied()} {
			if got := q.Decide(c.command, "bash"); got.Effect != c.want {
				t.Errorf("admin %q, user %q, workspace %q, closed %v: %q is %v by %q, want %v", c.admin, c.user, c.workspace, c.closed, c.command, got.Effect, got.Label(), c.want)
			}
		}
	}
}

// TestRulesThatNarrowNeverLoosen adds the rules of a file that is not trusted, and
// what it denies by default, to any rules.
func TestRulesThatNarrowNeverLoosen(t *testing.T) {
	commands := corpusCommands(t)
	rapid.Check(t, func(rt *rapid.T) {
		d, user := rulesOf(t, drawRules(rt))
		_, admin := rulesOf(t, drawRules(rt))
		_, workspace := rulesOf(t, drawRules(rt))
		command := rapid.SampledFrom(commands).Draw(rt, "command")
		trusted := slices.Concat(tiered("user", false, user), tiered("admin", false, admin))
		before := policyOfTiers(t, d, nil, trusted).Decide(command, "bash")
		var closed []string
		after := d
		if rapid.Bool().Draw(rt, "closed") {
			closed, after = []string{"workspace"}, Default{}
		}
		narrowed := policyOfTiers(t, after, closed, trusted, tiered("workspace", true, workspace))
		if got := narrowed.Decide(command, "bash"); got.Effect > before.Effect {
			rt.Fatalf("%q: %v without the file, %v by %q with it", command, before.Effect, got.Effect, got.Label())
		}
	})
}

// TestNoTierLoosensAnother: where one tier asks or denies by a rule, so do all tiers
// together.
func TestNoTierLoosensAnother(t *testing.T) {
	commands := corpusCommands(t)
	silent := Default{Allowed: true}
	rapid.Check(t, func(rt *rapid.T) {
		d, user := rulesOf(t, drawRules(rt))
		_, admin := rulesOf(t, drawRules(rt))
		command := rapid.SampledFrom(commands).Draw(rt, "command")
		together := policyOfTiers(t, d, nil, tiered("user", false, user), tiered("admin", false, admin)).Decide(command, "bash")
		for name, alone := range map[string][]Rule{"user": user, "admin": admin} {
			if one := policyOfTiers(t, silent, nil, alone).Decide(command, "bash"); one.RuleIndex >= 0 && together.Effect > one.Effect {
				rt.Fatalf("%q: %s says %v by %q, both together %v", command, name, one.Effect, one.Label(), together.Effect)
			}
		}
	})
}

// TestAnswersReachEveryTier: what a person has answered for good is the answer to
// what any tier asks, and to nothing that one denies.
func TestAnswersReachEveryTier(t *testing.T) {
	_, user := rulesOf(t, "git status")
	_, workspace := rulesOf(t, "ask:git;deny:rm")
	p := policyOfTiers(t, Default{Allowed: true, Approval: true}, nil, tiered("user", false, user), tiered("workspace", true, workspace))
	for command, left := range map[string]int{"git status": 0, "git log": 1, "git status; rm x": maxSteps + 1} {
		reach := new(Tool).reach(p, command, "/", p.Decide(command, "bash"))
		if got := reach.Left(patterns("git status")); got != left {
			t.Errorf("%q with an answer for git status: %d left, want %d", command, got, left)
		}
	}
}

// TestExplainNamesTheTier: what a file that is not trusted would allow is listed, and
// said to be without effect; a rule that decides is named with its own place.
func TestExplainNamesTheTier(t *testing.T) {
	_, workspace := rulesOf(t, "ls;deny:rm")
	workspace = tiered("workspace", true, workspace)
	for i := range workspace {
		workspace[i].Position, workspace[i].Name = "/w/sandgate.yaml:3:7", workspace[i].Label(i)
	}
	p := policyOfTiers(t, Default{Allowed: true, Approval: true}, nil, workspace)
	d, list := p.Explain("ls", "bash")
	if d.Effect != tools.Ask || list[0].Outcome != tools.Unfit || list[0].Why == "" {
		t.Errorf("ls: %v, %+v", d.Effect, list)
	}
	d, list = p.Explain("rm x", "bash")
	if d.Effect != tools.Deny || list[1].Outcome != tools.Decides || list[1].Position != "/w/sandgate.yaml:3:7" {
		t.Errorf("rm: %v, %+v", d.Effect, list)
	}
}

// TestTheSandboxFreesNothingThatAFileAsksAbout: under shell.default: confined, what a rule
// asks about is asked about, in a file that is not trusted as in one that is. The twin,
// which no rule speaks of, runs.
func TestTheSandboxFreesNothingThatAFileAsksAbout(t *testing.T) {
	confined := Default{Allowed: true, Approval: true, Confined: true}
	tool := &Tool{Config: Config{Default: confined}}
	_, rules := rulesOf(t, "ask:touch;ask:cat secret")
	trusted := policyOfTiers(t, confined, nil, tiered("user", false, rules))
	other := policyOfTiers(t, confined, nil, tiered("workspace", true, rules))
	asks := func(p *Policy, command string) bool {
		d, _ := tool.settled(p.Decide(command, "bash"))
		return d.Effect < tools.Allow
	}
	for _, line := range []string{
		"touch a", "env touch a", "sh -c 'touch a'", "find . -exec touch {} +", "ls | xargs touch", "mkdir a && touch a/b", "cat secret", "echo $(touch a)",
	} {
		twin := strings.NewReplacer("touch", "mkdir", "cat secret", "cat other").Replace(line)
		for name, p := range map[string]*Policy{"trusted": trusted, "not trusted": other} {
			if !asks(p, line) || asks(p, twin) {
				t.Errorf("%s: %q asks %t, %q asks %t", name, line, asks(p, line), twin, asks(p, twin))
			}
		}
	}
	commands := corpusCommands(t)
	rapid.Check(t, func(rt *rapid.T) {
		_, rules := rulesOf(t, drawRules(rt))
		rules = slices.DeleteFunc(rules, func(r Rule) bool { return r.Effect() == tools.Allow })
		command := rapid.SampledFrom(commands).Draw(rt, "command")
		trusted := policyOfTiers(t, confined, nil, tiered("user", false, rules))
		if asks(trusted, command) && !asks(policyOfTiers(t, confined, nil, tiered("workspace", true, rules)), command) {
			rt.Fatalf("%q runs, where a trusted file has it asked about", command)
		}
	})
}

// TestWhatNoRuleAllowsIsForbidden: a default that allows nothing, of all files or of one of them,
// is as good as a rule for programs that are started without a shell. Where a line would write
// is not theirs.
func TestWhatNoRuleAllowsIsForbidden(t *testing.T) {
	_, list := rulesOf(t, "ls;sh")
	for _, row := range []struct {
		d      Default
		closed []string
		want   map[string]bool
	}{
		{Default{}, nil, map[string]bool{"id": true, "ls": false, "sh -c id": true, "sh -c ls": false}},
		{Default{Allowed: true}, []string{"admin"}, map[string]bool{"id": true, "ls": false}},
		{Default{Allowed: true}, nil, map[string]bool{"id": false, "ls": false, "sh -c ls > /usr/x": false}},
	} {
		tool, err := New(Config{Default: row.d, Closed: row.closed, Rules: slices.Concat(tiered("admin", false, list), tiered("user", false, list))})
		if err != nil {
			t.Fatal(err)
		}
		for command, want := range row.want {
			argv := strings.SplitN(command, " ", 3)
			if _, _, err := tool.Ruled(argv, "/"); approval.IsBlocked(err) != want {
				t.Errorf("%+v, closed %v: %q: %v", row.d, row.closed, argv, err)
			}
		}
	}
}
