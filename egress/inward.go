package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
)

// A Door is a port of a sandbox that programs of the host can connect to.
type Door struct {
	// Listener is where the host connects.
	Listener net.Listener
	// Port is where that leads, inside.
	Port uint16
}

// An Entrance lets the host into one sandbox, at doors.
type Entrance struct {
	server *Server
	open   func(ctx context.Context, port uint16) (net.Conn, error)
	admits func(uid int) bool
}

// NewEntrance makes an Entrance. Of cfg, Audit, Identity and Limits count. Let in are
// programs of the user that this process runs as, and root's. open connects to a port inside and to nothing else.
func NewEntrance(cfg Config, open func(ctx context.Context, port uint16) (net.Conn, error)) (*Entrance, error) {
	s, err := New(Config{Audit: cfg.Audit, Identity: cfg.Identity, Limits: cfg.Limits})
	if err != nil {
		return nil, err
	}
	s.direction = In
	return &Entrance{s, open, func(uid int) bool { return uid == os.Geteuid() || uid == 0 }}, nil
}

// Serve accepts at all doors until ctx is done, and returns when the last connection
// has ended. It closes the listeners. The error is nil if ctx ended it.
func (e *Entrance) Serve(ctx context.Context, doors []Door) error {
	defer e.server.recordRest()
	errs := make([]error, len(doors))
	var all sync.WaitGroup
	for i, d := range doors {
		all.Go(func() {
			errs[i] = e.server.acceptAll(ctx, d.Listener, func(c *client, ctx context.Context) { e.admit(ctx, c, d) })
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// admit takes one connection inside. Where nothing listens there, the peer gets a reset,
// which is as near as an accepted connection comes to a refused one.
func (e *Entrance) admit(ctx context.Context, c *client, d Door) {
	a := c.attempt(ProtocolTCP)
	a.event.Port, a.event.Address, a.event.Peer = d.Port, addrPort(c.conn.LocalAddr()), addrPort(c.conn.RemoteAddr())
	up, err := e.enter(ctx, a, d.Port)
	if err == nil {
		err = c.carry(up, up, func() error { return c.relay(up, c.conn) })
	} else {
		c.conn.reset()
	}
	a.finish(err)
}

func (e *Entrance) enter(ctx context.Context, a *attempt, port uint16) (*stream, error) {
	if e.server.spent.Load() >= e.server.cfg.Limits.Bytes {
		return nil, refuse(ReasonLimit, Target{}, "%w", errBudget)
	}
	if err := e.permit(a); err != nil {
		return nil, err
	}
	a.event.Decision, a.event.Rule = Allow, "exposed"
	soon, cancel := context.WithTimeout(ctx, e.server.cfg.Limits.Dial)
	defer cancel()
	conn, err := e.open(soon, port)
	if err != nil {
		return nil, refuse(ReasonUnreachable, Target{}, "port %d inside: %w", port, err)
	}
	up := a.c.upstream(a, conn)
	up.forget = context.AfterFunc(ctx, func() { conn.Close() })
	return up, nil
}

// permit holds who connected against who may. A connection over loopback carries no user,
// but both of its ends are sockets of this machine.
func (e *Entrance) permit(a *attempt) error {
	uid, err := userOf(a.event.Peer, a.event.Address)
	if err != nil {
		return refuse(ReasonDenied, Target{}, "%w", err)
	}
	a.event.User = strconv.Itoa(uid)
	if !e.admits(uid) {
		return refuse(ReasonDenied, Target{}, "user %d is neither sandgate's user nor root", uid)
	}
	return nil
}

// reset closes a connection so that the peer sees that it never led anywhere.
func (s *stream) reset() {
	if tcp, ok := s.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // else it is closed in peace
	}
	s.Close()
}

func addrPort(a net.Addr) netip.AddrPort {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort()
	}
	return netip.AddrPort{}
}
