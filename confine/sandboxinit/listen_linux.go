package sandboxinit

import "golang.org/x/sys/unix"

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
