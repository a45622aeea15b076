// Package websock is a WebSocket that carries one JSON value a message, and does not
// wait for a peer that neither reads nor answers.
package websock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Limits of a connection.
const (
	writeTime = 10 * time.Second
	pingEvery = 30 * time.Second
	pingTime  = 10 * time.Second
)

// Codes that a connection is closed with.
const (
	Policy = websocket.StatusPolicyViolation
	Away   = websocket.StatusGoingAway
)

// A Conn is one connection. It is closed when its context ends.
type Conn struct {
	ws     *websocket.Conn
	cancel context.CancelFunc
	pings  sync.WaitGroup
}

// Accept answers a request to upgrade, or writes why not. Of the subprotocols that the
// client offers, protocol is chosen if it is one. A page of another origin is refused
// here too. Messages may have limit bytes. The context ends with the connection.
func Accept(w http.ResponseWriter, r *http.Request, protocol string, limit int64) (*Conn, context.Context, error) {
	o := &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled}
	if protocol != "" {
		o.Subprotocols = []string{protocol}
	}
	ws, err := websocket.Accept(w, r, o)
	if err != nil {
		return nil, nil, fmt.Errorf("websocket: %w", err)
	}
	ws.SetReadLimit(limit)
	ctx, cancel := context.WithCancel(r.Context())
	c := &Conn{ws: ws, cancel: cancel}
	c.pings.Go(func() { c.keepAlive(ctx) })
	return c, ctx, nil
}

// Subprotocol is the one that was chosen, or "".
func (c *Conn) Subprotocol() string { return c.ws.Subprotocol() }

// keepAlive ends a connection whose peer is gone without a word.
func (c *Conn) keepAlive(ctx context.Context) {
	defer c.cancel()
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		limit, cancel := context.WithTimeout(ctx, pingTime)
		err := c.ws.Ping(limit)
		cancel()
		if err != nil {
			return
		}
	}
}

// Close ends the connection with a code and a reason, if the peer still listens.
func (c *Conn) Close(code websocket.StatusCode, reason string) {
	_ = c.ws.Close(code, reason) // it is over either way
	c.cancel()
	c.pings.Wait()
}

// Drop ends the connection without a word.
func (c *Conn) Drop() {
	_ = c.ws.CloseNow()
	c.cancel()
	c.pings.Wait()
}

// Send writes one value. Several goroutines may send.
func (c *Conn) Send(ctx context.Context, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, b)
}

// ErrBinary is the error of a message that is not text.
var ErrBinary = errors.New("a binary message; JSON is text")

// Receive reads one message.
func (c *Conn) Receive(ctx context.Context) ([]byte, error) {
	kind, b, err := c.ws.Read(ctx)
	if err == nil && kind != websocket.MessageText {
		err = ErrBinary
	}
	return b, err
}
