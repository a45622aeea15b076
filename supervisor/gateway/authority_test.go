package gateway

import (
	"testing"
	"time"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestSessionsHaveAuthoritiesOfTheirOwn: another session has another, calls of one session
// share theirs, and one that would end before the call is replaced.
func TestSessionsHaveAuthoritiesOfTheirOwn(t *testing.T) {
	cfg := Config{Roots: []byte("-----BEGIN CERTIFICATE-----\n")}
	p := sandboxprofile.Profile{Limits: sandboxprofile.Limits{Wall: time.Minute}, Network: sandboxprofile.Network{
		Mode: sandboxprofile.NetworkProxied, Terminated: []string{"api.example" + ":443", "api.example" + ":8443"}}}
	one, two := &Session{}, &Session{}
	get := func(x *Session, p sandboxprofile.Profile) *Authority {
		t.Helper()
		a, err := x.Authority(p, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := get(one, p)
	if get(one, p) != first || get(two, p) == first {
		t.Error("an authority is shared between sessions, or not within one")
	}
	other := p
	other.Network.Terminated = []string{"beyond.example" + ":443"}
	if get(one, other) == first {
		t.Error("an authority is shared between hosts")
	}
	long := p
	long.Limits.Wall = 25 * time.Hour
	if a := get(one, long); a == first || a.Expires().Before(time.Now().Add(long.Limits.Wall)) {
		t.Errorf("a call of %v has an authority until %v", long.Limits.Wall, a.Expires())
	}
	long.Limits.Wall = time.Duration(sandboxprofile.Unlimited)
	if a := get(one, long); a.Expires().Before(time.Now().Add(longestCall)) {
		t.Errorf("a call without end has an authority until %v", a.Expires())
	}
}
