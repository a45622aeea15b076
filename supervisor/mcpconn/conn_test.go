package mcpconn

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A peer is the server's end: what the client writes, and where to answer.
type peer struct {
	*Conn
	asked <-chan message
	out   *io.PipeWriter
}

// meet begins a conversation with a server that does what the test does.
func meet(t testing.TB, l Limits, notify func(string, json.RawMessage)) *peer {
	t.Helper()
	out, in := io.Pipe()
	asked := make(chan message, 100)
	p := &peer{asked: asked, out: in}
	p.Conn = New(func(line []byte) error {
		var m message
		if err := json.Unmarshal(line, &m); err != nil || !strings.HasSuffix(string(line), "\n") {
			t.Errorf("the client wrote %q", line)
		}
		asked <- m
		return nil
	}, out, l, notify)
	t.Cleanup(func() {
		in.Close()
		<-p.Done()
	})
	return p
}

func (p *peer) say(text string) { fmt.Fprintln(p.out, text) }

// answer answers the next request with what it is told, with % for its id.
func (p *peer) answer(text string) {
	p.say(strings.ReplaceAll(text, "%", string((<-p.asked).ID)))
}

func TestConversation(t *testing.T) {
	heard := make(chan string, 10)
	p := meet(t, Limits{}, func(method string, _ json.RawMessage) { heard <- method })
	go p.answer(`{"jsonrpc":"2.0","id":%,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`)
	s, err := p.Initialize(t.Context(), "1")
	if err != nil || s.ServerInfo.Name != "s" || (<-p.asked).Method != "notifications/initialized" {
		t.Fatalf("%+v, %v", s, err)
	}
	go func() {
		p.answer(`{"jsonrpc":"2.0","id":%,"result":{"tools":[{"name":"a"}],"nextCursor":"2"}}`)
		if m := <-p.asked; string(m.Params) != `{"cursor":"2"}` {
			t.Errorf("asked %s", m.Params)
		}
		p.say(`{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"b"}]}}`)
	}()
	if list, err := p.Tools(t.Context()); err != nil || len(list) != 2 || string(list[1]) != `{"name":"b"}` {
		t.Errorf("%s, %v", list, err)
	}
	p.say(`{"jsonrpc":"2.0","id":"x","method":"elicitation/create","params":{}}`)
	if m := <-p.asked; string(m.ID) != `"x"` || m.Error == nil || m.Error.Code != methodNotFound {
		t.Errorf("a request of the server is answered with %+v", m)
	}
	p.say(`{"jsonrpc":"2.0","id":9,"method":"ping"}`)
	if m := <-p.asked; string(m.ID) != `9` || string(m.Result) != `{}` {
		t.Errorf("a ping is answered with %+v", m)
	}
	p.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	if m := <-heard; m != "notifications/tools/list_changed" || !p.Changed() {
		t.Errorf("heard %s", m)
	}
	go p.answer(`{"jsonrpc":"2.0","id":%,"error":{"code":-5,"message":"no\u001b"}}`)
	var refused *ServerError
	if _, err := p.Call(t.Context(), "a", json.RawMessage(`{}`)); !errors.As(err, &refused) || refused.Code != -5 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%v", err)
	}
}

func TestCancelledRequests(t *testing.T) {
	p := meet(t, Limits{}, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	ended := make(chan error)
	go func() {
		_, err := p.Call(ctx, "a", json.RawMessage(`{}`))
		ended <- err
	}()
	<-p.asked
	cancel(why)
	if err := <-ended; !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if m := <-p.asked; m.Method != "notifications/cancelled" || !strings.Contains(string(m.Params), `"requestId":1`) {
		t.Errorf("the server was told %+v", m)
	}
	p.say(`{"jsonrpc":"2.0","id":1,"result":{}}`) // too late: dropped
	go p.answer(`{"jsonrpc":"2.0","id":%,"result":{"content":[{"type":"text","text":"x"}]}}`)
	if r, err := p.Call(t.Context(), "a", nil); err != nil || r.Content[0].Text != "x" {
		t.Errorf("the next call: %v", err)
	}
}

// TestFaults: what no server may do ends the conversation, and every request.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"Listening on port 8080":               "Listening on port 8080",
		`{"jsonrpc":"1.0","id":1,"result":{}}`: "something other than a message",
		`[]`:                                   "something other than a message",
		"\xff":                                 "something other than a message",
		strings.Repeat("x", 2000):              "more than 1000 bytes",
		strings.Repeat(`{"jsonrpc":"2.0","method":"a"}`+"\n", 6):           "6 messages",
		strings.Repeat(`{"jsonrpc":"2.0","id":7,"result":{}}`+"\n", 6):     "6 messages",
		strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n", 6): "6 messages",
	} {
		p := meet(t, Limits{Message: 1000, Unasked: 5}, nil)
		go func() {
			<-p.asked
			p.say(text)
		}()
		_, err := p.Request(t.Context(), "x", struct{}{})
		var f *FaultError
		if !errors.As(err, &f) || !strings.Contains(err.Error(), want) || p.Err() == nil {
			t.Errorf("%.40q: %v", text, err)
		}
		if _, again := p.Request(t.Context(), "x", struct{}{}); !errors.Is(again, p.Err()) {
			t.Errorf("%.40q: the next request: %v", text, again)
		}
	}
	p := meet(t, Limits{Unasked: 5}, nil) // the twin: as much is let through, request by request
	for range 3 {
		go func() {
			id := (<-p.asked).ID
			p.say(strings.Repeat(`{"jsonrpc":"2.0","method":"a"}`+"\n", 5) + `{"jsonrpc":"2.0","id":` + string(id) + `,"result":{}}`)
		}()
		if _, err := p.Request(t.Context(), "x", struct{}{}); err != nil {
			t.Error(err)
		}
	}
}

func TestServerThatReadsNothing(t *testing.T) {
	full := errors.New("full")
	out, in := io.Pipe()
	c := New(func([]byte) error { return full }, out, Limits{}, nil)
	if _, err := c.Request(t.Context(), "x", nil); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
	fmt.Fprintln(in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	<-c.Done()
	if !errors.Is(c.Err(), full) {
		t.Errorf("got %v", c.Err())
	}
	out.Close()
}

// FuzzConn: whatever a server writes, the conversation ends with its output, and a
// request under way has an answer or an error.
func FuzzConn(f *testing.F) {
	for _, s := range []string{
		"", "x", "\n\n{", `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`,
		`{"jsonrpc":"2.0","id":1}` + "\n" + `{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":1e0,"result":7}`,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":7}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, w := io.Pipe()
		c := New(func(line []byte) error {
			if !json.Valid(line) {
				t.Errorf("the client wrote %q", line)
			}
			return nil
		}, r, Limits{Message: 1 << 16, Unasked: 50}, func(string, json.RawMessage) {})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = c.Request(context.Background(), "x", nil)
		}()
		go func() {
			_, _ = w.Write(append(text, '\n'))
			w.Close()
		}()
		select {
		case <-c.Done():
		case <-time.After(30 * time.Second):
			t.Fatal("the conversation goes on")
		}
		r.Close()
		<-ended
		if c.Err() == nil {
			t.Error("it is over without a reason")
		}
	})
}

// FuzzResult: a result that is taken has content of the kinds that we know.
func FuzzResult(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"content":[{"type":"text","text":"x"},{"type":"image","data":"UA==","mimeType":"image/png"}]}`, `{"content":[7]}`,
		`{"content":[{"type":"resource","resource":{"uri":"x","blob":"UA=="}},{"type":"resource_link","uri":"x"}],"structuredContent":[1],"isError":true}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := ParseResult(raw)
		var fault *FaultError
		if err != nil && !errors.As(err, &fault) {
			t.Errorf("%v", err)
		}
		if len(r.Structured) > 0 && !json.Valid(r.Structured) {
			t.Errorf("structured %q", r.Structured)
		}
		for _, i := range r.Content {
			if i.Blob != nil && i.Text != "" {
				t.Errorf("%+v", i)
			}
		}
	})
}

// TestLongLines: a message is read whole over many reads.
func TestLongLines(t *testing.T) {
	p := meet(t, Limits{}, nil)
	go func() {
		<-p.asked
		w := bufio.NewWriter(p.out)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%s"}]}}`+"\r\n", strings.Repeat("y", 1<<20))
		w.Flush()
	}()
	if r, err := p.Call(t.Context(), "a", nil); err != nil || len(r.Content[0].Text) != 1<<20 {
		t.Errorf("%v", err)
	}
}
