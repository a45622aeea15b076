package sandboxinit

import (
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A process is a program that was started. Its pidfd becomes readable when it has
// ended (pidfd_open(2)).
type process struct {
	pid, pidfd int
}

// start forks and executes a program with its limits already on it.
//
// os/exec cannot do this: limits set on the parent would bind us and could be
// raised again by the child, and limits set on the child after it started come
// too late. So this is the fork of syscall.forkAndExecInChild with setrlimit in
// the middle. Until execve the child runs in our memory while this thread waits
// (CLONE_VFORK): a copy of a Go process's page tables would cost as much as the rest
// of the call. It may not allocate, grow its stack or take a lock: everything it
// needs is made before.
//
// An init that shares the host's namespaces lays on the child what it does not
// have itself (see Shared): a Landlock domain and a filter. The layer of a ceiling comes
// below both.
func (w *worker) start(p sandboxprofile.Program, l wire.Rlimits, counted bool, fds []int, hold startLatch, under layer) (process, string, syscall.Errno) {
	c, err := newChild(p, limits(l, w.most), fds, hold)
	if err != nil {
		return process{}, "argument", unix.EINVAL
	}
	c.reset, c.counted = w.reset, counted
	switch {
	case w.shared != nil && w.shared.unconfined:
	case w.shared == nil && !counted: // a broker's changes are not held by a program's own domain
		c.together = inACgroup
	default:
		c.together = together
	}
	own := noLayer
	if s := w.shared; s != nil {
		c.lonely, c.base, c.notifies, own = true, s.base, s.broker != nil, layer{domain: s.domain, filter: s.filter}
	}
	if m := w.modes; m != nil {
		c.notifies, c.refusing, own = true, m.refuse, layer{domain: -1, filter: m.notify}
	}
	c.layers = [...]layer{own, under}
	pidfd := int32(-1)
	syscall.ForkLock.Lock()
	pid := fork(c, &pidfd)
	syscall.ForkLock.Unlock()
	if pid < 0 {
		return process{}, "fork", syscall.Errno(-pid)
	}
	started := process{pid, int(pidfd)}
	if c.errno != 0 {
		if c.listener >= 0 {
			unix.Close(c.listener)
		}
		waitFor(pid)
		started.close()
		return process{}, stepName(c.step), c.errno
	}
	switch {
	case c.listener < 0:
	case w.modes != nil:
		w.modes.Serve(c.listener)
	default:
		w.shared.broker.Serve(c.listener, under.still, under.fixed)
	}
	return started, "", 0
}

func (p process) close() {
	if p.pidfd >= 0 {
		unix.Close(p.pidfd)
	}
}

// waitFor reaps a child that has ended or is about to.
func waitFor(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != unix.EINTR {
			return
		}
	}
}

// child is everything that the forked process touches.
type child struct {
	path      *byte
	dir       *byte
	argv      []*byte
	cwd       []byte // dir as the kernel has to name it: with its NUL
	arrived   []byte // where getcwd(2) puts that
	env       []*byte
	fds       []int // becoming descriptors 0, 1, ...
	limits    []limit
	counted   bool          // its memory is by what it maps
	reset     []unix.Signal // ignored here, and not by what the runtime has handled
	byDefault sigaction
	keep      uintptr    // the first descriptor that the program does not get
	tty       int        // the descriptor that is to be its controlling terminal; -1 for none
	latch     startLatch // where it waits before it becomes the program
	opened    byte       // what it read there
	// step and errno describe the failure. The child writes them, in memory that is
	// ours.
	step  byte
	errno syscall.Errno

	// notifies says that the filter of the first layer has a listener, which the child
	// makes in a table of descriptors that is ours too. It parts with the table before it
	// touches another.
	notifies bool
	listener int
	together *unix.SockFprog // laid on last; nil where nothing confines
	base     *unix.SockFprog // laid on before that filter
	refusing *unix.SockFprog // laid on in its place where the kernel lets it have no listener

	lonely bool // no kernel ends it with its namespace: it dies with the thread that forked it
	layers [2]layer
}

type limit struct {
	resource uintptr
	value    unix.Rlimit
}

// The steps of the child.
const (
	stepSignals = iota
	stepSetsid
	stepLimit
	stepDir
	stepStdio
	stepTerminal
	stepParent
	stepDomain
	stepFilter
	stepCloseRange
	stepGate
	stepExec
)

func stepName(b byte) string {
	names := [...]string{"sigaction", "setsid", "setrlimit", "chdir", "dup", "ioctl", "prctl", "landlock_restrict_self", "seccomp", "close_range", "latch", "execve"}
	if int(b) < len(names) {
		return names[b]
	}
	return "child"
}

func newChild(p sandboxprofile.Program, l []limit, fds []int, hold startLatch) (*child, error) {
	c := &child{fds: fds, limits: l, keep: uintptr(len(fds)), tty: slices.IndexFunc([]int{0, 1, 2}, p.Terminal.Has), latch: hold, listener: -1}
	var err error
	if c.path, err = unix.BytePtrFromString(p.Path); err != nil {
		return nil, err
	}
	if c.dir, err = unix.BytePtrFromString(p.Dir); err != nil {
		return nil, err
	}
	c.cwd, c.arrived = append([]byte(p.Dir), 0), make([]byte, unix.PathMax)
	if c.argv, err = syscall.SlicePtrFromStrings(p.Argv); err != nil {
		return nil, err
	}
	if c.env, err = syscall.SlicePtrFromStrings(p.Env); err != nil {
		return nil, err
	}
	for i, fd := range fds {
		if i > 0 && fd <= fds[i-1] || fd <= 0 { // else dup3 could overwrite one that it has yet to copy
			return nil, unix.EINVAL
		}
	}
	if hold != open && int(hold) < len(fds) { // else a stream would be put there
		return nil, unix.EINVAL
	}
	return c, nil
}

// maxSignals bounds the queued signals and timers of a program. The kernel counts them for
// the user, whose own programs make timers too.
const maxSignals = 1024

// limits is the table of what Rlimits means to the kernel, getrlimit(2).
func limits(l wire.Rlimits, most hardLimits) []limit {
	signals := min(maxSignals, most[unix.RLIMIT_SIGPENDING])
	ls := []limit{
		{unix.RLIMIT_CORE, coreOf(most)}, // as limitCore has it, where that was not called
		{unix.RLIMIT_SIGPENDING, unix.Rlimit{Cur: signals, Max: signals}},
		// Some distributions let users of audio have real-time priority (limits.conf(5)). A program
		// with one runs before the supervisor and init, which are to end it.
		{unix.RLIMIT_RTPRIO, unix.Rlimit{}},
		{unix.RLIMIT_NICE, unix.Rlimit{}},
	}
	for _, x := range []struct {
		resource uintptr
		value    int64
	}{
		{unix.RLIMIT_CPU, l.CPUSeconds},
		{unix.RLIMIT_NPROC, l.Processes},
		{unix.RLIMIT_FSIZE, l.FileSize},
		{unix.RLIMIT_NOFILE, l.OpenFiles},
	} {
		if x.value == sandboxprofile.Unlimited {
			continue
		}
		// It is never more than the hard limit that we run under: raising it needs a
		// capability that no process in here has.
		v := min(uint64(max(x.value, 0)), most[x.resource])
		ls = append(ls, limit{x.resource, unix.Rlimit{Cur: v, Max: v}})
	}
	return ls
}

// hardLimits are those that we run under, by resource. Nothing changes them.
type hardLimits [unix.RLIMIT_NPROC + unix.RLIMIT_NOFILE + 1]uint64

func ownLimits() hardLimits {
	var most hardLimits
	for resource := range most {
		var have unix.Rlimit
		most[resource] = unix.RLIM_INFINITY
		if err := unix.Getrlimit(resource, &have); err == nil {
			most[resource] = have.Max
		}
	}
	return most
}

//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

//go:linkname runtimeAfterForkInChild syscall.runtime_AfterForkInChild
func runtimeAfterForkInChild()

// vfork is clone(2) with a flag that lets the child run on our stack.
func vfork(trap, flags, pidfd uintptr) (pid uintptr, errno syscall.Errno)

// fork returns the child's pid, or a negative errno. It does not return in the child.
//
//go:norace
//go:noinline
func fork(c *child, pidfd *int32) int {
	runtimeBeforeFork() // blocks signals: the child must not run our handlers
	pid, errno := forkHere(c, pidfd)
	runtimeAfterFork()
	if errno != 0 {
		return -int(errno)
	}
	return int(pid)
}

// forkHere returns in the parent as soon as that goes on: the child has used the
// frames below this one meanwhile.
//
//go:norace
//go:noinline
//go:nosplit
func forkHere(c *child, pidfd *int32) (uintptr, syscall.Errno) {
	flags := unix.CLONE_VFORK | unix.CLONE_VM | unix.CLONE_PIDFD | uintptr(unix.SIGCHLD)
	if c.notifies {
		flags |= unix.CLONE_FILES
	}
	pid, errno := vfork(unix.SYS_CLONE, flags, uintptr(unsafe.Pointer(pidfd)))
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	runtimeAfterForkInChild() // default signal dispositions, empty mask
	inChild(c)
	return 0, 0
}

//go:norace
//go:nosplit
func inChild(c *child) {
	var errno syscall.Errno
	var listener, n uintptr
	step := byte(stepFilter)
	if c.notifies {
		if c.base != nil {
			if _, _, errno = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(c.base))); errno != 0 {
				goto fail
			}
		}
		listener, _, errno = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, broker.FilterFlags, uintptr(unsafe.Pointer(c.layers[0].filter)))
		switch {
		case errno == 0:
			c.listener = int(listener)
		case c.refusing != nil:
			listener = 0xffffffff // of nothing: the table is parted with all the same
			_, _, errno = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(c.refusing)))
		}
		if errno != 0 {
			goto fail
		}
		if _, _, errno = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, listener, listener, unix.CLOSE_RANGE_UNSHARE); errno != 0 {
			goto fail
		}
	}
	step = stepSignals
	for i := range c.reset {
		if _, _, errno = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(c.reset[i]), uintptr(unsafe.Pointer(&c.byDefault)), 0, maskSize, 0, 0); errno != 0 {
			goto fail
		}
	}
	step = stepSetsid
	if _, _, errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0); errno != 0 {
		goto fail
	}
	step = stepLimit
	for i := range c.limits {
		l := &c.limits[i]
		if _, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, l.resource, uintptr(unsafe.Pointer(&l.value)), 0, 0, 0); errno != 0 {
			goto fail
		}
	}
	// Of a huge page the kernel keeps all while one byte is mapped, and tells of that byte.
	if c.counted {
		if _, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_THP_DISABLE, 1, 0, 0, 0, 0); errno != 0 {
			goto fail
		}
	}
	step = stepDir
	if _, _, errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); errno != 0 {
		goto fail
	}
	// The path had no link in it when it was decided about. One that has appeared since leads elsewhere.
	if n, _, errno = syscall.RawSyscall(unix.SYS_GETCWD, uintptr(unsafe.Pointer(&c.arrived[0])), unix.PathMax, 0); errno != 0 {
		goto fail
	}
	for i := range c.cwd {
		if int(n) != len(c.cwd) || c.arrived[i] != c.cwd[i] {
			errno = unix.ELOOP
			goto fail
		}
	}
	step = stepStdio
	for i := range c.fds {
		if _, _, errno = syscall.RawSyscall(unix.SYS_DUP3, uintptr(c.fds[i]), uintptr(i), 0); errno != 0 {
			goto fail
		}
	}
	step = stepTerminal
	if c.tty >= 0 { // the new session has none: TIOCSCTTY of ioctl_tty(2) takes no other's
		if _, _, errno = syscall.RawSyscall(unix.SYS_IOCTL, uintptr(c.tty), unix.TIOCSCTTY, 0); errno != 0 {
			goto fail
		}
	}
	step = stepParent
	if c.lonely {
		if _, _, errno = syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0); errno != 0 {
			goto fail
		}
	}
	step = stepDomain
	for i := range c.layers {
		l := &c.layers[i]
		if l.domain < 0 {
			continue
		}
		if _, _, errno = syscall.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(l.domain), 0, 0); errno != 0 {
			goto fail
		}
	}
	step = stepFilter
	for i := range c.layers {
		l := &c.layers[i]
		if l.filter == nil || i == 0 && c.notifies {
			continue
		}
		if _, _, errno = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(l.filter))); errno != 0 {
			goto fail
		}
	}
	if c.together != nil {
		if _, _, errno = syscall.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(c.together))); errno != 0 {
			goto fail
		}
	}
	step = stepCloseRange
	if _, _, errno = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, c.keep, 0xffffffff, unix.CLOSE_RANGE_CLOEXEC); errno != 0 {
		goto fail
	}
	step = stepGate
	for c.latch != open && c.opened == 0 {
		n, _, e := syscall.RawSyscall(unix.SYS_READ, uintptr(c.latch), uintptr(unsafe.Pointer(&c.opened)), 1)
		if e == unix.EINTR {
			continue
		}
		if errno = e; n == 0 && e == 0 {
			errno = unix.ECANCELED
		}
		if errno != 0 {
			goto fail
		}
	}
	step = stepExec
	_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.path)),
		uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.env[0])))
fail:
	c.step, c.errno = step, errno
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}

func readFull(fd int, p []byte) (int, error) {
	n := 0
	for n < len(p) {
		m, err := unix.Read(fd, p[n:])
		if err == unix.EINTR {
			continue
		}
		if m <= 0 || err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}
