package broker

import (
	"crypto/sha512"
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A datagram has its address in memory, which another thread exchanges after the broker has
// looked. So programs have sockets for datagrams that cannot send: they are shut down for
// writing (shutdown(2)), which the kernel checks whatever the call and the address, and
// which nothing takes back. They receive by themselves. The broker sends in their place.
//
// It hears of the calls that send by the number of the descriptor alone, which it chooses.
// Safety does not hang on that: under another number the same socket answers EPIPE, and what
// is not such a socket goes on in the kernel, as it would under another number.

const (
	// firstDatagram and datagramNumbers are the descriptors that sockets for datagrams get.
	// seccomp.Brokered has the same.
	firstDatagram   = 0xc0
	datagramNumbers = 0x40
	// maxDatagram bounds what is copied for one.
	maxDatagram = 212992
	maxVector   = 1024
	maxMessages = 16
)

// sendFlags are what may be asked for with a datagram; the rest has no meaning for one, or one
// that is not carried.
const sendFlags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL | unix.MSG_DONTROUTE | unix.MSG_CONFIRM

// datagrams makes a socket that receives.
func (c *call) datagrams(family, kind int) (s socket, errno unix.Errno) {
	if _, tried := c.b.mutes[family]; !tried {
		c.b.mutes[family] = mutes(family)
	}
	if !c.b.mutes[family] {
		return s, unix.EACCES
	}
	fd, err := mute(family, kind)
	if err != nil {
		return s, errnoOf(err)
	}
	s = socket{fd: fd, family: family, datagrams: true}
	if family == unix.AF_UNIX {
		s.sender, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	} else {
		err = c.b.admit(fd)
	}
	if err != nil {
		unix.Close(fd)
		return s, unix.EACCES
	}
	return s, 0
}

// mute makes a socket that cannot send.
func mute(family, kind int) (int, error) {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	// Without a peer it is done, and answered with ENOTCONN.
	if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil && err != unix.ENOTCONN {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// mutes tries whether this kernel lets no such socket send.
func mutes(family int) bool {
	fd, err := mute(family, unix.SOCK_DGRAM)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	s := socket{family: family}
	to := s.sockaddr(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 9))
	if family == unix.AF_UNIX {
		to = &unix.SockaddrUnix{Name: "/proc/self/none"}
	}
	return unix.Sendto(fd, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, to) == unix.EPIPE
}

// signature is a time stamp option that is full (RFC 791): the kernel carries what stands in
// it and changes nothing. Here that is a key, so that datagrams of strangers are told apart.
func (b *Broker) signature() string {
	const kind, size, beyond, prespecified = 68, 40, 41, 3
	sum := sha512.Sum512(append([]byte("datagrams\x00"), b.Network.Key...))
	return string([]byte{kind, size, beyond, prespecified}) + string(sum[:size-4])
}

// admit has the kernel drop what does not have the signature, for good.
func (b *Broker) admit(fd int) error {
	const load, equal, returns, network = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K, 0xfff00000
	const header, word = 20, 4
	text := b.signature()
	var code []unix.SockFilter
	for at := 0; at < len(text); at += word {
		code = append(code, unix.SockFilter{Code: load, K: network + header + uint32(at)},
			unix.SockFilter{Code: equal, Jt: 1, K: binary.BigEndian.Uint32([]byte(text[at:]))}, unix.SockFilter{Code: returns})
	}
	code = append(code, unix.SockFilter{Code: returns, K: ^uint32(0)})
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_LOCK_FILTER, 1)
}

// number is a free one for a socket for datagrams, or 0.
func (c *call) number() int {
	dir, errno := c.directory()
	if errno != 0 {
		return 0
	}
	var st unix.Stat_t
	for n := firstDatagram; n < firstDatagram+datagramNumbers; n++ {
		if unix.Fstatat(dir, "fd/"+strconv.Itoa(n), &st, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT {
			return n
		}
	}
	return 0
}

// duplicate gives another descriptor of a socket for datagrams, which dup(2) would give a number
// that the broker does not hear of.
func (c *call) duplicate(closeOnExec bool) reply {
	s, _, errno := c.socketOf(c.int(0))
	if errno != 0 || !s.datagrams {
		return reply{native: true}
	}
	fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fails(unix.EMFILE)
	}
	return reply{hands: true, fd: fd, at: c.number(), cloex: closeOnExec}
}

// pair gives sockets for packets in order in the place of a pair for datagrams. They have the
// same limits of what is one packet, and ignore an address.
func (c *call) pair() reply {
	if family, kind := int(c.int(0)), int(c.int(1)); family != unix.AF_UNIX || kind&^(unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK) != unix.SOCK_DGRAM {
		return fails(unix.EACCES)
	}
	flags := int(c.int(1)) & (unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK)
	if errno := c.write(c.args[3], make([]byte, 8)); errno != 0 {
		return fails(errno)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|flags, 0)
	if err != nil {
		return fails(errnoOf(err))
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	var p []byte
	for _, fd := range fds {
		n, errno := c.from.hand(c.id, fd, 0, flags&unix.SOCK_CLOEXEC != 0)
		if errno != 0 {
			return fails(errno)
		}
		p = binary.NativeEndian.AppendUint32(p, uint32(n))
	}
	return fails(c.write(c.args[3], p))
}

// bindDatagrams binds a socket of the internet to a port of the sandbox's address. It shares
// it with nobody: who shares a port of datagrams can be another user of the host.
func (b *Broker) bindDatagrams(s *socket, ino uint64, at netip.AddrPort) error {
	if s.port != 0 {
		return unix.EINVAL
	}
	for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, option, 0); err != nil {
			return err
		}
	}
	_ = b.bindsTo(*s, at.Addr())
	to := s.sockaddr(netip.AddrPortFrom(b.Network.Own, at.Port()))
	err := unix.Bind(s.fd, to)
	if err == unix.EADDRINUSE && b.sweep() {
		err = unix.Bind(s.fd, to)
	}
	if err != nil {
		return err
	}
	if bound, ok := localOf(s.fd); ok {
		s.port = bound.Port()
	}
	b.sockets[ino] = *s
	b.nameAs(*s, ino, at.Addr())
	return nil
}

// connectDatagrams has a socket receive of one address alone, and send there. What arrives is
// from 127.0.0.1 (see sendInet).
func (c *call) connectDatagrams(s socket, ino uint64, p []byte) reply {
	if binary.NativeEndian.Uint16(p) == unix.AF_UNSPEC {
		var none [16]byte
		_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(s.fd), uintptr(unsafe.Pointer(&none[0])), uintptr(len(none)))
		return fails(errno)
	}
	to, errno := c.b.datagramsTo(p)
	if errno != 0 {
		return fails(errno)
	}
	local := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if s.port == 0 {
		if err := c.b.bindDatagrams(&s, ino, netip.AddrPortFrom(local, 0)); err != nil {
			return fails(errnoOf(err))
		}
	}
	return answerOf(unix.Connect(s.fd, s.sockaddr(netip.AddrPortFrom(local, to))))
}

// datagramsTo is the port that an address means, which has to be the sandbox's own. Nobody is
// told of others: there is no way by which they could be allowed.
func (b *Broker) datagramsTo(p []byte) (uint16, unix.Errno) {
	to, ok := inet(p)
	switch {
	case !ok:
		return 0, unix.EAFNOSUPPORT
	case !b.loopback(to.Addr()):
		return 0, unix.ENETUNREACH
	case to.Port() == 0:
		return 0, unix.EINVAL
	}
	return to.Port(), 0
}

// A datagram is what a program wants to have sent.
type datagram struct {
	data  []byte
	to    []byte // a struct sockaddr; none is to the peer
	flags int
}

func (c *call) sendto() reply {
	return c.sending(func() (d datagram, errno unix.Errno) {
		d.flags = int(c.int(3))
		if c.args[4] != 0 {
			d.to, errno = c.address(c.args[4], c.uint(5))
		}
		if errno == 0 {
			d.data, errno = c.gather([]int64{int64(c.args[1]), int64(c.args[2])})
		}
		return d, errno
	})
}

func (c *call) writes() reply {
	return c.sending(func() (d datagram, errno unix.Errno) {
		d.data, errno = c.gather([]int64{int64(c.args[1]), int64(c.args[2])})
		return d, errno
	})
}

func (c *call) writesVector() reply {
	return c.sending(func() (d datagram, errno unix.Errno) {
		d.data, errno = c.gatherVector(c.args[1], uint64(c.uint(2)))
		return d, errno
	})
}

func (c *call) sendmsg() reply {
	return c.sending(func() (datagram, unix.Errno) { return c.message(c.args[1], int(c.int(2))) })
}

// sendmmsg sends some, one after the other, and waits for none: who calls it looks how many it
// were.
func (c *call) sendmmsg() reply {
	const size, length = 64, 56 // struct mmsghdr, msg_len
	n := min(uint64(c.uint(2)), maxMessages)
	if n == 0 {
		return reply{native: true}
	}
	var sent uint64
	for ; sent < n; sent++ {
		at := c.args[1] + sent*size
		r := c.sending(func() (datagram, unix.Errno) {
			d, errno := c.message(at, int(c.int(3)))
			d.flags |= unix.MSG_DONTWAIT
			return d, errno
		})
		if r.native {
			return r
		}
		if r.errno == 0 {
			r.errno = c.write(at+length, binary.NativeEndian.AppendUint32(nil, uint32(r.value)))
		}
		if r.errno != 0 && sent == 0 {
			return r
		}
		if r.errno != 0 {
			break
		}
	}
	return reply{value: int64(sent)}
}

// message reads a struct msghdr (sendmsg(2)).
func (c *call) message(addr uint64, flags int) (d datagram, errno unix.Errno) {
	h, errno := c.words(addr, 6) // name, its length, iov, their number, control, its length
	if errno != 0 {
		return d, errno
	}
	d.flags = flags
	switch {
	case h[5] != 0: // descriptors, and what would choose another way
		return d, unix.EOPNOTSUPP
	case h[0] != 0 && uint32(h[1]) != 0:
		if d.to, errno = c.address(uint64(h[0]), uint32(h[1])); errno != 0 {
			return d, errno
		}
	}
	d.data, errno = c.gatherVector(uint64(h[2]), uint64(h[3]))
	return d, errno
}

// address reads a struct sockaddr.
func (c *call) address(addr uint64, size uint32) ([]byte, unix.Errno) {
	const most = 128
	if size < 2 || size > most {
		return nil, unix.EINVAL
	}
	p := make([]byte, size)
	if c.read(addr, p) != len(p) {
		return nil, unix.EFAULT
	}
	return p, 0
}

func (c *call) gatherVector(addr, n uint64) ([]byte, unix.Errno) {
	switch {
	case n > maxVector:
		return nil, unix.EMSGSIZE
	case n == 0:
		return nil, 0
	}
	list, errno := c.words(addr, int(2*n))
	if errno != 0 {
		return nil, errno
	}
	return c.gather(list)
}

// gather reads what pairs of an address and a length are of.
func (c *call) gather(list []int64) ([]byte, unix.Errno) {
	var all []byte
	for i := 0; i < len(list); i += 2 {
		n := uint64(list[i+1])
		if n > maxDatagram || len(all)+int(n) > maxDatagram {
			return nil, unix.EMSGSIZE
		}
		p := make([]byte, n)
		if c.read(uint64(list[i]), p) != len(p) {
			return nil, unix.EFAULT
		}
		all = append(all, p...)
	}
	return all, 0
}

// sending sends what is asked for if it is by a socket for datagrams. Everything else goes on
// in the kernel: nothing that a program has says anything of its own that it may not.
func (c *call) sending(read func() (datagram, unix.Errno)) reply {
	s, ino, errno := c.socketOf(c.int(0))
	if errno != 0 || !s.datagrams {
		return reply{native: true}
	}
	d, errno := read()
	switch {
	case errno != 0:
		return fails(errno)
	case d.flags&^sendFlags != 0:
		return fails(unix.EOPNOTSUPP)
	case s.family == unix.AF_UNIX:
		return c.sendUnix(s, d)
	}
	errno = c.sendInet(s, ino, d)
	return reply{value: int64(len(d.data)), errno: errno}
}

// sendInet sends to another socket of this sandbox, from the second of its addresses, where
// no socket for datagrams receives. The receiver is told 127.0.0.1 with the sender's port, which is
// what programs call it.
func (c *call) sendInet(s socket, ino uint64, d datagram) unix.Errno {
	var port uint16
	if len(d.to) > 0 {
		to, errno := c.b.datagramsTo(d.to)
		if errno != 0 {
			return errno
		}
		port = to
	} else {
		peer, err := unix.Getpeername(s.fd)
		if err != nil {
			return unix.EDESTADDRREQ
		}
		port = uint16(portOf(peer))
	}
	if s.port == 0 {
		if err := c.b.bindDatagrams(&s, ino, netip.AddrPortFrom(netip.IPv4Unspecified(), 0)); err != nil {
			return errnoOf(err)
		}
	}
	// To a socket of ours alone: without one, a service of the host's that listens at every
	// address would have it.
	if !c.b.receives(port) {
		if len(d.to) == 0 {
			return unix.ECONNREFUSED // which the kernel would say at the next call
		}
		return 0 // lost
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return errnoOf(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, c.b.signature()); err != nil {
		return unix.EACCES
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: Own6(c.b.Network.Own).As4(), Port: int(s.port)}); err != nil {
		return errnoOf(err)
	}
	from := unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: [4]byte{127, 0, 0, 1}})
	return errno0(unix.Sendmsg(fd, d.data, from, &unix.SockaddrInet4{Addr: c.b.Network.Own.As4(), Port: int(port)}, unix.MSG_NOSIGNAL))
}

// receives reports whether a program of this sandbox has bound a port for datagrams.
func (b *Broker) receives(port uint16) bool {
	for _, s := range b.sockets {
		if s.datagrams && s.family != unix.AF_UNIX && s.port == port {
			return true
		}
	}
	return false
}

// sendUnix sends by the second socket, which has the first one's name: to its peer, or to a
// socket that connect(2) would be let reach.
func (c *call) sendUnix(s socket, d datagram) reply {
	var to unix.Sockaddr
	if len(d.to) > 0 {
		name, errno := c.unixTarget(d.to)
		if errno != 0 {
			return fails(errno)
		}
		to = &unix.SockaddrUnix{Name: name}
	}
	send := func() unix.Errno { return errno0(unix.Sendmsg(s.sender, d.data, nil, to, unix.MSG_NOSIGNAL)) }
	errno := send()
	flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	if errno != unix.EAGAIN || err != nil || flags&unix.O_NONBLOCK != 0 || d.flags&unix.MSG_DONTWAIT != 0 {
		return reply{value: int64(len(d.data)), errno: errno}
	}
	// Who receives has enough. Nothing tells when that ends but trying.
	own, err := unix.FcntlInt(uintptr(s.sender), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fails(unix.EMFILE)
	}
	if c.b.waiting.Add(1) > maxWaiting {
		c.b.waiting.Add(-1)
		unix.Close(own)
		return fails(unix.EAGAIN)
	}
	s.sender = own
	go func() {
		for errno == unix.EAGAIN && c.waits() {
			time.Sleep(time.Millisecond)
			errno = send()
		}
		unix.Close(own)
		c.b.waiting.Add(-1)
		c.finish(reply{value: int64(len(d.data)), errno: errno})
	}()
	return reply{later: true}
}

// abstractFile is the file of an abstract name of this sandbox that a program was told as the
// kernel has it.
func (b *Broker) abstractFile(name string) (string, bool) {
	file, ok := strings.CutPrefix(name, b.link(b.abstractFD)+"/")
	return file, ok && strings.HasPrefix(file, b.abstractID+"-") && !strings.Contains(file, "/")
}

func errno0(err error) unix.Errno {
	if err != nil {
		return errnoOf(err)
	}
	return 0
}
