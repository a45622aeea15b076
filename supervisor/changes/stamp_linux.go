package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

func stampOf(st *unix.Stat_t) stamp {
	return stamp{Dev: st.Dev, Ino: st.Ino, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}
}

// tellsChanges reports whether inotify(7) hears of every change below root: not where
// another machine can write, or a program serves the files.
func tellsChanges(root string) bool {
	const zfs, bcachefs = 0x2fc12fc1, 0xca451a4e
	var st unix.Statfs_t
	if unix.Statfs(root, &st) != nil {
		return false
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, zfs, bcachefs:
		return true
	}
	return false
}

// written waits until what was written below a directory is on the disk: once, and not for
// each file.
func written(dir int) error { return unix.Syncfs(dir) }

// identityOf is that of an open directory.
func identityOf(fd int) (id rootID, err error) {
	var x unix.Statx_t
	var disk unix.Statfs_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &x); err != nil {
		return id, err
	}
	if err := unix.Fstatfs(fd, &disk); err != nil {
		return id, err
	}
	id = rootID{Inode: x.Ino, Disk: fmt.Sprintf("%x", disk.Fsid.Val)}
	if x.Mask&unix.STATX_BTIME != 0 {
		id.Born = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	return id, nil
}

// openIn opens a directory below top, and follows no link.
func openIn(top int, name string) (int, error) {
	fd, err := unix.Openat2(top, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before Linux 5.6, or filtered
		return openStepwise(top, name)
	}
	return fd, err
}

// openRoot opens a workspace by its path, which has no links: one on the way to it was put there
// by a call, and leads to where calls may not write. Sandboxes have no openat2(2).
func openRoot(root string) (int, error) {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	parts := strings.FieldsFunc(root, func(r rune) bool { return r == '/' })
	for i, part := range append(parts, ".") {
		if err != nil {
			break
		}
		how, up := unix.O_PATH, fd
		if i == len(parts) {
			how = unix.O_RDONLY
		}
		fd, err = unix.Openat(up, part, how|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(up)
	}
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	return fd, nil
}

// exchange has two names of a directory stand for each other's files.
func exchange(dir int, a, b string) error {
	return unix.Renameat2(dir, a, dir, b, unix.RENAME_EXCHANGE)
}

// renameNew gives a file a name that nothing has.
func renameNew(dir int, from string, toDir int, to string) error {
	return unix.Renameat2(dir, from, toDir, to, unix.RENAME_NOREPLACE)
}
