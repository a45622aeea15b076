package broker

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/proctree"
)

// Without a network namespace the broker makes every socket of the programs', and gives
// each its address: a filter does not see addresses, and a socket cannot be taken from a
// program again (pidfd_getfd(2) is barred in containers). So it keeps a copy of each
// from socket(2) until the socket is connected or listens. Sockets for streams and packets
// in order ignore an address beside what is sent. Those for datagrams do not send: the broker
// does (see carry).

// A Network replaces the network of a sandbox that has no network namespace.
type Network struct {
	// Own is the address in 127.0.0.0/8 that stands for the sandbox's loopback. An
	// invalid one means that there is none. See Own6 for ::1.
	Own netip.Addr
	// Key signs every segment there (RFC 2385, tcp(7)): the kernel drops what is not
	// signed, so that no stranger reaches the sandbox and the sandbox no stranger.
	Key []byte
	// Proxy is where ProxyPort of the loopback leads, if it is valid.
	Proxy     netip.AddrPort
	ProxyPort uint16
	// Listed are the Unix sockets of the host that may be connected to.
	Listed []string
	// Sockets is a directory of this user's for sockets with abstract names.
	Sockets string
}

// A socket is one that a program has, with the broker's copy.
type socket struct {
	fd     int
	family int
	made   uint64 // the how manieth it is
	// bound is the address that a program has bound it to, for the kernel to choose a port
	// (see settle).
	bound netip.Addr

	datagrams bool
	// Of UDP: where the kernel has it once it is bound, whether it is for IPv6 alone, and what a
	// program has connected it to.
	at    netip.AddrPort
	only6 bool
	peer  netip.AddrPort
	box   *mailbox // of a Unix socket for datagrams
}

const (
	// maxSockets bounds the copies: beyond it those go that no program has any more.
	maxSockets = 256
)

func (c *call) socket() reply {
	family, kind, protocol := int(c.int(0)), int(c.int(1)), int(c.int(2))
	stream := kind &^ (unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK)
	internet := family == unix.AF_INET || family == unix.AF_INET6
	datagrams := internet && stream == unix.SOCK_DGRAM && (protocol == 0 || protocol == unix.IPPROTO_UDP)
	post := family == unix.AF_UNIX && stream == unix.SOCK_DGRAM && c.b.abstractFD != 0
	switch {
	case family == unix.AF_NETLINK && (stream == unix.SOCK_RAW || stream == unix.SOCK_DGRAM) && protocol == unix.NETLINK_ROUTE:
		return c.asking(kind)
	case family == unix.AF_UNIX && (stream == unix.SOCK_STREAM || stream == unix.SOCK_SEQPACKET) || post:
	case !datagrams && (!internet || stream != unix.SOCK_STREAM || protocol != 0 && protocol != unix.IPPROTO_TCP):
		return fails(unix.EACCES)
	case !c.b.Network.Own.IsValid():
		return fails(unix.EACCES)
	}
	if len(c.b.sockets) >= maxSockets && !c.b.room(datagrams || post) {
		return fails(unix.EMFILE)
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return fails(errnoOf(err))
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return fails(errnoOf(err))
	}
	var box *mailbox
	switch {
	case datagrams:
		err = c.b.quiet(fd, family)
	case post:
		box, err = c.b.newMailbox(fd)
	case internet:
		err = c.b.sign(fd, family)
	}
	if err != nil {
		unix.Close(fd)
		return fails(unix.EACCES)
	}
	keep, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		unix.Close(fd)
		box.close(c.b)
		return fails(unix.EMFILE)
	}
	c.b.forget(st.Ino)
	c.b.unname(st.Ino)
	c.b.count++
	c.b.sockets[st.Ino] = socket{fd: keep, family: family, made: c.b.count, datagrams: datagrams || post, box: box}
	r := reply{hands: true, fd: fd, cloex: kind&unix.SOCK_CLOEXEC != 0, undo: func() { c.b.forget(st.Ino) }}
	if datagrams || post {
		r.number = c.sendingNumber()
	}
	return r
}

// forget drops the copy of a socket.
func (b *Broker) forget(ino uint64) {
	if s, ok := b.sockets[ino]; ok {
		unix.Close(s.fd)
		s.box.close(b)
		delete(b.sockets, ino)
	}
}

// sign has every segment of a socket signed, and takes none that is not.
func (b *Broker) sign(fd, family int) error { return SetKey(fd, family, b.Network.Key) }

// SetKey lays a key on a TCP socket, for every peer of IPv4, which is all that a sandbox
// has (struct tcp_md5sig, linux/tcp.h).
func SetKey(fd, family int, key []byte) error {
	const (
		option     = 32 // TCP_MD5SIG_EXT
		flagPrefix = 1  // TCP_MD5SIG_FLAG_PREFIX; the prefix is of length 0
		maxKey     = 80
	)
	var sig struct {
		addr      [128]byte // struct sockaddr_storage
		flags     uint8
		prefixLen uint8
		keyLen    uint16
		index     int32
		key       [maxKey]byte
	}
	if len(key) == 0 || len(key) > maxKey {
		return unix.EINVAL
	}
	binary.NativeEndian.PutUint16(sig.addr[:], uint16(family))
	if family == unix.AF_INET6 { // ::ffff:0:0/96: the peers of IPv4
		sig.addr[18], sig.addr[19] = 0xff, 0xff
	}
	sig.flags, sig.keyLen = flagPrefix, uint16(len(key))
	copy(sig.key[:], key)
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.IPPROTO_TCP, option, uintptr(unsafe.Pointer(&sig)), unsafe.Sizeof(sig), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// socketOf gives the broker's copy of the socket that a descriptor of the thread's is of.
func (c *call) socketOf(n int32) (s socket, ino uint64, errno unix.Errno) {
	fd, errno := c.descriptor(n)
	if errno != 0 {
		return s, 0, errno
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return s, 0, errnoOf(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return s, 0, unix.ENOTSOCK
	}
	return c.b.sockets[st.Ino], st.Ino, 0
}

// addressed gives the socket that a call is about, and the struct sockaddr that it is called
// with.
func (c *call) addressed() (s socket, ino uint64, p []byte, errno unix.Errno) {
	if s, ino, errno = c.socketOf(c.int(0)); errno != 0 {
		return s, 0, nil, errno
	}
	const most = 128
	size := c.int(2)
	if size < 2 || size > most {
		return s, 0, nil, unix.EINVAL
	}
	p = make([]byte, size)
	if c.read(c.args[1], p) != len(p) {
		return s, 0, nil, unix.EFAULT
	}
	return s, ino, p, 0
}

// inet reads an address of the internet.
func inet(p []byte) (netip.AddrPort, bool) {
	switch family := binary.NativeEndian.Uint16(p); {
	case family == unix.AF_INET && len(p) >= 16:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(p[4:8])), binary.BigEndian.Uint16(p[2:])), true
	case family == unix.AF_INET6 && len(p) >= 28:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(p[8:24])).Unmap(), binary.BigEndian.Uint16(p[2:])), true
	}
	return netip.AddrPort{}, false
}

func (s socket) sockaddr(at netip.AddrPort) unix.Sockaddr {
	if s.family == unix.AF_INET6 {
		return &unix.SockaddrInet6{Port: int(at.Port()), Addr: netip.AddrFrom16(at.Addr().As16()).As16()}
	}
	return &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
}

// Own6 is the address that stands for ::1 where own stands for 127.0.0.1: a port can be
// listened at on each of them by a socket of its own, as servers at "localhost" do. It is of
// IPv4, because the signatures of IPv6 would be another protocol of the kernel's.
func Own6(own netip.Addr) netip.Addr {
	a := own.As4()
	a[3] |= 1
	return netip.AddrFrom4(a)
}

// bindsTo is the address that a socket is bound to for a loopback address. One for both
// protocols has that of IPv4, at which those who connect to ::1 look as well.
func (b *Broker) bindsTo(s socket, to netip.Addr) netip.Addr {
	only := 0
	if s.family == unix.AF_INET6 {
		only, _ = unix.GetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
		// Addresses of IPv4 are refused with it. Where it cannot be set, the bind tells.
		_ = unix.SetsockoptInt(s.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if own6 := Own6(b.Network.Own); only != 0 || to == netip.IPv6Loopback() || to == own6 {
		return own6
	}
	return b.Network.Own
}

// listensAt is the address at which a program that connects to a loopback address finds who
// listens there.
func (b *Broker) listensAt(to netip.AddrPort) netip.AddrPort {
	at := netip.AddrPortFrom(Own6(b.Network.Own), to.Port())
	if to.Addr() == at.Addr() || to.Addr().Is6() && b.Diag.listening(at) {
		return at
	}
	return netip.AddrPortFrom(b.Network.Own, to.Port())
}

// loopback reports whether an address is this sandbox's own, under any of its names.
func (b *Broker) loopback(a netip.Addr) bool {
	return a.IsUnspecified() || a == b.Network.Own || a == Own6(b.Network.Own) ||
		slices.ContainsFunc(LoopbackAddresses, func(p netip.Prefix) bool { return p.Addr() == a })
}

func (c *call) connect() reply {
	s, ino, p, errno := c.addressed()
	switch {
	case errno != 0:
		return fails(errno)
	case s.fd == 0 && c.ofNetlink(ino, p):
		return reply{}
	case s.fd == 0: // one of a pair, accepted, or connected before
		return fails(unix.EISCONN)
	case s.box != nil:
		return c.connectMailbox(s, ino, p)
	case s.family == unix.AF_UNIX:
		return c.connectUnix(s, ino, p)
	case s.datagrams:
		return c.connectDatagrams(s, ino, p)
	}
	to, ok := inet(p)
	if !ok {
		return fails(unix.EAFNOSUPPORT)
	}
	asked := to
	switch {
	case !c.b.loopback(to.Addr()):
		c.b.refuse(Refusal{"connect", to.String(), Outside})
		return fails(unix.ENETUNREACH)
	case to.Port() == c.b.Network.ProxyPort && c.b.Network.Proxy.IsValid():
		to = c.b.Network.Proxy
	default:
		to = c.b.listensAt(to)
		if !c.b.Diag.listening(to) {
			return fails(unix.ECONNREFUSED)
		}
	}
	return c.connecting(s, ino, s.sockaddr(to), func(fd int) { c.b.connected(fd, ino, asked, to) })
}

// connecting connects, has note take notice of that, and lets go of the copy. What may wait
// does so in a thread of its own.
func (c *call) connecting(s socket, ino uint64, to unix.Sockaddr, note func(fd int)) reply {
	flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	if err != nil {
		return fails(errnoOf(err))
	}
	local := s.family == unix.AF_UNIX
	if blocks := flags&unix.O_NONBLOCK == 0; !blocks || local {
		// From this thread, if it need not wait: to Landlock another one is another domain
		// (before ABI 8), which reaches no abstract name of this one's.
		if blocks {
			_, err = unix.FcntlInt(uintptr(s.fd), unix.F_SETFL, flags|unix.O_NONBLOCK)
		}
		if err == nil {
			err = connectNow(s.fd, to)
		}
		if blocks {
			_, _ = unix.FcntlInt(uintptr(s.fd), unix.F_SETFL, flags) // as it was a moment ago
		}
		if err == nil || err == unix.EINPROGRESS {
			note(s.fd)
			c.b.forget(ino)
		}
		if !blocks || err != unix.EAGAIN { // EAGAIN: who listens has enough who wait
			return answerOf(err)
		}
	}
	own, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fails(unix.EMFILE)
	}
	if c.b.waiting.Add(1) > maxWaiting {
		c.b.waiting.Add(-1)
		unix.Close(own)
		return fails(unix.EAGAIN)
	}
	c.b.forget(ino)
	go func() {
		err := unix.Connect(own, to)
		if err == nil {
			c.b.guard(func() { note(own) })
		}
		unix.Close(own)
		c.b.waiting.Add(-1)
		c.finish(answerOf(err))
	}()
	return reply{later: true}
}

// connectNow connects and does not wait, whatever becomes of O_NONBLOCK meanwhile: a
// program has the same open file description, and can clear the flag. The listener
// could then hold up the whole broker for as long as it likes. So a connect that takes
// long is set right and interrupted until it returns.
func connectNow(fd int, to unix.Sockaddr) error {
	thread, done := unix.Gettid(), make(chan struct{})
	watch := time.AfterFunc(10*time.Millisecond, func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil {
				_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_NONBLOCK)
			}
			// The runtime's own signal: its handler does nothing else, and has the call made again.
			_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
			time.Sleep(time.Millisecond)
		}
	})
	err := unix.Connect(fd, to)
	close(done)
	watch.Stop()
	if err == unix.EALREADY { // made again
		err = unix.EINPROGRESS
	}
	return err
}

func answerOf(err error) reply {
	if err != nil {
		return fails(errnoOf(err))
	}
	return reply{}
}

// Listening reports whether a socket listens at an address of IPv4, by the kernel's
// table (proc_net_tcp.txt). Who connects with a key would else wait for an answer: the
// kernel's refusal is not signed.
func Listening(at netip.AddrPort) bool {
	for _, table := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		a := at.Addr().As4()
		v4 := binary.NativeEndian.Uint32(a[:])
		want := fmt.Sprintf("%08X:%04X", v4, at.Port())
		mapped := fmt.Sprintf("0000000000000000FFFF0000%08X:%04X", v4, at.Port())
		for line := range bytes.Lines(text) {
			f := bytes.Fields(line)
			const listen = "0A"
			if len(f) > 3 && string(f[3]) == listen && (string(f[1]) == want || string(f[1]) == mapped) {
				return true
			}
		}
	}
	return false
}

func (c *call) bind() reply {
	s, ino, p, errno := c.addressed()
	switch {
	case errno != 0:
		return fails(errno)
	case s.fd == 0 && c.ofNetlink(ino, p):
		return reply{}
	case s.fd == 0:
		return fails(unix.EINVAL) // bound, or connected, before
	case s.box != nil:
		return c.bindMailbox(s, ino, p)
	case s.family == unix.AF_UNIX:
		return c.bindUnix(s, p)
	}
	at, ok := inet(p)
	if !ok {
		return fails(unix.EAFNOSUPPORT)
	}
	if !c.b.loopback(at.Addr()) {
		return fails(unix.EADDRNOTAVAIL)
	}
	if s.datagrams {
		return c.bindDatagrams(s, ino, at)
	}
	if s.bound.IsValid() {
		return fails(unix.EINVAL)
	}
	if at.Port() == 0 {
		if a, err := unix.Getsockname(s.fd); err != nil || portOf(a) != 0 {
			return fails(unix.EINVAL)
		}
		s.bound = at.Addr()
		c.b.sockets[ino] = s
		return reply{}
	}
	to := s.sockaddr(netip.AddrPortFrom(c.b.bindsTo(s, at.Addr()), at.Port()))
	err := unix.Bind(s.fd, to)
	if err == unix.EADDRINUSE && c.b.sweep() { // the copy of a socket that a program has closed
		err = unix.Bind(s.fd, to)
	}
	if err == nil {
		c.b.nameAs(s, ino, at.Addr())
	}
	return answerOf(err)
}

// settle has the kernel choose a port for a socket that was bound without one. It is done
// when a program asks, or listens. A socket that is connected instead has the address
// 127.0.0.1, like sockets that were not bound, and a server does not see the sandbox's own.
func (b *Broker) settle(s socket, ino uint64) error {
	if !s.bound.IsValid() {
		return nil
	}
	if err := unix.Bind(s.fd, s.sockaddr(netip.AddrPortFrom(b.bindsTo(s, s.bound), 0))); err != nil {
		return err
	}
	b.nameAs(s, ino, s.bound)
	s.bound = netip.Addr{}
	b.sockets[ino] = s
	return nil
}

// unixNameOf is the name that a Unix socket of the broker's own is bound to.
func unixNameOf(fd int) (string, bool) {
	at, err := unix.Getsockname(fd)
	if err != nil {
		return "", false
	}
	a, ok := at.(*unix.SockaddrUnix)
	if !ok {
		return "", false
	}
	return a.Name, a.Name != ""
}

func (c *call) listen() reply {
	s, ino, errno := c.socketOf(c.int(0))
	if errno != 0 {
		return fails(errno)
	}
	if s.fd == 0 {
		if c.b.listened[ino] {
			return reply{} // its backlog stays
		}
		return fails(unix.EINVAL)
	}
	if s.datagrams {
		return fails(unix.EOPNOTSUPP)
	}
	if s.family == unix.AF_UNIX {
		// With SO_PASSCRED a connect that fails leaves a name of the kernel's choice, which
		// everybody of the network namespace reaches (unix(7), Autobind feature).
		if bound, ok := unixNameOf(s.fd); !ok || strings.HasPrefix(bound, "@") {
			return fails(unix.EINVAL)
		}
	} else {
		bound, err := unix.Getsockname(s.fd)
		if err == nil && portOf(bound) == 0 { // the kernel would listen everywhere
			if !s.bound.IsValid() {
				s.bound = netip.IPv4Unspecified()
				if s.family == unix.AF_INET6 {
					s.bound = netip.IPv6Unspecified()
				}
			}
			err = c.b.settle(s, ino)
		}
		if err != nil {
			return fails(errnoOf(err))
		}
	}
	if err := unix.Listen(s.fd, int(c.int(1))); err != nil {
		return fails(errnoOf(err))
	}
	c.b.forget(ino)
	remember(c.b.listened, ino, true)
	return reply{}
}

func portOf(a unix.Sockaddr) int {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return 0
}

// unixName reads the path of a struct sockaddr_un, and whether it is an abstract name.
func unixName(p []byte) (name string, abstract, ok bool) {
	if binary.NativeEndian.Uint16(p) != unix.AF_UNIX || len(p) <= 2 {
		return "", false, false
	}
	p = p[2:]
	if p[0] == 0 {
		return string(p[1:]), true, true
	}
	text, _, _ := bytes.Cut(p, []byte{0})
	return string(text), false, true
}

// abstract is the file that stands for an abstract name of the sandbox. The kernel's own are
// everybody's: other users of the host can list and connect to them. This one lies in a
// directory of this sandbox's broker alone.
func (b *Broker) abstract(name string) string {
	sum := sha256.Sum256([]byte(name))
	return b.abstractID + "-" + hex.EncodeToString(sum[:])[:32]
}

// bindAbstract binds a socket to an abstract name. Such a name goes with its last socket, a
// file does not: one without a socket is removed.
func (c *call) bindAbstract(fd int, name string) error {
	file := c.b.abstract(name)
	at := &unix.SockaddrUnix{Name: linkOf(c.b.abstractFD) + "/" + file}
	err := unix.Bind(fd, at)
	if err != unix.EADDRINUSE {
		return err
	}
	c.b.sweep() // the copy of a socket that a program has closed
	table, err := os.ReadFile("/proc/thread-self/net/unix")
	if err != nil || bytes.Contains(table, []byte("/"+file+"\n")) {
		return unix.EADDRINUSE
	}
	if err := unix.Unlinkat(c.b.abstractFD, file, 0); err != nil {
		return err
	}
	return unix.Bind(fd, at)
}

func (c *call) bindUnix(s socket, p []byte) reply {
	name, abstract, ok := unixName(p)
	switch {
	case !ok:
		return fails(unix.EINVAL)
	case abstract:
		return answerOf(c.bindAbstract(s.fd, name))
	}
	return c.b.locked(func() reply {
		w := &walk{call: c}
		errno := c.appears(w, cwd, name, strings.HasSuffix(name, "/"), func(at location, full string) unix.Errno {
			if at.last != at.name() {
				return unix.EADDRINUSE
			}
			return c.bindTo(w, s, name, at, full)
		})
		if errno == unix.EEXIST {
			errno = unix.EADDRINUSE
		}
		return fails(errno)
	})
}

func (c *call) bindTo(w *walk, s socket, name string, at location, full string) unix.Errno {
	pool := c.b.poolEntry(full)
	if pool == nil {
		if errno := c.judgeNew(at, full); errno != 0 {
			return errno
		}
	}
	return c.creating(full, func() error {
		if err := w.bindAt(s.fd, name, at); err != nil {
			return err
		}
		var st unix.Stat_t
		err := unix.Fstatat(at.dir, at.name(), &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && pool != nil {
			err = pool.note(at.name(), &st)
		}
		if err != nil {
			unix.Unlinkat(at.dir, at.name(), 0) // nobody would know it for this sandbox's
			return err
		}
		c.b.bound.add(&st, at.dir, at.name())
		c.socketFile = birth{idOf(&st), born(at.dir, at.name())}
		return nil
	})
}

// bindAt binds a socket at a place that was judged, by the name that the program gave if
// that leads there: getsockname(2) gives it to everybody. The queue for names is held.
func (w *walk) bindAt(fd int, name string, at location) error {
	here, errno := w.base(unix.AT_FDCWD, "")
	if errno == 0 && name[0] != '@' && w.leadsTo(here, path.Dir(name), at.dir) {
		if err := unix.Fchdir(here); err != nil {
			return err
		}
		defer unix.Fchdir(w.b.rootFD)
		return unix.Bind(fd, &unix.SockaddrUnix{Name: name})
	}
	return unix.Bind(fd, &unix.SockaddrUnix{Name: linkOf(at.dir) + "/" + at.name()})
}

// leadsTo reports whether a path leads the broker, too, to a directory.
func (w *walk) leadsTo(base int, name string, dir int) bool {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(base, name, &how)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var one, other unix.Stat_t
	return unix.Fstat(fd, &one) == nil && unix.Fstat(dir, &other) == nil && idOf(&one) == idOf(&other)
}

// connectUnix connects to a socket that this sandbox has made, or that is listed.
func (c *call) connectUnix(s socket, ino uint64, p []byte) reply {
	name, abstract, ok := unixName(p)
	switch {
	case !ok:
		return fails(unix.EINVAL)
	case abstract:
		file := c.b.abstract(name)
		if unix.Faccessat(c.b.abstractFD, file, unix.F_OK, 0) != nil {
			return fails(unix.ECONNREFUSED)
		}
		return c.connecting(s, ino, &unix.SockaddrUnix{Name: linkOf(c.b.abstractFD) + "/" + file}, func(int) {})
	}
	w := walk{call: c}
	t, errno := w.find(cwd, name, true)
	switch {
	case errno != 0:
		return fails(errno)
	case t.kind() != unix.S_IFSOCK:
		return fails(unix.ECONNREFUSED)
	case !c.b.bound.has(&t.st, t.fd, "") && !slices.Contains(c.b.Network.Listed, t.full):
		c.b.refuse(Refusal{"connect", t.full, Outside})
		return fails(unix.EACCES)
	}
	// By the descriptor that was judged, which stays until the answer.
	return c.connecting(s, ino, &unix.SockaddrUnix{Name: linkOf(t.fd)}, func(int) {})
}

// room makes some for another copy. If many come too fast to find out which program has
// which, the oldest goes: its program can no longer connect it. Those of sockets for datagrams
// stay, and none comes in their place: each has a port of the host's.
func (b *Broker) room(datagrams bool) bool {
	if !time.Now().Before(b.swept) {
		return b.sweep()
	}
	var oldest uint64
	for ino, s := range b.sockets {
		if was, ok := b.sockets[oldest]; !s.datagrams && (!ok || s.made < was.made) {
			oldest = ino
		}
	}
	if datagrams || oldest == 0 {
		return false
	}
	b.forget(oldest)
	return true
}

// sweep drops the copies of sockets that no program has any more, and reports whether
// there were any.
func (b *Broker) sweep() bool {
	start := time.Now()
	if start.Before(b.swept) {
		return false
	}
	// Looking takes as long as programs have descriptors: it is a tenth of the time at most.
	defer func() { b.swept = time.Now().Add(10 * time.Since(start)) }()
	had := map[uint64]bool{}
	for _, pid := range b.Processes() {
		dir := proctree.Shown(strconv.Itoa(pid)) + "/fd"
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			var ino uint64
			if target, err := os.Readlink(dir + "/" + e.Name()); err == nil {
				if _, err := fmt.Sscanf(target, "socket:[%d]", &ino); err == nil {
					had[ino] = true
				}
			}
		}
	}
	some := false
	for ino := range b.sockets {
		if !had[ino] {
			b.forget(ino)
			some = true
		}
	}
	return some
}
