package broker

import (
	"path"

	"golang.org/x/sys/unix"
)

// What protects a repository is that it is one, and where it lies: a person finds it by its
// name, and git by `objects` and `refs`, or by a .git file. A program that took any of these
// away could put a repository of its own in the place, with other remotes and settings, and
// the person's next push would go there. So what was a person's repository stays one, keeps its name,
// and keeps the names above it. A program's own is known by its configuration, which the
// broker has installed.

// gitMarks are the files by which a directory is a repository.
var gitMarks = []string{"objects", "refs", "HEAD", "commondir"}

// keepsRepository judges that what lies at p, and is called full, loses that name.
func (c *call) keepsRepository(p location, full string, st *unix.Stat_t) unix.Errno {
	if !c.b.watchesGit(full) {
		return 0
	}
	switch name := fold(p.name()); {
	case name == ".git" && st.Mode&unix.S_IFMT != unix.S_IFDIR:
		if !c.b.made.has(st, p.dir, p.name()) {
			return c.verdict(full, Protected)
		}
	case isOneOf(p.name(), gitMarks...):
		if c.b.isPersonsRepository(p.dir) {
			return c.verdict(full, Protected)
		}
	}
	return 0
}

// isPersonsRepository reports whether a directory is a repository, or the part of one that a
// linked work tree has, with a file that no program of this sandbox's made.
func (b *Broker) isPersonsRepository(dir int) bool {
	return isRepositoryAt(dir, "./", "") && (b.isPersons(dir, "config") || b.isPersons(dir, "commondir"))
}

// isPersons reports whether a file is there that no program of this sandbox's made.
func (b *Broker) isPersons(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && !b.made.has(&st, dir, name)
}

// holdsRepository judges that the directory called, at full, loses that name: no repository of
// a person's may lie in it. What has more names than can be looked at is moved by copying.
func (c *call) holdsRepository(at int, called, full string, left *budget) unix.Errno {
	if !c.b.watchesGit(full) {
		return 0
	}
	dir, entries, err := listed(at, called, left.names)
	if err != nil {
		return c.verdict(full, Protected)
	}
	defer dir.Close()
	fd := int(dir.Fd())
	if c.b.isPersonsRepository(fd) {
		return c.verdict(full, Protected)
	}
	for _, e := range entries {
		if !left.spend() {
			return unix.EXDEV
		}
		name := path.Join(full, e.Name())
		if fold(e.Name()) == ".git" && !e.IsDir() && c.b.isPersons(fd, e.Name()) {
			return c.verdict(name, Protected)
		}
		if e.IsDir() {
			if errno := c.holdsRepository(fd, e.Name(), name, left); errno != 0 {
				return errno
			}
		}
	}
	return 0
}
