package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is an internet for tests: names with addresses, and addresses at which
// servers on loopback answer. It remembers what was looked up and dialled.
type world struct {
	mu     sync.Mutex
	names  map[string][]string
	sites  map[string]string // "ADDRESS:PORT" to where the server really is
	looked []string
	dialed []string
	hangs  string // a name that nobody answers for
}

func newWorld() *world { return &world{names: map[string][]string{}, sites: map[string]string{}} }

func (w *world) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if host != "" && host == w.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked = append(w.looked, host)
	if network != "ip" || !strings.HasSuffix(host, ".") {
		return nil, fmt.Errorf("lookup of %q in network %q", host, network)
	}
	var addrs []netip.Addr
	for _, a := range w.names[strings.TrimSuffix(host, ".")] {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	if addrs == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return addrs, nil
}

func (w *world) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, address)
	real, ok := w.sites[address]
	w.mu.Unlock()
	if !ok {
		return nil, errors.New("connection refused")
	}
	return (&net.Dialer{}).DialContext(ctx, network, real)
}

func (w *world) lookups() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.looked)
}

func (w *world) dials() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialed)
}

// site makes a name lead to a server on loopback.
func (w *world) site(name, addr string, port int, real net.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.names[name], addr) {
		w.names[name] = append(w.names[name], addr)
	}
	w.sites[netip.AddrPortFrom(netip.MustParseAddr(addr), uint16(port)).String()] = real.String()
}

// A proxy is a Server that serves on loopback until the test ends.
type proxy struct {
	server *Server
	addr   string
	events chan Event
	stop   func()
}

func (p *proxy) event(t testing.TB) Event {
	t.Helper()
	select {
	case e := <-p.events:
		return e
	case <-time.After(30 * time.Second):
		t.Fatal("no event")
		return Event{}
	}
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func startProxy(t testing.TB, w *world, change func(*Config)) *proxy {
	t.Helper()
	p := &proxy{events: make(chan Event, 4096)}
	cfg := Config{
		Resolver: w, Dialer: w,
		Audit:     func(e Event) { p.events <- e },
		HostAddrs: func() ([]netip.Addr, error) { return nil, nil },
		Identity:  func() Identity { return Identity{Session: "s-1", Call: "c-1"} },
	}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p.server = s
	l := listen(t)
	p.addr = l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Serve: %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Error("Serve does not end")
		}
	})
	t.Cleanup(p.stop)
	return p
}

func allow(rules ...string) func(*Config) {
	return func(c *Config) { c.Allow = [][]string{rules} }
}

// serveTCP answers every connection on loopback with handle until the test ends.
func serveTCP(t testing.TB, handle func(net.Conn)) net.Addr {
	t.Helper()
	l := listen(t)
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				defer conn.Close()
				handle(conn)
			})
		}
	})
	t.Cleanup(func() { l.Close(); conns.Wait() })
	return l.Addr()
}

func echo(conn net.Conn) {
	io.Copy(conn, conn)
	conn.(*net.TCPConn).CloseWrite()
}

func dialTCP(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	conn, err := connectTCP(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// connectTCP waits in connect(2). net.Dial looks whether it is connected some time after
// it is; a server that has reset the connection by then looks like one that is not there.
func connectTCP(addr string) (*net.TCPConn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	family, sa := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if a := to.Addr().Unmap(); a.Is4() {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: a.As4()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	unix.CloseOnExec(fd)
	f := os.NewFile(uintptr(fd), addr)
	defer f.Close()
	if err := unix.Connect(fd, sa); err != nil {
		return nil, os.NewSyscallError("connect", err)
	}
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// connectTo opens a tunnel; the response is closed if it is not 200.
func connectTo(t testing.TB, p *proxy, target string) (*net.TCPConn, *bufio.Reader, *http.Response) {
	t.Helper()
	conn := dialTCP(t, p.addr)
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, &http.Request{Method: "CONNECT"})
	if err != nil {
		t.Fatalf("CONNECT %s: %v", target, err)
	}
	return conn, r, resp
}

func TestConnectToAnAllowedHost(t *testing.T) {
	w := newWorld()
	w.site("db.example.org", "93.184.216.34", 5432, serveTCP(t, echo))
	p := startProxy(t, w, allow("db.example.org:5432"))
	conn, r, resp := connectTo(t, p, "DB.Example.ORG.:5432")
	if resp.StatusCode != 200 {
		t.Fatalf("status %s", resp.Status)
	}
	io.WriteString(conn, "\x00hello")
	conn.CloseWrite()
	if got, err := io.ReadAll(r); string(got) != "\x00hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	e := p.event(t)
	if e.Duration <= 0 || e.Start.IsZero() {
		t.Errorf("event without its time: %+v", e)
	}
	e.Duration, e.Start = 0, time.Time{}
	want := Event{
		Session: "s-1", Call: "c-1", Protocol: ProtocolConnect, Host: "db.example.org", Port: 5432,
		Address: netip.MustParseAddrPort("93.184.216.34:5432"), Decision: Allow, Rule: "db.example.org:5432",
		Up: 6, Down: 6,
	}
	if !reflect.DeepEqual(e, want) {
		t.Errorf("event\n\t%+v\nwant\n\t%+v", e, want)
	}
}

func TestUnlistedHostIsRefusedAndNeverLookedUp(t *testing.T) {
	w := newWorld()
	w.site("evil.example.com", "93.184.216.35", 443, serveTCP(t, echo))
	p := startProxy(t, w, allow("example.org"))
	_, r, resp := connectTo(t, p, "evil.example.com:443")
	body, _ := io.ReadAll(r)
	if resp.StatusCode != 403 || resp.Header.Get("Sandgate-Reason") != string(ReasonUnlisted) {
		t.Errorf("status %s, header %v", resp.Status, resp.Header)
	}
	for _, want := range []string{"evil.example.com:443", "not on the list", "allowed: example.org"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("body %q has no %q", body, want)
		}
	}
	if got := append(w.lookups(), w.dials()...); len(got) > 0 {
		t.Errorf("looked up or dialled: %q", got)
	}
	if e := p.event(t); e.Decision != Deny || e.Reason != ReasonUnlisted || e.Host != "evil.example.com" {
		t.Errorf("event %+v", e)
	}
}
