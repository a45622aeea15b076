package tripwire

import (
	"maps"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// knownKinds remembers what stood at the paths of a profile. A name comes, goes or
// turns into something else only together with the change time of its directory, which
// no program can set (inode(7)): as long as a directory is as it was, so are the names
// in it. Most of a profile's paths lie in a few directories.
type knownKinds struct {
	roots []surveyedRoot
	dirs  []*knownDir

	mu      sync.Mutex // of everything below, and of dirs
	seen    *Kinds
	trusted map[uint64]bool // devices
}

// A knownDir is a directory that has some of the names.
type knownDir struct {
	path    string
	names   []string
	state   dirState // as its names were looked at
	settled bool     // a change since then shows in the state
}

// A dirState is the directory that a path leads to, or why it leads to none.
type dirState struct {
	stamp stamp
	err   error // an errno
}

// Kinds are the kinds of files that stood at the paths at some time. They are shared,
// and not changed.
type Kinds struct {
	facts sandboxprofile.Facts
	dirs  []int // those of the roots that are directories, by place
}

func newKnownKinds(names []string, roots []surveyedRoot) *knownKinds {
	k := &knownKinds{roots: roots, trusted: map[uint64]bool{}, seen: &Kinds{facts: hostfs.NewFacts(len(names))}}
	known := map[string]*knownDir{}
	for _, name := range names {
		dir := path.Dir(name)
		d := known[dir]
		if d == nil {
			d = &knownDir{path: dir}
			known[dir] = d
			k.dirs = append(k.dirs, d)
		}
		d.names = append(d.names, name)
	}
	return k
}

// look gives what stands there now, as kindsAt would.
func (k *knownKinds) look() (*Kinds, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.seen
	err := k.refresh(&next)
	if next != k.seen {
		next.dirs = nil
		for i, root := range k.roots {
			if next.facts.Kinds[root.path] == sandboxprofile.Dir {
				next.dirs = append(next.dirs, i)
			}
		}
		k.seen = next
	}
	return next, err
}

// refresh looks at the names in each directory that is not as it was. What it finds
// changed goes into a copy.
func (k *knownKinds) refresh(next **Kinds) error {
	var now unix.Timespec
	clock := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) == nil
	for _, d := range k.dirs {
		state, settled := k.stateOf(d.path, now)
		if d.settled && d.state == state {
			continue
		}
		d.settled = false
		for _, name := range d.names {
			if err := k.inspect(name, next); err != nil {
				return err
			}
		}
		d.state, d.settled = state, settled && clock
	}
	return nil
}

func (k *knownKinds) inspect(name string, next **Kinds) error {
	kind, link, err := hostfs.Inspect(name)
	if err != nil {
		return err
	}
	was, known := (*next).facts.Kinds[name]
	if known && was == kind && (*next).facts.Links[name] == link {
		return nil
	}
	if *next == k.seen {
		*next = &Kinds{facts: sandboxprofile.Facts{Kinds: maps.Clone(k.seen.facts.Kinds), Links: maps.Clone(k.seen.facts.Links)}}
	}
	hostfs.Note((*next).facts, name, kind, link)
	return nil
}

// stateOf looks at a directory. It also reports whether what is read in it from now on
// cannot change without its state: it has changed last some time ago, and lies on a file
// system that keeps change times as local ones do.
func (k *knownKinds) stateOf(dir string, now unix.Timespec) (dirState, bool) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return dirState{err: err}, true // nothing stands in it as long as that is so
	}
	return dirState{stamp: stampOf(&st)}, st.Ctim.Nano() < now.Nano()-int64(settling) && k.trusts(dir, st.Dev)
}

func (k *knownKinds) trusts(dir string, dev uint64) bool {
	trusted, known := k.trusted[dev]
	if !known {
		var fs unix.Statfs_t
		trusted = unix.Statfs(dir, &fs) == nil && keepsCtime(fs)
		k.trusted[dev] = trusted
	}
	return trusted
}
