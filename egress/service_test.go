package egress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	xproxy "golang.org/x/net/proxy"

	"github.com/sandgate/sandgate/internal/hostrule"
)

func TestParseService(t *testing.T) {
	for _, s := range []string{
		"db=127.0.0.1:5432", "db=127.9.9.9:1", "web-2=[::1]:8080", "x=unix:/run/x.sock", "x=unix:/run/a=b",
	} {
		if r, err := hostrule.Parse(s); err != nil || r.String() != s {
			t.Errorf("%q: %v, %v", s, r, err)
		}
	}
	for s, want := range map[string]string{
		"db=192.0.2.7:80":          "loopback",
		"db=10.0.0.1:80":           "loopback",
		"db=0.0.0.0:80":            "loopback",
		"db=[::ffff:127.0.0.1]:80": "loopback",
		"db=[::1%lo]:80":           "loopback",
		"db=localhost:80":          "127.0.0.1:PORT",
		"db=127.0.0.1":             "127.0.0.1:PORT",
		"db=127.0.0.1:0":           "127.0.0.1:PORT",
		"db=127.0.0.1:080":         "127.0.0.1:PORT",
		"db=":                      "127.0.0.1:PORT",
		"a.b=127.0.0.1:80":         "one word",
		"7=127.0.0.1:80":           "one word",
		"DB=127.0.0.1:80":          "one word",
		"localhost=127.0.0.1:80":   "the sandbox itself",
		"=127.0.0.1:80":            "empty",
		"*.a=127.0.0.1:80":         "",
		"x=unix:run/x.sock":        "absolute path",
		"x=unix:/run/../x":         "absolute path",
		"x=unix:/":                 "absolute path",
		"x=unix:":                  "absolute path",
	} {
		if r, err := hostrule.Parse(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want an error with %q", s, r, err, want)
		}
	}
}

// TestServicesAreInEveryList: another list with the service's name, or with its
// address, is not that service.
func TestServicesAreInEveryList(t *testing.T) {
	const db = "db=127.0.0.1:5432"
	for _, c := range []struct {
		name   string
		allow  [][]string
		deny   []string
		target string
		want   verdict
		rule   string
	}{
		{name: "listed", allow: [][]string{{"a.org", db}}, target: "db:5432", want: allowed, rule: db},
		{name: "listed twice", allow: [][]string{{db}, {"a.org", db}}, target: "db:5432", want: allowed, rule: db},
		{name: "another port", allow: [][]string{{db}}, target: "db:5433", want: unknown},
		{name: "its address is not listed by that", allow: [][]string{{db}}, target: "127.0.0.1:5432", want: unknown},
		{name: "in one list only", allow: [][]string{{db}, {"a.org"}}, target: "db:5432", want: unknown},
		{name: "a host of that name in the other", allow: [][]string{{db}, {"db:5432"}}, target: "db:5432", want: unknown},
		{name: "its address in the other", allow: [][]string{{db}, {"127.0.0.1:5432"}}, target: "db:5432", want: unknown},
		{name: "another address in the other", allow: [][]string{{db}, {"db=127.0.0.2:5432"}}, target: "db:5432", want: unknown},
		{name: "a host of that name beside it", allow: [][]string{{"db:5432", db}}, target: "db:5432", want: allowed, rule: db},
		{name: "a socket has port 80", allow: [][]string{{"x=unix:/x"}}, target: "x:80", want: allowed, rule: "x=unix:/x"},
		{name: "and no other", allow: [][]string{{"x=unix:/x"}}, target: "x:443", want: unknown},
		{name: "deny wins", allow: [][]string{{db}}, deny: []string{"db"}, target: "db:5432", want: denied, rule: "db"},
	} {
		p, err := newPolicy(c.allow, c.deny)
		if err != nil {
			t.Fatal(err)
		}
		if v, rule := p.decide(target(t, c.target)); v != c.want || rule != c.rule {
			t.Errorf("%s: %d by %q, want %d by %q", c.name, v, rule, c.want, c.rule)
		}
	}
}

// greet is an HTTP server that says what it was asked for.
func greet(t testing.TB, l net.Listener) {
	t.Helper()
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s", r.Host) })}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }() // ends when it is closed
	t.Cleanup(func() { s.Close(); <-done })
}

// plain is a proxy that dials and resolves by itself: what it reaches is there.
func plain(rules ...string) func(*Config) {
	return func(c *Config) { c.Allow, c.Resolver, c.Dialer = [][]string{rules}, nil, nil }
}

// TestServicesAreReachedByName: one port of this machine is open inside and the one
// beside it is not, in every protocol of the proxy, and nothing is looked up.
func TestServicesAreReachedByName(t *testing.T) {
	offered, beside := listen(t), listen(t)
	greet(t, offered)
	greet(t, beside)
	port := offered.Addr().(*net.TCPAddr).Port
	w := newWorld()
	p := startProxy(t, w, func(c *Config) {
		plain("web=" + offered.Addr().String())(c)
		c.Resolver = w
	})
	get := fmt.Sprintf("GET http://web:%d/ HTTP/1.1\r\nHost: web:%[1]d\r\n\r\n", port)
	if resp, body := roundTrip(t, p, get, "GET"); resp.StatusCode != 200 || body != fmt.Sprintf("hello web:%d", port) {
		t.Errorf("plain: %d %q", resp.StatusCode, body)
	}
	e := p.event(t)
	if e.Decision != Allow || e.Host != "web" || e.Service != offered.Addr().String() || e.Address.String() != e.Service || e.Down == 0 {
		t.Errorf("recorded %+v", e)
	}
	conn, r, resp := connectTo(t, p, fmt.Sprintf("web:%d", port))
	if resp.StatusCode != 200 {
		t.Fatalf("CONNECT: %d", resp.StatusCode)
	}
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: web:%d\r\n\r\n", port)
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("through CONNECT: %v, %v", resp, err)
	}
	conn.Close()
	p.event(t)
	socks, err := xproxy.SOCKS5("tcp", p.addr, nil, xproxy.Direct)
	if err != nil {
		t.Fatal(err)
	}
	conn5, err := socks.Dial("tcp", fmt.Sprintf("web:%d", port))
	if err != nil {
		t.Fatalf("SOCKS: %v", err)
	}
	conn5.Close()
	p.event(t)
	for _, other := range []string{beside.Addr().String(), offered.Addr().String(), fmt.Sprintf("web:%d", beside.Addr().(*net.TCPAddr).Port), "localhost:80"} {
		conn, _, resp := connectTo(t, p, other)
		if conn.Close(); resp.StatusCode != 403 {
			t.Errorf("CONNECT %s: %d, want 403", other, resp.StatusCode)
		}
		if e := p.event(t); e.Decision != Deny || e.Service != "" {
			t.Errorf("%s: recorded %+v", other, e)
		}
	}
	if looked := w.lookups(); len(looked) != 0 {
		t.Errorf("looked up %q", looked)
	}
}

func TestDeniedAddressIsNoService(t *testing.T) {
	l := listen(t)
	greet(t, l)
	p := startProxy(t, newWorld(), func(c *Config) {
		plain("web=" + l.Addr().String())(c)
		c.Deny = []string{"127.0.0.1"}
	})
	conn, _, resp := connectTo(t, p, fmt.Sprintf("web:%d", l.Addr().(*net.TCPAddr).Port))
	if conn.Close(); resp.StatusCode != 403 {
		t.Errorf("status %d, want 403", resp.StatusCode)
	}
	if e := p.event(t); e.Reason != ReasonDenied || e.Rule == "" {
		t.Errorf("recorded %+v", e)
	}
}

// TestServiceInOneListIsAskedAbout: the operator sees what stands behind the name.
func TestServiceInOneListIsAskedAbout(t *testing.T) {
	l := listen(t)
	greet(t, l)
	address := l.Addr().String()
	for _, answer := range []bool{true, false} {
		asked := make(chan Request, 1)
		p := startProxy(t, newWorld(), func(c *Config) {
			plain()(c)
			c.Allow = [][]string{{"web=" + address}, {"a.example.org"}}
			c.Ask = func(_ context.Context, r Request) (bool, error) { asked <- r; return answer, nil }
		})
		conn, _, resp := connectTo(t, p, fmt.Sprintf("web:%d", l.Addr().(*net.TCPAddr).Port))
		if conn.Close(); (resp.StatusCode == 200) != answer {
			t.Errorf("answered %v: %d", answer, resp.StatusCode)
		}
		if r := <-asked; r.Service != address {
			t.Errorf("asked %+v", r)
		}
		if e := p.event(t); (e.Decision == Allow) != answer || e.Service != address {
			t.Errorf("recorded %+v", e)
		}
	}
}

// socketServer is an HTTP server on a Unix socket in a process of its own, which ends
// when its standard input does. Detached it is no descendant of this process.
func socketServer(t testing.TB, path string, detached bool) {
	t.Helper()
	argv := []string{"python3", "-c", `
import http.server, os, socketserver, sys, threading
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"hello " + self.headers["Host"].encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def address_string(self): return "unix"
    def log_message(self, *a): pass
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
with socketserver.ThreadingUnixStreamServer(sys.argv[1], H) as s:
    print("ready", flush=True); s.serve_forever()`, path}
	if detached {
		argv = append([]string{"setsid", "--fork"}, argv...)
	}
	stdin, alive, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	said, stdout, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout = stdin, stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	stdout.Close()
	t.Cleanup(func() { alive.Close(); _ = cmd.Wait(); _, _ = io.Copy(io.Discard, said); said.Close() })
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the server says %q, %v", line, err)
	}
}

// TestSocketsAreOffered: the socket that is listed, and none that took its place.
func TestSocketsAreOffered(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.sock")
	socketServer(t, path, true)
	hidden := filepath.Join(dir, "other.sock")
	socketServer(t, hidden, true)
	get := "GET http://svc/ HTTP/1.1\r\nHost: svc\r\n\r\n"
	p := startProxy(t, newWorld(), plain("svc=unix:"+path))
	if resp, body := roundTrip(t, p, get, "GET"); resp.StatusCode != 200 || body != "hello svc" {
		t.Errorf("listed: %d %q", resp.StatusCode, body)
	}
	if e := p.event(t); e.Decision != Allow || e.Service != "unix:"+path {
		t.Errorf("recorded %+v", e)
	}
	own, err := net.Listen("unix", filepath.Join(dir, "own.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	child := filepath.Join(dir, "child.sock")
	socketServer(t, child, false)
	for name, put := range map[string]func() error{
		"a link":               func() error { return os.Symlink(hidden, path) },
		"a file":               func() error { return os.WriteFile(path, nil, 0o600) },
		"nothing":              func() error { return nil },
		"a socket of sandgate": func() error { return os.Link(filepath.Join(dir, "own.sock"), path) },
		"a socket of a tool":   func() error { return os.Link(child, path) },
	} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := put(); err != nil {
			t.Fatal(err)
		}
		resp, body := roundTrip(t, p, get, "GET")
		if resp.StatusCode != 502 || strings.Contains(body, "hello") {
			t.Errorf("%s: %d %q", name, resp.StatusCode, body)
		}
		if e := p.event(t); e.Reason != ReasonUnreachable {
			t.Errorf("%s: recorded %+v", name, e)
		}
	}
}

// TestRequestsThatWereAnsweredAreOver: an answer that comes before our own writer
// has noticed that it is done does not end the client's connection.
func TestRequestsThatWereAnsweredAreOver(t *testing.T) {
	late := make(chan error)
	go func() { late <- nil }()
	if err, done := settled(late, &head{}); err != nil || !done {
		t.Errorf("without a body: %v, %v", err, done)
	}
	go func() { late <- io.ErrUnexpectedEOF }()
	if err, done := settled(late, &head{framing: framedLength, length: 1}); err == nil || !done {
		t.Errorf("a torn body: %v, %v", err, done)
	}
	if _, done := settled(nil, &head{framing: framedChunked}); done {
		t.Error("a body that does not come to an end is taken for sent")
	}
}
