package approval

import (
	"fmt"
	"path"
	"slices"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"github_*", "github_search", true},
		{"github_*", "github_", true},
		{"github_*", "github", false},
		{"github_*", "my_github_search", false},
		{"*", "", true},
		{"*", "a/b", true},
		{"*_file", "write_file", true},
		{"*_file", "write_files", false},
		{"a*b*c", "aXbXbXc", true},
		{"a*b*c", "aXbX", false},
		{"re?d", "read", true},
		{"re?d", "red", false},
		{"?", "é", true},
		{"?", "", false},
		{"*?", "é", true},
		{"??", "é", false},
		{"", "", true},
		{"", "a", false},
		{"[a]", "[a]", true},
		{"[a]", "a", false},
		{"READ", "read", false},
	} {
		if got := Glob(tt.pattern, tt.name); got != tt.want {
			t.Errorf("Glob(%q, %q) = %v", tt.pattern, tt.name, got)
		}
	}
}

// path.Match means the same where the pattern has only * and ?, and no slash.
func TestGlobAgreesWithPathMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.SampledFrom([]rune("ab*?é")), 0, 8, -1).Draw(t, "pattern")
		name := rapid.StringOfN(rapid.SampledFrom([]rune("abé")), 0, 10, -1).Draw(t, "name")
		want, err := path.Match(pattern, name)
		if err != nil {
			t.Fatal(err)
		}
		if got := Glob(pattern, name); got != want {
			t.Fatalf("Glob(%q, %q) = %v, path.Match says %v", pattern, name, got, want)
		}
	})
}

func FuzzGlob(f *testing.F) {
	f.Add("github_*", "github_search")
	f.Add("*?*?*", "\xff\xc3é")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if !Glob("*", name) || !Glob(pattern+"*", pattern) && utf8.ValidString(pattern) {
			t.Errorf("Glob(%q, %q)", pattern, name)
		}
		Glob(pattern, name)
	})
}

func TestRules(t *testing.T) {
	l := mustRules(t,
		Rule{ID: "search", Effect: Allow, Tool: "*_search", Connector: "github"},
		Rule{Effect: Allow, Connector: "docs"},
		Rule{Effect: Deny, Tool: "rm_*", Reason: "use the trash"},
	)
	for _, tt := range []struct {
		effect          Effect
		tool, connector string
		want            string // the rule, or "" for none
	}{
		{Allow, "code_search", "github", "search"},
		{Allow, "code_search", "gitlab", ""},
		{Allow, "push", "github", ""},
		{Allow, "anything", "docs", "allow connector docs"},
		{Deny, "rm_file", "docs", "deny tool rm_*"},
		{Allow, "rm_file", "", ""},
		{Ask, "rm_file", "docs", ""},
	} {
		r, ok := l.Match(tt.effect, Call{ToolName: tt.tool, Connector: tt.connector})
		if ok != (tt.want != "") || ok && r.String() != tt.want {
			t.Errorf("%s %s of %s: %q, %v; want %q", tt.effect, tt.tool, tt.connector, r, ok, tt.want)
		}
	}
}

// TestRulesMatchInOrder: the rule that is found is the first that covers the call.
func TestRulesMatchInOrder(t *testing.T) {
	names := rapid.SampledFrom([]string{"", "a", "b", "ab", "é", "a*", "*", "?", "*b", "a?", "é*"})
	effects := rapid.SampledFrom([]Effect{Deny, Allow})
	rapid.Check(t, func(t *rapid.T) {
		var rules []Rule
		for range rapid.IntRange(0, 12).Draw(t, "rules") {
			r := Rule{Effect: effects.Draw(t, "effect"), Tool: names.Draw(t, "tool"), Connector: names.Draw(t, "connector")}
			if r.Tool != "" || r.Connector != "" {
				r.ID = fmt.Sprint(len(rules))
				rules = append(rules, r)
			}
		}
		l, err := NewRules(rules...)
		if err != nil {
			t.Fatal(err)
		}
		call := Call{ToolName: names.Draw(t, "called"), Connector: names.Draw(t, "from"), ByFullName: rapid.Bool().Draw(t, "by full name")}
		effect := effects.Draw(t, "asked")
		var want Rule
		i := slices.IndexFunc(rules, func(r Rule) bool { return r.Effect == effect && r.covers(call) })
		if i >= 0 {
			want = rules[i]
		}
		if got, ok := l.Match(effect, call); ok != (i >= 0) || got != want {
			t.Fatalf("%v %+v of %+v: %v, want %v", effect, call, rules, got, want)
		}
	})
}

func TestNoRules(t *testing.T) {
	var none *RuleList
	if r, ok := none.Match(Deny, writeCall()); ok {
		t.Errorf("a list that is not there says %v", r)
	}
	c := NewController(Options{Rules: mustRules(t, Rule{Effect: Deny, Tool: "*"})})
	if v := c.Check(writeCall()); v.Effect != Deny {
		t.Errorf("%+v", v)
	}
	for _, rules := range []Rules{none, nil} {
		c.SetRules(rules)
		if v := c.Check(writeCall()); v.Effect != Ask {
			t.Errorf("%+v", v)
		}
	}
}

func TestBadRules(t *testing.T) {
	for name, r := range map[string]Rule{
		"names nothing": {Effect: Allow},
		"asks":          {Effect: Ask, Tool: "shell"},
		"no effect":     {Effect: 7, Tool: "shell"},
	} {
		if _, err := NewRules(r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
