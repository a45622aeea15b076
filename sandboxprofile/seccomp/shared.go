package seccomp

const ioctlTerminal = 0x5400 // 'T': terminals, FIONREAD and FIOCLEX

// SharedGroups are also denied to a tool that shares the host's namespaces. Landlock
// decides about opening files there, about signals and about ptrace; what it does not
// cover, and a namespace would have kept apart, is here. None of it is lifted by a
// profile.
//
// With sockets, those of the internet are let through (the host's own network).
func SharedGroups(sockets bool) []Group {
	groups := []Group{
		{"metadata", "Landlock does not cover a file's mode, owner and times: a tool could change them on every file of its user.", EPERM, calls(
			"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat",
			"utime", "utimes", "futimesat", "utimensat")},
		{"attributes", "Landlock does not cover reading or writing extended attributes.", EOPNOTSUPP, calls(
			"getxattr", "lgetxattr", "fgetxattr", "listxattr", "llistxattr", "flistxattr",
			"setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr")},
		{"watches", "A watch reveals names in directories that the profile does not list.", EACCES, calls("inotify_add_watch")},
		{"watchers", "Watches are denied, and each user has few inotify instances on the host (fs.inotify.max_user_instances).", EMFILE, calls("inotify_init", "inotify_init1")},
		{"file_ioctls", "A file that is open only for reading is enough to set flags, snapshots and verity.", ENOTTY, otherIoctls()},
		{"ipc", "System V objects belong to the host and are shared with every program of the user.", EPERM, calls(
			"shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl")},
		{"unix_sockets", "Before ABI 9 Landlock does not cover connecting to a Unix socket by its path.", EACCES, []Rule{
			{"socket", equal32(0, afUnix)}}},
		// sendto and connect take an address on a datagram socket that already has a
		// peer (unix(7)), so one of a pair reaches every socket of the host.
		{"datagram_pairs", "A datagram socket of a pair can still send to any address.", EACCES, []Rule{
			{"socketpair", []Condition{{1, sockTypeMask, sockDgram}}}, {"socketpair", []Condition{{1, sockTypeMask, sockRaw}}}}},
	}
	if !sockets {
		groups = append(groups, Group{"network", "Without a network namespace the sandbox uses the host's network, so a profile without network must deny sockets.", EACCES, []Rule{
			{"socket", equal32(0, afInet)}, {"socket", equal32(0, afInet6)}, {"socket", equal32(0, afNetlink)}}})
	}
	return groups
}

// CeilingGroups are also denied to a tool that must change nothing and reach nothing:
// they are what a Landlock domain that bars changing and executing files does not
// cover. It is short: the kernel goes through the filter for each call's number when
// it is laid, which is once an action.
func CeilingGroups() []Group {
	return []Group{
		{"metadata", "Landlock does not cover a file's mode, owner and times.", EPERM, calls(
			"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat",
			"utime", "utimes", "futimesat", "utimensat",
			"setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr")},
		{"file_ioctls", "A file that is open only for reading is enough to set flags, snapshots and verity.", ENOTTY, otherIoctls()},
		{"sockets", "Everything that the profile allows to reach is reached through a socket.", EACCES, calls("socket", "socketpair")},
		{"truncation", "Before ABI 3 Landlock does not cover truncate(2), nor O_TRUNC without a right to write.", EACCES, []Rule{
			{"truncate", nil}, {"open", []Condition{{1, openModeMask, openTruncate}}}, {"openat", []Condition{{2, openModeMask, openTruncate}}}}},
		{"memory_files", "A program in a memory file has no path, so Landlock cannot refuse to execute it.", EACCES, calls("memfd_create")},
		leases(),
	}
}

// open(2): O_TRUNC, among it and the access mode; O_RDONLY is 0.
const (
	openTruncate = 0x200
	openModeMask = openTruncate | 0x3
)

// otherIoctls are all but those of terminals: some bit of the type differs.
func otherIoctls() []Rule {
	var rules []Rule
	for bit := uint64(0x100); bit < ioctlType; bit <<= 1 {
		rules = append(rules, Rule{"ioctl", masked(1, bit, ^uint64(ioctlTerminal)&bit)})
	}
	return rules
}
