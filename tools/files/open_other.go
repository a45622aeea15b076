//go:build unix && !linux

package files

import (
	"os"

	"golang.org/x/sys/unix"
)

// openRegular opens path for reading if its last component is not a symbolic
// link. Without openat2(2) the others cannot be checked; the file is only shown
// to a person, and never written.
func openRegular(path string) (*os.File, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			return opened(fd, path, err)
		}
	}
}
