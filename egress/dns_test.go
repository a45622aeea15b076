package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// query packs one question.
func query(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	n, err := dnsmessage.NewName(name)
	if err != nil {
		t.Fatal(err)
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 0x1234, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: n, Type: kind, Class: dnsmessage.ClassINET}},
	}
	packed, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func answered(t testing.TB, packet []byte) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(packet); err != nil {
		t.Fatalf("the answer % x: %v", packet, err)
	}
	return m
}

// A desk is a Server that answers names, and what it recorded.
type desk struct {
	*Server
	world  *world
	events *[]Event
}

func newDesk(t testing.TB, change func(*Config)) desk {
	t.Helper()
	w, events := newWorld(), &[]Event{}
	cfg := Config{
		Resolver: w, Dialer: w, Audit: func(e Event) { *events = append(*events, e) },
		HostAddrs: func() ([]netip.Addr, error) { return nil, nil },
	}
	change(&cfg)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return desk{s, w, events}
}

func (d desk) ask(t testing.TB, name string, kind dnsmessage.Type) dnsmessage.Message {
	t.Helper()
	return answered(t, d.answerNames(t.Context(), query(t, name, kind)))
}

// texts is an answer in words.
func texts(m dnsmessage.Message) string {
	parts := []string{m.RCode.String()}
	for _, a := range m.Answers {
		switch body := a.Body.(type) {
		case *dnsmessage.AResource:
			parts = append(parts, netip.AddrFrom4(body.A).String())
		case *dnsmessage.AAAAResource:
			parts = append(parts, netip.AddrFrom16(body.AAAA).String())
		case *dnsmessage.PTRResource:
			parts = append(parts, body.PTR.String())
		}
	}
	return strings.TrimPrefix(strings.Join(parts, " "), "RCode")
}

// TestNamesThatMayBeReachedHaveAnAddress, and no others have; those are recorded.
func TestNamesThatMayBeReachedHaveAnAddress(t *testing.T) {
	deny := func(c *Config) {
		c.Allow = [][]string{{"example.org", "*.wide.example.org", "db=127.0.0.1:5432", "192.0.2.7:80", "only.example.net:22"}}
		c.Hostname = "inside"
		c.Deny = []string{"bad.wide.example.org", "half.wide.example.org:80"}
	}
	for _, x := range []struct {
		name     string
		kind     dnsmessage.Type
		want     string // IN: an address of the range
		recorded Reason
	}{
		{"example.org.", dnsmessage.TypeA, "Success IN", ""},
		{"EXAMPLE.org.", dnsmessage.TypeA, "Success IN", ""},
		{"example.org.", dnsmessage.TypeAAAA, "Success", ""},
		{"example.org.", dnsmessage.TypeTXT, "Success", ""},
		{"example.org.", 65, "Success", ""}, // HTTPS
		{"a.b.wide.example.org.", dnsmessage.TypeA, "Success IN", ""},
		{"wide.example.org.", dnsmessage.TypeA, "NameError", ReasonUnlisted},
		{"bad.wide.example.org.", dnsmessage.TypeA, "NameError", ReasonDenied},
		{"bad.wide.example.org.", dnsmessage.TypeAAAA, "NameError", ReasonDenied},
		{"half.wide.example.org.", dnsmessage.TypeA, "Success IN", ""}, // some port of it may be reached
		{"only.example.net.", dnsmessage.TypeA, "Success IN", ""},
		{"db.", dnsmessage.TypeA, "Success IN", ""},
		{"db.example.org.", dnsmessage.TypeA, "NameError", ReasonUnlisted},
		{"example.com.", dnsmessage.TypeA, "NameError", ReasonUnlisted},
		{"c2VjcmV0.example.com.", dnsmessage.TypeTXT, "NameError", ReasonUnlisted},
		{".", dnsmessage.TypeNS, "NameError", ReasonMalformed},
		{"sp ace.example.org.", dnsmessage.TypeA, "NameError", ReasonMalformed},
		{"192.0.2.7.", dnsmessage.TypeA, "NameError", ""},
		{"localhost.", dnsmessage.TypeA, "Success 127.0.0.1", ""},
		{"inside.", dnsmessage.TypeA, "Success 127.0.0.1", ""},
		{"x.localhost.", dnsmessage.TypeAAAA, "Success ::1", ""},
		{"1.2.0.192.in-addr.arpa.", dnsmessage.TypePTR, "NameError", ""},
		{"8.8.ip6.arpa.", dnsmessage.TypePTR, "NameError", ""},
	} {
		d := newDesk(t, deny)
		got := texts(d.ask(t, x.name, x.kind))
		if word, addr, ok := strings.Cut(got, " "); ok && strings.HasPrefix(addr, "198.") && standInRange.Contains(netip.MustParseAddr(addr)) {
			got = word + " IN"
		}
		if got != x.want {
			t.Errorf("%s %v: %s, want %s", x.name, x.kind, got, x.want)
		}
		d.ask(t, x.name, x.kind) // a client asks twice, and that is one thing to know
		events := *d.events
		if x.recorded == "" && len(events) != 0 || x.recorded != "" && (len(events) != 1 || events[0].Reason != x.recorded || events[0].Decision != Deny || events[0].Protocol != ProtocolDNS) {
			t.Errorf("%s: recorded %+v, want %q", x.name, events, x.recorded)
		}
		if len(events) == 1 && x.recorded != ReasonMalformed && !strings.EqualFold(events[0].Host+".", x.name) {
			t.Errorf("%s: recorded of %q", x.name, events[0].Host)
		}
		if got := d.world.lookups(); len(got) > 0 {
			t.Errorf("%s: looked up %q", x.name, got)
		}
	}
}

// TestANameKeepsItsAddress, which no other has, and the address leads back to it.
func TestANameKeepsItsAddress(t *testing.T) {
	d := newDesk(t, allow("*.example.org", "a.example.org:8443"))
	seen := map[string]string{}
	for _, name := range []string{"a.example.org.", "b.example.org.", "A.example.org.", "b.example.org."} {
		addr := texts(d.ask(t, name, dnsmessage.TypeA))
		if was, ok := seen[strings.ToLower(name)]; ok && was != addr {
			t.Errorf("%s: %s and %s", name, was, addr)
		}
		seen[strings.ToLower(name)] = addr
	}
	if seen["a.example.org."] == seen["b.example.org."] {
		t.Errorf("one address for two names: %v", seen)
	}
	if got := texts(d.ask(t, "2.0.18.198.in-addr.arpa.", dnsmessage.TypePTR)); got != "Success a.example.org." {
		t.Errorf("the first address leads to %s", got)
	}
}

// TestAskedNamesHaveAnAddress: whether they may be reached is asked when somebody
// connects, and names that are denied are not asked about.
func TestAskedNamesHaveAnAddress(t *testing.T) {
	d := newDesk(t, func(c *Config) {
		c.Allow, c.Deny = [][]string{{"example.org"}}, []string{"*.evil.example.com"}
		c.Ask = func(context.Context, Request) (bool, error) { t.Error("asked"); return true, nil }
	})
	if got := texts(d.ask(t, "unknown.example.com.", dnsmessage.TypeA)); !strings.HasPrefix(got, "Success 198.") {
		t.Errorf("a name that would be asked about: %s", got)
	}
	if got := texts(d.ask(t, "x.evil.example.com.", dnsmessage.TypeA)); got != "NameError" || len(*d.events) != 1 {
		t.Errorf("a denied name: %s, %+v", got, *d.events)
	}
}

// TestHostilePackets get an error or no answer.
func TestHostilePackets(t *testing.T) {
	good := query(t, "example.org.", dnsmessage.TypeA)
	change := func(at int, b ...byte) []byte {
		p := slices.Clone(good)
		copy(p[at:], b)
		return p
	}
	for name, x := range map[string]struct {
		packet []byte
		want   string
	}{
		"good":                {good, "Success"},
		"nothing":             {nil, ""},
		"a torn header":       {good[:11], ""},
		"an answer":           {change(2, 0x80), ""},
		"no question":         {good[:12], "FormatError"},
		"a torn question":     {good[:len(good)-3], "FormatError"},
		"two questions":       {append(change(4, 0, 2), good[12:]...), "FormatError"},
		"another operation":   {change(2, 0x28), "NotImplemented"},
		"another class":       {change(len(good)-1, 3), "Refused"},
		"a name without end":  {change(12, 0xc0, 12), "FormatError"},
		"a count that lies":   {change(10, 0xff, 0xff), "Success"},
		"a dot inside a name": {change(13, '.'), "FormatError"},
	} {
		d := newDesk(t, allow("example.org"))
		answer := d.answerNames(t.Context(), x.packet)
		got := ""
		if answer != nil {
			got, _, _ = strings.Cut(texts(answered(t, answer)), " ")
		}
		if got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
}

// TestNamesCarryNothingOut: a program that packs what it has read into names tells
// it to nobody, and cannot fill the log with it.
func TestNamesCarryNothingOut(t *testing.T) {
	d := newDesk(t, allow("example.org"))
	const many = 700
	for i := range many {
		d.ask(t, fmt.Sprintf("chunk%d.evil.example.com.", i), dnsmessage.TypeTXT)
	}
	d.recordFurther()
	if got := append(d.world.lookups(), d.world.dials()...); len(got) > 0 {
		t.Errorf("told outside: %q", got)
	}
	events := *d.events
	last := events[len(events)-1]
	if len(events) != maxNamesRecorded+1 || last.Reason != ReasonLimit || !strings.Contains(last.Detail, fmt.Sprintf("%d further", many-maxNamesRecorded)) {
		t.Errorf("%d entries, the last %+v", len(events), last)
	}
}

// TestNamesOfACallAreBounded: past the bound no new name gets an address, which is
// recorded once; those that have one keep it.
func TestNamesOfACallAreBounded(t *testing.T) {
	d := newDesk(t, allow("*.example.org"))
	first := texts(d.ask(t, "n0.example.org.", dnsmessage.TypeA))
	for i := range maxStandIns {
		if _, err := d.standIns.of(hostOf(fmt.Sprintf("n%d.example.org", i))); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if got := texts(d.ask(t, "one-more.example.org.", dnsmessage.TypeA)); got != "Refused" {
			t.Errorf("one more: %s", got)
		}
	}
	if got := texts(d.ask(t, "n0.example.org.", dnsmessage.TypeA)); got != first {
		t.Errorf("the first: %s, it was %s", got, first)
	}
	if events := *d.events; len(events) != 1 || events[0].Reason != ReasonLimit || events[0].Host != "one-more.example.org" {
		t.Errorf("recorded %+v", events)
	}
}

// TestQuestionsArePaced: a flood is answered at a bounded rate.
func TestQuestionsArePaced(t *testing.T) {
	d := newDesk(t, allow("example.org"))
	flood := query(t, "example.org.", dnsmessage.TypeA)
	start := time.Now()
	for range 3*namesPerSlice + 1 {
		d.answerNames(t.Context(), flood)
	}
	if took := time.Since(start); took < 3*nameSlice-20*time.Millisecond {
		t.Errorf("%d questions took %v", 3*namesPerSlice+1, took)
	}
}

// TestAnAnswerSaysWhy to clients that can be told (RFC 8914).
func TestAnAnswerSaysWhy(t *testing.T) {
	d := newDesk(t, allow("example.org"))
	var h dnsmessage.ResourceHeader
	if err := h.SetEDNS0(1232, 0, false); err != nil {
		t.Fatal(err)
	}
	m := answered(t, query(t, "evil.example.com.", dnsmessage.TypeA))
	m.Additionals = []dnsmessage.Resource{{Header: h, Body: &dnsmessage.OPTResource{}}}
	packed, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	got := answered(t, d.answerNames(t.Context(), packed))
	if len(got.Additionals) != 1 || !strings.Contains(got.GoString(), "Code: 15") {
		t.Errorf("the answer: %s", got.GoString())
	}
}

// TestNamesOverDatagrams: a real resolver asks over a real socket.
func TestNamesOverDatagrams(t *testing.T) {
	d := newDesk(t, allow("example.org"))
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.ServeWays(ctx, Ways{Names: conn}) }()
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, conn.LocalAddr().String())
	}}
	addrs, err := r.LookupNetIP(t.Context(), "ip", "example.org.")
	if err != nil || len(addrs) != 1 || !standInRange.Contains(addrs[0].Unmap()) {
		t.Errorf("a listed name: %v, %v", addrs, err)
	}
	var missing *net.DNSError
	if addrs, err := r.LookupNetIP(t.Context(), "ip", "example.com."); !errors.As(err, &missing) || !missing.IsNotFound {
		t.Errorf("another: %v, %v", addrs, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// FuzzAnswerNames: whatever comes, an answer is one to that question, no longer than a
// datagram that every client takes, and gives no address but of a name that may be
// reached. Nothing is looked up.
func FuzzAnswerNames(f *testing.F) {
	for _, name := range []string{"example.org.", "a.b.example.org.", "example.com.", "localhost.", "2.0.18.198.in-addr.arpa.", "."} {
		for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA, dnsmessage.TypePTR, dnsmessage.TypeALL} {
			f.Add(query(f, name, kind))
		}
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		d := newDesk(t, allow("example.org", "*.example.org"))
		answer := d.answerNames(t.Context(), packet)
		if got := d.world.lookups(); len(got) > 0 {
			t.Fatalf("looked up %q", got)
		}
		if answer == nil {
			return
		}
		m := answered(t, answer)
		if !m.Response || m.ID != uint16(packet[0])<<8|uint16(packet[1]) || len(answer) > 512 || len(m.Questions) > 1 {
			t.Fatalf("%d bytes: %s", len(answer), m.GoString())
		}
		for _, a := range m.Answers {
			body, ok := a.Body.(*dnsmessage.AResource)
			if !ok {
				continue
			}
			addr := netip.AddrFrom4(body.A)
			name := strings.ToLower(strings.TrimSuffix(m.Questions[0].Name.String(), "."))
			if h, ok := d.standIns.host(addr); !addr.IsLoopback() && (!ok || h.Name() != name || !strings.HasSuffix("."+name, ".example.org")) {
				t.Fatalf("%q got %v, which stands for %v", name, addr, h)
			}
		}
	})
}
