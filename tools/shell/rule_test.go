package shell

import (
	"errors"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/tools"
)

func TestRuleThatDoesNotLoad(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name string
		rule Rule
		want string // in the error
	}{
		{"empty", Rule{Pattern: "  "}, "the pattern is empty"},
		{"operator", Rule{Pattern: "ls | sort"}, "without operators"},
		{"unclosed quote", Rule{Pattern: "ls 'x"}, "invalid command line"},
		{"wildcard", Rule{Pattern: "git *"}, `"git" already matches`},
		{"read-only deny", Rule{Pattern: "rm", Allowed: &no, ReadOnly: true}, "read_only needs a rule that allows"},
		{"match fails", Rule{Pattern: "pytest", Approval: &no, Match: []string{"pytest -q", "py.test"}}, `does not decide its match example "py.test"`},
		{"no_match fails", Rule{Pattern: "pytest", Approval: &no, NoMatch: []string{"pytester", "pytest -q"}}, `decides its no_match example "pytest -q"`},
		{"guarded match", Rule{Pattern: "pytest", Approval: &no, Match: []string{"pytest -p x"}}, `does not decide`},
		{"compound match", Rule{Pattern: "ls", Approval: &no, Match: []string{"ls; rm x"}}, `does not decide`},
		{"ask fails", Rule{Pattern: "git commit", Approval: &yes, Match: []string{"git add"}}, `does not decide`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.rule.Position = "sandgate.yaml:7:5"
			_, err := NewPolicy(Default{Allowed: true, Approval: true}, []Rule{c.rule}, nil, nil)
			var failed *RuleError
			if !errors.As(err, &failed) || failed.Index != 0 || !strings.HasPrefix(err.Error(), "sandgate.yaml:7:5: shell.rules[0]") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want a *RuleError with %q", err, c.want)
			}
		})
	}
}

func TestRuleThatLoads(t *testing.T) {
	yes, no := true, false
	for _, r := range []Rule{
		{Pattern: "pytest", Approval: &no, Match: []string{"pytest -q", "cd sub && pytest", "CI=1 pytest 2>/dev/null"}, NoMatch: []string{"pytester", "./pytest", "pytest -p x", "pytest > out"}},
		{Pattern: "rm", Allowed: &no, Match: []string{"rm x", "find . | xargs rm"}, NoMatch: []string{"rmdir x", "echo rm"}},
		{Pattern: "git commit", Approval: &yes, Match: []string{"git commit -m x"}, NoMatch: []string{"git add"}},
		{Pattern: "'my tool' x", Approval: &no, Match: []string{"my\\ tool x"}, NoMatch: []string{"my tool x"}},
	} {
		if _, err := NewPolicy(Default{Allowed: true, Approval: true}, []Rule{r}, nil, nil); err != nil {
			t.Errorf("%q: %v", r.Pattern, err)
		}
	}
}

// TestEffectOfRule holds the zero value of each field against its meaning: what
// is not spelled out asks, and an empty default denies.
func TestEffectOfRule(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		rule Rule
		want tools.Effect
	}{
		{Rule{}, tools.Ask}, {Rule{Approval: &no}, tools.Allow}, {Rule{Approval: &yes}, tools.Ask}, {Rule{Allowed: &yes}, tools.Ask},
		{Rule{Allowed: &no}, tools.Deny}, {Rule{Allowed: &no, Approval: &no}, tools.Deny}, {Rule{Allowed: &yes, Approval: &no}, tools.Allow},
	} {
		if got := c.rule.Effect(); got != c.want {
			t.Errorf("%+v: %v, want %v", c.rule, got, c.want)
		}
	}
	if got := (Default{}).Effect(); got != tools.Deny {
		t.Errorf("the zero default: %v, want deny", got)
	}
}

// TestOrderOfRules shows who decides when several rules match.
func TestOrderOfRules(t *testing.T) {
	for _, c := range []struct {
		rules, command string
		want           tools.Effect
		rule           string
	}{
		{"git status;ask:git", "git status", tools.Allow, "git status"},
		{"git status;ask:git", "git push", tools.Ask, "git"},
		{"ask:git;git status", "git status", tools.Ask, "git"},
		{"git;deny:git push", "git push", tools.Deny, "git push"},
		{"deny:git;git push", "git push", tools.Deny, "git"},
		{"ro:find;ask:find", "find . -delete", tools.Ask, "find"},
		{"ro:find;ask:find", "find .", tools.Allow, "find"},
		{"ls", "make", tools.Ask, "default"},
		{"deny:*;ls", "make", tools.Deny, "default"},
		{"deny:*;ls", "$x", tools.Deny, "syntax"},
		{"ls;deny:rm", "ls; make; rm x", tools.Deny, "rm"},
		{"allow:*", "make", tools.Allow, "default"},
		{"allow:*", "$x", tools.Allow, "syntax"},
		{"allow:*;deny:rm", "$x", tools.Ask, "syntax"},
		{"ls", "true; ls", tools.Allow, "ls"},
	} {
		if d := decideFor(t, c.rules, c.command); d.Effect != c.want || d.Rule != c.rule {
			t.Errorf("rules %q: %q is %v by %q, want %v by %q", c.rules, c.command, d.Effect, d.Rule, c.want, c.rule)
		}
	}
}

func TestOtherShells(t *testing.T) {
	d, list := rulesOf(t, "ls")
	p := mustPolicy(t, d, list)
	for shell, want := range map[string]tools.Effect{"": tools.Allow, "bash": tools.Allow, "sh": tools.Allow, "zsh": tools.Ask, "fish": tools.Ask} {
		if got := p.Decide("ls", shell).Effect; got != want {
			t.Errorf("%q: %v, want %v", shell, got, want)
		}
	}
}

func TestDecodeANSI(t *testing.T) {
	for in, want := range map[string]string{
		`plain`: "plain", `\n\t\\\'`: "\n\t\\'", `\x72m`: "rm", `\162\155`: "rm", `\u0072m`: "rm", `\e[0m`: "\x1b[0m",
		`\x7`: "\a", `\1011`: "A1", `\xe9`: "\xe9",
	} {
		if got, ok := decodeANSI(in); !ok || got != want {
			t.Errorf("%q: %q, %v, want %q", in, got, ok, want)
		}
	}
	for _, in := range []string{`a\0b`, `\x00`, `\u0000`, `\x{72}`, `\c@`, `\u00e9`, `\U0001F600`, `\q`, `\x`, `\cA`, `a\`, `\777`} {
		if got, ok := decodeANSI(in); ok {
			t.Errorf("%q: %q is said to be known", in, got)
		}
	}
}
