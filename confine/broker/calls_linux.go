package broker

import (
	"maps"

	"golang.org/x/sys/unix"
)

// A handler makes one kind of call.
type handler func(*call) reply

func (c *call) int(i int) int32      { return int32(c.args[i]) }
func (c *call) uint(i int) uint32    { return uint32(c.args[i]) }
func (c *call) ids(i int) (int, int) { return int(c.int(i)), int(c.int(i + 1)) }

// open notes the flags as the thread gave them, which say how it wants its descriptor.
func (c *call) open(dirfd int32, addr uint64, flags int, mode uint32) reply {
	c.flags, c.mode, c.opens = flags, mode, true
	return c.openAt(dirfd, addr, flags, mode)
}

const cwd = unix.AT_FDCWD

// handlers are the calls that every architecture has, and those that this one has
// besides: what an older call says in other words.
var handlers = with(older, map[int]handler{
	unix.SYS_OPENAT:            func(c *call) reply { return c.open(c.int(0), c.args[1], int(c.int(2)), c.uint(3)) },
	unix.SYS_TRUNCATE:          func(c *call) reply { return c.truncate(c.args[0], int64(c.args[1])) },
	unix.SYS_MKDIRAT:           func(c *call) reply { return c.mkdirAt(c.int(0), c.args[1], c.uint(2)) },
	unix.SYS_MKNODAT:           func(c *call) reply { return c.mknodAt(c.int(0), c.args[1], c.uint(2), int(c.args[3])) },
	unix.SYS_UNLINKAT:          func(c *call) reply { return c.unlinkAt(c.int(0), c.args[1], int(c.int(2))) },
	unix.SYS_SYMLINKAT:         func(c *call) reply { return c.symlinkAt(c.args[0], c.int(1), c.args[2]) },
	unix.SYS_LINKAT:            func(c *call) reply { return c.linkAt(c.int(0), c.args[1], c.int(2), c.args[3], int(c.int(4))) },
	unix.SYS_RENAMEAT:          func(c *call) reply { return c.renameAt(c.int(0), c.args[1], c.int(2), c.args[3], 0) },
	unix.SYS_RENAMEAT2:         func(c *call) reply { return c.renameAt(c.int(0), c.args[1], c.int(2), c.args[3], uint(c.uint(4))) },
	unix.SYS_FCHMOD:            func(c *call) reply { return c.chmodOf(c.byDescriptor(c.int(0)), c.uint(1)) },
	unix.SYS_FCHMODAT:          func(c *call) reply { return c.chmodAt(c.int(0), c.args[1], c.uint(2), 0) },
	sysFchmodat2:               func(c *call) reply { return c.chmodAt(c.int(0), c.args[1], c.uint(2), int(c.int(3))) },
	unix.SYS_FCHOWN:            func(c *call) reply { u, g := c.ids(1); return c.chownOf(c.byDescriptor(c.int(0)), u, g) },
	unix.SYS_FCHOWNAT:          func(c *call) reply { u, g := c.ids(2); return c.chownAt(c.int(0), c.args[1], u, g, int(c.int(4))) },
	unix.SYS_UTIMENSAT:         func(c *call) reply { return c.utimes(c.int(0), c.args[1], c.args[2], 1, int(c.int(3))) },
	unix.SYS_SOCKET:            (*call).socket,
	unix.SYS_CONNECT:           (*call).connect,
	unix.SYS_BIND:              (*call).bind,
	unix.SYS_LISTEN:            (*call).listen,
	unix.SYS_GETSOCKNAME:       (*call).getsockname,
	unix.SYS_GETPEERNAME:       (*call).getpeername,
	unix.SYS_SENDTO:            (*call).sendTo,
	unix.SYS_SENDMSG:           (*call).sendMessage,
	unix.SYS_SENDMMSG:          (*call).sendMessages,
	unix.SYS_WRITE:             (*call).writeTo,
	unix.SYS_WRITEV:            (*call).writeVector,
	unix.SYS_SOCKETPAIR:        (*call).socketPair,
	unix.SYS_SETSOCKOPT:        (*call).option,
	unix.SYS_IOCTL:             (*call).interfaces,
	unix.SYS_INOTIFY_INIT1:     func(c *call) reply { return c.watcher(c.int(0)) },
	unix.SYS_INOTIFY_ADD_WATCH: (*call).addWatch,
	unix.SYS_KILL:              (*call).kill,
	unix.SYS_TKILL:             func(c *call) reply { return c.threadSignal(0, int(c.int(0)), unix.Signal(c.int(1))) },
	unix.SYS_TGKILL:            func(c *call) reply { return c.threadSignal(int(c.int(0)), int(c.int(1)), unix.Signal(c.int(2))) },
	unix.SYS_RT_SIGQUEUEINFO:   (*call).queue,
	unix.SYS_RT_TGSIGQUEUEINFO: (*call).queueThread,
	unix.SYS_PTRACE:            (*call).traceExits,
	unix.SYS_SETXATTR:          func(c *call) reply { return c.setAttribute(0) },
	unix.SYS_LSETXATTR:         func(c *call) reply { return c.setAttribute(unix.AT_SYMLINK_NOFOLLOW) },
	unix.SYS_FSETXATTR:         func(c *call) reply { return c.setAttributeOf(c.byDescriptor(c.int(0))) },
	unix.SYS_UMASK:             (*call).setUmask,
	// A process that cannot be read cannot be served. It cannot be read from outside
	// the sandbox anyway.
	unix.SYS_PRCTL: func(*call) reply { return reply{} },
})

func with[V any](a, b map[int]V) map[int]V {
	all := maps.Clone(b)
	maps.Copy(all, a)
	return all
}

func (c *call) utimes(dirfd int32, addr, times uint64, scale int64, flags int) reply {
	list, errno := c.timespecs(times, scale)
	if errno != 0 {
		return fails(errno)
	}
	return c.timesAt(dirfd, addr, list, flags)
}

// sysFchmodat2 is newer than package unix; every architecture has this number.
const sysFchmodat2 = 452

var callNames = with(olderNames, map[int]string{
	unix.SYS_OPENAT: "openat", unix.SYS_TRUNCATE: "truncate", unix.SYS_MKDIRAT: "mkdirat", unix.SYS_MKNODAT: "mknodat",
	unix.SYS_UNLINKAT: "unlinkat", unix.SYS_SYMLINKAT: "symlinkat", unix.SYS_LINKAT: "linkat", unix.SYS_RENAMEAT: "renameat",
	unix.SYS_RENAMEAT2: "renameat2", unix.SYS_FCHMOD: "fchmod", unix.SYS_FCHMODAT: "fchmodat", sysFchmodat2: "fchmodat2",
	unix.SYS_BIND: "bind", unix.SYS_FCHOWN: "fchown", unix.SYS_FCHOWNAT: "fchownat", unix.SYS_UTIMENSAT: "utimensat",
})
