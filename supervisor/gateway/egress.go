package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/internal/hostrule"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/supervisor/outcome"
	"github.com/sandgate/sandgate/supervisor/violation"
	"github.com/sandgate/sandgate/tools"
)

// A decider decides about the connections of one call: by the rules of its plan's profile, by
// asking an approver where the configuration says so, and with an entry in the log for each.
type decider struct {
	cfg  Config
	c    Caller
	plan tools.Plan

	using sync.Mutex // while the use of credentials is asked about: who comes next has the answer

	mu     sync.Mutex
	end    End
	more   int // denials of other hosts, beyond those that end lists
	signed []string
}

// A Way is the way out of a sandbox that stands.
type Way struct {
	// Warnings are of the way itself.
	Warnings []string
	stop     func() End
}

// An End is the outcome of a way.
type End struct {
	Violations []protocol.Violation
	Warnings   []string
	// Denied is the first denial of a host that is one of the call, and of its batch.
	Denied *approval.DeniedError
	Err    error // a connection could not be recorded
}

// Stop ends every connection.
func (w Way) Stop() End { return w.stop() }

// Out serves the way out of a proxied sandbox. A sandbox whose profile has no proxied
// network has no way out to serve. a is the authority of the hosts where TLS ends here, or nil.
func Out(ctx context.Context, cfg Config, x *Session, a *Authority, c Caller, plan tools.Plan, box confine.Sandbox) (Way, error) {
	if plan.Profile.Network.Mode != sandboxprofile.NetworkProxied {
		return Way{stop: func() End { return End{} }}, nil
	}
	proxied, ok := box.(confine.Proxied)
	if !ok {
		return Way{}, &confine.Unenforceable{Part: "a network allow-list", Reason: "this backend has no egress proxy"}
	}
	d := &decider{cfg: cfg, c: c, plan: plan}
	rules := d.config()
	var err error
	if rules.Credentials, err = x.credentials(plan); err != nil {
		return Way{}, err
	}
	if a != nil {
		rules.Authority, rules.RootCAs = a.Authority, cfg.rootCAs()
	}
	rules.Own = d.signing(ctx)
	server, err := egress.New(rules)
	if err != nil {
		return Way{}, &confine.Unenforceable{Part: "the network allow-list", Reason: err.Error()}
	}
	l, err := proxied.Egress()
	if err != nil {
		return Way{}, err
	}
	var out Way
	ways := egress.Ways{Proxy: l}
	if err := carry(server, proxied, &ways); err != nil {
		out.Warnings = []string{"Only programs that use the proxy variables reach the listed hosts: " + err.Error() + "."}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeWays(ctx, ways) // a failing listener ends the way out, and nothing else
	}()
	out.stop = func() End {
		server.Finish()
		cancel()
		<-done
		return d.ended()
	}
	return out, nil
}

// carry adds the ways for programs that know no proxy. Without them such a program
// reaches nothing.
func carry(server *egress.Server, box confine.Proxied, ways *egress.Ways) error {
	inside, err := server.Inside()
	if err != nil {
		return err
	}
	carried, err := box.Carry(confine.Addresses(inside))
	if err != nil {
		return err
	}
	ways.Streams, ways.Names = carried.Streams, carried.Datagrams
	return nil
}

func (d *decider) config() egress.Config {
	e := d.cfg
	cfg := egress.Config{
		Allow: d.plan.Profile.Network.Allow, AllowPrivate: e.AllowPrivate, Audit: d.record, Hostname: confine.Hostname,
		Resolver: e.Resolver, Dialer: e.Dialer, Limits: e.Limits, Upstream: e.Upstream,
		Identity: d.c.Identity,
	}
	if d.plan.Profile.Network.Ask {
		cfg.Ask = d.ask
	}
	if d.c.Tool().Unallowed {
		cfg.Use = d.use
	}
	return cfg
}

// ask makes a question of a host that is on no list. The answer remembers the host and the
// port, for calls within the workspace: a yes to one of these does not cover a tool with a
// secret. Of a call beyond it is for that tool alone.
func (d *decider) ask(ctx context.Context, r egress.Request) (bool, error) {
	tool := d.c.Tool()
	description := "Connect to " + approval.EscapeLine(r.Target.String())
	reach := hostReach(r.Target)
	payload := map[string]any{"host": r.Target.Host.String(), "port": int(r.Target.Port)}
	if r.Service != "" {
		description += ", which is this machine's service " + approval.EscapeName(r.Service)
		payload["service"] = r.Service // under this name there may be another one tomorrow
		reach = approval.Reach{}       // and a pattern of hosts is not meant for either
	}
	covers := "this host, for every call without a secret that reaches only the workspace and hosts, and no more than this call"
	secrets := d.plan.Action.Exec != nil && len(d.plan.Action.Exec.Secrets) > 0 // also one that the program does not see: what it fetches with it could go there
	if secrets || sandboxprofile.ClassOf(d.plan.Profile, d.plan.Action) == sandboxprofile.ClassBeyond {
		payload["tool"], payload["definition"] = tool.Name, tool.Definition
		reach, covers = approval.Reach{}, "this host for every call of this tool, as it is defined now"
	}
	reach.Single = "each host and each service is asked about by its name"
	return d.asked(d.c.Ask(ctx, approval.Call{
		ToolName: ToolNetwork, Subject: r, Reach: reach,
		Request: &approval.Request{
			ToolName: ToolNetwork, Description: description,
			Payload: payload, Covers: covers,
		},
		Present: func(context.Context) (*approval.Presentation, error) {
			return &approval.Presentation{Type: approval.Text, Content: fmt.Sprintf("%s\nfor: %s %s", description, tool.Name, tool.Args)}, nil
		},
	}))
}

// ToolNetwork is the name under which questions about hosts are asked.
const ToolNetwork = "network"

// use makes a question of the use of credentials, when a program is about to use them.
func (d *decider) use(ctx context.Context, t egress.Target, names []string) error {
	d.using.Lock()
	defer d.using.Unlock()
	tool := d.c.Tool()
	for _, name := range names {
		description := "Use the credential " + approval.EscapeName(name) + " at " + approval.EscapeLine(t.String())
		ok, err := d.asked(d.c.Ask(ctx, approval.Call{
			ToolName: ToolCredential, Subject: t,
			Reach: approval.Reach{Single: "each credential and host is asked about by its name"},
			Request: &approval.Request{
				ToolName: ToolCredential, Description: description,
				Payload: map[string]any{"credential": name, "host": t.Host.String(), "port": int(t.Port)},
				Covers:  "every request to this host with this credential, whatever it does there, by calls that can reach no more than this one",
			},
			Present: func(context.Context) (*approval.Presentation, error) {
				return &approval.Presentation{Type: approval.Text, Content: fmt.Sprintf("%s\nfor: %s %s", description, tool.Name, tool.Args)}, nil
			},
		}))
		if err == nil && !ok {
			err = errNotUsed
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ToolCredential is the name under which questions about the use of credentials are asked.
const ToolCredential = "credential"

var errNotUsed = errors.New("no one has allowed it for this command")

// asked says what an answer comes to, and notes a denial that is one of the call.
func (d *decider) asked(err error) (bool, error) {
	var denied *approval.DeniedError
	if !errors.As(err, &denied) {
		return err == nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.end.Denied == nil && failure.EndsBatch(denied.Decision) {
		d.end.Denied = denied
	}
	if denied.Code != approval.CodeDenied { // nobody has said no
		return false, err
	}
	return false, nil
}

// hostReach is a connection as patterns see it. What covers it is said by the
// rules of the proxy, which know public suffixes.
func hostReach(t egress.Target) approval.Reach {
	return approval.Reach{
		Elements: []approval.Element{{Kind: approval.Host, Name: t.String()}},
		Left: func(patterns []approval.Pattern) int {
			for _, p := range patterns {
				if rule, err := hostrule.Parse(p.Value); p.Kind == approval.Host && err == nil && rule.Matches(t) {
					return 0
				}
			}
			return 1
		},
		Offers: func() []approval.Pattern {
			_, parent, _ := strings.Cut(t.String(), ".")
			return []approval.Pattern{{Kind: approval.Host, Value: "*." + parent}} // dropped where it covers nothing safely
		},
	}
}

// ended is what came of it, when no connection is left.
func (d *decider) ended() End {
	d.end.Warnings = signedText(d.signed)
	d.end.Violations = append(d.end.Violations, violation.More(protocol.ViolationNetwork, protocol.Observed, d.more)...)
	return d.end
}

// record writes a connection to the log, and keeps a refusal for the result.
func (d *decider) record(e egress.Event) {
	err := d.c.Record(e)
	if told := d.cfg.Connected; told != nil {
		told(e)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.end.Err = err
	}
	if e.Decision == egress.Deny && e.Host != "" {
		v := violation.Connection(e.Host, e.Port, string(e.Reason))
		if hint, ok := unlistable[e.Reason]; ok {
			v.Hint, v.Allow = hint, ""
		}
		if e.Reason == egress.ReasonSignature || e.Reason == egress.ReasonUse {
			v.Reason = e.Detail
		}
		if e.Reason == egress.ReasonAddress {
			v = violation.Address(e.Host, e.Port, e.Refused, e.Detail)
		}
		switch {
		case slices.Contains(d.end.Violations, v): // fifty connections to one host are one thing to know
		case len(d.end.Violations) < outcome.MaxViolations:
			d.end.Violations = append(d.end.Violations, v)
		default:
			d.more++
		}
	}
}

// unlistable are the refusals that no list of hosts would change, with what helps.
var unlistable = map[egress.Reason]string{
	egress.ReasonCredential:  "send a credential to its own service or host only",
	egress.ReasonUse:         "have a person allow the use of the credential, or the operator write a rule that allows the command by name",
	egress.ReasonCertificate: "the host's certificate is not valid, so nothing was sent; the operator must check it",
	egress.ReasonSignature:   "have commits and tags signed, with the key that the operator's own settings of git name",
	egress.ReasonHandshake:   "let the program trust the certificates in the file that SSL_CERT_FILE names, and speak HTTP/1.1",
}
