package linux_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// trusting prepares sandboxes whose programs are to trust bundle.
type trusting struct {
	confine.Confiner
	bundle string
}

func (c trusting) Prepare(ctx context.Context, p sandboxprofile.Profile) (confine.Sandbox, error) {
	return c.Confiner.Prepare(confine.WithTrust(ctx, []byte(c.bundle)), p)
}

func terminating(t *testing.T, ws string) sandboxprofile.Profile {
	t.Helper()
	p := confinetest.Profile(t, ws)
	p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"a.example.org"}}, Terminated: []string{"a.example.org:443"}}
	return p
}

// TestTrustBundleIsReadOnly: programs find what they are to trust where the profile ends
// TLS at the proxy, and only there. They cannot change it, nor anything else that the next
// call would trust, and nothing of it is left on the host.
func TestTrustBundleIsReadOnly(t *testing.T) {
	const bundle = "first certificate\nsecond certificate\n"
	for name, c := range map[string]confine.Confiner{"fresh": newBwrap(t), "warm": newWarmPool(t)} {
		ws := confinetest.Workspace(t)
		c, p := trusting{c, bundle}, terminating(t, ws)
		if o := confinetest.Shell(t, c, p, ws, "cat "+sandboxprofile.TrustBundle); o.Out != bundle {
			t.Fatalf("%s: %+v", name, o)
		}
		for _, act := range []string{
			"echo x > F", "echo x >> F", ": > F", "rm -f F", "mv F F.old", "chmod u+w F", "ln -sf /tmp/x F", "touch F.new",
			`exec 3< F && echo x > /proc/self/fd/3`,
		} {
			act = strings.ReplaceAll(act, "F", sandboxprofile.TrustBundle)
			o := confinetest.Shell(t, c, p, ws, act)
			denied := strings.Contains(o.Err, "Read-only file system") || strings.Contains(o.Err, "Permission denied") ||
				strings.Contains(o.Err, "Operation not permitted") || strings.Contains(o.Err, "resource busy")
			if o.ExitCode == 0 || !denied {
				t.Errorf("%s: %q: %+v", name, act, o)
			}
		}
		if o := confinetest.Shell(t, c, p, ws, "cat "+sandboxprofile.TrustBundle); o.Out != bundle {
			t.Errorf("%s: afterwards it is %q", name, o.Out)
		}
		p.Network.Terminated = nil
		if o := confinetest.Shell(t, c, p, ws, "cat "+sandboxprofile.TrustBundle); !strings.Contains(o.Err, "No such file") {
			t.Errorf("%s: without such a host: %+v", name, o)
		}
	}
	for _, left := range []string{sandboxprofile.TrustBundle, "/tmp/bindfile*"} {
		if found, _ := filepath.Glob(left); len(found) > 0 {
			t.Errorf("left on the host: %q", found)
		}
	}
}

// TestWarmSandboxesAreNotSharedBetweenTrusts: a warm sandbox whose programs trust another authority is not
// used again, and one with the same is.
func TestWarmSandboxesAreNotSharedBetweenTrusts(t *testing.T) {
	ws := confinetest.Workspace(t)
	pool, p := newWarmPool(t), terminating(t, ws)
	first := identity(t, trusting{pool, "one"}, p, ws)
	if again := identity(t, trusting{pool, "one"}, p, ws); again != first {
		t.Error("the same trust has another warm sandbox")
	}
	if other := identity(t, trusting{pool, "two"}, p, ws); other == first {
		t.Error("another trust has the same warm sandbox")
	}
	if o := confinetest.Shell(t, trusting{pool, "three"}, p, ws, "cat "+sandboxprofile.TrustBundle); o.Out != "three" {
		t.Errorf("%+v", o)
	}
}

// TestNothingToTrustDoesNotRun: a profile that ends TLS at the proxy needs what programs
// are to trust.
func TestNothingToTrustDoesNotRun(t *testing.T) {
	ws := confinetest.Workspace(t)
	var u *confine.Unenforceable
	if box, err := newBwrap(t).Prepare(context.Background(), terminating(t, ws)); !errors.As(err, &u) || !strings.Contains(u.Part, "TLS") {
		t.Errorf("%v, %v", box, err)
	}
	if _, err := os.Stat(ws); err != nil {
		t.Error(err)
	}
}
