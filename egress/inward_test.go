package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// An entrance leads to a server of the test, which stands for one inside.
type entrance struct {
	events chan Event
	addrs  []string
	finish func()
	ending *ending
	stop   func()
}

func startEntrance(t testing.TB, limits Limits, doors int, open func(context.Context, uint16) (net.Conn, error)) *entrance {
	t.Helper()
	var list []net.Listener
	for range doors {
		list = append(list, listen(t))
	}
	return serveEntrance(t, limits, list, nil, open)
}

// startEntranceFor has a door on each address of loopback; nil admits whom an Entrance
// admits by itself.
func startEntranceFor(t testing.TB, admits func(int) bool, open func(context.Context, uint16) (net.Conn, error)) *entrance {
	t.Helper()
	list := []net.Listener{listen(t)}
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		list = append(list, l)
	}
	return serveEntrance(t, Limits{}, list, admits, open)
}

func serveEntrance(t testing.TB, limits Limits, listeners []net.Listener, admits func(int) bool, open func(context.Context, uint16) (net.Conn, error)) *entrance {
	t.Helper()
	e := &entrance{events: make(chan Event, 4096)}
	x, err := NewEntrance(Config{
		Audit: func(ev Event) { e.events <- ev }, Limits: limits, Allow: [][]string{{"a.example.org"}},
		Identity: func() Identity { return Identity{Session: "s-1", Call: "c-1"} },
	}, open)
	if err != nil {
		t.Fatal(err)
	}
	e.finish, e.ending = x.Finish, &x.server.ending
	if admits != nil {
		x.admits = admits
	}
	var list []Door
	for _, l := range listeners {
		list, e.addrs = append(list, Door{l, 8000}), append(e.addrs, l.Addr().String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.Serve(ctx, list) }()
	e.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(e.stop)
	return e
}

func (e *entrance) event(t testing.TB) Event { return (&proxy{events: e.events}).event(t) }

// leadsTo opens connections to a server whatever the port is.
func leadsTo(server net.Addr) func(context.Context, uint16) (net.Conn, error) {
	return func(ctx context.Context, _ uint16) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.String())
	}
}

// heardAt is what a peer hears that says nothing. A reset can come before its connect has
// returned.
func heardAt(addr string) (string, error) {
	conn, err := connectTCP(addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	b, err := io.ReadAll(conn)
	return string(b), err
}

// TestWhoComesInIsRecorded: with what was carried, to the byte, both directions ending by
// themselves.
func TestWhoComesInIsRecorded(t *testing.T) {
	for name, peerFirst := range map[string]bool{"the peer ends first": true, "the server ends first": false} {
		leavesNothing(t, name, func(t *testing.T) {
			up, down := blob(3<<20+1, 1), blob(5<<20+2, 2)
			served := make(chan error, 1)
			e := startEntrance(t, Limits{}, 2, leadsTo(serveTCP(t, func(conn net.Conn) {
				served <- speak(conn.(*net.TCPConn), conn, down, up, !peerFirst)
			})))
			for _, addr := range e.addrs {
				conn := dialTCP(t, addr)
				if err := speak(conn, conn, up, down, peerFirst); err != nil {
					t.Errorf("the peer: %v", err)
				}
				if err := <-served; err != nil {
					t.Errorf("the server: %v", err)
				}
				conn.Close()
				ev := e.event(t)
				if ev.Direction != In || ev.Session != "s-1" || ev.Call != "c-1" || ev.Protocol != ProtocolTCP || ev.Port != 8000 ||
					ev.Address.String() != addr || ev.Peer.String() != conn.LocalAddr().String() || ev.Decision != Allow || ev.Reason != "" ||
					ev.Up != int64(len(up)) || ev.Down != int64(len(down)) || ev.Duration <= 0 {
					t.Errorf("event %+v", ev)
				}
			}
		})
	}
}

// TestNobodyInside: a peer that comes while nothing listens is reset, and recorded.
func TestNobodyInside(t *testing.T) {
	leavesNothing(t, "refused", func(t *testing.T) {
		e := startEntrance(t, Limits{}, 1, func(context.Context, uint16) (net.Conn, error) { return nil, syscall.ECONNREFUSED })
		if b, err := heardAt(e.addrs[0]); b != "" || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%q, %v", b, err)
		}
		if ev := e.event(t); ev.Decision != Allow || ev.Reason != ReasonUnreachable || !strings.Contains(ev.Detail, "port 8000 inside") {
			t.Errorf("event %+v", ev)
		}
	})
}

// TestEntrancesAreBounded: at once, in all, in bytes and in time, over all doors together.
func TestEntrancesAreBounded(t *testing.T) {
	silent := func(conn net.Conn) { io.Copy(io.Discard, conn) }
	leavesNothing(t, "at once", func(t *testing.T) {
		e := startEntrance(t, Limits{Connections: 1}, 2, leadsTo(serveTCP(t, echo)))
		first := dialTCP(t, e.addrs[0])
		io.WriteString(first, "x")
		if _, err := io.ReadFull(first, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(dialTCP(t, e.addrs[1])); len(b) > 0 {
			t.Errorf("the second: %q", b)
		}
		if ev := e.event(t); ev.Reason != ReasonLimit || ev.Direction != In || ev.Decision != Deny {
			t.Errorf("event %+v", ev)
		}
	})
	leavesNothing(t, "in all", func(t *testing.T) {
		e := startEntrance(t, Limits{Total: 2}, 2, leadsTo(serveTCP(t, echo)))
		for i := range 20 {
			conn := dialTCP(t, e.addrs[i%2])
			io.WriteString(conn, "x")
			conn.CloseWrite()
			if b, _ := io.ReadAll(conn); (string(b) == "x") != (i < 2) {
				t.Errorf("connection %d: %q", i, b)
			}
		}
		e.stop()
		close(e.events)
		var limits []string
		for ev := range e.events {
			if ev.Reason == ReasonLimit {
				limits = append(limits, ev.Detail)
			}
		}
		if len(limits) != 2 || !strings.Contains(limits[1], "17 further") {
			t.Errorf("recorded %q", limits)
		}
	})
	leavesNothing(t, "bytes", func(t *testing.T) {
		e := startEntrance(t, Limits{Bytes: 100_000}, 1, leadsTo(serveTCP(t, func(conn net.Conn) { io.CopyN(conn, zeros{}, 1<<20) })))
		n, err := io.Copy(io.Discard, dialTCP(t, e.addrs[0]))
		if n > 100_000 || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%d bytes, %v", n, err)
		}
		if ev := e.event(t); ev.Reason != ReasonLimit {
			t.Errorf("event %+v", ev)
		}
		if b, err := heardAt(e.addrs[0]); b != "" || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the next: %q, %v", b, err)
		}
		if ev := e.event(t); ev.Reason != ReasonLimit || ev.Decision != Deny {
			t.Errorf("event %+v", ev)
		}
	})
	leavesNothing(t, "in time", func(t *testing.T) {
		e := startEntrance(t, Limits{Idle: 200 * time.Millisecond}, 1, leadsTo(serveTCP(t, silent)))
		for range 50 {
			dialTCP(t, e.addrs[0])
		}
		for range 50 {
			if ev := e.event(t); ev.Reason != ReasonTimeout && ev.Reason != ReasonBroken {
				t.Errorf("event %+v", ev)
			}
		}
	})
	leavesNothing(t, "a server that does not answer", func(t *testing.T) {
		e := startEntrance(t, Limits{Dial: 100 * time.Millisecond}, 1, func(ctx context.Context, _ uint16) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if b, err := heardAt(e.addrs[0]); b != "" || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%q, %v", b, err)
		}
		e.event(t)
	})
}

// TestDoorsCloseTogether: with connections in every state, and the doors that are left
// closed where one fails.
func TestDoorsCloseTogether(t *testing.T) {
	leavesNothing(t, "stop", func(t *testing.T) {
		inside, waiting := make(chan bool, 1), make(chan bool, 1)
		server := leadsTo(serveTCP(t, func(conn net.Conn) {
			io.ReadFull(conn, make([]byte, 1))
			inside <- true
			io.Copy(io.Discard, conn)
		}))
		var n atomic.Int32
		e := startEntrance(t, Limits{}, 1, func(ctx context.Context, port uint16) (net.Conn, error) {
			if n.Add(1) == 2 {
				waiting <- true
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return server(ctx, port)
		})
		dialTCP(t, e.addrs[0]).Write([]byte("x"))
		<-inside
		dialTCP(t, e.addrs[0])
		<-waiting
		e.stop()
		if len(e.events) != 2 {
			t.Errorf("%d events of 2 connections", len(e.events))
		}
		if conn, err := net.Dial("tcp", e.addrs[0]); err == nil {
			conn.Close()
			t.Error("the door is open")
		}
	})
}

// TestResetsComeInAndOut: torn by one side, torn for the other.
func TestResetsComeInAndOut(t *testing.T) {
	leavesNothing(t, "by the server", func(t *testing.T) {
		e := startEntrance(t, Limits{}, 1, leadsTo(serveTCP(t, func(conn net.Conn) {
			io.ReadFull(conn, make([]byte, 1)) // so that the peer is connected, and knows it
			conn.Write(blob(100, 1))
			conn.(*net.TCPConn).SetLinger(0)
		})))
		conn := dialTCP(t, e.addrs[0])
		conn.Write([]byte{0})
		if _, err := io.ReadAll(conn); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the peer sees %v", err)
		}
		e.event(t)
	})
	leavesNothing(t, "by the peer", func(t *testing.T) {
		seen := make(chan error, 1)
		e := startEntrance(t, Limits{}, 1, leadsTo(serveTCP(t, func(conn net.Conn) {
			conn.Write([]byte{0})
			_, err := io.ReadAll(conn)
			seen <- err
		})))
		conn := dialTCP(t, e.addrs[0])
		io.ReadFull(conn, make([]byte, 1))
		conn.SetLinger(0)
		conn.Close()
		if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the server sees %v", err)
		}
		e.event(t)
	})
}
