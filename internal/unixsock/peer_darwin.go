package unixsock

import "golang.org/x/sys/unix"

// peerOf reads LOCAL_PEERCRED and LOCAL_PEERPID: unix(4).
func peerOf(fd int) (Peer, error) {
	c, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return Peer{}, err
	}
	pid, err := unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
	if err != nil {
		return Peer{}, err
	}
	p := Peer{UID: int(c.Uid), GID: -1, PID: pid}
	if c.Ngroups > 0 {
		p.GID = int(c.Groups[0])
	}
	return p, nil
}
