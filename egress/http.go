package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/hostrule"
)

// serveHTTP answers requests until one is a CONNECT, fails, or asks to close. Each
// is decided on its own: an earlier one permits nothing.
func (c *client) serveHTTP(ctx context.Context) {
	for first := true; ; first = false {
		h, err := readHead(c.r, c.cfg.Limits.HeaderBytes)
		if !first && errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			c.reject(c.attempt(""), err)
			return
		}
		c.conn.limitReads(0)
		if h.method == http.MethodConnect {
			c.connect(ctx, h)
			return
		}
		if !c.forward(ctx, h) {
			c.conn.linger()
			return
		}
		if _, err := c.r.Peek(1); err != nil {
			return
		}
		if c.exhausted() {
			return
		}
		c.conn.limitReads(c.cfg.Limits.Header)
	}
}

// reject sends the client the reason why there is no connection, and records it.
func (c *client) reject(a *attempt, err error) {
	if r := asRefusal(err); r.Reason != ReasonBroken {
		c.respond(r)
		c.conn.linger()
	}
	a.finish(err)
}

func (c *client) connect(ctx context.Context, h *head) {
	a := c.attempt(ProtocolConnect)
	t, err := h.authority()
	if err != nil {
		c.reject(a, err)
		return
	}
	t = c.standIns.meant(t)
	up, err := c.open(ctx, a, t)
	if err != nil {
		c.reject(a, err)
		return
	}
	defer c.ending.holds()()
	if _, err = io.WriteString(c.conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
		err = c.tunnel(ctx, a, t, up)
	}
	up.Close()
	a.finish(err)
}

// authority reads the target of CONNECT. A body has no meaning there, and another
// server could take an announced body for a second request.
func (h *head) authority() (Target, error) {
	if h.framing != framedNone && (h.framing != framedLength || h.length > 0) {
		return Target{}, malformed("CONNECT request with a body")
	}
	t, err := hostrule.ParseTarget(h.target, 0)
	if err != nil {
		return Target{}, malformed("CONNECT: %w", err)
	}
	return t, nil
}

// forward takes one request in absolute form to its server, and the response back.
// It reports whether the connection can take another.
func (c *client) forward(ctx context.Context, h *head) (again bool) {
	a := c.attempt(ProtocolHTTP)
	c.answered = false
	t, path, err := h.absolute()
	if err != nil {
		a.event.Host, a.event.Port = t.Host.String(), t.Port
	} else if err = c.apply(a, t, h); err != nil {
		a.event.Host, a.event.Port = t.Host.String(), t.Port
	} else {
		var up *stream
		if up, err = c.open(ctx, a, t); err == nil {
			again, err = c.exchange(h, up, t, path)
			up.Close()
		}
	}
	switch r := asRefusal(err); {
	case err != nil && !c.answered:
		c.respond(r)
	case err != nil:
		c.conn.reset() // a response whose end is the connection's must not look whole
	}
	a.finish(err)
	return again
}

// exchange sends the request and passes the response on, both at once: a server may answer
// before it has the whole body. The connection to the server is not reused, so data that either
// side smuggles behind its message goes nowhere.
func (c *client) exchange(h *head, up *stream, t Target, path string) (again bool, err error) {
	sent := make(chan error, 1)
	go func() {
		err := guarded(func() error { return c.send(h, up, t, path) })
		if err != nil && (!up.writeFailed.Load() || errors.Is(err, errBudget)) {
			up.Close() // the client's end is torn; the server must not take half for the whole
		}
		sent <- err
	}()
	again, err = c.passResponse(h, t, up)
	if err == nil && again {
		if sendErr, done := settled(sent, h); done {
			return sendErr == nil, onlyRefusal(sendErr)
		}
	}
	c.conn.stopReads() // the response is complete, so what is left of the request is not wanted
	up.Close()
	sendErr := <-sent
	if err != nil && sendErr != nil && !up.writeFailed.Load() || onlyRefusal(sendErr) != nil {
		err = sendErr
	}
	return false, err
}

// send is head.send with an eye on what goes to t.
func (c *client) send(h *head, up *stream, t Target, path string) error {
	return h.send(up, c.r, c.hostField(t), path, func(body io.Reader) io.Reader { return c.watched(t, body) })
}

// onlyRefusal is err if it is one of ours. A server that answers early does not hide
// it; that it did not want the rest of a request is normal.
func onlyRefusal(err error) error {
	if r := (*Refusal)(nil); errors.As(err, &r) {
		return r
	}
	return nil
}

// settled waits for the end of a request that has been answered. A server answers
// when it has read the request, which may be before our goroutine that wrote it has
// run on; without a wait, the client's next request would find the connection
// closed. A body of which more comes than that is one that the server did not want.
func settled(sent <-chan error, h *head) (err error, done bool) {
	if h.framing == framedNone {
		return <-sent, true
	}
	grace := time.NewTimer(lingerTime)
	defer grace.Stop()
	select {
	case err := <-sent:
		return err, true
	case <-grace.C:
		return nil, false
	}
}

// passResponse reads one response and writes it to the client. It reports whether
// the client can tell where it ended other than by the end of the connection.
func (c *client) passResponse(h *head, t Target, up *stream) (framed bool, err error) {
	limited := &io.LimitedReader{R: up, N: int64(c.cfg.Limits.HeaderBytes)}
	r := bufio.NewReader(limited)
	resp, err := c.readResponse(r, up, h, t)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	limited.N = math.MaxInt64
	own, _ := c.split(t)
	how := responseFraming(resp, h)
	c.answered = true
	closing := h.closes() || how == framedByClose
	if _, err := io.WriteString(c.conn, own.blot(string(marshalResponse(resp, how, closing)))); err != nil {
		return false, err
	}
	if how != framedNone {
		err = c.passBody(c.blotted(t, resp.Body), how)
	}
	return err == nil && !closing, err
}

// closes reports whether the client wants the connection closed after this.
func (h *head) closes() bool {
	for _, value := range slices.Concat(h.all("Connection"), h.all("Proxy-Connection")) {
		for option := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(option), "close") {
				return true
			}
		}
	}
	return h.minor == 0
}

// maxInterim is how many 1xx responses are passed on before the real one.
const maxInterim = 8

func (c *client) readResponse(r *bufio.Reader, up *stream, h *head, t Target) (*http.Response, error) {
	for range maxInterim {
		resp, err := c.readResponseHead(r, up, h)
		if err != nil {
			return nil, fmt.Errorf("read the response: %w", err)
		}
		switch {
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errors.New("the server switched protocols without a request to do so")
		case resp.StatusCode >= 200:
			return resp, nil
		case h.minor == 0:
			continue // HTTP/1.0 does not know them
		}
		own, _ := c.split(t)
		if _, err := io.WriteString(c.conn, own.blot(string(marshalResponse(resp, framedNone, false)))); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the server sent too many interim responses")
}

// readResponseHead lets a server think as long as it is not idle. Once it has begun, it
// has as long as a client for a request.
func (c *client) readResponseHead(r *bufio.Reader, up *stream, h *head) (*http.Response, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	up.limitReads(c.cfg.Limits.Header)
	defer up.limitReads(0)
	return http.ReadResponse(r, &http.Request{Method: h.method})
}

// framedByClose is a body that ends with the connection.
const framedByClose framing = 255

// responseFraming chooses how the client learns where the body ends.
func responseFraming(resp *http.Response, h *head) framing {
	code := resp.StatusCode
	switch {
	case h.method == http.MethodHead || code == http.StatusNoContent || code == http.StatusNotModified:
		return framedNone
	case resp.ContentLength >= 0:
		return framedLength
	case h.minor == 1:
		return framedChunked
	}
	return framedByClose
}

// marshalResponse writes a response's head anew. Only the status code is taken from
// the first line.
func marshalResponse(resp *http.Response, how framing, closing bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", resp.StatusCode, http.StatusText(resp.StatusCode))
	dropped := drops(resp.Header.Values("Connection"))
	for name, values := range resp.Header {
		for _, value := range values {
			if !dropped(name) {
				fmt.Fprintf(&b, "%s: %s\r\n", name, value)
			}
		}
	}
	switch length := resp.Header.Get("Content-Length"); {
	case how == framedChunked:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	case how == framedLength:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", resp.ContentLength)
	case how == framedNone && length != "" && resp.StatusCode >= 200:
		fmt.Fprintf(&b, "Content-Length: %s\r\n", length) // of what GET would bring
	}
	if closing {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// passBody copies a body, each piece as it comes: a stream of events must not wait
// for a buffer to fill.
func (c *client) passBody(body io.Reader, how framing) error {
	out := bufio.NewWriter(c.conn)
	var w io.Writer = out
	chunks := httputil.NewChunkedWriter(out)
	if how == framedChunked {
		w = chunks
	}
	if err := c.copyPieces(w, body, out.Flush); err != nil {
		return err
	}
	if how == framedChunked {
		chunks.Close()
		io.WriteString(out, "\r\n")
	}
	return out.Flush()
}

func (c *client) copyPieces(w io.Writer, body io.Reader, flush func() error) error {
	buf := make([]byte, smallBuffer)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// statuses is the HTTP status of each reason; others are 502.
var statuses = map[Reason]int{
	ReasonMalformed:   http.StatusBadRequest,
	ReasonUnsupported: http.StatusNotImplemented,
	ReasonDenied:      http.StatusForbidden,
	ReasonUnlisted:    http.StatusForbidden,
	ReasonUnanswered:  http.StatusForbidden,
	ReasonAddress:     http.StatusForbidden,
	ReasonMismatch:    http.StatusForbidden,
	ReasonCredential:  http.StatusForbidden,
	ReasonUse:         http.StatusForbidden,
	ReasonLimit:       http.StatusServiceUnavailable,
	ReasonTimeout:     http.StatusGatewayTimeout,
}

// maxPhrase bounds the text in a status line, in bytes.
const maxPhrase = 160

// respond tells why not. The reason stands in the status line too: for a refused
// CONNECT most clients print that line and throw the body away.
func (c *client) respond(r *Refusal) {
	code, ok := statuses[r.Reason]
	if !ok {
		code = http.StatusBadGateway
	}
	body := c.credentials.blot(r.body())
	phrase := c.credentials.blot(printable(http.StatusText(code) + ": " + strings.TrimPrefix(r.Error(), "egress: ")))
	fmt.Fprintf(c.conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"+
		"Connection: close\r\nSandgate-Reason: %s\r\n\r\n%s",
		code, phrase[:min(len(phrase), maxPhrase)], len(body), r.Reason, body)
}

// printable replaces what has no place in a status line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, s)
}
