package config

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
)

const networkKey = "shell.network"

func (m *merger) layNetwork() {
	m.c.Shell.Network = m.t.Shell.Network
	m.take(networkKey)
}

const listedByTrusted = "only a trusted file can narrow network: host to a list; using none for this file"

// listsForAll reports whether a network lists what is reached in place of all.
func (m *merger) listsForAll(theirs Network) bool {
	return m.c.Shell.Network.Mode == NetworkHost && theirs.Mode != NetworkHost && !sameNetwork(theirs, Network{Mode: NetworkNone})
}

// boundNetwork leaves what both reach. The administrator's bound holds for the custom
// tools and servers of other files too: they would be a way around it.
//
// A file that is not trusted lists no hosts in place of all. What reaches every host is
// asked about where calls may change what it starts; what reaches listed hosts is not,
// because somebody who is trusted listed them. A repository's list would take the question
// away and name the host that is then reached unasked.
func (m *merger) boundNetwork() {
	ours, theirs := m.c.Shell.Network, m.t.Shell.Network
	if !m.tier.Trusted && m.listsForAll(theirs) {
		m.unused(networkKey, listedByTrusted)
		return
	}
	both := MeetNetworks(ours, theirs)
	if !sameNetwork(both, theirs) {
		m.unused(networkKey, m.wider(networkKey, theirs, ours))
	}
	if !sameNetwork(both, ours) {
		m.narrowed(networkKey)
		m.c.Shell.Network = both
		m.take(networkKey)
	}
	if !m.tier.Trusted || m.floor {
		return
	}
	m.c.Tools, m.c.MCP.Servers = slices.Clone(m.c.Tools), slices.Clone(m.c.MCP.Servers)
	for i := range m.c.Tools {
		if t := &m.c.Tools[i]; m.owner[t.Name] != TierAdmin {
			m.boundOther(fieldKey("tools", t.Name)+".sandbox.network", &t.Sandbox.Network)
		}
	}
	for i := range m.c.MCP.Servers {
		s := &m.c.MCP.Servers[i]
		if !slices.ContainsFunc(m.t.MCP.Servers, func(t MCPServer) bool { return t.Name == s.Name }) {
			m.boundOther(fieldKey("mcp.servers", s.Name)+".network", &s.Network)
		}
	}
}

func (m *merger) boundOther(field string, nw *Network) {
	both := MeetNetworks(*nw, m.t.Shell.Network)
	if sameNetwork(both, *nw) {
		return
	}
	n := Notice{positionIn(m.c, field), field, "bounded by the administrator's file: " + m.position(networkKey).String()}
	m.c.Notices = append(m.c.Notices, n)
	*nw = both
	m.takeAs(field, networkKey)
}

// sameNetwork compares what two networks reach, as they are written.
func sameNetwork(a, b Network) bool {
	plain := func(nw Network) Network {
		nw.Allow, nw.Expose = slices.Clone(nw.Allow), slices.Clone(nw.Expose)
		slices.Sort(nw.Allow)
		slices.Sort(nw.Expose)
		if len(nw.Allow) == 0 {
			nw.Allow = nil
		}
		if len(nw.Expose) == 0 {
			nw.Expose = nil
		}
		if len(nw.Services) == 0 {
			nw.Services = nil
		}
		return nw
	}
	return reflect.DeepEqual(plain(a), plain(b))
}

// MeetNetworks is a network that reaches nothing which one of two does not.
func MeetNetworks(a, b Network) Network {
	switch {
	case a.Mode == NetworkHost:
		return b
	case b.Mode == NetworkHost:
		return a
	}
	both := Network{Mode: NetworkNone, Expose: commonPorts(a, b)}
	if a.Mode != NetworkAllow || b.Mode != NetworkAllow {
		return both
	}
	both.Allow, both.Ask, both.Services = meetHosts(a.Allow, b.Allow), a.Ask && b.Ask, commonServices(a.Services, b.Services)
	if len(both.Allow) > 0 || both.Ask || len(both.Services) > 0 {
		both.Mode = NetworkAllow
	}
	return both
}

func commonPorts(a, b Network) []Port {
	return slices.DeleteFunc(slices.Clone(a.Expose), func(p Port) bool {
		return !b.exposes(Network{Expose: []Port{p}})
	})
}

// commonServices are those that have the same name and lead to the same place.
func commonServices(a, b map[string]string) map[string]string {
	both := maps.Clone(a)
	maps.DeleteFunc(both, func(name, address string) bool { return b[name] != address })
	return both
}

// meetHosts are rules for what a rule of each list is for.
func meetHosts(a, b []string) []string {
	var both []string
	for _, x := range a {
		for _, y := range b {
			if rule, ok := meetHost(x, y); ok && !slices.Contains(both, rule) {
				both = append(both, rule)
			}
		}
	}
	return both
}

// meetHost is the rule for what both rules are for. They are for the same if one is
// the other, or names what the other's suffix covers. A rule without a port is for
// those of HTTP and HTTPS.
func meetHost(x, y string) (string, bool) {
	hx, px, errX := splitHostRule(x)
	hy, py, errY := splitHostRule(y)
	if errX != nil || errY != nil || px != py && px != "" && py != "" {
		return "", false
	}
	if px != py && !usualPort(cmp.Or(px, py)) {
		return "", false
	}
	hx, hy = plainHost(hx), plainHost(hy)
	host := ""
	switch {
	case hx == hy || covers(hx, hy):
		host = hy
	case covers(hy, hx):
		host = hx
	default:
		return "", false
	}
	if port := cmp.Or(px, py); port != "" {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return host + ":" + port, true
	}
	return host, true
}

// usualPort reports whether a rule without a port is for a port too.
func usualPort(port string) bool { return port == "80" || port == "443" }

// plainHost is a host as it is compared.
func plainHost(host string) string {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.String()
	}
	return strings.ToLower(host)
}

// covers reports whether a suffix is for all that another rule's host is for.
func covers(suffix, host string) bool {
	rest, ok := strings.CutPrefix(suffix, "*")
	return ok && strings.HasSuffix(strings.TrimPrefix(host, "*"), rest) && host != suffix
}
