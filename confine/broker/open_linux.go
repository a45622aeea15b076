package broker

import (
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// devices are the nodes that every sandbox may write, by their path.
var devices = map[string]bool{"/dev/null": true, "/dev/zero": true, "/dev/full": true, "/dev/random": true, "/dev/urandom": true}

func (c *call) openAt(dirfd int32, addr uint64, flags int, mode uint32) reply {
	if errno := checkOpen(flags); errno != 0 {
		return fails(errno)
	}
	name, errno := c.text(addr)
	if errno != 0 {
		return fails(errno)
	}
	// O_LARGEFILE means nothing to a 64-bit program; every file is one.
	flags |= unix.O_LARGEFILE
	if !changes(flags) {
		return c.openToRead(dirfd, name, flags)
	}
	return c.b.locked(func() reply { return c.openToChange(dirfd, name, flags, mode) })
}

// checkOpen refuses what the kernel does before it looks at the path (fs/open.c,
// build_open_flags).
func checkOpen(flags int) unix.Errno {
	const unnamed = unix.O_TMPFILE &^ unix.O_DIRECTORY
	switch {
	case flags&unnamed != 0 && (flags&unix.O_DIRECTORY == 0 || flags&unix.O_CREAT != 0 || flags&unix.O_ACCMODE == unix.O_RDONLY),
		flags&(unix.O_DIRECTORY|unix.O_CREAT) == unix.O_DIRECTORY|unix.O_CREAT:
		return unix.EINVAL
	}
	return 0
}

// changes reports whether an open may change something.
func changes(flags int) bool {
	return flags&unix.O_ACCMODE != unix.O_RDONLY || flags&(unix.O_CREAT|unix.O_TRUNC) != 0
}

// openToRead is for a program that cannot read by itself what the profile shows it.
// Outside of the directories where that is so its own domain decides, as it does about
// every other reading call: the kernel goes on, and whatever the path means by then,
// the domain shows nothing that is hidden.
func (c *call) openToRead(dirfd int32, name string, flags int) reply {
	// Most of what programs read is the system's, and needs no look. Some of its links lead
	// to what the thread has open, such as /dev/stdin.
	back := strings.Contains(name, "/fd") || strings.HasPrefix(name, "/dev/std")
	if clean := path.Clean(name); !back && path.IsAbs(clean) && sandboxprofile.IsSystemTree(clean) && !c.redirects(clean) {
		return reply{native: true}
	}
	w := walk{call: c}
	t, errno := w.find(dirfd, name, flags&unix.O_NOFOLLOW == 0)
	if errno != 0 || t.full == "" || t.gone || !c.redirects(t.full) {
		return reply{native: true}
	}
	switch t.kind() {
	case unix.S_IFREG, unix.S_IFDIR, unix.S_IFIFO:
	default:
		return reply{native: true}
	}
	switch {
	case c.b.Rules.Readable(t.full) && !c.b.withholds(&t.st, t.full):
	case flags&unix.O_PATH != 0:
		return reply{native: true} // no rule of the domain is about it, and it reads nothing
	case c.b.Rules.hides(t.full) || c.b.isKept(&t.st):
		c.b.refuse(Refusal{callName(c.nr), t.full, Hidden})
		return fails(unix.EACCES)
	default:
		return fails(unix.EACCES)
	}
	return c.give(t, opening{flags: flags &^ unix.O_NOFOLLOW})
}

func (c *call) redirects(name string) bool { return below(c.b.Redirected, name) }

func (c *call) openToChange(dirfd int32, name string, flags int, mode uint32) reply {
	if flags&unix.O_TMPFILE == unix.O_TMPFILE {
		return c.openUnnamed(dirfd, name, flags, mode)
	}
	w := walk{call: c}
	create, excl := flags&unix.O_CREAT != 0, flags&unix.O_EXCL != 0
	if create && strings.HasSuffix(name, "/") {
		if p, errno := w.locate(dirfd, name); errno == 0 && !p.odd() {
			return fails(unix.EISDIR) // before the kernel looks what it is (open_last_lookups)
		}
	}
	for range 3 {
		t, errno := w.find(dirfd, name, flags&unix.O_NOFOLLOW == 0 && !(create && excl))
		switch {
		case errno == unix.ENOENT && create && t.last != "":
			r := c.create(w, t.location, flags, mode)
			if r.errno == unix.EEXIST && !excl {
				continue // somebody else has made it since
			}
			return r
		case errno != 0:
			return fails(errno)
		case create && t.last != t.name() && !t.odd():
			return fails(unix.EISDIR)
		}
		return c.openExisting(t, flags)
	}
	return fails(unix.EAGAIN)
}

// create makes a new file, and never opens one that is there.
func (c *call) create(w walk, p location, flags int, mode uint32) reply {
	if p.last != p.name() {
		return fails(unix.EISDIR)
	}
	full, errno := w.full(p)
	if errno != 0 {
		return fails(errno)
	}
	if errno := c.judgeEntry(full, false); errno != 0 {
		return fails(errno)
	}
	if pool := c.b.poolEntry(full); pool != nil {
		return c.createIn(pool, p.name(), flags, mode)
	}
	was := c.judged(p, full)
	s := c.b.standing(full)
	if c.b.comesLate(full, s) && flags&unix.O_ACCMODE != unix.O_RDONLY {
		if errno := c.about(full); errno != 0 {
			return fails(errno)
		}
		return c.createLate(p, flags, mode, true)
	}
	sample := s == Protected && c.b.gitNameOf(full) == gitSample
	if sample {
		s = Writable
	}
	if errno := c.verdict(full, s); errno != 0 {
		return fails(errno)
	}
	if errno := c.appear(p, full); errno != 0 {
		return fails(errno)
	}
	fd := -1
	// Truncating is for a file that is there; waiting is for a FIFO.
	flags = flags&^unix.O_TRUNC | unix.O_EXCL | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NOCTTY
	errno = c.makes(p, was, func() unix.Errno {
		return c.creating(full, func() (err error) {
			fd, err = unix.Openat(p.dir, p.name(), flags, mode)
			return err
		})
	})
	if errno != 0 {
		if fd >= 0 {
			unix.Close(fd)
		}
		return fails(errno)
	}
	c.b.questions.knows(full)
	var st unix.Stat_t
	if sample && unix.Fstat(fd, &st) == nil {
		c.b.made.add(&st, fd, "")
	}
	r := c.gives(fd)
	r.undo = func() { c.undo(p, fd) }
	return r
}

func (c *call) openExisting(t target, flags int) reply {
	excl := flags&unix.O_CREAT != 0 && flags&unix.O_EXCL != 0
	switch {
	case excl:
		return fails(unix.EEXIST)
	case t.kind() == unix.S_IFLNK: // with O_NOFOLLOW
		return fails(unix.ELOOP)
	case t.kind() == unix.S_IFDIR:
		return fails(unix.EISDIR)
	case t.kind() == unix.S_IFSOCK:
		return fails(unix.ENXIO)
	case flags&unix.O_DIRECTORY != 0:
		return fails(unix.ENOTDIR)
	}
	if t.kind() == unix.S_IFCHR {
		if r, ok := c.openTerminal(t, flags&^(unix.O_CREAT|unix.O_EXCL|unix.O_TRUNC|unix.O_NOFOLLOW)); ok {
			return r
		}
	}
	if flags&unix.O_TRUNC != 0 && t.kind() == unix.S_IFREG && !t.own && !c.b.isKept(&t.st) && c.b.sends(t.full) && c.b.comesLate(t.full, c.b.standing(t.full)) {
		if errno := c.about(t.full); errno != 0 {
			return fails(errno)
		}
		if errno := c.keepsRepository(t.location, t.full, &t.st); errno != 0 {
			return fails(errno)
		}
		return c.createLate(t.location, flags, t.st.Mode&0o777, false)
	}
	if errno := c.mayWrite(t); errno != 0 {
		return fails(errno)
	}
	truncate := flags&unix.O_TRUNC != 0 && t.kind() == unix.S_IFREG
	flags &^= unix.O_CREAT | unix.O_EXCL | unix.O_TRUNC | unix.O_NOFOLLOW
	if !c.waits() {
		return fails(unix.ESRCH)
	}
	return c.give(t, opening{flags: flags, truncate: truncate})
}

// undo removes a file that was made for nothing. The queue for names was free meanwhile.
func (c *call) undo(p location, fd int) {
	c.b.locked(func() reply {
		var made, there unix.Stat_t
		if unix.Fstat(fd, &made) == nil && unix.Fstatat(p.dir, p.name(), &there, unix.AT_SYMLINK_NOFOLLOW) == nil && idOf(&made) == idOf(&there) {
			unix.Unlinkat(p.dir, p.name(), 0)
		}
		return reply{}
	})
}

// An opening is how a file that is there is opened.
type opening struct {
	flags    int
	truncate bool
}

// give opens a file that was judged and hands it over. An open that would wait, for the
// other end of a FIFO or for a lease (fcntl(2), F_SETLEASE), does so in a thread of its
// own.
func (c *call) give(t target, o opening) reply {
	mayWait := o.flags&unix.O_NONBLOCK == 0
	switch t.kind() {
	case unix.S_IFIFO:
		if mayWait && o.flags&unix.O_ACCMODE != unix.O_RDWR {
			return c.wait(t, func(file int) reply { return c.openNow(file, o) })
		}
	case unix.S_IFREG:
		if !mayWait {
			break
		}
		at := o
		at.flags |= unix.O_NONBLOCK
		r := c.openNow(t.fd, at)
		if r.errno == unix.EAGAIN {
			return c.wait(t, func(file int) reply { return c.openNow(file, o) })
		}
		if r.errno == 0 {
			if _, err := unix.FcntlInt(uintptr(r.fd), unix.F_SETFL, o.flags&^unix.O_NONBLOCK); err != nil {
				return r.drop(errnoOf(err))
			}
		}
		return r
	}
	return c.openNow(t.fd, o)
}

// openNow opens what a descriptor of ours is of.
func (c *call) openNow(file int, o opening) reply {
	fd, errno := c.b.again(file, o.flags)
	if errno != 0 {
		return fails(errno)
	}
	r := c.gives(fd)
	if !o.truncate {
		return r
	}
	// Truncating takes a right to write, and is done when the descriptor was handed over:
	// without one, nothing was done.
	writes := fd
	if mode := o.flags & unix.O_ACCMODE; mode != unix.O_WRONLY && mode != unix.O_RDWR {
		if writes, errno = c.b.again(file, unix.O_WRONLY|o.flags&unix.O_NONBLOCK); errno != 0 {
			return r.drop(errno)
		}
		r.beside = writes
	}
	r.after = func() unix.Errno {
		if err := unix.Ftruncate(writes, 0); err != nil {
			return errnoOf(err)
		}
		return 0
	}
	return r
}

// drop is a failure instead of handing a descriptor over.
func (r reply) drop(errno unix.Errno) reply {
	unix.Close(r.fd)
	if r.beside > 0 {
		unix.Close(r.beside)
	}
	return fails(errno)
}

// mayWrite says whether the content of a file that is there may be changed.
func (c *call) mayWrite(t target) unix.Errno {
	switch {
	case devices[t.full]:
		return 0
	case t.kind() == unix.S_IFCHR || t.kind() == unix.S_IFBLK:
		c.b.refuse(Refusal{callName(c.nr), t.full, Outside})
		return unix.EACCES
	case t.full == "" && t.own:
		return 0 // a pipe, or a file without a name, of which the thread has a descriptor
	}
	if errno := c.judge(t.full); errno != 0 {
		return errno
	}
	if c.b.isKept(&t.st) || c.b.sends(t.full) && t.kind() == unix.S_IFREG {
		return c.verdict(t.full, Protected)
	}
	return 0
}

// openUnnamed is O_TMPFILE: a file in a directory, without a name.
func (c *call) openUnnamed(dirfd int32, name string, flags int, mode uint32) reply {
	w := walk{call: c}
	t, errno := w.find(dirfd, name, true)
	switch {
	case errno != 0:
		return fails(errno)
	case t.kind() != unix.S_IFDIR:
		return fails(unix.ENOTDIR)
	}
	for _, p := range c.b.pools {
		if t.full == p.Place {
			return fails(unix.EOPNOTSUPP) // programs make a file with a name then
		}
	}
	if errno := c.judge(t.full); errno != 0 {
		return fails(errno)
	}
	fd := -1
	errno = c.creating("", func() (err error) { // it can get a name anywhere
		fd, err = unix.Openat(t.fd, ".", flags&^unix.O_CREAT|unix.O_CLOEXEC, mode)
		return err
	})
	if errno != 0 {
		return fails(errno)
	}
	return c.gives(fd)
}

// A call that waits delays no other: the queue for names is free meanwhile, and a thread
// of its own waits. A signal to the program's thread ends the wait, as it would in the
// kernel.
const (
	// maxWaiting bounds the threads that wait at once. One whose program has died stays
	// until the sandbox ends.
	maxWaiting = 64
	// waitPoll is how often a wait looks for signals.
	waitPoll = 5 * time.Millisecond
)

// wait answers with what act, which gets a descriptor of t, says after a while.
func (c *call) wait(t target, act func(file int) reply) reply {
	if c.b.waiting.Add(1) > maxWaiting {
		c.b.waiting.Add(-1)
		return fails(unix.EMFILE)
	}
	done := make(chan reply, 1)
	file, err := unix.FcntlInt(uintptr(t.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		c.b.waiting.Add(-1)
		return fails(unix.EMFILE)
	}
	go func() {
		r := fails(unix.EIO)
		c.b.guard(func() { r = act(file) })
		unix.Close(file)
		c.b.waiting.Add(-1)
		done <- r
	}()
	go func() {
		for {
			select {
			case r := <-done:
				c.finish(r)
				return
			case <-time.After(waitPoll):
			}
			gone := !c.waits()
			if !gone && !c.signalled() {
				continue
			}
			c.finish(fails(restartSys))
			if r := <-done; r.hands {
				r.drop(unix.EINTR)
			}
			return
		}
	}()
	return reply{later: true}
}

// restartSys is ERESTARTSYS of the kernel's errno.h, which no program sees: the call is
// made again after a handler with SA_RESTART, and gives EINTR after any other.
const restartSys = unix.Errno(512)
