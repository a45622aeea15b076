package linux_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
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

// BenchmarkStandingSandboxUnderCeiling: what the layer of a ceiling adds to a call. Both
// calls are made in turns, each first in every second round, so that whatever else the
// machine does is in both.
func BenchmarkStandingSandboxUnderCeiling(b *testing.B) {
	c, box := benchSandbox(b)
	defer c.Close()
	defer box.Close()
	under := trueAction
	under.Ceiling = &sandboxprofile.Ceiling{Class: sandboxprofile.ClassRead, AnyProgram: true}
	var added []time.Duration
	for i := 0; b.Loop(); i++ {
		var took [2]time.Duration
		for j := range 2 {
			with := (i + j) % 2
			begin := time.Now()
			if _, err := box.Run(context.Background(), []sandboxprofile.Action{trueAction, under}[with], confine.Stdio{}); err != nil {
				b.Fatal(err)
			}
			took[with] = time.Since(begin)
		}
		added = append(added, took[1]-took[0])
	}
	slices.Sort(added)
	b.ReportMetric(float64(added[len(added)/2].Microseconds()), "added-µs/call")
}

// BenchmarkFreshSandbox is what a call pays for that gets no sandbox that stands: with
// Landlock alone that is each.
func BenchmarkFreshSandbox(b *testing.B) {
	c, box := benchSandbox(b)
	defer c.Close()
	box.Close()
	l, err := linux.NewLandlock(linux.LandlockOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for _, backend := range []confine.Confiner{c, l} {
		b.Run(backend.Name(), func(b *testing.B) {
			for b.Loop() {
				box, err := backend.Prepare(context.Background(), benchProfile(b))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := box.Run(context.Background(), trueAction, confine.Stdio{}); err != nil {
					b.Fatal(err)
				}
				box.Close()
			}
		})
	}
}

// BenchmarkFreshSandboxWithHosts has an allow-list of hosts, and is ready to carry
// programs that know no proxy.
func BenchmarkFreshSandboxWithHosts(b *testing.B) {
	c, box := benchSandbox(b)
	defer c.Close()
	box.Close()
	p := benchProfile(b)
	p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{"a.example.org", "b.example.org:7000"}}}
	carry := confine.Addresses{
		Local:     []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15")},
		Listen:    []netip.AddrPort{netip.MustParseAddrPort("[::]:53"), netip.MustParseAddrPort("[::]:80"), netip.MustParseAddrPort("[::]:443"), netip.MustParseAddrPort("198.18.0.2:7000")},
		Datagrams: netip.MustParseAddrPort("127.0.0.1:53"),
	}
	var first, again time.Duration
	for b.Loop() {
		box, err := c.Prepare(context.Background(), p)
		if err != nil {
			b.Fatal(err)
		}
		l, err := box.(confine.Proxied).Egress()
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		in, err := box.(confine.Proxied).Carry(carry)
		if err != nil {
			b.Fatal(err)
		}
		first += time.Since(start)
		start = time.Now()
		second, err := box.(confine.Proxied).Carry(carry)
		if err != nil {
			b.Fatal(err)
		}
		again += time.Since(start)
		if _, err := box.Run(context.Background(), trueAction, confine.Stdio{}); err != nil {
			b.Fatal(err)
		}
		l.Close()
		for _, x := range []confine.Carried{in, second} {
			x.Datagrams.Close()
			for _, s := range x.Streams {
				s.Close()
			}
		}
		box.Close()
	}
	b.ReportMetric(float64(first.Microseconds())/float64(b.N), "µs/carry")
	b.ReportMetric(float64(again.Microseconds())/float64(b.N), "µs/carry-again")
}

func benchSandbox(b *testing.B) (*linux.Bwrap, confine.Sandbox) {
	c, err := linux.NewBwrap("")
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

// BenchmarkReads is what an open for reading and its close cost a program, by where hidden
// names lie: nowhere, in a directory that it only reads, and where it makes names.
func BenchmarkReads(b *testing.B) {
	const loop = `
import os, sys, time
name, n = sys.argv[1], int(sys.argv[2])
t = time.perf_counter()
flags = os.O_RDONLY | os.O_CLOEXEC | (os.O_DIRECTORY if os.path.isdir(name) else 0)
for _ in range(n): os.close(os.open(name, flags))
print(int((time.perf_counter() - t) * 1e9 / n))`
	l, err := linux.NewLandlock(linux.LandlockOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for _, x := range []struct {
		name   string
		hidden string // below the workspace or home
		write  sandboxprofile.Rights
		read   string
	}{
		{"nothing hidden", "", sandboxprofile.Write, "file"},
		{"beside hidden names, read-only", ".env", 0, "file"},
		{"a directory, beside a hidden one, read-only", "secrets/x", 0, ""},
		{"a file, beside a hidden directory, read-only", "secrets/x", 0, "file"},
		{"of the system, where hidden names are written beside", ".env", sandboxprofile.Write, "/usr/bin/env"},
		{"where hidden names are written beside", ".env", sandboxprofile.Write, "file"},
	} {
		b.Run(strings.ReplaceAll(x.name, " ", "-"), func(b *testing.B) {
			ws := confinetest.Workspace(b)
			for _, name := range []string{x.hidden, "file"} {
				if name = filepath.Join(ws, name); name == ws {
					continue
				}
				if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, nil, 0o644)); err != nil {
					b.Fatal(err)
				}
			}
			p := confinetest.Profile(b, "")
			p.Hide = []string{".env", "secrets"}
			p.Limits = sandboxprofile.NoLimits()
			p.Paths[ws] = sandboxprofile.Read | x.write
			const n = 20_000
			var total float64
			name := x.read
			if !filepath.IsAbs(name) {
				name = filepath.Join(ws, name)
			}
			for b.Loop() {
				o := confinetest.Exec(b, context.Background(), l, p, "/", nil, "/usr/bin/python3", "-IS", "-c", loop, name, strconv.Itoa(n))
				ns, err := strconv.ParseFloat(strings.TrimSpace(o.Out), 64)
				if err != nil {
					b.Fatal(err, o.Err)
				}
				total += ns
			}
			b.ReportMetric(total/float64(b.N), "ns/open")
			b.ReportMetric(0, "ns/op")
		})
	}
}
