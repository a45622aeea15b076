package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// FactsOf looks at what stands at each path that a profile names, and for nothing
// else.
func FactsOf(p sandboxprofile.Profile) (sandboxprofile.Facts, error) { return FactsAt(Keys(p)) }

// FactsAt is kindsOf for a caller that has the paths.
func FactsAt(names []string) (sandboxprofile.Facts, error) {
	f := NewFacts(len(names))
	for _, name := range names {
		kind, link, err := Inspect(name)
		if err != nil {
			return f, err
		}
		Note(f, name, kind, link)
	}
	return f, nil
}

func NewFacts(n int) sandboxprofile.Facts {
	return sandboxprofile.Facts{Kinds: make(map[string]sandboxprofile.FileKind, n), Links: map[string]string{}}
}

func Note(f sandboxprofile.Facts, name string, kind sandboxprofile.FileKind, link string) {
	f.Kinds[name] = kind
	delete(f.Links, name)
	if kind == sandboxprofile.Symlink {
		f.Links[name] = link
	}
}

func Keys(p sandboxprofile.Profile) []string {
	var ks []string
	for k := range p.Paths {
		ks = append(ks, k)
	}
	ks = slices.Concat(ks, p.Scratch, p.Devices, p.UnixSockets)
	if p.Network.Mode != sandboxprofile.NetworkHost {
		ks = append(ks, sandboxprofile.NameFiles()...)
	}
	slices.Sort(ks)
	return slices.Compact(ks)
}

func Inspect(path string) (sandboxprofile.FileKind, string, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return sandboxprofile.Missing, "", nil // what we may not see, the tool may not either
	case err != nil:
		return sandboxprofile.Missing, "", fmt.Errorf("confine: survey: lstat %s: %w", path, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return sandboxprofile.Dir, "", nil
	case unix.S_IFREG:
		return sandboxprofile.File, "", nil
	case unix.S_IFLNK:
	default:
		return sandboxprofile.Other, "", nil
	}
	link, err := os.Readlink(path)
	if err != nil {
		return sandboxprofile.Missing, "", fmt.Errorf("confine: survey: %w", err)
	}
	return sandboxprofile.Symlink, link, nil
}

func KindOf(m fs.FileMode) sandboxprofile.FileKind {
	switch {
	case m.IsDir():
		return sandboxprofile.Dir
	case m.IsRegular():
		return sandboxprofile.File
	case m&fs.ModeSymlink != 0:
		return sandboxprofile.Symlink
	default:
		return sandboxprofile.Other
	}
}
