package egress

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// leavesNothing runs f in a subtest, with the proxies and servers that it starts, and
// then waits until there are no more goroutines and descriptors than before. What the
// runtime keeps of pipes for splicing is its own, until it collects them.
func leavesNothing(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	settle := func() (goroutines, files int) {
		runtime.GC() // pipes that nobody uses
		return runtime.NumGoroutine(), descriptors(t)
	}
	goroutines, files := settle()
	t.Run(name, f)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		g, d := settle()
		if g <= goroutines && d <= files+2 { // the poller of the runtime is opened once
			return
		}
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%s: %d goroutines of %d, %d descriptors of %d are left\n%s", name, g, goroutines, d, files, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// heap is what is in use, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// TestSlowPeersCostLittle: many clients and servers that send a byte now and then, or
// nothing, or take nothing. Each ends in time, and none holds more than its buffers.
func TestSlowPeersCostLittle(t *testing.T) {
	const peers = 200
	const tunnel = "CONNECT a.example.org:7000 HTTP/1.1\r\n\r\n"
	const request = "GET http://a.example.org:7000/ HTTP/1.1\r\nHost: a.example.org:7000\r\n\r\n"
	dripping := func(b string) func(net.Conn) {
		return func(conn net.Conn) {
			for {
				if _, err := io.WriteString(conn, b); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
	}
	silent := func(conn net.Conn) { io.Copy(io.Discard, conn) }
	deaf := func(conn net.Conn) { // takes nothing and sends as much as it can
		conn.SetWriteDeadline(time.Now().Add(30 * time.Second))
		io.Copy(conn, zeros{})
	}
	for _, c := range []struct {
		name   string
		first  string
		client func(net.Conn)
		server func(net.Conn)
		each   int64 // bytes that one may hold
	}{
		{"client's request line", "GET http://a", dripping("a"), silent, 40 << 10},
		{"client's header, near its limit", request[:len(request)-2] + "X: " + strings.Repeat("a", 60<<10), dripping("a"), silent, 260 << 10},
		{"client's SOCKS", "\x05\xff", dripping("\x00"), silent, 40 << 10},
		{"client's ClientHello", tunnel + "\x16\x03\x01\x3f\xff\x01", dripping("\x00"), silent, 90 << 10},
		{"both silent in a tunnel", tunnel + "\x00", silent, silent, 90 << 10},
		{"server's header", request, silent, func(conn net.Conn) {
			bufio.NewReader(conn).ReadString('\n')
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: ")
			dripping("a")(conn)
		}, 120 << 10},
		{"server's interim responses", request, silent, func(conn net.Conn) {
			bufio.NewReader(conn).ReadString('\n')
			dripping("HTTP/1.1 102 Processing\r\n\r\n")(conn)
		}, 120 << 10},
		{"client takes nothing", tunnel + "\x00", func(conn net.Conn) { time.Sleep(2 * time.Second) }, deaf, 2*largeBuffer + 90<<10},
		{"server takes nothing", tunnel + "\x00", deaf, func(net.Conn) { time.Sleep(2 * time.Second) }, 2*largeBuffer + 90<<10},
	} {
		leavesNothing(t, c.name, func(t *testing.T) {
			w := newWorld()
			w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, c.server))
			p := startProxy(t, w, func(cfg *Config) {
				cfg.Allow = [][]string{{"a.example.org:7000"}}
				cfg.Limits.Header, cfg.Limits.Idle = 700*time.Millisecond, 700*time.Millisecond
			})
			before := heap()
			var clients sync.WaitGroup
			for range peers {
				conn := dialTCP(t, p.addr)
				clients.Go(func() {
					io.WriteString(conn, c.first)
					c.client(conn)
				})
			}
			soonTrue(t, "not all are there", func() bool { return len(p.server.slots) == peers || len(p.events) > 0 })
			if used := heap() - before; used > peers*c.each {
				t.Errorf("%d peers hold %d KiB each, at most %d are fine", peers, used/peers>>10, c.each>>10)
			}
			start := time.Now()
			for range peers {
				e := p.event(t)
				if e.Reason != ReasonTimeout && e.Reason != ReasonBroken && !strings.Contains(e.Detail, "timeout") {
					t.Fatalf("event %+v", e)
				}
			}
			if took := time.Since(start); took > 15*time.Second {
				t.Errorf("they were kept for %v", took)
			}
			p.stop()
			clients.Wait()
		})
	}
}

func soonTrue(t testing.TB, wrong string, good func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !good(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(wrong)
		}
	}
}

// TestFloodsOfConnectionsEnd: far more than the limit, at once and again. Those beyond it
// are closed and recorded, and one that was there before goes on.
func TestFloodsOfConnectionsEnd(t *testing.T) {
	const limit, workers, flood = 32, 64, 2048
	leavesNothing(t, "flood", func(t *testing.T) {
		w := newWorld()
		w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, echo))
		p := startProxy(t, w, func(c *Config) {
			c.Allow, c.Limits.Connections, c.Limits.Header = [][]string{{"a.example.org:7000"}}, limit, 300*time.Millisecond
		})
		steady, r, _ := connectTo(t, p, "a.example.org:7000")
		defer steady.Close()
		var all sync.WaitGroup
		var connected atomic.Int64
		for range workers {
			all.Go(func() {
				for range flood / workers {
					conn, err := net.Dial("tcp", p.addr)
					if err != nil {
						continue // the queue of the listener is full: the flood is its own victim
					}
					connected.Add(1)
					conn.SetDeadline(time.Now().Add(30 * time.Second))
					io.WriteString(conn, "CONNECT a.example.org:7000 HTTP/1.1\r\n")
					io.Copy(io.Discard, conn) // until it is closed
					conn.Close()
				}
			})
		}
		ended := make(chan struct{})
		go func() { defer close(ended); all.Wait() }()
		beyond, late := 0, 0
		for done := false; !done; {
			select {
			case e := <-p.events:
				switch e.Reason {
				case ReasonLimit:
					beyond++
				case ReasonTimeout, ReasonBroken:
					late++
				default:
					t.Errorf("event %+v", e)
				}
				if n := len(p.server.slots); n > limit {
					t.Errorf("%d connections at once", n)
				}
			case <-ended:
				done = int64(beyond+late) >= connected.Load()
				if !done && len(p.events) == 0 {
					time.Sleep(5 * time.Millisecond)
				}
			}
		}
		if int64(beyond+late) != connected.Load() || beyond < flood/4 || late == 0 {
			t.Errorf("%d connections, recorded %d beyond the limit and %d that were slow", connected.Load(), beyond, late)
		}
		steady.SetDeadline(time.Now().Add(30 * time.Second))
		io.WriteString(steady, "\x00still")
		got := make([]byte, 6)
		if _, err := io.ReadFull(r, got); string(got) != "\x00still" || err != nil {
			t.Errorf("the one that was there: %q, %v", got, err)
		}
	})
}

// TestFloodsOfHeadersEnd: what is too long is refused after a bounded part of it, from
// clients and from servers.
func TestFloodsOfHeadersEnd(t *testing.T) {
	const limit = 64 << 10
	endless := func(start, piece string) func(net.Conn) int64 {
		return func(conn net.Conn) int64 {
			conn.SetDeadline(time.Now().Add(30 * time.Second))
			io.WriteString(conn, start)
			block := strings.Repeat(piece, 1+4096/len(piece))
			for sent := int64(len(start)); ; sent += int64(len(block)) {
				if _, err := io.WriteString(conn, block); err != nil {
					return sent
				}
			}
		}
	}
	leavesNothing(t, "from clients", func(t *testing.T) {
		p := startProxy(t, newWorld(), allow("a.example.org:7000"))
		for name, flood := range map[string]func(net.Conn) int64{
			"method": endless("", "A"), "target": endless("GET http://a.example.org/", "a"), "one field": endless("GET http://a.example.org/ HTTP/1.1\r\nX: ", "a"),
			"fields": endless("GET http://a.example.org/ HTTP/1.1\r\n", "X: a\r\n"), "blank lines": endless("", "\r\n"), "a folded field": endless("GET http://a.example.org/ HTTP/1.1\r\nX: a\r\n", " a\r\n"),
			"CONNECT": endless("CONNECT a.example.org:7000 HTTP/1.1\r\nX: ", "a"),
		} {
			before := heap()
			conn := dialTCP(t, p.addr)
			sent := flood(conn)
			e := p.event(t)
			if e.Decision != Deny || e.Reason != ReasonMalformed && e.Detail != "the header is too long" {
				t.Errorf("%s: event %+v", name, e)
			}
			// What is in the buffers of the two sockets, and what is read of one that was told no.
			if sent > 16<<20 {
				t.Errorf("%s: %d bytes were taken", name, sent)
			}
			if grown := heap() - before; grown > 16*limit {
				t.Errorf("%s: the heap has grown by %d KiB", name, grown>>10)
			}
			conn.Close()
		}
	})
	leavesNothing(t, "from servers", func(t *testing.T) {
		for name, flood := range map[string]func(net.Conn) int64{
			"status line": endless("HTTP/1.1 200 ", "a"), "one field": endless("HTTP/1.1 200 OK\r\nX: ", "a"), "fields": endless("HTTP/1.1 200 OK\r\n", "X: a\r\n"),
			"interim responses": endless("", "HTTP/1.1 102 Processing\r\n\r\n"),
			"no HTTP at all":    endless("", "a"),
		} {
			w := newWorld()
			sent := make(chan int64, 1)
			w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, func(conn net.Conn) {
				bufio.NewReader(conn).ReadString('\n')
				sent <- flood(conn)
			}))
			p := startProxy(t, w, allow("a.example.org:7000"))
			conn := dialTCP(t, p.addr)
			io.WriteString(conn, "GET http://a.example.org:7000/ HTTP/1.1\r\nHost: a.example.org:7000\r\n\r\n")
			got, _ := io.ReadAll(conn)
			if !strings.Contains(string(got), " 502 ") {
				t.Errorf("%s: the client gets %.200q", name, got)
			}
			e := p.event(t)
			if e.Decision != Allow || e.Reason != ReasonBroken || e.Down > limit+4096 {
				t.Errorf("%s: event %+v", name, e)
			}
			if n := <-sent; n > 16<<20 {
				t.Errorf("%s: %d bytes were taken", name, n)
			}
			conn.Close()
			p.stop()
		}
	})
	leavesNothing(t, "in a body", func(t *testing.T) {
		for name, flood := range map[string]func(net.Conn) int64{
			"chunk extensions": endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "a"),
			"trailers":         endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X: a\r\n"),
			"chunks of a byte": endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1;"+strings.Repeat("a", 100)+"\r\na\r\n"),
		} {
			w := newWorld()
			w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, func(conn net.Conn) {
				bufio.NewReader(conn).ReadString('\n')
				flood(conn)
			}))
			p := startProxy(t, w, allow("a.example.org:7000"))
			conn := dialTCP(t, p.addr)
			io.WriteString(conn, "GET http://a.example.org:7000/ HTTP/1.1\r\nHost: a.example.org:7000\r\n\r\n")
			_, err := io.Copy(io.Discard, conn)
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%s: the client sees %v, and not that it is torn", name, err)
			}
			if e := p.event(t); e.Reason != ReasonBroken || e.Down > 1<<20 {
				t.Errorf("%s: event %+v", name, e)
			}
			conn.Close()
			p.stop()
		}
	})
}

// blob is n bytes of noise that no protocol begins with, the same for a seed.
func blob(n int, seed uint64) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := 0; i < n; i++ {
		b[i] = byte(r.Uint32())
	}
	b[0] = 0
	return b
}

// TestHalfClosesAreCarriedExactly: whoever ends first, and however much comes before and
// after it, each side has what the other sent, to the byte, and hears its end while the
// other direction is open.
func TestHalfClosesAreCarriedExactly(t *testing.T) {
	for _, size := range []int{1, smallBuffer - 1, smallBuffer, smallBuffer + 1, 5<<20 + 17} {
		for name, clientFirst := range map[string]bool{"client first": true, "server first": false} {
			leavesNothing(t, fmt.Sprintf("%s, %d bytes", name, size), func(t *testing.T) {
				up, down := blob(size, 1), blob(size, 2)
				heard := make(chan error, 1)
				w := newWorld()
				w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, func(conn net.Conn) {
					heard <- speak(conn.(*net.TCPConn), conn, down, up, !clientFirst)
				}))
				p := startProxy(t, w, allow("a.example.org:7000"))
				conn, r, _ := connectTo(t, p, "a.example.org:7000")
				if err := speak(conn, r, up, down, clientFirst); err != nil {
					t.Errorf("the client: %v", err)
				}
				if err := <-heard; err != nil {
					t.Errorf("the server: %v", err)
				}
				conn.Close()
				if e := p.event(t); e.Up != int64(size) || e.Down != int64(size) || e.Reason != "" {
					t.Errorf("event %+v", e)
				}
			})
		}
	}
}

// speak is one side. The first says its part and ends; the other says nothing until it
// has heard that end, so that both ends are heard only if each is carried by itself.
func speak(conn *net.TCPConn, r io.Reader, say, hear []byte, first bool) error {
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	talk := func() error {
		if _, err := conn.Write(say); err != nil {
			return err
		}
		return conn.CloseWrite()
	}
	if first {
		if err := talk(); err != nil {
			return err
		}
	}
	got, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("heard %d bytes of %d: %w", len(got), len(hear), err)
	}
	if sha256.Sum256(got) != sha256.Sum256(hear) {
		return fmt.Errorf("heard %d bytes that are not the %d that were said", len(got), len(hear))
	}
	if !first {
		return talk()
	}
	return nil
}

// TestResetsAreCarried: one side tears the connection in each phase of a tunnel. The other
// side must not take it for an end: half of something looks whole otherwise.
func TestResetsAreCarried(t *testing.T) {
	const bulk = 4 << 20
	reset := func(conn *net.TCPConn) { conn.SetLinger(0); conn.Close() }
	wrote := func(_ int, err error) error { return err }
	copied := func(_ int64, err error) error { return err }
	for _, c := range []struct {
		name  string
		torn  func(conn *net.TCPConn, r io.Reader)       // by whom it is torn
		other func(conn *net.TCPConn, r io.Reader) error // before it reads to the end
	}{
		{"at once", func(conn *net.TCPConn, r io.Reader) { conn.Write([]byte{0}); r.Read(make([]byte, 1)) },
			func(conn *net.TCPConn, _ io.Reader) error { return wrote(conn.Write([]byte{0})) }},
		{"while it sends in bulk", func(conn *net.TCPConn, _ io.Reader) { conn.Write(blob(bulk, 3)) },
			func(_ *net.TCPConn, r io.Reader) error { return copied(io.CopyN(io.Discard, r, 1<<20)) }},
		{"after it has sent and paused", func(conn *net.TCPConn, r io.Reader) { conn.Write(blob(100, 3)); r.Read(make([]byte, 1)) },
			func(conn *net.TCPConn, r io.Reader) error {
				return errors.Join(copied(io.CopyN(io.Discard, r, 100)), wrote(conn.Write([]byte{0})))
			}},
		{"while it is sent to in bulk", func(_ *net.TCPConn, r io.Reader) { io.CopyN(io.Discard, r, 1<<20) },
			func(conn *net.TCPConn, _ io.Reader) error { return copied(io.Copy(conn, zeros{})) }},
		{"after the other has ended", func(_ *net.TCPConn, r io.Reader) { io.ReadAll(r) },
			func(conn *net.TCPConn, _ io.Reader) error {
				return errors.Join(wrote(conn.Write(blob(100, 3))), conn.CloseWrite())
			}},
	} {
		for by, clientTears := range map[string]bool{"by the client": true, "by the server": false} {
			leavesNothing(t, c.name+" "+by, func(t *testing.T) {
				ended := make(chan error, 1)
				endOf := func(conn *net.TCPConn, r io.Reader) error {
					conn.SetDeadline(time.Now().Add(30 * time.Second))
					if err := c.other(conn, r); err != nil {
						return err
					}
					return copied(io.Copy(io.Discard, r))
				}
				w := newWorld()
				w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, func(conn net.Conn) {
					if tcp := conn.(*net.TCPConn); clientTears {
						ended <- endOf(tcp, conn)
					} else {
						c.torn(tcp, conn)
						reset(tcp)
					}
				}))
				p := startProxy(t, w, allow("a.example.org:7000"))
				conn, r, _ := connectTo(t, p, "a.example.org:7000")
				if clientTears {
					c.torn(conn, r)
					reset(conn)
				} else {
					ended <- endOf(conn, r)
				}
				if err := <-ended; !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
					t.Errorf("the other side sees %v, want a reset", err)
				}
				if e := p.event(t); e.Decision != Allow || e.Reason != ReasonBroken {
					t.Errorf("event %+v", e)
				}
			})
		}
	}
}

// TestResetsBeforeATunnelHarmNobody: a client that goes away while its host is looked up,
// asked about or dialled.
func TestResetsBeforeATunnelHarmNobody(t *testing.T) {
	for _, phase := range []string{"resolve", "ask", "dial"} {
		leavesNothing(t, phase, func(t *testing.T) {
			reached, gone := make(chan bool, 1), make(chan bool)
			stop := func(ctx context.Context, at string) {
				if at == phase {
					reached <- true
					select {
					case <-gone:
					case <-ctx.Done():
					}
				}
			}
			w := newWorld()
			w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, echo))
			p := startProxy(t, w, func(c *Config) {
				c.Ask = func(ctx context.Context, _ Request) (bool, error) { stop(ctx, "ask"); return true, nil }
				c.Resolver = hooked{w, stop}
				c.Dialer = hooked{w, stop}
			})
			conn := dialTCP(t, p.addr)
			io.WriteString(conn, "CONNECT a.example.org:7000 HTTP/1.1\r\n\r\n")
			<-reached
			conn.SetLinger(0)
			conn.Close()
			close(gone)
			if e := p.event(t); e.Decision != Allow || e.Reason != ReasonBroken || e.Up+e.Down != 0 {
				t.Errorf("event %+v", e)
			}
			p.stop()
		})
	}
}

type hooked struct {
	*world
	stop func(ctx context.Context, at string)
}

func (h hooked) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	h.stop(ctx, "resolve")
	return h.world.LookupNetIP(ctx, network, host)
}

func (h hooked) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	h.stop(ctx, "dial")
	return h.world.DialContext(ctx, network, address)
}

// TestBulkIsCountedAndBounded: what stays in the kernel is in the record to the byte, and
// a limit far below what is sent holds as it does for what is copied.
func TestBulkIsCountedAndBounded(t *testing.T) {
	const size = 96 << 20
	source := func(conn net.Conn) { io.CopyN(conn, zeros{}, size) }
	for _, c := range []struct {
		name   string
		limits Limits
		most   int64
	}{
		{"no limit", Limits{}, size},
		{"of one connection", Limits{ConnBytes: 64<<20 + 5}, 64<<20 + 5},
		{"of all", Limits{Bytes: 64<<20 + 5}, 64<<20 + 5},
	} {
		leavesNothing(t, c.name, func(t *testing.T) {
			w := newWorld()
			w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, source))
			p := startProxy(t, w, func(cfg *Config) { cfg.Allow, cfg.Limits = [][]string{{"a.example.org:7000"}}, c.limits })
			conn, r, _ := connectTo(t, p, "a.example.org:7000")
			got, err := io.Copy(io.Discard, r)
			if c.most == size {
				conn.CloseWrite()
			}
			e := p.event(t)
			switch {
			case c.most == size && (got != size || err != nil || e.Down != size || e.Reason != ""):
				t.Errorf("%d bytes, %v, event %+v", got, err, e)
			case c.most < size && (got > c.most || got < c.most/2 || !errors.Is(err, syscall.ECONNRESET) || e.Reason != ReasonLimit || e.Down > c.most+largeBuffer):
				t.Errorf("%d bytes of at most %d, %v, event %+v", got, c.most, err, e)
			}
			conn.Close()
		})
	}
}

// TestBulkThatPausesIsNotIdle: a download that comes in bursts, with pauses shorter than
// the idle time, over a client that has nothing to say.
func TestBulkThatPausesIsNotIdle(t *testing.T) {
	const idle, bursts, burst = 800 * time.Millisecond, 8, 1 << 20
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, func(conn net.Conn) {
		for range bursts {
			if _, err := conn.Write(make([]byte, burst)); err != nil {
				return
			}
			time.Sleep(idle / 3)
		}
	}))
	p := startProxy(t, w, func(c *Config) {
		c.Allow, c.Limits.Idle = [][]string{{"a.example.org:7000"}}, idle
	})
	conn, r, _ := connectTo(t, p, "a.example.org:7000")
	if n, err := io.Copy(io.Discard, r); n != bursts*burst || err != nil {
		t.Errorf("%d bytes of %d, %v", n, bursts*burst, err)
	}
	conn.Close()
	if e := p.event(t); e.Reason != "" {
		t.Errorf("event %+v", e)
	}
}
