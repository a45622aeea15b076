package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/sandgate/sandgate/internal/hostrule"
)

// A specialRange is a block of addresses that a name on an allow list must not lead to. The
// owner of a name's DNS controls its addresses: without this check, an allowed name could lead
// to the machine's own services, to its neighbours, and to the credentials that clouds serve on
// link-local addresses.
type specialRange struct {
	prefix  netip.Prefix
	what    string
	private bool // Config.AllowPrivate opens it
}

func block(prefix, what string) specialRange {
	return specialRange{prefix: netip.MustParsePrefix(prefix), what: what}
}

func private(prefix, what string) specialRange {
	return specialRange{netip.MustParsePrefix(prefix), what, true}
}

// specialRanges is the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC
// 6890), multicast, and what carries an IPv4 address inside an IPv6 one: a relay
// would take the packet to an IPv4 address that was never checked. The first match
// names the reason, so narrow ranges come first.
var specialRanges = []specialRange{
	block("169.254.169.254/32", "a cloud's metadata service"),
	block("169.254.170.2/32", "a cloud's credentials service"),
	block("168.63.129.16/32", "a cloud's metadata service"), // Azure's, in a public range
	block("100.100.100.200/32", "a cloud's metadata service"),
	block("192.0.0.192/32", "a cloud's metadata service"),
	block("fd00:ec2::/32", "a cloud's metadata service"), // AWS has its credentials service for pods beside it
	block("fd00:c1::a9fe:a9fe/128", "a cloud's metadata service"),
	block("fd00:42::42/128", "a cloud's metadata service"),
	block("fd20:ce::254/128", "a cloud's metadata service"),

	block("0.0.0.0/8", "this network"), // Linux connects 0.0.0.0 to loopback
	private("10.0.0.0/8", "private"),
	private("100.64.0.0/10", "carrier-grade NAT"),
	block("127.0.0.0/8", "loopback"),
	block("169.254.0.0/16", "link-local"),
	private("172.16.0.0/12", "private"),
	block("192.0.0.0/24", "reserved for protocols"),
	block("192.0.2.0/24", "documentation"),
	block("192.88.99.0/24", "a 6to4 relay"),
	private("192.168.0.0/16", "private"),
	block("198.18.0.0/15", "benchmarking"),
	block("198.51.100.0/24", "documentation"),
	block("203.0.113.0/24", "documentation"),
	block("224.0.0.0/4", "multicast"),
	block("240.0.0.0/4", "reserved or broadcast"),

	block("::/128", "unspecified"),
	block("::1/128", "loopback"),
	block("64:ff9b::/96", "NAT64, which hides an IPv4 address"),
	block("64:ff9b:1::/48", "NAT64, which hides an IPv4 address"),
	block("2001::/32", "Teredo, which hides an IPv4 address"),
	block("2001::/23", "reserved for protocols"),
	block("2001:db8::/32", "documentation"),
	block("2002::/16", "6to4, which hides an IPv4 address"),
	block("3fff::/20", "documentation"),
	private("fc00::/7", "private"),
	block("fe80::/10", "link-local"),
	block("fec0::/10", "site-local"),
	block("ff00::/8", "multicast"),
}

// globalUnicast is all of IPv6 that is assigned to the public internet (RFC 4291,
// section 2.4); the rest is reserved, ::/96 with its IPv4 addresses included.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// special says what makes an address one that a name must not lead to, or "".
func special(a netip.Addr, allowPrivate bool) string {
	a = a.Unmap().WithZone("")
	for _, r := range specialRanges {
		if r.prefix.Contains(a) {
			if r.private && allowPrivate {
				return ""
			}
			return r.what
		}
	}
	switch {
	case !a.IsValid():
		return "not an address"
	case a.Is6() && isISATAP(a):
		return "ISATAP, which hides an IPv4 address"
	case a.Is6() && !globalUnicast.Contains(a):
		return "reserved"
	}
	return ""
}

// isISATAP recognises the interface identifier of RFC 5214, section 6.1.
func isISATAP(a netip.Addr) bool {
	b := a.As16()
	return b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// hostAddrs returns the addresses of this machine's interfaces.
func hostAddrs() ([]netip.Addr, error) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, n := range nets {
		if p, err := netip.ParsePrefix(n.String()); err == nil {
			addrs = append(addrs, p.Addr().Unmap())
		}
	}
	return addrs, nil
}

// checkAddress decides whether a connection may go to address a. One that the
// rules list as an address may; deny rules come first.
func (s *Server) checkAddress(a netip.Addr, port uint16) error {
	t := Target{Host: hostrule.HostAt(a), Port: port}
	switch v, rule := s.policy.decide(t); v {
	case denied:
		return fmt.Errorf("%v is denied by the rule %s", a, rule)
	case allowed:
		return nil
	}
	if what := special(a, s.cfg.AllowPrivate || s.policy.leads(a.Unmap().WithZone(""))); what != "" {
		return fmt.Errorf("a name led to %v, which only a rule for the address can allow: %s", a.Unmap(), what)
	}
	own, err := s.cfg.HostAddrs()
	if err != nil {
		return fmt.Errorf("%v: cannot determine whether this is the local machine: %w", a, err)
	}
	if slices.Contains(own, a.Unmap()) {
		return fmt.Errorf("a name led to %v, which only a rule for the address can allow: it is this machine", a.Unmap())
	}
	return nil
}
