package broker

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A datagram has its address in memory, which another thread exchanges after the broker has
// looked, and the kernel signs none. So a program's own socket for datagrams never sends: it is shut
// down for writing before a program has it. The broker sends in its place, from a socket that it makes for the
// one datagram, and to a socket of the same sandbox only. The kernel cannot choose another receiver. That one is
// bound to the sandbox's own address and a port that it shares with nobody, the broker holds it open, and the
// kernel never hears of a peer. It takes only what has the broker's key in an option of IP, so no stranger reaches
// it.

const (
	// The option is Record Route (RFC 791), full, so that no one writes to it: No Operation, type, length,
	// pointer and the key.
	ipOptions, ipOptionsHead = 40, 4
	ipHeader                 = 20 // without options
	// maxDatagram is what fits into a packet beside them.
	maxDatagram = 1<<16 - 1 - ipHeader - ipOptions - 8
	firstPort   = 1024 // below it are those of the machine's services
	portTries   = 16
	sweepWait   = 20 * time.Millisecond
)

// newGate makes the options that the broker's own datagrams have.
func newGate() []byte {
	o := make([]byte, ipOptions)
	_, _ = rand.Read(o[ipOptionsHead:])             // it does not fail
	copy(o, []byte{1, 7, ipOptions - 1, ipOptions}) // the pointer is behind the end
	return o
}

// filter takes packets with the options of the gate. Without one it takes none.
func filter(gate []byte) (program []unix.SockFilter) {
	const network = 0xfff00000 // SKF_NET_OFF: from the header of IP on
	is := func(size uint16, offset, value uint32) {
		program = append(program, unix.SockFilter{Code: unix.BPF_LD | size | unix.BPF_ABS, K: network + offset},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: value})
	}
	if gate != nil {
		is(unix.BPF_B, 0, 4<<4|(ipHeader+ipOptions)/4)
	}
	for i := 0; i < len(gate); i += 4 {
		is(unix.BPF_W, uint32(ipHeader+i), binary.BigEndian.Uint32(gate[i:]))
	}
	for i := 1; i < len(program); i += 2 {
		program[i].Jf = uint8(len(program) - i) // to the last one
	}
	if gate != nil {
		program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1})
	}
	return append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K})
}

// silence shuts a socket down for writing, and has it take what has the options of the gate alone. Nothing takes back
// either (shutdown(2), SO_LOCK_FILTER), whatever the call, the option and the thread.
func silence(fd int, gate []byte) error {
	// Without a peer it is done, and answered with ENOTCONN.
	if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil && err != unix.ENOTCONN {
		return err
	}
	f := filter(gate)
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1)
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
	return silence(fd, nil) == nil && unix.Sendto(fd, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, to) == unix.EPIPE
})

// opens tries once whether what the broker sends arrives here, and nothing else: a machine's own rules for packets may
// drop either. If not, nothing arrives at any socket.
func (b *Broker) opens() bool {
	if b.gate == nil {
		b.gate = newGate()
		b.carries = b.tryGate()
	}
	return b.carries
}

func (b *Broker) tryGate() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if silence(fd, b.gate) != nil || unix.Bind(fd, socket{family: unix.AF_INET}.sockaddr(netip.AddrPortFrom(b.Network.Own, 0))) != nil {
		return false
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		return false
	}
	for _, gate := range [][]byte{nil, b.gate} {
		from, err := speaker(0, gate)
		if err != nil {
			return false
		}
		err = unix.Sendto(from, gate, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, at)
		unix.Close(from)
		if err != nil {
			return false
		}
	}
	const most = 100 // milliseconds: the kernel delivers while it sends
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, most); err != nil || n == 0 {
		return false
	}
	got := make([]byte, ipOptions+1)
	n, _, err := unix.Recvfrom(fd, got, unix.MSG_DONTWAIT)
	return err == nil && bytes.Equal(got[:n], b.gate)
}

// speaker is a socket of the broker's that sends what programs see as from 127.0.0.1 and a port.
func speaker(port uint16, gate []byte) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if gate != nil {
		err = unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, string(gate))
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: int(port)})
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// quiet makes a socket for datagrams ready for a program. It has the sandbox's own address and no port yet: the kernel
// chooses one before it refuses a send, and would take it at every address of the host.
func (b *Broker) quiet(fd, family int) error {
	if !silences() {
		return unix.EACCES
	}
	var gate []byte
	if b.opens() {
		gate = b.gate
	}
	err := silence(fd, gate)
	if err == nil && family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	}
	if err == nil {
		err = unix.Bind(fd, socket{family: family}.sockaddr(netip.AddrPortFrom(b.Network.Own, 0)))
	}
	return err
}

// settleDatagrams binds a socket to a port, as a program has asked for it, or to one that is free.
func (b *Broker) settleDatagrams(s socket, ino uint64, asked netip.AddrPort) (socket, error) {
	if s.at.IsValid() {
		return s, nil
	}
	own := b.Network.Own
	if s.family == unix.AF_INET6 && (s.only6 || asked.Addr() == netip.IPv6Loopback()) {
		own = Own6(own)
	}
	bind := func() error {
		// Both at once: a datagram is to come from the port that it is answered at.
		from, err := speaker(asked.Port(), nil)
		if err != nil {
			return err
		}
		defer unix.Close(from)
		at, _ := localOf(from)
		if err := unix.SetsockoptInt(s.fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 0); err != nil {
			return err
		}
		return unix.Bind(s.fd, s.sockaddr(netip.AddrPortFrom(own, at.Port())))
	}
	err := bind()
	for try := 1; err == unix.EADDRINUSE && try < portTries; try++ {
		if asked.Port() != 0 {
			// The copy of a socket that a program has closed, to have the port again at once.
			time.Sleep(min(time.Until(b.swept), sweepWait))
			if !b.sweep() {
				break
			}
		}
		err = bind()
	}
	at, ok := localOf(s.fd)
	if ok && at.Port() != 0 {
		err = nil // a send by the program has made the kernel choose one
	}
	if err != nil {
		return s, err
	}
	s.at = at
	b.sockets[ino] = s
	b.nameAs(s, ino, asked.Addr())
	return s, nil
}

// bindDatagrams gives a socket the port that a program asks for.
func (c *call) bindDatagrams(s socket, ino uint64, at netip.AddrPort) reply {
	switch {
	case s.at.IsValid():
		return fails(unix.EINVAL)
	case at.Port() != 0 && at.Port() < firstPort: // a machine's rules may lead such a packet elsewhere
		return fails(unix.EACCES)
	}
	_, err := c.b.settleDatagrams(s, ino, at)
	return answerOf(err)
}

// anyOf is the unspecified address of a family.
func anyOf(family int) netip.Addr {
	if family == unix.AF_INET6 {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

// connectDatagrams notes the peer. The kernel does not hear of it: it would find a way there, and a
// receiver with a peer is none for others.
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
	s, err := c.b.settleDatagrams(s, ino, netip.AddrPortFrom(anyOf(s.family), 0))
	if err != nil {
		return fails(errnoOf(err))
	}
	s.peer = loopbackOf(to)
	c.b.sockets[ino] = s
	c.b.nameAs(s, ino, s.peer.Addr())
	return reply{}
}

// receiver is the socket of this sandbox's that a datagram to an address is for.
func (b *Broker) receiver(to netip.AddrPort) (uint64, socket, bool) {
	places := []netip.Addr{b.Network.Own}
	if a := to.Addr(); a.Is6() || a == Own6(b.Network.Own) {
		places = []netip.Addr{Own6(b.Network.Own), b.Network.Own}
	}
	for _, place := range places {
		for ino, s := range b.sockets {
			if s.datagrams && s.at == netip.AddrPortFrom(place, to.Port()) {
				return ino, s, true
			}
		}
	}
	return 0, socket{}, false
}

// carry sends a datagram of a socket to an address, or to its peer without one.
func (c *call) carry(s socket, ino uint64, m message) unix.Errno {
	if s.box != nil {
		return c.post(s, ino, m)
	}
	to := s.peer
	if m.to != nil {
		var ok bool
		if to, ok = inet(m.to); !ok {
			return unix.EAFNOSUPPORT
		}
	}
	switch {
	case !to.IsValid():
		return unix.EDESTADDRREQ
	case !c.b.loopback(to.Addr()):
		c.b.refuse(Refusal{"sendto", to.String(), Outside})
		return unix.ENETUNREACH
	case to.Port() == 0:
		return unix.EINVAL
	case len(m.data) > maxDatagram:
		return unix.EMSGSIZE
	case !c.b.carries:
		return unix.EPIPE
	}
	s, err := c.b.settleDatagrams(s, ino, netip.AddrPortFrom(anyOf(s.family), 0))
	if err != nil {
		return errnoOf(err)
	}
	_, r, ok := c.b.receiver(to)
	if ok && r.peer.IsValid() {
		from, _, known := c.b.receiver(r.peer)
		ok = known && from == ino
	}
	switch {
	case !ok && s.peer.IsValid() && m.to == nil:
		return unix.ECONNREFUSED
	case !ok:
		return 0 // nobody hears of it, as in any network
	}
	from, err := speaker(s.at.Port(), c.b.gate)
	if err != nil {
		return unix.ENOBUFS // a program of the host has the port since then
	}
	defer unix.Close(from)
	return answerOf(unix.Sendto(from, m.data, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, r.sockaddrAt())).errno
}

// sockaddrAt is where the kernel has a socket for datagrams, as a speaker calls it.
func (s socket) sockaddrAt() unix.Sockaddr { return socket{family: unix.AF_INET}.sockaddr(s.at) }

// option is setsockopt(2) with an option that decides which socket a datagram arrives at. One for datagrams has none of
// them in the kernel, whatever programs set: with SO_REUSEADDR another user could bind to the address of it.
func (c *call) option() reply {
	s, ino, errno := c.socketOf(c.int(0))
	if errno != 0 {
		return fails(errno)
	}
	var value [4]byte
	switch {
	case int(c.int(4)) < len(value):
		return fails(unix.EINVAL)
	case c.read(c.args[3], value[:]) != len(value):
		return fails(unix.EFAULT)
	case c.uint(1) == unix.SOL_SOCKET && (s.fd == 0 || s.datagrams):
		return reply{}
	case c.uint(1) == unix.SOL_SOCKET:
		return answerOf(unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, int(c.int(2)), int(int32(binary.NativeEndian.Uint32(value[:])))))
	case s.fd == 0: // it is connected or listens, or is no socket of the internet's
		return fails(unix.EINVAL)
	case s.datagrams && s.family == unix.AF_INET6:
		if s.at.IsValid() {
			return fails(unix.EINVAL)
		}
		s.only6 = binary.NativeEndian.Uint32(value[:]) != 0
		c.b.sockets[ino] = s
		return reply{}
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
