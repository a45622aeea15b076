package egress

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// A Rule names hosts and ports:
//
//	pypi.org            this name, on ports 80 and 443
//	pypi.org:8443       this name, on this port
//	*.golang.org        every name below golang.org, at any depth, on 80 and 443
//	192.0.2.7:8080      this address, when it is asked for as an address
//	[2001:db8::1]:443   the same for IPv6
//	db=127.0.0.1:5432   a service of this machine, under a name (see Service)
//
// A suffix matches whole labels, and not the suffix itself: *.golang.org is
// pkg.golang.org and a.b.golang.org, and neither golang.org nor notgolang.org. Who
// means both writes both; that the apex often has another owner of its content is
// the usual reason not to. The zero Rule matches nothing.
type Rule struct {
	host   Host
	suffix bool
	port   uint16 // 0: none was given

	service Service // if this is one; host and port are then how it is asked for
}

// The ports of a rule that names none.
const (
	portHTTP  = 80
	portHTTPS = 443
)

// ParseRule reads an allow rule. It refuses what covers more than anyone means
// (the whole network, every name below a public suffix) and what is not in its
// plain form; the error says what to write instead.
func ParseRule(s string) (Rule, error) {
	r, err := parseRule(s)
	if err == nil && r.suffix {
		err = checkSuffix(r.host.name)
	}
	if err != nil {
		return Rule{}, fmt.Errorf("egress: rule %.80q: %w", s, err)
	}
	return r, nil
}

// ParseDenyRule reads a rule of a deny list, where a wide suffix does no harm.
func ParseDenyRule(s string) (Rule, error) {
	r, err := parseRule(s)
	if err != nil {
		return Rule{}, fmt.Errorf("egress: deny rule %.80q: %w", s, err)
	}
	return r, nil
}

func parseRule(s string) (Rule, error) {
	switch {
	case strings.Contains(s, "="):
		return parseService(s)
	case strings.Contains(s, "://"):
		return Rule{}, errors.New("this is a URL; write only its host, and :PORT if it has one")
	case strings.Contains(s, "/"):
		return Rule{}, errors.New("paths and address ranges are not supported; list each host or address")
	case s == "*" || strings.HasPrefix(s, "*:"):
		return Rule{}, errors.New("this would allow every host; name hosts, or give the sandbox the host's network")
	}
	text, port, err := splitPort(s)
	if err != nil {
		return Rule{}, err
	}
	r := Rule{}
	if port == "*" {
		return Rule{}, errors.New("list each port in a rule of its own")
	}
	if port != "" {
		if r.port, err = parsePort(port); err != nil {
			return Rule{}, err
		}
	}
	text, r.suffix = strings.CutPrefix(text, "*.")
	if strings.Contains(text, "*") {
		return Rule{}, errors.New(`"*" stands for whole labels at the front only, as in *.example.org`)
	}
	if r.host, err = ParseHost(text); err != nil {
		return Rule{}, err
	}
	return r, r.checkAddress(text)
}

// checkAddress refuses addresses that are not in the form in which people read
// them: a reviewer of the list must see what 2130706433 is.
func (r Rule) checkAddress(text string) error {
	if !r.host.IsAddr() {
		return nil
	}
	if r.suffix {
		return errors.New(`"*." goes before a name, not an address`)
	}
	if plain := r.host.String(); strings.Trim(text, "[]") != plain {
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

// String is the rule in its canonical form, which ParseRule reads back.
func (r Rule) String() string {
	if r.service != (Service{}) {
		return r.host.name + "=" + r.service.String()
	}
	return r.target()
}

// target is what a client asks for.
func (r Rule) target() string {
	s := r.host.String()
	if r.suffix {
		s = "*." + s
	}
	if r.port == 0 {
		return s
	}
	if r.host.addr.Is6() {
		s = "[" + s + "]"
	}
	return s + ":" + strconv.Itoa(int(r.port))
}

// Matches reports whether the rule, as an allow rule, covers t.
func (r Rule) Matches(t Target) bool {
	port := r.port == t.Port || r.port == 0 && (t.Port == portHTTP || t.Port == portHTTPS)
	return port && r.matchesHost(t.Host)
}

// denies is Matches for a deny rule: one without a port means the host, on any.
func (r Rule) denies(t Target) bool {
	return (r.port == 0 || r.port == t.Port) && r.matchesHost(t.Host)
}

func (r Rule) matchesHost(h Host) bool {
	switch {
	case h == Host{}:
		return false
	case r.suffix:
		return !h.IsAddr() && strings.HasSuffix(h.name, "."+r.host.name)
	}
	return r.host == h
}
