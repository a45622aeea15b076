package broker

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// A datagram has its address in memory, which another thread exchanges after the broker has
// looked, and the kernel signs none. So a program's socket for datagrams neither sends nor
// receives: it has an address, and nothing else. Programs that make one to learn an address
// (getaddrinfo(3)), to list interfaces (Java) or to wait for others of their kind (Gradle)
// go on.

// silence shuts a socket down for writing, and drops what arrives at it. Nothing takes back
// either (shutdown(2), SO_LOCK_FILTER), whatever the call, the option and the thread.
func silence(fd int) error {
	// Without a peer it is done, and answered with ENOTCONN.
	if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil && err != unix.ENOTCONN {
		return err
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop}); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1); err != nil {
		return err
	}
	return nil
}

// silences tries whether this kernel lets no such socket send.
var silences = sync.OnceValue(func() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	const discard = 9
	to := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: discard}
	return silence(fd) == nil && unix.Sendto(fd, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, to) == unix.EPIPE
})

// bindDatagrams tells a program that its socket has an address, which it has from the start: a send by
// one without takes a port at every address of the host, before it is refused, and shares that of a host's
// server if both have SO_REUSEADDR.
func (c *call) bindDatagrams(s socket, ino uint64, at netip.AddrPort) reply {
	if at.Port() != 0 {
		return fails(unix.EADDRINUSE) // to give the first one back would leave it without for a moment
	}
	c.b.nameAs(s, ino, at.Addr())
	return reply{}
}

// connectDatagrams notes the peer. The kernel does not hear of it: it would find a way there.
func (c *call) connectDatagrams(s socket, ino uint64, p []byte) reply {
	if binary.NativeEndian.Uint16(p) == unix.AF_UNSPEC {
		s.peer = netip.AddrPort{}
		c.b.sockets[ino] = s
		return reply{}
	}
	to, ok := inet(p)
	switch {
	case !ok:
		return fails(unix.EAFNOSUPPORT)
	case !c.b.loopback(to.Addr()): // no profile lists where datagrams may go
		return fails(unix.ENETUNREACH)
	}
	s.peer = loopbackOf(to)
	c.b.sockets[ino] = s
	c.b.nameAs(s, ino, s.peer.Addr())
	return reply{}
}

// onlyIPv6 is setsockopt(2) with IPV6_V6ONLY, which the kernel takes of no socket that is bound: one for
// datagrams is bound before a program has it, and Java sets the option on each.
func (c *call) onlyIPv6() reply {
	s, _, errno := c.socketOf(c.int(0))
	if errno != 0 {
		return fails(errno)
	}
	var value [4]byte
	switch {
	case int(c.int(4)) < len(value):
		return fails(unix.EINVAL)
	case c.read(c.args[3], value[:]) != len(value):
		return fails(unix.EFAULT)
	case s.fd == 0: // it is connected or listens, or is no socket of the internet's
		return fails(unix.EINVAL)
	case s.datagrams && s.family == unix.AF_INET6:
		return reply{} // nothing arrives at it by either
	}
	return answerOf(unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, int(int32(binary.NativeEndian.Uint32(value[:])))))
}

// The requests of netdevice(7), and the sizes of struct ifreq and of its name.
const (
	interfaceSize, interfaceName = 40, unix.IFNAMSIZ

	listInterfaces = 0x8912 // SIOCGIFCONF
)

// interfaces answers an ioctl(2) of a socket's. The list is of the loopback's addresses alone,
// as by netlink.
func (c *call) interfaces() reply {
	if _, _, errno := c.socketOf(c.int(0)); errno == unix.ENOTSOCK {
		return fails(unix.ENOTTY)
	} else if errno != 0 {
		return fails(errno)
	}
	switch request := c.uint(1); request {
	case listInterfaces:
		return fails(c.listInterfaces(c.args[2]))
	case unix.SIOCGIFNAME, unix.SIOCGIFFLAGS, unix.SIOCGIFMTU, unix.SIOCGIFINDEX:
		// Java asks about each interface that /proc/net shows, and takes no "no" for an answer.
		return reply{native: true}
	case unix.SIOCGIFADDR, unix.SIOCGIFNETMASK, unix.SIOCGIFBRDADDR, unix.SIOCGIFDSTADDR, unix.SIOCGIFHWADDR:
		return fails(c.describeInterface(request, c.args[2]))
	}
	return fails(unix.ENOTTY)
}

// listInterfaces fills a struct ifconf.
func (c *call) listInterfaces(at uint64) unix.Errno {
	var list []byte
	for _, p := range LoopbackAddresses {
		if p.Addr().Is4() {
			one := make([]byte, interfaceSize)
			copy(one, "lo")
			copy(one[interfaceName:], sockaddrIn(p.Addr()))
			list = append(list, one...)
		}
	}
	var conf [16]byte // its length, and where it is
	if c.read(at, conf[:]) != len(conf) {
		return unix.EFAULT
	}
	if buffer := binary.NativeEndian.Uint64(conf[8:]); buffer != 0 {
		room := max(0, int(int32(binary.NativeEndian.Uint32(conf[:]))))
		list = list[:min(len(list), room/interfaceSize*interfaceSize)]
		if errno := c.write(buffer, list); errno != 0 {
			return errno
		}
	}
	binary.NativeEndian.PutUint32(conf[:], uint32(len(list)))
	return c.write(at, conf[:4])
}

// describeInterface fills a struct ifreq.
func (c *call) describeInterface(request uint32, at uint64) unix.Errno {
	var name [interfaceName]byte
	if c.read(at, name[:]) != len(name) {
		return unix.EFAULT
	}
	i := slices.Index(name[:], 0)
	answer := make([]byte, unix.SizeofSockaddrInet4)
	switch {
	case request == unix.SIOCGIFHWADDR: // of all zeros, as the loopback has: none
		binary.NativeEndian.PutUint16(answer, unix.ARPHRD_LOOPBACK)
	case string(name[:max(i, 0)]) != "lo":
		return unix.ENODEV
	case request == unix.SIOCGIFNETMASK:
		answer = sockaddrIn(netip.AddrFrom4([4]byte{255, 0, 0, 0}))
	case request == unix.SIOCGIFBRDADDR:
		answer = sockaddrIn(netip.IPv4Unspecified())
	default:
		answer = sockaddrIn(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return c.write(at+interfaceName, answer)
}

// sockaddrIn is a struct sockaddr_in without a port.
func sockaddrIn(a netip.Addr) []byte {
	p := make([]byte, unix.SizeofSockaddrInet4)
	binary.NativeEndian.PutUint16(p, unix.AF_INET)
	copy(p[4:], a.AsSlice())
	return p
}
