package egress

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	xproxy "golang.org/x/net/proxy"

	"github.com/sandgate/sandgate/internal/hostrule"
)

func socksTo(host string, port uint16) []byte {
	b := append([]byte{5, 1, 0, socksName, byte(len(host))}, host...)
	return binary.BigEndian.AppendUint16(b, port)
}

func socksToAddr(addr string, port uint16) []byte {
	a := netip.MustParseAddr(addr)
	b := []byte{5, 1, 0, socksIPv4}
	if a.Is6() {
		b[3] = socksIPv6
	}
	return binary.BigEndian.AppendUint16(append(b, a.AsSlice()...), port)
}

func TestSOCKS(t *testing.T) {
	w := newWorld()
	server := serveTCP(t, echo)
	w.site("a.example.org", "93.184.216.34", 7000, server)
	w.site("b.example.org", "127.0.0.1", 7000, server)
	w.names["c.example.org"] = []string{"93.184.216.99"}
	w.sites["192.0.2.7:7000"] = server.String()
	w.sites["[2001:db8::1]:7000"] = server.String()
	p := startProxy(t, w, allow("a.example.org:7000", "b.example.org:7000", "c.example.org:7000", "192.0.2.7:7000", "[2001:db8::1]:7000"))
	command := func(b []byte, code byte) []byte { b[1] = code; return b }
	for _, c := range []struct {
		name  string
		hello string
		req   []byte
		code  byte
		want  Reason
	}{
		{name: "name", req: socksTo("a.example.org", 7000)},
		{name: "name, spelt otherwise", req: socksTo("A.EXAMPLE.org.", 7000)},
		{name: "listed address", req: socksToAddr("192.0.2.7", 7000)},
		{name: "listed address in IPv6", req: socksToAddr("2001:db8::1", 7000)},
		{name: "mapped address", req: socksToAddr("::ffff:192.0.2.7", 7000)},
		{name: "address as a name", req: socksTo("0xc0.0.2.7", 7000)},
		{name: "many methods", hello: "\x05\x03\x02\x00\x01", req: socksTo("a.example.org", 7000)},

		{name: "unlisted name", req: socksTo("evil.com", 7000), code: socksNotAllowed, want: ReasonUnlisted},
		{name: "unlisted port", req: socksTo("a.example.org", 7001), code: socksNotAllowed, want: ReasonUnlisted},
		{name: "unlisted address", req: socksToAddr("93.184.216.34", 7000), code: socksNotAllowed, want: ReasonUnlisted},
		{name: "loopback", req: socksToAddr("127.0.0.1", 7000), code: socksNotAllowed, want: ReasonAddress},
		{name: "mapped loopback", req: socksToAddr("::ffff:127.0.0.1", 7000), code: socksNotAllowed, want: ReasonAddress},
		{name: "name of loopback", req: socksTo("b.example.org", 7000), code: socksNotAllowed, want: ReasonAddress},
		{name: "nobody there", req: socksTo("c.example.org", 7000), code: socksUnreachable, want: ReasonUnreachable},
		{name: "bind", req: command(socksTo("a.example.org", 7000), 2), code: socksNotSupported, want: ReasonUnsupported},
		{name: "udp", req: command(socksTo("a.example.org", 7000), 3), code: socksNotSupported, want: ReasonUnsupported},
		{name: "port 0", req: socksTo("a.example.org", 0), code: socksBadAddress, want: ReasonMalformed},
		{name: "NUL in the name", req: socksTo("a.example.org\x00.evil.com", 7000), code: socksBadAddress, want: ReasonMalformed},
		{name: "no name", req: socksTo("", 7000), code: socksBadAddress, want: ReasonMalformed},
		{name: "unknown type", req: []byte{5, 1, 0, 9, 1, 1}, code: socksBadAddress, want: ReasonMalformed},
		{name: "reserved byte", req: []byte{5, 1, 7, 1, 1, 1}, code: socksBadAddress, want: ReasonMalformed},
	} {
		conn := dialTCP(t, p.addr)
		if c.hello == "" {
			c.hello = "\x05\x01\x00"
		}
		io.WriteString(conn, c.hello)
		conn.Write(c.req)
		if c.want == "" {
			io.WriteString(conn, "\x00hello") // without waiting for the answer
		}
		conn.CloseWrite()
		got, err := io.ReadAll(conn)
		e := p.event(t)
		if e.Reason != c.want || e.Protocol != ProtocolSOCKS5 || (e.Decision == Allow) != (c.want == "" || c.want == ReasonUnreachable) {
			t.Errorf("%s: event %+v", c.name, e)
		}
		if c.want == "" {
			if want := "\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00hello"; string(got) != want || err != nil {
				t.Errorf("%s: %q, %v; want %q", c.name, got, err, want)
			}
			continue
		}
		if len(got) < 7 || got[3] != c.code || !strings.Contains(string(got), "refused ("+string(c.want)+")") {
			t.Errorf("%s: %q, %v; want code %d and why", c.name, got, err, c.code)
		}
	}
}

func TestSOCKSWithAuthenticationOnlyIsRefused(t *testing.T) {
	p := startProxy(t, newWorld(), nil)
	for _, c := range []struct{ hello, want string }{
		{"\x05\x01\x02", "\x05\xff"},
		{"\x05\x00", "\x05\xff"},
		{"\x04\x01\x00\x50\x01\x02\x03\x04\x00", "\x00\x5b\x00\x00\x00\x00\x00\x00"},
		{"\x16\x03\x01\x00\x05hello", string(alert(alertUnexpected))},
	} {
		conn := dialTCP(t, p.addr)
		io.WriteString(conn, c.hello)
		conn.CloseWrite()
		got := make([]byte, len(c.want))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != c.want {
			t.Errorf("%q: %q, %v; want %q", c.hello, got, err, c.want)
		}
		if e := p.event(t); e.Decision != Deny || e.Reason != ReasonUnsupported {
			t.Errorf("%q: event %+v", c.hello, e)
		}
	}
}

// TestSOCKSLibrary: the client of golang.org/x/net, as an ordinary program uses it.
func TestSOCKSLibrary(t *testing.T) {
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 7000, serveTCP(t, echo))
	p := startProxy(t, w, allow("a.example.org:7000"))
	d, err := xproxy.SOCKS5("tcp", p.addr, nil, &net.Dialer{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.Dial("tcp", "a.example.org:7000")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "\x00hi")
	got := make([]byte, 3)
	if _, err := io.ReadFull(conn, got); string(got) != "\x00hi" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := d.Dial("tcp", "evil.com:7000"); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("unlisted: %v", err)
	}
}

func FuzzSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x01\x00"), socksTo("a.example.org", 443))
	f.Add([]byte("\x05\x02\x00\x02"), socksToAddr("127.0.0.1", 80))
	f.Add([]byte("\x05\x00"), socksToAddr("::1", 80))
	f.Add([]byte("\x05"), []byte("\x05\x01\x00\x03\xffabc"))
	f.Fuzz(func(t *testing.T, hello, req []byte) {
		if methods, err := readSOCKSMethods(bytes.NewReader(hello)); err == nil && len(methods) != int(hello[1]) {
			t.Errorf("%x: methods %x", hello, methods)
		}
		r := bytes.NewReader(req)
		target, err := readSOCKSRequest(r)
		if err != nil {
			return
		}
		if again, err := hostrule.ParseTarget(target.String(), 0); err != nil || again != target {
			t.Errorf("%x is %v, which is %v, %v", req, target, again, err)
		}
		size := map[byte]int{socksIPv4: 4, socksIPv6: 16, socksName: 1 + int(req[4])}[req[3]]
		if read := len(req) - r.Len(); read != 4+size+2 {
			t.Errorf("%x: %d bytes are read, want %d", req, read, 4+size+2)
		}
	})
}
