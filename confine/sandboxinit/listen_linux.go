package sandboxinit

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
)

// listen opens the sandbox's one way out: a socket on its own loopback. A port
// of 0 asks for none.
func listen(port int) ([]int, error) {
	if port == 0 {
		return nil, nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	fds := []int{fd}
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	return fds, nil
}

// sendSocket hands out a socket of this network namespace, which the confiner
// connects to a port of our loopback. Nothing of it is left in here.
func (c *control) sendSocket(r wire.Socket) error {
	family := unix.AF_INET
	if r.IPv6 {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		errno, _ := err.(syscall.Errno)
		return c.send(wire.Frame{Made: &wire.Made{ID: r.ID, Errno: int(max(errno, 1))}})
	}
	defer unix.Close(fd)
	return c.sendWith(wire.Frame{Made: &wire.Made{ID: r.ID}}, []int{fd})
}
