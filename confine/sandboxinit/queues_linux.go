package sandboxinit

import (
	"encoding/binary"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/broker"
)

// What waits in sockets is memory that no process shows: each holds up to some hundred
// kilobytes (net.core.wmem_max), a TCP connection some megabytes, and a program may have
// thousands. The kernel tells of each socket of the network namespace what it holds, to
// everybody (sock_diag(7)).

// queueMost is about what one socket holds of a program that sets nothing.
const queueMost = 512 << 10

// queues asks the kernel what sockets hold.
type queues struct {
	fd  int // of NETLINK_SOCK_DIAG
	buf []byte
	one broker.Diag // the same question about one socket
}

// newQueues opens sockets that a filter later forbids; nil where they do not exist. Then
// what sockets hold is bounded by descriptors and processes only. brokered says that there
// is a broker, which asks too.
func newQueues(brokered bool) *queues {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil
	}
	// A dump that does not come delays nothing.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
		unix.Close(fd)
		return nil
	}
	q := &queues{fd: fd}
	if brokered {
		q.one = broker.NewDiag()
	}
	return q
}

// diag is the query that a broker makes.
func (q *queues) diag() broker.Diag {
	if q == nil {
		return broker.Diag{}
	}
	return q.one
}

// held sums what the sockets with these inodes hold, and what connections hold whose other end has
// no owner: a sender that was closed keeps what its peer does not receive, and a connection that
// was not accepted yet belongs to the listener. No descriptor shows either. For Unix sockets that
// were not accepted, and whose sender has closed, the kernel reports only how many there are. Of some it
// reports nothing: above all those of TCP that were reset, which keep what they received.
func (q *queues) held(sockets map[uint64]bool) (total, closed, silent int64) {
	if q == nil || len(sockets) == 0 {
		return 0, 0, int64(len(sockets))
	}
	silent = int64(len(sockets))
	if q.buf == nil { // most sandboxes never get here
		q.buf = make([]byte, 32<<10)
	}
	q.dump(unixRequest(), func(b []byte) {
		if s := unixQueue(b); sockets[uint64(s.ino)] {
			total, closed, silent = total+s.held, closed+s.closed, silent-1
		}
	})
	netlink(func(ino uint64, held int64) {
		if sockets[ino] {
			total, silent = total+held, silent-1
		}
	})
	nobodys, ends := []inetSocket{}, map[connection]bool{}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		for _, protocol := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
			q.dump(inetRequest(family, protocol), func(b []byte) {
				switch s := inetQueue(b); {
				case sockets[uint64(s.ino)]:
					total, silent = total+s.held, silent-1
					if s.listens || s.remote.Addr().IsValid() {
						ends[s.connection] = true
					}
				case s.ino == 0 && s.held > 0:
					nobodys = append(nobodys, s)
				}
			})
		}
	}
	for range 2 { // both ends of one may be nobody's, where nobody accepts
		nobodys = slices.DeleteFunc(nobodys, func(s inetSocket) bool {
			listener := connection{local: s.local}
			anywhere := connection{local: netip.AddrPortFrom(netip.Addr{}, s.local.Port())}
			ours := ends[connection{s.remote, s.local}] || ends[listener] || ends[anywhere]
			if ours {
				total += s.held
				ends[s.connection] = true
			}
			return ours
		})
	}
	return total, closed, silent
}

// The kernel's linux/sock_diag.h, linux/unix_diag.h and linux/inet_diag.h.
const (
	sockDiagByFamily = 20

	unixShow        = 0x4 | 0x8 | 0x10 | 0x20 // peer, what waits to be accepted, lengths of queues, memory
	unixMessage     = 16                      // struct unix_diag_msg
	unixPeer        = 2
	unixWaiting     = 3
	unixQueueLength = 4
	unixMemory      = 5

	inetMessage = 72 // struct inet_diag_msg
	inetID      = 4  // its struct inet_diag_sockid
	inetInode   = 68
	inetMemory  = 7

	stateListen = 10 // TCP_LISTEN
)

func unixRequest() []byte {
	b := make([]byte, 24)
	b[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(b[4:], ^uint32(0)) // every state
	binary.NativeEndian.PutUint32(b[12:], unixShow)
	return b
}

func inetRequest(family, protocol byte) []byte {
	b := make([]byte, 56)
	b[0], b[1], b[2] = family, protocol, 1<<(inetMemory-1)
	binary.NativeEndian.PutUint32(b[4:], ^uint32(0))
	return b
}

// A unixSocket is the kernel's report about one. closed are the connections to it that were
// not accepted and whose other end is closed.
type unixSocket struct {
	ino          uint32
	held, closed int64
}

// unixQueue gives what a socket holds. What it has sent counts for it until
// that is received; what a peer has sent that is closed by now counts for the receiver, with
// about as much again for the kernel's own.
func unixQueue(b []byte) (s unixSocket) {
	if len(b) < unixMessage {
		return s
	}
	peer, waiting := uint32(0), int64(0)
	attributes(b[unixMessage:], func(kind uint16, value []byte) {
		switch {
		case kind == unixWaiting:
			for ; len(value) >= 4; value = value[4:] {
				if binary.NativeEndian.Uint32(value) == 0 {
					s.closed++
				}
			}
		case kind == unixPeer && len(value) >= 4:
			peer = binary.NativeEndian.Uint32(value)
		case kind == unixQueueLength && len(value) >= 4:
			waiting = int64(binary.NativeEndian.Uint32(value))
		case kind == unixMemory:
			s.held += memoryOf(value)
		}
	})
	const established = 1 // what listens has a length in connections
	if peer == 0 && b[2] == established {
		s.held += 2 * waiting
	}
	s.ino = binary.NativeEndian.Uint32(b[4:])
	return s
}

// netlink hands over the sockets of netlink(7) of this network namespace, with what waits in them.
func netlink(each func(ino uint64, held int64)) {
	table, _ := os.ReadFile("/proc/net/netlink")
	for line := range strings.Lines(string(table)) {
		const received, sent, inode = 4, 5, 9 // Rmem, Wmem, Inode
		if f := strings.Fields(line); len(f) > inode {
			each(uint64(decimal(f[inode])), decimal(f[received])+decimal(f[sent]))
		}
	}
}

// A connection is both ends of one. What listens has no remote end, and one that does so at
// every address no local address either.
type connection struct{ local, remote netip.AddrPort }

type inetSocket struct {
	connection
	ino     uint32 // 0: no descriptor shows it
	listens bool
	held    int64
}

func inetQueue(b []byte) (s inetSocket) {
	if len(b) < inetMessage {
		return s
	}
	attributes(b[inetMessage:], func(kind uint16, value []byte) {
		if kind == inetMemory {
			s.held += memoryOf(value)
		}
	})
	s.ino = binary.NativeEndian.Uint32(b[inetInode:])
	end := func(port, address int) netip.AddrPort {
		size := 4
		if b[0] == unix.AF_INET6 {
			size = 16
		}
		addr, _ := netip.AddrFromSlice(b[inetID+address : inetID+address+size])
		if addr.IsUnspecified() {
			addr = netip.Addr{}
		}
		return netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(b[inetID+port:]))
	}
	s.local, s.remote = end(0, 4), end(2, 20)
	s.listens = b[1] == stateListen
	return s
}

// memoryOf sums what is allocated for receiving and sending, by enum SK_MEMINFO_*.
func memoryOf(value []byte) int64 {
	const received, sent, forward, queued, options = 0, 2, 4, 5, 6
	at := func(i int) int64 {
		if len(value) < 4*i+4 {
			return 0
		}
		return int64(binary.NativeEndian.Uint32(value[4*i:]))
	}
	// Of a filter (SO_ATTACH_FILTER) the kernel counts the program that it has made, and keeps the one that it was given too.
	return at(received) + max(at(sent), at(queued)) + at(forward) + 2*at(options)
}

// dump sends one request and hands each answer over.
func (q *queues) dump(request []byte, each func([]byte)) {
	message := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(request))
	binary.NativeEndian.PutUint32(message[0:], uint32(cap(message)))
	binary.NativeEndian.PutUint16(message[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(message[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	if err := unix.Sendto(q.fd, append(message, request...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return
	}
	for {
		n, _, err := unix.Recvfrom(q.fd, q.buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil || !messages(q.buf[:n], each) {
			return
		}
	}
}

// messages hands over what a datagram of netlink(7) holds, and reports whether more is to come.
func messages(b []byte, each func([]byte)) bool {
	for len(b) >= unix.NLMSG_HDRLEN {
		length, kind := int(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint16(b[4:])
		if kind == unix.NLMSG_DONE || kind == unix.NLMSG_ERROR || length < unix.NLMSG_HDRLEN || length > len(b) {
			return false
		}
		each(b[unix.NLMSG_HDRLEN:length])
		b = b[min((length+3)&^3, len(b)):]
	}
	return true
}

// attributes hands over what follows a message.
func attributes(b []byte, each func(kind uint16, value []byte)) {
	for len(b) >= unix.SizeofRtAttr {
		length, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
		if length < unix.SizeofRtAttr || length > len(b) {
			return
		}
		each(kind, b[unix.SizeofRtAttr:length])
		b = b[min((length+3)&^3, len(b)):]
	}
}
