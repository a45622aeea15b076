package bwrap

import (
	"fmt"
	"slices"
	"strconv"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// Hostname is the answer of gethostname(2) inside.
const Hostname = "sandgate"

// An Error names the part of a profile that mounts cannot keep.
type Error struct {
	Part   string // "paths", "scratch", "devices", "unix_sockets"
	Path   string
	Reason string
	hint   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("bwrap: compile %s %q: %s", e.Part, e.Path, e.Reason)
}

// Hint says what a person can do about it.
func (e *Error) Hint() string { return e.hint }

// Compile gives bubblewrap's arguments for p on the host that f describes, up to
// and without the command. The environment is not part of them: bubblewrap itself
// has to be started with an empty one, since --clearenv leaves the caller's
// readable in /proc/1/environ.
func Compile(p sp.Profile, f sp.Facts) ([]string, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("bwrap: compile: %w", err)
	}
	p = p.Normalize()
	if err := refuse(p); err != nil {
		return nil, err
	}
	c := &compiler{profile: p, facts: f}
	c.isolate()
	// Binds, scratch and masks in the order of their paths: a mount hides what
	// was mounted below its target before, so parents come first.
	if err := c.mountTree(); err != nil {
		return nil, err
	}
	// The sandbox's own /proc and /dev after the tree, so that a grant of "/"
	// does not put the host's on top.
	c.ownTrees()
	// Read-only remounts last: up to here bubblewrap has to create mount points
	// in these directories.
	c.seal()
	return c.args, nil
}

type compiler struct {
	profile sp.Profile
	facts   sp.Facts
	args    []string
	sealed  []string // own directories that end up read-only
}

func (c *compiler) add(args ...string) { c.args = append(c.args, args...) }

// refuse rejects what has no meaning for a sandbox's mounts.
func refuse(p sp.Profile) error {
	for _, k := range p.Keys() {
		own := sp.Contains("/proc", k) || sp.Contains("/dev", k)
		if own && (p.Paths[k] != 0 || slices.Contains(p.Scratch, k)) {
			return &Error{Part: "paths", Path: k, Reason: "the sandbox has its own /proc and /dev",
				hint: "name single device nodes under devices"}
		}
	}
	if slices.Contains(p.UnixSockets, sp.All) {
		return &Error{Part: "unix_sockets", Path: sp.All, Reason: "the profile allows every socket instead of a list", hint: "name each socket"}
	}
	if p.Network.HasOpenExpose() {
		return &Error{Part: "network.expose", Path: sp.All, Reason: "the profile allows every port instead of a list", hint: "name each port"}
	}
	if slices.Contains(p.Devices, sp.All) {
		return &Error{Part: "devices", Path: sp.All, Reason: "the profile allows every device instead of a list", hint: "name each device"}
	}
	return nil
}

func (c *compiler) isolate() {
	c.add("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup")
	// A proxied network is an own, empty one too: its only way out is a
	// descriptor that the launcher hands over.
	if c.profile.Network.Mode != sp.NetworkHost {
		c.add("--unshare-net")
	}
	c.add(
		"--die-with-parent",
		"--new-session", // no controlling terminal, so none to push input into
		"--as-pid-1",    // the sandbox's init kills by kill(-1) and reaps; it must be process 1
		"--cap-drop", "ALL",
		"--hostname", Hostname,
	)
}

func (c *compiler) ownTrees() {
	c.add("--proc", "/proc", "--dev", "/dev")
	c.tmpfs("/dev/shm", "1777")
	if len(c.profile.Network.Terminated) > 0 {
		fd := NameFileFD + len(sp.NameFiles()) // behind these, whether or not they are used
		c.add("--perms", "0444", "--ro-bind-data", strconv.Itoa(fd), sp.TrustBundle)
	}
	for _, file := range c.facts.Proc {
		c.add("--ro-bind", "/dev/null", file)
	}
	for _, d := range c.profile.Devices {
		if c.facts.Kinds[d] == sp.Other {
			c.add("--dev-bind", d, d)
		}
	}
	// As root, files such as /proc/sys/kernel/core_pattern belong to the same
	// user inside and would open for writing without any capability.
	c.sealed = append(c.sealed, "/proc", "/dev")
}

func (c *compiler) seal() {
	for _, dir := range c.sealed {
		c.add("--remount-ro", dir)
	}
	if _, granted := c.profile.Paths["/"]; !granted {
		c.add("--remount-ro", "/")
	}
}

// tmpfs mounts a writable directory of the sandbox's own.
func (c *compiler) tmpfs(dir, perms string) {
	c.add("--perms", perms)
	if size := c.profile.Limits.Scratch; size != sp.Unlimited {
		c.add("--size", strconv.FormatInt(size, 10))
	}
	c.add("--tmpfs", dir)
}
