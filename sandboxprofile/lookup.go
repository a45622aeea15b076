package sandboxprofile

import (
	"hash/maphash"
	"path"
	"slices"
	"strings"
	"sync/atomic"
)

// Rights returns what may be done with the absolute host path p: the rights of the longest
// entry that contains it, minus what patterns take away. Patterns do not apply in system trees
// (IsSystemTree). A path that is not absolute has no rights.
func (p Profile) Rights(name string) Rights {
	if !path.IsAbs(name) {
		return 0
	}
	name = path.Clean(name)
	return p.granted(name).less(name,
		func() bool { return NewMatcher(p.Hide).Match(name) },
		func() bool { return NewMatcher(p.Protect).Match(name) })
}

// less is what patterns leave of the rights on a path.
func (r Rights) less(name string, hidden, protected func() bool) Rights {
	switch {
	case r == 0 || IsSystemTree(name):
	case hidden():
		return 0
	case r&Write != 0 && protected():
		return r &^ Write
	}
	return r
}

// A Lookup answers Rights for many paths of one profile: its patterns are prepared. It
// is safe for concurrent use.
type Lookup struct {
	profile       Profile
	hide, protect *Matcher
	// last has earlier results for some directories: questions about a tree come one directory
	// after the other, from several walkers, and among the names of a directory only the name is
	// new.
	last [8]atomic.Pointer[directory]
	seed maphash.Seed
}

type directory struct {
	path              string
	granted           Rights
	hidden, protected bool
}

// NewLookup prepares p and keeps an immutable copy.
func NewLookup(p Profile) *Lookup {
	p = p.clone()
	return &Lookup{profile: p, hide: NewMatcher(p.Hide), protect: NewMatcher(p.Protect), seed: maphash.MakeSeed()}
}

// Rights returns the same as Profile.Rights.
func (l *Lookup) Rights(name string) Rights {
	if !path.IsAbs(name) {
		return 0
	}
	name = path.Clean(name)
	above := l.directory(name[:max(1, strings.LastIndexByte(name, '/'))])
	granted, own := l.profile.own(name)
	if !own {
		granted = above.granted
	}
	return granted.less(name,
		func() bool { return above.hidden || l.hide.MatchLast(name) },
		func() bool { return above.protected || l.protect.MatchLast(name) })
}

func (l *Lookup) directory(name string) *directory {
	last := &l.last[maphash.String(l.seed, name)%uint64(len(l.last))]
	d := last.Load()
	if d == nil || d.path != name {
		d = &directory{name, l.profile.granted(name), l.hide.Match(name), l.protect.Match(name)}
		last.Store(d)
	}
	return d
}

// Runnable reports whether the file at name may be read and executed.
func (l *Lookup) Runnable(name string) bool {
	const rights = Read | Execute
	return l.Rights(name)&rights == rights
}

// granted is Rights before patterns.
func (p Profile) granted(name string) Rights {
	for {
		r, own := p.own(name)
		parent := path.Dir(name)
		if own || parent == name {
			return r
		}
		name = parent
	}
}

// own is what the profile says of this very path, if it does.
func (p Profile) own(name string) (r Rights, own bool) {
	if slices.Contains(p.Scratch, name) {
		return 0, true
	}
	r, own = p.Paths[name]
	return r, own
}

// Contains reports whether the clean path name is dir or lies below it.
func Contains(dir, name string) bool {
	if dir == "/" || dir == name {
		return true
	}
	return strings.HasPrefix(name, dir) && name[len(dir)] == '/'
}
