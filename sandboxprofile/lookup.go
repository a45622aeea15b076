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
	if !path.IsAbs(name) {
		return 0
	}
	name = path.Clean(name)
	r := p.granted(name)
	if IsSystemTree(name) {
		return r
	}
	if r == 0 || matchAny(p.Hide, name) {
		return 0
	}
	if r&Write != 0 && matchAny(p.Protect, name) {
		r &^= Write
	}
	return r
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
