package broker

import (
	"path"

	"golang.org/x/sys/unix"
)

// Looking at a name and acting on it happen under one lock, but not everybody who changes a
// tree has that lock: a sandbox of another user's, one in another container, one that
// comes by another mount. So a broker looks again when it has acted. Of two that each do
// half of what neither may do, the second to act finds the other's half, and takes its own
// back.

// makes calls act, which makes a name, and takes that away if the name is not judged by then
// as it was.
func (c *call) makes(p place, full string, act func() unix.Errno) unix.Errno {
	if c.b.poolEntry(full) != nil {
		return act()
	}
	was := c.judged(full)
	if errno := act(); errno != 0 {
		return errno
	}
	if c.stands(p, was) {
		return 0
	}
	if unix.Unlinkat(p.dir, p.name(), 0) == unix.EISDIR {
		_ = unix.Unlinkat(p.dir, p.name(), unix.AT_REMOVEDIR) // what is in it was made by somebody who looks again as well
	}
	return c.verdict(full, Protected)
}

// A judgement is what a name was judged by.
type judgement struct {
	full     string
	standing Standing
	part     bool // of what may become a repository by it
}

func (c *call) judged(full string) judgement {
	return judgement{full, c.b.standing(full), c.b.isPart(full) && !isRepository(path.Dir(full), "")}
}

// stands reports whether a new name is what it was judged to be.
func (c *call) stands(p place, was judgement) bool {
	dir, errno := c.b.real(p.dir)
	return errno == 0 && path.Join(dir, p.name()) == was.full && c.b.standing(was.full) == was.standing &&
		!(was.part && isRepository(dir, "") && c.judgeParts(p, dir) != 0)
}

// renames calls rename, and takes it back if one of its ends is not judged by then as it was.
func (m *move) renames(rename func() error) unix.Errno {
	exchange := m.flags&unix.RENAME_EXCHANGE != 0
	to, from := m.judged(m.toFull), m.judged(m.fromFull)
	if errno := m.acting(rename); errno != 0 {
		return errno
	}
	if m.stands(m.to, to) && m.knows(m.to, m.toFull, &m.fromStat) &&
		(!exchange || m.stands(m.from, from) && m.knows(m.from, m.fromFull, &m.toStat)) {
		return 0
	}
	back := uint(unix.RENAME_NOREPLACE)
	if exchange {
		back = unix.RENAME_EXCHANGE
	}
	if unix.Renameat2(m.to.dir, m.to.last, m.from.dir, m.from.last, back) != nil {
		// Somebody has taken the old name. No program can change this one.
		if err := unix.Renameat2(m.to.dir, m.to.last, m.to.dir, tempName(), unix.RENAME_NOREPLACE); err != nil && err != unix.ENOENT {
			panic("a rename cannot be taken back: " + err.Error())
		}
	}
	return m.verdict(m.toFull, Protected)
}

// knows reports whether what lies in a directory that was renamed was judged before, as deep
// as its name decides about that.
func (m *move) knows(p place, full string, st *unix.Stat_t) bool {
	reach := m.reached[full]
	return reach == 0 || st.Mode&unix.S_IFMT != unix.S_IFDIR || m.knowsBelow(p.dir, p.name(), full, reach, m.b.newBudget(maxBelow))
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
		hooks := m.b.harmlessHooks(e, name, standing)
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
