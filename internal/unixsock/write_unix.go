//go:build unix

package unixsock

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// WriteNow writes as much of parts as can be written without waiting, and says how much
// that was: 0 also of a connection that is broken, which the next Write will tell.
func WriteNow(c net.Conn, parts ...[]byte) (n int) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	err = raw.Write(func(fd uintptr) bool {
		n, err = unix.SendmsgBuffers(int(fd), parts, nil, nil, 0) // never waits: Go's sockets do not block
		return true
	})
	return max(n, 0)
}
