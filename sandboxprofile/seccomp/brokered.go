package seccomp

import (
	"maps"
	"math/bits"
	"slices"
)

const (
	messageFastOpen = 0x20000000 // MSG_FASTOPEN

	ioctlSocket = 0x8900 // the type of those of sockets and interfaces (netdevice(7))

	levelIP     = 0 // IPPROTO_IP
	levelSocket = 1 // SOL_SOCKET, of these architectures
	levelTCP    = 6 // IPPROTO_TCP
	levelIPv6   = 41

	optionV6Only       = 26
	optionReuseAddress = 2
	optionReusePort    = 15
	optionGetFilter    = 26 // SO_GET_FILTER, which is SO_ATTACH_FILTER

	longestAddress = 1 << 7 // the highest bit of a length that bind(2) takes

	// The descriptors of sockets for datagrams, where the broker can choose: see package broker.
	firstSending, sendingNumbers = 768, 256

	// netlinkQuestion is how long a question for a machine's links or addresses is: struct
	// nlmsghdr and struct rtgenmsg, aligned.
	netlinkQuestion = 20

	openWrite  = 0o1
	openReadWr = 0o2
	openPath   = 0o10000000

	prctlSetDumpable = 4
	fcntlSetLease    = 1024
	fcntlSetOwn      = 8
	fcntlSetOwnEx    = 15
)

// openDirectory is O_DIRECTORY of one architecture and O_DIRECT of the other, which hardly
// anybody reads with.
var openDirectory = []uint64{0o40000, 0o200000}

// Brokered is the filter's treatment of programs whose changes a broker makes for them
// (package confine/broker).
type Brokered struct {
	// Sockets lets the internet's through, and no Unix sockets: the host's own network.
	// Without it the broker makes sockets, of both.
	Sockets bool
	// Reads notifies the broker of opening for reading too, and Lists of opening as a
	// directory (O_DIRECTORY).
	Reads, Lists bool
	// Signals notifies the broker of signals: before ABI 6 Landlock keeps none in its
	// domain.
	Signals bool
}

// Denied are the groups that such programs are denied besides Groups: those of
// SharedGroups, but for what the broker does in their place.
func (b Brokered) Denied() []Group {
	groups := slices.DeleteFunc(SharedGroups(b.Sockets), func(g Group) bool {
		return g.Name == "metadata" || g.Name == "watches" || g.Name == "watchers" || !b.Sockets && (g.Name == "unix_sockets" || g.Name == "network")
	})
	groups = append(groups, leases())
	if b.Signals {
		groups = append(groups, Group{"signals_by_descriptor", "A filter cannot see which process a descriptor stands for; a directory of /proc can be one too.", ENOSYS, calls("pidfd_send_signal")},
			Group{"owners", "The descriptor's owner gets the signal, whichever process that is.", EPERM, []Rule{
				{"fcntl", equal32(1, fcntlSetOwn)}, {"fcntl", equal32(1, fcntlSetOwnEx)}}})
	}
	if b.Sockets {
		return groups
	}
	for i := range groups {
		if groups[i].Name == "file_ioctls" {
			groups[i].Rules = ioctlsBut(ioctlTerminal, ioctlSocket)
		}
		if groups[i].Name == "datagram_pairs" { // the broker makes others
			groups[i].Rules = []Rule{{"socketpair", []Condition{{1, sockTypeMask, sockRaw}}}}
		}
	}
	return append(groups,
		Group{"fast_open", "It can connect while it sends, which bypasses the broker.", EOPNOTSUPP, []Rule{
			{"sendto", masked(3, messageFastOpen, messageFastOpen)}, {"sendmsg", masked(2, messageFastOpen, messageFastOpen)},
			{"sendmmsg", masked(3, messageFastOpen, messageFastOpen)}}},
		Group{"socket_filters", "A socket for datagrams has the broker's key in its filter, by which a stranger could send to it.", EPERM, []Rule{
			{"getsockopt", []Condition{{1, low32, levelSocket}, {2, low32, optionGetFilter}}}}},
		Group{"socket_options", "Sockets belong to the host's network: options can join multicast groups, choose a device, or remove the key that separates the sandbox's loopback.", EPERM, optionsBut(streamOptions)})
}

// streamOptions are the options that programs set on sockets for streams (socket(7),
// ip(7), ipv6(7), tcp(7); the numbers are those of asm-generic/socket.h, linux/in.h,
// linux/in6.h and linux/tcp.h). Nothing here sends anything, changes where it goes, or is
// seen by anybody but the other end.
var streamOptions = map[uint64][]uint64{
	levelSocket: {
		2, 6, 7, 8, 9, 10, 12, 13, 15, // REUSEADDR BROADCAST SNDBUF RCVBUF KEEPALIVE OOBINLINE PRIORITY LINGER REUSEPORT
		16, 18, 20, 21, 29, 35, 42, 47, // PASSCRED RCVLOWAT RCVTIMEO SNDTIMEO TIMESTAMP TIMESTAMPNS PEEK_OFF MAX_PACING_RATE
		63, 64, 66, 67, // TIMESTAMP_NEW TIMESTAMPNS_NEW RCVTIMEO_NEW SNDTIMEO_NEW
	},
	// Of groups only how far what a socket sends would go, and not to hear of all of them, which
	// Java sets on a socket for datagrams: that one sends nothing, and the rest is for others.
	levelIP:   {1, 2, 8, 10, 11, 12, 13, 24, 33, 34, 49}, // TOS TTL PKTINFO MTU_DISCOVER RECVERR RECVTTL RECVTOS BIND_ADDRESS_NO_PORT MULTICAST_TTL MULTICAST_LOOP MULTICAST_ALL
	levelIPv6: {16, 18, 19, 23, 25, 26, 29, 49, 66, 67},  // UNICAST_HOPS MULTICAST_HOPS MULTICAST_LOOP MTU_DISCOVER RECVERR V6ONLY MULTICAST_ALL RECVPKTINFO RECVTCLASS TCLASS
	levelTCP: {
		1, 2, 3, 4, 5, 6, 7, 8, 9, 10, // NODELAY MAXSEG CORK KEEPIDLE KEEPINTVL KEEPCNT SYNCNT LINGER2 DEFER_ACCEPT WINDOW_CLAMP
		12, 13, 16, 17, 18, 23, 25, 36, // QUICKACK CONGESTION THIN_LINEAR_TIMEOUTS THIN_DUPACK USER_TIMEOUT FASTOPEN NOTSENT_LOWAT INQ
	},
}

// optionsBut are the calls of setsockopt(2) but those with an option of keep, by level.
func optionsBut(keep map[uint64][]uint64) (rules []Rule) {
	const level, option, highest = 1, 2, 1 << 31
	levels := slices.Sorted(maps.Keys(keep))
	for _, c := range others(levels, Condition{Arg: level}, highest) {
		rules = append(rules, Rule{"setsockopt", []Condition{c}})
	}
	var all []uint64
	for _, l := range levels {
		all = append(all, keep[l]...)
	}
	// What is an option at no level needs no level to be refused.
	widest := uint64(1) << bits.Len64(slices.Max(all))
	for bit := widest; bit <= highest; bit <<= 1 {
		rules = append(rules, Rule{"setsockopt", masked(option, bit, bit)})
	}
	for _, l := range levels {
		for _, c := range others(keep[l], Condition{Arg: option}, widest>>1) {
			rules = append(rules, Rule{"setsockopt", []Condition{{level, low32, l}, c}})
		}
	}
	return rules
}

// ioctlsBut are all ioctls but those of some types.
func ioctlsBut(types ...uint64) (rules []Rule) {
	var keep []uint64
	for _, t := range types {
		for number := range uint64(0x100) {
			keep = append(keep, t|number)
		}
	}
	for _, c := range others(keep, Condition{Arg: 1}, 0x8000) {
		rules = append(rules, Rule{"ioctl", []Condition{c}})
	}
	return rules
}

// Notified are the calls that the broker makes. A call that is not here and changes
// something is refused by the programs' Landlock domain.
func (b Brokered) Notified() []Rule {
	rules := calls(
		"creat", "truncate", "mkdir", "mkdirat", "mknod", "mknodat", "rename", "renameat", "renameat2", "link", "linkat",
		"symlink", "symlinkat", "unlink", "unlinkat", "rmdir",
		"chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat",
		"utime", "utimes", "futimesat", "utimensat", "umask", "inotify_init", "inotify_init1", "inotify_add_watch")
	for _, c := range []struct {
		call  string
		flags int
	}{{"open", 1}, {"openat", 2}} {
		// O_PATH opens nothing, and such a descriptor cannot be handed over.
		if b.Reads {
			rules = append(rules, Rule{c.call, masked(c.flags, openPath, 0)})
			continue
		}
		bits := []uint64{openWrite, openReadWr, openCreate, openTruncate}
		if b.Lists {
			bits = append(bits, openDirectory...)
		}
		for _, bit := range bits {
			rules = append(rules, Rule{c.call, masked(c.flags, openPath|bit, bit)})
		}
	}
	if b.Signals {
		rules = append(rules, calls("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")...)
	}
	if !b.Sockets {
		// Each socket(2), whatever its family and type: what the broker does not know it refuses.
		rules = append(rules, calls("socket", "connect", "bind", "listen", "getsockname", "getpeername")...)
		// A question by netlink, as musl sends it: send(2), without an address or a flag.
		rules = append(rules, Rule{"sendto", []Condition{{2, ^uint64(0), netlinkQuestion}, {3, low32, 0}, {4, ^uint64(0), 0}}},
			Rule{"ioctl", masked(1, ioctlType, ioctlSocket)},
			Rule{"setsockopt", []Condition{{1, low32, levelIPv6}, {2, low32, optionV6Only}}},
			Rule{"setsockopt", []Condition{{1, low32, levelSocket}, {2, low32, optionReuseAddress}}},
			Rule{"setsockopt", []Condition{{1, low32, levelSocket}, {2, low32, optionReusePort}}},
			Rule{"socketpair", []Condition{{1, sockTypeMask, sockDgram}}})
		// No socket of a program's sends a datagram, the broker does.
		// MSG_FASTOPEN is refused whatever else a call says, and no rule of the two kinds may hold for one call.
		number, slow := Condition{0, low32 &^ (sendingNumbers - 1), firstSending}, func(arg int) Condition { return Condition{arg, messageFastOpen, 0} }
		for bit := uint64(1); bit <= longestAddress; bit <<= 1 {
			rules = append(rules, Rule{"sendto", []Condition{{5, bit, bit}, slow(3)}})
		}
		rules = append(rules, Rule{"sendto", []Condition{number, slow(3)}}, Rule{"sendmsg", []Condition{number, slow(2)}}, Rule{"sendmmsg", []Condition{number, slow(3)}},
			Rule{"write", []Condition{number}}, Rule{"writev", []Condition{number}})
	}
	rules = append(rules, tracedExits().Rules...)
	return append(rules, Rule{"prctl", equal32(0, prctlSetDumpable)})
}

// brokerCalls may be called by a broker but not by programs.
var brokerCalls = []string{"openat2", "process_vm_readv", "process_vm_writev"}
