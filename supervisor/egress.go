package supervisor

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
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
	server, err := egress.New(d.config())
	if err != nil {
		return nil, &confine.Unenforceable{Part: "the network allow-list", Reason: err.Error()}
	}
	l, err := proxied.Egress()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ctx, l) // a failing listener ends the way out, and nothing else
	}()
	return func() error {
		cancel()
		<-done
		c.violations = d.violations
		return d.err
	}, nil
}

func (d *egressDesk) config() egress.Config {
	e := d.s.cfg.Egress
	cfg := egress.Config{
		Allow: d.plan.Profile.Network.Allow, AllowPrivate: e.AllowPrivate, Audit: d.record,
		Resolver: e.Resolver, Dialer: e.Dialer,
		Identity: func() egress.Identity {
			return egress.Identity{Session: string(d.c.session.id), Call: string(d.c.req.CallID)}
		},
	}
	if e.Ask {
		cfg.Ask = d.ask
	}
	return cfg
}

// ask makes a question of a host that is on no list. What is remembered is the
// host and the port; the plan that was approved bounds everything else.
func (d *egressDesk) ask(ctx context.Context, r egress.Request) (bool, error) {
	description := "Connect to " + approval.EscapeLine(r.Target.String())
	id, done := d.s.ask(d.c)
	defer done()
	_, err := d.s.cfg.Approvals.Decide(ctx, approval.Call{
		ID:        id,
		SessionID: string(d.c.session.id),
		Agent:     d.c.session.agent,
		ToolName:  "network",
		Mode:      d.c.session.mode,
		Digest:    d.c.digest,
		Subject:   r,
		Request: &approval.Request{
			ToolName: "network", Description: description,
			Payload: map[string]any{"host": r.Target.Host.String(), "port": int(r.Target.Port)},
		},
		Present: func(context.Context) (*approval.Presentation, error) {
			return &approval.Presentation{Type: approval.Text, Content: fmt.Sprintf("%s\nfor: %s %s", description, d.c.req.Tool, d.c.req.Args)}, nil
		},
		Details: details(d.c.proposal, d.c.digest, d.c.warnings),
	})
	var denied *approval.DeniedError
	if errors.As(err, &denied) {
		return false, nil
	}
	return err == nil, err
}

// record writes a connection to the log, and keeps a refusal for the result.
func (d *egressDesk) record(e egress.Event) {
	err := d.s.append(context.Background(), d.c.entry(audit.KindConnection, e))
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.err = err
	}
	if e.Decision == egress.Deny && e.Host != "" && len(d.violations) < maxViolations {
		d.violations = append(d.violations, protocol.Violation{
			Reason: fmt.Sprintf("connection to %s:%d refused: %s", e.Host, e.Port, e.Reason),
		})
	}
}

// maxViolations bounds what a result repeats; the log has them all.
const maxViolations = 50
