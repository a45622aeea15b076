package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// socketTimeout bounds how long init may take to make a socket: a tool that uses up
// its processor time can hold it back.
const socketTimeout = 10 * time.Second

const exposePart = "network.expose"

// checkExposed refuses what would let the host in at a socket of our own.
func checkExposed(n sandboxprofile.Network) error {
	taken := func(p sandboxprofile.ExposedPort) bool { return p.Inside == confine.EgressPort }
	if n.Mode == sandboxprofile.NetworkProxied && slices.ContainsFunc(n.Ports(), taken) {
		return &confine.Unenforceable{Part: exposePart, Reason: fmt.Sprintf("port %d inside is the egress proxy's", confine.EgressPort), Hint: "let the program listen on another port"}
	}
	return nil
}

// sockets asks a sandbox's init for sockets of its network. The answers are not
// trusted: each is looked at before it is used.
type sockets struct {
	send   func(wire.Frame, []*os.File) error // to init
	closed <-chan struct{}                    // of the sandbox

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan<- received // nil for one that nobody waits for any more
	cookie  uint64                     // of the sandbox's network namespace
}

// newSockets is nil for a network that exposes nothing. It asks by send, until closed.
func newSockets(n sandboxprofile.Network, send func(wire.Frame, []*os.File) error, closed <-chan struct{}) *sockets {
	if len(n.Expose) == 0 {
		return nil
	}
	return &sockets{send: send, closed: closed, waiting: map[uint64]chan<- received{}}
}

// deliver takes an answer, and reports whether there was a question.
func (k *sockets) deliver(r received) bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	answer, asked := k.waiting[r.frame.Made.ID]
	delete(k.waiting, r.frame.Made.ID)
	switch {
	case asked && answer == nil:
		closeFiles(r.files)
	case asked:
		answer <- r // it has room for one, and is given one
	}
	return asked
}

func (k *sockets) expect(answer chan<- received) (id uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last++
	k.waiting[k.last] = answer
	return k.last
}

// abandon gives a question up. Its answer may have come at this very moment.
func (k *sockets) abandon(id uint64, answer <-chan received) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, open := k.waiting[id]; open {
		k.waiting[id] = nil
		return
	}
	select {
	case r := <-answer:
		closeFiles(r.files)
	default:
	}
}

// socket gives an unconnected socket that init has made.
func (k *sockets) socket(ctx context.Context, ipv6 bool) (*os.File, error) {
	answer := make(chan received, 1)
	id := k.expect(answer)
	if err := k.send(wire.Frame{Socket: &wire.Socket{ID: id, IPv6: ipv6}}, nil); err != nil {
		return nil, fmt.Errorf("confine: ask for a socket: %w", err)
	}
	patience := time.NewTimer(socketTimeout)
	defer patience.Stop()
	select {
	case r := <-answer:
		if errno := r.frame.Made.Errno; errno != 0 || len(r.files) != 1 {
			closeFiles(r.files)
			return nil, fmt.Errorf("confine: a socket of the sandbox: %w", unix.Errno(errno))
		}
		return r.files[0], nil
	case <-k.closed:
		k.abandon(id, answer)
		return nil, errors.New("confine: the sandbox is closed")
	case <-ctx.Done():
		k.abandon(id, answer)
		return nil, ctx.Err()
	case <-patience.C:
		k.abandon(id, answer)
		return nil, fmt.Errorf("confine: the sandbox gave no socket within %v: %w", socketTimeout, os.ErrDeadlineExceeded)
	}
}

// knowNetwork learns, before any tool runs, which network namespace is the
// sandbox's. Only sockets of that one are connected later.
func (k *sockets) knowNetwork(ctx context.Context) error {
	own, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("confine: socket: %w", err)
	}
	defer unix.Close(own)
	ours, err := netnsCookie(own)
	if err != nil {
		return &confine.Unenforceable{Part: exposePart, Reason: fmt.Sprintf("the kernel does not tell which network a socket is of (SO_NETNS_COOKIE): %v", err), Hint: "Linux 5.14 and later do; or leave expose out"}
	}
	f, err := k.socket(ctx, false)
	if err != nil {
		return err
	}
	defer f.Close()
	theirs, err := netnsCookie(int(f.Fd()))
	if err == nil && (theirs == 0 || theirs == ours) {
		err = errors.New("confine: the sandbox has no network of its own")
	}
	k.cookie = theirs
	return err
}

// netnsCookie names the network namespace that a socket is of; no two have the same
// while the machine runs (socket(7), SO_NETNS_COOKIE).
func netnsCookie(fd int) (uint64, error) {
	return unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
}

// entrance connects to the ports that n exposes.
func (k *sockets) entrance(n sandboxprofile.Network) (confine.Entrance, error) {
	if k == nil || k.cookie == 0 {
		return nil, &confine.Unenforceable{Part: exposePart, Reason: "this sandbox has no network of its own to expose a port of", Hint: "use a host that allows user namespaces, or leave expose out"}
	}
	return func(ctx context.Context, port uint16) (net.Conn, error) {
		if !slices.ContainsFunc(n.Ports(), func(p sandboxprofile.ExposedPort) bool { return p.Inside == port }) {
			return nil, fmt.Errorf("confine: port %d is not exposed", port)
		}
		return k.enter(ctx, port)
	}, nil
}

// enter connects to a port where programs listen that listen on localhost: on one of its
// two addresses.
func (k *sockets) enter(ctx context.Context, port uint16) (net.Conn, error) {
	conn, err := k.connect(ctx, unix.AF_INET, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}})
	if errors.Is(err, unix.ECONNREFUSED) {
		if conn, err6 := k.connect(ctx, unix.AF_INET6, &unix.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}}); err6 == nil {
			return conn, nil
		}
	}
	return conn, err
}

// connect connects a socket of the sandbox's network. That it is one was checked, so
// there is nothing else that the address could lead to.
func (k *sockets) connect(ctx context.Context, family int, to unix.Sockaddr) (net.Conn, error) {
	f, err := k.socket(ctx, family == unix.AF_INET6)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fd := int(f.Fd())
	if err := k.check(fd, family); err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("confine: socket: %w", err)
	}
	if err := unix.Connect(fd, to); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return nil, fmt.Errorf("confine: connect: %w", err)
	}
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("confine: socket: %w", err)
	}
	if err := established(ctx, conn.(*net.TCPConn)); err != nil {
		conn.Close()
		return nil, fmt.Errorf("confine: connect: %w", err)
	}
	return conn, nil
}

// check refuses everything but a fresh TCP socket of the sandbox's network.
func (k *sockets) check(fd, family int) error {
	for _, option := range []struct{ name, want int }{
		{unix.SO_DOMAIN, family}, {unix.SO_TYPE, unix.SOCK_STREAM}, {unix.SO_PROTOCOL, unix.IPPROTO_TCP}, {unix.SO_ACCEPTCONN, 0},
	} {
		if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option.name); err != nil || got != option.want {
			return errors.New("confine: the sandbox sent something else than a TCP socket")
		}
	}
	if _, err := unix.Getpeername(fd); !errors.Is(err, unix.ENOTCONN) {
		return errors.New("confine: the sandbox sent a socket that is connected")
	}
	if got, err := netnsCookie(fd); err != nil || got != k.cookie {
		return errors.New("confine: the sandbox sent a socket of another network")
	}
	return nil
}

// established waits until a connection stands.
func established(ctx context.Context, conn *net.TCPConn) error {
	defer context.AfterFunc(ctx, func() { conn.SetWriteDeadline(time.Unix(1, 0)) })()
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		errno, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && errno != 0 {
			err = unix.Errno(errno)
		}
		if failed = err; err != nil {
			return true
		}
		_, err = unix.Getpeername(int(fd))
		return err == nil
	})
	if err == nil {
		err = failed
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
