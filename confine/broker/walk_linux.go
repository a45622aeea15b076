package broker

import (
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A location is a name in a directory: where a path of the thread's ends.
type location struct {
	dir  int    // O_PATH
	last string // the last component with the slashes behind it, "." for dir itself
}

// name is the last component without slashes.
func (p location) name() string { return strings.TrimRight(p.last, "/") }

// odd is a last component that names no entry of the directory: ".", ".." or the root.
// The kernel refuses to make, rename or remove one, whatever it is.
func (p location) odd() bool {
	n := p.name()
	return n == "" || n == "." || n == ".."
}

// maxLinks is how many links the kernel follows in one path (MAXSYMLINKS).
const maxLinks = 40

// A walk finds where paths of one call lead.
type walk struct {
	*call
	links int
}

// locate splits a path and opens the directory that its last component lies in. The last
// component is not looked at.
func (w *walk) locate(dirfd int32, name string) (location, unix.Errno) {
	if name == "" {
		return location{}, unix.ENOENT
	}
	base, errno := w.base(dirfd, name)
	if errno != 0 {
		return location{}, errno
	}
	return w.placeFrom(base, name)
}

func (w *walk) placeFrom(base int, name string) (location, unix.Errno) {
	trimmed := strings.TrimRight(name, "/")
	if trimmed == "" {
		return location{dir: w.b.rootFD, last: "/"}, 0
	}
	dir, last := "", name
	if i := strings.LastIndexByte(trimmed, '/'); i >= 0 {
		dir, last = name[:i+1], name[i+1:]
	}
	if strings.Trim(dir, "/") == "" {
		if dir != "" {
			base = w.b.rootFD
		}
		if errno := w.isDirectory(base); errno != 0 {
			return location{}, errno
		}
		return location{base, last}, tooLong(last)
	}
	at, errno := w.enter(base, dir)
	if errno != 0 {
		return location{}, errno
	}
	return location{at, last}, tooLong(last)
}

// tooLong refuses a component of more than NAME_MAX bytes, once its directory is found.
func tooLong(last string) unix.Errno {
	if len(strings.TrimRight(last, "/")) > unix.NAME_MAX {
		return unix.ENAMETOOLONG
	}
	return 0
}

func (w *walk) isDirectory(fd int) unix.Errno {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return errnoOf(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	return 0
}

// enter opens the directory at name, seen from base.
func (w *walk) enter(base int, name string) (int, unix.Errno) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(base, name, &how)
	switch err {
	case nil:
		return w.own(fd), 0
	case unix.ELOOP, unix.EAGAIN, unix.EINTR, unix.ENOSYS:
		return w.step(base, name)
	}
	return -1, errnoOf(err)
}

// step opens the directory at name, one component after another, and follows links by
// itself. A path may have thousands: each is closed when the next is open.
func (w *walk) step(at int, name string) (_ int, errno unix.Errno) {
	opened := -1 // at, if it was opened here
	enter := func(next, from int) {
		if opened >= 0 {
			unix.Close(opened)
		}
		at, opened = next, from
	}
	defer func() {
		if opened >= 0 {
			w.own(opened)
		}
	}()
	rest := name
	for rest != "" {
		if strings.HasPrefix(rest, "/") && rest == name {
			enter(w.b.rootFD, -1)
		}
		rest, name = strings.TrimLeft(rest, "/"), "" // from here on rest is relative
		if fd, n := w.plain(at, rest); n > 0 {
			enter(fd, fd)
			rest = rest[n:]
			continue
		}
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		if part == "" {
			continue
		}
		if len(part) > 255 {
			return -1, unix.ENAMETOOLONG
		}
		next, err := unix.Openat(at, w.component(at, part), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, errnoOf(err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(next, &st); err != nil {
			unix.Close(next)
			return -1, errnoOf(err)
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			enter(next, next)
			continue
		}
		target, magic, errno := w.hop(location{dir: at, last: part}, next, &st)
		unix.Close(next)
		switch {
		case errno != 0:
			return -1, errno
		case magic >= 0:
			enter(magic, -1)
			continue
		case strings.HasPrefix(target, "/"):
			enter(w.b.rootFD, -1)
		}
		rest = strings.TrimLeft(target+"/"+rest, "/")
	}
	return at, 0
}

// plain opens as many components at the beginning of a path as have no link among them,
// and says how long they are: a few calls for a path of thousands of components, which
// one after another would take longer than others should wait.
func (w *walk) plain(at int, rest string) (fd, length int) {
	const few = 16
	if strings.Count(rest, "/") < few {
		return -1, 0
	}
	fd = -1
	low, high := 0, len(rest) // up to low there is none
	for high-low > few {
		middle := low + (high-low)/2
		end := strings.LastIndexByte(rest[:middle+1], '/')
		if end <= low {
			if end = strings.IndexByte(rest[middle:], '/') + middle; end < middle || end >= high {
				break
			}
		}
		got, err := unix.Openat2(at, rest[:end], &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
		if err != nil {
			high = end
			continue
		}
		if fd >= 0 {
			unix.Close(fd)
		}
		fd, low = got, end
	}
	return fd, low
}

// hop is where a link on the way leads: a path, or a directory of which the thread has a
// descriptor.
func (w *walk) hop(p location, link int, st *unix.Stat_t) (target string, magic int, errno unix.Errno) {
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", -1, unix.ENOTDIR
	}
	if !isProc(link) {
		target, errno = w.follow(link)
		return target, -1, errno
	}
	t, errno := w.descriptorAt(p)
	if errno == 0 && t.kind() != unix.S_IFDIR {
		errno = unix.ENOTDIR
	}
	return "", t.fd, errno
}

// component is the name part of the directory at, with the thread's own number where
// procfs would give the broker's.
func (w *walk) component(at int, part string) string {
	if part != "self" && part != "thread-self" || !w.isProcRoot(at) {
		return part
	}
	group, ok := w.group()
	if !ok {
		return "" // ENOENT
	}
	if part == "self" {
		return group
	}
	return path.Join(group, "task", strconv.Itoa(w.tid))
}

// isProcRoot reports whether a directory is the root of a procfs, whose inode is 1
// (PROC_ROOT_INO in the kernel's proc_fs.h).
func (w *walk) isProcRoot(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) != nil || st.Ino == 1 && isProc(fd)
}

// follow reads a link. Those of procfs mean something of one process: no path that the
// broker resolves leads through one.
func (w *walk) follow(link int) (string, unix.Errno) {
	if w.links++; w.links > maxLinks {
		return "", unix.ELOOP
	}
	if isProc(link) {
		return "", unix.EACCES
	}
	var buf [pathMax]byte
	n, err := unix.Readlinkat(link, "", buf[:])
	if err != nil {
		return "", errnoOf(err)
	}
	if n == 0 {
		return "", unix.ENOENT
	}
	return string(buf[:n]), 0
}

// A target is an existing file that a path leads to.
type target struct {
	location
	fd   int    // O_PATH
	full string // where it lies, as the kernel has it; "" if it has no name
	own  bool   // a descriptor of the thread's leads to it
	open bool   // and is not of O_PATH, which anybody gets of anything
	gone bool   // it lies there no more: the directories above may have been renamed since
	st   unix.Stat_t
}

func (t target) kind() uint32 { return t.st.Mode & unix.S_IFMT }

// find opens what a path leads to, and follows a link at its end if follow is set. With
// ENOENT the place is where it would be.
func (w *walk) find(dirfd int32, name string, follow bool) (target, unix.Errno) {
	p, errno := w.locate(dirfd, name)
	for errno == 0 {
		if p.odd() { // a directory that is there
			var fd int
			switch p.name() {
			case "":
				fd = p.dir
			default:
				var err error
				if fd, err = unix.Openat(p.dir, p.name(), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
					errno = errnoOf(err)
				} else {
					w.own(fd)
				}
			}
			if errno != 0 {
				break
			}
			return w.target(p, fd)
		}
		fd, err := unix.Openat(p.dir, w.component(p.dir, p.name()), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return target{location: p}, errnoOf(err)
		}
		t, errno := w.target(p, w.own(fd))
		if errno != 0 {
			return t, errno
		}
		slash := p.last != p.name()
		if t.kind() == unix.S_IFLNK && (follow || slash) {
			if isProc(fd) {
				t, errno := w.descriptorAt(p)
				if errno == 0 && slash && t.kind() != unix.S_IFDIR {
					errno = unix.ENOTDIR
				}
				t.location = p
				return t, errno
			}
			to, errno := w.follow(fd)
			if errno != 0 {
				return t, errno
			}
			if slash {
				to += "/"
			}
			base := p.dir
			if strings.HasPrefix(to, "/") {
				base = w.b.rootFD
			}
			if p, errno = w.placeFrom(base, to); errno != 0 {
				return target{}, errno
			}
			continue
		}
		if slash && t.kind() != unix.S_IFDIR {
			return t, unix.ENOTDIR
		}
		return t, 0
	}
	return target{location: p}, errno
}

// descriptorAt is the target of a magic link of procfs, if it is one of the thread's own
// descriptors: /dev/stdout, /proc/self/fd/1. No other such link leads anywhere.
func (w *walk) descriptorAt(p location) (target, unix.Errno) {
	dir, errno := w.b.real(p.dir)
	group, ok := w.group()
	if errno != 0 || !ok {
		return target{location: p}, unix.EACCES
	}
	if dir != "/proc/"+group+"/fd" && dir != "/proc/"+group+"/task/"+strconv.Itoa(w.tid)+"/fd" {
		return target{location: p}, unix.EACCES
	}
	n, err := strconv.ParseUint(p.name(), 10, 31)
	if err != nil {
		return target{location: p}, unix.ENOENT
	}
	return w.held(int32(n))
}

// held is the file of the thread's descriptor n, or its working directory.
func (w *walk) held(n int32) (target, unix.Errno) {
	fd, errno := w.base(n, "")
	if errno != 0 {
		return target{}, errno
	}
	t := target{fd: fd, own: true}
	if err := unix.Fstat(fd, &t.st); err != nil {
		return t, errnoOf(err)
	}
	t.open = t.kind() == unix.S_IFCHR && w.isOpen(n, fd)
	named := t.kind() == unix.S_IFREG || t.kind() == unix.S_IFDIR || t.kind() == unix.S_IFLNK
	full, errno := w.b.real(fd)
	switch was, ok := w.b.lastName(fd); {
	case errno == 0:
		t.full = full
	case !named || t.st.Nlink == 0 && w.b.memory(was, &t.st):
		// it never had a name that a pattern judges
	case errno == unix.ENOENT && ok && w.b.Rules.MayHaveHidden(was):
		return t, unix.EACCES
	case errno == unix.ENOENT && ok:
		// The name that it was opened by is gone. What was withheld under it still is: a
		// descriptor of O_PATH, which the programs' domain does not judge, keeps a hidden file
		// whose name has gone.
		t.full, t.gone = was, true
	default:
		return t, errno
	}
	return t, 0
}

func (w *walk) target(p location, fd int) (target, unix.Errno) {
	t := target{location: p, fd: fd}
	if err := unix.Fstat(fd, &t.st); err != nil {
		return t, errnoOf(err)
	}
	var errno unix.Errno
	if t.kind() == unix.S_IFLNK && !isProc(fd) || t.kind() != unix.S_IFLNK {
		t.full, errno = w.b.real(fd)
	}
	return t, errno
}

// full is where a new name at p would lie.
func (w *walk) full(p location) (string, unix.Errno) {
	dir, errno := w.b.real(p.dir)
	if errno != 0 {
		return "", errno
	}
	return path.Join(dir, p.name()), 0
}
