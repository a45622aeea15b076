package changes

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

func stampOf(st *unix.Stat_t) stamp {
	return stamp{Dev: uint64(st.Dev), Ino: st.Ino, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}
}

func openIn(top int, name string) (int, error) { return openStepwise(top, name) }

func tellsChanges(string) bool { return false }

func written(int) error { return unix.Sync() }

// identityOf is that of an open directory.
func identityOf(fd int) (id rootID, err error) {
	var st unix.Stat_t
	var disk unix.Statfs_t
	if err := unix.Fstat(fd, &st); err != nil {
		return id, err
	}
	if err := unix.Fstatfs(fd, &disk); err != nil {
		return id, err
	}
	return rootID{Inode: st.Ino, Born: st.Btim.Nano(), Disk: fmt.Sprintf("%x", disk.Fsid.Val)}, nil
}

// openRoot opens a workspace by its path, which has no links: one on the way to it was put there
// by a call, and leads to where calls may not write.
func openRoot(root string) (int, error) {
	if real, err := filepath.EvalSymlinks(root); err != nil {
		return -1, err
	} else if real != root {
		return -1, &fs.PathError{Op: "open", Path: root, Err: unix.ELOOP}
	}
	fd, err := openDirectory(unix.AT_FDCWD, root)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	return fd, nil
}

// exchange has two names of a directory stand for each other's files.
func exchange(dir int, a, b string) error {
	return unix.RenameatxNp(dir, a, dir, b, unix.RENAME_SWAP)
}

// renameNew gives a file a name that nothing has.
func renameNew(dir int, from string, toDir int, to string) error {
	return unix.RenameatxNp(dir, from, toDir, to, unix.RENAME_EXCL)
}
