package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/initbin"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/seccomp"
)

// Probe tries what this host enforces. Nothing is read off a version number that
// can be tried; the last probes run programs in a real sandbox, built by the same
// code as a call's. bwrap is as for NewBwrap.
func Probe(ctx context.Context, bwrap string) []confine.Finding {
	findings := []confine.Finding{
		probeBwrap(bwrap),
		probeInit(),
		probeLandlock(),
		probeSeccomp(),
	}
	findings = append(findings, probeSandbox(ctx, bwrap)...)
	return append(findings, probeCgroups())
}

// finding makes a Finding of an error: an *Unenforceable is an answer, any other
// error means that none was found.
func finding(name, detail string, needed bool, err error) confine.Finding {
	f := confine.Finding{Name: name, Status: confine.Held, Detail: detail, Needed: needed}
	if err == nil {
		return f
	}
	f.Status, f.Detail = confine.Unknown, err.Error()
	var u *confine.Unenforceable
	if errors.As(err, &u) {
		f.Status, f.Detail, f.Remedy = confine.Absent, u.Reason, u.Hint
	}
	return f
}

func probeBwrap(path string) confine.Finding {
	found, err := findBwrap(path)
	detail := ""
	if err == nil {
		var v [3]int
		v, err = checkBwrapVersion(found)
		detail = fmt.Sprintf("%s, version %d.%d.%d", found, v[0], v[1], v[2])
	}
	return finding("bubblewrap", detail, true, err)
}

func probeInit() confine.Finding {
	program, err := initbin.Open()
	if err != nil {
		return finding("sandbox init", "", true, &confine.Unenforceable{Reason: err.Error(), Hint: "build with `make build`"})
	}
	defer program.Close()
	return finding("sandbox init", fmt.Sprintf("%s, %d bytes", program.From, program.Size), true, nil)
}

func probeLandlock() confine.Finding {
	abi, err := landlockABI()
	return finding("landlock", fmt.Sprintf("ABI %d", abi.ABI), true, err)
}

func probeSeccomp() confine.Finding {
	filter, err := seccomp.Filter(nil)
	if err != nil {
		err = &confine.Unenforceable{Reason: err.Error(), Hint: "build sandgate for this architecture with cgo and libseccomp"}
	} else if mode, perr := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0); perr != nil {
		err = &confine.Unenforceable{Reason: "the kernel has no seccomp: " + perr.Error(), Hint: "a kernel with CONFIG_SECCOMP_FILTER"}
	} else if mode == 1 {
		err = &confine.Unenforceable{Reason: "this process is in strict seccomp mode", Hint: "start sandgate outside of it"}
	}
	return finding("seccomp", fmt.Sprintf("filter of %d instructions", len(filter)/8), true, err)
}

// probeSandbox builds a sandbox and lets programs in it try what must not work.
func probeSandbox(ctx context.Context, path string) []confine.Finding {
	const name = "sandbox"
	b, err := NewBwrap(path)
	if err != nil {
		return []confine.Finding{finding(name, "", true, err)}
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return append(tryActs(ctx, name, b, probeActs), probeCarrying(ctx, b))
}

// tryActs builds a sandbox on ground of this user's own and lets programs in it try what
// must not work.
func tryActs(ctx context.Context, name string, c confine.Confiner, acts []act) []confine.Finding {
	g, err := newGround()
	if err != nil {
		return []confine.Finding{finding(name, "", true, err)}
	}
	defer g.remove()
	box, err := c.Prepare(ctx, g.profile())
	if err != nil {
		return []confine.Finding{finding(name, "", true, err)}
	}
	defer box.Close()
	findings := []confine.Finding{finding(name, box.Enforced().Files, true, nil)}
	for _, act := range acts {
		findings = append(findings, act.probe(ctx, box, g))
	}
	return findings
}

// A probeDir is a directory of this user's with two files in it: `shown`, which may be read
// in a sandbox, and `secret`, which may not. Without a sandbox this user could read and
// change both. A probe that an ordinary user's rights alone refuse shows nothing.
type probeDir struct{ dir string }

func newGround() (probeDir, error) {
	dir, err := os.MkdirTemp("", "sandgate-probe-")
	if err != nil {
		return probeDir{}, &confine.Unenforceable{
			Part: "a directory to try things in", Reason: err.Error(), Hint: "set TMPDIR to a directory that this user can write",
		}
	}
	g := probeDir{dir}
	if g.dir, err = filepath.EvalSymlinks(dir); err == nil {
		err = os.Mkdir(filepath.Join(g.dir, "open"), 0o700)
	}
	for _, name := range []string{"open/shown", "secret"} {
		if err == nil {
			err = os.WriteFile(filepath.Join(g.dir, name), []byte("text\n"), 0o600)
		}
	}
	if err != nil {
		g.remove()
	}
	return g, err
}

func (g probeDir) profile() sandboxprofile.Profile {
	p := probeProfile()
	p.Paths[filepath.Join(g.dir, "open")] = sandboxprofile.Read
	return p
}

func (g probeDir) remove() { _ = os.RemoveAll(g.dir) } // what is left is a few bytes in TMPDIR

// probeCarrying tries what programs without proxy support need under an allow-list of
// hosts. Without it they reach nothing, which is safe.
func probeCarrying(ctx context.Context, b *Bwrap) confine.Finding {
	const name = "allow-list without a proxy"
	p := probeProfile()
	p.Network = sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{{}}}
	box, err := b.Prepare(ctx, p)
	if err != nil {
		return finding(name, "", false, err)
	}
	defer box.Close()
	carried, err := box.(confine.Proxied).Carry(confine.Addresses{
		Local:     []netip.Prefix{netip.MustParsePrefix("198.18.0.0/15")},
		Listen:    []netip.AddrPort{netip.AddrPortFrom(netip.IPv6Unspecified(), 80)},
		Datagrams: netip.MustParseAddrPort("127.0.0.1:53"),
	})
	closeCarried(carried)
	f := finding(name, "programs that know no proxy reach the listed hosts too", false, err)
	if f.Status != confine.Held {
		f.Detail = "only programs that use the proxy variables reach listed hosts: " + f.Detail
		f.Remedy = "let sandgate own the networks that it makes: no container or security module that takes CAP_NET_ADMIN in a user namespace of one's own away"
	}
	return f
}

// probeProfile shows the programs of the system and nothing else.
func probeProfile() sandboxprofile.Profile {
	const rx = sandboxprofile.Read | sandboxprofile.Execute
	p := sandboxprofile.Profile{
		Paths:   map[string]sandboxprofile.Rights{"/etc/ld.so.cache": sandboxprofile.Read},
		Scratch: []string{"/tmp"},
		Limits:  sandboxprofile.NoLimits(),
	}
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib32", "/lib64"} {
		p.Paths[dir] = rx
	}
	for _, dir := range []string{"/nix/store", "/run/current-system"} {
		// As another user's, root would run what it tries as its owner, which it may not be
		// able to become: that would say nothing about the host.
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil && (st.Uid == 0 || os.Geteuid() != 0) {
			p.Paths[dir] = rx
		}
	}
	p.Limits.Wall = 10 * time.Second
	return p
}

// An act is a shell command that prints its result; want is the result in a sandbox
// that works. $1 is the ground's directory and $2 this process.
type act struct {
	name, script, want, detail string
}

var probeActs = []act{
	{"user namespaces", "echo up", "up", "bubblewrap builds a sandbox as this user"},
	{"files", "read -r x < $1/open/shown; test -e $1/secret && echo $x seen || echo $x absent", "text absent", "what is not listed does not exist inside"},
	{"read-only files", "(: >> $1/open/shown) 2>/dev/null && echo written || echo refused", "refused", "what may only be read cannot be written"},
	{"read-only system", "(echo x > /usr/sandgate-probe) 2>/dev/null && echo written || echo refused", "refused", "system directories cannot be written"},
	{"capabilities", "while read -r k v; do case $k in Cap???:) printf %s $v;; esac; done < /proc/self/status | tr -d 0; echo none", "none", "no capability in any set"},
	{"no_new_privs", "while read -r k v; do case $k in NoNewPrivs:|Seccomp:) printf '%s ' $v;; esac; done < /proc/self/status; echo", "1 2", "set-id programs gain nothing, the filter is on"},
	{"processes", "set -- /proc/[0-9]*; echo $#", "2", "only the sandbox's own processes are visible"},
	{"network", "tail -n +3 /proc/net/dev | while read -r dev rest; do printf %s $dev; done; echo", "lo:", "an own network namespace with loopback only"},
	{"environment", "tr '\\0' '\\n' < /proc/1/environ 2>/dev/null; echo none", "none", "process 1 holds none of the caller's variables"},
	{"descriptors", "cd /proc/self/fd && n=0; for f in *; do test -e $f && n=$((n+1)); done; echo $n", "3", "no descriptor beyond the standard streams"},
	{"terminal", "(: > /dev/tty) 2>/dev/null && echo open || echo none", "none", "no controlling terminal"},
}

func (a act) probe(ctx context.Context, box confine.Sandbox, g probeDir) confine.Finding {
	var out bytes.Buffer
	r, err := box.Run(ctx, sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
		Path: "/bin/sh", Argv: []string{"sh", "-c", a.script, "sh", g.dir, strconv.Itoa(os.Getpid())}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"},
	}}, confine.Stdio{Stdout: &out})
	got := strings.TrimSpace(out.String())
	switch {
	case err != nil:
		return finding(a.name, "", true, err)
	case r.Cause != confine.Exited:
		return finding(a.name, "", true, fmt.Errorf("the probe %s %s", r.Cause, r.Errno))
	case got != a.want:
		return finding(a.name, "", true, &confine.Unenforceable{Reason: fmt.Sprintf("the probe gave %q, expected %q", got, a.want), Hint: "please report this with the output of `sandgate doctor --json`"})
	}
	return finding(a.name, a.detail, true, nil)
}

// probeCgroups looks for a cgroup v2 directory of ours with the memory and pids
// controllers. Without one, init counts what a call uses.
func probeCgroups() confine.Finding {
	t, err := ownCgroups()
	if err != nil {
		return finding("cgroups", "", false, err)
	}
	return finding("cgroups", "memory and pids are delegated in "+t.dir, false, t.close())
}
