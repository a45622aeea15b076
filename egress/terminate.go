package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

// TLS ends here for the hosts that have a credential, at their one port, so that
// the secret can be put into their requests; for every other host it goes through
// untouched. The program speaks to a certificate of Config.Authority, the host is
// checked against the certificates that this machine trusts, and in between lies
// plain HTTP/1.1, which is read, held to the host and written anew like any other.
// As there, a connection to the host carries one request, and a switch to another
// protocol does not pass.

// protocolHTTP1 is the protocol of both sides (ALPN, RFC 7301).
const protocolHTTP1 = "http/1.1"

// terminates reports whether TLS to t ends here.
func (s *Server) terminates(t Target) bool {
	_, service := s.policy.service(t)
	return !service && slices.ContainsFunc(s.credentials, func(c Credential) bool { return c.Secret != "" && c.host == t })
}

// beginsTLS waits for the first byte from the client. It takes nothing.
func (c *client) beginsTLS() bool {
	c.conn.limitReads(c.cfg.Limits.Header)
	defer c.conn.limitReads(0)
	first, err := c.r.Peek(1)
	return err == nil && first[0] == recordHandshake
}

// terminate speaks TLS with the client in the place of t, and carries its requests.
// The first goes over up, each further one over a connection of its own and with a
// record of its own, since it is decided on its own.
func (c *client) terminate(ctx context.Context, a *attempt, t Target, up *stream) error {
	a.event.Terminated = true
	inner, err := c.unseal(ctx, t)
	if err != nil {
		return err
	}
	defer inner.conn.linger()
	again, err := inner.request(ctx, a, t, up)
	a.finish(err)
	for again {
		if _, gone := inner.r.Peek(1); gone != nil || c.exhausted() {
			break // between two requests anything may end it
		}
		next := c.attempt(a.event.Protocol)
		again, err = inner.request(ctx, next, t, nil)
		next.finish(err)
	}
	return err
}

// unseal is the client behind its TLS.
func (c *client) unseal(ctx context.Context, t Target) (*client, error) {
	c.conn.limitReads(c.cfg.Limits.Header)
	hello, err := c.goodHello(t)
	if err != nil {
		return nil, err
	}
	leaf, err := c.cfg.Authority.leaf(t.Host.Name())
	if err != nil {
		return nil, &Refusal{Reason: ReasonInternal, Target: t, Err: err}
	}
	early, _ := c.r.Peek(c.r.Buffered())
	from := io.MultiReader(bytes.NewReader(hello), bytes.NewReader(bytes.Clone(early)), c.conn.Conn)
	conn := tls.Server(&replayed{c.conn.Conn, from}, &tls.Config{
		Certificates: []tls.Certificate{*leaf}, NextProtos: []string{protocolHTTP1},
		MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
	})
	if err := c.handshake(ctx, conn, c.conn.Conn, c.cfg.Limits.Header); err != nil {
		return nil, untrusted(t, err)
	}
	inner := &client{Server: c.Server, who: c.who, ctx: ctx, conn: newStream(conn, c.cfg.Limits.Idle, c.conn.activity), sealed: true}
	inner.r = bufio.NewReader(inner.conn)
	return inner, nil
}

// replayed is a connection of which some has been read.
type replayed struct {
	net.Conn
	from io.Reader
}

func (r *replayed) Read(p []byte) (int, error) { return r.from.Read(p) }

// handshake ends after limit, or with ctx. The deadlines of raw that reads have left
// are not the handshake's.
func (s *Server) handshake(ctx context.Context, conn *tls.Conn, raw net.Conn, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := raw.SetDeadline(time.Time{}); err != nil {
		return err
	}
	err := conn.HandshakeContext(ctx)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// untrusted is why a client did not come to terms with us.
func untrusted(t Target, err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	r := refuse(ReasonHandshake, t, "sandgate terminates TLS to this host, and the handshake with the program failed: %w", err)
	r.Hint = "make the program trust the file in SSL_CERT_FILE, and use HTTP/1.1 over TLS 1.2 or later"
	return r
}

// request takes one request of a client behind TLS to t, over up if that is there. It
// reports whether there can be another.
func (c *client) request(ctx context.Context, a *attempt, t Target, up *stream) (again bool, err error) {
	c.answered = false
	a.event.Host, a.event.Port, a.event.Terminated = t.Host.String(), t.Port, true
	c.conn.limitReads(c.cfg.Limits.Header)
	h, err := readHead(c.r, c.cfg.Limits.HeaderBytes)
	if errors.Is(err, io.EOF) {
		return false, nil // it came to look
	}
	c.conn.limitReads(0)
	if err == nil {
		_, err = c.checkInner(t, h)
	}
	if err == nil {
		err = c.apply(a, t, h)
	}
	if err == nil && up == nil {
		up, err = c.open(ctx, a, t)
	}
	if err == nil {
		up, err = c.seal(ctx, t, up)
	}
	if err == nil {
		again, err = c.exchange(h, up, t, h.target)
		up.Close()
	}
	if err != nil && !c.answered {
		c.respond(asRefusal(err))
	}
	return again, err
}

// seal is a connection to t inside TLS, once t has shown that it is t. Its bytes are
// counted as they are inside.
func (c *client) seal(ctx context.Context, t Target, up *stream) (*stream, error) {
	conn := tls.Client(up.Conn, &tls.Config{
		ServerName: t.Host.Name(), RootCAs: c.cfg.RootCAs, NextProtos: []string{protocolHTTP1},
		MinVersion: tls.VersionTLS12, ClientSessionCache: c.sessions,
	})
	if err := c.handshake(ctx, conn, up.Conn, c.cfg.Limits.Dial); err != nil {
		up.Close()
		var bad *tls.CertificateVerificationError
		switch {
		case errors.As(err, &bad):
			return nil, refuse(ReasonCertificate, t, "the host's certificate is not valid: %w", bad.Err)
		case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
			return nil, err
		}
		return nil, refuse(ReasonUnreachable, t, "the TLS handshake with the host failed: %w", err)
	}
	sealed := newStream(conn, c.cfg.Limits.Idle, up.activity)
	sealed.meter, sealed.forget = up.meter, up.forget
	return sealed, nil
}
