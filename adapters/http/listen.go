package httpgate

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// ErrNotLoopback is in the error for an address that others could reach: a token
// would cross the network in the clear.
var ErrNotLoopback = errors.New("not a loopback address")

// Listen opens a port on loopback. Names are not looked up, except localhost, which
// is 127.0.0.1: what a resolver says about a name is not ours to know.
func Listen(address string) (net.Listener, error) {
	if rest, ok := strings.CutPrefix(address, "localhost:"); ok {
		address = "127.0.0.1:" + rest
	}
	addr, err := netip.ParseAddrPort(address)
	switch {
	case err != nil:
		return nil, fmt.Errorf("listen on %q: not an address and port, such as 127.0.0.1:8642", address)
	case !addr.Addr().Unmap().IsLoopback() || addr.Addr().Zone() != "":
		return nil, fmt.Errorf("listen on %q: %w", address, ErrNotLoopback)
	}
	// A host that has no IPv4 or IPv6 says so here; "tcp" would pick for itself.
	network := "tcp4"
	if addr.Addr().Is6() && !addr.Addr().Is4In6() {
		network = "tcp6"
	}
	return net.Listen(network, netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()).String())
}

// pageName makes the name of the page: one that browsers take for loopback without asking
// anybody, and that this start alone has. What is kept by origin or by host, such as service
// workers, caches, storage and cookies, of whoever had the port before or has it
// afterwards, is never of this name; and nobody can put something there in advance.
func pageName() string { return newWord()[:20] + ".localhost" }

// hosts are the names under which a program may ask for the server: any other is a name
// that somebody else has pointed at loopback (DNS rebinding).
func hosts(addr net.Addr) []string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return nil
	}
	port := fmt.Sprint(tcp.Port)
	list := []string{net.JoinHostPort(tcp.IP.String(), port), "localhost:" + port}
	if tcp.Port == 80 {
		list = append(list, strings.TrimSuffix(list[0], ":80"), "localhost")
	}
	return list
}
