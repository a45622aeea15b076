package sandboxinit

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// start forks and executes a program with its limits already on it.
//
// os/exec cannot do this: limits set on the parent would bind us and could be
// raised again by the child, and limits set on the child after it started come
// too late. So this is the fork of syscall.forkAndExecInChild with setrlimit in
// the middle. Between fork and execve the child shares nothing writable with us
// but may not allocate, grow its stack or take a lock: everything it needs is
// made before.
func start(p sandboxprofile.Program, l wire.Rlimits, fds [3]int) (pid int, op string, errno syscall.Errno) {
	c, err := newChild(p, l, fds)
	if err != nil {
		return 0, "argument", unix.EINVAL
	}
	defer closeAll(c.report[:])

	syscall.ForkLock.Lock()
	pid = fork(c)
	syscall.ForkLock.Unlock()
	if pid < 0 {
		return 0, "fork", syscall.Errno(-pid)
	}
	closeAll(c.report[1:]) // ours, so that execve or an exit gives end of file

	var msg [8]byte
	n, _ := readFull(c.report[0], msg[:])
	if n < len(msg) {
		return pid, "", 0
	}
	reapUntil(pid)
	return 0, stepName(msg[4]), syscall.Errno(uint32(msg[0]) | uint32(msg[1])<<8)
}

// child is everything that the forked process touches.
type child struct {
	path   *byte
	dir    *byte
	argv   []*byte
	env    []*byte
	fds    [3]int
	limits []limit
	report [2]int // pipe: the child writes what failed
}

type limit struct {
	resource uintptr
	value    unix.Rlimit
}

// The steps of the child, for the report.
const (
	stepSetsid = iota
	stepLimit
	stepDir
	stepStdio
	stepCloseRange
	stepExec
)

func stepName(b byte) string {
	names := [...]string{"setsid", "setrlimit", "chdir", "dup", "close_range", "execve"}
	if int(b) < len(names) {
		return names[b]
	}
	return "child"
}

func newChild(p sandboxprofile.Program, l wire.Rlimits, fds [3]int) (*child, error) {
	c := &child{fds: fds, limits: limits(l)}
	var err error
	if c.path, err = unix.BytePtrFromString(p.Path); err != nil {
		return nil, err
	}
	if c.dir, err = unix.BytePtrFromString(p.Dir); err != nil {
		return nil, err
	}
	if c.argv, err = syscall.SlicePtrFromStrings(p.Argv); err != nil {
		return nil, err
	}
	if c.env, err = syscall.SlicePtrFromStrings(p.Env); err != nil {
		return nil, err
	}
	return c, unix.Pipe2(c.report[:], unix.O_CLOEXEC)
}

// limits is the table of what Rlimits means to the kernel, getrlimit(2).
func limits(l wire.Rlimits) []limit {
	ls := []limit{{unix.RLIMIT_CORE, unix.Rlimit{}}} // a core file is a copy of memory nobody asked for
	for _, x := range []struct {
		resource uintptr
		value    int64
	}{
		{unix.RLIMIT_CPU, l.CPUSeconds},
		{unix.RLIMIT_DATA, l.Data},
		{unix.RLIMIT_NPROC, l.Processes},
		{unix.RLIMIT_FSIZE, l.FileSize},
		{unix.RLIMIT_NOFILE, l.OpenFiles},
	} {
		if x.value == sandboxprofile.Unlimited {
			continue
		}
		ls = append(ls, limit{x.resource, lower(x.resource, uint64(max(x.value, 0)))})
	}
	return ls
}

// lower never asks for more than the hard limit we run under: raising it needs a
// capability that nobody in here has.
func lower(resource uintptr, v uint64) unix.Rlimit {
	var have unix.Rlimit
	if err := unix.Getrlimit(int(resource), &have); err == nil && have.Max < v {
		v = have.Max
	}
	return unix.Rlimit{Cur: v, Max: v}
}

//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

//go:linkname runtimeAfterForkInChild syscall.runtime_AfterForkInChild
func runtimeAfterForkInChild()

// fork returns the child's pid, or a negative errno. It does not return in the child.
//
//go:norace
//go:noinline
func fork(c *child) int {
	runtimeBeforeFork() // blocks signals: the child must not run our handlers
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		runtimeAfterForkInChild() // default signal dispositions, empty mask
		inChild(c)
	}
	runtimeAfterFork()
	if errno != 0 {
		return -int(errno)
	}
	return int(pid)
}

//go:norace
//go:nosplit
func inChild(c *child) {
	var errno syscall.Errno
	step := byte(stepSetsid)
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
	step = stepDir
	if _, _, errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)), 0, 0); errno != 0 {
		goto fail
	}
	step = stepStdio
	for i := range c.fds {
		if _, _, errno = syscall.RawSyscall(unix.SYS_DUP3, uintptr(c.fds[i]), uintptr(i), 0); errno != 0 {
			goto fail
		}
	}
	step = stepCloseRange
	if _, _, errno = syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 3, 0xffffffff, unix.CLOSE_RANGE_CLOEXEC); errno != 0 {
		goto fail
	}
	step = stepExec
	_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(c.path)),
		uintptr(unsafe.Pointer(&c.argv[0])), uintptr(unsafe.Pointer(&c.env[0])))
fail:
	msg := [8]byte{byte(errno), byte(errno >> 8), 0, 0, step}
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.report[1]), uintptr(unsafe.Pointer(&msg[0])), uintptr(len(msg)))
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
