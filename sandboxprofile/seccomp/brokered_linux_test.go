//go:build linux && cgo

package seccomp

import (
	"slices"
	"testing"

	lib "github.com/seccomp/libseccomp-golang"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// brokeredAnswer is what BrokeredFilter is to say, by its tables.
func brokeredAnswer(t fataler, b Brokered, call string, args [6]uint64) uint32 {
	t.Helper()
	for _, g := range b.Denied() {
		if slices.ContainsFunc(g.Rules, func(r Rule) bool { return r.matches(call, args) }) {
			return expected(t, Action{Errno: g.Errno})
		}
	}
	if slices.ContainsFunc(b.Notified(), func(r Rule) bool { return r.matches(call, args) }) {
		return unix.SECCOMP_RET_USER_NOTIF
	}
	return unix.SECCOMP_RET_ALLOW
}

var everyBrokered = []Brokered{{}, {Sockets: true}, {Reads: true}, {Sockets: true, Reads: true}, {Lists: true}}

// TestBrokeredProgramAgreesWithItsTables runs the program in an interpreter over every
// call that a rule names, with arguments around those that the rules compare.
func TestBrokeredProgramAgreesWithItsTables(t *testing.T) {
	for _, b := range everyBrokered {
		prog, err := BrokeredFilter(b)
		if err != nil {
			t.Fatal(err)
		}
		m, arch := interpret(t, prog), nativeArch(t)
		names := []string{"read", "kill", "openat2", "connect", "execve", "prctl", "fcntl"}
		values := []uint64{0, 1, 2, 3, 4, 5, 10, netlinkQuestion, 0o100, 0o1000, 0o1002, 0o20200000, openPath, openPath | 2, 1024, 6, 41, 42, 1 << 31, 1 << 32, 0x5401, 0x40086602, low32, ^uint64(0)}
		for _, g := range b.Denied() {
			for _, r := range g.Rules {
				names = append(names, r.Call)
			}
		}
		for _, r := range b.Notified() {
			names = append(names, r.Call)
		}
		rapid.Check(t, func(t *rapid.T) {
			name := rapid.SampledFrom(names).Draw(t, "call")
			nr, err := lib.GetSyscallFromName(name)
			if err != nil || nr < 0 {
				return // a call that this architecture does not have
			}
			var args [6]uint64
			for i := range args {
				args[i] = rapid.SampledFrom(values).Draw(t, "arg")
			}
			want := brokeredAnswer(t, b, name, args)
			if got := m.run(t, uint32(nr), arch, args); got != want {
				t.Fatalf("%+v %s%#x: the program says %#x, the tables %#x", b, name, args, got, want)
			}
		})
	}
}

// TestStreamOptions: of options of sockets exactly those of the list are let through.
func TestStreamOptions(t *testing.T) {
	rules := optionsBut(streamOptions)
	let := 0
	for level := range uint64(300) {
		for option := range uint64(300) {
			args := [6]uint64{1: level, 2: option}
			refused := slices.ContainsFunc(rules, func(r Rule) bool { return r.matches("setsockopt", args) })
			if listed := slices.Contains(streamOptions[level], option); listed == refused {
				t.Errorf("level %d option %d: listed %v, refused %v", level, option, listed, refused)
			} else if listed {
				let++
			}
		}
	}
	if let < 40 {
		t.Errorf("%d are let through", let)
	}
}

// TestBrokered: what changes something is the broker's to make, what neither it nor
// Landlock judges is refused, and each has a neighbour that goes on in the kernel.
func TestBrokered(t *testing.T) {
	const notified, goes = uint32(unix.SECCOMP_RET_USER_NOTIF), uint32(unix.SECCOMP_RET_ALLOW)
	refused := func(e Errno) uint32 { return expected(t, Action{Errno: e}) }
	for _, x := range []struct {
		call  string
		args  [6]uint64
		plain uint32
		reads uint32 // where reading is the broker's too
	}{
		{"openat", [6]uint64{}, goes, notified},
		{"openat", [6]uint64{2: unix.O_DIRECTORY | unix.O_CLOEXEC}, goes, notified},
		{"openat", [6]uint64{2: unix.O_WRONLY}, notified, notified},
		{"openat", [6]uint64{2: unix.O_RDWR | 7<<32}, notified, notified}, // the upper half is not part of an int
		{"openat", [6]uint64{2: unix.O_CREAT}, notified, notified},
		{"openat", [6]uint64{2: unix.O_TRUNC}, notified, notified},
		{"openat", [6]uint64{2: unix.O_TMPFILE | unix.O_WRONLY}, notified, notified},
		{"openat", [6]uint64{2: unix.O_ACCMODE}, notified, notified}, // for ioctls alone, and it truncates too
		{"openat", [6]uint64{2: unix.O_PATH | unix.O_RDWR}, goes, goes},
		{"renameat2", [6]uint64{}, notified, notified},
		{"fchmod", [6]uint64{}, notified, notified},
		{"utimensat", [6]uint64{}, notified, notified},
		{"umask", [6]uint64{}, notified, notified},
		{"prctl", [6]uint64{prctlSetDumpable, 0}, notified, notified},
		{"prctl", [6]uint64{15}, goes, goes}, // PR_SET_NAME
		{"ftruncate", [6]uint64{}, goes, goes},
		{"write", [6]uint64{}, goes, goes},
		{"execve", [6]uint64{}, goes, goes},
		{"fcntl", [6]uint64{1: fcntlSetLease}, refused(EACCES), refused(EACCES)},
		{"fcntl", [6]uint64{1: 4}, goes, goes}, // F_SETFL
		{"fsetxattr", [6]uint64{}, refused(EOPNOTSUPP), refused(EOPNOTSUPP)},
		{"ioctl", [6]uint64{1: 0x40086602}, refused(ENOTTY), refused(ENOTTY)}, // FS_IOC_SETFLAGS
		{"ioctl", [6]uint64{1: 0x5413}, goes, goes},                           // TIOCGWINSZ
		{"connect", [6]uint64{}, notified, notified},
		{"listen", [6]uint64{}, notified, notified},
		{"sendto", [6]uint64{3: messageFastOpen}, refused(EOPNOTSUPP), refused(EOPNOTSUPP)},
		{"sendto", [6]uint64{}, goes, goes},
		{"sendto", [6]uint64{2: 20}, notified, notified}, // as long as a question by netlink
		{"sendto", [6]uint64{2: 20 | 1<<32}, goes, goes},
		{"sendto", [6]uint64{2: 20, 3: 0x4000}, goes, goes}, // MSG_NOSIGNAL
		{"sendto", [6]uint64{2: 20, 4: 1 << 32}, goes, goes},
		{"setsockopt", [6]uint64{1: levelTCP, 2: 14}, refused(EPERM), refused(EPERM)},    // TCP_MD5SIG
		{"setsockopt", [6]uint64{1: levelTCP, 2: 1}, goes, goes},                         // TCP_NODELAY
		{"setsockopt", [6]uint64{1: levelTCP | 9<<32, 2: 1 | 9<<32}, goes, goes},         // the upper half is not part of an int
		{"setsockopt", [6]uint64{1: levelSocket, 2: 9}, goes, goes},                      // SO_KEEPALIVE
		{"setsockopt", [6]uint64{1: levelIPv6, 2: 26}, notified, notified},               // IPV6_V6ONLY
		{"setsockopt", [6]uint64{1: levelSocket, 2: 25}, refused(EPERM), refused(EPERM)}, // SO_BINDTODEVICE
		{"setsockopt", [6]uint64{1: levelIP, 2: 42}, refused(EPERM), refused(EPERM)},     // MCAST_JOIN_GROUP
		{"setsockopt", [6]uint64{1: levelIPv6, 2: 42}, refused(EPERM), refused(EPERM)},
		{"setsockopt", [6]uint64{1: levelIPv6, 2: 27}, refused(EPERM), refused(EPERM)},     // IPV6_JOIN_ANYCAST
		{"setsockopt", [6]uint64{1: levelTCP, 2: 1 << 31}, refused(EPERM), refused(EPERM)}, // no option
		{"setsockopt", [6]uint64{1: 1 << 31, 2: 1}, refused(EPERM), refused(EPERM)},        // no level
		{"setsockopt", [6]uint64{1: 282, 2: 1}, refused(EPERM), refused(EPERM)},            // SOL_TLS
		{"inotify_add_watch", [6]uint64{}, notified, notified},
		{"getpeername", [6]uint64{}, notified, notified},
	} {
		for reads, want := range map[bool]uint32{false: x.plain, true: x.reads} {
			if got := brokeredAnswer(t, Brokered{Reads: reads}, x.call, x.args); got != want {
				t.Errorf("%s%#x, reads %v: %#x, want %#x", x.call, x.args, reads, got, want)
			}
		}
		want := x.plain
		if x.call == "openat" && x.args[2]&(unix.O_DIRECTORY|openPath) == unix.O_DIRECTORY {
			want = notified
		}
		if got := brokeredAnswer(t, Brokered{Lists: true}, x.call, x.args); got != want {
			t.Errorf("%s%#x, where directories are listed: %#x, want %#x", x.call, x.args, got, want)
		}
	}
}

// TestEveryChangeIsJudged: of the calls that a program may make, those that change what
// a path or a descriptor means are denied, or the broker's. The list is syscalls(2) as
// of Linux 6.18, without what Landlock refuses or a descriptor for writing is needed for.
func TestEveryChangeIsJudged(t *testing.T) {
	for _, call := range []string{
		"creat", "truncate", "mkdir", "mkdirat", "mknod", "mknodat", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat",
		"unlink", "unlinkat", "rmdir", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat",
		"utime", "utimes", "futimesat", "utimensat",
		"setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr", "lremovexattr", "fremovexattr", "removexattrat",
		"file_setattr", "openat2", "open_by_handle_at", "mount", "pivot_root", "chroot", "swapon", "quotactl", "acct",
		"io_uring_setup", "io_uring_enter", "process_madvise", "pidfd_getfd", "ptrace", "process_vm_writev",
	} {
		for _, b := range everyBrokered {
			base, err := Decide(nil, call, [6]uint64{})
			if err != nil {
				t.Fatal(err)
			}
			if got := brokeredAnswer(t, b, call, [6]uint64{}); got == unix.SECCOMP_RET_ALLOW && base.Allow {
				t.Errorf("%s goes on in the kernel, and nobody judges it", call)
			}
		}
	}
}

// TestEverySocketIsTheBrokers: without the host's network there is no socket that the
// broker has not made: the filters refuse the rest, whatever the family, the type and the
// protocol.
func TestEverySocketIsTheBrokers(t *testing.T) {
	base, err := newPolicy(nil)
	if err != nil {
		t.Fatal(err)
	}
	refused, notified := 0, 0
	for family := range uint64(64) {
		for kind := range uint64(16) {
			for _, protocol := range []uint64{0, 1, 2, 6, 17, 33, 58, 132, 136, 255, 256, 262, 1 << 32, 6 | 1<<32} {
				for _, more := range []uint64{0, unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 1 << 32} {
					args := [6]uint64{family, kind | more, protocol}
					switch answer := brokeredAnswer(t, Brokered{}, "socket", args); {
					case !base.decide("socket", args).Allow || answer&unix.SECCOMP_RET_ACTION == unix.SECCOMP_RET_ERRNO:
						refused++
					case answer == unix.SECCOMP_RET_USER_NOTIF:
						notified++
					default:
						t.Errorf("socket%#x goes on in the kernel", args)
					}
				}
			}
		}
	}
	if refused == 0 || notified == 0 {
		t.Errorf("%d refused, %d notified", refused, notified)
	}
}

// TestBrokerFilter: a broker may resolve a path and read its programs' memory, and no
// more than they otherwise.
func TestBrokerFilter(t *testing.T) {
	own, err := BrokerFilter(nil)
	if err != nil {
		t.Fatal(err)
	}
	base, err := Filter(nil)
	if err != nil {
		t.Fatal(err)
	}
	broker, programs, arch := interpret(t, own), interpret(t, base), nativeArch(t)
	for nr := range uint32(600) {
		var args [6]uint64
		got, want := broker.run(t, nr, arch, args), programs.run(t, nr, arch, args)
		name, err := lib.ScmpSyscall(nr).GetName()
		if err == nil && slices.Contains(brokerCalls, name) {
			if got != unix.SECCOMP_RET_ALLOW || want == unix.SECCOMP_RET_ALLOW {
				t.Errorf("%s: the broker %#x, programs %#x", name, got, want)
			}
		} else if got != want {
			t.Errorf("call %d (%s): the broker %#x, programs %#x", nr, name, got, want)
		}
	}
	lease := [6]uint64{1: fcntlSetLease}
	if got, want := broker.run(t, unix.SYS_FCNTL, arch, lease), programs.run(t, unix.SYS_FCNTL, arch, lease); got != unix.SECCOMP_RET_ALLOW || want == unix.SECCOMP_RET_ALLOW {
		t.Errorf("a lease: the broker %#x, programs %#x", got, want)
	}
}
