package websock

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConn: what is sent is read, another origin is refused, a binary message is none,
// one that is too long ends the connection, and nothing is left of any of them.
func TestConn(t *testing.T) {
	type received struct {
		text string
		err  error
	}
	got := make(chan received, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, ctx, err := Accept(w, r, "p", 10)
		if err != nil {
			got <- received{err: err}
			return
		}
		defer c.Drop()
		if err := c.Send(ctx, map[string]string{"protocol": c.Subprotocol()}); err != nil {
			t.Error(err)
		}
		b, err := c.Receive(ctx)
		got <- received{string(b), err}
	}))
	defer srv.Close()
	dial := func(origin string) (*websocket.Conn, error) {
		c, _, err := websocket.Dial(t.Context(), srv.URL, &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {origin}}, Subprotocols: []string{"p"}})
		return c, err
	}
	if _, err := dial("http://evil.test"); err == nil {
		t.Error("another origin has connected")
	}
	if r := <-got; r.err == nil {
		t.Error("another origin was accepted")
	}
	for text, want := range map[string]func(received) bool{
		"hello":                 func(r received) bool { return r.text == "hello" && r.err == nil },
		strings.Repeat("x", 11): func(r received) bool { return r.err != nil && !errors.Is(r.err, context.Canceled) },
		"binary":                func(r received) bool { return errors.Is(r.err, ErrBinary) },
	} {
		c, err := dial(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, b, err := c.Read(t.Context()); err != nil || string(b) != `{"protocol":"p"}` {
			t.Errorf("%s %v", b, err)
		}
		kind := websocket.MessageText
		if text == "binary" {
			kind = websocket.MessageBinary
		}
		if err := c.Write(t.Context(), kind, []byte(text)); err != nil {
			t.Error(err)
		}
		if r := <-got; !want(r) {
			t.Errorf("%q: %+v", text, r)
		}
		c.CloseNow()
	}
	srv.CloseClientConnections()
	http.DefaultClient.CloseIdleConnections()
}
