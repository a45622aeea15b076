package broker

import (
	"golang.org/x/sys/unix"
)

func (c *call) mkdirAt(dirfd int32, addr uint64, mode uint32) reply {
	return c.newName(dirfd, addr, true, func(p location, full string) unix.Errno { return c.mkdir(p, full, mode) })
}

func (c *call) mkdir(p location, full string, mode uint32) unix.Errno {
	if pool := c.b.poolEntry(full); pool != nil {
		return c.fromPool(pool, unix.S_IFDIR, p.name(), mode, func(string) error { return nil })
	}
	s := c.b.standing(full)
	hooks := s == Protected && c.b.gitNameOf(full) == gitHooks
	if hooks {
		s = Writable
	}
	if errno := c.verdict(full, s); errno != 0 {
		return errno
	}
	if errno := c.appear(p, full); errno != 0 {
		return errno
	}
	errno := c.creating(full, func() error { return unix.Mkdirat(p.dir, p.last, mode) })
	var st unix.Stat_t
	if errno == 0 && hooks && unix.Fstatat(p.dir, p.name(), &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		c.b.made.add(&st, p.dir, p.name())
	}
	return errno
}

func (c *call) mknodAt(dirfd int32, addr uint64, mode uint32, dev int) reply {
	switch mode & unix.S_IFMT {
	case 0, unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK:
	case unix.S_IFCHR, unix.S_IFBLK, unix.S_IFDIR:
		return fails(unix.EPERM)
	default:
		return fails(unix.EINVAL)
	}
	return c.newName(dirfd, addr, false, func(p location, full string) unix.Errno {
		if pool := c.b.poolEntry(full); pool != nil {
			kind := mode & unix.S_IFMT
			if kind == 0 {
				kind = unix.S_IFREG
			}
			return c.fromPool(pool, kind, p.name(), mode, func(string) error { return nil })
		}
		if errno := c.judgeNew(p, full); errno != 0 {
			return errno
		}
		return c.creating(full, func() error { return unix.Mknodat(p.dir, p.last, mode, dev) })
	})
}

func (c *call) symlinkAt(targetAddr uint64, dirfd int32, addr uint64) reply {
	to, errno := c.text(targetAddr)
	switch {
	case errno != 0:
		return fails(errno)
	case to == "":
		return fails(unix.ENOENT)
	}
	return c.newName(dirfd, addr, false, func(p location, full string) unix.Errno {
		if pool := c.b.poolEntry(full); pool != nil {
			if errno := c.judgeLink(full, to); errno != 0 {
				return errno
			}
			return c.creating(full, func() error { return pool.link(to, p.name()) })
		}
		if errno := c.judgeNew(p, full); errno != 0 {
			return errno
		}
		if errno := c.judgeLink(full, to); errno != 0 {
			return errno
		}
		return c.creating(full, func() error { return unix.Symlinkat(to, p.dir, p.last) })
	})
}

// newName finds where a new name is to lie, and calls act in the queue for names.
func (c *call) newName(dirfd int32, addr uint64, directory bool, act func(p location, full string) unix.Errno) reply {
	name, errno := c.text(addr)
	if errno != 0 {
		return fails(errno)
	}
	return c.b.locked(func() reply {
		return fails(c.appears(&walk{call: c}, dirfd, name, directory, act))
	})
}

func (c *call) appears(w *walk, dirfd int32, name string, directory bool, act func(p location, full string) unix.Errno) unix.Errno {
	p, errno := w.locate(dirfd, name)
	if errno != 0 {
		return errno
	}
	if !directory && p.last != p.name() {
		act = func(location, string) unix.Errno { return unix.ENOENT }
	}
	return w.newNameAt(p, func(full string) unix.Errno { return act(p, full) })
}

// newNameAt calls act if there is nothing at p yet.
func (w *walk) newNameAt(p location, act func(full string) unix.Errno) unix.Errno {
	full, errno := w.freeAt(p)
	if errno == 0 {
		errno = w.judgeEntry(full, w.nr == unix.SYS_BIND)
	}
	if errno == 0 {
		errno = w.makes(p, w.judged(p, full), func() unix.Errno { return act(full) })
	}
	if errno == 0 {
		w.b.questions.knows(full)
	}
	return errno
}

// free finds where a new name is to lie. There is nothing yet, or it fails with EEXIST.
func (w *walk) free(dirfd int32, name string) (p location, full string, errno unix.Errno) {
	if p, errno = w.locate(dirfd, name); errno != 0 {
		return p, "", errno
	}
	full, errno = w.freeAt(p)
	return p, full, errno
}

func (w *walk) freeAt(p location) (full string, errno unix.Errno) {
	var st unix.Stat_t
	if p.odd() || unix.Fstatat(p.dir, p.name(), &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return "", unix.EEXIST
	}
	return w.full(p)
}

// judgeEntry judges a new name in a private place, whose names are shared.
func (c *call) judgeEntry(full string, socket bool) unix.Errno {
	if c.b.poolEntry(full) != nil && c.b.Rules.Lures(full) && !(socket && c.b.attaches(full)) {
		return c.verdict(full, Protected)
	}
	return 0
}

func (c *call) unlinkAt(dirfd int32, addr uint64, flags int) reply {
	if flags&^unix.AT_REMOVEDIR != 0 {
		return fails(unix.EINVAL)
	}
	name, errno := c.text(addr)
	if errno != 0 {
		return fails(errno)
	}
	return c.b.locked(func() reply {
		w := walk{call: c}
		p, errno := w.locate(dirfd, name)
		if errno != 0 {
			return fails(errno)
		}
		if p.odd() {
			return fails(oddErrno(p, flags))
		}
		var st unix.Stat_t
		if err := unix.Fstatat(p.dir, p.name(), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fails(errnoOf(err))
		}
		full, errno := w.full(p)
		if errno != 0 {
			return fails(errno)
		}
		s := c.b.standing(full)
		if c.b.made.has(&st, p.dir, p.name()) {
			s = Writable
		}
		if errno := c.verdict(full, s); errno != 0 {
			return fails(errno)
		}
		if errno := c.keepsRepository(p, full, &st); errno != 0 {
			return fails(errno)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR && c.b.Rules.Splits(full) {
			return fails(unix.EBUSY)
		}
		errno = c.acting(func() error {
			if pool := c.b.poolEntry(full); pool != nil {
				return pool.remove(p.name(), flags)
			}
			return unix.Unlinkat(p.dir, p.last, flags)
		})
		if errno == 0 {
			delete(c.b.made, idOf(&st))
			delete(c.b.bound, idOf(&st))
			delete(c.b.questions.answers, subject{path: full, file: idOf(&st)}) // its number becomes another's
		}
		return fails(errno)
	})
}

// oddErrno is the kernel's answer for a name that cannot be removed (namei.c,
// do_rmdir and do_unlinkat).
func oddErrno(p location, flags int) unix.Errno {
	if flags&unix.AT_REMOVEDIR == 0 {
		return unix.EISDIR
	}
	switch p.name() {
	case "..":
		return unix.ENOTEMPTY
	case ".":
		return unix.EINVAL
	}
	return unix.EBUSY
}

func (c *call) linkAt(oldDir int32, oldAddr uint64, newDir int32, newAddr uint64, flags int) reply {
	if flags&^(unix.AT_SYMLINK_FOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return fails(unix.EINVAL)
	}
	old, errno := c.text(oldAddr)
	if errno != 0 {
		return fails(errno)
	}
	name, unread := c.text(newAddr) // the kernel finds the old name first
	return c.b.locked(func() reply {
		w := walk{call: c}
		var t target
		if old == "" && flags&unix.AT_EMPTY_PATH != 0 {
			t, errno = w.held(oldDir)
		} else {
			t, errno = w.find(oldDir, old, flags&unix.AT_SYMLINK_FOLLOW != 0)
		}
		if errno != 0 {
			return fails(errno)
		}
		if unread != 0 {
			return fails(unread)
		}
		p, full, errno := w.free(newDir, name)
		if errno != 0 {
			return fails(errno)
		}
		if t.full != "" && c.b.crosses(t.full, full) {
			return fails(unix.EXDEV)
		}
		was := c.judged(p, full)
		if errno := c.mayLink(t); errno != 0 {
			return fails(errno)
		}
		private, errno := c.b.judgePools(t.full, full, &t.st)
		switch {
		case private:
			if errno == 0 {
				errno = c.judgeEntry(full, false)
			}
			if errno == 0 && t.kind() == unix.S_IFLNK {
				var to string
				if to, errno = readLink(t.fd, ""); errno == 0 {
					errno = c.judgeLink(full, to)
				}
			}
		case c.b.sends(full):
			errno = c.verdict(full, Protected)
		case t.kind() == unix.S_IFLNK:
			to, unread := readLink(t.fd, "")
			if errno = unread; errno == 0 {
				errno = c.judgeLink(full, to)
			}
			fallthrough
		default:
			if errno == 0 {
				errno = c.judgeNew(p, full)
			}
		}
		if errno != 0 {
			return fails(errno)
		}
		// As between mounts: who looks at one of them to undo what a call has changed does not look at the other.
		if t.full != "" && c.b.Rules.grant(t.full) != c.b.Rules.grant(full) {
			return fails(unix.EXDEV)
		}
		errno = c.makes(p, was, func() unix.Errno {
			return c.acting(func() error {
				return unix.Linkat(unix.AT_FDCWD, linkOf(t.fd), p.dir, p.last, unix.AT_SYMLINK_FOLLOW)
			})
		})
		if errno == 0 && private {
			c.b.moved(full, full, &t.st, nil)
		}
		return fails(errno)
	})
}

// mayLink returns whether a file may get another name: a write to it under one name is a
// write under all, so every name that it has has to be writable. A file that only a
// descriptor leads to may get its first.
func (c *call) mayLink(t target) unix.Errno {
	switch {
	case t.kind() == unix.S_IFDIR:
		return unix.EPERM
	case t.st.Nlink == 0 && t.kind() == unix.S_IFREG && t.own:
		return 0
	case t.own || t.full == "":
		// By a descriptor that was opened under one name, another is not judged.
		if t.full == "" {
			return unix.ENOENT
		}
	}
	if errno := c.judge(t.full); errno != 0 {
		return errno
	}
	if c.b.isKept(&t.st) || c.b.sends(t.full) {
		return c.verdict(t.full, Protected)
	}
	return 0
}

func (c *call) truncate(addr uint64, length int64) reply {
	if length < 0 {
		return fails(unix.EINVAL)
	}
	name, errno := c.text(addr)
	if errno != 0 {
		return fails(errno)
	}
	return c.b.locked(func() reply {
		w := walk{call: c}
		t, errno := w.find(unix.AT_FDCWD, name, true)
		switch {
		case errno != 0:
			return fails(errno)
		case t.kind() == unix.S_IFDIR:
			return fails(unix.EISDIR)
		case t.kind() != unix.S_IFREG:
			return fails(unix.EINVAL)
		}
		if errno := c.mayWrite(t); errno != 0 {
			return fails(errno)
		}
		if length > t.st.Size {
			most, ok := c.fileSizeLimit()
			if !ok {
				return fails(unix.EIO)
			}
			if uint64(length) > most {
				c.signal(unix.SIGXFSZ)
				return fails(unix.EFBIG)
			}
		}
		if !c.waits() {
			return fails(unix.ESRCH)
		}
		r := c.truncateTo(t.fd, length, unix.O_NONBLOCK)
		if r.errno == unix.EAGAIN { // somebody's lease
			return c.wait(t, func(file int) reply { return c.truncateTo(file, length, 0) })
		}
		return r
	})
}

func (c *call) truncateTo(file int, length int64, wait int) reply {
	fd, errno := c.b.again(file, unix.O_WRONLY|wait)
	if errno != 0 {
		return fails(errno)
	}
	defer unix.Close(fd)
	return answerOf(unix.Ftruncate(fd, length))
}
