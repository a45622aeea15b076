package sandboxinit

import (
	"errors"

	"golang.org/x/sys/unix"
)

// unbound adds one socket for datagrams and n for streams to fds. They have no
// address yet: a socket belongs to the network in which it was made, and everything
// else about it is the confiner's to say.
func unbound(fds []int, n int) ([]int, error) {
	if n == 0 {
		return fds, nil
	}
	for i := range n + 1 {
		kind := unix.SOCK_STREAM
		if i == 0 {
			kind = unix.SOCK_DGRAM
		}
		fd, err := socket(kind)
		if err != nil {
			closeAll(fds)
			return nil, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// forLoopback adds a socket for each version of IP that the kernel may have.
func forLoopback(fds []int) ([]int, error) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		}
		if err != nil {
			closeAll(fds)
			return nil, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// socket is for both versions of IP, or for the older one where the kernel has no
// other.
func socket(kind int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET6, kind|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	}
	return fd, err
}
