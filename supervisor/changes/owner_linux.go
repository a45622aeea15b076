package changes

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// hasNoWriter fails if something has a file open for writing, or mapped, and unwritten tells later whether something
// has begun to: a lease for reading (fcntl(2)) is granted only then, and is broken by such an open. Where the
// file system has no leases, it knows nothing. A process that is being started has its parent's descriptors until
// execve(2), also one by which the file was written: so it asks again for a while.
func hasNoWriter(fd int) (unwritten func() bool, end func(), err error) {
	const pause, tries = 10 * time.Millisecond, 100
	for range tries {
		if _, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK); !errors.Is(err, unix.EAGAIN) {
			break
		}
		time.Sleep(pause)
	}
	if errors.Is(err, unix.EAGAIN) {
		return nil, nil, err
	}
	if err != nil {
		return func() bool { return true }, func() {}, nil
	}
	return func() bool {
			l, err := unix.FcntlInt(uintptr(fd), unix.F_GETLEASE, 0)
			return err == nil && l == unix.F_RDLCK
		}, func() {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
		}, nil
}

func giveLink(dir int, base string, was *Entry) error {
	fd, err := unix.Openat(dir, base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if readLink(fd, "") != string(was.Link) {
		return errNotOurs
	}
	return unix.Fchownat(fd, "", was.Owner.uid(), was.Owner.gid(), unix.AT_EMPTY_PATH)
}
