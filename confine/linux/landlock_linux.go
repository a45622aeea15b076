package linux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/confine/initbin"
	"github.com/sandgate/sandgate/confine/privatedirs"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/internal/memfile"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/landlock"
	"github.com/sandgate/sandgate/sandboxprofile/seccomp"
)

// LandlockOptions are the options of a Landlock backend. The zero value is the strict
// one.
type LandlockOptions struct {
	// ABI says what the kernel's Landlock can do; nil asks the kernel.
	ABI func() (landlock.Version, error)
	// Seccomp compiles the filters; nil is package seccomp.
	Seccomp *Filters
	// room is that of another backend of the same process, or nil.
	room *room
}

// Filters compiles system call filters.
type Filters struct {
	Base     func(lift []string) ([]byte, error)    // of programs
	Broker   func(lift []string) ([]byte, error)    // of init, which is a broker
	Served   func(lift []string) ([]byte, error)    // of its programs
	Brokered func(seccomp.Brokered) ([]byte, error) // of them, beside Served
	Shared   func(sockets bool) ([]byte, error)     // of programs without a broker, beside Base
}

// A Landlock confines with Landlock, seccomp and a broker in the host's own namespaces,
// for hosts that bar user namespaces (containers among them). It may be stricter than a
// profile and is never weaker: what it cannot keep it refuses. It is safe for concurrent
// use.
type Landlock struct {
	init    *lazyFile // sealed memfd
	abi     landlock.Version
	filters Filters
	guard   *tripwire.Guard
	room    *room
	sweep   sync.Once

	join    sync.Once
	cgroups *cgroupTree // of joined; nil where no cgroup v2 directory is delegated to us
}

// NewLandlock checks that this host has what the backend stands on. Its error is
// an *Unenforceable.
func NewLandlock(o LandlockOptions) (*Landlock, error) {
	ask := o.ABI
	if ask == nil {
		ask = landlockABI
	}
	abi, err := ask()
	if err != nil {
		return nil, err
	}
	if err := landlock.CheckHostABI(abi.ABI); err != nil {
		return nil, confine.NewUnenforceable("Landlock", err)
	}
	if err := mayReadChildren(); err != nil {
		return nil, err
	}
	return newLandlock(o, abi)
}

// mayReadChildren: a broker reads what its programs ask for in their memory, as ptrace(2)
// would. Yama's scope 1 leaves that to ancestors, which a broker is; 2 asks for a
// capability, which no process of a sandbox has, and 3 forbids it to all.
func mayReadChildren() error {
	scope := sysctl("kernel/yama/ptrace_scope")
	if scope != "2" && scope != "3" {
		return nil
	}
	u := &confine.Unenforceable{Part: partBroker, Reason: "no process may read the memory of its children (Yama, kernel.yama.ptrace_scope=" + scope + ")"}
	u.Hint = "sysctl kernel.yama.ptrace_scope=1; or user namespaces, with which bubblewrap needs no broker"
	if scope == "3" {
		u.Hint = "boot with kernel.yama.ptrace_scope=1, since 3 stays until then; or user namespaces, with which bubblewrap needs no broker"
	}
	return u
}

func newLandlock(o LandlockOptions, abi landlock.Version) (*Landlock, error) {
	// Where bubblewrap works nothing is built here, and no program is needed.
	l := &Landlock{init: &lazyFile{make: initFile}, abi: abi, guard: tripwire.New(nil), room: o.room, filters: Filters{
		Base: seccomp.Filter, Broker: seccomp.BrokerFilter, Served: seccomp.ServedFilter, Brokered: seccomp.BrokeredFilter, Shared: seccomp.SharedFilter,
	}}
	if o.Seccomp != nil {
		l.filters = *o.Seccomp
	}
	if l.room == nil {
		l.room = newRoom()
	}
	return l, nil
}

// initFile is a sealed file with the program that is process 1.
func initFile() (*os.File, error) {
	program, err := initbin.Open()
	if err != nil {
		return nil, &confine.Unenforceable{Part: "the sandbox's first process", Reason: err.Error(), Hint: "run `make build`"}
	}
	defer program.Close()
	return memfile.NewProgram("sandgate-init", program)
}

// A lazyFile is made at its first use, if there is one.
type lazyFile struct {
	make func() (*os.File, error)
	once sync.Once
	file *os.File
	err  error
}

func (f *lazyFile) get() (*os.File, error) {
	f.once.Do(func() { f.file, f.err = f.make() })
	return f.file, f.err
}

// close closes the file if there is one. It is not made any more.
func (f *lazyFile) close() error {
	f.once.Do(func() { f.err = os.ErrClosed })
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Name implements Confiner.
func (l *Landlock) Name() string { return "landlock" }

// Close frees the backend; the owners of its sandboxes close those.
func (l *Landlock) Close() error {
	l.join.Do(func() {})
	_ = l.cgroups.close() // as with bubblewrap
	return l.init.close()
}

// joined gives the directory to make cgroups in, nil if none is delegated to us. The
// first sandbox asks for it: where bubblewrap works there is none.
func (l *Landlock) joined() *cgroupTree {
	l.join.Do(func() {
		if t, err := ownCgroups(); err == nil {
			l.cgroups = t
		}
	})
	return l.cgroups
}

// Use makes g the guard of every sandbox that is built from now on.
func (l *Landlock) Use(g *tripwire.Guard) { l.guard = g }

// Prepare implements Confiner.
func (l *Landlock) Prepare(ctx context.Context, p sandboxprofile.Profile) (_ confine.Sandbox, err error) {
	leave, err := l.room.enter(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			leave()
		}
	}()
	plan, err := l.plan(ctx, p)
	if err != nil {
		return nil, err
	}
	plan.leave = leave
	box, err := l.build(ctx, plan)
	if err != nil {
		return nil, err
	}
	return box, nil
}

// plan looks at the host, and gives what a sandbox of p is to be built from now.
func (l *Landlock) plan(ctx context.Context, p sandboxprofile.Profile) (hostPlan, error) {
	seen, err := l.guard.Survey(p)
	if err != nil {
		return hostPlan{}, err
	}
	if err := quiet(confine.FrozenOf(ctx)); err != nil {
		return hostPlan{}, err
	}
	p = withoutOurs(p, seen.Facts.Masks)
	facts := withoutSockets(p, freezing(seen, p, confine.FrozenOf(ctx)).Facts)
	user, err := owner(p)
	if err != nil {
		return hostPlan{}, err
	}
	rules, crowded, err := l.compile(p, facts)
	if err != nil {
		return hostPlan{}, err
	}
	setup, err := l.restrictions(p, facts, rules, seen.Named)
	if err != nil {
		return hostPlan{}, err
	}
	if b := setup.Shared; b != nil && b.Broker != nil {
		b.Broker.Protect = append(b.Broker.Protect, frozenPatterns(confine.FrozenOf(ctx))...)
	}
	return hostPlan{profile: p, seen: seen, user: user, setup: setup, enforced: l.enforced(p, rules, crowded)}, nil
}

// withoutOurs is p without any right to sandgate's own directories, under whatever other
// names they are mounted: no pattern matches those names, and no mount can cover them.
func withoutOurs(p sandboxprofile.Profile, masks []sandboxprofile.Mask) sandboxprofile.Profile {
	paths := p.Paths
	for _, m := range masks {
		if m.Hide && m.Kind == sandboxprofile.Dir && p.Rights(m.Path) != 0 {
			if len(paths) == len(p.Paths) {
				paths = maps.Clone(p.Paths)
			}
			paths[m.Path] = 0
		}
	}
	p.Paths = paths
	return p
}

// compile gives the rules, or refuses a profile that they cannot keep. crowded are the
// directories of which some entries have none: see thin.
func (l *Landlock) compile(p sandboxprofile.Profile, f sandboxprofile.Facts) (rules landlock.Brokered, crowded []string, err error) {
	entries := map[string][]landlock.Entry{}
	for _, dir := range landlock.Splits(p, f) {
		list, err := os.ReadDir(dir)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
			continue // nothing to grant
		}
		if err != nil {
			return rules, nil, fmt.Errorf("confine: survey %q: %w", dir, err)
		}
		for _, e := range list {
			entries[dir] = append(entries[dir], landlock.Entry{Name: e.Name(), Kind: hostfs.KindOf(e.Type())})
		}
	}
	rules, err = landlock.CompileBrokered(p, f, entries)
	if n := len(rules.Programs); err == nil && n > maxHostRules {
		crowded = thin(entries, n-maxHostRules)
		rules, err = landlock.CompileBrokered(p, f, entries)
		rules.Reads = landlock.AllReads
	}
	var cannot *landlock.Error
	if errors.As(err, &cannot) {
		return rules, nil, confine.NewUnenforceable(cannot.Part, cannot)
	}
	if err != nil {
		return rules, nil, confine.NewUnenforceable("the Landlock rules", err)
	}
	if n := len(rules.Programs); n > maxHostRules {
		return rules, nil, &confine.Unenforceable{Part: "hidden names", Reason: fmt.Sprintf("%d rules would be needed, at most %d are made", n, maxHostRules),
			Hint: "list fewer paths in sandbox.paths, or allow user namespaces"}
	}
	return rules, crowded, nil
}

// maxHostRules bounds a ruleset: each rule is a file that is opened.
const maxHostRules = 8192

// thin takes at least so many entries away from directories beside hidden names, those
// with the most first, and gives the directories. A tool can make any number of names, and
// what has no rule is withheld from programs and read through the broker, though not
// executed. So what is least likely to be a program goes first.
func thin(entries map[string][]landlock.Entry, many int) (crowded []string) {
	for _, goes := range []func(dir string, e landlock.Entry) bool{
		func(dir string, e landlock.Entry) bool {
			return e.Kind != sandboxprofile.Dir && unix.Faccessat(unix.AT_FDCWD, path.Join(dir, e.Name), unix.X_OK, unix.AT_SYMLINK_NOFOLLOW) != nil
		},
		func(_ string, e landlock.Entry) bool { return e.Kind != sandboxprofile.Dir },
		func(string, landlock.Entry) bool { return true },
	} {
		byCount := slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
			return cmp.Or(len(entries[b])-len(entries[a]), strings.Compare(a, b))
		})
		for _, dir := range byCount {
			if many <= 0 {
				return crowded
			}
			had := len(entries[dir])
			entries[dir] = slices.DeleteFunc(entries[dir], func(e landlock.Entry) bool { return goes(dir, e) })
			if gone := had - len(entries[dir]); gone > 0 {
				many -= gone
				if !slices.Contains(crowded, dir) {
					crowded = append(crowded, dir)
				}
			}
		}
	}
	return crowded
}

// restrictions are the limits that init puts on itself, and on each program.
func (l *Landlock) restrictions(p sandboxprofile.Profile, f sandboxprofile.Facts, rules landlock.Brokered, named []string) (wire.Setup, error) {
	open := p.Network.Mode == sandboxprofile.NetworkHost
	own, err := l.filters.Broker(p.Syscalls)
	if err != nil {
		return wire.Setup{}, confine.NewUnenforceable("the system call filter", err)
	}
	base, err := l.filters.Served(p.Syscalls)
	if err != nil {
		return wire.Setup{}, confine.NewUnenforceable("the system call filter", err)
	}
	notifying, err := l.filters.Brokered(seccomp.Brokered{Sockets: open, Reads: rules.Reads == landlock.AllReads, Lists: rules.Reads == landlock.Listings, Signals: !l.abi.Scope})
	if err != nil {
		return wire.Setup{}, confine.NewUnenforceable("the system call filter", err)
	}
	programs, err := identifyRules(p, slices.Concat(rules.Programs, present(landlock.ProgramFiles())))
	if err != nil {
		return wire.Setup{}, err
	}
	brokers, err := identifyRules(p, slices.Concat(rules.Broker, present(landlock.HostFiles()), present(landlock.Terminals())))
	if err != nil {
		return wire.Setup{}, err
	}
	domain := wire.Landlock{HandledFS: uint64(l.abi.Access)}
	if l.abi.Scope {
		domain.Scoped = landlockScopes
	}
	if !open {
		domain.HandledNet = 1<<l.abi.Net - 1
	}
	b := &wire.Broker{Programs: domain, Base: base, Protect: slices.Concat(p.Protect, named), Hide: p.Hide, Kept: keptFiles(f), Redirected: rules.Redirected}
	b.Programs.Rules = programs
	for _, k := range p.Keys() {
		b.Paths = append(b.Paths, wire.Grant{Path: k, Rights: p.Paths[k]})
	}
	for _, dir := range p.Scratch { // as a host path it carries no rights
		if _, granted := p.Paths[dir]; !granted {
			b.Paths = append(b.Paths, wire.Grant{Path: dir})
		}
	}
	// The broker binds and connects for programs, which may do neither.
	domain.HandledNet = 0
	setup := wire.Setup{Landlock: domain, Seccomp: own, Shared: &wire.Shared{Seccomp: notifying, Broker: b}}
	setup.Landlock.Rules = brokers
	// Init reads what its programs ask for in /proc. Root could write the machine's settings there, and has no need to.
	b.WritesMemory = os.Geteuid() != 0 && !broker.ReachesMemory()
	if setup.Shared.Own, err = identifyRules(p, landlock.InitFiles(b.WritesMemory)); err != nil {
		return wire.Setup{}, err
	}
	return setup, nil
}

// keptFiles are the protected and hidden files that were there before, whatever other
// names they have or get.
func keptFiles(f sandboxprofile.Facts) []wire.FileID {
	var kept []wire.FileID
	for _, m := range f.Masks {
		if m.Kind != sandboxprofile.File {
			continue
		}
		if file, err := hostfs.Identify(unix.AT_FDCWD, m.Path); err == nil {
			kept = append(kept, file)
		}
	}
	return kept
}

func present(rules []landlock.Rule) []landlock.Rule {
	return slices.DeleteFunc(rules, func(r landlock.Rule) bool { return unix.Access(r.Path, unix.F_OK) != nil })
}

// identifyRules adds to each rule which file is meant, found without following a link
// below what a tool may write to: another call could exchange a directory for a
// link before init opens it.
func identifyRules(p sandboxprofile.Profile, rules []landlock.Rule) ([]wire.LandlockRule, error) {
	var list []wire.LandlockRule
	for _, r := range rules {
		file, err := wire.FileID{}, error(nil)
		if root := hostfs.WritableAround(p, r.Path); root != "" {
			_, file, err = hostfs.Locate(root, r.Path)
		} else {
			file, err = hostfs.Identify(unix.AT_FDCWD, r.Path)
		}
		if errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.EACCES) {
			continue // a mount of another user's, or one whose server is gone: nobody gets there
		}
		if err != nil {
			return nil, fmt.Errorf("confine: %q changed while the sandbox was built: %w", r.Path, err)
		}
		list = append(list, wire.LandlockRule{Path: r.Path, Access: uint64(r.Access), File: file})
	}
	return list, nil
}

// withoutSockets drops the masks of sockets that no pattern hides: here no socket
// can be made to connect to them.
func withoutSockets(p sandboxprofile.Profile, f sandboxprofile.Facts) sandboxprofile.Facts {
	hide := sandboxprofile.NewMatcher(p.Hide)
	f.Masks = slices.DeleteFunc(slices.Clone(f.Masks), func(m sandboxprofile.Mask) bool {
		return m.Hide && m.Kind == sandboxprofile.Other && !hide.Match(m.Path)
	})
	return f
}

// A hostPlan is everything that a sandbox in the host's namespaces is built from.
type hostPlan struct {
	profile  sandboxprofile.Profile
	seen     tripwire.Survey
	user     *syscall.Credential
	setup    wire.Setup
	enforced confine.Enforced
	leave    func() // of the room; nil for one that is not in it
}

// build starts init and has it restrict itself.
func (l *Landlock) build(ctx context.Context, plan hostPlan) (_ *hostSandbox, err error) {
	l.sweep.Do(func() { privatedirs.RemoveStale(append(privatedirs.Places(), "/tmp")) }) // where pools lie, whatever TMPDIR says
	own, err := privatedirs.New(plan.profile, plan.user)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			own.Remove()
		}
	}()
	for _, dir := range append(slices.Collect(maps.Values(own.ByPlace)), own.Sockets) {
		if plan.setup.Landlock.HandledFS == 0 {
			break
		}
		file, err := hostfs.Identify(unix.AT_FDCWD, dir)
		if err != nil {
			return nil, fmt.Errorf("confine: private directory: %w", err)
		}
		rule := wire.LandlockRule{Path: dir, Access: uint64(landlock.Scratch(dir).Access), File: file}
		b := plan.setup.Shared.Broker
		if dir != own.Sockets || b != nil {
			plan.setup.Landlock.Rules = append(plan.setup.Landlock.Rules, rule)
		}
		if dir != own.Sockets && b != nil {
			b.Programs.Rules = append(b.Programs.Rules, rule)
		}
	}
	if b := plan.setup.Shared.Broker; b != nil {
		own.Pools = privatedirs.MakePools(plan.profile, plan.user)
		for _, p := range own.Pools {
			names, err := p.Own()
			if err != nil {
				return nil, fmt.Errorf("confine: private %s: %w", p.Place, err)
			}
			plan.setup.Landlock.Rules = append(plan.setup.Landlock.Rules, slices.Concat(p.Rules, names)...)
			b.Programs.Rules = append(b.Programs.Rules, p.Rules...)
			b.Pools = append(b.Pools, wire.Pool{Place: p.Place, Dir: p.Dir})
		}
	}
	for _, dir := range own.ByPlace {
		plan.setup.Shared.Private = append(plan.setup.Shared.Private, dir)
	}
	var homes []string
	for _, dir := range plan.profile.Fleeting() {
		homes = append(homes, own.ByPlace[dir])
		plan.setup.Fleeting = append(plan.setup.Fleeting, wire.Pool{Place: dir, Dir: own.ByPlace[dir]})
	}
	plan.setup.Ceiling = wire.Ceiling{Absent: true}
	if plan.setup.Landlock.HandledFS != 0 {
		if plan.setup.Ceiling, err = ceiling(l.abi, plan.setup.Shared.Private, homes); err != nil {
			return nil, err
		}
	}
	var loop *loopback
	if b := plan.setup.Shared.Broker; b != nil && plan.profile.Network.Mode != sandboxprofile.NetworkHost {
		if loop, err = newLoopback(plan.profile); err != nil {
			return nil, err
		}
		b.Network = loop.wire(plan.profile)
		b.Network.Sockets = own.Sockets
		defer func() {
			if err != nil && loop.proxy != nil {
				loop.proxy.Close()
			}
		}()
	}
	var w *tripwire.Baseline // none with a broker: what must not exist is not made
	if plan.setup.Shared.Broker == nil {
		if w, err = l.guard.NewBaseline(plan.profile, plan.seen.Found, coveredFiles(plan.seen.Facts)); err != nil {
			return nil, err
		}
	}
	s, err := l.launch(plan.profile, plan.user)
	if err != nil {
		if w != nil {
			l.guard.Release(w)
		}
		return nil, err
	}
	s.facts, s.guard, s.baseline, s.warnings = plan.seen.Facts, l.guard, w, plan.seen.Warnings()
	s.enforced, s.others = plan.enforced, s.tasksOfUser
	s.room, s.leave = l.room, plan.leave
	var beside []*os.File
	if b := plan.setup.Shared.Broker; b != nil {
		queue, ranges, err := nameQueue(plan.profile)
		if err != nil {
			s.Close()
			return nil, err
		}
		defer queue.Close()
		beside, b.Queue = []*os.File{queue}, ranges
	}
	if err := s.setUpWith(ctx, plan.setup, beside); err != nil {
		s.Close()
		return nil, err
	}
	if loop != nil {
		s.exit = loop.proxy
	}
	return &hostSandbox{bwrapSandbox: s, own: own, loopback: loop, broker: plan.setup.Shared.Broker}, nil
}

// coveredFiles are the protected and hidden files that existed before: their identity
// distinguishes them from what a tool makes. Nothing is mounted over them.
func coveredFiles(f sandboxprofile.Facts) []wire.Mount {
	var kept []wire.Mount
	for _, m := range f.Masks {
		if file, err := hostfs.Identify(unix.AT_FDCWD, m.Path); err == nil {
			kept = append(kept, wire.Mount{Path: m.Path, File: file})
		}
	}
	return kept
}

// keeperArg is sandboxinit.KeeperArg, which the confiner does not import.
const keeperArg = "keeper"

// launch starts our init below its keeper, in a session of their own, so that no key
// typed at the supervisor's terminal signals them. They have no parent-death signal:
// when we go away init reads end of file, kills what is left, and exits.
func (l *Landlock) launch(p sandboxprofile.Profile, user *syscall.Credential) (*bwrapSandbox, error) {
	program, err := l.init.get()
	if err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	s := &bwrapSandbox{profile: p, conn: ours, frames: make(chan received), closed: make(chan struct{}), kept: make(chan struct{}, 1), stderr: &stderrTail{max: 8 << 10}, end: unix.SIGTERM}
	s.cmd = &exec.Cmd{
		Path:        "/proc/self/fd/4",
		Args:        []string{"sandgate-init", initbin.Arg, keeperArg},
		Env:         initEnv,
		Dir:         "/",
		Stderr:      s.stderr,
		ExtraFiles:  []*os.File{theirs, program}, // 3, 4
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Credential: user},
		WaitDelay:   time.Second,
	}
	if err := s.start(l.joined(), (*exec.Cmd).Start); err != nil {
		ours.Close()
		return nil, fmt.Errorf("confine: start the sandbox's init: %w", err)
	}
	go s.receive()
	return s, nil
}

// hostLimits says what bounds a call in the host's namespaces.
func (l *Landlock) hostLimits() string {
	return limitsHold(l.joined()) + "; private directories on disk, counted by the supervisor"
}

// keepsProcesses says what keeps signals in the sandbox.
func (l *Landlock) keepsProcesses() string {
	if l.abi.Scope {
		return "Landlock domain: no signals out of it"
	}
	return "Landlock domain; signals are sent by the broker, to nobody outside"
}

func (l *Landlock) enforced(p sandboxprofile.Profile, rules landlock.Brokered, crowded []string) confine.Enforced {
	e := confine.Enforced{
		Backend:     "landlock",
		Files:       fmt.Sprintf("Landlock ABI %d, and a broker that makes every change (seccomp notification)", l.abi.ABI),
		Network:     "sockets that the broker makes: a loopback of its own, by signed connections; a port that is listened at inside is taken for a server of the host's at every address",
		SystemCalls: "seccomp filters",
		Processes:   l.keepsProcesses() + "; no tracing out of it; killed as a whole when the call ends; the command lines of this user's other processes can be read",
		Limits:      l.hostLimits(),
	}
	switch rules.Reads {
	case landlock.AllReads:
		e.Files += "; hidden names lie in " + hostfs.SomeOf(rules.Redirected) + ", which are read through the broker"
	case landlock.Listings:
		e.Files += "; hidden names lie in " + hostfs.SomeOf(rules.Redirected) + ", which are listed through the broker"
	}
	if len(crowded) > 0 {
		e.Files += fmt.Sprintf("; %s has too many names beside a hidden one: no program in it is executed until some are removed", hostfs.SomeOf(crowded))
	}
	switch p.Network.Mode {
	case sandboxprofile.NetworkHost:
		e.Network = "" // nothing does
	case sandboxprofile.NetworkProxied:
		e.Network += "; its one exit is the egress proxy"
	}
	return e
}

// Unconfined runs tools with what is left where no backend works, for
// development: a sandbox of Landlock if this host can, and else no boundary at
// all. Enforced says per axis what holds. Nothing but an explicit
// `require_os_sandbox: false` of the operator leads here.
type Unconfined struct {
	landlock *Landlock // nil where Landlock is missing or too old
	host     *Landlock // starts init without it
}

// NewUnconfined makes one; o is as for NewLandlock.
func NewUnconfined(o LandlockOptions) (*Unconfined, error) {
	host, err := newLandlock(o, landlock.Version{})
	if err != nil {
		return nil, err
	}
	u := &Unconfined{host: host}
	if l, err := NewLandlock(o); err == nil {
		u.landlock = l
	}
	return u, nil
}

// Name implements Confiner.
func (u *Unconfined) Name() string { return confine.NoBackend }

// Close frees it.
func (u *Unconfined) Close() error {
	if u.landlock != nil {
		_ = u.landlock.Close() // a memory file
	}
	return u.host.Close()
}

// Use makes g the guard of every sandbox that is built from now on.
func (u *Unconfined) Use(g *tripwire.Guard) {
	if u.landlock != nil {
		u.landlock.Use(g)
	}
	u.host.Use(g)
}

// Prepare implements Confiner. It is the one that does not keep every part of p.
func (u *Unconfined) Prepare(ctx context.Context, p sandboxprofile.Profile) (confine.Sandbox, error) {
	if u.landlock != nil {
		box, err := u.landlock.Prepare(ctx, p)
		var cannot *confine.Unenforceable
		if !errors.As(err, &cannot) {
			return box, err
		}
	}
	seen, err := u.host.guard.Survey(p)
	if err != nil {
		return nil, err
	}
	user, err := owner(p)
	if err != nil {
		return nil, err
	}
	setup := wire.Setup{Shared: &wire.Shared{Unconfined: true}}
	open := p.Network.Mode == sandboxprofile.NetworkHost
	if base, err := u.host.filters.Base(p.Syscalls); err == nil {
		setup.Seccomp = base
		setup.Shared.Seccomp, _ = u.host.filters.Shared(open) // one compiler: both or neither
	}
	box, err := u.host.build(ctx, hostPlan{profile: p, seen: seen, user: user, setup: setup, enforced: unconfined(p, setup, u.host.hostLimits())})
	if err != nil {
		return nil, err
	}
	return box, nil
}

func unconfined(p sandboxprofile.Profile, s wire.Setup, limits string) confine.Enforced {
	e := confine.Enforced{
		Backend: confine.NoBackend, Files: nothing, Network: nothing, SystemCalls: nothing,
		Processes: "killed when the call ends; otherwise nothing",
		Limits:    limits,
	}
	if len(s.Shared.Seccomp) == 0 {
		return e
	}
	e.SystemCalls = "seccomp filters"
	if p.Network.Mode != sandboxprofile.NetworkHost {
		e.Network = "no sockets (seccomp)"
	}
	return e
}
