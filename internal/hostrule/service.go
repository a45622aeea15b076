package hostrule

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"strings"
)

// A Service is something that listens on this machine and is offered inside under
// a name: a port on loopback, or a Unix socket. It is reached as NAME:PORT, with
// the port that it has here; a Unix socket, which has none, as NAME:80.
//
// Nothing is resolved for it. The rule is the whole of what is reached: a service
// beside it on the same address needs a rule of its own.
type Service struct {
	Addr   netip.AddrPort // on loopback
	Socket string         // absolute path
	Own    string         // what the supervisor itself answers, by its name in egress.Config.Own
}

const (
	unixScheme = "unix:"
	ownScheme  = "sandgate:"
)

// OwnRule is the rule that offers under a name what the supervisor itself answers. It
// leads nowhere but to egress.Config.Own.
func OwnRule(name, own string) string { return name + "=" + ownScheme + own }

func (s Service) String() string {
	switch {
	case s.Own != "":
		return ownScheme + s.Own
	case s.Socket != "":
		return unixScheme + s.Socket
	}
	return s.Addr.String()
}

// ServiceRule is the rule that offers the service at address (127.0.0.1:5432,
// [::1]:80, unix:/run/x.sock) under a name.
func ServiceRule(name, address string) (Rule, error) {
	if strings.HasPrefix(address, ownScheme) {
		return Rule{}, fmt.Errorf("%.80q: an address of sandgate itself cannot be a service", address)
	}
	return parseService(name + "=" + address)
}

// parseService reads NAME=ADDRESS. The name is one label, so that it cannot stand
// before a name that others own, and begins with a letter, so that it is not an
// address.
func parseService(s string) (Rule, error) {
	name, address, _ := strings.Cut(s, "=")
	h, err := ParseHost(name)
	switch {
	case err != nil:
		return Rule{}, err
	case h.IsAddr() || h.name != name || strings.Contains(name, "."):
		return Rule{}, fmt.Errorf("%.80q: a service's name is one word of lower-case letters, digits and hyphens", name)
	case name == "localhost":
		return Rule{}, errors.New("localhost is the sandbox itself; choose another name for the service")
	}
	service, err := parseServiceAddress(address)
	if err != nil {
		return Rule{}, err
	}
	port := service.Addr.Port()
	if service.Socket != "" || service.Own != "" {
		port = PortHTTP
	}
	return Rule{Host: h, Port: port, Service: service}, nil
}

// parseServiceAddress takes loopback only. What is elsewhere is a host, which has
// rules of its own.
func parseServiceAddress(s string) (Service, error) {
	if own, ok := strings.CutPrefix(s, ownScheme); ok {
		if _, err := ParseHost(own); err != nil {
			return Service{}, err
		}
		return Service{Own: own}, nil
	}
	if socket, ok := strings.CutPrefix(s, unixScheme); ok {
		if !path.IsAbs(socket) || path.Clean(socket) != socket || socket == "/" || strings.ContainsAny(socket, "\x00\n\r") {
			return Service{}, fmt.Errorf("%.80q: want unix: and the absolute path of a socket", s)
		}
		return Service{Socket: socket}, nil
	}
	ap, err := netip.ParseAddrPort(s)
	switch {
	case err != nil || ap.Port() == 0 || ap.String() != s:
		return Service{}, fmt.Errorf("%.80q: a service is at 127.0.0.1:PORT, [::1]:PORT or unix:/PATH", s)
	case !ap.Addr().IsLoopback() || ap.Addr().Is4In6() || ap.Addr().Zone() != "":
		return Service{}, fmt.Errorf("%.80q is not on this machine's loopback; list it as a host", s)
	}
	return Service{Addr: ap}, nil
}
