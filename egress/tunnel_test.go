package egress

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// clientHello returns the first flight of Go's own TLS client.
func clientHello(t testing.TB, cfg *tls.Config) []byte {
	t.Helper()
	near, far := net.Pipe()
	go func() {
		tls.Client(near, cfg).HandshakeContext(context.Background())
		near.Close()
	}()
	defer far.Close()
	raw, _, err := readHello(far)
	if err != nil && len(raw) == 0 {
		t.Fatal(err)
	}
	return raw
}

func helloFor(t testing.TB, name string) []byte {
	return clientHello(t, &tls.Config{ServerName: name, InsecureSkipVerify: true})
}

// inRecords splits the handshake message of raw into records of size bytes.
func inRecords(raw []byte, size int) []byte {
	var out []byte
	for message := raw[5:]; len(message) > 0; {
		n := min(size, len(message))
		out = append(out, recordHandshake, 3, 1)
		out = binary.BigEndian.AppendUint16(out, uint16(n))
		out = append(out, message[:n]...)
		message = message[n:]
	}
	return out
}

// withExtension adds an extension to a ClientHello of Go's client.
func withExtension(raw []byte, kind uint16, data []byte) []byte {
	b := bytes.Clone(raw)
	at := 5 + 4 + 2 + 32
	at += 1 + int(b[at])
	at += 2 + int(binary.BigEndian.Uint16(b[at:]))
	at += 1 + int(b[at])
	extra := binary.BigEndian.AppendUint16(nil, kind)
	extra = binary.BigEndian.AppendUint16(extra, uint16(len(data)))
	extra = append(extra, data...)
	binary.BigEndian.PutUint16(b[at:], binary.BigEndian.Uint16(b[at:])+uint16(len(extra)))
	binary.BigEndian.PutUint16(b[3:], binary.BigEndian.Uint16(b[3:])+uint16(len(extra)))
	length := int(b[6])<<16 | int(b[7])<<8 | int(b[8]) + len(extra)
	b[6], b[7], b[8] = byte(length>>16), byte(length>>8), byte(length)
	return append(b, extra...)
}

func TestWithExtensionMakesValidHellos(t *testing.T) {
	b := withExtension(helloFor(t, "example.org"), 0x1234, []byte("x"))
	if _, h, err := readHello(bytes.NewReader(b)); err != nil || h.name != "example.org" {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestReadHello(t *testing.T) {
	plain := helloFor(t, "example.org")
	sni := func(b string) []byte { return withExtension(helloFor(t, ""), extServerName, []byte(b)) }
	for _, c := range []struct {
		name string
		raw  []byte
		want hello
		err  string
	}{
		{name: "plain", raw: plain, want: hello{name: "example.org"}},
		{name: "no name", raw: helloFor(t, ""), want: hello{}},
		{name: "in records of 1 byte", raw: inRecords(plain, 1), want: hello{name: "example.org"}},
		{name: "in records of 100 bytes", raw: inRecords(plain, 100), want: hello{name: "example.org"}},
		{name: "encrypted", raw: withExtension(plain, extECH, []byte{0}), want: hello{"example.org", true}},
		{name: "encrypted by the draft", raw: withExtension(plain, extESNI, nil), want: hello{"example.org", true}},
		{name: "name", raw: sni("\x00\x06\x00\x00\x03a.b"), want: hello{name: "a.b"}},

		{name: "two server_name", raw: withExtension(plain, extServerName, []byte("\x00\x06\x00\x00\x03a.b")), err: "twice"},
		{name: "two names", raw: sni("\x00\x0c\x00\x00\x03a.b\x00\x00\x03c.d"), err: "not one host name"},
		{name: "empty name", raw: sni("\x00\x03\x00\x00\x00"), err: "not one host name"},
		{name: "empty list", raw: sni("\x00\x00"), err: "not one host name"},
		{name: "empty server_name", raw: sni(""), err: "not one host name"},
		{name: "another type of name", raw: sni("\x00\x06\x01\x00\x03a.b"), err: "not one host name"},
		{name: "bytes after the list", raw: sni("\x00\x06\x00\x00\x03a.b!"), err: "not one host name"},
		{name: "a message after it", raw: append(inRecords(plain, 1<<14)[:0], record(append(bytes.Clone(plain[5:]), 1, 0, 0, 0))...), err: "follows"},
		{name: "another message", raw: record([]byte{2, 0, 0, 0}), err: "another handshake message"},
		{name: "empty record", raw: []byte{recordHandshake, 3, 1, 0, 0}, err: "record has 0 bytes"},
		{name: "huge record", raw: []byte{recordHandshake, 3, 1, 0xff, 0xff}, err: "record has 65535 bytes"},
		{name: "huge hello", raw: record([]byte{1, 0xff, 0xff, 0xff}), err: "16777215 bytes"},
		{name: "application data in between", raw: append(inRecords(plain, 50)[:55], 23, 3, 3, 0, 1, 0), err: "not a handshake"},
		{name: "cut", raw: plain[:len(plain)-1], err: "EOF"},
		{name: "empty hello", raw: record([]byte{1, 0, 0, 0}), err: "malformed"},
	} {
		rest := append(bytes.Clone(c.raw), "rest"...)
		if c.name == "cut" {
			rest = c.raw
		}
		r := bytes.NewReader(rest)
		raw, h, err := readHello(r)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %+v, %v; want an error with %q", c.name, h, err, c.err)
			}
			continue
		}
		if err != nil || h != c.want || !bytes.Equal(raw, c.raw) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, h, err, c.want)
		}
		if left, _ := io.ReadAll(r); string(left) != "rest" {
			t.Errorf("%s: %d bytes are left, want 4", c.name, len(left))
		}
	}
}

func record(payload []byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{recordHandshake, 3, 1}, uint16(len(payload)))
	return append(b, payload...)
}

// tlsServer is a server with one certificate for all names, which says what name it
// was asked for.
func tlsServer(t testing.TB, curves ...tls.CurveID) net.Addr {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &tls.Config{CurvePreferences: curves, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return serveTCP(t, func(conn net.Conn) {
		s := tls.Server(conn, cfg)
		if s.Handshake() == nil {
			fmt.Fprintf(s, "name %q", s.ConnectionState().ServerName)
			s.Close()
		}
	})
}

// trickle writes one byte at a time.
type trickle struct{ net.Conn }

func (c trickle) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

func TestTLSNameIsHeldAgainstTheTarget(t *testing.T) {
	w := newWorld()
	server := tlsServer(t)
	w.site("a.example.org", "93.184.216.34", 443, server)
	w.sites["10.0.0.5:443"] = server.String()
	p := startProxy(t, w, allow("*.example.org", "10.0.0.5"))
	for _, c := range []struct {
		target, name string
		want         string // "" is refused
	}{
		{"a.example.org:443", "a.example.org", `name "a.example.org"`},
		{"A.Example.Org.:443", "a.EXAMPLE.org", `name "a.EXAMPLE.org"`},
		{"a.example.org:443", "b.example.org", ""}, // also allowed, and still another
		{"a.example.org:443", "evil.example.com", ""},
		{"a.example.org:443", "", ""},
		{"10.0.0.5:443", "", `name ""`},
		{"10.0.0.5:443", "a.example.org", `name "a.example.org"`},
		{"10.0.0.5:443", "evil.example.com", ""},
	} {
		for _, slow := range []bool{false, true} {
			raw, _, resp := connectTo(t, p, c.target)
			if resp.StatusCode != 200 {
				t.Fatalf("%s: %s", c.target, resp.Status)
			}
			var conn net.Conn = raw
			if slow {
				conn = trickle{raw}
			}
			s := tls.Client(conn, &tls.Config{ServerName: c.name, InsecureSkipVerify: true})
			got, err := io.ReadAll(s)
			raw.Close()
			e := p.event(t)
			if c.want != "" && (string(got) != c.want || err != nil || e.Decision != Allow) {
				t.Errorf("%s as %q: %q, %v; event %+v", c.target, c.name, got, err, e)
			}
			if c.want != "" {
				continue
			}
			if err == nil || !strings.Contains(err.Error(), "unrecognized name") {
				t.Errorf("%s as %q: %q, %v; want the alert unrecognized_name", c.target, c.name, got, err)
			}
			if e.Decision != Deny || e.Reason != ReasonMismatch || e.Up != 0 {
				t.Errorf("%s as %q: event %+v", c.target, c.name, e)
			}
		}
	}
}

func TestEncryptedHelloIsRefusedUnlessConfigured(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		w := newWorld()
		w.site("a.example.org", "93.184.216.34", 443, serveTCP(t, echo))
		p := startProxy(t, w, func(c *Config) {
			c.Allow, c.AllowECH = [][]string{{"a.example.org"}}, allowed
		})
		for name, outer := range map[string]bool{"a.example.org": true, "b.example.org": false} {
			conn, r, _ := connectTo(t, p, "a.example.org:443")
			hello := withExtension(helloFor(t, name), extECH, []byte{0})
			conn.Write(hello)
			conn.CloseWrite()
			got, _ := io.ReadAll(r)
			if passed := bytes.Equal(got, hello); passed != (allowed && outer) {
				t.Errorf("ECH allowed %t, outer name %s: passed is %t", allowed, name, passed)
			}
		}
	}
}

// TestTLSThatIsNone: what begins like TLS and is not is not passed on.
func TestTLSThatIsNone(t *testing.T) {
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 443, serveTCP(t, echo))
	p := startProxy(t, w, allow("a.example.org"))
	for _, first := range []string{"\x16\x03\x01\x00\x04\x02\x00\x00\x00", "\x16hello, world", "\x80\x2e\x01\x00\x02" + strings.Repeat("x", 50)} {
		conn, r, _ := connectTo(t, p, "a.example.org:443")
		io.WriteString(conn, first)
		conn.CloseWrite()
		if got, _ := io.ReadAll(r); !bytes.Equal(got, alert(alertUnrecognized)) {
			t.Errorf("%q: got %q", first, got)
		}
		if e := p.event(t); e.Reason != ReasonMismatch || e.Up != 0 {
			t.Errorf("%q: event %+v", first, e)
		}
	}
}

func TestServerMaySpeakFirst(t *testing.T) {
	w := newWorld()
	w.site("ssh.example.org", "93.184.216.34", 22, serveTCP(t, func(conn net.Conn) {
		io.WriteString(conn, "SSH-2.0-server\r\n")
		echo(conn)
	}))
	p := startProxy(t, w, allow("ssh.example.org:22"))
	conn, r, _ := connectTo(t, p, "ssh.example.org:22")
	if line, err := r.ReadString('\n'); line != "SSH-2.0-server\r\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	io.WriteString(conn, "SSH-2.0-client of mine\r\n")
	if line, err := r.ReadString('\n'); line != "SSH-2.0-client of mine\r\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
}

// TestGitIsNotTakenForHTTP: its first packet has a space and no end of line, and
// its client waits for an answer.
func TestGitIsNotTakenForHTTP(t *testing.T) {
	w := newWorld()
	w.site("git.example.org", "93.184.216.34", 9418, serveTCP(t, echo))
	p := startProxy(t, w, allow("git.example.org:9418"))
	conn, r, _ := connectTo(t, p, "git.example.org:9418")
	const first = "0039git-upload-pack /schacon/gitbook.git\x00host=example.org\x00"
	io.WriteString(conn, first)
	got := make([]byte, len(first))
	if _, err := io.ReadFull(r, got); string(got) != first || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestClearTextInsideATunnelIsHeldToItsHost(t *testing.T) {
	var hosts []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host)
		fmt.Fprintf(w, "%s %s", r.Host, r.URL)
	}))
	defer server.Close()
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 80, server.Listener.Addr())
	p := startProxy(t, w, allow("*.example.org"))
	for _, c := range []struct{ name, send, want string }{
		{"its own", "GET /x HTTP/1.1\r\nHost: A.example.org\r\n\r\n", "a.example.org /x"},
		{"with the port", "GET /x HTTP/1.1\r\nHost: a.example.org:80\r\n\r\n", "a.example.org /x"},
		{"a second one", "GET /x HTTP/1.1\r\nHost: a.example.org\r\n\r\nGET /y HTTP/1.1\r\nHost: evil.com\r\n\r\n", "a.example.org /x"},
		{"another", "GET / HTTP/1.1\r\nHost: evil.com\r\n\r\n", "mismatch"},
		{"another that is allowed", "GET / HTTP/1.1\r\nHost: b.example.org\r\n\r\n", "mismatch"},
		{"another port", "GET / HTTP/1.1\r\nHost: a.example.org:81\r\n\r\n", "mismatch"},
		{"none", "GET / HTTP/1.1\r\nX: y\r\n\r\n", "malformed"},
		{"two", "GET / HTTP/1.1\r\nHost: a.example.org\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"absolute", "GET http://evil.com/ HTTP/1.1\r\nHost: a.example.org\r\n\r\n", "malformed"},
		{"after empty lines", "\r\n\r\nGET / HTTP/1.1\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"vertical tab", "GET\v/\vHTTP/1.1\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"form feed", "GET\f/ HTTP/1.1\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"white space of Latin-1", "GET\xa0/\x85HTTP/1.1\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"lone CR", "GET\r/\rHTTP/1.1\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"control in the path", "GET /\x01 HTTP/1.1\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"NUL in front", "\x00GET / HTTP/1.1\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"NUL in front, and its own", "\x00GET / HTTP/1.1\r\nHost: a.example.org\r\n\r\n", "malformed"},
		{"NUL and blanks in front", "\x00 \r\n\x04GET\t/ HTTP/1.1\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"a line in front", "G\r\nGET / HTTP/1.1\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"HTTP/0.9 with a Host", "GET /\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"another protocol's name", "GET / ICY/1.0\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"bare LF", "GET / HTTP/1.1\nHost: evil.com\n\n", "malformed"},
		{"tabs", "GET\t/\tHTTP/1.1\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"odd method", "g3t! / HTTP/1.1\r\nHost: evil.com\r\n\r\n", "mismatch"},
		{"lower case", "get / http/1.1\r\nHost: evil.com\r\n\r\n", "malformed"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "malformed"},
		{"long URL", "GET /" + strings.Repeat("x", 5000) + " HTTP/1.1\r\nHost: evil.com\r\n\r\n", "mismatch"},
	} {
		hosts = nil
		conn, r, _ := connectTo(t, p, "a.example.org:80")
		io.WriteString(conn, c.send)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		conn.Close()
		p.event(t)
		got := string(body)
		if resp.StatusCode != 200 {
			got = resp.Header.Get("Sandgate-Reason")
		}
		if got != c.want {
			t.Errorf("%s: %s %q, want %q", c.name, resp.Status, got, c.want)
		}
		if refused := !strings.Contains(c.want, " "); refused && len(hosts) > 0 || !refused && len(hosts) != 1 {
			t.Errorf("%s: the server saw %q", c.name, hosts)
		}
	}
}

// FuzzReadHello holds the parser against the one of crypto/tls: where both take a
// hello, they see one name.
func FuzzReadHello(f *testing.F) {
	plain := helloFor(f, "example.org")
	for _, b := range [][]byte{plain, helloFor(f, ""), inRecords(plain, 100), plain[:50],
		withExtension(plain, extECH, []byte{0}), withExtension(helloFor(f, ""), extServerName, []byte("\x00\x06\x00\x00\x03a.b"))} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		raw, h, err := readHello(bytes.NewReader(b))
		if !bytes.HasPrefix(b, raw) {
			t.Fatalf("reads %x of %x", raw, b)
		}
		if name, ok := serverSees(b); ok && err == nil && name != h.name {
			t.Errorf("a server sees %q, we see %q", name, h.name)
		}
	})
}

// serverSees returns the name that crypto/tls finds in a ClientHello.
func serverSees(b []byte) (name string, ok bool) {
	conn := &script{in: bytes.NewReader(b)}
	server := tls.Server(conn, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name, ok = h.ServerName, true
		return nil, errors.New("enough")
	}})
	server.Handshake()
	return strings.ToLower(name), ok && name == strings.ToLower(name)
}

// A script is a connection that says what it was given.
type script struct {
	net.Conn
	in *bytes.Reader
}

func (s *script) Read(p []byte) (int, error)       { return s.in.Read(p) }
func (s *script) Write(p []byte) (int, error)      { return len(p), nil }
func (s *script) Close() error                     { return nil }
func (s *script) SetDeadline(time.Time) error      { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
