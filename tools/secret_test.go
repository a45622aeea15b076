package tools

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestCredentialsFollowTheNetwork: a program is given those whose host or service every
// list of its network has, with the pins of their files, and TLS ends for these hosts
// only. What the configuration sets of the variables stays.
func TestCredentialsFollowTheNetwork(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Credentials{Rule: "shell.credentials", Covers: slices.Contains[[]string], List: []sandboxprofile.Secret{
		{Name: "B", File: file, Host: "b:443"}, {Name: "A", File: file, Host: "a:443"}, {Name: "A2", File: file, Host: "a:443"},
		{Name: "S", File: file, Service: "s=127.0.0.1:80"},
	}}
	proxied := func(lists ...[]string) sandboxprofile.Network {
		return sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: lists}
	}
	for _, x := range []struct {
		network           sandboxprofile.Network
		names, terminated []string
	}{
		{proxied([]string{"a:443", "b:443", "s=127.0.0.1:80"}), []string{"B", "A", "A2", "S"}, []string{"a:443", "b:443"}},
		{proxied([]string{"a:443", "b:443"}, []string{"a:443"}), []string{"A", "A2"}, []string{"a:443"}},
		{proxied([]string{"s=127.0.0.1:80"}), []string{"S"}, nil},
		{proxied([]string{"c:443"}), nil, nil},
		{sandboxprofile.Network{}, nil, nil},
		{sandboxprofile.Network{Mode: sandboxprofile.NetworkHost}, nil, nil},
	} {
		program := &sandboxprofile.Program{Env: []string{"PATH=/bin", "SSL_CERT_FILE=/own.pem"}}
		before := sandboxprofile.Profile{Network: x.network, Env: sandboxprofile.Env{Names: []string{"PATH", "SSL_CERT_FILE"}}}
		before.Network.Terminated = []string{"stale:443"}
		p, pins, err := c.Give(program, before)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range program.Secrets {
			names = append(names, s.Name)
		}
		if !slices.Equal(names, x.names) || len(pins) != len(names) || !slices.Equal(p.Network.Terminated, x.terminated) {
			t.Errorf("%+v: %q with %d pins, TLS ends for %q", x.network, names, len(pins), p.Network.Terminated)
		}
		bundle, set := LookupEnv(program.Env, "CURL_CA_BUNDLE")
		if set != (x.terminated != nil) || set && bundle != sandboxprofile.TrustBundle || p.Env.Has("CURL_CA_BUNDLE") != set {
			t.Errorf("%+v: %q", x.network, program.Env)
		}
		if own, _ := LookupEnv(program.Env, "SSL_CERT_FILE"); own != "/own.pem" {
			t.Errorf("what the configuration sets became %q", own)
		}
		if !slices.Equal(before.Env.Names, []string{"PATH", "SSL_CERT_FILE"}) {
			t.Errorf("the tool's own profile changed: %q", before.Env.Names)
		}
	}
	os.Remove(file)
	if _, _, err := c.Give(&sandboxprofile.Program{}, sandboxprofile.Profile{Network: proxied([]string{"a:443"})}); err == nil {
		t.Error("a program runs without the file of its credential")
	}
}
