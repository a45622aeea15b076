package privatedirs

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// A tool makes trees in its private directories that no path reaches: by steps of its own,
// and by renaming a deep one below another, they get deeper than PATH_MAX. So what counts
// and removes them goes by descriptors.

// diskUse is how many bytes of disk a tree takes, by what has a name. Each name counts, also that
// of an empty file: a file system has only so many, and one in memory keeps them there. What is
// gone meanwhile, or closed by the tool to everybody, is left out.
func diskUse(base string) int64 {
	var u usage
	u.add(unix.AT_FDCWD, base)
	return u.bytes
}

type usage struct {
	bytes int64
	held  int // descriptors
}

const (
	// maxStep is how long a path gets before it begins at a descriptor of its own.
	maxStep = 2048
	// maxHeld bounds those. A tree that is deeper yet takes more than any limit.
	maxHeld = 64
	// fewNames are read at once of a directory that may have millions.
	fewNames = 1024
)

// add counts what is at name. The tool lives: it may put a link in a directory's place.
func (u *usage) add(at int, name string) {
	var st unix.Stat_t
	if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	u.count(&st)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		u.below(at, name)
	}
}

func (u *usage) count(st *unix.Stat_t) {
	if n := st.Blocks*512 + sandboxprofile.InodeSize; u.bytes < math.MaxInt64-n {
		u.bytes += n
	}
}

func (u *usage) below(at int, name string) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC}
	if at != unix.AT_FDCWD {
		how.Resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS
	}
	fd, err := unix.Openat2(at, name, &how)
	if err != nil {
		return
	}
	dir := os.NewFile(uintptr(fd), name)
	defer func() { dir.Close() }() // once more is no harm
	var dirs []string
	for {
		names, err := dir.Readdirnames(fewNames)
		for _, entry := range names {
			var st unix.Stat_t
			if unix.Fstatat(fd, entry, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue
			}
			u.count(&st)
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				dirs = append(dirs, entry)
			}
		}
		if err != nil {
			break
		}
	}
	if len(dirs) == 0 {
		return
	}
	if at != unix.AT_FDCWD && len(name) < maxStep {
		dir.Close()
		for _, entry := range dirs {
			u.below(at, name+"/"+entry)
		}
		return
	}
	if u.held++; u.held > maxHeld {
		u.bytes = math.MaxInt64
		return
	}
	for _, entry := range dirs {
		u.below(fd, entry)
	}
	u.held--
}

// removeTree removes base and all below it, also what a tool has closed to itself. No program
// of the tool's lives any more.
func removeTree(base string) {
	if os.RemoveAll(base) == nil {
		return
	}
	reopen(unix.AT_FDCWD, base)
	top, err := os.Open(base)
	if err != nil {
		return
	}
	flatten(top)
	top.Close()
	_ = os.RemoveAll(base) // what is left is found by removeStale
}

// flatten empties a directory: each one that lies in it gives its own to it, and goes. So none
// is looked for that is deeper than two levels, however deep it lay.
func flatten(top *os.File) {
	at, made := int(top.Fd()), 0
	for gone := true; gone; {
		gone = false
		if _, err := top.Seek(0, 0); err != nil {
			return
		}
		names, _ := top.Readdirnames(-1)
		for _, name := range names {
			gone = lift(at, name, &made) || gone
		}
	}
}

// lift removes the entry name of a directory, and moves the directories that it holds there.
func lift(at int, name string, made *int) bool {
	if unix.Unlinkat(at, name, 0) == nil || unix.Unlinkat(at, name, unix.AT_REMOVEDIR) == nil {
		return true
	}
	reopen(at, name)
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	entries, _ := dir.Readdirnames(-1)
	for _, entry := range entries {
		if unix.Unlinkat(fd, entry, 0) == nil || unix.Unlinkat(fd, entry, unix.AT_REMOVEDIR) == nil {
			continue
		}
		reopen(fd, entry) // a directory that changes its parent is written to
		for err = unix.EEXIST; err == unix.EEXIST; *made++ {
			err = unix.Renameat2(fd, entry, at, fmt.Sprintf("lifted-%d", *made), unix.RENAME_NOREPLACE)
		}
	}
	return unix.Unlinkat(at, name, unix.AT_REMOVEDIR) == nil
}

// reopen takes back what the tool has done to a directory's mode.
func reopen(at int, name string) {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
}
