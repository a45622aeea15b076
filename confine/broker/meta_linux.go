package broker

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// changeMeta finds the file whose metadata a call is to change, judges it by its name and by
// may (if there is one), and calls act.
//
// The kernel makes act wait while another thread writes into the file, in one call of 2 GiB
// if a program likes. So it is called when others have the queue for names again. It acts on
// the file that was judged and not on a name: what it changes could have been changed before
// anything was renamed. A link has no other way than its name.
func (c *call) changeMeta(find func(w *walk) (target, unix.Errno), may func(t target) unix.Errno, act func(t target) error) reply {
	var t target
	r := c.b.locked(func() reply {
		var errno unix.Errno
		if t, errno = find(&walk{call: c}); errno != 0 {
			return fails(errno)
		}
		if errno = c.mayChangeMeta(t); errno == 0 && may != nil {
			errno = may(t)
		}
		if errno == 0 && t.kind() == unix.S_IFLNK {
			errno = c.acting(func() error { return act(t) })
		}
		return fails(errno)
	})
	if r.errno != 0 || t.kind() == unix.S_IFLNK {
		return r
	}
	return fails(c.acting(func() error { return act(t) }))
}

// mayChangeMeta is mayWrite for modes, owners, times and attributes.
func (c *call) mayChangeMeta(t target) unix.Errno {
	switch {
	case c.b.mounts || t.full == "" && t.own:
		return 0
	case t.full == "":
		return unix.EACCES
	}
	s := c.b.standing(t.full)
	if c.b.isKept(&t.st) && s == Writable {
		s = Protected
	}
	if s == Protected && c.b.made.has(&t.st, t.fd, "") {
		s = Writable // git gives its configuration the mode of the one before
	}
	if errno := c.verdict(t.full, s); errno != 0 {
		if errno == unix.EACCES {
			return unix.EPERM
		}
		return errno
	}
	return 0
}

func (c *call) byPath(dirfd int32, addr uint64, flags int) (func(*walk) (target, unix.Errno), unix.Errno) {
	if flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return nil, unix.EINVAL
	}
	name, errno := c.text(addr)
	if errno != 0 {
		return nil, errno
	}
	if name == "" && flags&unix.AT_EMPTY_PATH != 0 {
		return func(w *walk) (target, unix.Errno) { return w.held(dirfd) }, 0
	}
	return func(w *walk) (target, unix.Errno) { return w.find(dirfd, name, flags&unix.AT_SYMLINK_NOFOLLOW == 0) }, 0
}

func (c *call) byDescriptor(fd int32) func(*walk) (target, unix.Errno) {
	return func(w *walk) (target, unix.Errno) {
		t, errno := w.held(fd)
		if t.own && !c.isOpen(fd, t.fd) {
			return target{}, unix.EBADF
		}
		return t, errno
	}
}

func (c *call) chmodAt(dirfd int32, addr uint64, mode uint32, flags int) reply {
	find, errno := c.byPath(dirfd, addr, flags)
	if errno != 0 {
		return fails(errno)
	}
	return c.chmodOf(find, mode)
}

func (c *call) chmodOf(find func(*walk) (target, unix.Errno), mode uint32) reply {
	if mode&unix.S_ISUID != 0 {
		return fails(unix.EPERM)
	}
	return c.changeMeta(find, func(t target) unix.Errno {
		switch {
		case t.kind() == unix.S_IFLNK:
			return unix.EOPNOTSUPP
		case mode&unix.S_ISGID != 0 && t.kind() != unix.S_IFDIR:
			return unix.EPERM // a program with its owner's group, for everybody
		}
		return 0
	}, func(t target) error { return unix.Chmod(linkOf(t.fd), c.b.keepsOthersOut(t, mode)) })
}

func (c *call) chownAt(dirfd int32, addr uint64, uid, gid int, flags int) reply {
	find, errno := c.byPath(dirfd, addr, flags)
	if errno != 0 {
		return fails(errno)
	}
	return c.chownOf(find, uid, gid)
}

func (c *call) chownOf(find func(*walk) (target, unix.Errno), uid, gid int) reply {
	return c.changeMeta(find, func(t target) unix.Errno {
		// A program shares what it makes with the group that it runs as, at most: not with each of its user's.
		if gid != -1 && gid != int(t.st.Gid) && gid != unix.Getegid() {
			return unix.EPERM
		}
		return 0
	}, func(t target) error { return unix.Fchownat(t.fd, "", uid, gid, unix.AT_EMPTY_PATH) })
}

// timesAt is utimensat(2) with the times already read; nil is now.
func (c *call) timesAt(dirfd int32, addr uint64, times []unix.Timespec, flags int) reply {
	if len(times) == 2 && times[0].Nsec == unix.UTIME_OMIT && times[1].Nsec == unix.UTIME_OMIT {
		return reply{} // the kernel does not even look at the path
	}
	if addr == 0 && flags != 0 && dirfd != unix.AT_FDCWD {
		return fails(unix.EINVAL)
	}
	find, errno := c.byPath(dirfd, addr, flags)
	if addr == 0 && dirfd != unix.AT_FDCWD { // futimens(3)
		find, errno = c.byDescriptor(dirfd), 0
	}
	if errno != 0 {
		return fails(errno)
	}
	return c.changeMeta(find, nil, func(t target) error { return setTimes(c.b, t, times) })
}

func setTimes(b *Broker, t target, times []unix.Timespec) error {
	var at unsafe.Pointer
	if times != nil {
		at = unsafe.Pointer(&times[0])
	}
	name, flags, dir := strconv.Itoa(t.fd), 0, b.selfFD
	if t.kind() == unix.S_IFLNK { // a descriptor of it leads nowhere: by its name, under the queue for names
		name, flags, dir = t.name(), unix.AT_SYMLINK_NOFOLLOW, t.dir
	}
	p, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(at), uintptr(flags), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// timespecs reads two times of a seconds and a part of it each, which times scale is
// nanoseconds.
func (c *call) timespecs(addr uint64, scale int64) ([]unix.Timespec, unix.Errno) {
	if addr == 0 {
		return nil, 0
	}
	w, errno := c.words(addr, 4)
	if errno != 0 {
		return nil, errno
	}
	if scale != 1 && (w[1] < 0 || w[1] >= 1e6 || w[3] < 0 || w[3] >= 1e6) {
		return nil, unix.EINVAL
	}
	return []unix.Timespec{{Sec: w[0], Nsec: w[1] * scale}, {Sec: w[2], Nsec: w[3] * scale}}, 0
}

// signalled reports whether a signal waits for the thread that it does not block: the
// kernel would end its wait.
func (c *call) signalled() bool {
	for _, pending := range []string{"SigPnd", "ShdPnd"} {
		p, ok := c.status(pending)
		blocked, ok2 := c.status("SigBlk")
		if !ok || !ok2 {
			return true
		}
		set, err := strconv.ParseUint(p, 16, 64)
		mask, err2 := strconv.ParseUint(blocked, 16, 64)
		if err != nil || err2 != nil || set&^mask != 0 {
			return true
		}
	}
	return false
}

func (c *call) signal(n unix.Signal) {
	group, ok := c.group()
	pid, err := strconv.Atoi(group)
	if ok && err == nil {
		_ = unix.Tgkill(pid, c.tid, n) // it may have died
	}
}

func addressOf(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }
