// Package ownfile says whether a file or directory is this user's alone, so that
// what stands in it can be trusted: the audit log, the remembered answers.
package ownfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Check fails if another user could have made the open file f or can reach it: it is
// not regular, belongs to another user, has a permission of forbidden, or has another
// name, which may lie where others write.
func Check(f *os.File, forbidden fs.FileMode) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &os.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("not a regular file")
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to uid %d, not to %d", st.Uid, os.Geteuid())
	case uint32(st.Mode)&uint32(forbidden.Perm()) != 0:
		return fmt.Errorf("others can reach it (mode %04o)", st.Mode&0o7777)
	case st.Nlink != 1:
		return fmt.Errorf("it has %d names (hard links)", st.Nlink)
	}
	return nil
}

// CheckDir fails if others can put files into dir under names of their choice, or
// another directory in its place: dir and all above it must belong to this user or to
// root, and no other user may write there. A sticky directory keeps others from
// replacing ours (inode(7)). Groups count for dir alone: many systems give each user
// one of their own, and directories that it may write to.
func CheckDir(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if real, err = filepath.Abs(real); err != nil {
		return err
	}
	others := uint32(0o022)
	for at := real; ; at, others = filepath.Dir(at), 0o002 {
		var st unix.Stat_t
		if err := unix.Stat(at, &st); err != nil {
			return &os.PathError{Op: "stat", Path: at, Err: err}
		}
		switch {
		case !trusted(int(st.Uid)):
			return &foreignDir{at, int(st.Uid)}
		case uint32(st.Mode)&others != 0 && st.Mode&unix.S_ISVTX == 0:
			return fmt.Errorf("others can write to directory %q (mode %04o)", at, st.Mode&0o7777)
		case at == filepath.Dir(at):
			return nil
		}
	}
}

// A foreignDir belongs to another user, who can replace what lies in it.
type foreignDir struct {
	path string
	uid  int
}

func (e *foreignDir) Error() string {
	return fmt.Sprintf("directory %q belongs to uid %d, who can replace files in it", e.path, e.uid)
}

// Hint says what helps.
func (e *foreignDir) Hint() string {
	return "use a directory of your own, for instance with XDG_STATE_HOME; with sudo, HOME may still be another user's (sudo -H)"
}

// trusted reports whether a directory of uid's is as good as one of this user's. In a
// user namespace root outside is an id that is not mapped.
func trusted(uid int) bool {
	return uid == 0 || uid == os.Geteuid() || uid == overflowUID && unmapped()
}

const overflowUID = 65534 // what the kernel shows for an id without a mapping (user_namespaces(7))

// unmapped reports whether this process sees ids that have no mapping.
var unmapped = sync.OnceValue(func() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(b)), " ") != "0 0 4294967295"
})

// Alone reports whether path, reached without links, is a regular file that only this
// user and root can change or replace. path is absolute.
func Alone(path string) bool { return AloneBelow("/", path) }

// AloneBelow is Alone for a caller that vouches for the directories above top. top itself
// is checked, and a path that does not lie below it is refused.
func AloneBelow(top, path string) bool {
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		var st unix.Stat_t
		if err := unix.Lstat(at, &st); err != nil {
			return false
		}
		want := uint32(unix.S_IFDIR)
		if at == path {
			want = unix.S_IFREG
		}
		ours := st.Uid == 0 || int(st.Uid) == os.Geteuid()
		// In a sticky directory others cannot replace what is ours (inode(7)).
		shut := st.Mode&0o022 == 0 || want == unix.S_IFDIR && st.Mode&unix.S_ISVTX != 0
		if uint32(st.Mode)&unix.S_IFMT != want || !ours || !shut {
			return false
		}
		if at == top {
			return at != path
		}
		if at == filepath.Dir(at) {
			return false
		}
	}
}
