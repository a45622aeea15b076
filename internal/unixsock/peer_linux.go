package unixsock

import "golang.org/x/sys/unix"

// peerOf reads SO_PEERCRED: unix(7).
func peerOf(fd int) (Peer, error) {
	c, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	return Peer{UID: int(c.Uid), GID: int(c.Gid), PID: int(c.Pid)}, nil
}
