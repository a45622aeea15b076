package egress

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"

	"github.com/sandgate/sandgate/internal/hostrule"
)

// SOCKS 5: RFC 1928. A client of socks5h sends the name; one of plain socks5 has
// resolved it, which inside a sandbox it cannot, and sends an address.
const (
	socksVersion = 5

	socksNoAuth      = 0x00
	socksNoneOfThese = 0xff

	socksConnect = 1

	socksIPv4 = 1
	socksName = 3
	socksIPv6 = 4
)

// Replies of RFC 1928, section 6.
const (
	socksSucceeded    = 0
	socksFailure      = 1
	socksNotAllowed   = 2
	socksUnreachable  = 4
	socksNotSupported = 7
	socksBadAddress   = 8
)

func (c *client) serveSOCKS(ctx context.Context) {
	a := c.attempt(ProtocolSOCKS5)
	t, err := c.socksRequest()
	if err != nil {
		a.event.Host, a.event.Port = t.Host.String(), t.Port
		c.refuseSOCKS(a, err)
		return
	}
	c.conn.limitReads(0)
	t = c.standIns.meant(t)
	up, err := c.open(ctx, a, t)
	if err != nil {
		c.refuseSOCKS(a, err)
		return
	}
	defer c.ending.holds()()
	// The client does not need the address that we connect from.
	if _, err = c.conn.Write(socksReply(socksSucceeded, "")); err == nil {
		err = c.tunnel(ctx, a, t, up)
	}
	up.Close()
	a.finish(err)
}

func (c *client) refuseSOCKS(a *attempt, err error) {
	if r := asRefusal(err); r.Reason != ReasonBroken {
		c.conn.Write(socksReply(socksCode(r.Reason), r.body()))
		c.conn.linger()
	}
	a.finish(err)
}

func (c *client) socksRequest() (Target, error) {
	methods, err := readSOCKSMethods(c.r)
	if err != nil {
		return Target{}, err
	}
	if !slices.Contains(methods, socksNoAuth) {
		c.conn.Write([]byte{socksVersion, socksNoneOfThese})
		return Target{}, refuse(ReasonUnsupported, Target{}, "the SOCKS client offers only methods with authentication")
	}
	if _, err := c.conn.Write([]byte{socksVersion, socksNoAuth}); err != nil {
		return Target{}, err
	}
	return readSOCKSRequest(c.r)
}

func readSOCKSMethods(r io.Reader) ([]byte, error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	if head[0] != socksVersion {
		return nil, malformed("SOCKS version %d is not supported", head[0])
	}
	methods := make([]byte, head[1])
	_, err := io.ReadFull(r, methods)
	return methods, err
}

// readSOCKSRequest reads VER CMD RSV ATYP ADDR PORT.
func readSOCKSRequest(r io.Reader) (Target, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return Target{}, err
	}
	if head[0] != socksVersion || head[2] != 0 {
		return Target{}, malformed("SOCKS request beginning % x", head)
	}
	host, err := readSOCKSHost(r, head[3])
	if err != nil {
		return Target{}, err
	}
	port := make([]byte, 2)
	if _, err := io.ReadFull(r, port); err != nil {
		return Target{}, err
	}
	t := Target{Host: host, Port: binary.BigEndian.Uint16(port)}
	switch {
	case t.Port == 0:
		return Target{}, malformed("SOCKS request for port 0")
	case head[1] != socksConnect:
		return t, refuse(ReasonUnsupported, t, "SOCKS command %d is not supported; use CONNECT", head[1])
	}
	return t, nil
}

func readSOCKSHost(r io.Reader, kind byte) (Host, error) {
	size := map[byte]int{socksIPv4: net.IPv4len, socksIPv6: net.IPv6len, socksName: 1}[kind]
	if size == 0 {
		return Host{}, malformed("SOCKS address type %d is not supported", kind)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return Host{}, err
	}
	if kind != socksName {
		addr, _ := netip.AddrFromSlice(b)
		return hostrule.HostAt(addr), nil
	}
	name := make([]byte, b[0])
	if _, err := io.ReadFull(r, name); err != nil {
		return Host{}, err
	}
	h, err := hostrule.ParseHost(string(name))
	if err != nil {
		return Host{}, malformed("SOCKS: %w", err)
	}
	return h, nil
}

// socksReply makes a reply. RFC 1928 has no place for words, so a refusal has them
// where the bound address would be, as a name: clients skip it, traces show it.
func socksReply(code byte, why string) []byte {
	if why == "" {
		return []byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0}
	}
	why = why[:min(len(why), 255)]
	b := append([]byte{socksVersion, code, 0, socksName, byte(len(why))}, why...)
	return append(b, 0, 0)
}

func socksCode(r Reason) byte {
	switch r {
	case ReasonDenied, ReasonUnlisted, ReasonUnanswered, ReasonAddress, ReasonMismatch, ReasonCredential:
		return socksNotAllowed
	case ReasonUnreachable, ReasonTimeout:
		return socksUnreachable
	case ReasonUnsupported:
		return socksNotSupported
	case ReasonMalformed:
		return socksBadAddress
	}
	return socksFailure
}
