package egress

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/hostrule"
)

// origin is a web server that keeps what it was sent, as bytes.
type origin struct {
	net.Addr
	mu   sync.Mutex
	seen []string
}

func (o *origin) requests() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.seen)
}

// rawOrigin answers each connection with one response after a request's head and
// its body, and keeps all that came.
func rawOrigin(t testing.TB, response string) *origin {
	o := &origin{}
	o.Addr = serveTCP(t, func(conn net.Conn) {
		var all bytes.Buffer
		r := bufio.NewReader(io.TeeReader(conn, &all))
		req, err := http.ReadRequest(r)
		if err == nil {
			_, err = io.Copy(io.Discard, req.Body)
		}
		o.mu.Lock()
		o.seen = append(o.seen, all.String())
		o.mu.Unlock()
		if err == nil {
			io.WriteString(conn, response)
		}
	})
	return o
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func roundTrip(t testing.TB, p *proxy, request, method string) (*http.Response, string) {
	t.Helper()
	conn := dialTCP(t, p.addr)
	io.WriteString(conn, request)
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	body, _ := io.ReadAll(resp.Body)
	conn.Close()
	return resp, string(body)
}

func TestForwardedRequestsAreWrittenAnew(t *testing.T) {
	for _, c := range []struct{ name, send, want string }{
		{"plain", "GET http://a.example.org/x?y=1 HTTP/1.1\r\nHost: a.example.org\r\nAccept: */*\r\n\r\n",
			"GET /x?y=1 HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\nAccept: */*\r\n\r\n"},
		{"spelt otherwise", "GET HTTP://A.Example.Org.:80 HTTP/1.1\r\nhost: a.example.org\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\n\r\n"},
		{"query without path", "GET http://a.example.org?q HTTP/1.1\r\nHost: a.example.org\r\n\r\n",
			"GET /?q HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\n\r\n"},
		{"URL in the path", "GET http://a.example.org/http://evil.com/@x HTTP/1.1\r\nHost: a.example.org\r\n\r\n",
			"GET /http://evil.com/@x HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\n\r\n"},
		{"options", "OPTIONS http://a.example.org HTTP/1.1\r\nHost: a.example.org\r\n\r\n",
			"OPTIONS * HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\n\r\n"},
		{"1.0", "GET http://a.example.org/ HTTP/1.0\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\n\r\n"},
		{"hop by hop", "GET http://a.example.org/ HTTP/1.1\r\nHost: a.example.org\r\nProxy-Authorization: Basic c2VjcmV0\r\n" +
			"proxy-connection: keep-alive\r\nProxy-Anything: x\r\nConnection: X-Mine, Host , keep-alive\r\nX-Mine: 1\r\nX-Yours: 2\r\n" +
			"TE: trailers\r\nUpgrade: h2c\r\nKeep-Alive: 5\r\nAuthorization: Bearer t\r\n\r\n",
			"GET / HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\nX-Yours: 2\r\nAuthorization: Bearer t\r\n\r\n"},
		{"body", "POST http://a.example.org/ HTTP/1.1\r\nHost: a.example.org\r\nConnection: content-length\r\nContent-Length: 5\r\n\r\nhello",
			"POST / HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"},
		{"chunks", "POST http://a.example.org/ HTTP/1.1\r\nHost: a.example.org\r\nTransfer-Encoding: Chunked\r\nTrailer: X\r\n\r\n5;ext=1\r\nhello\r\n0\r\nX: y\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: a.example.org\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
	} {
		w := newWorld()
		o := rawOrigin(t, ok)
		w.site("a.example.org", "93.184.216.34", 80, o)
		p := startProxy(t, w, allow("a.example.org"))
		resp, body := roundTrip(t, p, c.send, "GET")
		if resp.StatusCode != 200 || body != "ok" {
			t.Errorf("%s: %s %q", c.name, resp.Status, body)
		}
		if e := p.event(t); e.Decision != Allow || e.Host != "a.example.org" || e.Port != 80 || e.Up != int64(len(c.want)) || e.Down != int64(len(ok)) {
			t.Errorf("%s: event %+v", c.name, e)
		}
		if got := o.requests(); len(got) != 1 || got[0] != c.want {
			t.Errorf("%s: the server saw\n\t%q\nwant\n\t%q", c.name, got, c.want)
		}
	}
}

// TestAmbiguousRequestsAreRefused: each of these has been read in two ways by two
// programs, or means nothing here. Nothing of them reaches a server.
func TestAmbiguousRequestsAreRefused(t *testing.T) {
	w := newWorld()
	o := rawOrigin(t, ok)
	w.site("a.example.org", "93.184.216.34", 80, o)
	p := startProxy(t, w, allow("a.example.org"))
	const get, host = "GET http://a.example.org/ HTTP/1.1\r\n", "Host: a.example.org\r\n"
	const post = "POST http://a.example.org/ HTTP/1.1\r\n" + host
	for _, c := range []struct {
		send string
		want Reason
	}{
		{get + "\r\n", ReasonMalformed},
		{get + "Host: evil.com\r\n\r\n", ReasonMismatch},
		{get + "Host: a.example.org:81\r\n\r\n", ReasonMismatch},
		{get + "Host: a.example.org@evil.com\r\n\r\n", ReasonMalformed},
		{get + host + host + "\r\n", ReasonMalformed},
		{get + host + "Host : evil.com\r\n\r\n", ReasonMalformed},
		{get + host + " folded: x\r\n\r\n", ReasonMalformed},
		{get + host + "X: a\rHost: evil.com\r\n\r\n", ReasonMalformed},
		{get + host + "X: a\x00\r\n\r\n", ReasonMalformed},
		{get + host + "X: a\x01\r\n\r\n", ReasonMalformed},
		{get + host + "NoColon\r\n\r\n", ReasonMalformed},
		{get + host + ": x\r\n\r\n", ReasonMalformed},
		{get + "Host: a.example.org\n\n", ReasonMalformed},
		{"GET http://a.example.org/ HTTP/1.1\n" + host + "\r\n", ReasonMalformed},
		{"GET http://user:pw@a.example.org/ HTTP/1.1\r\n" + host + "\r\n", ReasonMalformed},
		{"GET http://a.example.org@evil.com/ HTTP/1.1\r\n" + host + "\r\n", ReasonMalformed},
		{"GET http://a%2eexample.org/ HTTP/1.1\r\n" + host + "\r\n", ReasonMalformed},
		{"GET http://a.example.org\\@evil.com/ HTTP/1.1\r\n" + host + "\r\n", ReasonMalformed},
		{"GET http://a.example.org#@evil.com/ HTTP/1.1\r\n" + host + "\r\n", ReasonMalformed},
		{"GET http:///x HTTP/1.1\r\n" + host + "\r\n", ReasonMalformed},
		{"GET / HTTP/1.1\r\n" + host + "\r\n", ReasonMalformed},
		{"GET https://a.example.org/ HTTP/1.1\r\n" + host + "\r\n", ReasonUnsupported},
		{"GET ftp://a.example.org/ HTTP/1.1\r\n" + host + "\r\n", ReasonUnsupported},
		{"GET  http://a.example.org/ HTTP/1.1\r\n" + host + "\r\n", ReasonMalformed},
		{"GET http://a.example.org/ HTTP/1.1 \r\n" + host + "\r\n", ReasonMalformed},
		{"GET http://a.example.org/ HTTP/2.0\r\n" + host + "\r\n", ReasonMalformed},
		{"GET http://a.example.org/\r\n\r\n", ReasonMalformed},
		{"G(T http://a.example.org/ HTTP/1.1\r\n" + host + "\r\n", ReasonMalformed},
		{"\r\n" + get + host + "\r\n", ReasonMalformed},
		{post + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ReasonMalformed},
		{post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", ReasonMalformed},
		{post + "Content-Length: 5, 5\r\n\r\nhello", ReasonMalformed},
		{post + "Content-Length: +5\r\n\r\nhello", ReasonMalformed},
		{post + "Content-Length: 0x5\r\n\r\nhello", ReasonMalformed},
		{post + "Content-Length: -1\r\n\r\nhello", ReasonMalformed},
		{post + "Content-Length: 99999999999999999999\r\n\r\nhello", ReasonMalformed},
		{post + "Content-Length:\r\n\r\nhello", ReasonMalformed},
		{post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", ReasonMalformed},
		{post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", ReasonMalformed},
		{post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", ReasonMalformed},
		{"POST http://a.example.org/ HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ReasonMalformed},
		{"CONNECT a.example.org:80 HTTP/1.1\r\n" + host + "Content-Length: 5\r\n\r\nhello", ReasonMalformed},
		{"CONNECT http://a.example.org:80 HTTP/1.1\r\n" + host + "\r\n", ReasonMalformed},
		{get + host + "X: " + strings.Repeat("x", 70<<10) + "\r\n\r\n", ReasonLimit},
		{get + host + strings.Repeat("X: y\r\n", 20<<10) + "\r\n", ReasonLimit},
		{"SSH-2.0-x\r\n", ReasonMalformed},
		{"\x00\x01\x02\r\n", ReasonMalformed},
	} {
		resp, _ := roundTrip(t, p, c.send, "GET")
		if got := Reason(resp.Header.Get("Sandgate-Reason")); got != c.want {
			t.Errorf("%.120q: %s %q, want %q", c.send, resp.Status, got, c.want)
		}
		if e := p.event(t); e.Decision != Deny || e.Reason != c.want {
			t.Errorf("%.120q: event %+v", c.send, e)
		}
	}
	if got := append(o.requests(), w.dials()...); len(got) > 0 {
		t.Errorf("a server saw %q", got)
	}
}

// TestTornBodiesAreNotTakenForWhole: what is wrong with a body shows only after the
// head was sent on. The server must not see a complete request.
func TestTornBodiesAreNotTakenForWhole(t *testing.T) {
	const post = "POST http://a.example.org/ HTTP/1.1\r\nHost: a.example.org\r\n"
	for send, want := range map[string]Reason{
		post + "Content-Length: 10\r\n\r\nhello":                               ReasonBroken,
		post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n":                      ReasonBroken,
		post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhel":                    ReasonBroken,
		post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y":     ReasonMalformed,
		post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\n\n": ReasonMalformed,
	} {
		w := newWorld()
		complete := make(chan bool, 1)
		w.site("a.example.org", "93.184.216.34", 80, serveTCP(t, func(conn net.Conn) {
			req, err := http.ReadRequest(bufio.NewReader(conn))
			if err == nil {
				_, err = io.ReadAll(req.Body)
			}
			complete <- err == nil
		}))
		p := startProxy(t, w, allow("a.example.org"))
		conn := dialTCP(t, p.addr)
		io.WriteString(conn, send)
		conn.CloseWrite()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.Header.Get("Sandgate-Reason") != string(want) {
			t.Errorf("%q: %v, %v", send, resp, err)
		}
		if <-complete {
			t.Errorf("%q: the server takes it for a whole request", send)
		}
		if e := p.event(t); e.Reason != want {
			t.Errorf("%q: event %+v", send, e)
		}
	}
}

// TestEachRequestOfAConnectionIsDecided: the first one permits nothing.
func TestEachRequestOfAConnectionIsDecided(t *testing.T) {
	w := newWorld()
	a, b := rawOrigin(t, ok), rawOrigin(t, ok)
	w.site("a.example.org", "93.184.216.34", 80, a)
	w.site("evil.example.com", "93.184.216.35", 80, b)
	p := startProxy(t, w, allow("a.example.org"))
	conn := dialTCP(t, p.addr)
	r := bufio.NewReader(conn)
	request := func(host string) { fmt.Fprintf(conn, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", host, host) }
	request("a.example.org") // the second and third are there before the first is answered
	request("a.example.org")
	request("evil.example.com")
	request("a.example.org")
	for i, want := range []int{200, 200, 403} {
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("response %d: %v, %v; want %d", i, resp, err, want)
		}
		io.Copy(io.Discard, resp.Body)
	}
	if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil {
		t.Errorf("after a refusal: %q, %v", rest, err)
	}
	if len(a.requests()) != 2 || len(b.requests()) != 0 {
		t.Errorf("a saw %d requests, b saw %d", len(a.requests()), len(b.requests()))
	}
}

func TestResponses(t *testing.T) {
	const get = "GET http://a.example.org/ HTTP/1.1\r\nHost: a.example.org\r\n\r\n"
	for _, c := range []struct {
		name, method, minor, response string
		want                          string // as it comes out; headers sorted by having at most one
	}{
		{"length", "GET", "1", "HTTP/1.1 200 Fine\r\nContent-Length: 2\r\nProxy-Authenticate: x\r\nKeep-Alive: 5\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"until the end", "GET", "1", "HTTP/1.0 200 OK\r\n\r\nok", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"until the end, to an old client", "GET", "0", "HTTP/1.1 200 OK\r\n\r\nok", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok"},
		{"chunked", "GET", "1", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nT: x\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"},
		{"head", "HEAD", "1", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"},
		{"no content", "GET", "1", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"},
		{"interim", "GET", "1", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"interim, to an old client", "GET", "0", "HTTP/1.1 103 Early Hints\r\n\r\n" + ok, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"},
		{"two responses", "GET", "1", ok + ok, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		{"switching", "GET", "1", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "502"},
		{"nothing", "GET", "1", "", "502"},
		{"noise", "GET", "1", "noise\r\n\r\n", "502"},
		{"endless header", "GET", "1", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 80<<10), "502"},
		{"endless interim", "GET", "0", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20), "502"},
	} {
		w := newWorld()
		w.site("a.example.org", "93.184.216.34", 80, rawOrigin(t, c.response))
		p := startProxy(t, w, allow("a.example.org"))
		conn := dialTCP(t, p.addr)
		send := strings.Replace(strings.Replace(get, "GET", c.method, 1), "HTTP/1.1", "HTTP/1."+c.minor, 1)
		io.WriteString(conn, send)
		conn.CloseWrite()
		got, err := io.ReadAll(conn)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.want == "502" && strings.HasPrefix(string(got), "HTTP/1.1 502 ") {
			continue
		}
		if string(got) != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestCutResponseIsNotTakenForWhole: the client's connection is closed, and not
// used for a response that seems to belong to the next request.
func TestCutResponseIsNotTakenForWhole(t *testing.T) {
	for _, response := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok"} {
		w := newWorld()
		w.site("a.example.org", "93.184.216.34", 80, rawOrigin(t, response))
		p := startProxy(t, w, allow("a.example.org"))
		conn := dialTCP(t, p.addr)
		io.WriteString(conn, "GET http://a.example.org/ HTTP/1.1\r\nHost: a.example.org\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%q: %q looks whole", response, body)
		}
		if e := p.event(t); e.Decision != Allow || e.Reason != ReasonBroken {
			t.Errorf("event %+v", e)
		}
	}
}

// TestEarlyAnswerEndsTheUpload: a server that refuses a large body is heard.
func TestEarlyAnswerEndsTheUpload(t *testing.T) {
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 80, serveTCP(t, func(conn net.Conn) {
		bufio.NewReader(conn).ReadString('\n')
		io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
	}))
	p := startProxy(t, w, allow("a.example.org"))
	conn := dialTCP(t, p.addr)
	io.WriteString(conn, "POST http://a.example.org/ HTTP/1.1\r\nHost: a.example.org\r\nContent-Length: 1000000000\r\n\r\nbegin")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 413 {
		t.Fatalf("%v, %v", resp, err)
	}
}

// TestOrdinaryClient: Go's own HTTP client, through the proxy, keeps its connection.
func TestOrdinaryClient(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	}))
	defer server.Close()
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 80, server.Listener.Addr())
	p := startProxy(t, w, allow("a.example.org"))
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: p.addr})}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 60 * time.Second}
	for i := range 3 {
		sent := strings.Repeat("x", i*100_000)
		resp, err := client.Post("http://a.example.org/", "text/plain", io.MultiReader(strings.NewReader(sent)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(got) != sent || err != nil {
			t.Errorf("%d bytes came back of %d, %v", len(got), len(sent), err)
		}
	}
}

// FuzzForward holds what would be sent on against the parser of net/http, which
// stands for the server: it sees the host that was checked, one framing, and no
// field that was meant for the proxy.
func FuzzForward(f *testing.F) {
	for _, s := range []string{
		"GET http://a.example.org/x HTTP/1.1\r\nHost: a.example.org\r\nProxy-X: y\r\nConnection: a, b\r\n\r\n",
		"POST http://a.example.org:81/ HTTP/1.1\r\nHost: a.example.org:81\r\nContent-Length: 5\r\n\r\nhello",
		"POST http://[2001:db8::1]/ HTTP/1.1\r\nHost: [2001:db8::1]\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"GET http://a/ HTTP/1.0\r\n\r\n", "OPTIONS http://0x7f.1 HTTP/1.1\r\nHost: 127.1\r\n\r\n",
		"CONNECT a:1 HTTP/1.1\r\n\r\n", "GET http://a?b HTTP/1.1\r\nHost: a\r\nA: \r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		h, err := readHead(r, 8<<10)
		if err != nil {
			return
		}
		if _, err := h.authority(); err == nil {
			return
		}
		target, path, err := h.absolute()
		if err != nil {
			return
		}
		var out bytes.Buffer
		sendErr := h.send(&out, r, (&client{}).hostField(target), path, func(r io.Reader) io.Reader { return r })
		sent := bufio.NewReader(&out)
		req, err := http.ReadRequest(sent)
		if err != nil {
			return // refused by the server: an odd method or path
		}
		if inner, err := hostrule.ParseTarget(req.Host, 80); err != nil || inner != target {
			t.Errorf("%q: checked %v, the server sees %q", b, target, req.Host)
		}
		for name := range req.Header {
			if strings.HasPrefix(name, "Proxy-") || name == "Upgrade" {
				t.Errorf("%q: %s goes to the server", b, name)
			}
		}
		if _, err := io.Copy(io.Discard, req.Body); sendErr == nil && err != nil {
			t.Errorf("%q: the server does not find the end of the body: %v", b, err)
		}
		if rest, _ := io.ReadAll(sent); sendErr == nil && len(rest) > 0 {
			t.Errorf("%q: %q follows the request", b, rest)
		}
	})
}
