package broker

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Programs listen at 127.0.0.1 and find clients and servers there; the kernel has the
// sandbox's own address in its place. Servers give their address out, and certificates are for
// the usual one, so a program that asks gets the answer that it would get outside. No decision
// rests on that: a program that bypasses the broker sees the kernel's address.

// A name is the address that a program sees for one of its sockets.
type name struct {
	family int
	at     netip.AddrPort
}

// A connection is one that a program has made on the sandbox's loopback.
type connection struct {
	from      uint64         // inode of the end that was made
	accepted  uint64         // of the other one, 0 if it was not asked for, or nobody yet has it
	local, to netip.AddrPort // as the kernel has them
	asked     netip.AddrPort // to, as the program called it
}

// maxConnections bounds what is remembered: for the oldest, programs see the kernel's
// address.
const maxConnections = 256

// loopbackOf is where a connection to the unspecified address leads.
func loopbackOf(a netip.AddrPort) netip.AddrPort {
	switch {
	case !a.Addr().IsUnspecified():
		return a
	case a.Addr().Is6():
		return netip.AddrPortFrom(netip.IPv6Loopback(), a.Port())
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), a.Port())
}

// nameAs notes what a socket is called that was bound as asked.
func (b *Broker) nameAs(s socket, ino uint64, asked netip.Addr) {
	if bound, ok := localOf(s.fd); ok {
		b.mu.Lock()
		defer b.mu.Unlock()
		remember(b.told, ino, name{s.family, netip.AddrPortFrom(asked, bound.Port())})
	}
}

// unname forgets what a socket was called that had a number which another one has now.
func (b *Broker) unname(ino uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.told, ino)
	b.connections = slices.DeleteFunc(b.connections, func(x *connection) bool { return x.from == ino || x.accepted == ino })
}

// connected notes a connection, established or under way.
func (b *Broker) connected(fd int, ino uint64, asked, to netip.AddrPort) {
	local, ok := localOf(fd)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if n, bound := b.told[ino]; bound && n.at.Addr().IsUnspecified() {
		b.told[ino] = name{n.family, netip.AddrPortFrom(loopbackOf(asked).Addr(), local.Port())}
	}
	if len(b.connections) >= maxConnections {
		b.connections = b.connections[1:]
	}
	b.connections = append(b.connections, &connection{from: ino, local: local, to: to, asked: loopbackOf(asked)})
}

// localOf is the address of one of the broker's own descriptors.
func localOf(fd int) (netip.AddrPort, bool) {
	switch a, _ := unix.Getsockname(fd); a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), true
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port)), true
	}
	return netip.AddrPort{}, false
}

// acceptedAs is the connection whose accepted end has this inode.
func (b *Broker) acceptedAs(ino uint64) (*connection, int) {
	for i := len(b.connections) - 1; i >= 0; i-- {
		x := b.connections[i]
		if x.to == b.Network.Proxy || x.accepted != 0 && x.accepted != ino {
			continue
		}
		switch end, ok := b.Diag.find(x.to, x.local); {
		case !ok:
			x.accepted = ^uint64(0) // it is over
		case end.ino == ino:
			x.accepted = ino
			return x, end.family
		default:
			x.accepted = end.ino
		}
	}
	return nil, 0
}

// madeBy is the connection whose other end has it.
func (b *Broker) madeBy(ino uint64) *connection {
	i := slices.IndexFunc(b.connections, func(x *connection) bool { return x.from == ino })
	if i < 0 {
		return nil
	}
	return b.connections[i]
}

// getsockname tells a program the address that it bound a socket to, or was connected to at.
// Whatever else it asks about the kernel answers.
func (c *call) getsockname() reply {
	if s, ino, errno := c.socketOf(c.int(0)); errno == 0 && s.box != nil && !c.b.mute {
		return fails(c.writeAddress(s.box.shown()))
	} else if errno == 0 && s.datagrams && s.box == nil && !s.at.IsValid() && !c.b.mute {
		return fails(c.writeName(name{s.family, netip.AddrPortFrom(anyOf(s.family), 0)}))
	} else if errno == 0 && s.fd != 0 {
		if err := c.b.settle(s, ino); err != nil {
			return fails(errnoOf(err))
		}
	} else if errno == 0 && !c.b.mute {
		if a, ok := c.b.askers.of(ino); ok {
			return fails(c.writeAddress(a.sockaddr()))
		}
	}
	return c.tells(func(ino uint64) (name, bool) {
		if n, ok := c.b.told[ino]; ok {
			return n, true
		}
		if x := c.b.madeBy(ino); x != nil {
			return x.client(unix.AF_INET6)
		}
		x, family := c.b.acceptedAs(ino)
		if x == nil {
			return name{}, false
		}
		return name{family, x.asked}, true
	})
}

// client is the address of the end that connected. The kernel's own is right but for IPv6.
func (x *connection) client(family int) (name, bool) {
	return name{family, netip.AddrPortFrom(x.asked.Addr(), x.local.Port())}, family == unix.AF_INET6 && x.asked.Addr().Is6()
}

// getpeername tells a program the address that it has connected to, while it is connected.
func (c *call) getpeername() reply {
	if s, _, errno := c.socketOf(c.int(0)); errno == 0 && s.peer.IsValid() && !c.b.mute {
		return fails(c.writeName(name{s.family, s.peer}))
	} else if errno == 0 && s.box != nil {
		peer, ok := c.b.sockets[s.box.peer]
		if !ok || peer.box == nil {
			return fails(unix.ENOTCONN)
		}
		return fails(c.writeAddress(peer.box.shown()))
	}
	return c.tells(func(ino uint64) (name, bool) {
		if x := c.b.madeBy(ino); x != nil {
			end, ok := c.b.Diag.find(x.local, x.to)
			return name{end.family, x.asked}, ok && end.ino == ino && end.connected()
		}
		x, family := c.b.acceptedAs(ino)
		if x == nil {
			return name{}, false
		}
		return x.client(family)
	})
}

func (c *call) tells(of func(ino uint64) (name, bool)) reply {
	_, ino, errno := c.socketOf(c.int(0))
	if errno != 0 || c.b.mute {
		return reply{native: true}
	}
	n, ok := c.b.lookup(of, ino)
	if !ok {
		return reply{native: true}
	}
	errno = c.writeName(n)
	if errno == unix.EFAULT && c.b.slowMemory {
		return reply{native: true} // no file of /proc lets anybody write memory here
	}
	return fails(errno)
}

func (b *Broker) lookup(of func(ino uint64) (name, bool), ino uint64) (name, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return of(ino)
}

// writeName writes a struct sockaddr where the call has its second and third argument.
func (c *call) writeName(n name) unix.Errno {
	var p []byte
	switch a := n.at.Addr(); n.family {
	case unix.AF_INET6:
		p = make([]byte, unix.SizeofSockaddrInet6)
		ip := a.As16()
		copy(p[8:], ip[:])
	default:
		p = make([]byte, unix.SizeofSockaddrInet4)
		ip := a.As4()
		copy(p[4:], ip[:])
	}
	binary.NativeEndian.PutUint16(p, uint16(n.family))
	binary.BigEndian.PutUint16(p[2:], n.at.Port())
	return c.writeAddress(p)
}

func (c *call) writeAddress(p []byte) unix.Errno {
	var size [4]byte
	if c.read(c.args[2], size[:]) != len(size) {
		return unix.EFAULT
	}
	room := int32(binary.NativeEndian.Uint32(size[:]))
	if room < 0 {
		return unix.EINVAL
	}
	binary.NativeEndian.PutUint32(size[:], uint32(len(p)))
	if errno := c.write(c.args[1], p[:min(int(room), len(p))]); errno != 0 {
		return errno
	}
	return c.write(c.args[2], size[:])
}
