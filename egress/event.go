package egress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"
)

// A Protocol is the way in which a connection was asked for.
type Protocol string

// The zero value is a connection that ended before it said what it wanted.
const (
	ProtocolConnect Protocol = "connect" // HTTP CONNECT
	ProtocolHTTP    Protocol = "http"    // a request in absolute form
	ProtocolSOCKS5  Protocol = "socks5"
	ProtocolTCP     Protocol = "tcp"    // to an exposed port
	ProtocolDirect  Protocol = "direct" // by a program that knows no proxy
	ProtocolDNS     Protocol = "dns"    // a name that was refused; its port is not known
	ProtocolSign    Protocol = "sign"   // not a connection: a signature of a commit or tag
)

// Direction is which way a connection goes. The zero value is out of the sandbox.
type Direction string

// In is from the host to an exposed port inside.
const In Direction = "in"

// Decision is the outcome of a connection. The zero value is a refusal.
type Decision uint8

const (
	Deny Decision = iota
	Allow
)

func (d Decision) String() string {
	if d == Allow {
		return "allow"
	}
	return "deny"
}

// MarshalText writes allow or deny.
func (d Decision) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// A Reason says why a connection was refused, or why one that was allowed broke
// off. Empty means that it ended as connections do.
type Reason string

const (
	ReasonMalformed   Reason = "malformed"   // not a request, or one that can be read in two ways
	ReasonUnsupported Reason = "unsupported" // well-formed, and not something this proxy does
	ReasonDenied      Reason = "denied"      // a deny rule, or the operator's answer
	ReasonUnlisted    Reason = "unlisted"    // not on a list, and questions are off
	ReasonUnanswered  Reason = "unanswered"  // asked, without an answer in time
	ReasonAddress     Reason = "address"     // the name leads to an address that it must not
	ReasonMismatch    Reason = "mismatch"    // TLS or HTTP inside names another host
	ReasonCredential  Reason = "credential"  // a credential's placeholder goes where it is not for
	ReasonUse         Reason = "use"         // nobody has allowed the use of a credential
	ReasonCertificate Reason = "certificate" // a host where TLS ends here does not show that it is the one
	ReasonHandshake   Reason = "handshake"   // the client of such a host does not trust the certificate, or breaks off
	ReasonSignature   Reason = "signature"   // not a commit or tag, or the operator refused to sign it
	ReasonLimit       Reason = "limit"       // too many connections or bytes
	ReasonTimeout     Reason = "timeout"     // silent for too long
	ReasonUnreachable Reason = "unreachable" // allowed, and not resolved or connected
	ReasonBroken      Reason = "broken"      // allowed, and cut by one side
	ReasonInternal    Reason = "internal"    // a mistake in this package
)

// An Event is the record of one connection, made when it has ended. A request in absolute form,
// or to a host where TLS ends here, is one connection each, also where the client sends several
// over one.
type Event struct {
	Session   string         `json:"session,omitempty"`
	Call      string         `json:"call,omitempty"`
	Direction Direction      `json:"direction,omitempty"`
	Protocol  Protocol       `json:"protocol,omitempty"`
	Host      string         `json:"host,omitempty"`    // canonical; empty if none could be read
	Port      uint16         `json:"port,omitempty"`    // inside the sandbox, if the direction is in
	Service   string         `json:"service,omitempty"` // of this machine, if the host is the name of one
	Address   netip.AddrPort `json:"address,omitzero"`  // what was dialled; on the way in, where it was accepted
	Peer      netip.AddrPort `json:"peer,omitzero"`     // on the way in: who connected
	User      string         `json:"user,omitempty"`    // on the way in: the number of the user who connected
	// Terminated says that TLS ended here, and Applied names the credentials that were
	// put in.
	Terminated bool     `json:"terminated,omitempty"`
	Applied    []string `json:"applied,omitempty"`
	Decision   Decision `json:"decision"`
	Rule       string   `json:"rule,omitempty"` // what decided: rules, or "asked"
	Reason     Reason   `json:"reason,omitempty"`
	Detail     string   `json:"detail,omitempty"` // the error, for people
	// Refused are the addresses that the host's name led to, and that it must not.
	Refused  []netip.Addr  `json:"refused,omitempty"`
	Up       int64         `json:"up"`   // bytes sent to the server
	Down     int64         `json:"down"` // bytes received from it
	Start    time.Time     `json:"start"`
	Duration time.Duration `json:"duration"` // nanoseconds
}

// A Refusal is why a connection does not come about, in words for the program
// that asked, and through it for the model that wrote the command.
type Refusal struct {
	Reason Reason
	Target Target // zero if none could be read
	Err    error
	Hint   string
	// Addresses lists the forbidden addresses that a name resolved to, with ReasonAddress.
	Addresses []netip.Addr
}

func (r *Refusal) Error() string {
	if r.Target == (Target{}) {
		return "egress: " + r.Err.Error()
	}
	return fmt.Sprintf("egress: connect to %s: %v", r.Target, r.Err)
}

func (r *Refusal) Unwrap() error { return r.Err }

// body is the text of an HTTP answer.
func (r *Refusal) body() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sandgate: refused (%s): %s\n", r.Reason, strings.TrimPrefix(r.Error(), "egress: "))
	if r.Hint != "" {
		fmt.Fprintf(&b, "hint: %s\n", r.Hint)
	}
	return b.String()
}

func refuse(reason Reason, t Target, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Target: t, Err: fmt.Errorf(format, args...)}
}

func malformed(format string, args ...any) *Refusal {
	return refuse(ReasonMalformed, Target{}, format, args...)
}

// asRefusal finds the refusal in err, or makes one of an error of the connection.
func asRefusal(err error) *Refusal {
	var r *Refusal
	switch {
	case errors.As(err, &r):
		return r
	case errors.Is(err, errBudget):
		return &Refusal{Reason: ReasonLimit, Err: err}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return &Refusal{Reason: ReasonTimeout, Err: err}
	}
	return &Refusal{Reason: ReasonBroken, Err: err}
}
