package sandboxinit

import (
	"errors"
	"io"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/fileops"
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
// us, and a device has effects. A file may be as long as it likes, or grow while it
// is read: what was read until stop reports true is the answer then.
func readFile(op sandboxprofile.Operation, on disk, stop func() bool) wire.Done {
	fd, err := openNoLinks(op.Path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return failed("open", err)
	}
	defer unix.Close(fd)
	st, done := regular(fd)
	if done != nil {
		return *done
	}
	if on.withholds(fd, op.Path) {
		return failed("open", unix.EACCES)
	}
	text, err := fileops.Decode(stoppable{reader(fd), stop}, op.Encoding)
	if err != nil {
		return failed("decode", unix.EINVAL)
	}
	content, truncated, err := op.Select(text)
	if errors.Is(err, errStopped) {
		truncated, err = true, nil
	}
	if err != nil {
		return failed("read", err)
	}
	got := wire.Done{Content: content, Size: st.Size, Mode: st.Mode, Truncated: truncated}
	if !truncated && op.FirstLine <= 1 && op.Lines == 0 && op.Encoding == "" {
		got.SHA256 = digest(content) // the whole of it: a later write can be bound to it
	}
	return got
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

// stoppable reads until stop reports true.
type stoppable struct {
	reader
	stop func() bool
}

var errStopped = errors.New("the call was ended")

func (s stoppable) Read(p []byte) (int, error) {
	if s.stop() {
		return 0, errStopped
	}
	return s.reader.Read(p)
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

// makeParents creates what is missing of dir, one component at a time, following
// no link.
func (d disk) makeParents(dir string) error {
	fd, err := openNoLinks(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil {
		return unix.Close(fd)
	}
	if err != unix.ENOENT || dir == "/" {
		return err
	}
	parent, name := path.Split(dir)
	if err := d.makeParents(path.Clean(parent)); err != nil {
		return err
	}
	pfd, err := openNoLinks(path.Clean(parent), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pfd)
	if err := d.mkdir(pfd, name, 0o755); err != nil && err != unix.EEXIST {
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
	errno := unix.EIO
	if !errors.As(err, &errno) && errors.Is(err, errNotRegular) {
		errno = unix.EINVAL
	}
	return wire.Done{Op: op, Errno: int(errno)}
}
