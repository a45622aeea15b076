package confine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/initbin"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
	"github.com/sandgate/sandgate/sandboxprofile/landlock"
	"github.com/sandgate/sandgate/sandboxprofile/seccomp"
)

// setupTimeout bounds how long bubblewrap and our init may take to get ready. It
// is generous: a slow start is a slow start, a hang is a failure.
const setupTimeout = 20 * time.Second

// A Bwrap confines with bubblewrap, Landlock and seccomp. It is safe for
// concurrent use.
type Bwrap struct {
	path  string
	init  *os.File // sealed memfd
	abi   landlock.Version
	spawn *spawner

	mu      sync.Mutex
	filters map[string][]byte // compiled seccomp programs by lifted groups
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
	program, err := initbin.Program()
	if err != nil {
		return nil, &Unenforceable{Part: "the sandbox's first process", Reason: err.Error(), Hint: "run `make build`"}
	}
	fd, err := sealedFile("sandgate-init", program, unix.MFD_EXEC)
	if err != nil {
		return nil, err
	}
	return &Bwrap{path: path, init: fd, abi: abi, spawn: newSpawner(), filters: map[string][]byte{}}, nil
}

// Name implements Confiner.
func (b *Bwrap) Name() string { return "bwrap" }

// Close ends every sandbox that is left.
func (b *Bwrap) Close() error {
	b.spawn.close()
	return b.init.Close()
}

// Prepare implements Confiner.
func (b *Bwrap) Prepare(ctx context.Context, p sandboxprofile.Profile) (Sandbox, error) {
	facts, err := look(p)
	if err != nil {
		return nil, err
	}
	return b.build(ctx, p, facts)
}

// look refuses what no sandbox of this backend can keep, and surveys the host.
func look(p sandboxprofile.Profile) (facts sandboxprofile.Facts, err error) {
	if err := p.Validate(); err != nil {
		return facts, unenforceable("the profile", err)
	}
	if facts, err = survey(p); err != nil {
		return facts, err
	}
	return facts, refuseLinks(facts)
}

// build makes a sandbox for p on the host that facts describes. While bubblewrap
// builds the mounts, the rules that init will lay on itself are compiled: each
// takes some milliseconds.
func (b *Bwrap) build(ctx context.Context, p sandboxprofile.Profile, facts sandboxprofile.Facts) (*bwrapSandbox, error) {
	args, err := bwrap.Compile(p, facts)
	if err != nil {
		return nil, unenforceable("the mounts", err)
	}
	expected, err := expectMounts(p, args)
	if err != nil {
		return nil, err
	}
	s, err := b.launch(p, args)
	if err != nil {
		return nil, err
	}
	s.facts = facts
	setup, err := b.restrictions(p, facts)
	setup.Mounts = expected
	if err == nil {
		err = s.setUp(ctx, setup)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.enforced = b.enforced(p)
	return s, nil
}

// restrictions compiles what init lays on itself.
func (b *Bwrap) restrictions(p sandboxprofile.Profile, facts sandboxprofile.Facts) (wire.Setup, error) {
	rules, err := landlock.Compile(p, facts)
	if err != nil {
		return wire.Setup{}, unenforceable("the Landlock rules", err)
	}
	filter, err := b.filter(p.Syscalls)
	if err != nil {
		return wire.Setup{}, unenforceable("the system call filter", err)
	}
	setup := wire.Setup{Landlock: ruleset(rules, b.abi), Seccomp: filter, Unshared: unshared(p)}
	if p.Network.Mode == sandboxprofile.NetworkProxied {
		setup.EgressPort = EgressPort
	}
	return setup, nil
}

// unshared are the scratch directories that do not outlive a call. A start-up
// file or a git configuration that one call leaves in HOME would decide what the
// next one runs.
func unshared(p sandboxprofile.Profile) []string {
	return slices.DeleteFunc(slices.Clone(p.Scratch), func(dir string) bool { return dir == "/tmp" || dir == "/var/tmp" })
}

func unenforceable(part string, err error) error {
	u := &Unenforceable{Part: part, Reason: err.Error()}
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		u.Hint = h.Hint()
	}
	return u
}

// filter compiles once per set of lifted groups: it is the same program for
// every sandbox, and compiling costs as much as a short tool runs.
func (b *Bwrap) filter(lift []string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.Join(lift, ",")
	if f, ok := b.filters[key]; ok {
		return f, nil
	}
	f, err := seccomp.Filter(lift)
	if err == nil {
		b.filters[key] = f
	}
	return f, err
}

// launch starts bubblewrap with our init as its command. The arguments go
// through a descriptor: a long list would not fit (E2BIG), and argv is readable
// by every user of the machine. The environment is empty: whatever bubblewrap
// has in its own is readable inside as /proc/1/environ.
func (b *Bwrap) launch(p sandboxprofile.Profile, args []string) (*bwrapSandbox, error) {
	argsFile, err := sealedFile("bwrap-args", []byte(strings.Join(args, "\x00")+"\x00"), 0)
	if err != nil {
		return nil, err
	}
	defer argsFile.Close()
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()

	s := &bwrapSandbox{profile: p, conn: ours, frames: make(chan received), closed: make(chan struct{}), said: &said{max: 8 << 10}}
	s.cmd = &exec.Cmd{
		Path:       b.path,
		Args:       []string{"bwrap", "--args", "5", "--", "/proc/self/fd/4"},
		Env:        []string{},
		Dir:        "/",
		Stderr:     s.said,
		ExtraFiles: []*os.File{theirs, b.init, argsFile}, // 3, 4, 5
		SysProcAttr: &syscall.SysProcAttr{
			Pdeathsig: syscall.SIGKILL,
		},
		// Processes that outlive bubblewrap hold its standard error open; Wait
		// must not wait for them.
		WaitDelay: time.Second,
	}
	if err := b.spawn.start(s.cmd); err != nil {
		ours.Close()
		return nil, fmt.Errorf("confine: start %s: %w", b.path, err)
	}
	go s.receive()
	return s, nil
}

func (b *Bwrap) enforced(p sandboxprofile.Profile) Enforced {
	e := Enforced{
		Backend:     "bwrap",
		Files:       fmt.Sprintf("mount namespace (bubblewrap) and Landlock ABI %d", b.abi.ABI),
		Network:     "network namespace with loopback only",
		SystemCalls: "seccomp filter",
		Processes:   "pid namespace, killed as a whole when the call ends",
		Limits:      "wall time and output by the supervisor; CPU, memory, file size and descriptors per process by setrlimit; processes by setrlimit, and counted by init",
	}
	switch p.Network.Mode {
	case sandboxprofile.NetworkHost:
		e.Network = "" // nothing does
	case sandboxprofile.NetworkProxied:
		e.Network = "network namespace whose one exit is the egress proxy"
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

// landlockScopes is abstract Unix sockets and signals, LANDLOCK_SCOPE_*.
const landlockScopes = 1<<0 | 1<<1

// sealedFile returns an unnamed file that nobody can change any more
// (memfd_create(2)), close-on-exec.
func sealedFile(name string, content []byte, flags int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
	if errors.Is(err, unix.EINVAL) { // a kernel before 6.3 does not know MFD_EXEC
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, fmt.Errorf("confine: memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		f.Close()
		return nil, fmt.Errorf("confine: fill %s: %w", name, err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		f.Close()
		return nil, err
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_GROW | unix.F_SEAL_SHRINK | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("confine: seal %s: %w", name, err)
	}
	return f, nil
}

// socketPair returns the confiner's end and the file that becomes init's.
func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("confine: socketpair: %w", err)
	}
	ours := os.NewFile(uintptr(fds[0]), "init")
	defer ours.Close()
	theirs := os.NewFile(uintptr(fds[1]), "init")
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("confine: socketpair: %w", err)
	}
	return conn.(*net.UnixConn), theirs, nil
}

// said keeps what a sandbox wrote to its standard error, up to a bound: the
// first words of a crash are the ones that tell.
type said struct {
	max int
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *said) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p[:min(len(p), t.max-t.buf.Len())])
	return len(p), nil
}

func (t *said) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.buf.String())
}
