package egress

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"testing"
)

// changeCipherSpec is the record that TLS 1.3 clients send for the sake of middleboxes.
var changeCipherSpec = []byte{20, 3, 3, 0, 1, 1}

// TestSecondHelloIsHeldAgainstTheTarget: a server that asks for another ClientHello takes
// the name from that one.
func TestSecondHelloIsHeldAgainstTheTarget(t *testing.T) {
	w := newWorld()
	w.site("a.example.org", "93.184.216.34", 443, tlsServer(t, tls.CurveP256)) // no client offers a key for that unasked
	p := startProxy(t, w, allow("*.example.org"))
	offers := func(name string) []byte {
		return clientHello(t, &tls.Config{ServerName: name, InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256}})
	}

	raw, _, _ := connectTo(t, p, "a.example.org:443")
	s := tls.Client(raw, &tls.Config{ServerName: "a.example.org", InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256}})
	if got, err := io.ReadAll(s); string(got) != `name "a.example.org"` || err != nil {
		t.Errorf("a second hello for the target: %q, %v", got, err)
	}
	raw.Close()
	if e := p.event(t); e.Decision != Allow {
		t.Errorf("a second hello for the target: event %+v", e)
	}

	// A server that asks again, and then takes whatever comes.
	w.site("a.example.org", "93.184.216.34", 443, serveTCP(t, func(conn net.Conn) {
		if _, _, err := readHello(conn); err == nil {
			conn.Write(record(serverHello(retryRandom)))
			io.Copy(io.Discard, conn)
		}
	}))
	for name, between := range map[string][]byte{
		"alone": {}, "behind change_cipher_spec": changeCipherSpec, "behind early data": {23, 3, 3, 0, 3, 1, 2, 3},
	} {
		for _, waits := range []bool{true, false} {
			raw, r, _ := connectTo(t, p, "a.example.org:443")
			first, second := offers("a.example.org"), inRecords(offers("b.example.org"), 100)
			if waits {
				raw.Write(first)
				if b, err := r.Peek(6); err != nil || b[5] != typeServerHello {
					t.Fatalf("the server said %x, %v", b, err)
				}
				raw.Write(slices.Concat(between, second))
			} else {
				raw.Write(slices.Concat(first, between, second))
			}
			got, err := io.ReadAll(r)
			raw.Close()
			if !bytes.Contains(got, alert(alertUnrecognized)) {
				t.Errorf("%s, waits %t: no alert in %d bytes, %v", name, waits, len(got), err)
			}
			if e := p.event(t); e.Decision != Deny || e.Reason != ReasonMismatch || e.Up != int64(len(first)+len(between)) {
				t.Errorf("%s, waits %t: event %+v; the server got %d bytes, want %d", name, waits, e, e.Up, len(first)+len(between))
			}
		}
	}
}

// serverHello is the message as far as anybody here reads it.
func serverHello(random []byte) []byte {
	return slices.Concat([]byte{typeServerHello, 0, 0, 40, 3, 3}, random, make([]byte, 6))
}

// TestAsksAgain: whatever is not clearly a ServerHello that goes on is taken for one that
// asks again.
func TestAsksAgain(t *testing.T) {
	goesOn, asks := record(serverHello(make([]byte, 32))), record(serverHello(retryRandom))
	warning := []byte{recordAlert, 3, 3, 0, 2, 1, alertUnrecognized}
	for _, c := range []struct {
		name string
		b    []byte
		want bool
	}{
		{"goes on", goesOn, false},
		{"goes on, in records of 1 byte", inRecords(goesOn, 1), false},
		{"goes on after a warning", slices.Concat(warning, goesOn), false},
		{"asks", asks, true},
		{"asks, in records of 7 bytes", inRecords(asks, 7), true},
		{"asks after a warning", slices.Concat(warning, asks), true},
		{"another message", record([]byte{0, 0, 0, 0}), true},
		{"a draft's own message", record([]byte{6, 0, 0, 0}), true},
		{"no TLS", []byte("HTTP/1.1 400 Bad Request\r\n"), true},
		{"a warning in the middle", slices.Concat(inRecords(goesOn, 20)[:25], warning), true},
	} {
		again, sure := asksAgain(c.b)
		if again != c.want || !sure {
			t.Errorf("%s: %t, %t; want %t", c.name, again, sure, c.want)
		}
		for n := range c.b { // a beginning never says otherwise, and what is whole needs no more
			if early, sure := asksAgain(c.b[:n]); sure && early != c.want {
				t.Errorf("%s: %t after %d bytes", c.name, early, n)
			}
		}
	}
}
