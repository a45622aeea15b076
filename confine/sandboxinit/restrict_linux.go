package sandboxinit

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/wire"
)

// restrict lays every restriction on this process, in an order that matters:
//
//  1. close descriptors: what leaked through bubblewrap from the supervisor's
//     own parent must be gone before anything else can go wrong;
//  2. not dumpable: from here on no other process of this user can trace us or
//     read our memory and descriptors through /proc (prctl(2), PR_SET_DUMPABLE);
//  3. a session keyring without keys: the user's may hold some, and the filter will
//     take away the call that could replace it (keyctl(2)). Where a container's filter
//     refuses that, it has to refuse every use of keys;
//  4. check that no capability is left, in any set: bubblewrap drops them, and a
//     bubblewrap that did not would make the rest worthless. Without bubblewrap
//     they are dropped here, before no_new_privs, which changes nothing about them;
//  5. no_new_privs: Landlock and seccomp ask for it, and set-id programs end here;
//  6. Landlock, which needs to open the paths of its rules;
//  7. seccomp last, since every step before it needs calls that it forbids.
//
// It returns the name of the step that failed.
func restrict(s *wire.Setup, queue *broker.Queue, q **queues) (string, error) {
	privileged := true
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"close descriptors", func() error { return closeBut(queue) }},
		{"keep our socket from children", func() error { return closeOnExec(controlFD) }},
		{"open the kernel's socket diagnostics", func() error { *q = newQueues(s.Shared != nil && s.Shared.Broker != nil); return nil }},
		{"make process 1 undumpable", func() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }},
		{"join a new session keyring", func() error { return joinKeyring(s.Keyring) }},
		{"adopt orphans", func() error { return adopt(s.Shared) }},
		{"check capabilities", func() error { return capabilities(s.Shared) }},
		{"set no_new_privs", func() (err error) { privileged, err = setNoNewPrivs(); return err }},
		{"limit core dumps", limitCore},
		{"landlock", func() error { return restrictPaths(s.Landlock, s.Shared, privileged) }},
		{"check the scope of signals", func() error { return checkScope(s) }},
		{"seccomp", func() error { return installFilter(s.Seccomp, s.Shared) }},
	} {
		if err := step.do(); err != nil {
			return step.name, err
		}
	}
	return "", nil
}

// limitCore keeps crashes of programs to themselves. A core file is an unwanted copy of memory. Where the host
// pipes it to a handler, that is a process of root's outside, and the program chose the content; only with a
// limit of 1 byte does the kernel start none (core(5)). Our filter lets no program lower it.
func limitCore() error {
	one := coreOf(ownLimits())
	return unix.Setrlimit(unix.RLIMIT_CORE, &one)
}

// coreOf is 1 byte, where the host has not set a lower limit that only root can raise.
func coreOf(most hardLimits) unix.Rlimit {
	v := min(1, most[unix.RLIMIT_CORE])
	return unix.Rlimit{Cur: v, Max: v}
}

// closeBut closes every descriptor behind the control socket's but that of the queue.
func closeBut(queue *broker.Queue) error {
	next := uint(controlFD + 1)
	if queue != nil {
		if file := uint(queue.File); file > next {
			if err := unix.CloseRange(next, file-1, 0); err != nil {
				return err
			}
		}
		next = uint(queue.File) + 1
	}
	return unix.CloseRange(next, math.MaxUint32, 0)
}

func closeOnExec(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
	return err
}

// joinKeyring gives this thread a new and empty session keyring, unless it has inherited
// the confiner's, which is empty too. Credentials belong to threads, and a tool inherits
// those of the thread that forks it, which is this one: see serve.
//
// Where that is refused, a container's filter does it (Docker's default), or the kernel has
// no keyrings. An inherited keyring is no danger then if programs inside cannot use keys
// either, and they have every filter that we have.
func joinKeyring(inherited bool) error {
	if inherited && emptyKeyring() {
		return nil
	}
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err == nil || errors.Is(err, unix.EDQUOT) { // the user has as many keys as there may be: it passes
		return err
	}
	if call := keysInReach(); call != "" {
		return fmt.Errorf("%w, and %s is let through", err, call)
	}
	return nil
}

// keysInReach names a call about keys that reaches the kernel, if there is one. The
// arguments name no key: the kernel's errno for them differs from the filter's, and
// after the kernel's we stop.
func keysInReach() string {
	refused := func(call uintptr, op int) bool {
		key := uintptr(0)
		if op == unix.KEYCTL_GET_PERSISTENT {
			key = ^key // a user, and this is our own: the kernel says EPERM about others
		}
		_, _, errno := unix.RawSyscall(call, uintptr(op), key, 0)
		return errno == unix.EPERM || errno == unix.ENOSYS
	}
	switch {
	case !refused(unix.SYS_ADD_KEY, 0):
		return "add_key"
	case !refused(unix.SYS_REQUEST_KEY, 0):
		return "request_key"
	}
	for op := unix.KEYCTL_GET_KEYRING_ID; op <= unix.KEYCTL_WATCH_KEY; op++ {
		switch op {
		case unix.KEYCTL_JOIN_SESSION_KEYRING: // was refused
		case unix.KEYCTL_INSTANTIATE, unix.KEYCTL_NEGATE, unix.KEYCTL_REJECT, unix.KEYCTL_INSTANTIATE_IOV:
			// for who was asked to make a key: the kernel says EPERM to others
		case unix.KEYCTL_SESSION_TO_PARENT: // would take our parent's
		default:
			if !refused(unix.SYS_KEYCTL, op) {
				return fmt.Sprintf("keyctl operation %d", op)
			}
		}
	}
	return ""
}

// emptyKeyring reports whether no key is in the session keyring, which KEYCTL_READ lists.
func emptyKeyring() bool {
	n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, unix.KEY_SPEC_SESSION_KEYRING, nil, 0)
	return err == nil && n == 0
}

// checkCapabilities fails if the bounding, ambient, permitted, effective or
// inheritable set holds anything (capabilities(7)).
func checkCapabilities() error {
	for c := uintptr(0); c <= 63; c++ {
		set, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // past the last capability of this kernel
		}
		if err != nil {
			return err
		}
		if set != 0 {
			return fmt.Errorf("capability %d is in the bounding set", c)
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return err
	}
	for _, d := range data {
		if d.Effective|d.Permitted|d.Inheritable != 0 {
			return fmt.Errorf("capabilities are left: %+v", data)
		}
	}
	return nil
}

// setNoNewPrivs is for this thread. It reports whether other threads may be without it: nothing
// has set it in this process before, so a thread that has it was started with it, as all were.
func setNoNewPrivs() (others bool, err error) {
	had, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return true, err
	}
	return had != 1, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// restrictPaths enforces exactly the given ruleset on every thread. There is no best effort
// here: the kernel refuses a ruleset that it cannot enforce. privileged says that there may
// be threads without no_new_privs, which Landlock requires of each.
//
// A call that every thread makes in turn (before ABI 8) waits until each has been scheduled:
// that is the longest step of this process's start, so it is not done for no_new_privs where
// bubblewrap has started us with it.
func restrictPaths(l wire.Landlock, shared *wire.Shared, privileged bool) error {
	if l.HandledFS == 0 {
		if accepts(shared) {
			return nil
		}
		return errors.New("an empty ruleset restricts nothing")
	}
	l.Rules = slices.Concat(l.Rules, ownRules(shared))
	set, err := ruleset(l, openRule)
	if err != nil {
		return err
	}
	defer unix.Close(set)
	if abi, err := ll.LandlockGetABIVersion(); err == nil && abi >= 8 {
		return ll.LandlockRestrictSelf(set, ll.FlagRestrictSelfTSync) // which gives all of them no_new_privs
	}
	if privileged {
		if err := ll.AllThreadsPrctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	return ll.AllThreadsLandlockRestrictSelf(set, 0)
}

func ownRules(s *wire.Shared) []wire.LandlockRule {
	if s == nil {
		return nil
	}
	return s.Own
}

// installFilter loads the BPF program for every thread (seccomp(2), TSYNC).
func installFilter(program []byte, shared *wire.Shared) error {
	if len(program) == 0 && accepts(shared) {
		return nil
	}
	prog, err := filterProgram(program)
	if err != nil {
		return err
	}
	tid, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(prog)))
	if errno != 0 {
		return errno
	}
	if tid != 0 {
		return fmt.Errorf("thread %d could not be brought under the filter", tid)
	}
	return nil
}

// filterProgram is a program as seccomp(2) takes it.
func filterProgram(program []byte) (*unix.SockFprog, error) {
	const filterSize = int(unsafe.Sizeof(unix.SockFilter{}))
	if len(program) == 0 || len(program)%filterSize != 0 {
		return nil, fmt.Errorf("a program of %d bytes is not one", len(program))
	}
	filters := make([]unix.SockFilter, len(program)/filterSize)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&filters[0])), len(program)), program)
	return &unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}, nil
}
