package broker

import (
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A Pool supplies a directory like /tmp with its private entries, where there are no
// mounts. A Landlock rule belongs to an inode and moves with it: Dir, a hidden directory
// on the same file system, holds empty files, directories and FIFOs that the programs'
// domain grants. To make Place/NAME the broker moves one of them there. Its content is
// the sandbox's own, programs read it at full speed, and what else lies in Place stays
// closed to them. Names are shared with everybody, as in any /tmp.
type Pool struct{ Place, Dir string }

type pool struct {
	Pool
	placeFD, dirFD int
	free           map[uint32][]string // names in Dir, by kind
	known          map[FileID]uint32   // every inode that programs have a rule for, and its kind
	taken          map[string]birth    // what this sandbox has made in Place
	recorded       map[FileID]string   // links and sockets in Place, and their lines of the record
	next           int
}

func openPool(o Pool) (*pool, error) {
	p := &pool{Pool: o, free: map[uint32][]string{}, known: map[FileID]uint32{}, taken: map[string]birth{}}
	for _, x := range []struct {
		fd   *int
		path string
	}{{&p.placeFD, o.Place}, {&p.dirFD, o.Dir}} {
		fd, err := unix.Open(x.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", x.path, err)
		}
		*x.fd = fd
	}
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() == recordName {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstatat(p.dirFD, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nil, fmt.Errorf("%s/%s: %w", o.Dir, e.Name(), err)
		}
		kind := uint32(st.Mode & unix.S_IFMT)
		p.free[kind] = append(p.free[kind], e.Name())
		p.known[idOf(&st)] = kind
	}
	return p, nil
}

// poolOf gives the pool whose place name lies in, and the entry of the place that it is
// or lies below. The pool does not cover what the profile grants inside of a place.
func (b *Broker) poolOf(name string) (*pool, string) {
	for _, p := range b.pools {
		if rest, ok := strings.CutPrefix(name, p.Place+"/"); ok && b.Rules.Of(name) == Outside {
			first, _, _ := strings.Cut(rest, "/")
			return p, first
		}
	}
	return nil, ""
}

// poolEntry gives the pool of whose place name is an entry.
func (b *Broker) poolEntry(name string) *pool {
	if p, first := b.poolOf(name); p != nil && path.Join(p.Place, first) == name {
		return p
	}
	return nil
}

// holds reports whether the entry is one that this sandbox has made. A link or a socket has no
// rule that keeps its number: when a person removes it and makes a file, a directory above all,
// that often gets the number.
func (p *pool) holds(entry string) bool {
	at, made := p.taken[entry]
	var st unix.Stat_t
	return made && unix.Fstatat(p.placeFD, entry, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && birth{idOf(&st), born(p.placeFD, entry)} == at
}

// standing is the status of a name, including what this sandbox has made in private
// places.
func (b *Broker) standing(name string) Standing {
	if len(b.dangling) > 0 && b.barred(name) {
		return Outside
	}
	if b.allowed(name) {
		return Writable
	}
	s := b.Rules.Of(name)
	if s == Writable && b.watchesGit(name) && b.repositoryOf(name) != "" {
		return Protected
	}
	if s != Outside || len(b.pools) == 0 {
		return s
	}
	if p, first := b.poolOf(name); p != nil && p.holds(first) {
		return Writable
	}
	return Outside
}

// take gives an entry of Dir, or ENOSPC when none is left.
func (p *pool) take(kind uint32) (string, unix.Errno) {
	list := p.free[kind]
	if len(list) == 0 {
		return "", unix.ENOSPC
	}
	p.free[kind] = list[:len(list)-1]
	return list[len(list)-1], 0
}

func (p *pool) putBack(kind uint32, entry string) { p.free[kind] = append(p.free[kind], entry) }

// place moves an entry of Dir to Place.
func (p *pool) place(entry, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(p.dirFD, entry, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if err := unix.Renameat2(p.dirFD, entry, p.placeFD, name, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	return p.note(name, &st)
}

// note takes a name of Place for one of this sandbox's, if the file that it has given the name
// still has it.
func (p *pool) note(name string, given *unix.Stat_t) error {
	var st unix.Stat_t
	if err := unix.Fstatat(p.placeFD, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if idOf(&st) != idOf(given) {
		return unix.ENOENT
	}
	p.taken[name] = birth{idOf(&st), born(p.placeFD, name)}
	return p.record(p.placeFD, name, &st)
}

// link makes a symbolic link in Place. It has no name there before the record has it.
func (p *pool) link(to, name string) error {
	p.next++
	entry := fmt.Sprintf("link-%d", p.next)
	if err := unix.Symlinkat(to, p.dirFD, entry); err != nil {
		return err
	}
	var st unix.Stat_t
	err := unix.Fstatat(p.dirFD, entry, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		err = p.record(p.dirFD, entry, &st)
	}
	if err == nil {
		err = p.place(entry, name)
	}
	if err != nil {
		unix.Unlinkat(p.dirFD, entry, 0)
	}
	return err
}

// createIn makes a file of the pool's place, as create does elsewhere.
func (c *call) createIn(p *pool, name string, flags int, mode uint32) reply {
	fd := -1
	flags = flags&^(unix.O_CREAT|unix.O_EXCL|unix.O_TRUNC) | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NOCTTY
	errno := c.fromPool(p, unix.S_IFREG, name, mode, func(entry string) (err error) {
		fd, err = unix.Openat(p.dirFD, entry, flags, 0)
		return err
	})
	if errno != 0 {
		if fd >= 0 {
			unix.Close(fd)
		}
		return fails(errno)
	}
	r := c.gives(fd)
	r.undo = func() { c.b.locked(func() reply { return answerOf(p.remove(name, 0)) }) }
	return r
}

// fromPool takes an entry, prepares it and moves it into place.
func (c *call) fromPool(p *pool, kind uint32, name string, mode uint32, prepare func(entry string) error) unix.Errno {
	entry, errno := p.take(kind)
	if errno != 0 {
		return errno
	}
	mask, ok := c.umask()
	if !ok || !c.waits() {
		p.putBack(kind, entry)
		return unix.ESRCH
	}
	err := prepare(entry)
	if err == nil {
		err = unix.Fchmodat(p.dirFD, entry, mode&^uint32(mask)&0o1777, 0)
	}
	if err == nil {
		err = unix.UtimesNanoAt(p.dirFD, entry, []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err == nil {
		err = p.place(entry, name)
	}
	if err != nil {
		p.putBack(kind, entry)
		return errnoOf(err)
	}
	return 0
}

// remove takes an entry out of the place. An inode of the pool that no one has open goes
// back to it.
func (p *pool) remove(name string, flags int) error {
	if p.recycle(name, flags) {
		delete(p.taken, name)
		return nil
	}
	err := unix.Unlinkat(p.placeFD, name, flags)
	if err == nil {
		delete(p.taken, name)
	}
	return err
}

func (p *pool) recycle(name string, flags int) bool {
	kind, known := p.known[p.taken[name].file]
	if !known || !p.holds(name) || (kind == unix.S_IFDIR) != (flags&unix.AT_REMOVEDIR != 0) {
		return false
	}
	switch kind {
	case unix.S_IFREG:
		if !p.empty(name) {
			return false
		}
	case unix.S_IFDIR:
		if !isEmpty(p.placeFD, name) {
			return false
		}
	default:
		return false
	}
	p.next++
	entry := fmt.Sprintf("again-%d", p.next)
	if unix.Renameat2(p.placeFD, name, p.dirFD, entry, unix.RENAME_NOREPLACE) != nil {
		return false
	}
	p.putBack(kind, entry)
	return true
}

// empty empties a file that has one name and that no other process has open or mapped,
// which a lease reveals (fcntl(2), F_SETLEASE).
func (p *pool) empty(name string) bool {
	fd, err := unix.Openat(p.placeFD, name, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Nlink != 1 {
		return false
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	defer unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	return unix.Ftruncate(fd, 0) == nil && unix.Fchmod(fd, 0o600) == nil
}

// isEmpty reads no more than one name: a program may have made a million.
func isEmpty(dir int, name string) bool {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	names, err := f.Readdirnames(1)
	return len(names) == 0 && err != nil && unix.Fchmod(fd, 0o700) == nil
}

// judgePools judges a move or link to another name with an end in a private place. Only
// what the programs' domain grants by its inode may become an entry of one: anything
// else would be closed to the program that put it there. Like a file system of its own,
// a place is left by copying.
func (b *Broker) judgePools(from, to string, st *unix.Stat_t) (concerned bool, errno unix.Errno) {
	p, _ := b.poolOf(from)
	q, _ := b.poolOf(to)
	switch {
	case p == nil && q == nil:
		return false, 0
	case p != q:
		return true, unix.EXDEV
	case b.standing(from) != Writable:
		return true, unix.EACCES
	case b.poolEntry(to) == nil:
		if b.standing(to) != Writable {
			return true, unix.EACCES
		}
		return true, 0
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK, unix.S_IFSOCK:
	default:
		if _, granted := p.known[idOf(st)]; !granted {
			return true, unix.EXDEV
		}
	}
	var there unix.Stat_t
	name := path.Base(to)
	if unix.Fstatat(p.placeFD, name, &there, unix.AT_SYMLINK_NOFOLLOW) == nil && !p.holds(name) {
		return true, unix.EACCES
	}
	return true, 0
}

// moved updates the entries of places: the file st has the name to, and the file back, if there is
// one, has the name from.
func (b *Broker) moved(from, to string, st, back *unix.Stat_t) {
	for _, x := range []struct {
		name string
		file *unix.Stat_t
	}{{from, back}, {to, st}} {
		p := b.poolEntry(x.name)
		if p == nil {
			continue
		}
		entry := path.Base(x.name)
		delete(p.taken, entry)
		if x.file != nil {
			_ = p.note(entry, x.file) // gone already: then it is nobody's
		}
	}
}

// giveRoom empties a file that is about to go. A Landlock rule holds its inode until the
// kernel has taken the domain apart, which is a while after its last process has ended:
// with the name alone, its content would stay that long.
func (p *pool) giveRoom(entry string) {
	_ = unix.Fchmodat(p.placeFD, entry, 0o600, 0)
	fd, err := unix.Openat(p.placeFD, entry, unix.O_WRONLY|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
}

// clear removes what is in a directory of the place. The place itself may not be read.
func (p *pool) clear(entry string) {
	_ = unix.Fchmodat(p.placeFD, entry, 0o700, 0)
	dir, err := os.OpenRoot(path.Join(p.Place, entry))
	if err != nil {
		return
	}
	defer dir.Close()
	list, err := dir.Open(".")
	if err != nil {
		return
	}
	defer list.Close()
	names, _ := list.Readdirnames(-1)
	for _, name := range names {
		_ = dir.RemoveAll(name)
	}
}

// Clear removes what is left in private places. No program lives any more.
func (b *Broker) Clear() {
	if b == nil {
		return
	}
	b.guard(b.clearDangling)
	for _, p := range b.pools {
		for entry, at := range p.taken {
			if !p.holds(entry) {
				continue
			}
			flags := 0
			switch p.known[at.file] {
			case unix.S_IFREG:
				p.giveRoom(entry)
			case unix.S_IFDIR:
				p.clear(entry)
				flags = unix.AT_REMOVEDIR
			}
			unix.Unlinkat(p.placeFD, entry, flags) // what it cannot, the confiner does
		}
	}
}
