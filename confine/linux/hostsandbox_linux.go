package linux

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/confine/privatedirs"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// hostSandbox is our init in the host's namespaces. Its private directories lie
// elsewhere than the profile says, and what a tmpfs would bound is counted.
type hostSandbox struct {
	*bwrapSandbox
	own      *privatedirs.Dirs
	loopback *loopback // nil with the host's network
	removed  sync.Once
	broker   *wire.Broker // nil without one

	keeping sync.Mutex
	frozen  map[string][]wire.FileID // what Keep keeps, by path: once for each that wants it
}

// Keep implements Freezer: the broker judges names as if a pattern protected them. A file
// that is open for writing already is refused where it is frozen.
func (s *hostSandbox) Keep(files []string) (release func(), err error) {
	if s.broker == nil {
		return func() {}, nil
	}
	s.keeping.Lock()
	defer s.keeping.Unlock()
	if s.frozen == nil {
		s.frozen = map[string][]wire.FileID{}
	}
	var kept []string
	for _, file := range files {
		root := hostfs.WritableAround(s.profile, file)
		if root == "" {
			continue // it cannot take the name
		}
		_, id, err := hostfs.Locate(root, file)
		if err != nil {
			return nil, fmt.Errorf("confine: keep %q: %w", file, err)
		}
		s.frozen[file], kept = append(s.frozen[file], id), append(kept, file)
	}
	free := func() {
		for _, file := range kept {
			if s.frozen[file] = s.frozen[file][1:]; len(s.frozen[file]) == 0 {
				delete(s.frozen, file)
			}
		}
	}
	if err := s.sendKept(); err != nil {
		free()
		if errors.Is(err, errEnded) {
			return func() {}, nil
		}
		return nil, err
	}
	return func() {
		s.keeping.Lock()
		defer s.keeping.Unlock()
		free()
		_ = s.sendKept() // it has ended, or its names stay as they are
	}, nil
}

// sendKept tells the broker what is frozen now, and waits until it holds.
func (s *hostSandbox) sendKept() error {
	k := wire.Keep{Protect: slices.Clone(s.broker.Protect)}
	for _, file := range slices.Sorted(maps.Keys(s.frozen)) {
		k.Protect = append(k.Protect, sandboxprofile.PatternOf(file))
		k.Files = append(k.Files, s.frozen[file]...)
	}
	select {
	case <-s.kept: // an answer that came too late
	default:
	}
	if err := s.send(wire.Frame{Keep: &k}, nil); errors.Is(err, net.ErrClosed) || errors.Is(err, unix.EPIPE) {
		return errEnded
	} else if err != nil {
		return fmt.Errorf("confine: keep: %w", err)
	}
	select {
	case <-s.kept:
		return nil
	case <-s.closed:
		return errEnded
	case <-time.After(setupTimeout):
		return errors.New("confine: the sandbox's broker did not answer")
	}
}

// Run implements Sandbox.
func (s *hostSandbox) Run(ctx context.Context, a sandboxprofile.Action, std confine.Stdio) (confine.Result, error) {
	p := s.profile
	p.Env.Names = append(slices.Clone(p.Env.Names), "TMPDIR")
	a = s.moved(a)
	if s.tooLarge(a.File) {
		return confine.Result{Cause: confine.NotStarted, Errno: "ENOSPC", ExitCode: 126, File: &confine.FileResult{}}, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go s.watch(ctx, cancel)
	r, err := s.run(ctx, p, a, std)
	r.Exact = s.enforced.Backend != confine.NoBackend
	if r.Cause == confine.Cancelled && errors.Is(context.Cause(ctx), errScratch) {
		r.Cause = confine.ScratchLimit
	}
	return r, err
}

// Entrance implements Exposed.
func (s *hostSandbox) Entrance() (confine.Entrance, error) {
	return s.loopback.entrance(s.profile.Network)
}

// Carry implements Proxied: a program that knows no proxy reaches nothing here.
func (s *hostSandbox) Carry(confine.Addresses) (confine.Carried, error) {
	return confine.Carried{}, &confine.Unenforceable{Part: "carrying programs without proxy support", Reason: "it takes a network namespace",
		Hint: "programs that use the proxy variables work; else a host that allows user namespaces"}
}

// Warnings implements Warned.
func (s *hostSandbox) Warnings() []string {
	w := s.bwrapSandbox.Warnings()
	if s.enforced.Backend == confine.NoBackend {
		w = append([]string{confine.UnconfinedWarning}, w...)
	}
	return w
}

// tooLarge says whether a file does not fit into the private directories.
func (s *hostSandbox) tooLarge(f *sandboxprofile.Operation) bool {
	if f == nil || len(f.Content) == 0 || !strings.HasPrefix(f.Path, s.own.Base+"/") {
		return false
	}
	limit := s.profile.Limits.Scratch
	return limit != sandboxprofile.Unlimited && s.own.Used()+int64(len(f.Content)) > limit
}

// Close implements Sandbox.
func (s *hostSandbox) Close() error {
	err := s.bwrapSandbox.Close()
	s.removed.Do(s.own.Remove)
	return err
}

// tasksOfUser is what the kernel counts against RLIMIT_NPROC beside the tools: every process
// of the user (setrlimit(2)), where there is no user namespace. In a container these include
// the processes of the same number in all other containers of the machine, which are
// invisible here: Unlimited. Init counts there, as it does for uid 0, which the kernel does
// not hold at all.
func (s *bwrapSandbox) tasksOfUser() int64 {
	if !seesEveryProcess() {
		return sandboxprofile.Unlimited
	}
	if c := s.cmd.SysProcAttr.Credential; c != nil {
		return tasks(c.Uid)
	}
	return tasks(uint32(os.Geteuid()))
}

// seesEveryProcess reports whether /proc has every process of the machine: that of the first
// pid namespace, whose number is fixed (PROC_PID_INIT_INO, linux/proc_ns.h).
func seesEveryProcess() bool {
	name, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && name == "pid:[4026531836]"
}

// tasks counts the threads of a user. A process that is not dumpable counts as
// root's, which only makes the limit stricter.
func tasks(uid uint32) int64 {
	dir, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var n int64
	for _, name := range names {
		var st unix.Stat_t
		if name[0] < '0' || name[0] > '9' || unix.Fstatat(int(dir.Fd()), name+"/task", &st, 0) != nil {
			continue // no process, or it has ended
		}
		if st.Uid == uid {
			n += max(1, int64(st.Nlink)-2) // one directory each
		}
	}
	return n
}

// relocate gives the host's path of what a plan names below a scratch directory.
func (s *hostSandbox) relocate(name string) string {
	for dir := name; ; dir = path.Dir(dir) {
		if own, ok := s.own.ByPlace[dir]; ok {
			return own + strings.TrimPrefix(name, dir)
		}
		if _, granted := s.profile.Paths[dir]; granted || dir == "/" || dir == "." {
			return name
		}
	}
}

// moved is the action with the paths of its scratch directories as they are here.
func (s *hostSandbox) moved(a sandboxprofile.Action) sandboxprofile.Action {
	if a.Exec != nil {
		e := *a.Exec
		e.Dir, e.Path = s.relocate(e.Dir), s.relocate(e.Path)
		e.Env = s.movedEnv(e.Env)
		a.Exec = &e
	}
	if a.File != nil {
		f := *a.File
		f.Path = s.relocate(f.Path)
		if f.Search != nil && f.Search.Root != "" {
			search := *f.Search
			search.Root = s.relocate(search.Root)
			f.Search = &search
		}
		a.File = &f
	}
	return a
}

// movedEnv points HOME and TMPDIR to the private directories.
func (s *hostSandbox) movedEnv(env []string) []string {
	var out []string
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		switch name {
		case "HOME":
			kv = "HOME=" + s.relocate(value)
		case "TMPDIR":
			continue
		}
		out = append(out, kv)
	}
	if tmp, ok := s.own.ByPlace["/tmp"]; ok {
		out = append(out, "TMPDIR="+tmp)
	}
	return out
}

// errScratch ends a call whose private directories hold too much.
var errScratch = errors.New("confine: the private directories are full")

// watchInterval is how often the private directories are looked at, and watchShare bounds what that
// takes of a processor: a tool can make so many names that one walk takes seconds. What is written
// in between is not prevented.
const (
	watchInterval = 200 * time.Millisecond
	watchShare    = 2
)

// watch bounds the private directories until the call ends.
func (s *hostSandbox) watch(ctx context.Context, end context.CancelCauseFunc) {
	limit := s.profile.Limits.Scratch
	if limit == sandboxprofile.Unlimited {
		return
	}
	meter := s.own.Meter()
	meter.Used(limit) // before a program watches them
	pause := watchInterval
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		used, cost := measured(func() int64 { return meter.Used(limit) })
		if used > limit {
			end(errScratch)
		}
		pause = max(watchInterval, (watchShare-1)*cost)
	}
}

// measured calls walk, and says how much processor time it took.
func measured(walk func() int64) (used int64, cost time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	used = walk()
	return used, threadTime() - start
}

// threadTime is the processor time of this thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
