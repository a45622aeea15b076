package hostrule

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
		{in: "pkgs.example.org:443", want: "pkgs.example.org:443"},
		{in: "Pkgs.Example.org.", want: "pkgs.example.org"},
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
		{in: "https://pkgs.example.org", err: "URL"},
		{in: "10.0.0.0/8", want: "10.0.0.0/8"},
		{in: "10.20.30.0/24", want: "10.20.30.0/24"},
		{in: "fd12:3456::/32", want: "fd12:3456::/32"},
		{in: "10.0.0.1/8", err: "network 10.0.0.0/8; write it so"},
		{in: "10.0.0.0/8:443", err: "without a port"},
		{in: "0.0.0.0/0", err: "only a private network"},
		{in: "8.0.0.0/7", err: "only a private network"},
		{in: "127.0.0.0/8", err: "only a private network"},
		{in: "169.254.0.0/16", err: "only a private network"},
		{in: "::ffff:10.0.0.0/104", err: "only a private network"},
		{in: "::/0", err: "only a private network"},
		{in: "pkgs.example.org/simple", err: "without a path"},
		{in: "pkgs.example.org:", err: "port is missing"},
		{in: "pkgs.example.org:*", err: "each port"},
		{in: "pkgs.example.org:0", err: "not a port"},
		{in: "pkgs.example.org:0443", err: "not a port"},
		{in: "pkgs.example.org:+443", err: "not a port"},
		{in: "pkgs.example.org:65536", err: "not a port"},
		{in: "[::1]443", err: "follow the bracket"},
		{in: "a:b:c", err: "not an IPv6"},
		{in: "user@pkgs.example.org", err: "user information"},
		{in: "2130706433", err: "write it so"},
		{in: "0x7f.1:80", err: "write it so"},
		{in: "::ffff:127.0.0.1", err: "write it so"},
		{in: "[2001:DB8::1]:443", err: "write it so"},
		{in: "*.192.0.2.7", err: "before a name"},
		{in: " pkgs.example.org", err: "not a character"},
	} {
		r, err := Parse(c.in)
		switch {
		case c.want != "" && (err != nil || r.String() != c.want):
			t.Errorf("Parse(%q) = %q, %v; want %q", c.in, r, err, c.want)
		case c.want == "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("Parse(%q) = %q, %v; want an error with %q", c.in, r, err, c.err)
		}
	}
}

func target(t testing.TB, s string) Target {
	t.Helper()
	target, err := ParseTarget(s, 0)
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
		{"pkgs.example.org", "pkgs.example.org:443", true},
		{"pkgs.example.org", "pkgs.example.org:80", true},
		{"pkgs.example.org", "pkgs.example.org:22", false},
		{"pkgs.example.org:22", "pkgs.example.org:22", true},
		{"pkgs.example.org:22", "pkgs.example.org:443", false},
		{"pkgs.example.org", "www.pkgs.example.org:443", false},
		{"pkgs.example.org", "xpkgs.example.org:443", false},
		{"pkgs.example.org", "pkgs.example.org.evil.com:443", false},
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
		r, err := Parse(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Matches(target(t, c.target)); got != c.want {
			t.Errorf("%s matches %s: %t, want %t", c.rule, c.target, got, c.want)
		}
	}
	if (Rule{}).Matches(Target{}) || (Rule{}).Matches(Target{Port: 443}) || (Rule{}).Denies(Target{}) {
		t.Error("the zero rule matches something")
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
		r, err := Parse("*." + suffix)
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
func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"pkgs.example.org:443", "*.golang.org", "[2001:db8::1]:443", "192.0.2.7", "*.com", "a:0", "bücher.example", "0x7f.1", "a..b", "db=127.0.0.1:5432", "x=unix:/run/x=y", "a=[::1]:1", "::", "[::]", "*.xn--p1ai:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(r.String())
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

func TestMeet(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"a.org", "a.org", "a.org"}, {"a.org", "b.org", ""}, {"a.org:443", "a.org", "a.org:443"}, {"a.org:22", "a.org", ""},
		{"a.org:443", "a.org:80", ""}, {"*.a.org", "x.a.org", "x.a.org"}, {"*.a.org", "a.org", ""}, {"*.a.org", "*.x.a.org:80", "*.x.a.org:80"},
		{"*.a.org", "xa.org", ""}, {"*.a.org", "*.a.org", "*.a.org"}, {"192.0.2.1", "192.0.2.1:80", "192.0.2.1:80"}, {"2001:db8::1", "[2001:db8::1]:443", "[2001:db8::1]:443"},
		{"10.0.0.0/8", "10.0.0.0/8", "10.0.0.0/8"}, {"10.0.0.0/8", "10.1.0.0/16", "10.1.0.0/16"}, {"10.0.0.0/8", "192.168.0.0/16", ""},
		{"10.0.0.0/8", "10.1.2.3", ""}, {"10.0.0.0/8", "a.org", ""}, {"10.0.0.0/8", "*.a.org", ""},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			a, errA := Parse(pair[0])
			b, errB := Parse(pair[1])
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			if both, ok := Meet(a, b); ok != (c.want != "") || ok && both.String() != c.want {
				t.Errorf("%q and %q: %v, %v, want %q", pair[0], pair[1], both, ok, c.want)
			}
		}
	}
}

// TestMeetIsBoth: what two rules have in common matches what both of them match.
func TestMeetIsBoth(t *testing.T) {
	rule := rapid.Map(rapid.SampledFrom([]string{
		"a.org", "a.org:80", "a.org:22", "x.a.org", "*.a.org", "*.a.org:443", "*.x.a.org", "*.x.a.org:80", "192.0.2.1", "192.0.2.1:80", "[2001:db8::1]:443", "10.0.0.0/8", "10.1.0.0/16",
	}), func(s string) Rule {
		r, err := Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
	host := rapid.SampledFrom([]string{"a.org", "x.a.org", "y.x.a.org", "b.org", "192.0.2.1", "2001:db8::1"})
	rapid.Check(t, func(t *rapid.T) {
		a, b := rule.Draw(t, "a"), rule.Draw(t, "b")
		h, err := ParseHost(host.Draw(t, "host"))
		if err != nil {
			t.Fatal(err)
		}
		at := Target{Host: h, Port: rapid.SampledFrom([]uint16{22, 80, 443}).Draw(t, "port")}
		both, _ := Meet(a, b)
		if got, want := both.Matches(at), a.Matches(at) && b.Matches(at); got != want {
			t.Fatalf("%v and %v: %v for %v, want %v", a, b, got, at, want)
		}
	})
}
