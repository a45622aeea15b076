package broker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Unix sockets for datagrams. The kernel sends one to whatever path or name stands in memory: the host's log, its service
// manager. So a program's socket does not send, as one of UDP does not (see carry). It receives at a name that only the
// broker can reach, and the broker has another socket with the name that the program has given: this one sends, so that who
// receives a datagram sees that name, and nobody can send to it.

// A mailbox is what the broker has of a program's socket.
type mailbox struct {
	file    string // where the program receives, below abstractFD
	speaker int    // one for all that it sends: what waits at receivers counts against the buffer of the sender
	name    []byte // the struct sockaddr that a program has bound it to
	at      birth  // the file of the speaker, unless the name is an abstract one
	peer    uint64 // inode of the socket that it is connected to
}

// answeredLater is no errno: another goroutine answers.
const answeredLater = unix.Errno(4096)

// newMailbox makes a socket silent, and binds it to where the broker delivers.
func (b *Broker) newMailbox(fd int) (*mailbox, error) {
	if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil && err != unix.ENOTCONN {
		return nil, err
	}
	b.count++
	m := &mailbox{file: fmt.Sprintf("%s-%d", b.abstractID, b.count)}
	if err := unix.Bind(fd, m.sockaddr(b)); err != nil {
		return nil, err
	}
	speaker, err := newSpeaker()
	if err != nil {
		m.close(b)
		return nil, err
	}
	m.speaker = speaker
	if err := unix.Sendto(fd, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, m.sockaddr(b)); err != unix.EPIPE {
		m.close(b)
		return nil, unix.EACCES // it would send by itself
	}
	return m, nil
}

func (m *mailbox) sockaddr(b *Broker) unix.Sockaddr {
	return &unix.SockaddrUnix{Name: linkOf(b.abstractFD) + "/" + m.file}
}

func (m *mailbox) close(b *Broker) {
	if m == nil {
		return
	}
	_ = unix.Unlinkat(b.abstractFD, m.file, 0)
	if m.speaker != 0 {
		unix.Close(m.speaker)
	}
}

// shown is the struct sockaddr that a program sees of its socket.
func (m *mailbox) shown() []byte {
	if m.name == nil {
		return binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX)
	}
	return m.name
}

// newSpeaker is a socket to send from, which receives nothing.
func newSpeaker() (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Shutdown(fd, unix.SHUT_RD); err != nil && err != unix.ENOTCONN {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (c *call) bindMailbox(s socket, ino uint64, p []byte) reply {
	if s.box.name != nil {
		return fails(unix.EINVAL)
	}
	if r := c.bindUnix(socket{fd: s.box.speaker, family: unix.AF_UNIX}, p); r.errno != 0 {
		return r
	}
	s.box.name, s.box.at = bytes.Clone(p), c.socketFile
	if name, abstract, _ := unixName(p); !abstract {
		s.box.name = append(append(binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX), name...), 0)
	}
	return reply{}
}

// mailboxAt is the socket of this sandbox's that has a name.
func (c *call) mailboxAt(p []byte) (uint64, socket, unix.Errno) {
	name, abstract, ok := unixName(p)
	if !ok {
		return 0, socket{}, unix.EINVAL
	}
	for ino, s := range c.b.sockets { // as a receiver sees one with an abstract name
		if !abstract && s.box != nil && s.box.name != nil && s.box.at == (birth{}) {
			if is, ok := unixNameOf(s.box.speaker); ok && is == name {
				return ino, s, 0
			}
		}
	}
	var at birth
	if !abstract {
		w := walk{call: c}
		t, errno := w.find(cwd, name, true)
		switch {
		case errno != 0:
			return 0, socket{}, errno
		case t.kind() != unix.S_IFSOCK:
			return 0, socket{}, unix.ECONNREFUSED
		case !c.b.bound.has(&t.st, t.fd, ""):
			c.b.refuse(Refusal{"sendto", t.full, Outside})
			return 0, socket{}, unix.EACCES
		}
		at = birth{idOf(&t.st), born(t.fd, "")}
	}
	for ino, s := range c.b.sockets {
		if s.box != nil && s.box.name != nil && (abstract && bytes.Equal(s.box.name, p) || !abstract && s.box.at == at) {
			return ino, s, 0
		}
	}
	return 0, socket{}, unix.ECONNREFUSED
}

func (c *call) connectMailbox(s socket, ino uint64, p []byte) reply {
	if binary.NativeEndian.Uint16(p) == unix.AF_UNSPEC {
		s.box.peer = 0
		return reply{}
	}
	peer, r, errno := c.mailboxAt(p)
	switch {
	case errno != 0:
		return fails(errno)
	case r.box.peer != 0 && r.box.peer != ino:
		return fails(unix.EPERM)
	}
	s.box.peer = peer
	return reply{}
}

// post is carry for a Unix socket.
func (c *call) post(s socket, ino uint64, m message) unix.Errno {
	to, r, errno := s.box.peer, socket{}, unix.Errno(0)
	switch {
	case m.to != nil:
		if to, r, errno = c.mailboxAt(m.to); errno != 0 {
			return errno
		}
	case to == 0:
		return unix.ENOTCONN
	default:
		if r = c.b.sockets[to]; r.box == nil {
			return unix.ECONNREFUSED
		}
	}
	if r.box.peer != 0 && r.box.peer != ino {
		return unix.EPERM
	}
	deliver := func(from int) error {
		return unix.Sendto(from, m.data, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, r.box.sockaddr(c.b))
	}
	err := deliver(s.box.speaker)
	if err == unix.EAGAIN {
		c.b.sweep() // it may be of a socket that a program has closed
		if _, there := c.b.sockets[to]; !there {
			err = unix.ECONNREFUSED
		}
	}
	flags, _ := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	if err != unix.EAGAIN || m.flags&unix.MSG_DONTWAIT != 0 || flags&unix.O_NONBLOCK != 0 {
		return answerOf(err).errno
	}
	from, err := unix.FcntlInt(uintptr(s.box.speaker), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	if c.b.waiting.Add(1) > maxWaiting {
		c.b.waiting.Add(-1)
		unix.Close(from)
		return unix.EAGAIN
	}
	go c.postLater(from, len(m.data), deliver)
	return answeredLater
}

// postLater delivers as soon as there is room. A signal ends the wait, as it would in the kernel.
func (c *call) postLater(from, size int, deliver func(from int) error) {
	answer := reply{}
	for {
		time.Sleep(waitPoll)
		switch err := deliver(from); {
		case err == unix.EAGAIN && !c.waits():
		case err == unix.EAGAIN && c.signalled():
			answer = fails(restartSys)
		case err == unix.EAGAIN:
			continue
		case err == unix.ENOENT:
			answer = fails(unix.ECONNREFUSED) // the receiver has been closed
		case err != nil:
			answer = fails(errnoOf(err))
		default:
			answer = reply{value: int64(size)}
		}
		break
	}
	unix.Close(from)
	c.b.waiting.Add(-1)
	c.finish(answer)
}

// socketPair makes a pair of sockets for datagrams. One of these would still send to any address, so it is one for packets
// in order, which has the same bounds and takes no address. A program that reads from one sees when the other end is gone.
func (c *call) socketPair() reply {
	kind := int(c.int(1))
	if c.int(0) != unix.AF_UNIX || c.int(2) != 0 || kind&^(unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK) != unix.SOCK_DGRAM {
		return fails(unix.EPROTONOSUPPORT)
	}
	var numbers [8]byte
	if c.read(c.args[3], numbers[:]) != len(numbers) {
		return fails(unix.EFAULT)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|kind&unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fails(errnoOf(err))
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	for i, fd := range pair {
		n, errno := c.from.hand(c.id, fd, kind&unix.SOCK_CLOEXEC != 0, 0)
		if errno != 0 {
			return fails(errno)
		}
		binary.NativeEndian.PutUint32(numbers[4*i:], uint32(n))
	}
	return fails(c.write(c.args[3], numbers[:]))
}
