// Package egress is the filtering proxy through which a sandbox without network
// reaches the hosts that its profile lists, and no others.
//
// A sandbox has a network namespace of its own in which there is loopback and some
// listening sockets. [Server.ServeWays] accepts on them, outside of the sandbox. A
// program that talks to the proxy in another way than meant gains nothing: the proxy
// trusts no client. One that knows no proxy asks for names, and connects to the
// addresses that stand for them inside; every other address has no route.
//
//	client ─▶ HTTP CONNECT │ HTTP absolute form │ SOCKS 5   distinguished by the first byte
//	          │ an address that stands for a name            transparent.go, dns.go
//	             │
//	          a [Target]: one spelling of host and port      host.go
//	             ▼
//	          deny rules, allow lists, the operator          rule.go, policy.go, ask.go
//	             ▼
//	          resolve, check addresses, dial what was checked   open.go, address.go
//	          (or a service of this machine that has a name)    service.go
//	             ▼
//	          SNI or Host inside, held against the target    hello.go, tunnel.go, head.go
//	             ▼
//	          TLS ends here, for hosts with a credential     terminate.go, authority.go
//	             ▼
//	          placeholders become secrets, or alarms         credential.go
//	             ▼
//	          bytes, counted; an [Event]                     stream.go, splice.go, event.go
//
// The other way, an [Entrance] takes a connection to a port of the host to a port that
// the sandbox exposes, with the same limits, records and bytes: inward.go.
//
// What is decided here, and could have been decided otherwise:
//
//   - A suffix rule does not match the suffix itself, and cannot be a public suffix.
//   - No allow list is nothing allowed, although "every list of none" is true.
//   - A name is asked about before it is looked up, since a lookup already carries
//     its labels to the servers of the zone. The operator sees no address.
//   - Percent escapes and user information are refused and not taken off.
//   - A TLS connection to a name must show that name (SNI) in the clear. ECH is
//     refused unless the configuration says otherwise: its outer name says
//     nothing about which of a provider's sites is meant.
//   - A request in clear text inside a tunnel is held to its Host, and is the only
//     one of that tunnel. A switch to WebSocket in clear text does not pass.
//   - A connection to a server carries one plain HTTP request, so that there is
//     nothing that a smuggled second one could reach.
//
// What it cannot see: names inside the TLS of hosts without a credential. A server that serves many sites can answer a
// request for one under the connection of another (domain fronting); a rule for a
// host trusts that host with that. It does not see TLS that begins in the middle of
// another protocol (STARTTLS) either, nor NAT64 under a prefix of a network's own.
//
// The package decides by what it is given. It knows no tools, plans or approvals:
// Config.Ask and Config.Audit are the caller's.
package egress
