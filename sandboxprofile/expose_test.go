package sandboxprofile_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/sandgate/sandgate/sandboxprofile"
	"pgregory.net/rapid"
)

func TestParseExposedPort(t *testing.T) {
	for text, want := range map[string]string{
		"8080": "8080:8080", "3000:13000": "3000:13000", "0:80": "0:80", "65535": "65535:65535", "1:1": "1:1",
		"0": "", "80:0": "", "": "", ":80": "", "80:": "", "1:2:3": "", "65536": "", "-1": "", "+80": "", "080": "", "00:80": "", "80 ": "", "http": "", "0x50": "", "*": "",
	} {
		got, err := ParseExposedPort(text)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v, want %q", text, got, err, want)
		}
	}
}

// TestExposedPortsMeet: a port is exposed by a meet exactly if both expose it, where
// the host's network exposes every one.
func TestExposedPortsMeet(t *testing.T) {
	exposes := func(p Profile, port string) bool {
		return p.Network.Mode == NetworkHost || slices.Contains(p.Network.Expose, port) || slices.Contains(p.Network.Expose, All)
	}
	seen := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		a, b := genProfile.Draw(t, "a"), genProfile.Draw(t, "b")
		for _, port := range []string{"1:1", "0:1", "2:1"} {
			want := exposes(a, port) && exposes(b, port)
			seen[want]++
			if got := exposes(Intersect(a, b), port); got != want {
				t.Fatalf("%s: exposed %v, want %v, by %+v and %+v", port, got, want, a.Network, b.Network)
			}
		}
	})
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("only one way was seen: %v", seen)
	}
}

func TestExposedPortsAreValidated(t *testing.T) {
	for _, c := range []struct {
		network Network
		want    string // in the error; "" for none
	}{
		{Network{Expose: []string{"80:80", "0:80", "0:81"}}, ""},
		{Network{Expose: []string{All}}, ""},
		{Network{Mode: NetworkProxied, Allow: [][]string{{"x"}}, Expose: []string{"80:80"}}, ""},
		{Network{Expose: []string{"80"}}, `write "80:80"`},
		{Network{Expose: []string{"80:80", "80:81"}}, "the same port of the host"},
		{Network{Expose: []string{"http"}}, "neither PORT nor HOST:INSIDE"},
		{Network{Mode: NetworkHost, Expose: []string{"80:80"}}, "remove the list"},
	} {
		err := Profile{Network: c.network, Limits: NoLimits()}.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.network, err, c.want)
		}
	}
}

// TestAnExposedPortIsInThePlan: it changes what is hashed and what sandboxes are
// shared by, and it is said wherever a profile is shown.
func TestAnExposedPortIsInThePlan(t *testing.T) {
	without := Profile{Limits: NoLimits()}
	with := without
	with.Network.Expose = []string{"3000:13000"}
	if without.Digest() == with.Digest() || without.Key() == with.Key() {
		t.Error("the digest or the key is the same")
	}
	warned := strings.Join(Warnings(with), "\n")
	var said []string
	for _, s := range Explain(with).Sections {
		said = append(said, s.Items...)
	}
	for _, text := range []string{warned, strings.Join(said, "\n")} {
		if !strings.Contains(text, "port 13000 at 127.0.0.1:3000") {
			t.Errorf("%q does not say it", text)
		}
	}
	if slices.ContainsFunc(Warnings(without), func(w string) bool { return strings.Contains(w, "can connect to") }) {
		t.Error("the twin without a port has the warning")
	}
}
