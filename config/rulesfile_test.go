package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const goodRules = `# mine
version: 1
rules:
  # never push by tool
  - id: no-github
    effect: deny
    tool: github_*
    reason: we push by hand
    match: [github_push]
    no_match: [git_push, gitlab/github]
  - {id: log, effect: allow, shell: git log, read_only: true} # free
  - {id: linear, effect: allow, connector: linear, match: [linear/create]}
`

func TestParseRules(t *testing.T) {
	rules, err := ParseRules([]byte(goodRules), "rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) != 3 || rules[0].Tool != "github_*" || rules[0].Effect != Deny || rules[0].Position.String() != "rules.yaml:5:5" ||
		!rules[1].ReadOnly || rules[2].Connector != "linear" {
		t.Errorf("read %+v", rules)
	}
	for _, empty := range []string{"", "# nothing\n", "version: 1\n", "version: 1\nrules: []\n"} {
		if rules, err := ParseRules([]byte(empty), "rules.yaml"); err != nil || len(rules) != 0 {
			t.Errorf("%q: %v, %v", empty, rules, err)
		}
	}
}

func TestRulesThatDoNotLoad(t *testing.T) {
	for _, c := range []struct{ rule, at, want string }{
		{"{id: a, effect: deny}", "2:9", "a rule has either shell, or tool and connector"},
		{"{id: a, effect: deny, tool: x, shell: y}", "2:9", "a rule has either shell, or tool and connector"},
		{"{effect: deny, tool: x}", "2:9", "rules[0].id: missing"},
		{"{id: a b, effect: deny, tool: x}", "2:14", "is not a valid name"},
		{"{id: a, effect: alow, tool: x}", "2:25", `did you mean "allow"`},
		{"{id: a, effect: deny, tol: x}", "2:31", `unknown key "tol"`},
		{"{id: a, effect: ask, tool: x}", "2:25", "can only allow or deny"},
		{"{id: a, effect: allow, tool: '*'}", "2:9", "would allow every tool"},
		{"{id: a, effect: allow, tool: '?*', connector: '**'}", "2:9", "would allow every tool"},
		{"{id: a, effect: deny, tool: x, exact: true}", "2:9", "need shell"},
		{"{id: a, effect: deny, shell: 'ls *'}", "2:38", "words are literal"},
		{"{id: a, effect: deny, shell: 'ls | rm'}", "2:38", "can never match"},
		{"{id: a, effect: deny, shell: ls, read_only: true}", "2:53", "read_only needs"},
		{"{id: a, effect: deny, tool: 'github_*', match: [gitlab]}", "2:57", "does not match its example"},
		{"{id: a, effect: deny, tool: 'github_*', no_match: [github_x]}", "2:60", "matches its counterexample"},
		{"{id: a, effect: deny, connector: gh, match: [push]}", "2:54", "does not match its example"},
		{"{id: a, effect: deny, tool: x}, {id: a, effect: deny, tool: y}", "2:46", "used twice"},
		{"{id: a, effect: deny, tool: x, added: yesterday}", "2:47", "is not a time"},
	} {
		_, err := ParseRules([]byte("version: 1\nrules: ["+c.rule+"]\n"), "r")
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v, want an *Error", c.rule, err)
			continue
		}
		p := e.Problems[0].String()
		if !strings.HasPrefix(p, "r:"+c.at+": ") || !strings.Contains(p, c.want) {
			t.Errorf("%s: %s\nwant r:%s and %q", c.rule, p, c.at, c.want)
		}
	}
	if _, err := ParseRules([]byte("version: 2\nrules: []\n"), "r"); err == nil || !strings.Contains(err.Error(), "unknown version 2") {
		t.Errorf("version 2: %v", err)
	}
}

// TestEditingRules adds and removes: the rest stays as it was, comments included.
func TestEditingRules(t *testing.T) {
	r := StandingRule{ID: "new", Effect: Allow, Shell: "false", NoMatch: []string{"true"}, Reason: `it's "odd": #1`}
	data, err := AppendRule([]byte(goodRules), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, keep := range []string{"# mine", "# never push by tool", "# free"} {
		if !strings.Contains(string(data), keep) {
			t.Errorf("the comment %q is gone:\n%s", keep, data)
		}
	}
	rules, err := ParseRules(data, "r")
	if err != nil || len(rules) != 4 {
		t.Fatalf("%v\n%s", err, data)
	}
	got := rules[3]
	got.Position = Position{}
	if got.ID != r.ID || got.Shell != r.Shell || got.Reason != r.Reason || !slices.Equal(got.NoMatch, r.NoMatch) || got.Exact {
		t.Errorf("read back %+v, want %+v", got, r)
	}
	data, err = RemoveRule(data, "log")
	if err != nil {
		t.Fatal(err)
	}
	rules, err = ParseRules(data, "r")
	if err != nil || len(rules) != 3 || slices.ContainsFunc(rules, func(r StandingRule) bool { return r.ID == "log" }) {
		t.Errorf("after removing: %v %+v\n%s", err, rules, data)
	}
	for _, empty := range []string{"", "version: 1\n", "version: 1\nrules: []\n"} {
		data, err := AppendRule([]byte(empty), r)
		if err != nil {
			t.Fatal(err)
		}
		if rules, err := ParseRules(data, "r"); err != nil || len(rules) != 1 {
			t.Errorf("appended to %q: %v\n%s", empty, err, data)
		}
	}
}

// TestUnsafeRulesFiles proves that rules which others could have written are
// refused, and the twin that the same file is read once they cannot.
func TestUnsafeRulesFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), RulesFileName)
	if err := os.WriteFile(path, []byte(goodRules), 0o600); err != nil {
		t.Fatal(err)
	}
	tier := RulesTier{TierUser, path}
	if rules, _, err := ReadRules(tier); err != nil || len(rules) != 3 {
		t.Errorf("own file: %d rules, %v", len(rules), err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	var untrusted *UntrustedError
	if _, _, err := ReadRules(tier); !errors.As(err, &untrusted) {
		t.Errorf("a file that others can write: %v", err)
	}
	if rules, data, err := ReadRules(RulesTier{TierUser, path + ".none"}); rules != nil || data != nil || err != nil {
		t.Errorf("no file: %v %q %v", rules, data, err)
	}
}

// FuzzRules reads any text. What loads can be edited: a rule that is added is
// read back, the others stay, and removing it gives the rules of before.
func FuzzRules(f *testing.F) {
	f.Add([]byte(goodRules))
	f.Add([]byte("version: 1\nrules: [{id: a, effect: ask, shell: 'git push'}]\n"))
	f.Add([]byte("#"))
	f.Add([]byte("version: 1\nrules:\n- id: a\n  effect: deny\n  tool: x # y\n# end\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		before, err := ParseRules(data, "r")
		if err != nil || slices.ContainsFunc(before, func(r StandingRule) bool { return r.ID == "fuzz" }) {
			return
		}
		more, err := AppendRule(data, StandingRule{ID: "fuzz", Effect: Deny, Tool: "t"})
		if err != nil {
			t.Fatalf("%q loads and cannot be added to: %v", data, err)
		}
		after, err := ParseRules(more, "r")
		if err != nil || len(after) != len(before)+1 || after[len(before)].ID != "fuzz" {
			t.Fatalf("%q became %q: %v", data, more, err)
		}
		less, err := RemoveRule(more, "fuzz")
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseRules(less, "r")
		if err != nil || !slices.EqualFunc(again, before, sameRule) {
			t.Fatalf("%q became %q: %v", data, less, err)
		}
	})
}

func sameRule(a, b StandingRule) bool {
	return a.ID == b.ID && a.Effect == b.Effect && a.Tool == b.Tool && a.Connector == b.Connector && a.Shell == b.Shell &&
		a.Exact == b.Exact && a.ReadOnly == b.ReadOnly && a.Reason == b.Reason && slices.Equal(a.Match, b.Match) && slices.Equal(a.NoMatch, b.NoMatch)
}
