package egress

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseHost(t *testing.T) {
	for _, c := range []struct{ in, want, err string }{
		{in: "example.org", want: "example.org"},
		{in: "EXAMPLE.Org.", want: "example.org"},
		{in: "_dmarc.example.org", want: "_dmarc.example.org"},
		{in: "localhost", want: "localhost"},
		{in: "bücher.example", want: "xn--bcher-kva.example"},
		{in: "BÜCHER.example", want: "xn--bcher-kva.example"},
		{in: "XN--BCHER-KVA.example", want: "xn--bcher-kva.example"},
		{in: "example。org", want: "example.org"},
		{in: "ｅｘａｍｐｌｅ.org", want: "example.org"},
		{in: "example.0rg", want: "example.0rg"},

		{in: "192.0.2.7", want: "192.0.2.7"},
		{in: "192.0.2.7.", want: "192.0.2.7"},
		{in: "127.1", want: "127.0.0.1"},
		{in: "0x7f.1", want: "127.0.0.1"},
		{in: "0X7F.0.0.1", want: "127.0.0.1"},
		{in: "2130706433", want: "127.0.0.1"},
		{in: "0x7f000001", want: "127.0.0.1"},
		{in: "017700000001", want: "127.0.0.1"},
		{in: "0177.0.0.01", want: "127.0.0.1"},
		{in: "127.0.1", want: "127.0.0.1"},
		{in: "0", want: "0.0.0.0"},
		{in: "１２７.0.0.1", want: "127.0.0.1"},
		{in: "127。0。0。1", want: "127.0.0.1"},
		{in: "[::1]", want: "::1"},
		{in: "::1", want: "::1"},
		{in: "[0:0:0:0:0:0:0:1]", want: "::1"},
		{in: "::ffff:127.0.0.1", want: "127.0.0.1"},
		{in: "[::ffff:7f00:1]", want: "127.0.0.1"},
		{in: "2001:DB8::1", want: "2001:db8::1"},

		{in: "\xde0", err: "UTF-8"},
		{in: "0\u0088", err: "international"},
		{in: "_x.b\u00fccher.example", err: "international"},
		{in: "", err: "empty"},
		{in: ".", err: "a label is empty"},
		{in: "a..b", err: "a label is empty"},
		{in: "example.org..", err: "a label is empty"},
		{in: ".example.org", err: "a label is empty"},
		{in: "user@example.org", err: "user information"},
		{in: "allowed.org@evil.com", err: "user information"},
		{in: "ex%61mple.org", err: "percent"},
		{in: "127.0.0.1%00.example.org", err: "percent"},
		{in: "fe80::1%eth0", err: "percent"},
		{in: "exa mple.org", err: "not a character"},
		{in: "example.org\x00", err: "not a character"},
		{in: "example.org\r\nHost: x", err: "not an IPv6"},
		{in: "a/b", err: "not a character"},
		{in: "a\\b", err: "not a character"},
		{in: "℀.example", err: ""}, // maps to a/c, which no name has
		{in: "-a.example", err: "hyphen"},
		{in: "a-.example", err: "hyphen"},
		{in: strings.Repeat("a", 64) + ".org", err: "longer than 63"},
		{in: strings.Repeat("abcdefgh.", 29) + "org", err: "longer than 253"},
		{in: strings.Repeat("a", 2000), err: "too long"},
		{in: "1.2.3.4.5", err: "at most four"},
		{in: "1.2.3.256", err: "too large"},
		{in: "256.1", err: "too large"},
		{in: "4294967296", err: "not a number"},
		{in: "09.1.1.1", err: "not a number"},
		{in: "1.2.3.0x", err: "not a number"},
		{in: "foo.1", err: "not a number"},
		{in: "1..1", err: "not a number"},
		{in: "[127.0.0.1]", err: "brackets"},
		{in: "[::1", err: "brackets"},
		{in: "1.2.3.4:80", err: "not an IPv6"},
		{in: "xn--a.example", err: "international"},
	} {
		h, err := ParseHost(c.in)
		switch {
		case c.want != "" && (err != nil || h.String() != c.want):
			t.Errorf("ParseHost(%q) = %q, %v; want %q", c.in, h, err, c.want)
		case c.want == "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("ParseHost(%q) = %q, %v; want an error with %q", c.in, h, err, c.err)
		}
	}
}

func TestParseRule(t *testing.T) {
	for _, c := range []struct{ in, want, err string }{
		{in: "pypi.org:443", want: "pypi.org:443"},
		{in: "PyPI.org.", want: "pypi.org"},
		{in: "*.golang.org", want: "*.golang.org"},
		{in: "*.golang.org:8443", want: "*.golang.org:8443"},
		{in: "*.bücher.example", want: "*.xn--bcher-kva.example"},
		{in: "*.foo.co.uk", want: "*.foo.co.uk"},
		{in: "host", want: "host"},
		{in: "192.0.2.7:8080", want: "192.0.2.7:8080"},
		{in: "192.0.2.7", want: "192.0.2.7"},
		{in: "[2001:db8::1]:443", want: "[2001:db8::1]:443"},
		{in: "[2001:db8::1]", want: "2001:db8::1"},
		{in: "2001:db8::1", want: "2001:db8::1"},

		{in: "", err: "empty"},
		{in: "*", err: "every host"},
		{in: "*:443", err: "every host"},
		{in: "*.", err: "empty"},
		{in: "*.*", err: "whole labels"},
		{in: "*.com", err: "public suffix"},
		{in: "*.COM.", err: "public suffix"},
		{in: "*.co.uk:443", err: "public suffix"},
		{in: "*.github.io", err: "public suffix"},
		{in: "*.internal", err: "public suffix"},
		{in: "*.foo.ck", err: "public suffix"},
		{in: "*golang.org", err: "whole labels"},
		{in: "a.*.org", err: "whole labels"},
		{in: "golang.*", err: "whole labels"},
		{in: "https://pypi.org", err: "URL"},
		{in: "10.0.0.0/8", err: "ranges"},
		{in: "pypi.org/simple", err: "paths"},
		{in: "pypi.org:", err: "port is missing"},
		{in: "pypi.org:*", err: "each port"},
		{in: "pypi.org:0", err: "not a port"},
		{in: "pypi.org:0443", err: "not a port"},
		{in: "pypi.org:+443", err: "not a port"},
		{in: "pypi.org:65536", err: "not a port"},
		{in: "[::1]443", err: "follow the bracket"},
		{in: "a:b:c", err: "not an IPv6"},
		{in: "user@pypi.org", err: "user information"},
		{in: "2130706433", err: "write it so"},
		{in: "0x7f.1:80", err: "write it so"},
		{in: "::ffff:127.0.0.1", err: "write it so"},
		{in: "[2001:DB8::1]:443", err: "write it so"},
		{in: "*.192.0.2.7", err: "before a name"},
		{in: " pypi.org", err: "not a character"},
	} {
		r, err := ParseRule(c.in)
		switch {
		case c.want != "" && (err != nil || r.String() != c.want):
			t.Errorf("ParseRule(%q) = %q, %v; want %q", c.in, r, err, c.want)
		case c.want == "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("ParseRule(%q) = %q, %v; want an error with %q", c.in, r, err, c.err)
		}
	}
}

func target(t testing.TB, s string) Target {
	t.Helper()
	target, err := parseTarget(s, 0)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func TestRuleMatches(t *testing.T) {
	for _, c := range []struct {
		rule, target string
		want         bool
	}{
		{"pypi.org", "pypi.org:443", true},
		{"pypi.org", "pypi.org:80", true},
		{"pypi.org", "pypi.org:22", false},
		{"pypi.org:22", "pypi.org:22", true},
		{"pypi.org:22", "pypi.org:443", false},
		{"pypi.org", "www.pypi.org:443", false},
		{"pypi.org", "xpypi.org:443", false},
		{"pypi.org", "pypi.org.evil.com:443", false},
		{"*.golang.org", "pkg.golang.org:443", true},
		{"*.golang.org", "a.b.golang.org:443", true},
		{"*.golang.org", "golang.org:443", false},
		{"*.golang.org", "notgolang.org:443", false},
		{"*.golang.org", "golang.org.evil.com:443", false},
		{"192.0.2.7:8080", "192.0.2.7:8080", true},
		{"192.0.2.7:8080", "0xc0.2.7:8080", false}, // 192.2.0.7
		{"192.0.2.7:8080", "0xc0000207:8080", true},
		{"192.0.2.7:8080", "[::ffff:192.0.2.7]:8080", true},
		{"[2001:db8::1]:443", "[2001:db8:0::1]:443", true},
	} {
		r, err := ParseRule(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Matches(target(t, c.target)); got != c.want {
			t.Errorf("%s matches %s: %t, want %t", c.rule, c.target, got, c.want)
		}
	}
	if (Rule{}).Matches(Target{}) || (Rule{}).Matches(Target{Port: 443}) || (Rule{}).denies(Target{}) {
		t.Error("the zero rule matches something")
	}
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

var (
	genLabel = rapid.StringMatching(`[a-z0-9]([a-z0-9_-]{0,8}[a-z0-9])?`)
	genName  = rapid.Custom(func(t *rapid.T) string {
		labels := rapid.SliceOfN(genLabel, 1, 4).Draw(t, "labels")
		return strings.Join(append(labels, rapid.SampledFrom([]string{"org", "example", "co.uk"}).Draw(t, "tld")), ".")
	})
)

// TestSuffixesMatchLabels holds Matches against the definition, label by label.
func TestSuffixesMatchLabels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		suffix := rapid.SampledFrom([]string{"golang.org", "a.b.example", "x.co.uk"}).Draw(t, "suffix")
		name := rapid.OneOf(genName, rapid.Just(suffix),
			rapid.Map(genLabel, func(l string) string { return l + suffix }),
			rapid.Map(genLabel, func(l string) string { return l + "." + suffix })).Draw(t, "name")
		h, err := ParseHost(name)
		if err != nil {
			t.Skip("not a name: ", err)
		}
		r, err := ParseRule("*." + suffix)
		if err != nil {
			t.Fatal(err)
		}
		labels, tail := strings.Split(h.String(), "."), strings.Split(suffix, ".")
		want := len(labels) > len(tail) && strings.Join(labels[len(labels)-len(tail):], ".") == suffix
		if got := r.Matches(Target{h, 443}); got != want {
			t.Errorf("*.%s matches %s: %t, want %t", suffix, name, got, want)
		}
	})
}

// TestSpellingsAreOneHost: no spelling of a name is another host. It may be none:
// international names are held to stricter rules.
func TestSpellingsAreOneHost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := genName.Draw(t, "name")
		plain, err := ParseHost(name)
		if err != nil {
			t.Skip("not a name: ", err)
		}
		spelling := rapid.SampledFrom([]func(string) string{
			strings.ToUpper, strings.ToTitle,
			func(s string) string { return s + "." },
			func(s string) string { return strings.ReplaceAll(s, ".", "。") },
			func(s string) string { return strings.ReplaceAll(s, "a", "ａ") },
		}).Draw(t, "spelling")(name)
		if h, err := ParseHost(spelling); err != nil && isASCII(spelling) || err == nil && h != plain {
			t.Errorf("%q is %v, %v; %q is %v", spelling, h, err, name, plain)
		}
	})
}

// TestAnotherListNeverWidens: an operator's list is a ceiling.
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
			target, err := parseTarget(s, 0)
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

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"pypi.org:443", "*.golang.org", "[2001:db8::1]:443", "192.0.2.7", "*.com", "a:0", "bücher.example", "0x7f.1", "a..b", "db=127.0.0.1:5432", "x=unix:/run/x=y", "a=[::1]:1", "::", "[::]", "*.xn--p1ai:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRule(s)
		if err != nil {
			return
		}
		again, err := ParseRule(r.String())
		if err != nil || again != r {
			t.Errorf("%q is %q, which is %q, %v", s, r, again, err)
		}
		if r == (Rule{}) || r.Matches(Target{}) {
			t.Errorf("%q is a rule that matches nothing or everything", s)
		}
	})
}

func FuzzParseHost(f *testing.F) {
	for _, s := range []string{"example.org.", "0x7f.1", "::ffff:1.2.3.4", "ｅx.org", "xn--bcher-kva.example", "a%b", "1.2.3.08"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := ParseHost(s)
		if err != nil {
			return
		}
		again, err := ParseHost(h.String())
		if err != nil || again != h {
			t.Errorf("%q is %q, which is %q, %v", s, h, again, err)
		}
		if strings.ContainsAny(h.String(), " \r\n\t\x00@%/\\#?*") || !isASCII(h.String()) {
			t.Errorf("%q is %q", s, h)
		}
	})
}
