package seccomp

import (
	"slices"
	"strings"
)

// The numbers below are those of the generic Linux ABI, which amd64 and arm64
// share (include/uapi/asm-generic, include/linux/socket.h).
const (
	low32 = 0xffffffff // the bits of a C int or unsigned int

	ioctlTIOCSTI   = 0x5412
	ioctlTIOCLINUX = 0x541c
	ioctlTIOCSETD  = 0x5423

	shmLock      = 11     // SHM_LOCK, linux/shm.h
	shmHugePages = 0o4000 // SHM_HUGETLB

	ioctlType   = 0xff00 // the type byte of an ioctl number, asm-generic/ioctl.h
	ioctlNumber = 0x00ff // and the one that counts within the type

	modeSetUID = 0o4000
	modeSetGID = 0o2000

	modeOthersWrite = 0o002

	modeType  = 0o170000
	modeChar  = 0o020000
	modeBlock = 0o060000

	openCreate  = 0o100
	openTmpfile = 0o20000000

	afUnix    = 1
	afInet    = 2
	afInet6   = 10
	afNetlink = 16

	sockTypeMask = 0xf
	sockStream   = 1
	sockDgram    = 2
	sockRaw      = 3
	sockPacket   = 10

	whoProcess = 0 // PRIO_PROCESS
	whoGroup   = 1 // PRIO_PGRP

	ioprioProcess = 1 // IOPRIO_WHO_PROCESS
	ioprioGroup   = 2 // IOPRIO_WHO_PGRP
)

// Keyring is the group without which programs can use keys.
const Keyring = "keyring"

// Tracing is the group without which programs of a call can trace each other. Process 1 cannot be
// traced even so, nor can processes outside: it is not dumpable, and the others are in no
// namespace or Landlock domain of the sandbox.
const Tracing = "ptrace"

// setIDName is the group without which programs can make set-id files.
const setIDName = "set_id"

// Groups are the calls that the filter denies, with the reason and the errno. The order
// is the order in which rules are tried.
func Groups() []Group {
	return []Group{
		{"mount", "Changing mounts would remove what hides and protects files.", EPERM, calls(
			"mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "open_tree_attr", "fsopen",
			"fsconfig", "fsmount", "fspick", "mount_setattr")},
		{"namespaces", "A new namespace gives its creator capabilities, which open most of the kernel's attack surface.", EPERM,
			append(calls("unshare", "setns"), anyBit("clone", 0, cloneNewBits...)...)},
		{"clone3", "A filter cannot read its flags, which are in memory, so it cannot see new namespaces; C libraries fall back to clone.", ENOSYS, calls("clone3")},
		{"openat2", "A filter cannot read its mode, which is in memory, so it cannot see set-id bits; programs fall back to openat.", ENOSYS, calls("openat2")},
		tracedExits(),
		{Tracing, "A process that reads or controls another process bypasses that process's own restrictions.", EPERM, calls(
			"ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd")},
		{"bpf", "Loads programs into the kernel, a steady source of privilege escalations.", EPERM, calls("bpf")},
		{"perf", "Performance counters read across processes and have a large attack surface.", EPERM, calls("perf_event_open")},
		{"userfaultfd", "Stops the kernel in the middle of a copy, which turns small races into exploits.", EPERM, calls("userfaultfd")},
		{"io_uring", "Its operations bypass this filter: open, connect and others run without a system call.", EPERM, calls(
			"io_uring_setup", "io_uring_enter", "io_uring_register")},
		{Keyring, "Keys are shared with the user's other processes, across namespaces.", EPERM, calls(
			"keyctl", "add_key", "request_key")},
		{"kexec", "Loads another kernel.", EPERM, calls("kexec_load", "kexec_file_load")},
		{"modules", "Loads code into the kernel.", EPERM, calls("init_module", "finit_module", "delete_module")},
		{"file_handles", "Opens files by number, which bypasses hidden paths; early containers were escaped this way.", EPERM, calls(
			"open_by_handle_at", "name_to_handle_at")},
		{"admin", "Administers the machine, which tools do not need.", EPERM, calls(
			"swapon", "swapoff", "reboot", "quotactl", "quotactl_fd", "acct", "settimeofday", "clock_settime", "clock_adjtime",
			"adjtimex", "sethostname", "setdomainname", "iopl", "ioperm", "vhangup", "syslog", "fanotify_init")},
		{"personality", "Personalities turn off address randomisation and other hardening. Reading the current one works.", EPERM,
			personalities()},
		{"terminal_input", "Pushes input into the terminal, as if the person had typed it, or loads a line discipline.", EPERM, []Rule{
			{"ioctl", equal32(1, ioctlTIOCSTI)}, {"ioctl", equal32(1, ioctlTIOCLINUX)}, {"ioctl", equal32(1, ioctlTIOCSETD)}}},
		{"file_ioctls", "Moves content between files, or seals one, without changing times and without notifying watches or git.", ENOTTY, fileIoctls()},
		leases(),
		{"aio", "One call can use up the kernel's supply for the whole host; programs fall back to threads.", ENOSYS, calls("io_setup")},
		{"message_queues", "A POSIX message queue outlives its programs, and its size counts against the user's quota across namespaces. Landlock refuses to open a queue only after the kernel has created it.",
			EPERM, calls("mq_open", "mq_unlink")},
		{"locked_segments", "Locked memory and huge pages of System V segments count against the user's quota across namespaces.", EPERM, []Rule{
			{"shmctl", equal32(1, shmLock)}, {"shmget", masked(2, shmHugePages, shmHugePages)}}},
		{"raw_sockets", "Forges packets and reads those of others.", EPERM, rawSockets()},
		{"netlink", "Netlink reaches the kernel's configuration; only reading routes and addresses is open to all users.", EPROTONOSUPPORT,
			netlinkButRoute()},
		{"families", "Socket families that leave the network namespace (vsock) or have little use and many bugs.", EAFNOSUPPORT,
			otherFamilies()},
		{setIDName, "A set-id file in a workspace gives its owner's rights to anyone who runs it later.", EPERM, setID()},
		{"device_nodes", "A device node bypasses every file permission.", EPERM, []Rule{
			{"mknod", masked(1, modeType, modeChar)}, {"mknod", masked(1, modeType, modeBlock)},
			{"mknodat", masked(2, modeType, modeChar)}, {"mknodat", masked(2, modeType, modeBlock)}}},
		{otherProcessesName, "A tool that changes a limit, priority or affinity of process 1 could stop it from enforcing limits, in later calls too.",
			EPERM, otherProcesses()},
		coreLimit(),
	}
}

// coreLimitName is the group that keeps programs' core dumps from the host.
const coreLimitName = "core_limit"

// coreLimit has nothing set the limit of core dumps (RLIMIT_CORE), and answers that it was set:
// gpg and ssh-agent end if it was not. prlimit64 without a new limit only asks, and goes on. The
// address of a new one has a bit from that of the second page on, up to the highest of user space.
func coreLimit() Group {
	const resource, lowest, highest = 4, 12, 56
	g := Group{coreLimitName, "With a limit of 1 byte the kernel does not start the host's handler of core dumps (core(5)), which runs outside, as root. With 0 it does.", Nothing, []Rule{
		{"setrlimit", equal32(0, resource)}}}
	for _, bit := range bitsOf(highest + 1)[lowest:] { // for the caller itself: otherProcesses has the rest
		g.Rules = append(g.Rules, Rule{"prlimit64", []Condition{{0, low32, 0}, {1, low32, resource}, {2, bit, bit}}})
	}
	return g
}

// cloneNewBits are CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and
// NEWNET. CLONE_NEWTIME does not exist in clone: its bit is part of the signal.
var cloneNewBits = []uint64{0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000}

func calls(names ...string) []Rule {
	rules := make([]Rule, len(names))
	for i, n := range names {
		rules[i].Call = n
	}
	return rules
}

// anyBit matches a call with at least one of the bits set, by a rule for each.
func anyBit(call string, arg int, bits ...uint64) []Rule {
	rules := make([]Rule, len(bits))
	for i, b := range bits {
		rules[i] = Rule{call, masked(arg, b, b)}
	}
	return rules
}

func masked(arg int, mask, value uint64) []Condition { return []Condition{{arg, mask, value}} }

func equal32(arg int, value uint64) []Condition { return masked(arg, low32, value) }

// personalities are all but 0 (Linux) and 0xffffffff (the question for the
// present one): some bit is set and the highest is not. What is left, the
// highest bit with something missing below, is not on the allow-list.
func personalities() []Rule {
	const highest = 1 << 31
	var rules []Rule
	for bit := range 31 {
		rules = append(rules, Rule{"personality", masked(0, highest|1<<bit, 1<<bit)})
	}
	return rules
}

// fileIoctls are those of file systems, by type, but for what only asks (FS_IOC_GETFLAGS,
// FS_IOC_FIEMAP, FS_IOC_FSGETXATTR) and what copies as writing does (FICLONE, FICLONERANGE,
// FIDEDUPERANGE). Types of devices stay: a profile may grant one.
func fileIoctls() []Rule {
	var rules []Rule
	for _, t := range []struct {
		kind uint64
		keep []uint64
	}{
		{'f', []uint64{1, 11}},               // all file systems, ext4: EXT4_IOC_MOVE_EXT
		{'X', []uint64{31}},                  // XFS: XFS_IOC_SWAPEXT, XFS_IOC_EXCHANGE_RANGE
		{0x94, []uint64{9, 13, 54}},          // btrfs
		{0xf5, nil},                          // f2fs: F2FS_IOC_MOVE_RANGE
		{'o', nil}, {0xbc, nil}, {0xcf, nil}, // ocfs2, bcachefs, cifs
	} {
		keep := make([]uint64, len(t.keep))
		for i, k := range t.keep {
			keep[i] = t.kind<<8 | k
		}
		for _, c := range others(keep, Condition{1, ioctlType, t.kind << 8}, 0x80) {
			rules = append(rules, Rule{"ioctl", []Condition{c}})
		}
	}
	return rules
}

// others are conditions that match, together, whatever fits c but keep: the bits from next
// down are fixed one by one until none of keep is among them.
func others(keep []uint64, c Condition, next uint64) []Condition {
	among := slices.DeleteFunc(slices.Clone(keep), func(k uint64) bool { return k&c.Mask != c.Value })
	switch {
	case len(among) == 0:
		return []Condition{c}
	case next == 0:
		return nil
	}
	return append(others(among, Condition{c.Arg, c.Mask | next, c.Value}, next>>1), others(among, Condition{c.Arg, c.Mask | next, c.Value | next}, next>>1)...)
}

// tracedExitsName is the group that lets a killed process die.
const tracedExitsName = "traced_exits"

// tracedExits is apart from Tracing, so that it stays where that is lifted: PTRACE_SEIZE and
// PTRACE_SETOPTIONS, under both of its numbers, with PTRACE_O_TRACEEXIT. strace needs it, so
// that process 1 lets programs have it where no two can wait for each other.
func tracedExits() Group {
	const traceExit, argument = 0x40, 3
	g := Group{Name: tracedExitsName, Reason: "A killed process stops once more for its tracer: two processes that trace each other would wait forever, and nothing could end them.", Errno: EPERM}
	for _, request := range []uint64{0x4206, 0x4200, 21} {
		g.Rules = append(g.Rules, Rule{"ptrace", []Condition{{0, ^uint64(0), request}, {argument, traceExit, traceExit}}})
	}
	return g
}

// leases are had on files that are open for reading only, too.
func leases() Group {
	return Group{"leases", "A process with a lease on a file delays every program that opens it, including host programs and the broker.", EACCES, []Rule{
		{"fcntl", equal32(1, fcntlSetLease)}}}
}

func rawSockets() []Rule {
	var rules []Rule
	for _, family := range []uint64{afInet, afInet6} {
		for _, kind := range []uint64{sockRaw, sockPacket} {
			rules = append(rules, Rule{"socket", []Condition{{0, low32, family}, {1, sockTypeMask, kind}}})
		}
	}
	return rules
}

// netlinkButRoute denies every protocol but NETLINK_ROUTE, which is 0. There are
// 32 protocols; the kernel refuses larger numbers.
func netlinkButRoute() []Rule {
	var rules []Rule
	for bit := range 5 {
		rules = append(rules, Rule{"socket", []Condition{{0, low32, afNetlink}, {2, 1 << bit, 1 << bit}}})
	}
	return rules
}

// otherFamilies are the address families that exist (AF_MAX is 46) and are not
// on the allow-list. A family newer than this gets ENOSYS.
func otherFamilies() []Rule {
	var rules []Rule
	for family := range uint64(46) {
		switch family {
		case afUnix, afInet, afInet6, afNetlink:
		default:
			rules = append(rules, Rule{"socket", equal32(0, family)})
		}
	}
	return rules
}

// setID are the calls that give a file its mode. For the open calls the mode
// counts only when a file is created, and is whatever was in the register otherwise.
func setID() []Rule {
	var rules []Rule
	for _, c := range []struct {
		call string
		arg  int
	}{{"chmod", 1}, {"fchmod", 1}, {"fchmodat", 2}, {"fchmodat2", 2}, {"creat", 1}, {"mknod", 1}, {"mknodat", 2}} {
		rules = append(rules, anyBit(c.call, c.arg, modeSetUID, modeSetGID)...)
	}
	for _, c := range []struct {
		call        string
		flags, mode int
	}{{"open", 1, 2}, {"openat", 2, 3}} {
		for _, create := range []uint64{openCreate, openTmpfile} {
			for _, bit := range []uint64{modeSetUID, modeSetGID} {
				rules = append(rules, Rule{c.call, []Condition{{c.flags, create, create}, {c.mode, bit, bit}}})
			}
		}
	}
	return rules
}

// setGroupID are the calls of setID that give a file which is there a set-group-id bit
// and no set-user-id bit: on a directory it only says which group new files get.
func setGroupID() []Rule {
	return slices.DeleteFunc(setID(), func(r Rule) bool {
		return !strings.Contains(r.Call, "chmod") || r.When[0].Value != modeSetGID
	})
}

// othersWrite are the calls that let every user write: a mode or access list that gives it, and a
// umask with which new files would have it.
func othersWrite() []Rule {
	rules := append(calls("setxattr", "lsetxattr", "fsetxattr"), Rule{"umask", masked(0, modeOthersWrite, 0)})
	for _, r := range setGroupID() {
		rules = append(rules, Rule{r.Call, masked(r.When[0].Arg, modeOthersWrite, modeOthersWrite)})
	}
	return rules
}

// otherProcessesName is the group that keeps process 1 as it was.
const otherProcessesName = "other_processes"

// otherProcesses are the calls that take a process id and ask for nothing but the
// same user, for every id but 0, which is the caller: a filter sees numbers, and
// process 1 has one for each of its threads.
func otherProcesses() []Rule {
	var rules []Rule
	for _, c := range []struct {
		call string
		arg  int
	}{
		{"sched_setaffinity", 0}, {"sched_setparam", 0}, {"sched_setscheduler", 0}, {"sched_setattr", 0},
		{"setpriority", 1}, {"ioprio_set", 1},
	} {
		rules = append(rules, anyBit(c.call, c.arg, bitsOf(32)...)...)
	}
	// No process has a negative id, and the kernel answers so (ESRCH): programs ask with -1 whether it does.
	const sign = 1 << 31
	for _, bit := range bitsOf(31) {
		rules = append(rules, Rule{"prlimit64", masked(0, sign|bit, bit)})
	}
	// Zero means the caller's user for one kind of target; the others are the
	// caller's own process and group.
	rules = append(rules, others32("setpriority", 0, whoProcess, whoGroup)...)
	return append(rules, others32("ioprio_set", 0, ioprioProcess, ioprioGroup)...)
}

func bitsOf(n int) []uint64 {
	all := make([]uint64, n)
	for i := range all {
		all[i] = 1 << i
	}
	return all
}

// others32 matches every small value of an int argument but the two allowed ones;
// the kernel refuses values beyond a byte for these calls.
func others32(call string, arg int, allowed ...uint64) []Rule {
	var rules []Rule
	for v := range uint64(8) {
		if !slices.Contains(allowed, v) {
			rules = append(rules, Rule{call, equal32(arg, v)})
		}
	}
	return rules
}
