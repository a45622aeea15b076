package sbpl

import (
	"fmt"
	"path"
	"slices"
	"strings"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// Vars are the values that one sandbox has and a profile does not.
type Vars struct {
	// Tag marks the sandbox's denials in the system log: letters, digits, dots,
	// dashes and underscores.
	Tag string
	// ProxyPort is where the egress proxy listens on loopback. Only a proxied
	// network needs it.
	ProxyPort uint16
	// Scratch maps each scratch directory of the profile to the directory on the
	// host that serves for it: private to the sandbox, empty, and removed with it.
	Scratch map[string]string
	// Ceiling bounds the one action that the text is for; nil means no ceiling.
	Ceiling *sp.Ceiling
}

// An Error names the part of a profile that Seatbelt cannot keep.
type Error struct {
	Part   string // "paths", "scratch", "protect", "hide", "network", "unix_sockets", "devices", "syscalls", "tag"
	Path   string
	Reason string
	hint   string
}

func (e *Error) Error() string {
	return fmt.Sprintf("sbpl: compile %s %q: %s", e.Part, e.Path, e.Reason)
}

// Hint says what a person can do about it.
func (e *Error) Hint() string { return e.hint }

// Compile gives the text of a Seatbelt profile for p on the host that f describes.
// The command must be started in a session of its own, so that /dev/tty is not a
// terminal of the user's.
func Compile(p sp.Profile, f sp.Facts, v Vars) (string, error) {
	if err := p.Validate(); err != nil {
		return "", fmt.Errorf("sbpl: compile: %w", err)
	}
	if v.Ceiling != nil {
		p = p.Under(v.Ceiling.Class)
	}
	c := &compiler{profile: p.Normalize(), facts: f, vars: v}
	// The order is the policy: the last rule that matches decides.
	for _, step := range []func() error{
		c.refuse,
		c.resolveKeys,
		c.compilePatterns,
		c.preamble,
		c.processes,
		c.libraries,
		c.tree,
		c.scratch,
		// After everything that grants a subtree, which may hold one of these.
		c.devices,
		c.ancestors,
		c.patterns,
		c.masks,
		// Pins after all that grants, since each takes from a grant.
		c.pins,
		c.network,
		c.sockets,
		c.programs,
		c.setID,
	} {
		if err := step(); err != nil {
			return "", err
		}
	}
	return c.text.String(), nil
}

type compiler struct {
	profile sp.Profile
	facts   sp.Facts
	vars    Vars
	text    writer

	kernel        sp.Profile // the paths as the kernel names them, without patterns
	protect, hide []pattern
	private       []string // the host's directories that serve for scratch
}

// refuse rejects what has no counterpart in Seatbelt.
func (c *compiler) refuse() error {
	p := c.profile
	for _, k := range p.Keys() {
		if sp.Contains("/dev", k) && (p.Paths[k] != 0 || slices.Contains(p.Scratch, k)) {
			return &Error{Part: "paths", Path: k, Reason: "the sandbox has its own /dev", hint: "name single device nodes under devices"}
		}
	}
	if slices.Contains(p.UnixSockets, sp.All) {
		return &Error{Part: "unix_sockets", Path: sp.All, Reason: "the profile allows every socket instead of a list", hint: "name each socket"}
	}
	if slices.Contains(p.Devices, sp.All) {
		return &Error{Part: "devices", Path: sp.All, Reason: "the profile allows every device instead of a list", hint: "name each device"}
	}
	if len(p.Syscalls) > 0 {
		return &Error{Part: "syscalls", Path: p.Syscalls[0], Reason: "Seatbelt does not know groups of Linux system calls",
			hint: "remove syscalls from the profile on macOS"}
	}
	if len(p.Network.Expose) > 0 {
		return &Error{Part: "network.expose", Path: p.Network.Expose[0], Reason: "a Seatbelt sandbox does not have its own network, so it cannot expose ports",
			hint: "remove expose, or use network: host if all connections in both directions are acceptable"}
	}
	if p.Network.Mode == sp.NetworkProxied && c.vars.ProxyPort == 0 {
		return &Error{Part: "network", Path: p.Network.Mode.String(), Reason: "the port of the egress proxy is missing"}
	}
	if c.vars.Tag == "" || strings.Trim(c.vars.Tag, tagChars) != "" {
		return &Error{Part: "tag", Path: c.vars.Tag, Reason: "want letters, digits, dots, dashes and underscores"}
	}
	return nil
}

const tagChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// resolveKeys rewrites the paths of the profile as the kernel names them. A
// scratch directory's own path carries no rights; what serves for it does.
func (c *compiler) resolveKeys() error {
	c.kernel.Paths = make(map[string]sp.Rights)
	spelling := make(map[string]string) // by folded path, the key
	for _, k := range c.profile.Keys() {
		r := c.profile.Paths[k]
		if slices.Contains(c.profile.Scratch, k) {
			r = 0
		}
		name := Resolve(k)
		if err := writable(name); err != nil {
			return &Error{Part: "paths", Path: k, Reason: err.Error()}
		}
		if other, ok := spelling[strings.ToLower(name)]; ok {
			return &Error{Part: "paths", Path: k, Reason: fmt.Sprintf("may be the same path as %q but has other rights", other),
				hint: "name it once"}
		}
		spelling[strings.ToLower(name)] = k
		c.kernel.Paths[name] = r
	}
	if err := c.blindWrites(); err != nil {
		return err
	}
	return c.resolveScratch()
}

// blindWrites refuses a tree that may be written and not read beside one that
// may be both: a rename between them makes the file readable.
func (c *compiler) blindWrites() error {
	blind, open := "", len(c.profile.Scratch) > 0
	for k, r := range c.kernel.Paths {
		switch r & (sp.Read | sp.Write) {
		case sp.Write:
			blind = max(blind, k)
		case sp.Read | sp.Write:
			open = true
		}
	}
	if blind != "" && open {
		return &Error{Part: "paths", Path: blind, Reason: "write without read cannot be enforced: files could be moved to a readable directory",
			hint: "grant both or neither"}
	}
	return nil
}

func (c *compiler) resolveScratch() error {
	for _, dir := range c.profile.Scratch {
		given, ok := c.vars.Scratch[dir]
		serves := Resolve(given)
		switch {
		case !ok:
			return &Error{Part: "scratch", Path: dir, Reason: "the directory that replaces it is missing"}
		case !path.IsAbs(given) || path.Clean(given) != given || given == "/" || writable(given) != nil || sp.Contains("/dev", given):
			return &Error{Part: "scratch", Path: given, Reason: "cannot be a scratch directory: use a separate absolute, clean path"}
		}
		for _, k := range c.keys() {
			if sp.Contains(serves, k) {
				return &Error{Part: "scratch", Path: given, Reason: fmt.Sprintf("would give all rights to %q of the profile", k)}
			}
		}
		if !slices.Contains(c.private, serves) {
			c.private = append(c.private, serves)
		}
	}
	return nil
}

func (c *compiler) keys() []string { return c.kernel.Keys() }

// around is the rights of the tree that k lies in.
func (c *compiler) around(k string) sp.Rights {
	if k == "/" {
		return 0
	}
	return c.kernel.Rights(path.Dir(k))
}

func (c *compiler) preamble() error {
	c.text.line("(version 1)")
	c.text.comment("Everything that no rule below allows. The message marks denials in the system log.")
	c.text.line("(deny default %s)", c.with())
	c.text.comment("What default leaves out.")
	c.deny("process-info* nvram* iokit-get-properties file-map-executable")
	c.text.comment("A second name or a copy would have the rights of another path.")
	c.deny("file-link file-clone")
	return nil
}

// with is the modifier of a denial.
func (c *compiler) with() string { return fmt.Sprintf("(with message %s)", quote(c.vars.Tag)) }

func (c *compiler) allow(ops string, filters ...string) { c.text.rule("allow", ops, filters, "") }

func (c *compiler) deny(ops string, filters ...string) { c.text.rule("deny", ops, filters, c.with()) }

// processes is what a process needs from the system to run at all.
func (c *compiler) processes() error {
	c.text.section("processes")
	c.text.comment("Programs start others; which ones is file access below.")
	c.allow("process-fork")
	c.text.comment("Its own processes, and no other's.")
	c.allow("signal", "(target same-sandbox)")
	c.text.comment("Run times ask for their own threads and limits.")
	c.allow("process-info*", "(target self)")
	c.text.comment("socketpair(2) and sockets in scratch; which may be connected to is below.")
	c.allow("system-socket", "(socket-domain AF_UNIX)")
	c.text.comment("openpty(3); a terminal is reachable by who opened it.")
	c.allow("pseudo-tty")
	c.named("sysctl-read", sysctls())
	c.named("mach-lookup", machServices())
	c.named("ipc-posix-shm-read-data", sharedMemory())
	return nil
}

// named allows an operation on names, each with its reason.
func (c *compiler) named(op string, list []named) {
	for _, n := range list {
		c.text.comment(n.reason)
		c.allow(op, fmt.Sprintf("(%s %s)", n.filter, quote(n.name)))
	}
}

// libraries are read by every dynamically linked program before its first
// instruction. The profile's own paths come after it.
func (c *compiler) libraries() error {
	c.text.section("the system's libraries")
	for _, b := range systemFiles() {
		c.text.comment(b.reason)
		c.allow(b.operations, b.filter())
	}
	return nil
}

// operations express rights in Seatbelt's words.
func operations(r sp.Rights) string {
	var ops []string
	for _, e := range []struct {
		right sp.Rights
		ops   string
	}{
		{sp.Read, "file-read* file-test-existence"},
		{sp.Write, "file-write*"},
		{sp.Execute, "process-exec* file-map-executable"},
	} {
		if r&e.right != 0 {
			ops = append(ops, e.ops)
		}
	}
	return strings.Join(ops, " ")
}

const everyRight = sp.Read | sp.Write | sp.Execute

// tree writes the paths of the profile, parents first, each as the difference to
// what lies around it.
func (c *compiler) tree() error {
	c.text.section("the profile's paths")
	for _, k := range c.keys() {
		r, around := c.kernel.Paths[k], c.around(k)
		if more := r &^ around; more != 0 {
			c.text.comment(fmt.Sprintf("The profile grants %v at %s.", r, k))
			c.allow(operations(more), subpath(k))
		}
		if less := around &^ r; less != 0 || r == 0 {
			if r == 0 {
				less = everyRight
			}
			c.text.comment(fmt.Sprintf("The profile leaves %v at %s.", r, k))
			c.deny(operations(less), subpath(k), foldedTree(k))
		}
	}
	return nil
}

// scratch comes before the patterns: in a directory that is moved here they
// have to hold still.
func (c *compiler) scratch() error {
	for _, dir := range c.private {
		c.text.comment(fmt.Sprintf("A scratch directory of this sandbox: %s.", dir))
		c.allow(operations(everyRight), subpath(dir))
	}
	return nil
}

func (c *compiler) devices() error {
	c.text.section("devices")
	c.text.comment("Device nodes are named one by one, whatever the profile grants around them.")
	c.deny(operations(everyRight)+" file-ioctl", subpath("/dev"))
	for _, b := range systemDevices() {
		c.text.comment(b.reason)
		c.allow(b.operations, b.filter())
	}
	c.text.comment("Terminals that the sandbox opened itself, and none of the user's.")
	c.allow("file-read* file-write* file-ioctl", `(require-all (regex #"^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty"))`)
	for _, d := range c.profile.Devices {
		if err := writable(d); err != nil {
			return &Error{Part: "devices", Path: d, Reason: err.Error()}
		}
		if c.facts.Kinds[d] == sp.Other {
			c.text.comment("The profile names this device.")
			c.allow("file-read* file-test-existence file-write* file-ioctl", literal(d))
		}
	}
	return nil
}

// ancestors lets the directories above what is granted be looked at, and not
// listed: realpath(3) asks for each.
func (c *compiler) ancestors() error {
	seen := make(map[string]bool)
	add := func(name string) {
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			seen[dir] = seen[dir] || c.kernel.Rights(dir)&sp.Read == 0
		}
	}
	for _, k := range c.keys() {
		if c.kernel.Paths[k] != 0 {
			add(k)
		}
	}
	for _, dir := range c.private {
		add(dir)
	}
	var filters []string
	for _, dir := range sortedPaths(seen) {
		if seen[dir] {
			filters = append(filters, literal(dir))
		}
	}
	if len(filters) > 0 {
		c.text.comment("Directories on the way to what is granted: realpath(3) looks at each. Their names only, no listing.")
		c.allow("file-read-metadata file-test-existence", filters...)
	}
	return nil
}

// masks are added to the patterns by a survey: sockets that are not listed.
func (c *compiler) masks() error {
	for _, m := range c.facts.Masks {
		if c.byPattern(m) {
			continue
		}
		name := Resolve(m.Path)
		if err := writable(name); err != nil {
			return &Error{Part: "paths", Path: m.Path, Reason: err.Error()}
		}
		taken := sp.Write
		if m.Hide {
			taken = everyRight
		}
		c.text.comment("The survey of the host found this to be kept away.")
		c.deny(operations(taken), subpath(name), foldedTree(name))
	}
	return nil
}

// byPattern reports whether a pattern keeps m already.
func (c *compiler) byPattern(m sp.Mask) bool {
	return matchAny(c.profile.Hide, m.Path) || !m.Hide && matchAny(c.profile.Protect, m.Path)
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return sp.MatchPattern(p, name) })
}

// programs takes back every right to execute but that of the files a ceiling names.
func (c *compiler) programs() error {
	l := c.vars.Ceiling
	if l != nil && l.EmptyHome {
		c.text.section("home")
		c.text.comment("What one program of a line leaves in HOME, another one takes its orders from.")
		for _, dir := range c.profile.Fleeting() {
			c.deny("file-write*", subpath(Resolve(c.vars.Scratch[dir])))
		}
	}
	if l == nil || l.AnyProgram {
		return nil
	}
	c.text.section("ceiling")
	c.text.comment("No person has allowed this action: it starts what its answer was about, and nothing else.")
	c.deny("process-exec*")
	for _, name := range l.Programs {
		if c.profile.Rights(name)&sp.Execute != 0 {
			c.allow("process-exec*", literal(name))
		}
	}
	return nil
}

// setID comes last: nothing gives these back.
func (c *compiler) setID() error {
	c.text.section("set-id")
	c.text.comment("No program gains another user's or group's rights, and no file is made that gives any.")
	c.deny("process-exec*", "(file-mode #o4000)", "(file-mode #o2000)")
	c.deny("file-write-setugid")
	return nil
}
