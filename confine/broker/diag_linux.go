package broker

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// A Diag asks the kernel about one TCP connection or listening socket (sock_diag(7)). The
// tables of /proc say the same, after a look at every slot of the host's own table, which
// takes milliseconds. The zero value asks no one.
type Diag struct {
	fd   int
	next uint32
}

// NewDiag opens what a filter takes away later. Where there is none, it asks no one. A kernel
// that has the family and not its part for TCP (CONFIG_INET_DIAG, a module that may not be
// loaded) says of every socket that it is not there, so a socket is made that is.
func NewDiag() Diag {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return Diag{}
	}
	d := Diag{fd: fd}
	if !d.finds() {
		unix.Close(fd)
		return Diag{}
	}
	return d
}

// finds reports whether it finds a socket that listens.
func (d *Diag) finds() bool {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(s)
	if unix.Bind(s, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}) != nil || unix.Listen(s, 0) != nil {
		return false
	}
	at, ok := localOf(s)
	return ok && d.listening(at)
}

// An end is one of a connection, or a socket that listens.
type end struct {
	state  byte
	family int
	local  netip.Addr
	ino    uint64 // 0 if no program has it
}

const (
	tcpSynSent = 2
	tcpTimeOut = 6 // TIME_WAIT
	tcpClosed  = 7
	tcpListens = 10
)

// connected reports whether getpeername(2) has an answer.
func (e end) connected() bool {
	return e.state != tcpSynSent && e.state != tcpTimeOut && e.state != tcpClosed && e.state != tcpListens
}

// find gives the socket that a segment from remote to local arrives at.
func (d *Diag) find(local, remote netip.AddrPort) (end, bool) {
	// linux/netlink.h, linux/inet_diag.h: struct inet_diag_req_v2, struct inet_diag_msg
	const request, byFamily, message = 16 + 56, 20, 72
	if d.fd == 0 || !local.Addr().Is4() || !remote.Addr().Is4() {
		return end{}, false
	}
	d.next++
	var m [request]byte
	binary.NativeEndian.PutUint32(m[0:], request)
	binary.NativeEndian.PutUint16(m[4:], byFamily)
	binary.NativeEndian.PutUint16(m[6:], unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(m[8:], d.next)
	q := m[16:]
	q[0], q[1] = unix.AF_INET, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(q[4:], ^uint32(0)) // every state
	from, to := local.Addr().As4(), remote.Addr().As4()
	binary.BigEndian.PutUint16(q[8:], local.Port())
	binary.BigEndian.PutUint16(q[10:], remote.Port())
	copy(q[12:], from[:])
	copy(q[28:], to[:])
	binary.NativeEndian.PutUint64(q[48:], ^uint64(0)) // any cookie
	if err := unix.Sendto(d.fd, m[:], 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return end{}, false
	}
	var buf [1024]byte
	for {
		n, _, err := unix.Recvfrom(d.fd, buf[:], unix.MSG_DONTWAIT) // the answer was made while we sent
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return end{}, false
		case n < 16 || binary.NativeEndian.Uint32(buf[8:]) != d.next:
			continue // of a question before
		case n < 16+message || binary.NativeEndian.Uint16(buf[4:]) != byFamily:
			return end{}, false
		}
		a := buf[16:]
		e := end{state: a[1], family: int(a[0]), ino: uint64(binary.NativeEndian.Uint32(a[68:]))}
		switch e.family {
		case unix.AF_INET:
			e.local = netip.AddrFrom4([4]byte(a[8:12]))
		case unix.AF_INET6:
			e.local = netip.AddrFrom16([16]byte(a[8:24])).Unmap()
		}
		return e, true
	}
}

// listening is Listening, by asking.
func (d *Diag) listening(at netip.AddrPort) bool {
	if d.fd == 0 {
		return Listening(at)
	}
	nobody := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	e, ok := d.find(at, nobody)
	return ok && e.state == tcpListens && e.local == at.Addr() // and not one at every address
}
