package bwrap

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// A node is one path at which the sandbox's tree may differ from what is
// mounted around it.
type node struct {
	path    string
	kind    sp.FileKind
	want    sp.Rights
	scratch bool
	socket  bool
	mask    bool // named by the survey; nothing is lost if it has gone
	pin     bool // must be a mount point itself
	own     bool // a file of the sandbox's own, that the launcher fills
}

// A layer is the mount at a path, and so the one around the nodes below it.
type layer struct {
	path string
	host bool // a directory of the host; otherwise the sandbox's own
	want sp.Rights
}

// mountTree walks the nodes, parents first, and mounts where a node's rights
// are not those of the layer around it.
func (c *compiler) mountTree() error {
	nodes := c.nodes()
	stack := []layer{{path: "/"}} // the sandbox's empty root
	for _, n := range nodes {
		for !sp.Contains(stack[len(stack)-1].path, n.path) {
			stack = stack[:len(stack)-1]
		}
		l, err := c.mount(n, stack[len(stack)-1], nodes)
		if err != nil {
			return err
		}
		if l != nil {
			stack = append(stack, *l)
		}
	}
	return nil
}

// nodes are the keys of the profile, the surveyed masks with the directories
// that pin them, and the listed sockets, parents before children.
func (c *compiler) nodes() []node {
	byPath := make(map[string]node)
	for _, k := range c.profile.Keys() {
		if sp.Contains("/proc", k) || sp.Contains("/dev", k) {
			continue // no rights, and the host's are never visible there
		}
		byPath[k] = node{path: k, kind: c.facts.Kinds[k], want: c.profile.Rights(k),
			scratch: slices.Contains(c.profile.Scratch, k)}
	}
	for _, k := range c.profile.Keys() {
		if n, ok := byPath[k]; ok && !n.scratch && n.want&sp.Write == 0 {
			c.pin(byPath, c.writableParents(k))
		}
	}
	for _, m := range c.facts.Masks {
		c.addMask(byPath, m)
	}
	for _, name := range c.profile.OwnNames(c.facts) {
		n := byPath[name]
		n.path, n.kind, n.want, n.own = name, sp.File, sp.Read, true
		byPath[name] = n
	}
	for _, s := range c.profile.UnixSockets {
		if !hidden(c.profile, s) {
			byPath[s] = node{path: s, kind: c.facts.Kinds[s], want: sp.Read, socket: true}
		}
	}
	return slices.SortedFunc(maps.Values(byPath), func(a, b node) int { return sp.ComparePaths(a.path, b.path) })
}

func (c *compiler) addMask(byPath map[string]node, m sp.Mask) {
	n, ok := byPath[m.Path]
	if n.scratch {
		return
	}
	if !ok {
		n = node{path: m.Path, kind: m.Kind, want: c.profile.Rights(m.Path), mask: true}
	}
	n.want &^= sp.Write
	if m.Hide {
		n.want = 0
	}
	byPath[m.Path] = n
	c.pin(byPath, c.writableParents(m.Path))
}

// pin makes directories mount points of their own: rename(2) of one is EBUSY.
func (c *compiler) pin(byPath map[string]node, dirs []string) {
	for _, dir := range dirs {
		pin, ok := byPath[dir]
		if !ok {
			pin = node{path: dir, kind: sp.Dir, want: c.profile.Rights(dir), mask: true}
		}
		pin.pin = true
		byPath[dir] = pin
	}
}

// writableParents are the directories between name and the granted tree around
// it. A tool that could move one away could put its own copy in its place,
// without the mount that keeps name from being written: another hook in what the
// user still takes for the same repository.
func (c *compiler) writableParents(name string) []string {
	var dirs []string
	for dir := path.Dir(name); c.profile.Rights(dir)&sp.Write != 0; dir = path.Dir(dir) {
		if _, key := c.profile.Paths[dir]; key {
			break // a mount point by itself
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

func hidden(p sp.Profile, name string) bool { return matches(p.Hide, name) }

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pat string) bool { return sp.MatchPattern(pat, name) })
}

// mount emits the arguments that make n true inside the layer around it, and returns
// the layer that n is for the nodes below, or nil if n is not one.
func (c *compiler) mount(n node, around layer, nodes []node) (*layer, error) {
	switch {
	case n.own:
		c.mountOwn(n)
		return nil, nil
	case n.scratch:
		return c.mountScratch(n, around)
	case n.kind == sp.Missing:
		return nil, c.missing(n, around)
	case n.kind == sp.Symlink:
		return nil, c.mountSymlink(n, around)
	case n.socket:
		return nil, c.mountSocket(n, around)
	case n.want == 0:
		return c.mountNothing(n, around, nodes), nil
	}
	return c.mountHost(n, around), nil
}

// NameFileFD is the descriptor from which the first of sandboxprofile.NameFiles is
// read, and the next ones from those that follow.
const NameFileFD = 6

func (c *compiler) mountOwn(n node) {
	fd := NameFileFD + slices.Index(sp.NameFiles(), n.path)
	c.add("--perms", "0444", "--ro-bind-data", strconv.Itoa(fd), n.path)
}

// missing accepts a path that the host does not have when nothing would be
// taken away there. It cannot be mounted over, and creating it just for that
// would leave a stub behind on the host. A protected name needs no mount: what a
// call makes of that name is taken from it, there or anywhere.
func (c *compiler) missing(n node, around layer) error {
	if n.mask || n.socket || !around.host || around.want.SubsetOf(n.want) {
		return nil
	}
	if around.want.SubsetOf(n.want|sp.Write|sp.Execute) && matches(c.profile.Protect, n.path) {
		return nil
	}
	return &Error{Part: "paths", Path: n.path,
		Reason: fmt.Sprintf("does not exist, so it cannot be limited to %v inside %q with %v", n.want, around.path, around.want),
		hint:   "put it back, or start again with a configuration that does not name it"}
}

func (c *compiler) mountScratch(n node, around layer) (*layer, error) {
	if around.host && around.want != 0 && n.kind != sp.Dir {
		return nil, &Error{Part: "scratch", Path: n.path,
			Reason: fmt.Sprintf("is %v on the host inside %q, where sandgate cannot create a mount point", n.kind, around.path),
			hint:   "create the directory, or put the scratch directory elsewhere"}
	}
	c.markStubs(n.path, around)
	c.tmpfs(n.path, "0700")
	return &layer{path: n.path}, nil
}

// mountSymlink makes a link where the sandbox has its own directory: /bin to
// usr/bin. It grants the name only; what the link leads to has rights of its own.
func (c *compiler) mountSymlink(n node, around layer) error {
	switch {
	case around.host && !n.mask && !around.want.SubsetOf(n.want) && around.want&sp.Write != 0:
		return &Error{Part: "paths", Path: n.path,
			Reason: fmt.Sprintf("is a symbolic link, so it cannot be limited to %v inside %q with %v", n.want, around.path, around.want),
			hint:   "name the target of the link"}
	case around.host, n.want == 0:
		return nil
	}
	target, ok := c.facts.Links[n.path]
	if !ok {
		return &Error{Part: "paths", Path: n.path, Reason: "is a symbolic link whose target the survey does not contain"}
	}
	c.add("--symlink", target, n.path)
	return nil
}

// mountSocket shows exactly one socket. Read-only does not stop connect(2), and
// keeps the node from being changed.
func (c *compiler) mountSocket(n node, around layer) error {
	if n.kind != sp.Other {
		return &Error{Part: "unix_sockets", Path: n.path, Reason: fmt.Sprintf("is not a socket but %v", n.kind)}
	}
	c.markStubs(path.Dir(n.path), around)
	c.add("--ro-bind", n.path, n.path)
	return nil
}

// mountNothing covers a path of the host that carries no rights.
func (c *compiler) mountNothing(n node, around layer, nodes []node) *layer {
	if !around.host {
		return nil // it is not there
	}
	if n.kind != sp.Dir {
		// A bind of a device without dev is MNT_NODEV: open(2) gives EACCES, and
		// there is nothing to read, write or execute.
		c.markStubs(path.Dir(n.path), around)
		c.add("--ro-bind", "/dev/null", n.path)
		return nil
	}
	// No process has a capability inside, so the mode also applies to root. Paths
	// granted further down must still be reached, by name only.
	perms := "0000"
	if grantsBelow(nodes, n.path) {
		perms = "0111"
	}
	c.markStubs(n.path, around)
	c.add("--perms", perms, "--tmpfs", n.path)
	c.sealed = append(c.sealed, n.path)
	return &layer{path: n.path}
}

func grantsBelow(nodes []node, dir string) bool {
	return slices.ContainsFunc(nodes, func(n node) bool {
		return n.path != dir && sp.Contains(dir, n.path) && (n.want != 0 || n.scratch)
	})
}

// mountHost binds a path of the host, unless the layer around shows it already
// with the same write access. Read and execute are Landlock's.
func (c *compiler) mountHost(n node, around layer) *layer {
	l := &layer{path: n.path, host: true, want: n.want}
	writable := n.want&sp.Write != 0
	if around.host && (around.want&sp.Write != 0) == writable && !(n.pin && writable) {
		return l
	}
	if n.mask && !around.host {
		return nil // a mask outside every granted tree grants nothing
	}
	if n.kind == sp.Dir {
		c.markStubs(n.path, around)
	} else {
		c.markStubs(path.Dir(n.path), around)
	}
	if writable {
		c.add("--bind", n.path, n.path)
	} else {
		c.add("--ro-bind", n.path, n.path)
	}
	return l
}

// StubPerms is the mode of a directory that bubblewrap makes on the host because the
// one that it was to mount over is gone by then. No other program makes one with it,
// so it is safe to remove.
const StubPerms fs.FileMode = 0o705

// markStubs has bubblewrap make dir with StubPerms, and what is missing above it,
// where it would make them a moment later with 0755. Of one that is there it changes
// nothing (bubblewrap 0.8, setup_newroot and ensure_dir).
func (c *compiler) markStubs(dir string, around layer) {
	_, granted := c.profile.Paths[dir]
	if around.host && around.want&sp.Write != 0 && !(granted && dir == around.path) {
		c.add("--perms", fmt.Sprintf("%04o", StubPerms), "--dir", dir)
	}
}
