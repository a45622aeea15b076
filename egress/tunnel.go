package egress

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/sandgate/sandgate/internal/hostrule"
)

// tunnel carries bytes both ways until both sides are done, and closes up. What the
// client says first is held against the target: the machines behind one address
// serve many names, and the name inside chooses among them.
//
// TLS to a host that has a credential ends here instead.
func (c *client) tunnel(ctx context.Context, a *attempt, t Target, up *stream) error {
	if c.terminates(t) && c.beginsTLS() {
		defer c.conn.linger()
		return c.terminate(ctx, a, t, up)
	}
	g := newGreeting(up)
	return c.carry(up, c.blotted(t, g), func() error { return c.upward(a, t, up, g) })
}

// carry sends the client what comes from a server, while upward does the other
// direction. It closes up.
func (c *client) carry(up *stream, from io.Reader, upward func() error) error {
	outer := up
	if c.direction == In {
		outer = c.conn
	}
	end := c.ending.carries(outer)
	defer end.over()
	down := make(chan error, 1)
	// The server may speak first, as in SSH and SMTP: this direction starts at once.
	go func() {
		err := guarded(func() error { return c.relay(c.conn, from) })
		if err != nil {
			c.conn.stopReads()
		} else if c.direction == In {
			end.saidAll()
		}
		down <- err
	}()
	err := end.unlessStopped(upward())
	var refused *Refusal
	switch {
	case errors.As(err, &refused):
		c.conn.linger() // the client has its refusal; the server hears nothing of it
		up.Close()
	case err != nil && !up.hungUp(err):
		up.reset() // what the server has is not the whole
	}
	if err == nil && c.direction != In {
		end.saidAll()
	}
	downErr := end.unlessStopped(<-down)
	up.Close()
	if downErr != nil && (err == nil || errors.Is(err, errStopped)) {
		err = downErr
	}
	if downErr != nil && refused == nil {
		c.conn.reset() // what the client has is not the whole
	}
	if err == nil {
		c.conn.linger() // what came after a request in the clear is still unread
	}
	return err
}

// upward carries what the client sends, once it is known for what it is.
func (c *client) upward(a *attempt, t Target, up *stream, g *greeting) error {
	begun := opening{text: slices.Contains(textPorts, t.Port)}
	from := c.watched(t, buffered{c.r, c.conn})
	for {
		_, err := c.r.Peek(1)
		if errors.Is(err, io.EOF) {
			return up.CloseWrite() // nothing to say: the server may still
		}
		if err != nil {
			return err
		}
		c.conn.limitReads(c.cfg.Limits.Header)
		what, n, err := c.beginning(t, g, &begun)
		switch {
		case err != nil:
			return err
		case what == aRequest && begun.binary:
			err = malformed("control characters come before the request")
			c.respond(asRefusal(err))
		case what == aRequest:
			return c.passRequest(a, t, up)
		case what == aHello:
			err = c.passHello(t, up)
		case what == nothingYet || what == anAsk:
			_, err = io.CopyN(up, from, int64(n))
		}
		c.conn.limitReads(0)
		if err == nil && what == aHello {
			err = c.passRetry(t, up, g)
		}
		if err != nil {
			return err
		}
		if what != nothingYet && what != anAsk {
			return c.relay(up, from)
		}
	}
}

// passHello holds the ClientHello against the target and passes it on.
func (c *client) passHello(t Target, up *stream) error {
	raw, err := c.goodHello(t)
	if err == nil {
		_, err = up.Write(raw)
	}
	return err
}

// goodHello reads a ClientHello that is for t.
func (c *client) goodHello(t Target) ([]byte, error) {
	raw, h, err := readHello(c.r)
	if err == nil {
		err = c.checkHello(t, h)
	} else {
		err = refuse(ReasonMismatch, t, "the first bytes are TLS, but not a valid ClientHello: %w", err)
	}
	if err != nil {
		c.conn.Write(alert(alertUnrecognized))
		return nil, err
	}
	return raw, nil
}

func (s *Server) checkHello(t Target, h hello) error {
	if h.encrypted && !s.cfg.AllowECH {
		r := refuse(ReasonMismatch, t, "the TLS ClientHello has an encrypted part (ECH), which could name another server")
		r.Hint = "turn off ECH and ECH GREASE in the client"
		return r
	}
	if h.name == "" && t.Host.IsAddr() {
		return nil // an address that is listed as one is the server, whatever its name
	}
	if h.name == "" {
		r := refuse(ReasonMismatch, t, "the TLS ClientHello names no server (SNI)")
		r.Hint = "make the client send the server's name, or list the address"
		return r
	}
	return s.checkName(t, h.name, "TLS (SNI)")
}

// checkName holds a name that was found inside a connection against the target. For
// a target that was listed as an address, it has to be one that the lists allow.
func (s *Server) checkName(t Target, name, where string) error {
	h, err := hostrule.ParseHost(name)
	if err != nil {
		return refuse(ReasonMismatch, t, "%s inside the tunnel does not name a host: %w", where, err)
	}
	if h == t.Host {
		return nil
	}
	if v, _ := s.policy.decide(Target{Host: h, Port: t.Port}); v == allowed && t.Host.IsAddr() {
		return nil
	}
	return refuse(ReasonMismatch, t, "%s inside the tunnel names another host: %s", where, h)
}

// passRequest carries one HTTP request in the clear, and no second one, which
// could name another host: the client opens a new connection for that.
func (c *client) passRequest(a *attempt, t Target, up *stream) error {
	h, err := readHead(c.r, c.cfg.Limits.HeaderBytes)
	inner := t
	if err == nil {
		inner, err = c.checkInner(t, h)
	}
	if err == nil {
		err = c.apply(a, t, h)
	}
	if err != nil {
		c.respond(asRefusal(err))
		return err
	}
	c.conn.limitReads(0)
	return c.send(h, up, inner, h.target)
}

// checkInner returns what a request inside a tunnel to t is for.
func (s *Server) checkInner(t Target, h *head) (Target, error) {
	inner, err := h.host(t.Port)
	switch {
	case err != nil:
		return Target{}, err
	case h.target[0] != '/':
		return Target{}, malformed("a request inside a tunnel must name a path, not %.80q", h.target)
	case inner.Port != t.Port:
		return Target{}, refuse(ReasonMismatch, t, "Host inside the tunnel names another port: %d", inner.Port)
	}
	return inner, s.checkName(t, inner.Host.String(), "Host")
}
