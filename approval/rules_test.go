package approval

import (
	"path"
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
		if got := glob(tt.pattern, tt.name); got != tt.want {
			t.Errorf("glob(%q, %q) = %v", tt.pattern, tt.name, got)
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
		if got := glob(pattern, name); got != want {
			t.Fatalf("glob(%q, %q) = %v, path.Match says %v", pattern, name, got, want)
		}
	})
}

func FuzzGlob(f *testing.F) {
	f.Add("github_*", "github_search")
	f.Add("*?*?*", "\xff\xc3é")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if !glob("*", name) || !glob(pattern+"*", pattern) && utf8.ValidString(pattern) {
			t.Errorf("glob(%q, %q)", pattern, name)
		}
		glob(pattern, name)
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
