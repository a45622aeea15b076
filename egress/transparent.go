package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/hostrule"
)

// Programs without proxy support work, too. Inside, a name that may be asked for leads to a
// stand-in: an address that the sandbox takes for its own, and on which a socket listens that
// is served here. A program that connects to it is treated like one that asked the proxy for
// that name: the same decision, lookup, connection, restriction to the name and record.

// An Inside has what a sandbox needs for programs without proxy support.
type Inside struct {
	// Local are the addresses that it has to take for its own. The first address of
	// a prefix is the one that connections inside come from.
	Local []netip.Prefix
	// Listen is where connections are taken, on TCP. An unspecified address is all
	// of them, IPv4 and IPv6.
	Listen []netip.AddrPort
	// Datagrams is where names are asked for, on UDP; on TCP it is among Listen.
	Datagrams netip.AddrPort
}

// Ways are sockets of a sandbox that are served outside of it. One that is nil is
// not served.
type Ways struct {
	Proxy   net.Listener
	Streams []net.Listener // of Inside.Listen
	Names   net.PacketConn // of Inside.Datagrams
}

// standInRange is for measurements inside one network (RFC 2544), so no server that
// a program means has an address in it. It is not loopback, which some programs trust
// more than the network.
var standInRange = netip.MustParsePrefix("198.18.0.0/15")

// nameServer is where programs look for the name service by default (resolv.conf(5)).
var nameServer = netip.MustParseAddrPort("127.0.0.1:53")

const (
	portSSH = 22
	// unprivileged is the first port that a program inside could listen on itself
	// (ip(7), ip_unprivileged_port_start).
	unprivileged = 1024
)

// maxListen and maxLocal bound what one sandbox gets. A longer list has the proxy.
const (
	maxListen = 128
	maxLocal  = 64
)

// Inside gives what the rules need. It is the same for the same rules, whichever
// call they are of, so that a sandbox can serve several.
//
// Below port 1024, where no program inside can listen, one socket takes every address.
// Above, a rule for one host has a socket on the stand-in of that host alone: the port
// stays free on the sandbox's own loopback. Only a suffix takes such a port as a whole,
// since the names below it are not known.
func (s *Server) Inside() (Inside, error) {
	in := Inside{Local: []netip.Prefix{standInRange}, Datagrams: nameServer}
	whole := map[uint16]bool{nameServer.Port(): true}
	single := map[netip.AddrPort]bool{}
	if s.cfg.Ask != nil {
		whole[hostrule.PortHTTP], whole[hostrule.PortHTTPS], whole[portSSH] = true, true, true
	}
	for r := range s.policy.rules() {
		if r.Net.IsValid() {
			continue // it is for no host itself
		}
		switch addr, fixed := s.standIns.fixed(r.Host); {
		case r.Port == 0:
			whole[hostrule.PortHTTP], whole[hostrule.PortHTTPS] = true, true
		case r.Suffix || r.Port < unprivileged:
			whole[r.Port] = true
		case fixed:
			single[netip.AddrPortFrom(addr, r.Port)] = true
		}
		if isLiteral(r.Host) && !standInRange.Contains(r.Host.Addr()) {
			in.Local = append(in.Local, netip.PrefixFrom(r.Host.Addr(), r.Host.Addr().BitLen()))
		}
	}
	for _, port := range slices.Sorted(maps.Keys(whole)) {
		in.Listen = append(in.Listen, netip.AddrPortFrom(netip.IPv6Unspecified(), port))
	}
	for _, at := range slices.SortedFunc(maps.Keys(single), netip.AddrPort.Compare) {
		if !whole[at.Port()] {
			in.Listen = append(in.Listen, at)
		}
	}
	slices.SortFunc(in.Local[1:], comparePrefixes)
	in.Local = slices.Compact(in.Local)
	switch {
	case len(in.Listen) > maxListen:
		return Inside{}, fmt.Errorf("egress: the rules need %d listening addresses, more than %d", len(in.Listen), maxListen)
	case len(in.Local) > maxLocal:
		return Inside{}, fmt.Errorf("egress: the rules name %d addresses, more than %d", len(in.Local), maxLocal)
	}
	return in, nil
}

func comparePrefixes(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) }

// rules are those of every allow list.
func (p policy) rules() func(yield func(Rule) bool) {
	return func(yield func(Rule) bool) {
		for _, list := range p.allow {
			for _, r := range list {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// isLiteral says which listed addresses can be made the sandbox's own. Its loopback
// is that already, and means itself there: a service has a name.
func isLiteral(h Host) bool {
	switch a := h.Addr(); {
	case !a.IsValid() || a.IsLoopback() || a.IsUnspecified() || a.IsMulticast():
		return false
	case a.Is4():
		return a.As4()[0] > 0 && a.As4()[0] < 240
	default:
		return !a.IsLinkLocalUnicast() // which has another meaning on each interface
	}
}

// maxStandIns bounds the names of one call.
const maxStandIns = 4096

// standIns says which address stands for which host inside.
type standIns struct {
	mu    sync.Mutex
	hosts map[netip.Addr]Host
	addrs map[Host]netip.Addr
	next  uint32 // offset in the range of the next that is tried
}

var errNoStandIn = errors.New("too many names were looked up")

// newStandIns gives the hosts of rules their addresses: a listed address stands for
// itself, and a listed name has the same in every call. Those of other names begin
// anywhere, so that one which a program has kept from an earlier call hardly ever
// means another host now.
func newStandIns(p policy) *standIns {
	s := &standIns{hosts: map[netip.Addr]Host{}, addrs: map[Host]netip.Addr{}, next: firstStandIn}
	var names []Host
	for r := range p.rules() {
		switch {
		case isLiteral(r.Host):
			s.put(r.Host.Addr(), r.Host)
		case !r.Host.IsAddr() && !r.Suffix && !r.Net.IsValid():
			names = append(names, r.Host)
		}
	}
	slices.SortFunc(names, func(a, b Host) int { return cmp.Compare(a.Name(), b.Name()) })
	for _, h := range slices.Compact(names) {
		if addr, err := s.free(); err == nil {
			s.put(addr, h)
		}
	}
	s.next = firstStandIn + rand.Uint32N(lastStandIn-firstStandIn)
	return s
}

// Offsets in the range. The address before the first is the sandbox's end of the
// connections, the one after the last is for broadcasts.
const (
	firstStandIn = 2
	lastStandIn  = 1<<17 - 2
)

func (s *standIns) put(addr netip.Addr, h Host) { s.hosts[addr], s.addrs[h] = h, addr }

// free finds an address that stands for nothing yet.
func (s *standIns) free() (netip.Addr, error) {
	if len(s.hosts) >= maxStandIns {
		return netip.Addr{}, errNoStandIn
	}
	for {
		addr := standIn(s.next)
		if s.next++; s.next > lastStandIn {
			s.next = firstStandIn
		}
		if _, taken := s.hosts[addr]; !taken {
			return addr, nil
		}
	}
}

func standIn(offset uint32) netip.Addr {
	b := standInRange.Addr().As4()
	return netip.AddrFrom4([4]byte{b[0], b[1] | byte(offset>>16), byte(offset >> 8), byte(offset)})
}

// fixed is the address that a host has from the start.
func (s *standIns) fixed(h Host) (netip.Addr, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	addr, ok := s.addrs[h]
	return addr, ok
}

// of is the address that stands for a name, from now on if it has had none.
func (s *standIns) of(h Host) (netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if addr, ok := s.addrs[h]; ok {
		return addr, nil
	}
	addr, err := s.free()
	if err == nil {
		s.put(addr, h)
	}
	return addr, err
}

// host is the host that an address stands for.
func (s *standIns) host(addr netip.Addr) (Host, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.hosts[addr]
	return h, ok
}

// meant is the target of a client that looks names up by itself, and asks the proxy
// for what it found.
func (s *standIns) meant(t Target) Target {
	if h, ok := s.host(t.Host.Addr()); ok {
		t.Host = h
	}
	return t
}

// serveDirect carries a connection whose target is the address that it was made to.
func (c *client) serveDirect(ctx context.Context) {
	at := localAddr(c.conn)
	if at.Addr().IsLoopback() {
		c.serveLoopback(ctx, at)
		return
	}
	a := c.attempt(ProtocolDirect)
	h, ok := c.standIns.host(at.Addr())
	if !ok {
		t := Target{Host: hostrule.HostAt(at.Addr()), Port: at.Port()}
		a.event.Host, a.event.Port = t.Host.String(), t.Port
		a.finish(refuse(ReasonUnlisted, t, "no name that this call looked up has this address"))
		c.conn.reset()
		return
	}
	t := Target{Host: h, Port: at.Port()}
	up, err := c.open(ctx, a, t)
	if err != nil {
		c.refuseDirect(err)
		a.finish(err)
		return
	}
	defer c.ending.holds()()
	err = c.tunnel(ctx, a, t, up)
	up.Close()
	a.finish(err)
}

// localAddr is where a connection was made to.
func localAddr(conn net.Conn) netip.AddrPort {
	at := addrPort(conn.LocalAddr())
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// serveLoopback handles connections of a program to its own loopback at ports that only
// our sockets listen on: the name service, or nothing.
func (c *client) serveLoopback(ctx context.Context, at netip.AddrPort) {
	if at == nameServer {
		c.serveNamesTCP(ctx)
		return
	}
	c.conn.reset()
}

// refuseDirect tells a client why, in words if it speaks HTTP. Any other sees its
// connection reset.
func (c *client) refuseDirect(err error) {
	c.conn.limitReads(lingerTime) // one that waits for the server to speak says nothing
	first, peekErr := c.r.Peek(1)
	switch {
	case peekErr != nil:
	case first[0] == recordHandshake:
		c.conn.Write(alert(alertAccessDenied))
		c.conn.linger()
		return
	default:
		if what, _, err2 := new(opening).read(c.r); what == aRequest && err2 == nil {
			c.respond(asRefusal(err))
			c.conn.linger()
			return
		}
	}
	c.conn.reset()
}

// alertAccessDenied is access_denied of RFC 8446, section 6.2.
const alertAccessDenied = 49

// serveNamesTCP answers questions on one connection, each with its length before it
// (RFC 1035, section 4.2.2).
func (c *client) serveNamesTCP(ctx context.Context) {
	for {
		c.conn.limitReads(c.cfg.Limits.Header)
		var head [2]byte
		if _, err := io.ReadFull(c.r, head[:]); err != nil {
			return
		}
		size := int(head[0])<<8 | int(head[1])
		if size > maxQuery {
			return
		}
		query := make([]byte, size)
		if _, err := io.ReadFull(c.r, query); err != nil {
			return
		}
		answer := c.answerNames(ctx, query)
		if answer == nil {
			return
		}
		if _, err := c.conn.Write(append([]byte{byte(len(answer) >> 8), byte(len(answer))}, answer...)); err != nil {
			return
		}
	}
}

// serveNames answers questions in datagrams until ctx ends or the socket fails.
func (s *Server) serveNames(ctx context.Context, conn net.PacketConn) error {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	query := make([]byte, maxQuery+1)
	for {
		n, from, err := conn.ReadFrom(query)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("egress: names: %w", err)
		case err != nil:
			wait(ctx, 5*time.Millisecond) // an error of an answer that did not arrive
			continue
		case n > maxQuery:
			continue
		}
		var answer []byte
		if err := guarded(func() error { answer = s.answerNames(ctx, query[:n]); return nil }); err != nil {
			s.recordName(Host{}, err)
			continue
		}
		if answer != nil {
			_, _ = conn.WriteTo(answer, from) // who does not take it asks again
		}
	}
}
