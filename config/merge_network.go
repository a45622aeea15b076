package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/internal/hostrule"
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
// A file that is not trusted lists no hosts in place of all. A connection to any host
// needs approval where calls may change what it starts. One to listed hosts does not,
// because a trusted person listed them. A repository's list would take the question away
// and name the host that is then reached unasked.
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
		if t := &m.c.Tools[i]; m.owner[fieldKey("tools", t.Name)] != TierAdmin {
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
		slices.SortFunc(nw.Allow, func(a, b hostrule.Rule) int { return strings.Compare(a.String(), b.String()) })
		slices.SortFunc(nw.Expose, func(a, b Port) int { return strings.Compare(a.String(), b.String()) })
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
func meetHosts(a, b []hostrule.Rule) []hostrule.Rule {
	var both []hostrule.Rule
	for _, x := range a {
		for _, y := range b {
			if rule, ok := hostrule.Meet(x, y); ok && !slices.Contains(both, rule) {
				both = append(both, rule)
			}
		}
	}
	return both
}
