package broker

import (
	"path"

	"golang.org/x/sys/unix"
)

// Looking at a name and acting on it happen under one lock, but not everybody who changes a
// tree has that lock: a sandbox of another user's, one in another container, one that
// comes by another mount. So a broker looks again when it has acted. Of two that each do
// half of what neither may do, the second to act finds the other's half, and takes its own
// away.

// makes calls act, which makes a name, and takes that away if the name is not judged by then
// as it was. That was looked up before the name was judged.
func (c *call) makes(p location, was judgement, act func() unix.Errno) unix.Errno {
	if c.b.poolEntry(was.full) != nil {
		return act()
	}
	if errno := act(); errno != 0 {
		return errno
	}
	if c.stands(p, was) {
		return 0
	}
	takeAway(p.dir, func() error {
		err := unix.Unlinkat(p.dir, p.name(), 0)
		if err == unix.EISDIR {
			err = unix.Unlinkat(p.dir, p.name(), unix.AT_REMOVEDIR)
		}
		if err == unix.ENOTEMPTY {
			return nil // what is in it was made by somebody who looks again as well
		}
		return err
	})
	return c.verdict(was.full, Protected)
}

// takeAway calls act, which takes a name out of a directory, also where the program has taken
// the right to that away from its user. A program whose name cannot be taken away ends.
func takeAway(dir int, act func() error) {
	err := act()
	var st unix.Stat_t
	if err == unix.EACCES && unix.Fstat(dir, &st) == nil && unix.Chmod(linkOf(dir), st.Mode&0o7777|0o300) == nil {
		err = act()
		_ = unix.Chmod(linkOf(dir), st.Mode&0o7777) // as the program wants it
	}
	if err != nil && err != unix.ENOENT {
		panic("a name cannot be taken away: " + err.Error())
	}
}

// A judgement is what a name was judged by.
type judgement struct {
	full     string
	standing Standing
	// repository says of the directory, and of the one above it, whether git takes it for one,
	// where that decides about the name.
	repository [2]bool
}

func (c *call) judged(p location, full string) judgement {
	return judgement{full, c.b.standing(full), c.repositories(p, full)}
}

// repositories looks by the descriptor: the path may lead elsewhere in the middle of a look.
func (c *call) repositories(p location, full string) (are [2]bool) {
	if c.b.watchesGit(full) {
		are[0] = (isOneOf(p.name(), gitParts...) || c.b.isPart(full)) && isRepositoryAt(p.dir, "./", "")
		are[1] = isOneOf(path.Base(path.Dir(full)), gitParts...) && isRepositoryAt(p.dir, "../", "")
	}
	return are
}

// stands reports whether a new name still is what it was judged to be.
func (c *call) stands(p location, was judgement) bool {
	standing, are := c.b.standing(was.full), c.repositories(p, was.full)
	dir, errno := c.b.real(p.dir) // the last: what was just looked at was called so
	switch {
	case errno != 0 || path.Join(dir, p.name()) != was.full || are[1] != was.repository[1]:
		return false
	case are[0] == was.repository[0]:
		return standing == was.standing
	}
	return c.b.isPart(was.full) && c.judgeParts(p, dir) == 0 // by which it became one
}

// installs is renames for a file that was judged by what it says: the copy goes where the
// directory is by then.
func (m *move) installs(to judgement) unix.Errno {
	stood := true
	errno := m.acting(func() error {
		return m.install(func() bool { stood = m.stands(m.to, to); return stood })
	})
	if !stood {
		return m.verdict(m.toFull, Protected)
	}
	return errno
}

// renames calls rename, and takes the new name away if one of its ends is not judged by then
// as it was.
func (m *move) renames(from, to judgement, rename func() error) unix.Errno {
	exchange := m.flags&unix.RENAME_EXCHANGE != 0
	if errno := m.acting(rename); errno != 0 {
		return errno
	}
	m.b.until = threadTime() + 2*maxLook // a look before that took long leaves time for this one
	if m.keeps(m.to, m.fromFull, to, &m.fromStat) && (!exchange || m.keeps(m.from, m.toFull, from, &m.toStat)) {
		return 0
	}
	// It is not moved back: the old directory may have another name by now, which nothing has
	// judged. No program acts on this one, and none can change it.
	takeAway(m.to.dir, func() error {
		return unix.Renameat2(m.to.dir, m.to.name(), m.to.dir, tempName(), unix.RENAME_NOREPLACE)
	})
	return m.verdict(m.toFull, Protected)
}

// keeps reports whether what was called old, and now lies at p, is judged as it was: by its
// own name, and by what lies below it. That may have been made after the first look.
func (m *move) keeps(p location, old string, was judgement, st *unix.Stat_t) bool {
	if st.Mode&unix.S_IFMT == unix.S_IFDIR && (!m.knows(p, was.full) || m.judgeParent(p, old, was.full) != 0) {
		return false
	}
	return m.stands(p, was)
}

// knows reports whether what lies in a directory that was renamed was judged before, as deep
// as its name decides about that.
func (m *move) knows(p location, full string) bool {
	reach := m.reached[full]
	return reach == 0 || m.knowsBelow(p.dir, p.name(), full, reach, m.b.newBudget(maxBelow))
}

func (m *move) knowsBelow(at int, called, full string, reach int, left *budget) bool {
	dir, entries, err := listed(at, called, left.names)
	if err != nil {
		return false
	}
	defer dir.Close()
	for _, e := range entries {
		name := path.Join(full, e.Name())
		standing := m.b.standing(name)
		hooks := !m.below[name] && m.b.harmlessHooks(e, name, standing)
		if !left.spend() || standing != Writable && !hooks && !m.below[name] {
			return false
		}
		deeper := reach - 1
		if hooks {
			deeper = max(deeper, 1)
		}
		if e.IsDir() && deeper > 0 && !m.knowsBelow(int(dir.Fd()), e.Name(), name, deeper, left) {
			return false
		}
	}
	return true
}
