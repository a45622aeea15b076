package hostfs

import (
	"iter"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// WritableAround is the outermost writable path of p that has name strictly
// below it, or "". What lies above is not the tools' to change.
func WritableAround(p sandboxprofile.Profile, name string) string {
	return Outermost(p, name, sandboxprofile.Write)
}

// Outermost is the outermost path of p with one of the rights that has name
// strictly below it, or "".
func Outermost(p sandboxprofile.Profile, name string, r sandboxprofile.Rights) string {
	outer := ""
	for dir := range Above(name) {
		if p.Paths[dir]&r != 0 {
			outer = dir
		}
	}
	return outer
}

// Locate gives the identity of the file name and of its directory, following no
// link in any component below root.
func Locate(root, name string) (dir, file wire.FileID, err error) {
	at, parent, err := openParent(root, name)
	if err != nil {
		return dir, file, err
	}
	defer unix.Close(at)
	defer unix.Close(parent)
	if dir, err = Identify(parent, ""); err != nil {
		return dir, file, err
	}
	file, err = Identify(parent, path.Base(name))
	return dir, file, err
}

// Identify looks at name in a directory, or at the directory itself for "".
func Identify(dir int, name string) (wire.FileID, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH); err != nil {
		return wire.FileID{}, err
	}
	return wire.FileID{Dev: st.Dev, Ino: st.Ino}, nil
}

// openParent opens root and the directory of name, which lies below it.
func openParent(root, name string) (at, parent int, err error) {
	at, err = unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, -1, err
	}
	parent, err = openBelow(at, strings.TrimPrefix(strings.TrimPrefix(path.Dir(name), root), "/"))
	if err != nil {
		unix.Close(at)
		return -1, -1, err
	}
	return at, parent, nil
}

// openBelow opens a directory that lies below at, or at itself for "".
func openBelow(at int, rel string) (int, error) {
	if rel == "" {
		rel = "."
	}
	return unix.Openat2(at, rel, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
}

// Above gives the directories that name lies below, the nearest first.
func Above(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name != "/" {
			slash := strings.LastIndexByte(name, '/')
			if slash < 0 {
				return
			}
			name = name[:max(slash, 1)]
			if !yield(name) {
				return
			}
		}
	}
}
