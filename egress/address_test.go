package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/internal/hostrule"
)

func TestSpecialAddresses(t *testing.T) {
	for _, c := range []struct{ addr, want string }{
		{"0.0.0.0", "this network"},
		{"127.0.0.1", "loopback"}, {"127.255.0.9", "loopback"},
		{"10.1.2.3", "private"}, {"172.16.0.1", "private"}, {"172.31.255.255", "private"}, {"192.168.1.1", "private"},
		{"100.64.0.1", "carrier-grade"}, {"100.100.100.200", "metadata"},
		{"169.254.169.254", "metadata"}, {"169.254.170.2", "credentials"}, {"168.63.129.16", "metadata"}, {"169.254.1.1", "link-local"},
		{"224.0.0.1", "multicast"}, {"239.255.255.255", "multicast"}, {"255.255.255.255", "broadcast"}, {"240.0.0.1", "reserved"},
		{"192.0.2.1", "documentation"}, {"198.18.0.1", "benchmarking"}, {"192.88.99.1", "6to4"},
		{"::", "unspecified"}, {"::1", "loopback"}, {"::7f00:1", "reserved"},
		{"::ffff:127.0.0.1", "loopback"}, {"::ffff:169.254.169.254", "metadata"},
		{"64:ff9b::7f00:1", "NAT64"}, {"64:ff9b::808:808", "NAT64"}, {"64:ff9b:1::1", "NAT64"},
		{"2002:7f00:1::", "6to4"}, {"2001:0:1::1", "Teredo"}, {"2001:db8::1", "documentation"},
		{"fd00:ec2::254", "metadata"}, {"fd00:ec2::23", "metadata"}, {"fd00:c1::a9fe:a9fe", "metadata"}, {"fd00:42::42", "metadata"}, {"fd00::1", "private"}, {"fe80::1", "link-local"}, {"fec0::1", "site-local"}, {"ff02::1", "multicast"},
		{"4000::1", "reserved"}, {"2607:f8b0::5efe:7f00:1", "ISATAP"}, {"2607:f8b0::200:5efe:7f00:1", "ISATAP"},
		{"93.184.216.34", ""}, {"8.8.8.8", ""}, {"172.32.0.1", ""}, {"100.128.0.1", ""}, {"2606:4700::1111", ""},
	} {
		got := special(netip.MustParseAddr(c.addr), false)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.addr, got, c.want)
		}
	}
	if special(netip.Addr{}, true) == "" {
		t.Error("no address at all passes")
	}
}

// TestAllowPrivateOpensNothingElse: it is for a company's own network, not for the
// machine and its cloud.
func TestAllowPrivateOpensNothingElse(t *testing.T) {
	for _, addr := range []string{"10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::1"} {
		if what := special(netip.MustParseAddr(addr), true); what != "" {
			t.Errorf("%s: still %s", addr, what)
		}
	}
	for _, addr := range []string{"127.0.0.1", "::1", "169.254.169.254", "100.100.100.200", "fd00:ec2::254", "fd00:ec2::23", "fd00:c1::a9fe:a9fe", "fd00:42::42", "169.254.9.9", "fe80::1", "224.0.0.1", "0.0.0.0", "64:ff9b::a01:203"} {
		if special(netip.MustParseAddr(addr), true) == "" {
			t.Errorf("%s: passes", addr)
		}
	}
}

// TestStandardLibraryAgrees: nothing that net/netip calls special is reached.
func TestStandardLibraryAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a netip.Addr
		if rapid.Bool().Draw(t, "v4") {
			a = netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "addr")))
		} else {
			a = netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "addr")))
		}
		if special(a, false) == "" && (!a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsMulticast()) {
			t.Errorf("%v passes", a)
		}
	})
}

func TestNamesDoNotLeadToRefusedAddresses(t *testing.T) {
	own := netip.MustParseAddr("93.184.216.99")
	lists := func(network string) func(*Config) {
		return func(c *Config) { c.Allow = [][]string{{"svc.example.org:7000", network}} }
	}
	for _, c := range []struct {
		name   string
		addr   string
		change func(*Config)
		want   Reason // "" is reached
	}{
		{name: "public", addr: "93.184.216.34"},
		{name: "loopback", addr: "127.0.0.1", want: ReasonAddress},
		{name: "mapped loopback", addr: "::ffff:127.0.0.1", want: ReasonAddress},
		{name: "metadata", addr: "169.254.169.254", want: ReasonAddress},
		{name: "private", addr: "10.0.0.5", want: ReasonAddress},
		{name: "private, allowed", addr: "10.0.0.5", change: func(c *Config) { c.AllowPrivate = true }},
		{name: "loopback, private allowed", addr: "127.0.0.1", change: func(c *Config) { c.AllowPrivate = true }, want: ReasonAddress},
		{name: "loopback, listed", addr: "127.0.0.1", change: func(c *Config) { c.Allow[0] = append(c.Allow[0], "127.0.0.1:7000") }},
		{name: "loopback, listed with another port", addr: "127.0.0.1", change: func(c *Config) { c.Allow[0] = append(c.Allow[0], "127.0.0.1:7001") }, want: ReasonAddress},
		{name: "loopback, in one list of two", addr: "127.0.0.1", change: func(c *Config) {
			c.Allow = append(c.Allow, append(c.Allow[0], "127.0.0.1:7000"))
		}, want: ReasonAddress},
		{name: "this machine", addr: own.String(), want: ReasonAddress},
		{name: "this machine unknown", addr: "93.184.216.34", change: func(c *Config) {
			c.HostAddrs = func() ([]netip.Addr, error) { return nil, errors.New("no netlink") }
		}, want: ReasonAddress},
		{name: "in a network that is listed", addr: "10.1.2.3", change: lists("10.0.0.0/8")},
		{name: "in another network", addr: "192.168.0.1", change: lists("10.0.0.0/8"), want: ReasonAddress},
		{name: "of two lists one has the network", addr: "10.1.2.3", want: ReasonAddress, change: func(c *Config) {
			c.Allow = [][]string{{"svc.example.org:7000", "10.0.0.0/8"}, {"svc.example.org:7000"}}
		}},
		{name: "the network without the name", addr: "10.1.2.3", change: func(c *Config) { c.Allow = [][]string{{"10.0.0.0/8"}} }, want: ReasonUnlisted},
		{name: "a cloud's service in a network that is listed", addr: "100.100.100.200", change: lists("100.64.0.0/10"), want: ReasonAddress},
		{name: "this machine in a network that is listed", addr: "10.1.2.3", want: ReasonAddress, change: func(c *Config) {
			lists("10.0.0.0/8")(c)
			c.HostAddrs = func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil }
		}},
		{name: "a network that is denied", addr: "10.1.2.3", want: ReasonAddress, change: func(c *Config) {
			lists("10.0.0.0/8")(c)
			c.Deny = []string{"10.1.0.0/16"}
		}},
		{name: "denied as an address", addr: "93.184.216.34", change: func(c *Config) { c.Deny = []string{"93.184.216.34"} }, want: ReasonAddress},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			server := serveTCP(t, echo)
			w.site("svc.example.org", c.addr, 7000, server)
			w.sites[Target{Host: hostrule.HostAt(netip.MustParseAddr(c.addr)), Port: 7000}.String()] = server.String()
			p := startProxy(t, w, func(cfg *Config) {
				cfg.Allow = [][]string{{"svc.example.org:7000"}}
				cfg.HostAddrs = func() ([]netip.Addr, error) { return []netip.Addr{own}, nil }
				if c.change != nil {
					c.change(cfg)
				}
			})
			conn, _, resp := connectTo(t, p, "svc.example.org:7000")
			if got := Reason(resp.Header.Get("Sandgate-Reason")); got != c.want || (resp.StatusCode == 200) != (c.want == "") {
				t.Errorf("status %s, reason %q, want %q", resp.Status, got, c.want)
			}
			if dialled := len(w.dials()) > 0; dialled != (c.want == "") {
				t.Errorf("dialled %q", w.dials())
			}
			conn.Close()
			if e := p.event(t); (e.Decision == Allow) != (c.want == "") {
				t.Errorf("event %+v", e)
			}
		})
	}
}

// TestOnlyCheckedAddressesAreDialled: of a name with several addresses, the bad
// ones are left out; and the name itself is never handed to the dialer.
func TestOnlyCheckedAddressesAreDialled(t *testing.T) {
	w := newWorld()
	w.names["mixed.example.org"] = []string{"127.0.0.1", "93.184.216.1", "10.0.0.1"}
	w.site("mixed.example.org", "93.184.216.34", 443, serveTCP(t, echo))
	p := startProxy(t, w, allow("mixed.example.org"))
	_, _, resp := connectTo(t, p, "mixed.example.org:443")
	if resp.StatusCode != 200 {
		t.Errorf("status %s", resp.Status)
	}
	if got, want := strings.Join(w.dials(), " "), "93.184.216.1:443 93.184.216.34:443"; got != want {
		t.Errorf("dialled %s, want %s", got, want)
	}
	if got := len(w.lookups()); got != 1 {
		t.Errorf("%d lookups for one connection", got)
	}
}

// TestAddressesHaveToBeListed: neither a name's rule nor a spelling opens one.
func TestAddressesHaveToBeListed(t *testing.T) {
	w := newWorld()
	server := serveTCP(t, echo)
	w.site("example.org", "93.184.216.34", 443, server)
	w.sites["127.0.0.1:443"] = server.String()
	p := startProxy(t, w, func(c *Config) {
		c.Allow = [][]string{{"example.org", "127.0.0.2", "127.0.0.9:443", "10.0.0.0/8"}}
		c.Deny = []string{"127.0.0.9"}
	})
	for target, want := range map[string]Reason{
		"93.184.216.34:443":         ReasonUnlisted,
		"127.0.0.1:443":             ReasonAddress,
		"2130706433:443":            ReasonAddress,
		"0x7f.1:443":                ReasonAddress,
		"[::ffff:127.0.0.1]:443":    ReasonAddress,
		"[::1]:443":                 ReasonAddress,
		"[64:ff9b::7f00:1]:443":     ReasonAddress,
		"127.0.0.9:443":             ReasonDenied,
		"127.9:443":                 ReasonDenied,
		"127.0.0.2:8443":            ReasonAddress,
		"0177.0.0.02:443":           ReasonUnreachable, // listed; nobody is there
		"example.org@127.0.0.1:443": ReasonMalformed,
		"10.1.2.3:443":              ReasonUnlisted, // names may lead there, and it is not listed itself
		"example.org:443x":          ReasonMalformed,
		"example.org":               ReasonMalformed,
	} {
		_, _, resp := connectTo(t, p, target)
		if got := Reason(resp.Header.Get("Sandgate-Reason")); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	if got := w.lookups(); len(got) > 0 {
		t.Errorf("looked up %q", got)
	}
}
