package hostrule

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// A Rule names hosts and ports:
//
//	pkgs.example.org            this name, on ports 80 and 443
//	pkgs.example.org:8443       this name, on this port
//	*.golang.org        every name below golang.org, at any depth, on 80 and 443
//	192.0.2.7:8080      this address, when it is asked for as an address
//	[2001:db8::1]:443   the same for IPv6
//	10.0.0.0/8          a private network that the names of the list may lead to
//	db=127.0.0.1:5432   a service of this machine, under a name (see Service)
//
// A suffix matches whole labels, and not the suffix itself: *.golang.org is
// pkg.golang.org and a.b.golang.org, and neither golang.org nor notgolang.org. Who
// means both writes both; that the apex often has another owner of its content is
// the usual reason not to. The zero Rule matches nothing.
type Rule struct {
	Host   Host
	Suffix bool   // every name below Host
	Port   uint16 // 0: none was given

	// Net is a private network, if the rule is one: names that other rules are for may lead to its
	// addresses. It is for no host itself.
	Net netip.Prefix

	Service Service // if this is one; Host and Port are then how it is asked for
}

// The ports of a rule that names none.
const (
	PortHTTP  = 80
	PortHTTPS = 443
)

// Parse reads an allow rule. It refuses what covers more than anyone means
// (the whole network, every name below a public suffix) and what is not in its
// plain form; the error says what to write instead.
func Parse(s string) (Rule, error) {
	r, err := parse(s)
	if err == nil && r.Suffix {
		err = checkSuffix(r.Host.name)
	}
	if err != nil {
		return Rule{}, fmt.Errorf("rule %.80q: %w", s, err)
	}
	return r, nil
}

// ParseDeny reads a rule of a deny list, where a wide suffix does no harm.
func ParseDeny(s string) (Rule, error) {
	r, err := parse(s)
	if err != nil {
		return Rule{}, fmt.Errorf("deny rule %.80q: %w", s, err)
	}
	return r, nil
}

func parse(s string) (Rule, error) {
	switch {
	case strings.Contains(s, "="):
		return parseService(s)
	case strings.Contains(s, "://"):
		return Rule{}, errors.New("this is a URL; write only its host, and :PORT if it has one")
	case strings.Contains(s, "/"):
		return parseNet(s)
	case s == "*" || strings.HasPrefix(s, "*:"):
		return Rule{}, errors.New("this would allow every host; name hosts, or give the sandbox the host's network")
	}
	text, port, err := splitPort(s)
	if err != nil {
		return Rule{}, err
	}
	r := Rule{}
	if port == "*" {
		return Rule{}, errors.New("write a separate rule for each port")
	}
	if port != "" {
		if r.Port, err = parsePort(port); err != nil {
			return Rule{}, err
		}
	}
	text, r.Suffix = strings.CutPrefix(text, "*.")
	if strings.Contains(text, "*") {
		return Rule{}, errors.New(`"*" stands for whole labels at the front only, as in *.example.org`)
	}
	if r.Host, err = ParseHost(text); err != nil {
		return Rule{}, err
	}
	return r, r.checkAddress(text)
}

// privateNets are the addresses of the networks of companies and homes (RFC 1918, RFC 4193, RFC 6598).
var privateNets = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("fc00::/7"),
}

// parseNet reads a network. What is not private is not among those that names need a rule to lead to.
func parseNet(s string) (Rule, error) {
	net, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return Rule{}, errors.New("neither a host nor a network; write a host without a path, or a network without a port, as in 10.0.0.0/8")
	case net.Masked() != net:
		return Rule{}, fmt.Errorf("this is the network %s; write it so", net.Masked())
	}
	for _, private := range privateNets {
		if private.Bits() <= net.Bits() && private.Contains(net.Addr()) {
			return Rule{Net: net}, nil
		}
	}
	return Rule{}, errors.New("only a private network can be listed (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, 100.64.0.0/10, fc00::/7, or a part of one); list each host or address")
}

// checkAddress refuses addresses that are not in the form in which people read
// them: a reviewer of the list must see what 2130706433 is.
func (r Rule) checkAddress(text string) error {
	if !r.Host.IsAddr() {
		return nil
	}
	if r.Suffix {
		return errors.New(`"*." goes before a name, not an address`)
	}
	if plain := r.Host.String(); strings.Trim(text, "[]") != plain {
		return fmt.Errorf("this is the address %s; write it so", plain)
	}
	return nil
}

// checkSuffix refuses suffixes below which anyone can register a name: an attacker
// would.
func checkSuffix(name string) error {
	if suffix, _ := publicsuffix.PublicSuffix(name); suffix == name {
		return fmt.Errorf("%s is a public suffix: anyone can get a name below it; list the names you mean", name)
	}
	return nil
}

// String is the rule in its canonical form, which Parse reads back.
func (r Rule) String() string {
	if r.Service != (Service{}) {
		return r.Host.name + "=" + r.Service.String()
	}
	return r.Target()
}

// Target is the target that a client asks for, or the network.
func (r Rule) Target() string {
	if r.Net.IsValid() {
		return r.Net.String()
	}
	s := r.Host.String()
	if r.Suffix {
		s = "*." + s
	}
	if r.Port == 0 {
		return s
	}
	if r.Host.addr.Is6() {
		s = "[" + s + "]"
	}
	return s + ":" + strconv.Itoa(int(r.Port))
}

// Matches reports whether the rule, as an allow rule, covers t.
func (r Rule) Matches(t Target) bool {
	port := r.Port == t.Port || r.Port == 0 && (t.Port == PortHTTP || t.Port == PortHTTPS)
	return port && r.MatchesHost(t.Host)
}

// Denies is Matches for a deny rule: one without a port means the host, on any, and a network all that is in it.
func (r Rule) Denies(t Target) bool {
	if r.Net.IsValid() {
		return r.Net.Contains(t.Host.addr)
	}
	return (r.Port == 0 || r.Port == t.Port) && r.MatchesHost(t.Host)
}

// MatchesHost is Matches for any port.
func (r Rule) MatchesHost(h Host) bool {
	switch {
	case h == Host{}:
		return false
	case r.Suffix:
		return !h.IsAddr() && strings.HasSuffix(h.name, "."+r.Host.name)
	}
	return r.Host == h
}

// CredentialHost reads what a credential for a host is for: one DNS name, and a port
// if it is not that of HTTPS.
func CredentialHost(s string) (Target, error) {
	t, err := ParseTarget(s, PortHTTPS)
	if err != nil {
		return Target{}, err
	}
	if t.Host.IsAddr() {
		return Target{}, fmt.Errorf("%s is an address; a credential goes to a host that has a name, which its certificate shows", t.Host)
	}
	return t, nil
}

// UnmarshalText reads a rule for hosts as Parse does. Services are not among them, and
// a name is in ASCII: what looks like another name is seen.
func (r *Rule) UnmarshalText(text []byte) error {
	rule, err := parse(string(text))
	switch {
	case err != nil:
		return err
	case rule.Service != (Service{}):
		return errors.New("this is a service of this machine; list it under services")
	case !isASCII(string(text)):
		return fmt.Errorf("write the name as it is looked up: %s", rule)
	case rule.Suffix:
		err = checkSuffix(rule.Host.name)
	}
	*r = rule
	return err
}

// MarshalText is String.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Meet is the rule for what both of two rules for hosts are for. They are for the same if
// one is the other, or names what the other's suffix covers. A rule without a port is for
// those of HTTP and HTTPS.
func Meet(a, b Rule) (Rule, bool) {
	both := a
	switch {
	case a.Net.IsValid() || b.Net.IsValid(): // what one has twice is the smaller
		if b.Net.Bits() > a.Net.Bits() {
			both = b
		}
		return both, a.Net.IsValid() && b.Net.IsValid() && a.Net.Overlaps(b.Net)
	case a.covers(b):
		both = b
	case !b.covers(a):
		return Rule{}, false
	}
	both.Port = max(a.Port, b.Port) // if one has none, that of the other
	usual := both.Port == PortHTTP || both.Port == PortHTTPS
	if a.Port != b.Port && (!usual || min(a.Port, b.Port) != 0) {
		return Rule{}, false
	}
	return both, true
}

// covers reports whether r is for each host that other is for.
func (r Rule) covers(other Rule) bool {
	if r.Host == other.Host && r.Suffix == other.Suffix {
		return true
	}
	return r.Suffix && r.MatchesHost(other.Host)
}
