package learn

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/egress"
)

// A connection is a host and port that tries asked for, and what became of it: each connection of a
// sandbox goes through the egress proxy, which knows.
type connection struct {
	Host      string   `json:"host"`
	Port      uint16   `json:"port"`
	Allowed   bool     `json:"allowed"`
	Addresses []string `json:"addresses,omitempty"` // that it was connected to, or that its name led to and must not
	Reason    string   `json:"reason,omitempty"`    // it was refused, or did not come about
	Tries     int      `json:"tries,omitempty"`     // in how many
}

func (c connection) is(o connection) bool {
	return c.Host == o.Host && c.Port == o.Port && c.Allowed == o.Allowed && c.Reason == o.Reason
}

// maxConnections bounds the report of hosts: a program may ask for more than anybody reads.
const maxConnections = 1000

// connections are those of one try, or of all.
type connections struct {
	mu   sync.Mutex
	list []connection
}

func (l *connections) add(e egress.Event) {
	if e.Direction == egress.In || e.Host == "" {
		return
	}
	c := connection{Host: e.Host, Port: e.Port, Allowed: e.Decision == egress.Allow, Reason: string(e.Reason)}
	if e.Reason == egress.ReasonBroken { // it was connected
		c.Reason = ""
	}
	if e.Address.IsValid() {
		c.Addresses = []string{e.Address.Addr().String()}
	}
	for _, a := range e.Refused {
		c.Addresses = append(c.Addresses, a.String())
	}
	l.put(c)
}

func (l *connections) put(c connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.list, c.is)
	if i < 0 && len(l.list) < maxConnections {
		i, l.list = len(l.list), append(l.list, connection{Host: c.Host, Port: c.Port, Allowed: c.Allowed, Reason: c.Reason})
	}
	if i < 0 {
		return
	}
	at := &l.list[i]
	at.Tries += c.Tries
	for _, a := range c.Addresses {
		if !slices.Contains(at.Addresses, a) && len(at.Addresses) < maxConnections {
			at.Addresses = append(at.Addresses, a)
		}
	}
}

// try adds what one try has asked for.
func (l *connections) try(list []connection) {
	for _, c := range list {
		c.Tries = 1
		l.put(c)
	}
}

func (l *connections) sorted() []connection {
	list := append([]connection{}, l.list...)
	slices.SortStableFunc(list, func(a, b connection) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Reason, b.Reason))
	})
	return list
}

// maxToldHosts is how many hosts are printed; --json has them all.
const maxToldHosts = 40

func printConnections(out io.Writer, list []connection, tries int) {
	for _, c := range list[:min(len(list), maxToldHosts)] {
		what := "connected to"
		if !c.Allowed {
			what = "refused to connect to"
		} else if c.Reason != "" {
			what = "let connect to"
		}
		text := what + " " + net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
		var at []string
		for _, a := range c.Addresses {
			if ip, err := netip.ParseAddr(c.Host); err != nil || ip.String() != a {
				at = append(at, a)
			}
		}
		if len(at) > 0 {
			text += " at " + strings.Join(at, ", ")
		}
		if c.Reason != "" {
			text += ": " + c.Reason
		}
		fmt.Fprintf(out, "sandgate: in %d of %s: %s\n", c.Tries, cli.Plural(tries, "try", "tries"), approval.EscapeLine(text))
	}
	if n := len(list) - maxToldHosts; n > 0 {
		fmt.Fprintf(out, "sandgate: and %s more: see all with --json\n", cli.Plural(n, "host", "hosts"))
	}
}
