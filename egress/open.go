package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// open is the one way to a server:
//
//	lists -> (operator) -> resolve -> check addresses -> dial what was checked
//	                   \-> a service: check its one address ----^
//	                   \-> an upstream proxy: by name
//
// The order is the guarantee. A name that is not allowed is never looked up, since
// the lookup alone would carry data out in its labels; and the address that was
// checked is the one that is dialled, so a second DNS answer changes nothing.
func (c *client) open(ctx context.Context, a *attempt, t Target) (*stream, error) {
	a.event.Host, a.event.Port = t.Host.String(), t.Port
	if err := c.credentials.alarm(t, "the host's name", t.Host.Name()); err != nil {
		return nil, err // as a label of a name, it would be sent to the zone's name servers
	}
	if err := c.permit(ctx, a, t); err != nil {
		return nil, err
	}
	a.event.Decision = Allow
	soon, cancel := context.WithTimeout(ctx, c.cfg.Limits.Dial)
	defer cancel()
	up, err := c.reach(soon, a, t)
	if err != nil {
		return nil, err
	}
	up.forget = context.AfterFunc(ctx, func() { up.Conn.Close() })
	return up, nil
}

// reach connects to what has been permitted.
func (c *client) reach(ctx context.Context, a *attempt, t Target) (*stream, error) {
	if rule, ok := c.policy.service(t); ok {
		conn, err := c.dialService(ctx, t, rule.Service)
		if err != nil {
			return nil, err
		}
		a.event.Address = rule.Service.Addr
		return c.upstream(a, conn), nil
	}
	if c.cfg.Upstream.carries(t) {
		return c.through(ctx, a, t)
	}
	addrs, err := c.addresses(ctx, t)
	if err != nil {
		return nil, err
	}
	return c.dial(ctx, a, t, addrs)
}

// permit decides by the lists, and by the operator where they say nothing.
func (c *client) permit(ctx context.Context, a *attempt, t Target) error {
	if c.spent.Load() >= c.cfg.Limits.Bytes {
		return refuse(ReasonLimit, t, "%w", errBudget)
	}
	service, isService := c.policy.service(t)
	if isService {
		a.event.Service = service.Service.String()
	}
	v, rule := c.policy.decide(t)
	a.event.Rule = rule
	switch v {
	case allowed:
		return nil
	case denied:
		return refuse(ReasonDenied, t, "denied by the rule %s", rule)
	}
	if t.Host.IsAddr() {
		// No answer opens a special address, so asking is pointless.
		if err := c.checkAddress(t.Host.Addr(), t.Port); err != nil {
			return c.withHint(refuse(ReasonAddress, t, "%w", err))
		}
	}
	if c.cfg.Ask == nil {
		return c.withHint(refuse(ReasonUnlisted, t, "not on the list of allowed hosts, and questions are off"))
	}
	a.event.Rule = "asked"
	return c.ask(ctx, Request{Identity: c.who, Target: t, Service: a.event.Service, Protocol: a.event.Protocol})
}

// withHint tells what would be allowed: a model that knows stops guessing.
func (s *Server) withHint(r *Refusal) *Refusal {
	r.Hint = "allowed: " + s.policy.describe() + " (ports 80 and 443 if no port is written)"
	return r
}

// addresses returns where t may be dialled: what its name leads to, less what the
// check refuses. An attacker's name with one good and one bad address gains nothing.
func (c *client) addresses(ctx context.Context, t Target) ([]netip.Addr, error) {
	found := []netip.Addr{t.Host.Addr()}
	if !t.Host.IsAddr() {
		var err error
		if found, err = c.cfg.Resolver.LookupNetIP(ctx, "ip", t.Host.Name()+"."); err != nil {
			return nil, refuse(ReasonUnreachable, t, "name lookup: %w", err)
		}
	}
	var good []netip.Addr
	var errs []error
	var refused []netip.Addr
	for _, addr := range found {
		if err := c.checkAddress(addr, t.Port); err != nil {
			errs, refused = append(errs, err), append(refused, addr.Unmap())
			continue
		}
		good = append(good, addr.Unmap())
	}
	if len(good) == 0 && len(errs) == 0 {
		return nil, refuse(ReasonUnreachable, t, "the name resolves to no address")
	}
	if len(good) == 0 {
		r := refuse(ReasonAddress, t, "%w", errors.Join(errs...))
		r.Hint = "to allow it, list the address itself, with its port"
		r.Addresses = refused
		return nil, r
	}
	return good, nil
}

// dial tries the addresses in turn, each with its share of the time that is left.
func (c *client) dial(ctx context.Context, a *attempt, t Target, addrs []netip.Addr) (*stream, error) {
	var errs []error
	for i, addr := range addrs {
		ap := netip.AddrPortFrom(addr, t.Port)
		conn, err := c.dialOne(ctx, ap, len(addrs)-i)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		a.event.Address = ap
		return c.upstream(a, conn), nil
	}
	return nil, refuse(ReasonUnreachable, t, "%w", errors.Join(errs...))
}

// upstream is a connection to a server, whose bytes count.
func (c *client) upstream(a *attempt, conn net.Conn) *stream {
	a.meter = newMeter(c.Server)
	up := newStream(conn, c.cfg.Limits.Idle, c.conn.activity)
	up.meter = a.meter
	return up
}

func (c *client) dialOne(ctx context.Context, ap netip.AddrPort, left int) (net.Conn, error) {
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
	defer cancel()
	return c.cfg.Dialer.DialContext(ctx, "tcp", ap.String())
}
