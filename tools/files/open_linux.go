package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// openRegular opens path for reading if no component of it is a symbolic link.
func openRegular(path string) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		if err == unix.EINTR || err == unix.EAGAIN { // EAGAIN: a rename elsewhere, openat2(2)
			continue
		}
		return opened(fd, path, err)
	}
}
