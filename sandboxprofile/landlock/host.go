package landlock

import (
	"fmt"
	"path"
	"slices"
	"strings"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// An Error names the part of a profile that Landlock cannot keep without mounts
// and namespaces.
type Error struct {
	Part   string // "network", "unix_sockets", "devices", "paths", "landlock"
	Reason string
	hint   string
}

func (e *Error) Error() string { return fmt.Sprintf("landlock: %s: %s", e.Part, e.Reason) }

// Hint says what a person can do about it.
func (e *Error) Hint() string { return e.hint }

// A Limitation is something that a sandbox of Landlock and seccomp alone refuses
// or narrows, for every profile.
type Limitation struct {
	Part   string
	Reason string
}

// Refusals lists what CompileBrokered refuses to stand for.
func Refusals() []Limitation {
	return []Limitation{
		{"credentials for hosts", "without mounts, programs get no certificate file to trust the egress proxy"},
		{"devices", "ioctls are denied, because Landlock does not cover all of them for files, and devices need ioctls"},
		{"landlock", fmt.Sprintf("Landlock before ABI %d cannot allow files to move between directories", MinHostABI)},
	}
}

// MinHostABI is the oldest ABI version that a sandbox without namespaces can stand on:
// the first that lets files be moved between directories. What later ones add, the
// broker and the filter of programs do too: a call that would truncate a file is the
// broker's (3), so are sockets (4) and, where Landlock does not scope them, signals (6);
// devices take no ioctl(2) but a terminal's (5).
const MinHostABI = 2

// lacks are the parts that the ABI versions before MinHostABI do not cover and nothing
// else can.
var lacks = []struct {
	before int
	what   string
}{
	{2, "files cannot move between directories (refer)"},
}

// CheckHostABI says what an ABI version lacks for a sandbox without namespaces.
func CheckHostABI(abi int) error {
	var missing []string
	for _, l := range lacks {
		if abi < l.before {
			missing = append(missing, l.what)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return &Error{Part: "landlock",
		Reason: fmt.Sprintf("the kernel has ABI version %d, at least %d is needed: %s", abi, MinHostABI, strings.Join(missing, "; ")),
		hint:   "Linux 5.19 or newer, or a host that allows user namespaces"}
}

// An Entry is one name in a directory.
type Entry struct {
	Name string
	Kind sp.FileKind
}

// Brokered is the part that Landlock enforces in the host's own tree, where a broker
// makes the changes of programs.
type Brokered struct {
	// Programs lets programs read and execute what the profile says, and change nothing.
	Programs []Rule
	// Broker has the broker's rights: those of the profile, except what is stricter
	// below something, and patterns.
	Broker []Rule
	// Redirected are directories that programs cannot read wholly by themselves, because
	// something below them is not to be read. See CompileBrokered.
	Redirected []string
	Reads      Reads
}

// Reads is which opens for reading have to ask the broker, so that programs read what the
// profile shows. Each costs many times what it costs in the kernel, whatever it opens: a
// filter does not see the path.
type Reads uint8

const (
	// NoReads: nothing below a redirected directory is lost that a program needs.
	NoReads Reads = iota
	// Listings: one of them cannot be listed, since something below it must not be.
	Listings
	// AllReads: programs may make names in one of them, and no rule is for those.
	AllReads
)

// CompileBrokered gives rules that keep p without mounts.
//
// A rule grants at and below its path and nothing takes away again. So where something
// below a directory may be read less than the directory (a hidden file, a stricter path),
// the directory's own rule is cut to what everything below it has in common, and each of
// its entries gets a rule for itself. This loses what needs a right on the directory
// itself: reading new files in it, and listing it if a directory below is hidden. That
// the broker adds back, and nothing is gained without it. In a directory that programs
// cannot write only people make new names: those are not shown before the next sandbox,
// and its files are read without the broker.
//
// entries lists the directories that Splits names.
func CompileBrokered(p sp.Profile, f sp.Facts, entries map[string][]Entry) (Brokered, error) {
	if err := p.Validate(); err != nil {
		return Brokered{}, fmt.Errorf("landlock: compile: %w", err)
	}
	p = p.Normalize()
	if err := refuseOnHost(p); err != nil {
		return Brokered{}, err
	}
	broker := map[string]AccessFS{}
	for _, k := range p.Keys() {
		if r := p.Paths[k]; r != 0 {
			grant(broker, k, access(r), f.Kinds[k])
		}
	}
	profile := p
	p, f = readOnly(p, f)
	c := newHostCompiler(p, f)
	c.entries, c.writable = entries, func(dir string) bool { return profile.Rights(dir)&sp.Write != 0 }
	for _, k := range p.Keys() {
		if r := p.Paths[k]; r != 0 {
			c.grantTree(k, f.Kinds[k], access(p.Rights(k)))
		}
	}
	slices.Sort(c.narrowed)
	return Brokered{Programs: sorted(c.rules), Broker: sorted(broker), Redirected: slices.Compact(c.narrowed), Reads: c.reads}, nil
}

// readOnly is p without writing, for programs whose changes a broker makes.
func readOnly(p sp.Profile, f sp.Facts) (sp.Profile, sp.Facts) {
	paths := make(map[string]sp.Rights, len(p.Paths))
	for k, r := range p.Paths {
		paths[k] = r &^ sp.Write
	}
	p.Paths, p.Protect = paths, nil
	f.Masks = slices.DeleteFunc(slices.Clone(f.Masks), func(m sp.Mask) bool { return !m.Hide })
	return p, f
}

// Splits are the directories that CompileBrokered needs the entries of.
func Splits(p sp.Profile, f sp.Facts) []string {
	p, f = readOnly(p.Normalize(), f)
	c := newHostCompiler(p, f)
	seen := map[string]bool{}
	for n := range c.nodes {
		for dir := path.Dir(n); ; dir = path.Dir(dir) {
			if full := access(p.Rights(dir)); full != 0 && c.common(dir, full) != full {
				seen[dir] = true
			}
			if dir == "/" {
				break
			}
		}
	}
	var dirs []string
	for dir := range seen {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return dirs
}

func refuseOnHost(p sp.Profile) error {
	switch {
	case len(p.Network.Terminated) > 0:
		return &Error{Part: "credentials for hosts", Reason: "without mounts, programs get no certificate file to trust the egress proxy",
			hint: "remove credentials for hosts, or use a host that allows user namespaces"}
	case slices.ContainsFunc(p.Keys(), func(k string) bool { return p.Paths[k] != 0 && (sp.Contains("/proc", k) || sp.Contains("/dev", k)) }):
		return &Error{Part: "paths", Reason: "the host's /proc and /dev contain the processes and devices of all users",
			hint: "remove paths below /proc and /dev"}
	case len(p.Devices) > 0:
		return &Error{Part: "devices", Reason: fmt.Sprintf("%q needs ioctls, which are denied because some of them change files", p.Devices),
			hint: "remove devices, or use a host that allows user namespaces"}
	}
	return nil
}

type hostCompiler struct {
	profile  sp.Profile
	nodes    map[string]AccessFS // what may be granted, at most, where something has rights of its own
	entries  map[string][]Entry
	rules    map[string]AccessFS
	writable func(dir string) bool
	narrowed []string
	reads    Reads
}

func newHostCompiler(p sp.Profile, f sp.Facts) *hostCompiler {
	c := &hostCompiler{profile: p, nodes: map[string]AccessFS{}, rules: map[string]AccessFS{}}
	for _, k := range p.Keys() {
		c.nodes[k] = atMost(p.Rights(k), f.Kinds[k])
	}
	// A grant of "/" is none of these: they have the processes and the devices of all
	// users, and a sandbox gets what it needs of them by HostFiles.
	for _, tree := range []string{"/proc", "/dev", "/sys"} {
		if _, named := p.Paths[tree]; !named {
			c.nodes[tree] = 0
		}
	}
	for _, m := range f.Masks {
		r := p.Rights(m.Path) &^ sp.Write
		if m.Hide {
			r = 0
		}
		c.nodes[m.Path] = atMost(r, m.Kind)
	}
	return c
}

// atMost is the most that a rule from above may grant to a path with rights r. Listing
// does not matter for a file that is not a directory.
func atMost(r sp.Rights, kind sp.FileKind) AccessFS {
	a := access(r)
	if kind != sp.Dir && kind != sp.Missing {
		a |= ReadDir
	}
	return a
}

// common is the part of full that can be granted at dir without any node below it
// getting more than its own.
func (c *hostCompiler) common(dir string, full AccessFS) AccessFS {
	for n, most := range c.nodes {
		if n != dir && sp.Contains(dir, n) {
			full &= most
		}
	}
	return full
}

// grantTree makes the rules for name, which has the rights full.
func (c *hostCompiler) grantTree(name string, kind sp.FileKind, full AccessFS) {
	if kind != sp.Dir {
		grant(c.rules, name, full, kind)
		return
	}
	at := c.common(name, full)
	grant(c.rules, name, at, kind)
	if at == full {
		return
	}
	c.narrowed = append(c.narrowed, name)
	switch {
	case c.writable(name):
		c.reads = AllReads
	case full&^at&ReadDir != 0:
		c.reads = max(c.reads, Listings)
	}
	for _, e := range c.entries[name] {
		child, most := path.Join(name, e.Name), full
		if own, ok := c.nodes[child]; ok {
			most = own
		}
		c.grantTree(child, e.Kind, most)
	}
}

// HostFiles are granted to every sandbox in the host's own tree beside its profile: the
// plain devices.
func HostFiles() []Rule {
	const rw = ReadFile | WriteFile | Truncate
	return []Rule{{"/dev/full", rw}, {"/dev/null", rw}, {"/dev/random", rw}, {"/dev/urandom", rw}, {"/dev/zero", rw}}
}

// ProgramFiles are HostFiles for programs, which see /proc too. Landlock keeps the
// memory, the environment and the descriptors of processes outside of their domain from
// them; command lines and states can be read.
func ProgramFiles() []Rule { return append(HostFiles(), Rule{"/proc", readAccess}) }

// Scratch is the rule of a private directory.
func Scratch(dir string) Rule { return Rule{Path: dir, Access: fullAccess} }

// Terminals are the files with which the broker, but no program by itself, opens new
// terminals.
func Terminals() []Rule {
	const rw = ReadFile | WriteFile | IoctlDev
	return []Rule{{"/dev/ptmx", rw}, {"/dev/pts", rw}}
}

// ScratchFile is the rule of a private file.
func ScratchFile(name string) Rule { return Rule{Path: name, Access: fullAccess & forFiles} }

// Names lets names be made and removed in a directory, and no content of it be read or
// written.
func Names(dir string) Rule {
	return Rule{Path: dir, Access: RemoveDir | RemoveFile | MakeDir | MakeReg | MakeSock | MakeFifo | MakeSym | Refer}
}

// InitFiles are granted to the init of such a sandbox beyond that, and not to tools. With memory, it also writes to
// files of /proc: to its programs' memory, where no system call does that.
func InitFiles(memory bool) []Rule {
	access := AccessFS(readAccess)
	if memory {
		access |= WriteFile
	}
	return []Rule{{"/proc", access}}
}
