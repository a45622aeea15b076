package broker

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// A watch tells the names of what happens in a directory (inotify(7)). A filter sees no
// path, so the broker makes what holds the watches, keeps a copy, and adds each to it by the
// file that was judged.

// A holder is the descriptor of a process's that watches are added by. One that was duplicated
// to another number has none added; one that a process has from its parent has its number.
type holder struct {
	pid string
	fd  int32
}

// maxHolders bounds them: the host has few for a user (fs.inotify.max_user_instances).
const maxHolders = 16

const inotifyLink = "anon_inode:inotify"

func (c *call) watcher(flags int32) reply {
	group, ok := c.group()
	if !ok {
		return fails(unix.ESRCH)
	}
	for h, fd := range c.b.watchers {
		if len(c.b.watchers) >= maxHolders && !c.b.watches(h) {
			unix.Close(fd)
			delete(c.b.watchers, h)
		}
	}
	if len(c.b.watchers) >= maxHolders {
		return fails(unix.EMFILE)
	}
	fd, err := unix.InotifyInit1(int(flags) | unix.IN_CLOEXEC)
	if err != nil {
		return fails(errnoOf(err))
	}
	keep, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		unix.Close(fd)
		return fails(unix.EMFILE)
	}
	return reply{hands: true, fd: fd, cloex: flags&unix.IN_CLOEXEC != 0, undo: func() { unix.Close(keep) }, known: func(n int32) {
		h := holder{group, n}
		if old, had := c.b.watchers[h]; had { // it was closed
			unix.Close(old)
		}
		c.b.watchers[h] = keep
	}}
}

// watches reports whether a process still has such a descriptor at the number.
func (b *Broker) watches(h holder) bool {
	var buf [64]byte
	n, err := unix.Readlinkat(b.procFD, h.pid+"/fd/"+strconv.Itoa(int(h.fd)), buf[:])
	return err == nil && string(buf[:n]) == inotifyLink
}

// watcherOf is the broker's copy.
func (c *call) watcherOf(n int32) (int, unix.Errno) {
	group, ok := c.group()
	if !ok {
		return -1, unix.ESRCH
	}
	if _, errno := c.descriptor(n); errno != 0 {
		return -1, errno
	}
	if !c.b.watches(holder{group, n}) {
		return -1, unix.EINVAL
	}
	if fd, ok := c.b.watchers[holder{group, n}]; ok {
		return fd, 0
	}
	for h, fd := range c.b.watchers { // a parent's
		if h.fd == n {
			return fd, 0
		}
	}
	return -1, unix.EACCES
}

// addWatch watches what the profile lets be read, and nothing else.
func (c *call) addWatch() reply {
	holder, errno := c.watcherOf(c.int(0))
	if errno != 0 {
		return fails(errno)
	}
	name, errno := c.text(c.args[1])
	if errno != 0 {
		return fails(errno)
	}
	mask := c.uint(2)
	w := walk{call: c}
	t, errno := w.find(cwd, name, mask&unix.IN_DONT_FOLLOW == 0)
	switch {
	case errno != 0:
		return fails(errno)
	case t.full == "" || t.gone || !c.b.Rules.Readable(t.full) || c.b.isKept(&t.st) && c.b.standing(t.full) != Protected:
		return fails(unix.EACCES)
	}
	wd, err := unix.InotifyAddWatch(holder, c.b.link(t.fd), mask&^unix.IN_DONT_FOLLOW)
	if err != nil {
		return fails(errnoOf(err))
	}
	return reply{value: int64(wd)}
}
