package seccomp

import (
	"maps"
	"slices"
)

const (
	messageFastOpen = 0x20000000 // MSG_FASTOPEN
	levelTCP        = 6          // IPPROTO_TCP

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

// Brokered is what the filter of programs does whose changes a broker makes for them
// (package confine/broker).
type Brokered struct {
	// Sockets lets the internet's through, and no Unix sockets: the host's own network.
	// Without it the broker makes sockets for streams, of both.
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
		groups = append(groups, Group{"signals_by_descriptor", "A filter does not see whom a descriptor means: a directory of /proc is one too.", ENOSYS, calls("pidfd_send_signal")},
			Group{"owners", "Whoever owns a descriptor is signalled by it, whatever process that is.", EPERM, []Rule{
				{"fcntl", equal32(1, fcntlSetOwn)}, {"fcntl", equal32(1, fcntlSetOwnEx)}}})
	}
	if b.Sockets {
		return groups
	}
	return append(groups,
		Group{"fast_open", "It connects while it sends, past the broker.", EOPNOTSUPP, []Rule{
			{"sendto", masked(3, messageFastOpen, messageFastOpen)}, {"sendmsg", masked(2, messageFastOpen, messageFastOpen)},
			{"sendmmsg", masked(3, messageFastOpen, messageFastOpen)}}},
		Group{"devices", "A connection to the sandbox's own loopback would leave by another device, with what its options say.", EPERM, socketOptions(map[uint64][]uint64{
			1:  {25, 62},                                // SOL_SOCKET: SO_BINDTODEVICE, SO_BINDTOIFINDEX
			0:  {4, 50},                                 // IPPROTO_IP: IP_OPTIONS, IP_UNICAST_IF
			41: {2, 3, 4, 5, 6, 50, 54, 55, 57, 59, 76}, // IPPROTO_IPV6: packet information, options and routing headers, IPV6_UNICAST_IF
		})},
		Group{"tcp_keys", "A sandbox's own loopback is kept apart by a key on its sockets; these would take it off, or take a connection apart.", EPERM, tcpKeys()})
}

// tcpKeys are TCP_MD5SIG, TCP_REPAIR, TCP_FASTOPEN_CONNECT, TCP_ULP, TCP_MD5SIG_EXT and the TCP_AO
// options (linux/tcp.h).
func tcpKeys() []Rule {
	return socketOptions(map[uint64][]uint64{levelTCP: {14, 19, 30, 31, 32, 38, 39, 40, 41}})
}

// socketOptions are calls of setsockopt(2), by level.
func socketOptions(byLevel map[uint64][]uint64) (rules []Rule) {
	for _, level := range slices.Sorted(maps.Keys(byLevel)) {
		for _, option := range byLevel[level] {
			rules = append(rules, Rule{"setsockopt", []Condition{{1, low32, level}, {2, low32, option}}})
		}
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
	}
	rules = append(rules, tracedExits().Rules...)
	return append(rules, Rule{"prctl", equal32(0, prctlSetDumpable)})
}

// brokerCalls are what a broker calls that no program may.
var brokerCalls = []string{"openat2", "process_vm_readv", "process_vm_writev"}
