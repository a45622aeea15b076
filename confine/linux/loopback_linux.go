package linux

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A loopback stands for a sandbox's network, where there is no namespace: an address of
// 127.0.0.0/8 whose connections are signed with a key that only the supervisor and the
// sandbox's broker know.
type loopback struct {
	own   netip.Addr
	key   []byte
	proxy *os.File // listening socket, if the profile has hosts
	at    netip.AddrPort
}

// newLoopback makes it for p. Where the kernel has no signatures the sandbox has no
// loopback, and a profile that needs one is refused.
func newLoopback(p sandboxprofile.Profile) (*loopback, error) {
	l := &loopback{key: make([]byte, 32)}
	_, _ = rand.Read(l.key) // crypto/rand: it never fails
	var at [3]byte
	_, _ = rand.Read(at[:])
	// Not 127.0.0.1 and its like, where the host's own services are.
	// The next one is broker.Own6.
	l.own = netip.AddrFrom4([4]byte{127, 64 + at[0]%128, at[1], 2 + at[2]%126*2})
	listener, err := l.listen()
	if err == nil && p.Network.Mode == sandboxprofile.NetworkProxied {
		l.at = listener.Addr().(*net.TCPAddr).AddrPort()
		l.proxy, err = listener.(*net.TCPListener).File()
	}
	if listener != nil {
		listener.Close()
	}
	needed := p.Network.Mode == sandboxprofile.NetworkProxied || len(p.Network.Expose) > 0
	switch {
	case err == nil:
	case needed:
		return nil, &confine.Unenforceable{Part: "network allow-list", Reason: fmt.Sprintf("without a network namespace it takes signed TCP connections (CONFIG_TCP_MD5SIG), which this kernel refuses: %v", err),
			Hint: "network none, or a host that allows user namespaces"}
	default:
		l.own = netip.Addr{}
	}
	return l, nil
}

func (l *loopback) control(network, _ string, c syscall.RawConn) error {
	family := unix.AF_INET
	if network == "tcp6" {
		family = unix.AF_INET6
	}
	var err error
	if controlErr := c.Control(func(fd uintptr) { err = broker.SetKey(int(fd), family, l.key) }); controlErr != nil {
		return controlErr
	}
	return err
}

func (l *loopback) listen() (net.Listener, error) {
	config := net.ListenConfig{Control: l.control}
	config.SetMultipathTCP(false)
	return config.Listen(context.Background(), "tcp4", netip.AddrPortFrom(l.own, 0).String())
}

func (l *loopback) wire(p sandboxprofile.Profile) *wire.Network {
	n := &wire.Network{Key: l.key, Listed: p.UnixSockets}
	if l.own.IsValid() {
		n.Own = l.own.String()
	}
	if l.proxy != nil {
		n.Proxy, n.ProxyPort = l.at.String(), confine.EgressPort
	}
	return n
}

// entrance connects to ports of n, in the sandbox.
func (l *loopback) entrance(n sandboxprofile.Network) (confine.Entrance, error) {
	if l == nil || !l.own.IsValid() {
		return nil, &confine.Unenforceable{Part: "network.expose", Reason: "the sandbox has no loopback of its own", Hint: "leave expose out"}
	}
	ports := n.Ports()
	if len(ports) == 0 {
		return nil, errors.New("confine: the profile exposes no port")
	}
	return func(ctx context.Context, port uint16) (net.Conn, error) {
		exposed := false
		for _, p := range ports {
			exposed = exposed || p.Inside == port
		}
		if !exposed {
			return nil, fmt.Errorf("confine: port %d is not exposed", port)
		}
		at := netip.AddrPortFrom(l.own, port)
		if !broker.Listening(at) {
			at = netip.AddrPortFrom(broker.Own6(l.own), port)
		}
		if !broker.Listening(at) {
			return nil, fmt.Errorf("confine: port %d inside: %w", port, unix.ECONNREFUSED)
		}
		dialer := net.Dialer{Control: l.control}
		dialer.SetMultipathTCP(false)
		return dialer.DialContext(ctx, "tcp4", at.String())
	}, nil
}
