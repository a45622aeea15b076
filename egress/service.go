package egress

import (
	"context"
	"net"

	"github.com/sandgate/sandgate/internal/hostrule"
)

// dialService connects to a service that has been permitted. Deny rules speak of
// its address too.
func (c *client) dialService(ctx context.Context, t Target, s hostrule.Service) (net.Conn, error) {
	if s.Own != "" {
		answer := c.cfg.Own[s.Own]
		if answer == nil {
			return nil, refuse(ReasonUnreachable, t, "no service of sandgate answers there")
		}
		ours, theirs := net.Pipe()
		c.answering.Go(func() {
			defer theirs.Close()
			answer(theirs)
		})
		return ours, nil
	}
	if s.Socket != "" {
		conn, err := dialSocket(ctx, c.cfg.Dialer, s.Socket)
		if err != nil {
			return nil, refuse(ReasonUnreachable, t, "the service does not answer: %w", err)
		}
		return conn, nil
	}
	if rule, ok := c.policy.denies(Target{Host: hostrule.HostAt(s.Addr.Addr()), Port: s.Addr.Port()}); ok {
		return nil, refuse(ReasonDenied, t, "denied by the rule %s", rule)
	}
	conn, err := c.cfg.Dialer.DialContext(ctx, "tcp", s.Addr.String())
	if err != nil {
		return nil, refuse(ReasonUnreachable, t, "the service does not answer: %w", err)
	}
	return conn, nil
}
