package broker

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/proctree"
)

// A watch tells the names of what happens in a directory (inotify(7)). A filter sees no
// path, so the broker makes what holds the watches, keeps a copy, and adds each to it by the
// file that was judged.

// A holder is the descriptor of a process's that watches are added by. A descriptor that was
// duplicated to another number gets no watch added; one that a process inherited has the same
// number.
type holder struct {
	pid string
	fd  int32
}

// A watcher is a copy of the broker's.
type watcher struct {
	fd int
	at holder // the zero value if another one has the number now
}

// maxHolders bounds them: the host has few for a user (fs.inotify.max_user_instances).
const maxHolders = 16

const inotifyLink = "anon_inode:inotify"

func (c *call) watcher(flags int32) reply {
	group, ok := c.group()
	if !ok {
		return fails(unix.ESRCH)
	}
	if len(c.b.watchers) >= maxHolders && !c.b.sweepWatchers() {
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
		at := holder{group, n}
		for i, w := range c.b.watchers {
			if w.at == at { // it was closed, or is called something else now
				c.b.watchers[i].at = holder{}
			}
		}
		c.b.watchers = append(c.b.watchers, watcher{keep, at})
	}}
}

// sweepWatchers drops copies of what no program has any more, and reports whether there were
// any. A program can have moved a descriptor to another number, to a child, or to the queue
// of a socket, and only the numbers tell. So as many are dropped as there are numbers that
// lead to none any more beyond the descriptors that nothing is known of: programs never
// have more than there are copies.
func (b *Broker) sweepWatchers() bool {
	had, unknown := map[holder]bool{}, 0
	for _, w := range b.watchers {
		had[w.at] = false
	}
	for _, pid := range b.Processes() {
		dir := proctree.Shown(strconv.Itoa(pid))
		entries, err := os.ReadDir(dir + "/fd")
		switch {
		case errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH): // it has ended
			continue
		case err != nil:
			return false
		}
		for _, e := range entries {
			target, err := os.Readlink(dir + "/fd/" + e.Name())
			switch {
			case err != nil:
			case target == inotifyLink:
				n, err := strconv.Atoi(e.Name())
				h := holder{strconv.Itoa(pid), int32(n)}
				if _, known := had[h]; err == nil && known {
					had[h] = true
				} else {
					unknown++
				}
			case strings.HasPrefix(target, "socket:"):
				info, err := os.ReadFile(dir + "/fdinfo/" + e.Name())
				if _, waiting, said := strings.Cut(string(info), "scm_fds:"); err != nil || said && !strings.HasPrefix(strings.TrimSpace(waiting), "0") {
					return false
				}
			}
		}
	}
	lost := 0
	for _, w := range b.watchers {
		if !had[w.at] {
			lost++
		}
	}
	dropped := 0
	b.watchers = slices.DeleteFunc(b.watchers, func(w watcher) bool {
		if had[w.at] || dropped >= lost-unknown {
			return false
		}
		unix.Close(w.fd)
		dropped++
		return true
	})
	return dropped > 0
}

// mayWatch reports whether there is room for one watch more. The host has so many for a user
// (fs.inotify.max_user_watches), and programs remove them unseen.
func (b *Broker) mayWatch() bool {
	switch {
	case b.watched < b.maxWatched:
		return true
	case time.Now().Before(b.recounted):
		return false
	}
	start := time.Now()
	b.watched = 0
	for _, w := range b.watchers {
		info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(w.fd))
		if err != nil {
			b.watched = b.maxWatched
			break
		}
		b.watched += bytes.Count(info, []byte("inotify wd:"))
	}
	b.recounted = time.Now().Add(10 * time.Since(start)) // a tenth of the time at most
	return b.watched < b.maxWatched
}

// watchesOfUser is how many watches the host gives a user, or the least that kernels do.
func watchesOfUser() int {
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	if n, err2 := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && err2 == nil {
		return n
	}
	return 8192
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
	inherited := -1
	for _, w := range c.b.watchers {
		switch {
		case w.at == holder{group, n}:
			return w.fd, 0
		case w.at.pid != "" && w.at.fd == n: // a parent's
			inherited = w.fd
		}
	}
	if inherited >= 0 {
		return inherited, 0
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
	if !c.b.mayWatch() {
		return fails(unix.ENOSPC)
	}
	wd, err := unix.InotifyAddWatch(holder, linkOf(t.fd), mask&^unix.IN_DONT_FOLLOW)
	if err != nil {
		return fails(errnoOf(err))
	}
	c.b.watched++ // or it was there already: it is counted again before anybody goes without
	return reply{value: int64(wd)}
}
