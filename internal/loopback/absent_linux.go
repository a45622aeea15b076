package loopback

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// evenAbsent has a socket bind to an address that the machine has not yet.
func evenAbsent(_, _ string, c syscall.RawConn) error {
	var err error
	if controlErr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_FREEBIND, 1) }); controlErr != nil {
		return controlErr
	}
	return err
}
