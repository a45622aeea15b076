package sandboxinit

import (
	"io"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// openNoLinks opens a path that had no symbolic link in it when the call was
// checked. One that has appeared since is an attack or a race, and either way not
// what was approved: the answer is ELOOP. It walks component by component, which
// is openat2(2) with RESOLVE_NO_SYMLINKS by hand: the filter bars openat2, whose
// flags it cannot see.
func openNoLinks(p string, flags int, mode uint32) (int, error) {
	const dirFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at, err := unix.Open("/", dirFlags, 0)
	if err != nil {
		return -1, err
	}
	for {
		name, rest, more := strings.Cut(strings.TrimLeft(p, "/"), "/")
		if !more || strings.Trim(rest, "/") == "" {
			fd, err := openAt(at, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
			unix.Close(at)
			return fd, err
		}
		next, err := openAt(at, name, dirFlags, 0)
		unix.Close(at)
		if err != nil {
			return -1, err
		}
		at, p = next, rest
	}
}

// openAt opens one component. For a link the kernel says ENOTDIR where a
// directory was wanted; we say ELOOP for every link.
func openAt(at int, name string, flags int, mode uint32) (int, error) {
	if name == "" {
		name = "."
	}
	for {
		fd, err := unix.Openat(at, name, flags, mode)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ENOTDIR && isLink(at, name):
			return -1, unix.ELOOP
		case err != nil:
			return -1, err
		case flags&unix.O_PATH != 0 && flags&unix.O_DIRECTORY == 0 && isLink(fd, ""):
			unix.Close(fd) // O_PATH with O_NOFOLLOW opens the link itself, open(2)
			return -1, unix.ELOOP
		}
		return fd, nil
	}
}

func isLink(at int, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// readFile reads a regular file. Anything else is refused: a FIFO would block
// us, and a device has effects.
func readFile(op sandboxprofile.Operation) wire.Done {
	fd, err := openNoLinks(op.Path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return failed("open", err)
	}
	defer unix.Close(fd)
	st, done := regular(fd)
	if done != nil {
		return *done
	}
	content, truncated, err := op.Select(reader(fd))
	if err != nil {
		return failed("read", err)
	}
	return wire.Done{Content: content, Size: st.Size, Mode: st.Mode, Truncated: truncated}
}

// reader is a descriptor as an io.Reader, outside of the runtime's poller.
type reader int

func (r reader) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(r), p)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func regular(fd int) (unix.Stat_t, *wire.Done) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		d := failed("stat", err)
		return st, &d
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return st, nil
	case unix.S_IFDIR:
		d := failed("open", unix.EISDIR)
		return st, &d
	default:
		d := failed("open", unix.EINVAL)
		return st, &d
	}
}

// writeFile replaces a file as a whole: a temporary file beside it is written,
// synced and renamed over it, so that a reader, or a crash, sees the old content
// or the new. The mode of a file that exists is kept.
func writeFile(op sandboxprofile.Operation) wire.Done {
	dir, name := path.Split(op.Path)
	if op.MakeParents {
		if err := makeParents(path.Clean(dir)); err != nil {
			return failed("mkdir", err)
		}
	}
	dirfd, err := openNoLinks(path.Clean(dir), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return failed("open", err)
	}
	defer unix.Close(dirfd)

	mode, created, err := targetMode(dirfd, name)
	if err != nil {
		return failed("stat", err)
	}
	tmp := ".sandgate-" + strconv.FormatUint(uint64(unix.Getpid()), 10) + "-" + name
	if len(tmp) > unix.NAME_MAX {
		tmp = tmp[:unix.NAME_MAX]
	}
	if err := writeTemp(dirfd, tmp, op.Content, mode); err != nil {
		unix.Unlinkat(dirfd, tmp, 0)
		return failed("write", err)
	}
	if err := unix.Renameat(dirfd, tmp, dirfd, name); err != nil {
		unix.Unlinkat(dirfd, tmp, 0)
		return failed("rename", err)
	}
	syncDir(path.Clean(dir))
	return wire.Done{Size: int64(len(op.Content)), Mode: mode, Created: created}
}

// targetMode looks at what stands at name: nothing, or a regular file that this
// user may write. Replacing a file that is not writable would get around its mode.
func targetMode(dirfd int, name string) (mode uint32, created bool, err error) {
	var st unix.Stat_t
	err = unix.Fstatat(dirfd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err == unix.ENOENT:
		return 0o644, true, nil
	case err != nil:
		return 0, false, err
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return 0, false, unix.EISDIR
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return 0, false, unix.ELOOP
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return 0, false, unix.EINVAL
	}
	fd, err := unix.Openat(dirfd, name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, false, err // EROFS or EACCES: read-only here, whatever the directory allows
	}
	unix.Close(fd)
	return st.Mode & 0o777, false, nil
}

func writeTemp(dirfd int, name string, content []byte, mode uint32) error {
	fd, err := unix.Openat(dirfd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err == unix.EEXIST { // left by a crash
		if err := unix.Unlinkat(dirfd, name, 0); err != nil {
			return err
		}
		return writeTemp(dirfd, name, content, mode)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for len(content) > 0 {
		n, err := unix.Write(fd, content)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		content = content[n:]
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		return err
	}
	return unix.Fsync(fd)
}

// makeParents creates what is missing of dir, one component at a time, following
// no link.
func makeParents(dir string) error {
	fd, err := openNoLinks(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		return unix.Close(fd)
	}
	if err != unix.ENOENT || dir == "/" {
		return err
	}
	parent, name := path.Split(dir)
	if err := makeParents(path.Clean(parent)); err != nil {
		return err
	}
	pfd, err := openNoLinks(path.Clean(parent), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pfd)
	if err := unix.Mkdirat(pfd, name, 0o755); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}

func syncDir(dir string) {
	fd, err := openNoLinks(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	_ = unix.Fsync(fd) // the content is synced; the name will follow
	unix.Close(fd)
}

func failed(op string, err error) wire.Done {
	errno, ok := err.(unix.Errno)
	if !ok {
		errno = unix.EIO
	}
	return wire.Done{Op: op, Errno: int(errno)}
}
