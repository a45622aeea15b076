// Package gateway serves the ways out of the sandbox of one call, and the ways into it, for
// as long as the call runs: the egress proxy with its credentials and certificates, the ports
// that are exposed, and the signatures that git asks for.
//
// It asks and records through a Caller, which is the supervisor's call: what it cannot name
// it cannot decide.
package gateway

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A Caller is the call whose connections are served.
type Caller interface {
	Identity() egress.Identity
	Tool() Tool
	// Ask puts a question beside the call's own to people, and records what came of it.
	Ask(ctx context.Context, q approval.Call) error
	// Record writes a connection to the log.
	Record(e egress.Event) error
}

// A Tool is the tool of a call.
type Tool struct {
	Name, Definition string
	Args             json.RawMessage
	// Unallowed: nobody has allowed the call what its credentials do, so that their use is asked about.
	Unallowed bool
}

// Config applies to every connection of every tool.
type Config struct {
	// AllowPrivate lets names lead to private addresses.
	AllowPrivate bool
	// Limits bound the connections of one call.
	Limits egress.Limits
	// Upstream is the proxy that connections leave the machine by; the zero value is none.
	Upstream egress.Upstream
	Resolver egress.Resolver // nil is the host's
	Dialer   egress.Dialer   // nil is plain TCP
	// Roots are the certificates, as PEM, that hosts are checked by where TLS ends at
	// the proxy, and that programs trust then; with nil, the machine's.
	Roots []byte
	// Connected hears of every connection that a call made or was refused, once it has ended, from many
	// goroutines. It may be nil.
	Connected func(egress.Event)
	// Signing signs commits and tags that programs make; nil signs nothing.
	Signing *Signing
}

// A Session has the secrets and certificates that the programs of one session get. Its
// zero value has none yet.
type Session struct {
	mu sync.Mutex
	// placeholders stand for credentials in what the session's programs are given.
	placeholders map[sandboxprofile.Secret]string
	// authorities sign for the hosts where TLS ends at the proxy, by these.
	authorities map[string]*Authority
}
