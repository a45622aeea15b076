//go:build linux && cgo

package barred

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	docker "github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
)

// Exec runs a program in p, in place of this process. It returns only if that fails.
//
// The order is runc's: without no_new_privs a filter needs CAP_SYS_ADMIN, so it comes
// before the capabilities go.
func (p Place) Exec(argv []string) error {
	if p.NeedsRoot() && os.Geteuid() != 0 {
		return fmt.Errorf("only root can make the place %q", p.Name)
	}
	// Filters, credentials and mounts are laid on this thread, and execve keeps
	// those of the thread that calls it.
	runtime.LockOSThread()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	// What an ordinary user cannot reach by its path: a test binary in a directory
	// that only root opens.
	program, err := unix.Open(path, unix.O_PATH, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"mounts", p.mounts},
		{"no_new_privs", p.noNewPrivs},
		{"filters", p.filters},
		{"bounding set", p.bound},
		{"user", p.become},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	err = syscall.Exec(path, argv, os.Environ())
	if errors.Is(err, unix.EACCES) {
		err = syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", program), argv, os.Environ())
	}
	return fmt.Errorf("run %s: %w", path, err)
}

// masked and readOnly are the paths that Docker covers: moby, daemon/pkg/oci/defaults.go.
var (
	masked = []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
	}
	readOnly = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

func (p Place) mounts() error {
	if os.Geteuid() != 0 || !p.Masked {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if p.ReadOnly {
		dir, err := os.Getwd()
		if err == nil {
			err = sealRoot()
		}
		if err == nil {
			err = os.Chdir(dir) // what lies there may be writable now, and below the old one is not
		}
		if err != nil {
			return err
		}
	}
	if err := unix.Mount("shm", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=1777,size=65536k"); err != nil {
		return fmt.Errorf("/dev/shm: %w", err)
	}
	return mask()
}

func mask() error {
	for _, name := range masked {
		info, err := os.Lstat(name)
		switch {
		case err != nil:
			continue // this kernel has none
		case info.IsDir():
			err = unix.Mount("tmpfs", name, "tmpfs", unix.MS_RDONLY, "size=0k")
		default:
			err = unix.Mount("/dev/null", name, "", unix.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range readOnly {
		if _, err := os.Lstat(name); err != nil {
			continue
		}
		if err := remount(name, unix.MOUNT_ATTR_RDONLY, 0); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// remount makes name a mount, and sets and clears attributes of it and all below.
func remount(name string, set, clear uint64) error {
	if err := unix.Mount(name, name, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, name, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: set, Attr_clr: clear})
}

func sealRoot() error {
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return err
	}
	writable := append([]string{"/proc", "/dev"}, strings.FieldsFunc(os.Getenv(WritableEnv), func(r rune) bool { return r == ':' })...)
	for _, name := range writable {
		if err := remount(name, 0, unix.MOUNT_ATTR_RDONLY); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (p Place) noNewPrivs() error {
	if p.MayGainPrivileges && os.Geteuid() == 0 {
		return nil
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

func (p Place) filters() error {
	for _, f := range p.Filters {
		if err := f.install(p); err != nil {
			return err
		}
	}
	return nil
}

// bound removes every capability that the place does not have from the bounding set, so
// that a set-id program has none either.
func (p Place) bound() error {
	if os.Geteuid() != 0 || slices.Equal(p.Capabilities, all) {
		return nil
	}
	keep := p.numbers()
	for c := 0; c <= 63; c++ {
		if slices.Contains(keep, c) {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // past the last capability of this kernel
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// become takes the user of the place, and for root the capabilities.
func (p Place) become() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if p.UID != 0 {
		if err := syscall.Setgroups(nil); err != nil {
			return err
		}
		if err := syscall.Setresgid(p.UID, p.UID, p.UID); err != nil {
			return err
		}
		return syscall.Setresuid(p.UID, p.UID, p.UID) // with which every capability goes
	}
	if slices.Equal(p.Capabilities, all) {
		return nil
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	for _, c := range p.numbers() {
		sets[c/32].Effective |= 1 << (c % 32)
		sets[c/32].Permitted |= 1 << (c % 32)
	}
	return unix.Capset(&head, &sets[0])
}

var capabilities = map[string]int{
	"CAP_CHOWN": unix.CAP_CHOWN, "CAP_DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "CAP_FSETID": unix.CAP_FSETID, "CAP_FOWNER": unix.CAP_FOWNER,
	"CAP_MKNOD": unix.CAP_MKNOD, "CAP_NET_RAW": unix.CAP_NET_RAW, "CAP_SETGID": unix.CAP_SETGID, "CAP_SETUID": unix.CAP_SETUID,
	"CAP_SETFCAP": unix.CAP_SETFCAP, "CAP_SETPCAP": unix.CAP_SETPCAP, "CAP_NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
	"CAP_SYS_CHROOT": unix.CAP_SYS_CHROOT, "CAP_KILL": unix.CAP_KILL, "CAP_AUDIT_WRITE": unix.CAP_AUDIT_WRITE,
}

func (p Place) numbers() []int {
	var list []int
	for _, name := range p.Capabilities {
		list = append(list, capabilities[name])
	}
	return list
}

func (f Filter) install(p Place) error {
	switch f {
	case Docker:
		return p.docker()
	case NoPeeking:
		return deny(unix.EPERM, "process_vm_readv", "process_vm_writev")
	case NoMounts:
		return deny(unix.EACCES, "mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsmount", "fspick", "mount_setattr")
	case NoUserNamespaces:
		return noUserNamespaces()
	case NoJoining:
		return noJoining()
	}
	return fmt.Errorf("bug: no filter %d", f)
}

// load lays a filter on this thread. no_new_privs is ours to set.
func load(f *seccomp.ScmpFilter) error {
	if err := f.SetNoNewPrivsBit(false); err != nil {
		return err
	}
	return f.Load()
}

func deny(errno syscall.Errno, calls ...string) error {
	f, err := seccomp.NewFilter(seccomp.ActAllow)
	if err != nil {
		return err
	}
	defer f.Release()
	for _, name := range calls {
		nr, err := seccomp.GetSyscallFromName(name)
		if err != nil {
			continue // libseccomp is older than the call
		}
		if err := f.AddRule(nr, seccomp.ActErrno.SetReturnCode(int16(errno))); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return load(f)
}

// denyIf refuses a call whose first argument has value in the bits of mask.
func denyIf(errno syscall.Errno, mask, value uint64, calls ...string) error {
	f, err := seccomp.NewFilter(seccomp.ActAllow)
	if err != nil {
		return err
	}
	defer f.Release()
	first, err := seccomp.MakeCondition(0, seccomp.CompareMaskedEqual, mask, value)
	if err != nil {
		return err
	}
	for _, name := range calls {
		nr, err := seccomp.GetSyscallFromName(name)
		if err != nil {
			return err
		}
		if err := f.AddRuleConditional(nr, seccomp.ActErrno.SetReturnCode(int16(errno)), []seccomp.ScmpCondition{first}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return load(f)
}

func noUserNamespaces() error {
	if err := denyIf(unix.ENOSPC, unix.CLONE_NEWUSER, unix.CLONE_NEWUSER, "unshare", "clone"); err != nil {
		return err
	}
	return deny(unix.ENOSYS, "clone3") // whose flags lie in memory: callers fall back to clone
}

func noJoining() error {
	const all32 = 1<<32 - 1
	return denyIf(unix.EPERM, all32, unix.KEYCTL_JOIN_SESSION_KEYRING, "keyctl")
}

var actions = map[specs.LinuxSeccompAction]seccomp.ScmpAction{
	specs.ActAllow: seccomp.ActAllow,
	specs.ActErrno: seccomp.ActErrno,
}

var operators = map[specs.LinuxSeccompOperator]seccomp.ScmpCompareOp{
	specs.OpEqualTo:      seccomp.CompareEqual,
	specs.OpNotEqual:     seccomp.CompareNotEqual,
	specs.OpMaskedEqual:  seccomp.CompareMaskedEqual,
	specs.OpLessThan:     seccomp.CompareLess,
	specs.OpLessEqual:    seccomp.CompareLessOrEqual,
	specs.OpGreaterThan:  seccomp.CompareGreater,
	specs.OpGreaterEqual: seccomp.CompareGreaterEqual,
}

// docker lays Docker's default filter on this thread, as runc does
// (libcontainer/seccomp/seccomp_linux.go).
func (p Place) docker() error {
	spec := &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: p.Capabilities}}}
	profile, err := docker.GetDefaultProfile(spec)
	if err != nil {
		return err
	}
	return lay(profile)
}

// lay puts a filter as Docker describes it on this thread.
func lay(profile *specs.LinuxSeccomp) error {
	otherwise, err := action(profile.DefaultAction, profile.DefaultErrnoRet)
	if err != nil {
		return err
	}
	f, err := seccomp.NewFilter(otherwise)
	if err != nil {
		return err
	}
	defer f.Release()
	for _, a := range profile.Architectures {
		arch, err := seccomp.GetArchFromString(strings.ToLower(strings.TrimPrefix(string(a), "SCMP_ARCH_")))
		if err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
		if err := f.AddArch(arch); err != nil {
			return fmt.Errorf("%s: %w", a, err)
		}
	}
	for _, call := range profile.Syscalls {
		if err := addCalls(f, call, otherwise); err != nil {
			return err
		}
	}
	if err := load(f); err != nil {
		return err
	}
	return newerCalls()
}

func addCalls(f *seccomp.ScmpFilter, rule specs.LinuxSyscall, otherwise seccomp.ScmpAction) error {
	act, err := action(rule.Action, rule.ErrnoRet)
	if err != nil {
		return err
	}
	if act == otherwise {
		return nil
	}
	var conds []seccomp.ScmpCondition
	for _, a := range rule.Args {
		op, ok := operators[a.Op]
		if !ok {
			return fmt.Errorf("bug: no operator %q", a.Op)
		}
		cond, err := seccomp.MakeCondition(a.Index, op, a.Value, a.ValueTwo)
		if err != nil {
			return err
		}
		conds = append(conds, cond)
	}
	for _, name := range rule.Names {
		nr, err := seccomp.GetSyscallFromName(name)
		if err != nil {
			continue // newerCalls answers it
		}
		if err := f.AddRuleConditional(nr, act, conds); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func action(a specs.LinuxSeccompAction, errno *uint) (seccomp.ScmpAction, error) {
	act, ok := actions[a]
	if !ok {
		return act, fmt.Errorf("bug: no action %q", a)
	}
	if errno != nil {
		return act.SetReturnCode(int16(*errno)), nil
	}
	return act, nil
}

// newerCalls answers ENOSYS to calls that libseccomp has no name for, as runc does
// (libcontainer/seccomp/patchbpf): a program falls back then. Of two filters that
// refuse, the later one gives the errno.
func newerCalls() error {
	var newest uint32
	for nr := range uint32(1024) {
		if _, err := seccomp.ScmpSyscall(nr).GetName(); err == nil {
			newest = nr
		}
	}
	const x32 = 0x40000000 // __X32_SYSCALL_BIT
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: x32, Jt: 2},
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: newest, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
}

// Name is the name of the launcher's command.
const Name = "barred"

// Main is the launcher's command: barred PLACE COMMAND ARG...
func Main() {
	fail := func(err error) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", Name, err)
		os.Exit(125)
	}
	args := os.Args[1:]
	if len(args) < 2 {
		fail(errors.New("usage: barred PLACE COMMAND [ARG]"))
	}
	p, err := Find(args[0])
	if err != nil {
		fail(err)
	}
	fail(p.Exec(args[1:]))
}

// asCommand reports whether this process was started as the launcher.
func asCommand() bool { return filepath.Base(os.Args[0]) == Name }
