package confine_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

var trueAction = sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
	Path: "/bin/true", Argv: []string{"true"}, Dir: "/", Env: []string{"PATH=/bin"},
}}

// Compare the three in one run: what a call costs bare, in a sandbox that
// stands, and with the sandbox built for it.

func BenchmarkBareExec(b *testing.B) {
	for b.Loop() {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBareBwrap(b *testing.B) {
	for b.Loop() {
		cmd := exec.Command("/usr/bin/bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
			"--symlink", "usr/bin", "/bin", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "true")
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStandingSandbox(b *testing.B) {
	c, box := benchSandbox(b)
	defer c.Close()
	defer box.Close()
	for b.Loop() {
		if _, err := box.Run(context.Background(), trueAction, confine.Stdio{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFreshSandbox(b *testing.B) {
	c, box := benchSandbox(b)
	defer c.Close()
	box.Close()
	for b.Loop() {
		box, err := c.Prepare(context.Background(), benchProfile(b))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := box.Run(context.Background(), trueAction, confine.Stdio{}); err != nil {
			b.Fatal(err)
		}
		box.Close()
	}
}

func benchSandbox(b *testing.B) (*confine.Bwrap, confine.Sandbox) {
	c, err := confine.NewBwrap("")
	if err != nil {
		b.Fatal(err)
	}
	box, err := c.Prepare(context.Background(), benchProfile(b))
	if err != nil {
		b.Fatal(err)
	}
	return c, box
}

func benchProfile(b *testing.B) sandboxprofile.Profile {
	return confinetest.Profile(b, "")
}
