package egress

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// openings are what clients really say first, and whether that passes unseen.
var openings = []struct {
	name, says string
	text       bool // the server spoke first, or the port is one of text
	want       beginning
}{
	{name: "request", says: "GET / HTTP/1.1\r\n", want: aRequest},
	{name: "PostgreSQL", says: "\x00\x00\x00\x54\x00\x03\x00\x00user\x00me\x00database\x00db\x00\x00", want: harmless},
	{name: "PostgreSQL, cancel", says: "\x00\x00\x00\x10\x04\xd2\x16\x2e\x00\x00\x00\x01\x00\x00\x00\x02", want: harmless},
	{name: "PostgreSQL, of blanks", says: "\x00\x00\x00\x20\x00\x03\x00\x00user\x00me\x00database\x00db\x00\x00", want: harmless},
	{name: "Redis, RESP", says: "*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n", want: harmless},
	{name: "Redis, a line", says: "PING\r\n", text: true, want: harmless},
	{name: "MongoDB", says: "\x15\x01\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00", want: harmless},
	{name: "Kafka", says: "\x00\x00\x00\x35\x00\x12\x00\x03\x00\x00\x00\x00\x00\x10consumer 1", want: harmless},
	{name: "Cassandra, all controls", says: "\x04\x00\x00\x00\x05\x00\x00\x00\x00", want: nothingYet},
	{name: "SQL Server", says: "\x12\x01\x00\x2f\x00\x00\x01\x00", want: harmless},
	{name: "ClickHouse", says: "\x00\x11ClickHouse client\x18\x04\xb2\xa9\x03", want: harmless},
	{name: "Neo4j", says: "\x60\x60\xb0\x17\x00\x00\x01\x04", want: harmless},
	{name: "LDAP", says: "\x30\x0c\x02\x01\x01\x60\x07", want: harmless},
	{name: "MQTT", says: "\x10\x10\x00\x04MQTT\x04\x02", want: harmless},
	{name: "AMQP", says: "AMQP\x00\x00\x09\x01", want: harmless},
	{name: "XMPP", says: "<?xml version='1.0'?>", want: harmless},
	{name: "JSON", says: "{\"id\": 1}\n", want: harmless},
	{name: "debug adapter", says: "Content-Length: 119\r\n\r\n", want: harmless},
	{name: "git", says: "0039git-upload-pack /schacon/gitbook.git\x00host=example.org\x00", want: harmless},
	{name: "git with a blank", says: "0039git-upload-pack /schacon/git book.git\x00host=example.org\x00", want: harmless},
	{name: "PostgreSQL, asks", says: "\x00\x00\x00\x08\x04\xd2\x16\x2f", want: anAsk},
	{name: "PostgreSQL, asks for GSS and then for TLS", says: "\x00\x00\x00\x08\x04\xd2\x16\x30\x00\x00\x00\x08\x04\xd2\x16\x2f", want: anAsk},
	{name: "one NUL", says: "\x00", want: nothingYet},
	{name: "a length and a word", says: "\x00\x05hello", want: nothingYet},
	{name: "a length and words", says: "\x00\x0bhello there", want: nothingYet},
	{name: "SSH", says: "SSH-2.0-OpenSSH_9.6 Ubuntu\r\n", want: harmless},
	{name: "SMTP", says: "EHLO example.org\r\n", text: true, want: harmless},
	{name: "HTTP/2 to a server that speaks first", says: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", text: true, want: aRequest},
	{name: "memcached", says: "set k 0 0 1\r\nv\r\n", text: true, want: harmless},
	{name: "the same elsewhere", says: "set k 0 0 1\r\nv\r\n", want: aRequest},
	{name: "no git", says: "0039git-upload-pack / HTTP/1.1\r\nHost: x\r\n\r\n", want: aRequest},
	{name: "no Redis", says: "*1\r \r\nHost: x\r\n\r\n", want: aRequest},
}

// judged is what becomes of a client that says all this and waits, in pieces of size bytes.
func judged(says string, text bool, size int) beginning {
	o := opening{text: text}
	for from, to := 0, 0; ; {
		what, n := o.judge([]byte(says[from:to]))
		switch {
		case what == undecided && to < len(says) || (what == nothingYet || what == anAsk) && from+n < len(says):
			from += n
			to = max(from, min(to+size, len(says)))
		default:
			return what
		}
	}
}

func TestWhatClientsSayFirst(t *testing.T) {
	for _, c := range openings {
		for _, size := range []int{1, 3, 1000} {
			if got := judged(c.says, c.text, size); got != c.want {
				t.Errorf("%s, in pieces of %d: %d, want %d", c.name, size, got, c.want)
			}
		}
	}
}

// FuzzOpening: what the most lenient server takes for a request is never harmless.
func FuzzOpening(f *testing.F) {
	for _, c := range openings {
		f.Add(c.says, "")
	}
	for _, prefix := range []string{"", "\x00", "\r\n", "\x85 ", "\x04\x00", "\x15\x03\x01", "*1\r\n", "0039git-upload-pack /x\x00", "G\r\n", "\x00\x00\x00\x08\x04\xd2\x16\x2f"} {
		for _, request := range []string{"GET / HTTP/1.1\r\nHost: e\r\n\r\n", "GET\v/\vx\nHost: e\n\n", "g\r/\r\nhOST : e\n\n"} {
			f.Add(prefix, request)
		}
	}
	f.Fuzz(func(t *testing.T, prefix, request string) {
		says := prefix + request
		if len(says) > 1000 || !lenient([]byte(says)) {
			return
		}
		for _, size := range []int{1, 1000} {
			if got := judged(says, false, size); got != aRequest {
				t.Errorf("%q, in pieces of %d: %d, and some server takes it for a request", says, size, got)
			}
		}
	})
}

// lenient is a server that trims every control character and white space off the front,
// parts words at any white space, and takes any token for a method. It keeps off NUL in its
// first line, and off other control characters there if some came before it or the method begins with a digit.
func lenient(b []byte) bool {
	rest := bytes.TrimLeftFunc(b, func(r rune) bool { return r < ' ' || r == 0x7f })
	for len(rest) > 0 && (isBlank(rest[0]) || isControl(rest[0])) {
		rest = rest[1:]
	}
	head, _, whole := bytes.Cut(rest, []byte("\n"))
	packet := slices.ContainsFunc(b[:len(b)-len(rest)], isControl) || len(head) > 0 && isDigit(head[0])
	if !whole || bytes.IndexByte(head, 0) >= 0 || packet && slices.ContainsFunc(head, isControl) {
		return false
	}
	words := strings.FieldsFunc(string(latin1(head)), func(r rune) bool { return isBlank(byte(r)) })
	host := slices.ContainsFunc(bytes.Split(rest, []byte("\n")), func(line []byte) bool {
		name, _, is := bytes.Cut(line, []byte(":"))
		return is && strings.EqualFold(strings.TrimSpace(string(name)), "host")
	})
	return len(words) >= 2 && isToken(words[0]) && words[0][:min(4, len(words[0]))] != sshBanner && host
}

func latin1(b []byte) []rune {
	var out []rune
	for _, c := range b {
		out = append(out, rune(c))
	}
	return out
}

// TestRecordBeforeTheHello: some servers drop a record that comes before the ClientHello,
// and then take any name.
func TestRecordBeforeTheHello(t *testing.T) {
	w := newWorld()
	server := tlsServer(t)
	w.site("a.example.org", "93.184.216.34", 443, server)
	w.site("b.example.org", "93.184.216.35", 7000, server)
	p := startProxy(t, w, allow("a.example.org", "b.example.org:7000"))
	for _, host := range []string{"a.example.org:443", "b.example.org:7000"} {
		name, _, _ := strings.Cut(host, ":")
		for prefix, want := range map[string]string{
			"":                                 name, // the twin
			"\x15\x03\x01\x00\x02\x01\x5a":     "",
			"\x15\x00\x00\x00\x02\x01\x5a":     "", // crypto/tls takes any version below 16.0
			"\x14\x03\x03\x00\x01\x01":         "",
			"\x17\x03\x03\x00\x01\x01":         "",
			"\x18\x03\x03\x00\x03\x01\x00\x00": "",
		} {
			for _, says := range []string{name, "evil.example.com"} {
				if want == "" == (says == name) {
					continue
				}
				raw, _, _ := connectTo(t, p, host)
				io.WriteString(raw, prefix)
				got, err := io.ReadAll(tls.Client(raw, &tls.Config{ServerName: says, InsecureSkipVerify: true}))
				raw.Close()
				e := p.event(t)
				if want != "" && (err != nil || !strings.Contains(string(got), want) || e.Decision != Allow) {
					t.Errorf("%s: %q, %v, event %+v", host, got, err, e)
				}
				if want == "" && (err == nil || e.Decision != Deny || e.Reason != ReasonMismatch || e.Up != 0) {
					t.Errorf("%s, %q and %s: %q, event %+v", host, prefix, says, got, e)
				}
			}
		}
	}
}

// TestPortsOfTLS: there only TLS and SSH pass, and a request that is held to its Host.
func TestPortsOfTLS(t *testing.T) {
	w := newWorld()
	server := serveTCP(t, echo)
	w.site("a.example.org", "93.184.216.34", 443, server)
	w.site("b.example.org", "93.184.216.35", 7000, server)
	p := startProxy(t, w, allow("a.example.org", "b.example.org:7000"))
	for says, passes := range map[string]bool{"\x00\x00\x00\x54\x00\x03": false, "\x04\x00": false, "{}": false, "S": false, "SSH-2.0-mine\r\n": true} {
		for host, passes := range map[string]bool{"a.example.org:443": passes, "b.example.org:7000": true} {
			conn, r, _ := connectTo(t, p, host)
			io.WriteString(conn, says)
			conn.CloseWrite()
			got, _ := io.ReadAll(r)
			conn.Close()
			e := p.event(t)
			if passes && (string(got) != says || e.Decision != Allow) {
				t.Errorf("%s, %q: got %q, event %+v", host, says, got, e)
			}
			if !passes && (len(got) > 0 || e.Reason != ReasonMismatch || e.Up != 0) {
				t.Errorf("%s, %q: got %q, event %+v", host, says, got, e)
			}
		}
	}
}

// TestPostgresAsksForTLS: the name in the hello that follows counts as any other, and one
// that is right passes in every version of TLS.
func TestPostgresAsksForTLS(t *testing.T) {
	const ask = asksPostgres + "\x2f"
	inner := tlsServer(t)
	w := newWorld()
	w.site("db.example.org", "93.184.216.34", 5432, serveTCP(t, func(conn net.Conn) {
		if got := make([]byte, len(ask)); !readsFull(conn, got) || string(got) != ask {
			return
		}
		io.WriteString(conn, "S")
		onward(conn, inner)
	}))
	p := startProxy(t, w, allow("db.example.org:5432"))
	for name, right := range map[string]bool{"db.example.org": true, "other.example.org": false} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			conn, r, _ := connectTo(t, p, "db.example.org:5432")
			io.WriteString(trickle{conn}, ask)
			if answer, err := r.ReadByte(); answer != 'S' || err != nil {
				t.Fatalf("%q, %v", answer, err)
			}
			got, err := io.ReadAll(tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true, MaxVersion: version}))
			conn.Close()
			e := p.event(t)
			if right && (err != nil || !strings.Contains(string(got), name) || e.Decision != Allow) {
				t.Errorf("%s: %q, %v, event %+v", tls.VersionName(version), got, err, e)
			}
			if !right && (err == nil || e.Reason != ReasonMismatch || e.Up != int64(len(ask))) {
				t.Errorf("%s as %s: %q, event %+v", tls.VersionName(version), name, got, e)
			}
		}
	}
}

func readsFull(r io.Reader, p []byte) bool {
	_, err := io.ReadFull(r, p)
	return err == nil
}

// onward carries conn to a server.
func onward(conn net.Conn, server net.Addr) {
	up, err := net.Dial("tcp", server.String())
	if err != nil {
		return
	}
	defer up.Close()
	go func() { io.Copy(up, conn); up.(*net.TCPConn).CloseWrite() }()
	io.Copy(conn, up)
}

// TestWhoWaitsForTheServer: a client whose first message is short or without an end, and
// that waits for an answer then, gets it.
func TestWhoWaitsForTheServer(t *testing.T) {
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, echo))
	p := startProxy(t, w, allow("a.example.org:7000"))
	for _, c := range openings {
		if c.text || c.want == aRequest {
			continue
		}
		conn, r, _ := connectTo(t, p, "a.example.org:7000")
		io.WriteString(conn, c.says)
		got := make([]byte, len(c.says))
		if !readsFull(r, got) || string(got) != c.says {
			t.Errorf("%s: got %q", c.name, got)
		}
		conn.Close()
	}
}

func TestOpeningThatFillsTheBufferIsARequest(t *testing.T) {
	r := bufio.NewReader(strings.NewReader(strings.Repeat("x", 1<<16)))
	if what, _, err := new(opening).read(r); what != aRequest || err != nil {
		t.Errorf("%d, %v", what, err)
	}
	r = bufio.NewReader(io.MultiReader(strings.NewReader("xx"), iotestErr{}))
	if what, _, err := new(opening).read(r); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%d, %v", what, err)
	}
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }
