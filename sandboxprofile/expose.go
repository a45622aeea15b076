package sandboxprofile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An ExposedPort is a TCP port inside a sandbox that programs of the host can
// connect to, at a port of the host's loopback.
type ExposedPort struct {
	Host   uint16 // 0: any that is free when the sandbox runs something
	Inside uint16
}

// String is "HOST:INSIDE", the one way to write p in a profile.
func (p ExposedPort) String() string { return fmt.Sprintf("%d:%d", p.Host, p.Inside) }

// ParseExposedPort reads "PORT", which is the same port on both sides, or
// "HOST:INSIDE", where a HOST of 0 is any free port.
func ParseExposedPort(s string) (ExposedPort, error) {
	host, inside, two := strings.Cut(s, ":")
	if !two {
		inside = host
	}
	h, errHost := parsePort(host)
	i, errInside := parsePort(inside)
	if errHost != nil || errInside != nil || i == 0 {
		return ExposedPort{}, fmt.Errorf("sandboxprofile: expose: %q is neither PORT nor HOST:INSIDE", s)
	}
	return ExposedPort{h, i}, nil
}

// parsePort accepts plain decimal digits only: code that compares ports as text would take a
// second spelling for a second port.
func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err == nil && strconv.FormatUint(n, 10) != s {
		err = strconv.ErrSyntax
	}
	return uint16(n), err
}

// Ports are the exposed ports of a network that validates; All is not among them.
func (n Network) Ports() []ExposedPort {
	var list []ExposedPort
	for _, s := range n.Expose {
		if p, err := ParseExposedPort(s); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// exposes is what can be reached from the host: for the host's network, everything.
func (n Network) exposes() []string {
	if n.Mode == NetworkHost {
		return []string{All}
	}
	return n.Expose
}

// validateExpose wants every port once: two doors at one port of the host, or to the
// same one inside, would be a mistake that goes unnoticed.
func (n Network) validateExpose() error {
	if n.Mode == NetworkHost && len(n.Expose) > 0 {
		return fmt.Errorf("sandboxprofile: network: mode %v exposes every port; remove the list", n.Mode)
	}
	taken := map[uint16]string{}
	for _, s := range n.Expose {
		if s == All {
			continue
		}
		p, err := ParseExposedPort(s)
		if err != nil {
			return err
		}
		if p.String() != s {
			return fmt.Errorf("sandboxprofile: expose: write %q, not %q", p, s)
		}
		if other, twice := taken[p.Host]; twice && p.Host != 0 {
			return fmt.Errorf("sandboxprofile: expose: %q and %q use the same port of the host", other, s)
		}
		taken[p.Host] = s
	}
	return nil
}

// HasOpenExpose reports whether every port is exposed, which is a ceiling for other
// profiles and no list that a sandbox could keep.
func (n Network) HasOpenExpose() bool { return slices.Contains(n.Expose, All) }

// whereText says where p is to be found.
func (p ExposedPort) whereText() string {
	if p.Host == 0 {
		return fmt.Sprintf("port %d at a free port of 127.0.0.1", p.Inside)
	}
	return fmt.Sprintf("port %d at 127.0.0.1:%d", p.Inside, p.Host)
}

// exposeText says where each port is to be found, of All that it is every one.
func (n Network) exposeText() []string {
	if n.HasOpenExpose() {
		return []string{"every port"}
	}
	var items []string
	for _, p := range n.Ports() {
		items = append(items, p.whereText())
	}
	return items
}
