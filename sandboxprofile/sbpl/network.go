package sbpl

import (
	"fmt"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

func (c *compiler) network() error {
	c.text.section("network: " + c.profile.Network.Mode.String())
	switch c.profile.Network.Mode {
	case sp.NetworkNone:
		c.text.comment("No rule: nothing connects, binds or resolves a name.")
	case sp.NetworkProxied:
		c.internetSockets()
		// Seatbelt knows two names of hosts, * and localhost. The second stands
		// for every address of this machine, hence the single port.
		c.text.comment("The egress proxy, which holds the list of hosts. It resolves names too, so nothing else is needed.")
		c.allow("network-outbound", fmt.Sprintf(`(remote ip "localhost:%d")`, c.vars.ProxyPort))
	case sp.NetworkHost:
		c.internetSockets()
		c.text.comment("The profile grants the host's network.")
		c.allow("network-outbound", `(remote ip "*:*")`)
		c.allow("network-bind network-inbound", `(local ip "*:*")`)
		c.text.comment("Names are resolved by mDNSResponder.")
		c.allow("network-outbound", connect(literalSocket(resolver)))
		c.named("mach-lookup", networkServices())
	}
	return nil
}

// resolver is the socket of macOS's DNS resolver. It passes questions on to the
// network, so a program that may connect to it can send data out.
const resolver = "/private/var/run/mDNSResponder"

func (c *compiler) internetSockets() {
	c.text.comment("Sockets of these families can be made; where they may connect is the rules below.")
	c.allow("system-socket", "(socket-domain AF_INET)", "(socket-domain AF_INET6)")
}

// sockets lists the Unix sockets that may be connected to: those of the profile,
// and the sandbox's own in scratch, where none of the host's can be.
func (c *compiler) sockets() error {
	c.text.section("Unix sockets")
	for _, s := range c.profile.UnixSockets {
		if err := writable(s); err != nil {
			return &Error{Part: "unix_sockets", Path: s, Reason: err.Error()}
		}
		switch kind := c.facts.Kinds[s]; kind {
		case sp.Missing:
			continue
		case sp.Other:
		default:
			return &Error{Part: "unix_sockets", Path: s, Reason: fmt.Sprintf("is not a socket but %v", kind),
				hint: "name what a link leads to"}
		}
		c.text.comment("The profile names this socket.")
		c.allow("network-outbound", connect(literalSocket(Resolve(s))))
	}
	for _, dir := range c.private {
		c.text.comment("Sockets that the sandbox makes for itself in scratch.")
		c.allow("network-outbound", connect(subpath(dir)))
		c.allow("network-bind network-inbound", fmt.Sprintf("(local unix-socket %s)", subpath(dir)))
	}
	return nil
}

func connect(filter string) string { return fmt.Sprintf("(remote unix-socket %s)", filter) }

func literalSocket(name string) string { return fmt.Sprintf("(path-literal %s)", quote(name)) }
