package egress

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// TestWhatASandboxListensOn follows from the rules: whole ports where no program
// inside could listen or nobody knows the names, and else one host's stand-in.
func TestWhatASandboxListensOn(t *testing.T) {
	for _, x := range []struct {
		rules  string
		ask    bool
		listen string
		local  string
	}{
		{"", false, "[::]:53", ""},
		{"", true, "[::]:22 [::]:53 [::]:80 [::]:443", ""},
		{"example.org", false, "[::]:53 [::]:80 [::]:443", ""},
		{"example.org:22", false, "[::]:22 [::]:53", ""},
		{"example.org:8443 db=127.0.0.1:5432", false, "[::]:53 198.18.0.2:5432 198.18.0.3:8443", ""},
		{"b.example.org:8443 a.example.org:8443 a.example.org:9000", false, "[::]:53 198.18.0.2:8443 198.18.0.2:9000 198.18.0.3:8443", ""},
		{"a.example.org:8443 *.example.org:8443", false, "[::]:53 [::]:8443", ""},
		{"docs=unix:/run/docs.sock", false, "[::]:53 [::]:80", ""},
		{"192.0.2.7:8080 192.0.2.7:80 [2001:db8::1]:8080", false, "[::]:53 [::]:80 192.0.2.7:8080 [2001:db8::1]:8080", "192.0.2.7/32 2001:db8::1/128"},
		{"198.18.0.2:8080 a.example.org:8443", false, "[::]:53 198.18.0.2:8080 198.18.0.3:8443", ""},
		{"127.0.0.1:8080 224.0.0.1:8080 0.0.0.9:8080 [::1]:8080 [fe80::1]:8080", false, "[::]:53", ""},
		{"169.254.169.254:80", false, "[::]:53 [::]:80", "169.254.169.254/32"},
	} {
		s, err := New(Config{Allow: [][]string{strings.Fields(x.rules)}, Audit: func(Event) {}, Ask: asks(x.ask)})
		if err != nil {
			t.Fatal(err)
		}
		in, err := s.Inside()
		if err != nil {
			t.Fatal(err)
		}
		if got := joined(in.Listen); got != x.listen {
			t.Errorf("%s: listens on %s, want %s", x.rules, got, x.listen)
		}
		if got := strings.TrimSpace("198.18.0.0/15 " + x.local); joined(in.Local) != got {
			t.Errorf("%s: has %s, want %s", x.rules, joined(in.Local), got)
		}
		if len(in.Listen) > len(strings.Fields(x.rules))+4 {
			t.Errorf("%s: %d sockets, which is more than a rule each and four", x.rules, len(in.Listen))
		}
	}
}

func asks(yes bool) func(context.Context, Request) (bool, error) {
	if !yes {
		return nil
	}
	return func(context.Context, Request) (bool, error) { return false, nil }
}

func joined[T fmt.Stringer](list []T) string {
	var texts []string
	for _, x := range list {
		texts = append(texts, x.String())
	}
	return strings.Join(texts, " ")
}

// TestTheSameRulesNeedTheSameAddresses: a sandbox serves several calls.
func TestTheSameRulesNeedTheSameAddresses(t *testing.T) {
	rules := []string{"c.example.org:9000", "a.example.org:9000", "*.example.net", "b.example.org:9001", "192.0.2.9:9000", "192.0.2.8:9000"}
	inside := func() Inside {
		s, err := New(Config{Allow: [][]string{rules}, Audit: func(Event) {}})
		if err != nil {
			t.Fatal(err)
		}
		in, err := s.Inside()
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	was := inside()
	slices.Reverse(rules)
	if is := inside(); !slices.Equal(is.Listen, was.Listen) || !slices.Equal(is.Local, was.Local) || is.Datagrams != was.Datagrams {
		t.Errorf("%+v, and %+v in another order", was, is)
	}
}

// TestTooManyPlacesAreRefused: a sandbox is not made to hold a socket for each of a
// thousand rules.
func TestTooManyPlacesAreRefused(t *testing.T) {
	var ports, addrs []string
	for i := range 1 + maxListen {
		ports = append(ports, fmt.Sprintf("a.example.org:%d", 2000+i))
		addrs = append(addrs, fmt.Sprintf("192.0.2.%d:80", 1+i))
	}
	for _, rules := range [][]string{ports, addrs} {
		s, err := New(Config{Allow: [][]string{rules}, Audit: func(Event) {}})
		if err != nil {
			t.Fatal(err)
		}
		if in, err := s.Inside(); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%d rules: %+v, %v", len(rules), in, err)
		}
	}
}

// TestStandInsGoRound: the range has an end, and an address that is taken is skipped.
func TestStandInsGoRound(t *testing.T) {
	s := newStandIns(policy{})
	s.next = lastStandIn
	var got []netip.Addr
	for i := range 3 {
		a, err := s.of(hostOf(fmt.Sprintf("n%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, a)
		s.put(standIn(firstStandIn), hostOf("taken"))
	}
	if joined(got) != "198.19.255.254 198.18.0.3 198.18.0.4" {
		t.Errorf("got %v", got)
	}
}

// TestAProxyIsAskedForStandIns by clients that look names up by themselves: it takes
// the address for the name that it stands for, and one that stands for nothing for
// what it is.
func TestAProxyIsAskedForStandIns(t *testing.T) {
	w := newWorld()
	w.site("db.example.org", "93.184.216.34", 5432, serveTCP(t, echo))
	p := startProxy(t, w, allow("db.example.org:5432"))
	addr, ok := p.server.standIns.fixed(hostOf("db.example.org"))
	if !ok {
		t.Fatal("a listed name has no address")
	}
	b := addr.As4()
	for name, connect := range map[string]func(last byte) (ok bool){
		"connect": func(last byte) bool {
			conn, _, resp := connectTo(t, p, netip.AddrFrom4([4]byte{b[0], b[1], b[2], last}).String()+":5432")
			conn.Close()
			return resp.StatusCode == 200
		},
		"socks5": func(last byte) bool {
			conn := dialTCP(t, p.addr)
			defer conn.Close()
			conn.Write([]byte{5, 1, 0, 5, 1, 0, 1, b[0], b[1], b[2], last, 5432 >> 8, 5432 & 0xff})
			reply := make([]byte, 4)
			if _, err := io.ReadFull(conn, reply); err != nil {
				t.Fatal(err)
			}
			return reply[3] == 0
		},
	} {
		if !connect(b[3]) {
			t.Errorf("%s: the address of a listed name is refused", name)
		}
		if e := p.event(t); e.Host != "db.example.org" || e.Decision != Allow {
			t.Errorf("%s: %+v", name, e)
		}
		if connect(b[3] + 1) {
			t.Errorf("%s: an address that stands for nothing is connected to", name)
		}
		if e := p.event(t); e.Host != "198.18.0.3" || e.Reason != ReasonAddress && e.Reason != ReasonUnlisted {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// A standing listener gives its connections the local address that they would have in
// a sandbox, whose addresses this machine does not have.
type standing struct {
	net.Listener
	at netip.AddrPort
}

type standingConn struct {
	*net.TCPConn
	at netip.AddrPort
}

func (c standingConn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.at) }

func (l standing) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return standingConn{conn.(*net.TCPConn), l.at}, nil
}

// TestCredentialsHoldWithoutAProxy: the placeholder becomes the secret for its
// service, and is an alarm for any other, also in the name that is asked for.
func TestCredentialsHoldWithoutAProxy(t *testing.T) {
	api, other := rawOrigin(t, ok), rawOrigin(t, ok)
	w, events := newWorld(), make(chan Event, 16)
	w.site("a.example.org", "93.184.216.34", 80, other)
	w.sites[api.Addr.String()] = api.Addr.String()
	rule := "api=" + api.Addr.String()
	s, err := New(Config{
		Allow: [][]string{{"a.example.org", rule}}, Resolver: w, Dialer: w, Audit: func(e Event) { events <- e },
		HostAddrs:   func() ([]netip.Addr, error) { return nil, nil },
		Credentials: []Credential{{Name: "API_KEY", Placeholder: placeholder, Secret: secret, Service: rule}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ways Ways
	at := func(name string, port uint16) string {
		addr, err := s.standIns.of(hostOf(name))
		if err != nil {
			t.Fatal(err)
		}
		l := listen(t)
		ways.Streams = append(ways.Streams, standing{l, netip.AddrPortFrom(addr, port)})
		return l.Addr().String()
	}
	apiAt, otherAt := at("api", uint16(api.Addr.(*net.TCPAddr).Port)), at("a.example.org", 80)
	done := make(chan error, 1)
	go func() { done <- s.ServeWays(ctx, ways) }()
	get := func(at, host string) (status string) {
		conn := dialTCP(t, at)
		defer conn.Close()
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", host, placeholder)
		status, _ = bufio.NewReader(conn).ReadString('\n')
		return status
	}
	if got := get(apiAt, "api:"+api.port()); !strings.Contains(got, "200") {
		t.Errorf("its service: %q", got)
	}
	if seen := api.requests(); len(seen) != 1 || !strings.Contains(seen[0], "Authorization: Bearer "+secret) {
		t.Errorf("its service got %q", seen)
	}
	if e := <-events; e.Protocol != ProtocolDirect || e.Host != "api" || e.Decision != Allow {
		t.Errorf("recorded %+v", e)
	}
	if got := get(otherAt, "a.example.org"); !strings.Contains(got, "403") || strings.Join(other.requests(), "") != "" { // it may see a connection
		t.Errorf("another host: %q, which got %q", got, other.requests())
	}
	if e := <-events; e.Host != "a.example.org" || e.Reason != ReasonCredential || e.Decision != Deny {
		t.Errorf("recorded %+v", e)
	}
	if got := texts(answered(t, s.answerNames(ctx, query(t, placeholder+".example.com.", dnsmessage.TypeA)))); got != "NameError" {
		t.Errorf("as a name: %s", got)
	}
	if e := <-events; e.Protocol != ProtocolDNS || e.Reason != ReasonCredential {
		t.Errorf("recorded %+v", e)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
