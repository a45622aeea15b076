package shell

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/tools"
)

func standing(pattern string, e tools.Effect) Rule {
	allowed, approval := e != tools.Deny, e == tools.Ask
	return Rule{Pattern: pattern, Allowed: &allowed, Approval: &approval}
}

// TestStandingAllowsReachOnlyTheUnruled adds a standing rule that allows to any
// rules. What becomes less strict was decided by the default, never by a rule.
func TestStandingAllowsReachOnlyTheUnruled(t *testing.T) {
	commands := corpusCommands(t)
	rapid.Check(t, func(rt *rapid.T) {
		d, list := rulesOf(t, drawRules(rt))
		command := rapid.SampledFrom(commands).Draw(rt, "command")
		pattern := rapid.SampledFrom([]string{"ls", "rm", "git", "git push", "touch", "echo -n", "sort", "make"}).Draw(rt, "pattern")
		p := mustPolicy(t, d, list)
		with, err := p.With(standing(pattern, tools.Allow))
		if err != nil {
			rt.Fatal(err)
		}
		before, after := p.Decide(command, "bash"), with.Decide(command, "bash")
		if after.Effect <= before.Effect {
			return
		}
		for _, part := range before.Parts {
			if part.Effect <= before.Effect && part.Rule != ruleDefault {
				rt.Fatalf("%q: %v by %q, and %v with the standing rule %q", command, before.Effect, part.Rule, after.Effect, pattern)
			}
		}
	})
}

// TestStandingRulesTighten adds a standing rule that asks or denies: nothing
// becomes less strict unless the default denies what has no rule.
func TestStandingRulesTighten(t *testing.T) {
	commands := corpusCommands(t)
	rapid.Check(t, func(rt *rapid.T) {
		d, list := rulesOf(t, drawRules(rt))
		if d.Effect() == tools.Deny {
			return // a rule that asks loosens that; who adds rules refuses it
		}
		command := rapid.SampledFrom(commands).Draw(rt, "command")
		pattern := rapid.SampledFrom([]string{"ls", "rm", "git", "git push", "touch"}).Draw(rt, "pattern")
		effect := rapid.SampledFrom([]tools.Effect{tools.Ask, tools.Deny}).Draw(rt, "effect")
		p := mustPolicy(t, d, list)
		with, err := p.With(standing(pattern, effect))
		if err != nil {
			rt.Fatal(err)
		}
		if before, after := p.Decide(command, "bash"), with.Decide(command, "bash"); after.Effect > before.Effect {
			rt.Fatalf("%q: %v, and %v with a standing rule that says %v to %q", command, before.Effect, after.Effect, effect, pattern)
		}
	})
}

// TestStandingTakesEffect is the twin of the two above: the rules do something.
func TestStandingTakesEffect(t *testing.T) {
	d, list := rulesOf(t, "git status;ask:git commit;deny:rm")
	p := mustPolicy(t, d, list)
	for _, c := range []struct {
		pattern, command string
		effect, want     tools.Effect
	}{
		{"make test", "make test", tools.Allow, tools.Allow},
		{"git status", "git status", tools.Deny, tools.Deny},
		{"git status", "git status", tools.Ask, tools.Ask},
		{"git commit", "git commit", tools.Allow, tools.Ask}, // the configuration asks
		{"rm", "rm x", tools.Allow, tools.Deny},
	} {
		with, err := p.With(standing(c.pattern, c.effect))
		if err != nil {
			t.Fatal(err)
		}
		if got := with.Decide(c.command, "bash").Effect; got != c.want {
			t.Errorf("%q with %v %q: %v, want %v", c.command, c.effect, c.pattern, got, c.want)
		}
	}
}

// TestExplainAgreesWithDecide explains every command of the corpus: the decision
// is the same one, and what is said to decide each part is what decided it.
func TestExplainAgreesWithDecide(t *testing.T) {
	d, list := rulesOf(t, everydayRules)
	p := mustPolicy(t, d, list)
	told := 0
	for _, command := range corpusCommands(t) {
		got, considered := p.Explain(command, "bash")
		want := p.Decide(command, "bash")
		if got.Effect != want.Effect || got.Rule != want.Rule || got.Reason != want.Reason {
			t.Errorf("%q: explained as %v by %q, decided as %v by %q", command, got.Effect, got.Rule, want.Effect, want.Rule)
		}
		for _, c := range considered {
			if c.Outcome != tools.Decides {
				continue
			}
			told++
			if !slices.ContainsFunc(got.Parts, func(part Part) bool {
				return part.Text == c.Subject && (part.RuleName == c.Rule || "shell."+part.Rule == c.Rule)
			}) {
				t.Errorf("%q: %q is said to decide %q, and no part says so", command, c.Rule, c.Subject)
			}
		}
	}
	if told < 50 {
		t.Errorf("%d deciding rules were told of", told)
	}
}

func TestExplainSaysWhyNot(t *testing.T) {
	d, list := rulesOf(t, "git status;ro:sort;deny:git push;exact:ls -la")
	p := mustPolicy(t, d, list)
	for _, c := range []struct {
		command, rule string
		outcome       tools.Outcome
		why           string
	}{
		{"git log", `shell.rules[0] "git status"`, tools.NoMatch, `"log" is not "status"`},
		{"git", `shell.rules[0] "git status"`, tools.NoMatch, `the command has no word "status"`},
		{"sort f -o g", `shell.rules[1] "sort"`, tools.Unfit, "sort: the option -o is not known to be harmless"},
		{"sort f", `shell.rules[1] "sort"`, tools.Decides, ""},
		{"git push", `shell.rules[2] "git push"`, tools.Decides, `"git push" is not allowed here`},
		{"git -C x $y", `shell.rules[2] "git push"`, tools.Decides, `may be what the rule "git push" denies`},
		{"ls -la x", `shell.rules[3] "ls -la"`, tools.NoMatch, `the pattern is exact, but the command continues with "x"`},
		{"./git status", `shell.rules[0] "git status"`, tools.NoMatch, `"./git" is not "git"`},
	} {
		_, considered := p.Explain(c.command, "bash")
		i := slices.IndexFunc(considered, func(x tools.Considered) bool { return x.Rule == c.rule })
		if i < 0 {
			t.Errorf("%q: nothing about %s: %+v", c.command, c.rule, considered)
		} else if x := considered[i]; x.Outcome != c.outcome || x.Why != c.why {
			t.Errorf("%q, %s: %s %q, want %s %q", c.command, c.rule, x.Outcome, x.Why, c.outcome, c.why)
		}
	}
}

// TestSetStanding proves that the tool decides by its new rules at once, that a
// rule that does not load changes nothing, and that the configuration's rules
// keep their names.
func TestSetStanding(t *testing.T) {
	d, list := rulesOf(t, "git status")
	tool, err := New(Config{Default: d, Rules: list})
	if err != nil {
		t.Fatal(err)
	}
	var s Standing
	s.Add(standing("git push", tools.Deny))
	if err := tool.SetStanding(s); err != nil {
		t.Fatal(err)
	}
	if got := tool.Policy().Decide("git push", "bash"); got.Effect != tools.Deny {
		t.Errorf("git push: %v after a rule that denies it", got.Effect)
	}
	bad := standing("git pull", tools.Deny)
	bad.Match = []string{"git push"}
	if err := tool.SetStanding(Standing{Deny: []Rule{bad}}); err == nil {
		t.Error("a rule that fails its example was taken")
	}
	if got := tool.Policy().Decide("git push", "bash"); got.Effect != tools.Deny {
		t.Errorf("git push: %v after a change that was refused", got.Effect)
	}
	if got := tool.Policy().Decide("git log", "bash").Parts; len(got) != 1 {
		t.Fatalf("parts %+v", got)
	}
	_, considered := tool.Policy().Explain("git log", "bash")
	if i := slices.IndexFunc(considered, func(x tools.Considered) bool { return x.Rule == `shell.rules[0] "git status"` }); i < 0 {
		t.Errorf("the configuration's rule lost its name: %+v", considered)
	}
}
