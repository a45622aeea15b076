package broker

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// Programs ask for a machine's addresses by netlink(7): getifaddrs(3), if_nameindex(3), Go's
// net.Interfaces. The kernel's sockets of that kind tell of the host, and configure it. So a
// program gets one end of a pair of Unix sockets, and the broker has the other one, where it
// answers as a machine that has a loopback and nothing else. What a program says there
// reaches nothing but these lines.

const (
	maxAskers   = 64       // sockets of this kind at once
	maxQuestion = 8 << 10  // of one message; the kernel cuts the rest off
	maxAnswered = 16       // requests in one message
	askerBuffer = 16 << 10 // what waits for a program that does not read, which no limit counts

	netlinkHeader = unix.SizeofNlMsghdr
	loopbackIndex = 1
)

// LoopbackAddresses are those of the loopback. glibc takes a machine that has 127.0.0.1 and
// ::1 alone for one without a network, and finds no name then (AI_ADDRCONFIG).
var LoopbackAddresses = []netip.Prefix{
	netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("127.0.1.1/32"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fe80::1/128"),
}

// An asker is the broker's end of such a pair.
type asker struct {
	ino  uint64 // of the program's end
	fd   int
	port uint32 // what the program's end is told that it is called
}

// askers are all of them.
type askers struct {
	list  []asker
	epoll int // tells whom there is something to read of; 0 before there was anybody
}

// asking makes a pair.
func (c *call) asking(kind int) reply {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|kind&unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fails(errnoOf(err))
	}
	theirs, ours := pair[0], pair[1]
	if err := c.b.attend(theirs, ours, uint32(c.tid)); err != nil {
		unix.Close(theirs)
		unix.Close(ours)
		return fails(errnoOf(err))
	}
	return reply{hands: true, fd: theirs, cloex: kind&unix.SOCK_CLOEXEC != 0} // if nobody gets it, ours hangs up
}

// attend takes our end, unless it fails.
func (b *Broker) attend(theirs, ours int, port uint32) error {
	if len(b.askers.list) >= maxAskers {
		b.Attend()
		if len(b.askers.list) >= maxAskers {
			return unix.EMFILE
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(theirs, &st); err != nil {
		return err
	}
	if err := nameAsKernel(ours); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(ours, unix.SOL_SOCKET, unix.SO_SNDBUF, askerBuffer); err != nil {
		return err
	}
	if b.mute {
		port = 0 // nobody can tell a program what its end is called
	}
	if b.askers.epoll == 0 {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return err
		}
		b.askers.epoll = fd
	}
	if err := unix.EpollCtl(b.askers.epoll, unix.EPOLL_CTL_ADD, ours, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(ours)}); err != nil {
		return err
	}
	b.askers.list = append(b.askers.list, asker{st.Ino, ours, port})
	return nil
}

// nameAsKernel gives our end an address that reads as the kernel's of netlink: its number, the
// second half of struct sockaddr_nl, is 0. The name is an abstract one of the host's, at which
// no one listens, and random where netlink has padding and groups.
func nameAsKernel(fd int) error {
	const tries = 8
	for range tries {
		name := make([]byte, unix.SizeofSockaddrNetlink-2)
		if _, err := rand.Read(name[6:]); err != nil {
			return err
		}
		name[0] = '@' // for the zero that begins an abstract name, in package unix
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: string(name)}); err != unix.EADDRINUSE {
			return err
		}
	}
	return unix.EADDRINUSE
}

// Asked is a descriptor that becomes readable when there is something for Attend to do, -1
// while there cannot be.
func (b *Broker) Asked() int {
	if b == nil || len(b.askers.list) == 0 {
		return -1
	}
	return b.askers.epoll
}

// Attend answers what programs have asked, a message of each, and lets go of those that have
// gone.
func (b *Broker) Attend() {
	events := make([]unix.EpollEvent, maxAskers)
	n, err := unix.EpollWait(b.askers.epoll, events, 0)
	if err != nil {
		return
	}
	question := make([]byte, maxQuestion)
	for _, e := range events[:n] {
		i := slices.IndexFunc(b.askers.list, func(a asker) bool { return a.fd == int(e.Fd) })
		if i < 0 {
			continue
		}
		a := b.askers.list[i]
		n, _, err := unix.Recvfrom(a.fd, question, unix.MSG_DONTWAIT)
		if e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 || err != nil || n == 0 {
			b.askers.list = slices.Delete(b.askers.list, i, i+1)
			unix.Close(a.fd)
			continue
		}
		b.guard(func() { a.tell(question[:n]) })
	}
}

// dismiss lets go of all.
func (a *askers) dismiss() {
	for _, x := range a.list {
		unix.Close(x.fd)
	}
	if a.epoll != 0 {
		unix.Close(a.epoll)
	}
	*a = askers{}
}

// of gives who asks by the socket of this number. If a program's end is closed, its
// address may belong to another socket: then there is no owner.
func (a *askers) of(ino uint64) (asker, bool) {
	for _, x := range a.list {
		if x.ino != ino {
			continue
		}
		state := []unix.PollFd{{Fd: int32(x.fd)}}
		if _, err := unix.Poll(state, 0); err == nil && state[0].Revents == 0 {
			return x, true
		}
	}
	return asker{}, false
}

// ofNetlink reports whether a call of bind(2) or connect(2) is about a program's end, and a netlink
// address. Either changes nothing: nothing is ever heard of the groups that it may join.
func (c *call) ofNetlink(ino uint64, p []byte) bool {
	_, ok := c.b.askers.of(ino)
	return ok && binary.NativeEndian.Uint16(p) == unix.AF_NETLINK
}

// tell answers a question. Who does not read what comes hears that there is nothing more.
func (a asker) tell(question []byte) {
	answer := a.answers(question)
	if len(answer) == 0 {
		return
	}
	if err := unix.Sendto(a.fd, answer, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil); err != nil {
		_ = unix.Shutdown(a.fd, unix.SHUT_RDWR)
	}
}

// send answers a question before its program goes on: musl takes the answer without waiting
// for one (MSG_DONTWAIT), as the kernel has it at once. The filter knows the question by its
// length; whatever else has this length goes on.
func (c *call) send() reply {
	if len(c.b.askers.list) == 0 {
		return reply{native: true}
	}
	_, ino, errno := c.socketOf(c.int(0))
	if errno != 0 {
		return reply{native: true}
	}
	a, ok := c.b.askers.of(ino)
	if !ok {
		return reply{native: true}
	}
	question := make([]byte, min(c.args[2], maxQuestion))
	if c.read(c.args[1], question) != len(question) {
		return fails(unix.EFAULT)
	}
	a.tell(question)
	return reply{value: int64(len(question))}
}

// sockaddr is the address of a program's end.
func (a asker) sockaddr() []byte {
	p := make([]byte, unix.SizeofSockaddrNetlink)
	binary.NativeEndian.PutUint16(p, unix.AF_NETLINK)
	binary.NativeEndian.PutUint32(p[4:], a.port)
	return p
}

// answers is what the kernel would send for a message.
func (a asker) answers(question []byte) (all []byte) {
	for range maxAnswered {
		if len(question) < netlinkHeader {
			return all
		}
		size := binary.NativeEndian.Uint32(question)
		if size < netlinkHeader || uint64(size) > uint64(len(question)) {
			return all
		}
		all = append(all, a.answer(question[:size])...)
		question = question[min(aligned(int(size)), len(question)):]
	}
	return all
}

func (a asker) answer(q []byte) []byte {
	kind, flags := binary.NativeEndian.Uint16(q[4:]), binary.NativeEndian.Uint16(q[6:])
	dump, body := flags&unix.NLM_F_DUMP == unix.NLM_F_DUMP, q[netlinkHeader:]
	var list []byte
	switch {
	case kind == unix.RTM_GETLINK && !dump && ofLoopback(body):
		return a.message(q, unix.RTM_NEWLINK, 0, loopbackLink())
	case kind == unix.RTM_GETLINK && !dump:
		return a.refuses(q, unix.ENODEV)
	case !asksOnly(kind):
		return a.refuses(q, unix.EPERM)
	case !dump:
		return a.refuses(q, unix.EOPNOTSUPP)
	case kind == unix.RTM_GETLINK:
		list = a.message(q, unix.RTM_NEWLINK, unix.NLM_F_MULTI, loopbackLink())
	case kind == unix.RTM_GETADDR:
		for _, p := range LoopbackAddresses {
			if family := familyOf(p); len(body) == 0 || body[0] == unix.AF_UNSPEC || body[0] == family {
				list = append(list, a.message(q, unix.RTM_NEWADDR, unix.NLM_F_MULTI, loopbackAddress(p, family))...)
			}
		}
	}
	return append(list, a.message(q, unix.NLMSG_DONE, unix.NLM_F_MULTI, make([]byte, 4))...)
}

// asksOnly reports whether a kind of request changes nothing (rtnetlink(7)): every third of
// four does, from RTM_GETLINK on.
func asksOnly(kind uint16) bool { return kind >= unix.RTM_BASE && kind&3 == unix.RTM_GETLINK&3 }

// message is one that answers q.
func (a asker) message(q []byte, kind, flags uint16, body []byte) []byte {
	m := make([]byte, netlinkHeader, aligned(netlinkHeader+len(body)))
	binary.NativeEndian.PutUint32(m, uint32(netlinkHeader+len(body)))
	binary.NativeEndian.PutUint16(m[4:], kind)
	binary.NativeEndian.PutUint16(m[6:], flags)
	copy(m[8:12], q[8:12]) // the number of the request
	binary.NativeEndian.PutUint32(m[12:], a.port)
	return append(m, body...)[:cap(m)]
}

func (a asker) refuses(q []byte, errno unix.Errno) []byte {
	body := binary.NativeEndian.AppendUint32(nil, uint32(-int32(errno)))
	return a.message(q, unix.NLMSG_ERROR, 0, append(body, q[:netlinkHeader]...))
}

// loopbackLink is a struct ifinfomsg with what programs look at.
func loopbackLink() []byte {
	const (
		flags  = unix.IFF_UP | unix.IFF_LOOPBACK | unix.IFF_RUNNING | unix.IFF_LOWER_UP
		mtu    = 1 << 16
		length = 1000 // of its queue
	)
	m := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint16(m[2:], unix.ARPHRD_LOOPBACK)
	binary.NativeEndian.PutUint32(m[4:], loopbackIndex)
	binary.NativeEndian.PutUint32(m[8:], flags)
	m = attribute(m, unix.IFLA_IFNAME, []byte("lo\x00"))
	m = attribute(m, unix.IFLA_MTU, word(mtu))
	m = attribute(m, unix.IFLA_TXQLEN, word(length))
	m = attribute(m, unix.IFLA_OPERSTATE, []byte{0})
	m = attribute(m, unix.IFLA_QDISC, []byte("noqueue\x00"))
	m = attribute(m, unix.IFLA_ADDRESS, make([]byte, 6))
	return attribute(m, unix.IFLA_BROADCAST, make([]byte, 6))
}

// loopbackAddress is a struct ifaddrmsg.
func loopbackAddress(p netip.Prefix, family byte) []byte {
	scope := byte(unix.RT_SCOPE_HOST)
	if p.Addr().IsLinkLocalUnicast() {
		scope = unix.RT_SCOPE_LINK
	}
	m := []byte{family, byte(p.Bits()), unix.IFA_F_PERMANENT, scope}
	m = append(m, word(loopbackIndex)...)
	m = attribute(m, unix.IFA_ADDRESS, p.Addr().AsSlice())
	if family == unix.AF_INET {
		m = attribute(m, unix.IFA_LOCAL, p.Addr().AsSlice())
		m = attribute(m, unix.IFA_LABEL, []byte("lo\x00"))
	}
	return attribute(m, unix.IFA_FLAGS, word(unix.IFA_F_PERMANENT))
}

func familyOf(p netip.Prefix) byte {
	if p.Addr().Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// ofLoopback reports whether a struct ifinfomsg asks for the loopback, by its index or name.
func ofLoopback(m []byte) bool {
	if len(m) < unix.SizeofIfInfomsg {
		return false
	}
	if index := binary.NativeEndian.Uint32(m[4:]); index != 0 {
		return index == loopbackIndex
	}
	for m = m[unix.SizeofIfInfomsg:]; len(m) >= unix.SizeofRtAttr; {
		size, kind := int(binary.NativeEndian.Uint16(m)), binary.NativeEndian.Uint16(m[2:])
		if size < unix.SizeofRtAttr || size > len(m) {
			return false
		}
		if kind == unix.IFLA_IFNAME {
			name, _, _ := bytes.Cut(m[unix.SizeofRtAttr:size], []byte{0})
			return string(name) == "lo"
		}
		m = m[min(aligned(size), len(m)):]
	}
	return false
}

// attribute adds a struct rtattr, with what fills it up.
func attribute(m []byte, kind uint16, value []byte) []byte {
	m = binary.NativeEndian.AppendUint16(m, uint16(unix.SizeofRtAttr+len(value)))
	m = binary.NativeEndian.AppendUint16(m, kind)
	m = append(m, value...)
	return append(m, make([]byte, aligned(len(m))-len(m))...)
}

func word(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

// aligned rounds up as netlink does (NLMSG_ALIGN, RTA_ALIGN).
func aligned(n int) int { return (n + 3) &^ 3 }
