package broker

import (
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// The content of a file decides whether git may find it, and at an open it is not known
// yet. So a program that makes one writes to a file without a name. When no one has that
// open any more its content is judged, and a copy gets the name. A program that asks for
// the name before finds nothing there.

// A late file gets its name when it has been written.
type late struct {
	dir  int // O_PATH
	name string
	file int  // without a name
	new  bool // the name was free
}

const (
	// maxLate bounds the files that are written at once.
	maxLate = 16
	// LatePoll is how often it is looked whether one is closed, while a program makes no
	// call.
	LatePoll = time.Millisecond
)

// createLate makes a file for the name at p that gets it later.
func (c *call) createLate(p location, flags int, mode uint32, isNew bool) reply {
	if len(c.b.late) >= maxLate {
		return fails(unix.EMFILE)
	}
	for _, l := range c.b.late {
		if a, errno := c.b.real(l.dir); errno == 0 && l.name == p.name() {
			if b, errno := c.b.real(p.dir); errno == 0 && a == b {
				return fails(unix.EBUSY) // it is being written
			}
		}
	}
	temp := lateName() // it is the program's, and has no name in a moment
	l := late{dir: -1, name: p.name(), file: -1, new: isNew}
	errno := c.creating("", func() (err error) {
		l.file, err = unix.Openat(p.dir, temp, unix.O_RDONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode|0o600)
		return err
	})
	if errno != 0 {
		return fails(errno)
	}
	ours := flags &^ (unix.O_CREAT | unix.O_EXCL | unix.O_TRUNC | unix.O_NOFOLLOW | unix.O_DIRECTORY)
	// It is a description of its own, which shows whether programs still have theirs
	// open.
	fd, errno := c.b.again(l.file, ours)
	err := unix.Unlinkat(p.dir, temp, 0)
	if errno == 0 && err == nil {
		l.dir, err = unix.FcntlInt(uintptr(p.dir), unix.F_DUPFD_CLOEXEC, 0)
	}
	if errno != 0 || err != nil {
		unix.Close(l.file)
		if fd >= 0 {
			unix.Close(fd)
		}
		if errno == 0 {
			errno = errnoOf(err)
		}
		return fails(errno)
	}
	c.b.late = append(c.b.late, l)
	r := c.gives(fd)
	r.undo = func() {
		c.b.late = c.b.late[:len(c.b.late)-1] // the queue for names is still ours: nobody has come between
		l.close()
	}
	return r
}

func (l late) close() {
	unix.Close(l.dir)
	unix.Close(l.file)
}

// isOpen reports whether another process has the file open or mapped, which a lease
// reveals (fcntl(2), F_SETLEASE).
func (l late) isOpen() bool {
	if _, err := unix.FcntlInt(uintptr(l.file), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return true
	}
	_, _ = unix.FcntlInt(uintptr(l.file), unix.F_SETLEASE, unix.F_UNLCK)
	return false
}

// Settle gives late files their names: those that are closed, or all of them when no
// program lives any more.
func (b *Broker) Settle(final bool) {
	if len(b.late) == 0 {
		return
	}
	open := b.late[:0:0]
	for _, l := range b.late {
		r := b.locked(func() reply { // each for itself: others wait meanwhile
			if !final && l.isOpen() {
				open = append(open, l)
				return reply{}
			}
			c := &call{b: b, nr: unix.SYS_OPENAT}
			c.instate(l)
			c.close()
			l.close()
			return reply{}
		})
		if r.errno != 0 {
			open = append(open, l)
		}
	}
	b.late = open
}

// instate judges what a late file holds, by the name that it is to get now.
func (c *call) instate(l late) {
	dir, errno := c.b.real(l.dir)
	if errno != 0 {
		return // its directory is gone
	}
	full, at := path.Join(dir, l.name), location{dir: l.dir, last: l.name}
	was := c.judged(at, full)
	text, errno := readOpen(l.file)
	if errno != 0 {
		c.verdict(full, Protected)
		return
	}
	switch s := c.b.standing(full); {
	case s == Protected && c.b.gitNameOf(full) == gitConfig:
		if !mayBecome("", string(text), dir, c.b.changeable) {
			c.verdict(full, s)
			return
		}
	case s != Writable && !(s == Protected && c.b.repositoryOf(full) != ""):
		c.verdict(full, s)
		return
	case !c.b.maySend(full, string(text)):
		c.verdict(full, Protected)
		return
	}
	if c.appear(at, full) != 0 {
		return
	}
	var st unix.Stat_t
	if unix.Fstat(l.file, &st) != nil {
		return
	}
	stood := true
	made, err := installCopy(l.dir, l.name, text, st.Mode&0o777, l.new, func() bool { stood = c.stands(at, was); return stood })
	if !stood {
		c.verdict(full, Protected)
	}
	if err == nil {
		c.b.made.add(&made, l.dir, l.name)
		c.b.installed(&made, l.dir, l.name, config{text: string(text)})
		c.b.questions.knows(full)
	}
}

// comesLate reports whether the file name is one that gets its name when it is written.
func (b *Broker) comesLate(name string, s Standing) bool {
	switch s {
	case Writable:
		return b.sends(name)
	case Protected:
		return b.gitNameOf(name) == gitConfig || b.sends(name) && b.repositoryOf(name) != ""
	}
	return false
}
