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

// TestHostRules: a rule means in a configuration what it means to the proxy, and is in ASCII.
func TestHostRules(t *testing.T) {
	for rule, want := range map[string]string{
		"example.org": "example.org", "Example.ORG:443": "example.org:443", "*.golang.org:8080": "*.golang.org:8080",
		"192.0.2.7:53": "192.0.2.7:53", "[2001:db8::1]": "2001:db8::1", "[2001:db8::1]:443": "[2001:db8::1]:443",
		"_dns.example.org": "_dns.example.org", "xn--bcher-kva.example": "xn--bcher-kva.example",
	} {
		if nw, err := AllowHosts(rule); err != nil || nw.Hosts()[0] != want {
			t.Errorf("%q: %v, %v", rule, nw.Hosts(), err)
		}
	}
	for rule, want := range map[string]string{
		"*": "every host", "*:443": "every host", "a.*.org": "whole labels", "a b": "not a character", "bücher.example": "xn--bcher-kva.example",
		"https://a.org/x": "is a URL", "a.org:0": "not a port", "a.org:": "port is missing", "db=127.0.0.1:5432": "under services",
		"*.co.uk": "a public suffix", "2130706433": "the address 127.0.0.1",
	} {
		if _, err := AllowHosts(rule); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", rule, err, want)
		}
	}
}
