package loopback

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// userOf is the user of the socket at the other end of a connection within this machine. The
// kernel is asked for this one socket: its tables would take longer to read the more
// connections there are. One that its program has closed already has no owner, and ends by
// itself.
func userOf(c net.Conn) (uid int, known bool) {
	peer, ok := c.RemoteAddr().(*net.TCPAddr)
	here, ok2 := c.LocalAddr().(*net.TCPAddr)
	if !ok || !ok2 {
		return 0, false
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagRequest(peer.AddrPort(), here.AddrPort()), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, false
	}
	var answer [1024]byte
	n, _, err := unix.Recvfrom(fd, answer[:], unix.MSG_DONTWAIT) // it was made while we sent
	if err != nil {
		return 0, false
	}
	return diagUser(answer[:n])
}

// linux/netlink.h, linux/inet_diag.h: struct nlmsghdr, inet_diag_req_v2, inet_diag_msg.
const (
	netlinkHeader = 16
	diagAsk       = netlinkHeader + 56
	diagAnswer    = netlinkHeader + 72
	diagByFamily  = 20
	tcpListens    = 10
)

func diagRequest(local, remote netip.AddrPort) []byte {
	m := make([]byte, diagAsk)
	binary.NativeEndian.PutUint32(m[0:], diagAsk)
	binary.NativeEndian.PutUint16(m[4:], diagByFamily)
	binary.NativeEndian.PutUint16(m[6:], unix.NLM_F_REQUEST)
	q := m[netlinkHeader:]
	q[0], q[1] = unix.AF_INET, unix.IPPROTO_TCP
	from, to := local.Addr().Unmap(), remote.Addr().Unmap()
	if from.Is6() {
		q[0] = unix.AF_INET6
	}
	binary.NativeEndian.PutUint32(q[4:], ^uint32(0)) // every state
	binary.BigEndian.PutUint16(q[8:], local.Port())
	binary.BigEndian.PutUint16(q[10:], remote.Port())
	copy(q[12:28], from.AsSlice())
	copy(q[28:44], to.AsSlice())
	binary.NativeEndian.PutUint64(q[48:], ^uint64(0)) // any cookie
	return m
}

func diagUser(m []byte) (uid int, known bool) {
	if len(m) < diagAnswer || binary.NativeEndian.Uint16(m[4:]) != diagByFamily {
		return 0, false
	}
	a := m[netlinkHeader:]
	if a[1] == tcpListens || binary.NativeEndian.Uint32(a[68:]) == 0 { // no program has it
		return 0, false
	}
	return int(binary.NativeEndian.Uint32(a[64:])), true
}
