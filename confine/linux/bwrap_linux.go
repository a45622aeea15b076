package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/initbin"
	"github.com/sandgate/sandgate/confine/proctree"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/internal/memfile"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
	"github.com/sandgate/sandgate/sandboxprofile/landlock"
	"github.com/sandgate/sandgate/sandboxprofile/seccomp"
)

// A Bwrap confines with bubblewrap, Landlock and seccomp. It is safe for
// concurrent use.
type Bwrap struct {
	path  string
	init  *os.File // sealed memfd
	abi   landlock.Version
	spawn *spawner
	guard *tripwire.Guard
	room  *room
	// cgroups is nil where no cgroup v2 directory is delegated to us.
	cgroups *cgroupTree

	mu      sync.Mutex
	filters map[string]filters // by lifted groups
}

// NewBwrap checks that this host has what the backend stands on. path is an
// absolute path of bubblewrap, or "" for the usual places. Its error is an
// *Unenforceable.
func NewBwrap(path string) (*Bwrap, error) {
	path, err := findBwrap(path)
	if err != nil {
		return nil, err
	}
	abi, err := landlockABI()
	if err != nil {
		return nil, err
	}
	fd, err := initFile()
	if err != nil {
		return nil, err
	}
	cgroups, err := ownCgroups()
	if err != nil {
		cgroups = nil // init counts instead; doctor says why
	}
	return &Bwrap{path: path, init: fd, abi: abi, spawn: newSpawner(fd), cgroups: cgroups, room: newRoom(), guard: tripwire.New(nil), filters: map[string]filters{}}, nil
}

// Name implements Confiner.
func (b *Bwrap) Name() string { return "bwrap" }

// Close ends every sandbox that is left.
func (b *Bwrap) Close() error {
	b.spawn.close()
	_ = b.cgroups.close() // another of us may use the directory; the next start sweeps what is left
	return b.init.Close()
}

// Use makes g the guard of every sandbox that is built from now on.
func (b *Bwrap) Use(g *tripwire.Guard) { b.guard = g }

// Prepare implements Confiner.
func (b *Bwrap) Prepare(ctx context.Context, p sandboxprofile.Profile) (confine.Sandbox, error) {
	box, err := b.fresh(ctx, p, nil)
	if err != nil {
		return nil, err
	}
	return box, nil
}

// fresh builds a sandbox for owner, the warm pool of a session.
func (b *Bwrap) fresh(ctx context.Context, p sandboxprofile.Profile, owner any) (*bwrapSandbox, error) {
	box, admitted, err := b.tryFresh(ctx, p, owner)
	if !admitted {
		return nil, err
	}
	return b.again(ctx, p, owner, box, err)
}

// freeing is how long the kernel may take to give back what an ended sandbox had:
// namespaces end after their last process.
const freeing = 500 * time.Millisecond

// again builds once more what a shortage has refused: warm sandboxes that rest make room for it.
func (b *Bwrap) again(ctx context.Context, p sandboxprofile.Profile, owner any, box *bwrapSandbox, err error) (*bwrapSandbox, error) {
	admitted := true
	for until := time.Now().Add(freeing); confine.IsShortage(err) && admitted && ctx.Err() == nil; {
		switch {
		case b.room.shed():
			until = time.Now().Add(freeing)
		case time.Now().After(until):
			return box, err
		default:
			time.Sleep(roomLook)
		}
		box, admitted, err = b.tryFresh(ctx, p, owner)
	}
	return box, err
}

// tryFresh builds once, and reports whether there was room for that.
func (b *Bwrap) tryFresh(ctx context.Context, p sandboxprofile.Profile, owner any) (box *bwrapSandbox, admitted bool, err error) {
	leave, err := b.room.enter(ctx, owner)
	if err != nil {
		return nil, false, err
	}
	seen, err := b.guard.Survey(p)
	if err != nil {
		leave()
		return nil, true, err
	}
	box, err = b.build(ctx, p, seen, true, leave)
	return box, true, err
}

// build makes a sandbox for p on the host that was seen. While bubblewrap
// builds the mounts, the rules that init will lay on itself are compiled: each
// takes some milliseconds. once says that it serves one call. The sandbox has a place in the
// room, which it leaves when it ends or cannot be built.
func (b *Bwrap) build(ctx context.Context, p sandboxprofile.Profile, seen tripwire.Survey, once bool, leave func()) (_ *bwrapSandbox, err error) {
	built := false
	defer func() {
		if !built {
			leave()
		}
	}()
	seen = freezing(seen, p, confine.FrozenOf(ctx))
	args, err := bwrap.Compile(p, seen.Facts)
	if err != nil {
		return nil, confine.NewUnenforceable("the mounts", err)
	}
	expected, err := expectMounts(p, args)
	if err == nil {
		err = seen.SameDirectories(expected)
	}
	if err != nil {
		return nil, err
	}
	user, err := owner(p)
	if err != nil {
		return nil, err
	}
	w, err := b.guard.NewBaseline(p, seen.Found, expected)
	if err != nil {
		return nil, err
	}
	covers, watched := coversOf(p, seen.Facts), tripwire.WatchStubs(p, expected, uidOf(user))
	s, err := b.launch(p, args, once && user == nil, confine.TrustOf(ctx), confine.FrozenOf(ctx), user)
	if err != nil {
		b.guard.Release(w)
		return nil, err
	}
	s.leave, s.room = leave, b.room
	s.kinds, s.facts, s.covers, s.guard, s.baseline, s.warnings = seen.Kinds, seen.Facts, covers, b.guard, w, seen.Warnings()
	setup, err := b.restrictions(p, seen.Facts)
	setup.Mounts, setup.First = withFrozen(expected, confine.FrozenOf(ctx)), w.Journal != nil
	if err == nil {
		err = s.setUp(ctx, setup)
		if err == nil {
			hadNamespaces.Store(true)
			b.spawn.watch(s.first, w)
		}
	}
	if err == nil && setup.Exposes {
		err = s.sockets.knowNetwork(ctx)
	}
	if err == nil && !s.covered(seen.Facts) {
		err = errors.New("confine: a file that has to be covered was replaced while the sandbox was built")
	}
	if err := s.clearStubs(watched, err); err != nil {
		s.Close()
		return nil, err
	}
	s.enforced = b.enforced(p, user)
	built = true
	return s, nil
}

// clearStubs removes what bubblewrap has made in the user's trees, after a build that
// failed with err if that is not nil.
func (s *bwrapSandbox) clearStubs(w tripwire.StubWatch, err error) error {
	if err == nil && w.Quiet() {
		return nil
	}
	if err != nil {
		s.Close() // before we look: no more can come
	}
	doubtful, sweepErr := w.Remove(s.profile)
	left := tripwire.Orphans(doubtful)
	switch {
	case left == "":
	case err == nil:
		s.warnings = append(s.warnings, left)
	default:
		err = fmt.Errorf("%w; %s", err, left)
	}
	return errors.Join(err, sweepErr)
}

// uidOf is who a program runs as that is started with c.
func uidOf(c *syscall.Credential) uint32 {
	if c == nil {
		return uint32(os.Geteuid())
	}
	return c.Uid
}

// restrictions compiles what init lays on itself.
func (b *Bwrap) restrictions(p sandboxprofile.Profile, facts sandboxprofile.Facts) (wire.Setup, error) {
	rules, err := landlock.Compile(p, facts)
	if err != nil {
		return wire.Setup{}, confine.NewUnenforceable("the Landlock rules", err)
	}
	filter, err := b.filter(p.Syscalls)
	if err != nil {
		return wire.Setup{}, confine.NewUnenforceable("the system call filter", err)
	}
	keyring := b.spawn.keyring && !slices.Contains(p.Syscalls, seccomp.Keyring)
	var fleeting []wire.Pool
	for _, dir := range p.Fleeting() {
		fleeting = append(fleeting, wire.Pool{Place: dir, Dir: dir})
	}
	setup := wire.Setup{Keyring: keyring, Landlock: ruleset(rules, b.abi), Seccomp: filter.init, Modes: filter.modes, Fleeting: fleeting, Tmpfs: slices.Concat(p.Scratch, []string{"/dev/shm"})}
	if p.Network.Mode == sandboxprofile.NetworkProxied {
		setup.EgressPort = confine.EgressPort
		setup.Unbound = unboundFor(p.Network)
	}
	setup.Exposes = len(p.Network.Expose) > 0
	setup.Loopback = p.Network.Mode != sandboxprofile.NetworkHost
	if setup.Ceiling, err = ceiling(b.abi, append(p.Open(), "/dev/shm", "/dev/pts"), p.Fleeting()); err != nil {
		return wire.Setup{}, err
	}
	return setup, checkExposed(p.Network)
}

// filter compiles once per set of lifted groups: it is the same program for
// every sandbox, and compiling costs as much as a short tool runs.
func (b *Bwrap) filter(lift []string) (filters, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.Join(lift, ",")
	if f, ok := b.filters[key]; ok {
		return f, nil
	}
	f, err := compileFilters(lift)
	if err == nil {
		b.filters[key] = f
	}
	return f, err
}

// filters are compiled seccomp programs.
type filters struct {
	init  []byte
	modes wire.Modes // of programs
}

func compileFilters(lift []string) (filters, error) {
	notify, err := seccomp.ModesFilter(lift, true)
	if err != nil {
		return filters{}, err
	}
	if notify == nil {
		f, err := seccomp.Filter(lift)
		return filters{f, wire.Modes{Free: true}}, err
	}
	refuse, err := seccomp.ModesFilter(lift, false)
	if err != nil {
		return filters{}, err
	}
	f, err := seccomp.ServedFilter(lift)
	return filters{f, wire.Modes{Notify: notify, Refuse: refuse}}, err
}

// launch starts bubblewrap with our init as its command. The arguments go through a
// descriptor: a long list would not fit (E2BIG), and argv is readable by every user of the
// machine. The environment is empty: everything that bubblewrap has in its own is readable
// inside as /proc/1/environ. With copies, it gets single files of the machine as they are
// now.
func (b *Bwrap) launch(p sandboxprofile.Profile, args []string, copies bool, trust []byte, frozen []confine.Frozen, user *syscall.Credential) (*bwrapSandbox, error) {
	own, err := nameFiles(args, p)
	if err == nil && len(p.Network.Terminated) > 0 {
		own, err = withTrust(own, trust)
	}
	defer func() { closeFiles(own) }()
	if err != nil {
		return nil, err
	}
	inherited := slices.Clone(own)
	for _, f := range frozen { // over what is mounted there: args pin the file and its directories
		if f.Content == nil {
			continue
		}
		fd := strconv.Itoa(bwrap.NameFileFD + len(inherited))
		args = append(args, "--perms", fmt.Sprintf("%04o", f.Mode.Perm()), "--ro-bind-data", fd, f.Path)
		inherited = append(inherited, f.Content)
	}
	if copies {
		var files []*os.File
		args, files = copyFiles(p, args, inherited)
		defer closeFiles(files)
		inherited = append(inherited, files...)
	}
	argsFile, argsTo, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer argsFile.Close()
	ours, theirs, err := socketPair()
	if err != nil {
		argsTo.Close()
		return nil, err
	}
	defer theirs.Close()

	s := &bwrapSandbox{trust: trust, profile: p, conn: ours, frames: make(chan received), closed: make(chan struct{}), stderr: &stderrTail{max: 8 << 10}}
	s.sockets = newSockets(p.Network, s.send, s.closed)
	s.cmd = &exec.Cmd{
		Path:       b.path,
		Args:       []string{"bwrap", "--args", "5", "--", "/proc/self/fd/4", initbin.Arg},
		Env:        initEnv,
		Dir:        "/",
		Stderr:     s.stderr,
		ExtraFiles: append([]*os.File{theirs, b.init, argsFile}, inherited...), // 3, 4, 5, and from bwrap.NameFileFD on
		SysProcAttr: &syscall.SysProcAttr{
			Pdeathsig:  syscall.SIGKILL,
			Credential: user,
		},
		// Processes that outlive bubblewrap hold its standard error open; Wait
		// must not wait for them.
		WaitDelay: time.Second,
	}
	if err := s.start(b.cgroups, b.spawn.start); err != nil {
		ours.Close()
		argsTo.Close()
		return nil, fmt.Errorf("confine: start %s: %w", b.path, err)
	}
	proctree.KillFirst(s.cmd.Process.Pid) // and then what it clones, which it does with the arguments
	go func() {
		defer argsTo.Close()
		_, _ = io.WriteString(argsTo, strings.Join(args, "\x00")+"\x00") // bubblewrap says what it lacks
	}()
	go s.receive()
	return s, nil
}

// withTrust adds what the sandbox's sandboxprofile.TrustBundle will hold.
func withTrust(own []*os.File, bundle []byte) ([]*os.File, error) {
	if len(bundle) == 0 {
		return own, &confine.Unenforceable{Part: "TLS that ends at the egress proxy", Reason: "there are no certificates for programs to trust"}
	}
	f, err := memfile.New("trust", bytes.NewReader(bundle))
	if err != nil {
		return own, err
	}
	return append(own, f), nil
}

func (b *Bwrap) enforced(p sandboxprofile.Profile, user *syscall.Credential) confine.Enforced {
	e := confine.Enforced{
		Backend:     "bwrap",
		Files:       fmt.Sprintf("mount namespace (bubblewrap) and Landlock ABI %d", b.abi.ABI),
		Network:     "network namespace with loopback only",
		SystemCalls: "seccomp filter",
		Processes:   "pid namespace, killed as a whole when the call ends",
		Limits:      limitsHold(b.cgroups),
	}
	if user != nil {
		e.Processes += fmt.Sprintf("; as uid %d, the owner of what may be written", user.Uid)
	}
	switch p.Network.Mode {
	case sandboxprofile.NetworkHost:
		e.Network = "" // nothing does
	case sandboxprofile.NetworkProxied:
		e.Network = "network namespace whose one exit is the egress proxy"
	}
	if len(p.Network.Expose) > 0 {
		e.Network += "; its exposed ports are entered through sockets that its init makes and the supervisor connects"
	}
	return e
}

// ruleset restricts everything that the ABI can handle and grants what the
// profile lists. TCP is left to the network namespace: Landlock knows ports, not
// hosts, and would also bar the sandbox's own loopback.
func ruleset(rules []landlock.Rule, abi landlock.Version) wire.Landlock {
	l := wire.Landlock{HandledFS: uint64(abi.Access)}
	if abi.Scope {
		l.Scoped = landlockScopes
	}
	for _, r := range rules {
		l.Rules = append(l.Rules, wire.LandlockRule{Path: r.Path, Access: uint64(r.Access)})
	}
	return l
}
