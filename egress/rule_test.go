package egress

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/internal/hostrule"
)

func target(t testing.TB, s string) Target {
	t.Helper()
	target, err := hostrule.ParseTarget(s, 0)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func TestPolicyDecides(t *testing.T) {
	for _, c := range []struct {
		name   string
		allow  [][]string
		deny   []string
		target string
		want   verdict
		rule   string
	}{
		{name: "no list allows nothing", target: "a.org:443", want: unknown},
		{name: "an empty list allows nothing", allow: [][]string{{}}, target: "a.org:443", want: unknown},
		{name: "listed", allow: [][]string{{"b.org", "a.org"}}, target: "a.org:443", want: allowed, rule: "a.org"},
		{name: "in both lists", allow: [][]string{{"*.a.org"}, {"x.a.org:443"}}, target: "x.a.org:443", want: allowed, rule: "*.a.org, x.a.org:443"},
		{name: "in one list only", allow: [][]string{{"*.a.org"}, {"x.a.org:443"}}, target: "y.a.org:443", want: unknown},
		{name: "deny wins", allow: [][]string{{"*.a.org"}}, deny: []string{"x.a.org"}, target: "x.a.org:443", want: denied, rule: "x.a.org"},
		{name: "deny without a port is every port", allow: [][]string{{"x.a.org:8443"}}, deny: []string{"x.a.org"}, target: "x.a.org:8443", want: denied, rule: "x.a.org"},
		{name: "deny of one port", allow: [][]string{{"x.a.org"}}, deny: []string{"x.a.org:80"}, target: "x.a.org:443", want: allowed, rule: "x.a.org"},
		{name: "deny may be wide", allow: [][]string{{"a.com"}}, deny: []string{"*.com"}, target: "a.com:443", want: denied, rule: "*.com"},
	} {
		p, err := newPolicy(c.allow, c.deny)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if v, rule := p.decide(target(t, c.target)); v != c.want || rule != c.rule {
			t.Errorf("%s: %d by %q, want %d by %q", c.name, v, rule, c.want, c.rule)
		}
	}
}

func TestNewNamesEveryWrongRule(t *testing.T) {
	_, err := New(Config{Allow: [][]string{{"*.com", "ok.org"}, {"a:0"}}, Deny: []string{"x/y"}, Audit: func(Event) {}})
	if err == nil {
		t.Fatal("wrong rules are taken")
	}
	for _, want := range []string{`"*.com"`, `"a:0"`, `"x/y"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %s", err, want)
		}
	}
	if _, err := New(Config{}); err == nil {
		t.Error("a proxy without a record is made")
	}
}

func TestAnotherListNeverWidens(t *testing.T) {
	rules := []string{"a.org", "*.a.org", "x.a.org:443", "b.org:22", "192.0.2.7"}
	targets := []string{"a.org:443", "x.a.org:443", "x.a.org:80", "b.org:22", "192.0.2.7:80"}
	rapid.Check(t, func(t *rapid.T) {
		lists := rapid.SliceOfN(rapid.SliceOf(rapid.SampledFrom(rules)), 1, 4).Draw(t, "lists")
		deny := rapid.SliceOf(rapid.SampledFrom(rules)).Draw(t, "deny")
		wide, err := newPolicy(lists[:len(lists)-1], nil)
		if err != nil {
			t.Fatal(err)
		}
		narrow, err := newPolicy(lists, deny)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range targets {
			target, err := hostrule.ParseTarget(s, 0)
			if err != nil {
				t.Fatal(err)
			}
			was, _ := wide.decide(target)
			is, _ := narrow.decide(target)
			if is == allowed && was != allowed && len(lists) > 1 {
				t.Errorf("%s: allowed by %v and not without the last of them", s, lists)
			}
		}
	})
}

func hostOf(name string) Host {
	h, err := hostrule.ParseHost(name)
	if err != nil {
		panic(err)
	}
	return h
}
