package broker

import (
	"encoding/binary"
	"strconv"

	"golang.org/x/sys/unix"
)

// The calls that send. Those of a socket that is not for datagrams go on in the kernel, and so does a call whose
// descriptor becomes another one meanwhile: no socket of a program's sends a datagram, whatever the call. To notify the
// broker of each write(2) would make all programs slower, so sockets for datagrams have numbers in a range that the filter
// knows. A copy with another number sends by sendto(2) with an address alone.

const (
	// FirstSending to LastSending are the numbers, the last that select(2) takes. A program that has as
	// many descriptors of other kinds has one elsewhere.
	FirstSending, LastSending = 768, 1023

	maxPieces   = 1024      // UIO_MAXIOV
	maxMessage  = 208 << 10 // of a Unix socket, as wmem_max usually is
	maxMessages = 64        // of sendmmsg(2), which may send fewer than it is given
	messageSize = 56        // struct msghdr
)

// A message is one datagram.
type message struct {
	to    []byte // a struct sockaddr; nil for the peer
	data  []byte
	flags int
}

// sendingNumber is a free number in the range, 0 if there is none. The kernel gives the lowest that is free, so it gives
// none of these while a lower one is.
func (c *call) sendingNumber() int {
	if text, ok := c.field("limits", "Max open files "); !ok || !allows(text, LastSending) {
		return 0
	}
	free := func(n int) bool {
		var buf [1]byte
		_, err := unix.Readlinkat(c.proc, "fd/"+strconv.Itoa(n), buf[:])
		return err == unix.ENOENT
	}
	if !free(FirstSending - 1) {
		return 0
	}
	for n := LastSending; n >= FirstSending; n-- {
		if free(n) {
			return n
		}
	}
	return 0
}

// allows reports whether a limit of /proc/TID/limits is more than n.
func allows(limits string, n int) bool {
	soft := limits
	for i, r := range limits {
		if r == ' ' {
			soft = limits[:i]
			break
		}
	}
	most, err := strconv.Atoi(soft)
	return soft == "unlimited" || err == nil && most > n
}

// datagramsOf gives the socket that a call sends by, if it is one for datagrams.
func (c *call) datagramsOf() (s socket, ino uint64, ok bool) {
	s, ino, errno := c.socketOf(c.int(0))
	return s, ino, errno == 0 && s.datagrams
}

// sent answers a call that sends one message.
func (c *call) sent(s socket, ino uint64, m message, errno unix.Errno) reply {
	if errno == 0 {
		errno = c.carry(s, ino, m)
	}
	switch errno {
	case 0:
		return reply{value: int64(len(m.data))}
	case answeredLater:
		return reply{later: true}
	}
	return fails(errno)
}

func (c *call) sendTo() reply {
	s, ino, ok := c.datagramsOf()
	if !ok {
		return c.send()
	}
	m := message{flags: int(c.int(3))}
	errno := c.addressTo(&m, c.args[4], c.uint(5))
	if errno == 0 {
		m.data, errno = c.bytes(nil, c.args[1], c.args[2])
	}
	return c.sent(s, ino, m, errno)
}

func (c *call) writeTo() reply {
	s, ino, ok := c.datagramsOf()
	if !ok {
		return reply{native: true}
	}
	data, errno := c.bytes(nil, c.args[1], c.args[2])
	return c.sent(s, ino, message{data: data}, errno)
}

func (c *call) writeVector() reply {
	s, ino, ok := c.datagramsOf()
	if !ok {
		return reply{native: true}
	}
	data, errno := c.pieces(c.args[1], c.args[2])
	return c.sent(s, ino, message{data: data}, errno)
}

func (c *call) sendMessage() reply {
	s, ino, ok := c.datagramsOf()
	if !ok {
		return reply{native: true}
	}
	m, errno := c.message(c.args[1], int(c.int(2)))
	return c.sent(s, ino, m, errno)
}

// sendMessages is sendmmsg(2), with a length behind each struct msghdr.
func (c *call) sendMessages() reply {
	s, ino, ok := c.datagramsOf()
	if !ok {
		return reply{native: true}
	}
	n := int64(0)
	for ; n < int64(min(c.uint(2), maxMessages)); n++ {
		at := c.args[1] + uint64(n)*(messageSize+8)
		m, errno := c.message(at, int(c.int(3))|unix.MSG_DONTWAIT)
		if errno == 0 {
			errno = c.carry(s, ino, m)
		}
		if errno == 0 {
			var size [4]byte
			binary.NativeEndian.PutUint32(size[:], uint32(len(m.data)))
			errno = c.write(at+messageSize, size[:])
		}
		if errno != 0 && n == 0 {
			return fails(errno)
		} else if errno != 0 {
			break
		}
		s = c.b.sockets[ino] // it may have got a port
	}
	return reply{value: n}
}

// message reads a struct msghdr. Of what goes beside a datagram, the kinds that say how a packet travels are left out:
// this one does not leave the machine. Others, such as descriptors, are refused.
func (c *call) message(at uint64, flags int) (m message, errno unix.Errno) {
	head, errno := c.words(at, messageSize/8)
	if errno != 0 {
		return m, errno
	}
	m.flags = flags
	if errno := c.addressTo(&m, uint64(head[0]), uint32(head[1])); errno != 0 {
		return m, errno
	}
	if control := uint64(head[5]); control != 0 && head[4] != 0 {
		const most = 1 << 10
		if control > most {
			return m, unix.ENOBUFS
		}
		p := make([]byte, control)
		if c.read(uint64(head[4]), p) != len(p) {
			return m, unix.EFAULT
		}
		list, err := unix.ParseSocketControlMessage(p)
		if err != nil {
			return m, unix.EINVAL
		}
		for _, x := range list {
			switch level, kind := int(x.Header.Level), int(x.Header.Type); {
			case level == unix.IPPROTO_IP && (kind == unix.IP_TOS || kind == unix.IP_TTL || kind == unix.IP_PKTINFO):
			case level == unix.IPPROTO_IPV6 && (kind == unix.IPV6_TCLASS || kind == unix.IPV6_HOPLIMIT || kind == unix.IPV6_PKTINFO):
			default:
				return m, unix.EINVAL
			}
		}
	}
	m.data, errno = c.pieces(uint64(head[2]), uint64(head[3]))
	return m, errno
}

// addressTo reads where a message goes.
func (c *call) addressTo(m *message, at uint64, size uint32) unix.Errno {
	if m.flags&(unix.MSG_OOB|unix.MSG_MORE) != 0 {
		return unix.EOPNOTSUPP
	}
	if at == 0 || size == 0 {
		return 0
	}
	const most = 128
	if size < 2 || size > most {
		return unix.EINVAL
	}
	m.to = make([]byte, size)
	if c.read(at, m.to) != len(m.to) {
		return unix.EFAULT
	}
	return 0
}

// bytes appends what lies at a place of the thread's memory.
func (c *call) bytes(to []byte, at, size uint64) ([]byte, unix.Errno) {
	if size > maxMessage-uint64(len(to)) {
		return nil, unix.EMSGSIZE
	}
	n := len(to)
	to = append(to, make([]byte, size)...)
	if c.read(at, to[n:]) != int(size) {
		return nil, unix.EFAULT
	}
	return to, 0
}

// pieces reads what an array of struct iovec names.
func (c *call) pieces(at, n uint64) (data []byte, errno unix.Errno) {
	if n > maxPieces {
		return nil, unix.EMSGSIZE
	}
	if n == 0 {
		return nil, 0
	}
	list, errno := c.words(at, 2*int(n))
	for i := 0; errno == 0 && i < len(list); i += 2 {
		data, errno = c.bytes(data, uint64(list[i]), uint64(list[i+1]))
	}
	return data, errno
}
