package config

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The edit distance is a metric on what it is used for: it is zero for equal
// words alone, does not depend on the order, and never exceeds the longer word.
func TestEditDistance(t *testing.T) {
	word := rapid.StringMatching(`[a-d_]{0,8}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := editDistance(a, b)
		if d != editDistance(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) {
			t.Fatalf("distance of %q and %q is %d", a, b, d)
		}
	})
	for _, tc := range []struct {
		a, b string
		want int
	}{{"paths", "path", 1}, {"mode", "moed", 1}, {"root", "rooot", 1}, {"limits", "limes", 2}} {
		if got := editDistance(tc.a, tc.b); got != tc.want {
			t.Errorf("distance of %q and %q is %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestHostRules(t *testing.T) {
	for _, rule := range []string{
		"example.org", "example.org:443", "*.golang.org", "*.golang.org:8080", "localhost", "192.0.2.7", "192.0.2.7:53",
		"2001:db8::1", "[2001:db8::1]:443", "[2001:db8::1]", "_dns.example.org", "xn--bcher-kva.example",
	} {
		if problem, _ := checkHostRule(rule); problem != "" {
			t.Errorf("%q: %s", rule, problem)
		}
	}
	for rule, want := range map[string]string{
		"":                                "not a host rule",
		"*":                               "every host",
		"*:443":                           "every host",
		"**.x":                            "not a host rule",
		"a.*.org":                         "not a host rule",
		"*.":                              "not a host rule",
		"a b":                             "not a host rule",
		"a..b":                            "not a host rule",
		"-a.org":                          "not a host rule",
		"bücher.example":                  "not a host rule",
		"a\nb":                            "not a host rule",
		"https://a.org/x":                 "is a URL",
		"a.org:0":                         "not a port",
		"a.org:65536":                     "not a port",
		"a.org:http":                      "not a port",
		"a.org:":                          "port is missing",
		"[::1":                            "bracket is not closed",
		"[::1]443":                        "only a port",
		strings.Repeat("a.", 127) + "aaa": "not a host rule",
	} {
		if problem, _ := checkHostRule(rule); !strings.Contains(problem, want) {
			t.Errorf("%q: got %q, want %q", rule, problem, want)
		}
	}
}

// A rule that shadows another matches every command the other matches, by the
// plain meaning of prefix and exact.
func TestShadowsIsSound(t *testing.T) {
	words := rapid.SliceOfN(rapid.SampledFrom([]string{"git", "push", "-f"}), 1, 3)
	rule := rapid.Custom(func(t *rapid.T) splitRule {
		r := &Rule{Exact: rapid.Bool().Draw(t, "exact"), Allowed: rapid.Bool().Draw(t, "allowed")}
		return splitRule{r, words.Draw(t, "words")}
	})
	matches := func(r splitRule, command []string) bool {
		text, pattern := strings.Join(command, " ")+" ", strings.Join(r.words, " ")+" "
		return text == pattern || !r.Exact && strings.HasPrefix(text, pattern)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rule.Draw(t, "a"), rule.Draw(t, "b")
		command := rapid.SliceOfN(rapid.SampledFrom([]string{"git", "push", "-f"}), 1, 4).Draw(t, "command")
		if a.shadows(b) && matches(b, command) && !matches(a, command) {
			t.Fatalf("%+v shadows %+v, and does not match %q", a, b, command)
		}
		if a.Allowed && !b.Allowed && a.shadows(b) {
			t.Fatalf("%+v takes nothing from the denial %+v", a, b)
		}
		if !a.shadows(b) && slices.Equal(a.words, b.words) && a.Exact == b.Exact && a.Allowed == b.Allowed {
			t.Fatalf("%+v does not shadow its equal", a)
		}
	})
}
