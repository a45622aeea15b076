package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/violation"
	"github.com/sandgate/sandgate/tools"
)

// An egressDesk answers the connections of one call: by the rules of its plan's
// profile, by asking an approver where the configuration says so, and with an
// entry in the log for each.
type egressDesk struct {
	s    *Supervisor
	c    *call
	plan tools.Plan

	mu         sync.Mutex
	violations []protocol.Violation
	err        error // of the log
	signed     []string
	// denied is the first denial of a host that is one of the call, and of its batch.
	denied *approval.DeniedError
}

// openEgress serves the way out of a proxied sandbox for as long as one call
// runs. stop ends every connection; its error means that one could not be
// recorded. A sandbox whose profile has no proxied network has no way out to serve.
func (s *Supervisor) openEgress(ctx context.Context, c *call, plan tools.Plan, box confine.Sandbox) (stop func() error, err error) {
	if plan.Profile.Network.Mode != sandboxprofile.NetworkProxied {
		return func() error { return nil }, nil
	}
	proxied, ok := box.(confine.Proxied)
	if !ok {
		return nil, &confine.Unenforceable{Part: "a network allow-list", Reason: "this backend has no egress proxy"}
	}
	d := &egressDesk{s: s, c: c, plan: plan}
	cfg := d.config()
	if cfg.Credentials, err = c.credentials(plan); err != nil {
		return nil, err
	}
	if c.authority != nil {
		cfg.Authority, cfg.RootCAs = c.authority.Authority, s.cfg.Egress.rootCAs()
	}
	cfg.Own = d.signing(ctx)
	server, err := egress.New(cfg)
	if err != nil {
		return nil, &confine.Unenforceable{Part: "the network allow-list", Reason: err.Error()}
	}
	l, err := proxied.Egress()
	if err != nil {
		return nil, err
	}
	ways := egress.Ways{Proxy: l}
	if err := carry(server, proxied, &ways); err != nil {
		c.warnings = append(c.warnings, "Only programs that use the proxy variables reach the listed hosts: "+err.Error()+".")
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.ServeWays(ctx, ways) // a failing listener ends the way out, and nothing else
	}()
	return func() error {
		cancel()
		<-done
		c.violations = append(c.violations, d.violations...)
		c.warnings = append(c.warnings, signedText(d.signed)...)
		if d.denied == nil {
			return d.err
		}
		c.denied(d.denied.Decision)
		return errors.Join(d.err, d.denied)
	}, nil
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

func (d *egressDesk) config() egress.Config {
	e := d.s.cfg.Egress
	cfg := egress.Config{
		Allow: d.plan.Profile.Network.Allow, AllowPrivate: e.AllowPrivate, Audit: d.record, Hostname: confine.Hostname,
		Resolver: e.Resolver, Dialer: e.Dialer, Limits: e.Limits, Upstream: e.Upstream,
		Identity: d.c.identity,
	}
	if d.plan.Profile.Network.Ask {
		cfg.Ask = d.ask
	}
	return cfg
}

// ask makes a question of a host that is on no list. What is remembered is the host and the
// port, for calls within the workspace: whoever said yes to one of these has not said that a
// tool with a secret may take it there. Of a call beyond it is for that tool alone.
func (d *egressDesk) ask(ctx context.Context, r egress.Request) (bool, error) {
	description := "Connect to " + approval.EscapeLine(r.Target.String())
	reach := hostReach(r.Target)
	payload := map[string]any{"host": r.Target.Host.String(), "port": int(r.Target.Port)}
	if r.Service != "" {
		description += ", which is this machine's service " + approval.EscapeName(r.Service)
		payload["service"] = r.Service // under this name there may be another one tomorrow
		reach = approval.Reach{}       // and a pattern of hosts is not meant for either
	}
	covers := "this host for every call that has no secret and reaches no more than the workspace and hosts"
	if sandboxprofile.ClassOf(d.plan.Profile, d.plan.Action) == sandboxprofile.ClassBeyond {
		payload["tool"], payload["definition"] = string(d.c.req.Tool), d.c.proposal.Definition
		reach, covers = approval.Reach{}, "this host for every call of this tool, as it is defined now"
	}
	reach.Single = "each host and each service is asked about by its name"
	grant, err := d.s.cfg.Approvals.Decide(ctx, approval.Call{
		ID:        string(d.c.req.CallID),
		Asked:     d.c.tellPending,
		SessionID: string(d.c.session.id),
		Agent:     d.c.session.agent,
		Peer:      d.c.session.peer.String(),
		ToolName:  "network",
		BatchID:   d.c.req.GroupID,
		Mode:      d.c.session.mode,
		Digest:    d.c.digest,
		Subject:   r,
		Reach:     reach,
		Request: &approval.Request{
			ToolName: "network", Description: description,
			Payload: payload, Covers: covers,
		},
		Present: func(context.Context) (*approval.Presentation, error) {
			return &approval.Presentation{Type: approval.Text, Content: fmt.Sprintf("%s\nfor: %s %s", description, d.c.req.Tool, d.c.args)}, nil
		},
		Details: func() map[string]string { return d.s.details(d.c.proposal, d.c.digest, d.c.warnings) },
	})
	var denied *approval.DeniedError
	if err = d.s.answered(description, payload, grant, err); errors.As(err, &denied) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.denied == nil && endsBatch(denied.Decision) {
			d.denied = denied
		}
		return false, nil
	}
	return err == nil, err
}

// hostReach is a connection as patterns see it. What covers it is said by the
// rules of the proxy, which know public suffixes.
func hostReach(t egress.Target) approval.Reach {
	return approval.Reach{
		Elements: []approval.Element{{Kind: approval.Host, Name: t.String()}},
		Left: func(patterns []approval.Pattern) int {
			for _, p := range patterns {
				if rule, err := egress.ParseRule(p.Value); p.Kind == approval.Host && err == nil && rule.Matches(t) {
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

// record writes a connection to the log, and keeps a refusal for the result.
func (d *egressDesk) record(e egress.Event) {
	err := d.s.append(context.Background(), d.c.entry(audit.KindConnection, e))
	if told := d.s.cfg.Connected; told != nil {
		told(e)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.err = err
	}
	if e.Decision == egress.Deny && e.Host != "" && len(d.violations) < maxViolations {
		v := violation.Connection(e.Host, e.Port, string(e.Reason))
		if hint, ok := unlistable[e.Reason]; ok {
			v.Hint, v.Allow = hint, ""
		}
		if e.Reason == egress.ReasonSignature {
			v.Reason = e.Detail
		}
		if e.Reason == egress.ReasonAddress && len(e.Refused) > 0 {
			v = violation.Address(e.Host, e.Port, e.Refused, e.Detail)
		}
		if !slices.Contains(d.violations, v) {
			d.violations = append(d.violations, v) // fifty connections to one host are one thing to know
		}
	}
}

// unlistable are the refusals that no list of hosts would change, with what helps.
var unlistable = map[egress.Reason]string{
	egress.ReasonCredential:  "send a credential to its own service or host only",
	egress.ReasonCertificate: "the host's certificate does not hold: nothing was sent, and the operator has to look at it",
	egress.ReasonSignature:   "have commits and tags signed, with the key that the operator's own settings of git name",
	egress.ReasonHandshake:   "let the program trust the certificates in the file that SSL_CERT_FILE names, and speak HTTP/1.1",
}

// maxViolations bounds what a result repeats; the log has them all.
const maxViolations = 50
