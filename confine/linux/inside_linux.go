package linux

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A sandbox's network belongs to its user namespace, and that to us, its creator: we
// have every capability in it (user_namespaces(7)), and no program inside has one. So
// init makes sockets and hands them out, and their addresses, and those of the network,
// are set from here. No process enters the sandbox for it, and none inside has ever
// been able to do it.

// innerNetwork is our access to a sandbox's network besides the proxy's socket.
type innerNetwork struct {
	proxy     *os.File // bwrapSandbox.exit: a socket of IPv4, whose addresses ioctl(2) sets through it
	datagrams *os.File
	streams   []*os.File // the first of them bound, in the order of Addresses.Listen

	mu     sync.Mutex
	is     confine.Addresses // once made
	made   bool
	barred error
}

// unboundFor is how many sockets a list of rules may need: each rule names one port
// at most, beside those that need no naming.
func unboundFor(n sandboxprofile.Network) int {
	const unnamed = 4 // HTTP, HTTPS, SSH and names
	rules := 0
	for _, list := range n.Allow {
		rules += len(list)
	}
	return min(rules+unnamed, wire.MaxSockets-2-loopbackSockets)
}

// socketsOf is how many descriptors come with Ready.
func socketsOf(s wire.Setup) int {
	n := 0
	if s.EgressPort != 0 {
		n++
	}
	if s.Unbound != 0 {
		n += 1 + s.Unbound
	}
	if s.Loopback {
		n += loopbackSockets
	}
	if s.First {
		n++
	}
	return n
}

const loopbackSockets = 2 // one for each version of IP

func (in *innerNetwork) close() {
	if in != nil {
		in.datagrams.Close()
		closeFiles(in.streams)
	}
}

// make sets the addresses up, once. What failed is not tried again: a part of it may
// be there.
func (in *innerNetwork) make(a confine.Addresses) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.barred != nil:
		return in.barred
	case in.made && reflect.DeepEqual(in.is, a):
		return nil
	case in.made:
		return errors.New("this sandbox has other addresses")
	}
	if in.barred = in.configure(a); in.barred != nil {
		in.close() // so that programs are refused, and do not wait for nobody
	}
	in.is, in.made = a, in.barred == nil
	return in.barred
}

func (in *innerNetwork) configure(a confine.Addresses) error {
	if len(a.Listen) > len(in.streams) {
		return fmt.Errorf("%d sockets are needed, and %d were made", len(a.Listen), len(in.streams))
	}
	if err := in.elsewhere(); err != nil {
		return err
	}
	for i, p := range a.Local {
		if err := in.own(i, p); err != nil {
			return fmt.Errorf("make %v an address of the sandbox: %w", p, err)
		}
	}
	for i, at := range a.Listen {
		err := bind(in.streams[i], at)
		if at.Addr().Is6() && errors.Is(err, unix.EADDRNOTAVAIL) {
			err = patiently(unix.EADDRNOTAVAIL, func() error { return bind(in.streams[i], at) })
		}
		if err != nil {
			return fmt.Errorf("listen on %v: %w", at, err)
		}
		if err := onFD(in.streams[i], func(fd int) error { return unix.Listen(fd, unix.SOMAXCONN) }); err != nil {
			return fmt.Errorf("listen on %v: %w", at, err)
		}
	}
	if err := bind(in.datagrams, a.Datagrams); err != nil {
		return fmt.Errorf("receive on %v: %w", a.Datagrams, err)
	}
	return nil
}

// addLoopback gives the loopback device a second address for each version of IP: that of
// the sandbox's own host name, and a link-local one. Without them getaddrinfo(3) with
// AI_ADDRCONFIG takes the sandbox for a machine without a network, and finds neither 127.0.0.1
// nor localhost: glibc looks for an address that is not 127.0.0.1 or ::1. Where it cannot be
// done, in a container without CAP_NET_ADMIN or a kernel without IPv6, it stays so.
func addLoopback(four, six *os.File) {
	ours, err := hereCookie()
	if err != nil {
		return
	}
	for f, add := range map[*os.File]func(fd int) error{
		four: func(fd int) error {
			return addAddress4(fd, "lo:name", netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, 1, 1}), 32))
		},
		six: func(fd int) error { return addAddress6(fd, netip.MustParsePrefix("fe80::1/128")) },
	} {
		_ = onFD(f, func(fd int) error {
			if err := notOf(fd, ours); err != nil {
				return err
			}
			return add(fd)
		})
	}
}

// elsewhere makes sure that no socket is of our own network, whose addresses we might
// be allowed to change too.
func (in *innerNetwork) elsewhere() error {
	ours, err := hereCookie()
	if err != nil {
		return err
	}
	for _, f := range append([]*os.File{in.proxy, in.datagrams}, in.streams...) {
		if err := onFD(f, func(fd int) error { return notOf(fd, ours) }); err != nil {
			return err
		}
	}
	return nil
}

// notOf makes sure that a socket is of another network than the one that a cookie names.
func notOf(fd int, ours uint64) error {
	theirs, err := netnsCookie(fd)
	if err == nil && (theirs == 0 || theirs == ours) {
		err = errors.New("the sandbox has no network of its own")
	}
	return err
}

// hereCookie names our own network, as netnsCookie does.
func hereCookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	cookie, err := netnsCookie(fd)
	if err != nil {
		return 0, fmt.Errorf("the kernel does not tell which network a socket is of (SO_NETNS_COOKIE, Linux 5.14): %w", err)
	}
	return cookie, nil
}

// own gives the loopback device the i-th further address. All that a prefix covers is
// local then, as it is for 127.0.0.0/8: the kernel makes the route with the address.
func (in *innerNetwork) own(i int, p netip.Prefix) error {
	if p.Addr().Is6() {
		return onFD(in.datagrams, func(fd int) error {
			if err := addAddress6(fd, p); err != nil {
				return err
			}
			return await(fd, p.Addr())
		})
	}
	return onFD(in.proxy, func(fd int) error { return addAddress4(fd, fmt.Sprintf("lo:%d", i), p) })
}

// addAddress4 sets address and mask of an alias (netdevice(7)). For a moment the mask
// is that of the address's class; nothing runs in the sandbox yet.
func addAddress4(fd int, alias string, p netip.Prefix) error {
	addr := p.Addr()
	if !p.IsSingleIP() {
		addr = addr.Next() // the first one is the network's own
	}
	mask := net.CIDRMask(p.Bits(), 32)
	for _, set := range []struct {
		request uint
		value   []byte
	}{{unix.SIOCSIFADDR, addr.AsSlice()}, {unix.SIOCSIFNETMASK, mask}} {
		ifr, err := unix.NewIfreq(alias)
		if err != nil {
			return err
		}
		if err := ifr.SetInet4Addr(set.value); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, set.request, ifr); err != nil {
			return err
		}
	}
	return nil
}

// ifreq6 is struct in6_ifreq of linux/ipv6.h.
type ifreq6 struct {
	addr  [16]byte
	bits  uint32
	index int32
}

// loopbackIndex is the number of lo in every network namespace: the kernel makes it
// first (net/core/dev.c).
const loopbackIndex = 1

func addAddress6(fd int, p netip.Prefix) error {
	r := ifreq6{addr: p.Addr().As16(), bits: uint32(p.Bits()), index: loopbackIndex}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFADDR, uintptr(unsafe.Pointer(&r)))
	if errno != 0 {
		return errno
	}
	return nil
}

// patiently calls f until it fails with another error than the one that passes. An
// address of IPv6 is there some moments after it was made, first its route and then
// the address (the kernel's addrconf_dad_work).
func patiently(passes error, f func() error) error {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(100 * time.Microsecond) {
		if err := f(); !errors.Is(err, passes) || time.Now().After(deadline) {
			return err
		}
	}
}

// await waits for the route to an address. Connecting a socket for datagrams asks for
// it and sends nothing.
func await(fd int, addr netip.Addr) error {
	const port = 9 // any will do
	err := patiently(unix.ENETUNREACH, func() error {
		return unix.Connect(fd, &unix.SockaddrInet6{Addr: addr.As16(), Port: port})
	})
	if err != nil {
		return err
	}
	return disconnect(fd)
}

// disconnect makes a socket as it was before connect(2), which takes an address of no
// family for that.
func disconnect(fd int) error {
	unspecified := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unspecified)), unsafe.Sizeof(unspecified))
	if errno != 0 {
		return errno
	}
	return nil
}

// bind gives a socket its address. No other socket can share it: neither SO_REUSEADDR
// nor SO_REUSEPORT is set, so a program inside that binds to the same port afterwards
// is refused.
func bind(f *os.File, at netip.AddrPort) error {
	return onFD(f, func(fd int) error {
		domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
		if err != nil {
			return err
		}
		if domain == unix.AF_INET6 {
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0); err != nil {
				return err
			}
			return unix.Bind(fd, &unix.SockaddrInet6{Addr: at.Addr().As16(), Port: int(at.Port())})
		}
		addr := at.Addr().Unmap()
		if addr.IsUnspecified() {
			addr = netip.IPv4Unspecified()
		}
		if !addr.Is4() {
			return unix.EAFNOSUPPORT
		}
		return unix.Bind(fd, &unix.SockaddrInet4{Addr: addr.As4(), Port: int(at.Port())})
	})
}

// carried gives the sockets to a caller, without what an earlier one left in them.
func (in *innerNetwork) carried() (c confine.Carried, err error) {
	defer func() {
		if err != nil {
			closeCarried(c)
			c = confine.Carried{}
		}
	}()
	for i := range in.is.Listen {
		l, err := listenerOf(in.streams[i])
		if err != nil {
			return c, fmt.Errorf("confine: %v: %w", in.is.Listen[i], err)
		}
		c.Streams = append(c.Streams, l)
	}
	if err := forgetDatagrams(in.datagrams); err != nil {
		return c, err
	}
	c.Datagrams, err = net.FilePacketConn(in.datagrams)
	return c, err
}

func closeCarried(c confine.Carried) {
	for _, l := range c.Streams {
		l.Close()
	}
	if c.Datagrams != nil {
		c.Datagrams.Close()
	}
}

// listenerOf is a listener of its own on a sandbox's socket. Connections that wait
// there were made by an action that has ended with everything that it started: the next
// action would take them for its own.
func listenerOf(f *os.File) (net.Listener, error) {
	if err := forgetConnections(f); err != nil {
		return nil, err
	}
	return net.FileListener(f)
}

func forgetConnections(f *os.File) error {
	return onFD(f, func(fd int) error {
		if err := unix.SetNonblock(fd, true); err != nil {
			return err
		}
		for {
			conn, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
			switch {
			case errors.Is(err, unix.EAGAIN):
				return nil
			case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
			case err != nil:
				return err
			default:
				unix.Close(conn)
			}
		}
	})
}

func forgetDatagrams(f *os.File) error {
	return onFD(f, func(fd int) error {
		for {
			_, _, err := unix.Recvfrom(fd, make([]byte, 1), unix.MSG_DONTWAIT)
			switch {
			case errors.Is(err, unix.EAGAIN):
				return nil
			case err != nil && !errors.Is(err, unix.EINTR):
				return err
			}
		}
	})
}

// onFD calls f with the descriptor of a file, which stays open meanwhile.
func onFD(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var doErr error
	if err := raw.Control(func(fd uintptr) { doErr = do(int(fd)) }); err != nil {
		return err
	}
	return doErr
}
