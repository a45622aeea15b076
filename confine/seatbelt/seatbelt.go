//go:build unix

package seatbelt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/sbpl"
)

// A Backend confines with macOS's sandbox-exec(1) and the text of package sbpl.
// It has been built and vetted for macOS and never been run there: what of it is
// not Seatbelt's, processes and limits, is tested on Linux with a stand-in for
// sandbox-exec. It is safe for concurrent use.
//
// It keeps less than the backends for Linux, and refuses what it cannot keep at
// all: the file tools, which need a process of ours inside, and allow-lists of
// hosts, since a proxy on this machine's loopback would serve every program of it.
// Processes that leave their process group outlive the call, under the same text.
type Backend struct {
	sandboxExec string // absolute path
	ps          string // absolute path
	tag         string // of denials in the system's log
}

// Name implements Confiner.
func (*Backend) Name() string { return "seatbelt" }

// Close frees nothing: each sandbox has its own directories.
func (*Backend) Close() error { return nil }

// Prepare implements Confiner.
func (b *Backend) Prepare(_ context.Context, p sandboxprofile.Profile) (confine.Sandbox, error) {
	if err := seatbeltRefuses(p); err != nil {
		return nil, err
	}
	facts, err := hostfs.FactsOf(p)
	if err != nil {
		return nil, err
	}
	base, err := os.MkdirTemp("", "sandgate-")
	if err != nil {
		return nil, fmt.Errorf("confine: private directories: %w", err)
	}
	s := &sandbox{backend: b, profile: p, facts: facts, base: base}
	if err := s.setUp(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// seatbeltRefuses says which part of p cannot be kept, beyond what the text says
// by itself.
func seatbeltRefuses(p sandboxprofile.Profile) error {
	if err := p.Validate(); err != nil {
		return &confine.Unenforceable{Part: "the profile", Reason: err.Error()}
	}
	if p.Network.Mode == sandboxprofile.NetworkProxied {
		return &confine.Unenforceable{Part: "an allow-list of hosts", Reason: "macOS sandboxes do not have their own network, and a proxy on loopback would serve every program of the machine",
			Hint: "use network none or host, or run sandgate on Linux"}
	}
	return nil
}

// sandbox is the text of one profile and the directories that serve for
// its scratch directories.
type sandbox struct {
	backend *Backend
	profile sandboxprofile.Profile
	facts   sandboxprofile.Facts
	base    string            // private to us; holds the text, and the directories
	scratch map[string]string // the profile's directory: the one that serves

	running sync.Mutex // one action at a time
}

// setUp makes the directories and writes the text beside them, where no program
// of the sandbox can reach it.
func (s *sandbox) setUp() error {
	base, err := filepath.EvalSymlinks(s.base) // Seatbelt knows paths without links only
	if err != nil {
		return fmt.Errorf("confine: private directories: %w", err)
	}
	s.scratch = scratchDirs(base, s.profile.Scratch)
	for _, dir := range s.scratch {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("confine: private directories: %w", err)
		}
	}
	return s.write(nil)
}

// write writes the text for actions under a ceiling, or for those without.
func (s *sandbox) write(l *sandboxprofile.Ceiling) error {
	text, err := sbpl.Compile(s.profile, s.facts, sbpl.Vars{Tag: s.backend.tag, Scratch: s.scratch, Ceiling: l})
	if err != nil {
		u := &confine.Unenforceable{Part: "the Seatbelt profile", Reason: err.Error()}
		var h interface{ Hint() string }
		if errors.As(err, &h) {
			u.Hint = h.Hint()
		}
		return u
	}
	return os.WriteFile(s.text(l), []byte(text), 0o600)
}

func (s *sandbox) text(l *sandboxprofile.Ceiling) string {
	if l != nil {
		return filepath.Join(s.base, "ceiling.sb")
	}
	return filepath.Join(s.base, "profile.sb")
}

// under makes the text for an action with a ceiling. It says what holds it.
func (s *sandbox) under(a sandboxprofile.Action) (string, error) {
	l := a.Ceiling
	if l == nil {
		return "", nil
	}
	if err := l.Validate(a); err != nil {
		return "", &confine.Unenforceable{Part: "the ceiling of a call", Reason: err.Error(), Hint: "have a person allow the call: ask about it in the rule that lets it run"}
	}
	if has := sandboxprofile.ClassOf(s.profile.Under(l.Class), a); has > l.Class {
		return "", &confine.Unenforceable{Part: "the ceiling of a call", Reason: "its class is " + l.Class.String() + " and its profile reaches further: " + has.Can()}
	}
	return l.String() + "; by Seatbelt", s.write(l)
}

// scratchDirs names a directory below base for each scratch directory.
func scratchDirs(base string, scratch []string) map[string]string {
	dirs := make(map[string]string, len(scratch))
	for i, dir := range scratch {
		dirs[dir] = filepath.Join(base, strconv.Itoa(i)+"-"+filepath.Base(dir))
	}
	return dirs
}

// Enforced implements Sandbox.
func (s *sandbox) Enforced() confine.Enforced {
	e := confine.Enforced{
		Backend:     "seatbelt",
		Files:       "Seatbelt (sandbox-exec)",
		Network:     "Seatbelt, loopback included",
		SystemCalls: "", // Seatbelt knows operations, not system calls
		Processes:   "process group, killed when the call ends; one that leaves it stays, under the same Seatbelt profile",
		Limits: "wall time and output by the supervisor; memory, processes and private directories counted by it every " + censusEvery.String() +
			"; CPU, file size and descriptors per process by setrlimit",
	}
	if s.profile.Network.Mode == sandboxprofile.NetworkHost {
		e.Network = ""
	}
	return e
}

// Close implements Sandbox.
func (s *sandbox) Close() error {
	if err := os.RemoveAll(s.base); err != nil {
		return fmt.Errorf("confine: remove private directories: %w", err)
	}
	return nil
}

// Run implements Sandbox.
func (s *sandbox) Run(ctx context.Context, a sandboxprofile.Action, std confine.Stdio) (confine.Result, error) {
	if a.Kind != sandboxprofile.Exec || a.Exec == nil {
		return confine.Result{}, &confine.Unenforceable{Part: "the file tools", Reason: "the backend for macOS does not run a process inside the sandbox that could do them",
			Hint: "use the shell tool, or run sandgate on Linux"}
	}
	s.running.Lock()
	defer s.running.Unlock()
	held, err := s.under(a)
	if err != nil {
		return confine.Result{}, err
	}
	if errno := startable(a.Exec.Path); errno != 0 {
		return notStarted(errno), nil
	}
	out := &budget{left: std.OutputBound(s.profile.Limits), over: make(chan struct{})}
	cmd := s.command(*a.Exec, s.text(a.Ceiling))
	cmd.Stdin = std.Stdin
	stdout, stderr := &counted{budget: out, w: std.Stdout}, &counted{budget: out, w: std.Stderr}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if std.OneStream() {
		cmd.Stderr = stdout
	}
	if std.Hold != nil {
		if err := std.Hold(); err != nil {
			return confine.Result{}, err
		}
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return confine.Result{}, fmt.Errorf("confine: start %s: %w", s.backend.sandboxExec, err)
	}
	r, err := s.await(ctx, cmd, out.over)
	r.Duration, r.Ceiling = time.Since(started), held
	r.Count(stdout.total(), stderr.total(), out.exceeded())
	return r, err
}

// command is the program under its limits, under Seatbelt, in a session of its own,
// so that /dev/tty is not a terminal of the user's.
func (s *sandbox) command(p sandboxprofile.Program, text string) *exec.Cmd {
	argv := argvFor(s.backend.sandboxExec, text, s.profile.Limits, p)
	return &exec.Cmd{
		Path: argv[0], Args: argv, Dir: p.Dir, Env: seatbeltEnv(s.profile.Env, p.Env, s.scratch),
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		WaitDelay:   time.Second, // what has left the group may hold the streams open
	}
}

// argvFor sets the limits of setrlimit(2) in a shell, which then becomes
// sandbox-exec, which becomes the program. Go cannot set them between fork and exec.
// The shell sees the program's arguments as arguments, and never as text.
func argvFor(sandboxExec, text string, l sandboxprofile.Limits, p sandboxprofile.Program) []string {
	script := strings.Join(append(ulimits(l), `exec "$0" "$@"`), " && ")
	argv := []string{"/bin/sh", "-c", script, sandboxExec, "-f", text, p.Path}
	if len(p.Argv) > 1 {
		argv = append(argv, p.Argv[1:]...)
	}
	return argv
}

// ulimits are the limits that the kernel keeps for each process. -f counts in
// blocks of 512 bytes in some shells and of 1024 in others: taking it for the
// larger one is exact or too strict.
func ulimits(l sandboxprofile.Limits) []string {
	var list []string
	for _, e := range []struct {
		option string
		value  int64
		unit   int64
	}{{"-t", int64(l.CPU), int64(time.Second)}, {"-f", l.FileSize, 1024}, {"-n", l.OpenFiles, 1}} {
		if e.value != sandboxprofile.Unlimited {
			list = append(list, fmt.Sprintf("ulimit %s %d", e.option, max(1, e.value/e.unit)))
		}
	}
	return append(list, "ulimit -c 0")
}

// seatbeltEnv is the environment that the profile lets through, with HOME and
// TMPDIR in the sandbox's own directories: macOS cannot put them where the
// machine's are.
func seatbeltEnv(e sandboxprofile.Env, env []string, scratch map[string]string) []string {
	var out []string
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if !e.Has(name) || name == "TMPDIR" {
			continue
		}
		if dir, ok := scratch[value]; ok && name == "HOME" {
			kv = "HOME=" + dir
		}
		out = append(out, kv)
	}
	if dir, ok := scratch["/tmp"]; ok {
		out = append(out, "TMPDIR="+dir)
	}
	slices.Sort(out)
	return out
}

// startable is why a program cannot be started at all. sandbox-exec would say so
// with an exit status of its own.
func startable(name string) syscall.Errno {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return syscall.ENOENT
	case err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return syscall.EACCES
	}
	return 0
}

func notStarted(errno syscall.Errno) confine.Result {
	r := confine.Result{Cause: confine.NotStarted, ExitCode: 126, Errno: unix.ErrnoName(errno)}
	if errno == syscall.ENOENT {
		r.ExitCode = 127
	}
	return r
}

// await waits for the program to end, and ends its process group at a limit or when
// the caller's context ends. What is left of the group then is killed.
func (s *sandbox) await(ctx context.Context, cmd *exec.Cmd, over <-chan struct{}) (confine.Result, error) {
	group := cmd.Process.Pid
	kill := func(sig syscall.Signal) { _ = syscall.Kill(-group, sig) } // gone already is as well
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	exceeded := s.watch(watching, group)
	wall := time.NewTimer(max(s.profile.Limits.Wall, 0))
	defer wall.Stop()

	cause, cancelled, expired := confine.Exited, ctx.Done(), wall.C
	var harder <-chan time.Time
	for {
		select {
		case <-done:
			kill(syscall.SIGKILL)
			return ended(cmd.ProcessState, cause)
		case <-expired:
			cause, cancelled, expired, over, exceeded = confine.TimedOut, nil, nil, nil, nil
			kill(syscall.SIGTERM)
			harder = time.After(seatbeltGrace)
		case <-cancelled:
			cause, cancelled, expired, over, exceeded = confine.Cancelled, nil, nil, nil, nil
			kill(syscall.SIGKILL)
		case <-over:
			cause, cancelled, expired, over, exceeded = confine.OutputLimit, nil, nil, nil, nil
			kill(syscall.SIGKILL)
		case c := <-exceeded:
			cause, cancelled, expired, over, exceeded = c, nil, nil, nil, nil
			kill(syscall.SIGKILL)
		case <-harder:
			kill(syscall.SIGKILL)
		}
	}
}

// seatbeltGrace is how long a tool has after a polite SIGTERM.
const seatbeltGrace = 2 * time.Second

// ended is how a program ended, as a shell counts it.
func ended(state *os.ProcessState, cause confine.Cause) (confine.Result, error) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if !ok {
		return confine.Result{}, errors.New("confine: bug: no wait status")
	}
	r := confine.Result{Cause: cause, ExitCode: status.ExitStatus()}
	if status.Signaled() {
		r.Signal = unix.SignalName(status.Signal())
		r.ExitCode = 128 + int(status.Signal())
	}
	if cause == confine.Exited && status.Signaled() && status.Signal() == syscall.SIGXFSZ {
		r.Cause = confine.FileSizeLimit
	}
	return r, nil
}
