package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// descriptors counts what this process has open.
func descriptors(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc: ", err)
	}
	return len(names)
}

// TestThousandConnections: all open at once, each carries its own bytes, and
// nothing is left of them.
func TestThousandConnections(t *testing.T) {
	const n = 1000
	raiseOpenFiles(t, 5*n)
	before := descriptors(t)
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, echo))
	p := startProxy(t, w, allow("a.example.org:7000"))
	var open, clients sync.WaitGroup
	open.Add(n)
	var good atomic.Int32
	for i := range n {
		clients.Go(func() {
			once := sync.OnceFunc(open.Done)
			defer once()
			conn, err := net.Dial("tcp", p.addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(60 * time.Second))
			fmt.Fprintf(conn, "CONNECT a.example.org:7000 HTTP/1.1\r\n\r\n")
			r := bufio.NewReader(conn)
			status, err := r.ReadString('\n')
			r.ReadString('\n')
			if !strings.Contains(status, " 200 ") {
				t.Errorf("%d: %q, %v", i, status, err)
				return
			}
			once()
			open.Wait() // none says a word before all are open
			want := strings.Repeat(fmt.Sprintf("\x00%d.", i), 1000)
			go func() {
				io.WriteString(conn, want)
				conn.(*net.TCPConn).CloseWrite()
			}()
			if got, err := io.ReadAll(r); string(got) == want && err == nil {
				good.Add(1)
			}
		})
	}
	clients.Wait()
	if good.Load() != n {
		t.Errorf("%d of %d came back whole", good.Load(), n)
	}
	for range n {
		if e := p.event(t); e.Decision != Allow || e.Reason != "" || e.Up != e.Down || e.Up == 0 {
			t.Fatalf("event %+v", e)
		}
	}
	p.stop()
	// The echo server closes its side by itself, a moment later; its listener stays.
	for deadline := time.Now().Add(30 * time.Second); descriptors(t) > before+20; {
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors, before it were %d", descriptors(t), before)
		}
	}
}

func raiseOpenFiles(t testing.TB, n uint64) {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Cur >= n {
		return
	}
	if l.Max < n {
		t.Skipf("this test opens %d files, and the hard limit is %d (ulimit -Hn)", n, l.Max)
	}
	l.Cur = n
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, echo))
	p := startProxy(t, w, func(c *Config) {
		c.Allow, c.Limits.Connections = [][]string{{"a.example.org:7000"}}, 2
	})
	first, _, _ := connectTo(t, p, "a.example.org:7000")
	connectTo(t, p, "a.example.org:7000")
	third := dialTCP(t, p.addr)
	if b, _ := io.ReadAll(third); len(b) > 0 {
		t.Errorf("one too many: %q", b)
	}
	if e := p.event(t); e.Decision != Deny || e.Reason != ReasonLimit {
		t.Errorf("event %+v", e)
	}
	first.Close()
	p.event(t) // its place is free a moment after this
	for {
		conn := dialTCP(t, p.addr)
		fmt.Fprintf(conn, "CONNECT a.example.org:7000 HTTP/1.1\r\n\r\n")
		if line, _ := bufio.NewReader(conn).ReadString('\n'); strings.Contains(line, " 200 ") {
			break
		}
	}
}

// TestConnectionsInAllAreBounded: a program that connects in a loop reaches nothing
// after a while, and the log has two entries for that.
func TestConnectionsInAllAreBounded(t *testing.T) {
	w := newWorld()
	origin := rawOrigin(t, ok)
	w.site("a.example.org", "93.184.216.34", 80, origin)
	p := startProxy(t, w, func(c *Config) {
		c.Allow, c.Limits.Total = [][]string{{"a.example.org"}}, 3
	})
	const get = "GET http://a.example.org/ HTTP/1.1\r\nHost: a.example.org\r\n\r\n"
	if resp, _ := roundTrip(t, p, get, "GET"); resp.StatusCode != 200 {
		t.Fatalf("the first: %d", resp.StatusCode)
	}
	conn := dialTCP(t, p.addr)
	io.WriteString(conn, get+get+get)
	if b, _ := io.ReadAll(conn); strings.Count(string(b), " 200 OK") != 2 {
		t.Errorf("the second connection: %q", b)
	}
	for range 50 {
		if b, _ := io.ReadAll(dialTCP(t, p.addr)); len(b) > 0 {
			t.Errorf("past the limit: %q", b)
		}
	}
	p.stop()
	if seen := len(origin.requests()); seen != 3 {
		t.Errorf("the server saw %d requests", seen)
	}
	close(p.events)
	var limits []string
	for e := range p.events {
		if e.Reason == ReasonLimit {
			limits = append(limits, e.Detail)
		}
	}
	if len(limits) != 2 || !strings.Contains(limits[0], "more than 3 connections") || !strings.Contains(limits[1], "50 further") {
		t.Errorf("recorded %q", limits)
	}
}

func TestBytesAreBounded(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits Limits
		later  Reason // of the next connection
	}{
		{"of one connection", Limits{ConnBytes: 100_000}, ""},
		{"of all", Limits{Bytes: 100_000}, ReasonLimit},
	} {
		w := newWorld()
		w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, echo))
		p := startProxy(t, w, func(cfg *Config) {
			cfg.Allow, cfg.Limits = [][]string{{"a.example.org:7000"}}, c.limits
		})
		conn, r, _ := connectTo(t, p, "a.example.org:7000")
		go io.WriteString(conn, strings.Repeat("\x00", 10_000_000))
		got, _ := io.Copy(io.Discard, r)
		e := p.event(t)
		if got > 100_000 || e.Reason != ReasonLimit || e.Decision != Allow || e.Up > 100_000+largeBuffer {
			t.Errorf("%s: %d bytes came back, event %+v", c.name, got, e)
		}
		_, _, resp := connectTo(t, p, "a.example.org:7000")
		if got := Reason(resp.Header.Get("Sandgate-Reason")); got != c.later {
			t.Errorf("%s: then %s, want %q", c.name, resp.Status, c.later)
		}
	}
}

// TestSlowClientsAreEnded: a byte now and then does not keep a connection, at any
// point before the tunnel is open.
func TestSlowClientsAreEnded(t *testing.T) {
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 443, serveTCP(t, echo))
	p := startProxy(t, w, func(c *Config) {
		c.Allow, c.Limits.Header = [][]string{{"a.example.org"}}, 100*time.Millisecond
	})
	for _, first := range []string{
		"", "G", "GET http://a.example.org/ HTTP/1.1\r\nX: ", "\x05", "\x05\x01\x00\x05\x01\x00\x03\x20abc",
	} {
		conn := dialTCP(t, p.addr)
		io.WriteString(conn, first)
		drip(t, conn, "1")
		if e := p.event(t); first != "" && e.Reason != ReasonTimeout {
			t.Errorf("%q: event %+v", first, e)
		}
	}
	for _, first := range []string{"\x16", "\x16\x03\x01\x01\x00\x01", "GET / "} {
		conn, _, resp := connectTo(t, p, "a.example.org:443")
		if resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
		io.WriteString(conn, first)
		drip(t, conn, "\x03")
		if e := p.event(t); e.Up != 0 {
			t.Errorf("%q: event %+v", first, e)
		}
	}
}

// drip writes a byte every few milliseconds until the other side has had enough.
func drip(t testing.TB, conn net.Conn, b string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	start := time.Now()
	for range tick.C {
		if _, err := io.WriteString(conn, b); err != nil {
			return
		}
		if time.Since(start) > 10*time.Second {
			t.Error("the connection is kept")
			return
		}
	}
}

func TestIdleConnectionsAreEnded(t *testing.T) {
	ended := make(chan struct{})
	defer close(ended)
	for name, server := range map[string]func(net.Conn){
		"both silent":        func(conn net.Conn) { io.Copy(io.Discard, conn) },
		"client never reads": func(conn net.Conn) { io.Copy(conn, zeros{}) },
		"server never reads": func(net.Conn) { <-ended },
	} {
		w := newWorld()
		w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, server))
		p := startProxy(t, w, func(c *Config) {
			c.Allow, c.Limits.Idle = [][]string{{"a.example.org:7000"}}, 100*time.Millisecond
		})
		conn, _, resp := connectTo(t, p, "a.example.org:7000")
		if resp.StatusCode != 200 {
			t.Fatal(resp.Status)
		}
		if name == "server never reads" {
			io.Copy(conn, zeros{}) // until it is cut
		}
		if e := p.event(t); e.Decision != Allow || e.Reason != ReasonTimeout && e.Reason != ReasonBroken {
			t.Errorf("%s: event %+v", name, e)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestOneDirectionKeepsTheOther: a long download has a silent client. The server
// writes while its client has been silent for several idle times, and each pause
// of its own is a small part of one, so that a busy machine does not make it idle.
func TestOneDirectionKeepsTheOther(t *testing.T) {
	const idle, pieces = 3 * time.Second, 45
	w := newWorld()
	silent := make(chan time.Duration, 1)
	w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, func(conn net.Conn) {
		tick := time.NewTicker(idle / 20)
		defer tick.Stop()
		start := time.Now()
		for range pieces {
			<-tick.C
			io.WriteString(conn, ".")
		}
		silent <- time.Since(start)
	}))
	p := startProxy(t, w, func(c *Config) {
		c.Allow, c.Limits.Idle = [][]string{{"a.example.org:7000"}}, idle
	})
	conn, r, _ := connectTo(t, p, "a.example.org:7000")
	if got, err := io.ReadAll(r); len(got) != pieces || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	conn.Close()
	p.event(t)
	if d := <-silent; d < 2*idle {
		t.Errorf("the client was silent for %v, too short to show anything", d)
	}
}

// TestHalfClose: each side may end its direction first, and hears the other out.
func TestHalfClose(t *testing.T) {
	w := newWorld()
	w.site("up.example.org", "93.184.216.34", 7000, serveTCP(t, func(conn net.Conn) {
		b, _ := io.ReadAll(conn) // answers only after the end
		fmt.Fprintf(conn, "%d bytes", len(b))
	}))
	heard := make(chan string, 1)
	w.site("down.example.org", "93.184.216.35", 7000, serveTCP(t, func(conn net.Conn) {
		io.WriteString(conn, "bye")
		conn.(*net.TCPConn).CloseWrite()
		b, _ := io.ReadAll(conn)
		heard <- string(b)
	}))
	p := startProxy(t, w, allow("*.example.org:7000"))
	conn, r, _ := connectTo(t, p, "up.example.org:7000")
	io.WriteString(conn, "\x00123")
	conn.CloseWrite()
	if got, err := io.ReadAll(r); string(got) != "4 bytes" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	conn, r, _ = connectTo(t, p, "down.example.org:7000")
	if got, err := io.ReadAll(r); string(got) != "bye" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	io.WriteString(conn, "\x00still here")
	conn.CloseWrite()
	if got := <-heard; got != "\x00still here" {
		t.Errorf("the server heard %q", got)
	}
}

// TestResetsHarmNobody: connections that are torn at every point, from both sides,
// beside one that goes on.
func TestResetsHarmNobody(t *testing.T) {
	reset := func(conn net.Conn) {
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, echo))
	w.site("b.example.org", "93.184.216.35", 7000, serveTCP(t, reset))
	p := startProxy(t, w, allow("*.example.org:7000"))
	steady, r, _ := connectTo(t, p, "a.example.org:7000")
	const whole = "CONNECT a.example.org:7000 HTTP/1.1\r\n\r\n"
	for i := range whole {
		conn := dialTCP(t, p.addr)
		io.WriteString(conn, whole[:i+1])
		reset(conn)
		p.event(t)
	}
	for range 10 {
		conn, _, _ := connectTo(t, p, "a.example.org:7000")
		go io.Copy(conn, io.LimitReader(zeros{}, 1<<20))
		conn.Read(make([]byte, 1))
		reset(conn)
		p.event(t)
		conn, _, _ = connectTo(t, p, "b.example.org:7000")
		io.Copy(io.Discard, conn)
		if e := p.event(t); e.Host != "b.example.org" || e.Decision != Allow {
			t.Errorf("event %+v", e)
		}
		conn.Close()
	}
	io.WriteString(steady, "\x00still")
	got := make([]byte, 6)
	if _, err := io.ReadFull(r, got); string(got) != "\x00still" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestServeEndsWithEverything: also with connections in every state.
func TestServeEndsWithEverything(t *testing.T) {
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, func(conn net.Conn) { io.Copy(io.Discard, conn) }))
	w.site("a.example.org", "93.184.216.34", 80, serveTCP(t, func(conn net.Conn) { io.Copy(io.Discard, conn) }))
	p := startProxy(t, w, func(c *Config) {
		c.Allow = [][]string{{"a.example.org:7000", "a.example.org:80"}}
		c.Ask = func(ctx context.Context, _ Request) (bool, error) { <-ctx.Done(); return false, ctx.Err() }
	})
	dialTCP(t, p.addr)
	connectTo(t, p, "a.example.org:7000")
	for _, send := range []string{"GET", "\x05\x01", "CONNECT new.example.org:443 HTTP/1.1\r\n\r\n",
		"GET http://a.example.org/ HTTP/1.1\r\nHost: a.example.org\r\n\r\n"} {
		io.WriteString(dialTCP(t, p.addr), send)
	}
	for p.server.waiters(target(t, "new.example.org:443")) == 0 || len(w.dials()) < 2 {
		runtime.Gosched()
	}
	p.stop()
	if n := len(p.server.slots); n != 0 {
		t.Errorf("%d connections are left", n)
	}
	if len(p.events) != 6 {
		t.Errorf("%d events of 6 connections", len(p.events))
	}
}

// TestServeGoesOnAfterTemporaryErrors: as when descriptors run out.
func TestServeGoesOnAfterTemporaryErrors(t *testing.T) {
	s, err := New(Config{Audit: func(Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	l := &failing{errs: []error{syscall.EMFILE, syscall.ECONNABORTED, errors.New("broken")}}
	if err := s.Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("Serve: %v", err)
	}
	if len(l.errs) != 0 || !l.closed.Load() {
		t.Errorf("errors left: %v, closed %t", l.errs, l.closed.Load())
	}
}

type failing struct {
	errs   []error
	closed atomic.Bool
}

func (f *failing) Accept() (net.Conn, error) {
	err := f.errs[0]
	f.errs = f.errs[1:]
	return nil, &net.OpError{Op: "accept", Err: err}
}
func (f *failing) Close() error   { f.closed.Store(true); return nil }
func (f *failing) Addr() net.Addr { return &net.TCPAddr{} }

// TestAPanicEndsOneConnection: the supervisor goes on.
func TestAPanicEndsOneConnection(t *testing.T) {
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, echo))
	p := startProxy(t, w, func(c *Config) {
		c.Allow = [][]string{{"a.example.org:7000"}}
		c.Ask = nil
		c.Dialer = panicky{}
	})
	conn := dialTCP(t, p.addr)
	io.WriteString(conn, "CONNECT a.example.org:7000 HTTP/1.1\r\n\r\n")
	io.Copy(io.Discard, conn)
	if e := p.event(t); e.Reason != ReasonInternal || e.Decision != Deny {
		t.Errorf("event %+v", e)
	}
	if _, _, resp := connectTo(t, p, "other.example.org:7000"); resp.StatusCode != 403 {
		t.Errorf("afterwards: %s", resp.Status)
	}
}

type panicky struct{}

func (panicky) DialContext(context.Context, string, string) (net.Conn, error) { panic("a mistake") }
