package sandboxprofile

import (
	"path"
	"slices"
	"strings"
)

// Rights is what may be done with the absolute host path p: the rights of the
// longest entry that contains it, less what patterns take away. Patterns do not
// apply in system trees (IsSystemTree). A path that is not absolute has no rights.
func (p Profile) Rights(name string) Rights {
	return p.rights(name,
		func(name string) bool { return matchAny(p.Hide, name) },
		func(name string) bool { return matchAny(p.Protect, name) })
}

func (p Profile) rights(name string, hidden, protected func(name string) bool) Rights {
	if !path.IsAbs(name) {
		return 0
	}
	name = path.Clean(name)
	r := p.granted(name)
	if IsSystemTree(name) {
		return r
	}
	if r == 0 || hidden(name) {
		return 0
	}
	if r&Write != 0 && protected(name) {
		r &^= Write
	}
	return r
}

// A Lookup answers Rights for many paths of one profile: its patterns are prepared. It
// is safe for concurrent use.
type Lookup struct {
	profile       Profile
	hide, protect *Matcher
}

// NewLookup prepares p, and keeps a copy that nobody changes.
func NewLookup(p Profile) *Lookup {
	p = p.clone()
	return &Lookup{p, NewMatcher(p.Hide), NewMatcher(p.Protect)}
}

// Rights is what Profile.Rights is.
func (l *Lookup) Rights(name string) Rights {
	return l.profile.rights(name, l.hide.Match, l.protect.Match)
}

// Runnable reports whether the file at name may be read and executed.
func (l *Lookup) Runnable(name string) bool {
	const rights = Read | Execute
	return l.Rights(name)&rights == rights
}

// granted is Rights before patterns.
func (p Profile) granted(name string) Rights {
	for {
		if slices.Contains(p.Scratch, name) {
			return 0
		}
		if r, ok := p.Paths[name]; ok {
			return r
		}
		parent := path.Dir(name)
		if parent == name {
			return 0
		}
		name = parent
	}
}

// Contains reports whether the clean path name is dir or lies below it.
func Contains(dir, name string) bool {
	if dir == "/" || dir == name {
		return true
	}
	return strings.HasPrefix(name, dir) && name[len(dir)] == '/'
}
