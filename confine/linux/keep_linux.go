package linux

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/confine/proctree"
	"github.com/sandgate/sandgate/confine/wire"
)

// A frozen file lies under a mount in the sandbox that runs it. The kernel takes a mount
// away when its mount point loses its name in another mount namespace (rename(2),
// unlink(2)), but answers EBUSY where the name is a mount point of the namespace that
// asks. So in every sandbox that runs already, and could take the name, a mount is laid on
// it too, and on the directories above. A sandbox's mounts belong to its user namespace,
// and that to us (user_namespaces(7)): a short-lived child enters both and does nothing
// else there. What the programs have open does not matter: the content is a copy.

// keptName is one name that is to become a mount point, as it is now.
type keptName struct {
	path *byte // NUL-terminated, absolute, free of links
	file wire.FileID
}

// Keep implements Freezer.
func (s *bwrapSandbox) Keep(files []string) (release func(), err error) {
	var names []keptName
	var paths []string
	for _, file := range files {
		root := hostfs.WritableAround(s.profile, file)
		if root == "" {
			continue // it cannot take the name
		}
		for _, name := range slices.Backward(slices.Collect(fromTo(file, root))) {
			if slices.Contains(paths, name) {
				continue
			}
			_, id, err := hostfs.Locate(root, name)
			if err != nil {
				return nil, fmt.Errorf("confine: keep %q: %w", name, err)
			}
			text, err := unix.BytePtrFromString(name)
			if err != nil {
				return nil, err
			}
			names, paths = append(names, keptName{text, id}), append(paths, name)
		}
	}
	if len(names) == 0 {
		return func() {}, nil
	}
	in, err := s.namespaces()
	if errors.Is(err, errEnded) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	if err := in.enter(names, true); err != nil {
		in.close()
		return nil, err
	}
	return func() {
		_ = in.enter(names, false) // it is gone, or its names stay as they are
		in.close()
	}, nil
}

// fromTo gives name and the directories above it, up to root, which is not among them.
func fromTo(name, root string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for ; name != root && name != "/"; name = path.Dir(name) {
			if !yield(name) {
				return
			}
		}
	}
}

// namespaces are those of a sandbox's mounts.
type namespaces struct{ user, mounts *os.File }

func (n namespaces) close() { n.user.Close(); n.mounts.Close() }

// errEnded says that a sandbox's init is dead, and with it all that ran there.
var errEnded = errors.New("confine: the sandbox has ended")

func (s *bwrapSandbox) namespaces() (n namespaces, err error) {
	pids := proctree.Descendants(s.cmd.Process.Pid)
	if len(pids) == 0 {
		return n, errEnded
	}
	n.mounts, err = os.Open("/proc/" + strconv.Itoa(pids[0]) + "/ns/mnt")
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ESRCH):
		return n, errEnded
	case err != nil:
		return n, fmt.Errorf("confine: the mounts of a running sandbox: %w", err)
	}
	fd, err := unix.IoctlRetInt(int(n.mounts.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		n.mounts.Close()
		return n, fmt.Errorf("confine: the mounts of a running sandbox: %w", err)
	}
	n.user = os.NewFile(uintptr(fd), "user namespace")
	return n, nil
}

// The steps of a visit, which are also the child's exit statuses.
const (
	visitUser = iota + 1
	visitMounts
	visitOpen
	visitChanged
	visitMount
	visitVerify
)

var visitSteps = map[int]string{
	visitUser: "enter its user namespace", visitMounts: "enter its mount namespace", visitOpen: "find the name", visitChanged: "find the name: another file has it",
	visitMount: "mount", visitVerify: "verify the mount",
}

// visit is all that the child needs, which may not allocate.
type visit struct {
	user, mounts uintptr
	own          bool // the user namespace is ours already
	names        []keptName
	keep         bool
	how          unix.OpenHow
	empty        *byte
	st           unix.Stat_t
	stx          unix.Statx_t
}

// enter has a child lay the mounts, or take them away.
func (n namespaces) enter(names []keptName, keep bool) error {
	empty, err := unix.BytePtrFromString("")
	if err != nil {
		return err
	}
	v := &visit{
		user: n.user.Fd(), mounts: n.mounts.Fd(), own: n.sameUser(), names: names, keep: keep, empty: empty,
		how: unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS},
	}
	syscall.ForkLock.Lock()
	pid, errno := forkVisit(v)
	syscall.ForkLock.Unlock()
	if errno != 0 {
		return fmt.Errorf("confine: enter a running sandbox: %w", errno)
	}
	var status unix.WaitStatus
	for {
		if _, err := unix.Wait4(int(pid), &status, 0, nil); err != unix.EINTR {
			if err != nil {
				return fmt.Errorf("confine: enter a running sandbox: %w", err)
			}
			break
		}
	}
	switch {
	case status.Exited() && status.ExitStatus() == 0:
		return nil
	case status.Exited():
		return fmt.Errorf("confine: enter a running sandbox: %s", visitSteps[status.ExitStatus()])
	}
	return fmt.Errorf("confine: enter a running sandbox: %v", status.Signal())
}

// sameUser reports whether the mounts belong to our own user namespace, which cannot be
// entered again.
func (n namespaces) sameUser() bool {
	ours, err := os.Readlink("/proc/self/ns/user")
	theirs, err2 := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(n.user.Fd())))
	return err == nil && err2 == nil && strings.EqualFold(ours, theirs)
}

//go:linkname runtimeBeforeFork syscall.runtime_BeforeFork
func runtimeBeforeFork()

//go:linkname runtimeAfterFork syscall.runtime_AfterFork
func runtimeAfterFork()

//go:linkname runtimeAfterForkInChild syscall.runtime_AfterForkInChild
func runtimeAfterForkInChild()

// forkVisit returns in the parent only. The child has a copy of our memory, one thread,
// and makes plain system calls until it exits.
//
//go:norace
//go:noinline
func forkVisit(v *visit) (uintptr, syscall.Errno) {
	runtimeBeforeFork() // blocks signals: the child must not run our handlers
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		runtimeAfterForkInChild()
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, v.inChild(), 0, 0)
	}
	runtimeAfterFork()
	return pid, errno
}

//go:norace
//go:nosplit
func (v *visit) inChild() uintptr {
	if !v.own {
		if _, _, e := syscall.RawSyscall(unix.SYS_SETNS, v.user, unix.CLONE_NEWUSER, 0); e != 0 {
			return visitUser
		}
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_SETNS, v.mounts, unix.CLONE_NEWNS, 0); e != 0 {
		return visitMounts
	}
	if !v.keep {
		for i := len(v.names) - 1; i >= 0; i-- {
			syscall.RawSyscall(unix.SYS_UMOUNT2, uintptr(unsafe.Pointer(v.names[i].path)), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW, 0)
		}
		return 0
	}
	for i := range v.names {
		if step := v.mount(&v.names[i]); step != 0 {
			return step
		}
	}
	for i := range v.names { // the names, once nothing below them moves any more
		if step := v.verify(&v.names[i]); step != 0 {
			return step
		}
	}
	return 0
}

// mount lays a mount of a file or directory on itself.
//
//go:norace
//go:nosplit
func (v *visit) mount(n *keptName) uintptr {
	fd, step := v.open(n)
	if step != 0 {
		return step
	}
	tree, _, e := syscall.RawSyscall(unix.SYS_OPEN_TREE, fd, uintptr(unsafe.Pointer(v.empty)), unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if e != 0 {
		return visitMount
	}
	_, _, e = syscall.RawSyscall6(unix.SYS_MOVE_MOUNT, tree, uintptr(unsafe.Pointer(v.empty)), fd, uintptr(unsafe.Pointer(v.empty)), unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH, 0)
	if e != 0 {
		return visitMount
	}
	return 0
}

// open opens a name, if it still belongs to the same file.
//
//go:norace
//go:nosplit
func (v *visit) open(n *keptName) (fd, step uintptr) {
	at := unix.AT_FDCWD
	fd, _, e := syscall.RawSyscall6(unix.SYS_OPENAT2, uintptr(at), uintptr(unsafe.Pointer(n.path)), uintptr(unsafe.Pointer(&v.how)), unsafe.Sizeof(v.how), 0, 0)
	if e != 0 {
		return 0, visitOpen
	}
	if _, _, e = syscall.RawSyscall(unix.SYS_FSTAT, fd, uintptr(unsafe.Pointer(&v.st)), 0); e != 0 {
		return 0, visitOpen
	}
	if v.st.Dev != n.file.Dev || v.st.Ino != n.file.Ino {
		return 0, visitChanged
	}
	return fd, 0
}

// verify checks that a name is a mount point. Another link to the same file would not be.
//
//go:norace
//go:nosplit
func (v *visit) verify(n *keptName) uintptr {
	fd, step := v.open(n)
	if step != 0 {
		return step
	}
	if _, _, e := syscall.RawSyscall6(unix.SYS_STATX, fd, uintptr(unsafe.Pointer(v.empty)), unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, uintptr(unsafe.Pointer(&v.stx)), 0); e != 0 {
		return visitVerify
	}
	if v.stx.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return visitVerify
	}
	return 0
}
