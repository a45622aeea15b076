package httpgate

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/sandgate/sandgate/internal/loopback"
)

// ErrNotLoopback is in the error for an address that others could reach: a token
// would cross the network in the clear.
var ErrNotLoopback = errors.New("not a loopback address")

// ErrNotBoth is in the error for another address of loopback than the two that names
// below localhost lead to: at those, another user's server would answer to the page's name.
var ErrNotBoth = errors.New("the page's name resolves to 127.0.0.1 and ::1")

// Listen opens a port on both loopback addresses that a browser, or a program that was
// given "localhost", may try. A stranger who held the other one could pose as this server
// and would receive tickets, cookies and tokens. Names are not looked up, except
// localhost: what a resolver says about a name is not ours to know.
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
	case addr.Addr().Unmap() != netip.AddrFrom4([4]byte{127, 0, 0, 1}) && addr.Addr() != netip.IPv6Loopback():
		return nil, fmt.Errorf("listen on %q: %w", address, ErrNotBoth)
	}
	both, err := loopback.Listen(addr.Port())
	if err != nil {
		return nil, err
	}
	return loopback.Joined(both), nil
}

// pageName makes the name of the page: one that browsers take for loopback without asking
// anybody, and that this start alone has. Browsers keep service workers, caches, storage and
// cookies by origin or host. An earlier or later owner of the port cannot share them,
// because the name differs at each start, so nothing can be planted there in advance.
func pageName() string { return newWord()[:20] + ".localhost" }

// hosts are the names under which a program may ask for the server. Any other name is
// one that a stranger has pointed at loopback (DNS rebinding).
func hosts(addr net.Addr) []string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return nil
	}
	port := fmt.Sprint(tcp.Port)
	list := []string{"127.0.0.1:" + port, "localhost:" + port, "[::1]:" + port}
	if tcp.Port == 80 {
		list = append(list, "127.0.0.1", "[::1]", "localhost")
	}
	return list
}
