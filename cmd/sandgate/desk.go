package main

import (
	"context"
	"errors"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor"
	"github.com/sandgate/sandgate/supervisor/explain"
)

// A desk is where rules are looked at and changed: the running supervisor's,
// through the operator socket, or one of this process when none is running.
type desk interface {
	Rules(ctx context.Context) (protocol.RulesList, error)
	AddRule(ctx context.Context, r protocol.RuleSpec) (protocol.Rule, error)
	ReplaceRule(ctx context.Context, id string, r protocol.RuleSpec) (protocol.Rule, error)
	TryRule(ctx context.Context, t protocol.RulesTry) (protocol.RulesTried, error)
	RemoveRule(ctx context.Context, id string) (protocol.Rule, error)
	TestRules(ctx context.Context, t protocol.RulesTest) (protocol.RulesTested, error)
	SuggestRules(ctx context.Context, s protocol.RulesSuggest) (protocol.RulesSuggested, error)
	Reload(ctx context.Context) (protocol.Reloaded, error)
	Close() error
}

// deskFlags say which desk.
type deskFlags struct {
	socket, config string
}

// openDesk finds the running supervisor. With --config, or if none is running, it
// is a desk of this process.
func (f deskFlags) open(ctx context.Context, a *app, program string) (desk, error) {
	if f.config == "" {
		p, err := client.DialApprover(ctx, f.socket, client.WithProgram(program, version))
		var dial *client.DialError
		switch {
		case err == nil:
			return p, nil
		case f.socket != "" || !errors.As(err, &dial):
			return nil, wireStatus(err)
		}
	}
	cfg, err := a.loadConfig(f.config, "")
	if err != nil {
		return nil, err
	}
	d, err := newLocalDesk(cfg)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// A localDesk works on the files alone.
type localDesk struct {
	desk  *explain.Desk
	peer  unixsock.Peer
	close func() error
}

func newLocalDesk(cfg *config.Config) (*localDesk, error) {
	r := &assemble.Running{}
	remembered, err := assemble.PresentMemory(cfg, r)
	if err != nil {
		return nil, err
	}
	sc, err := assemble.Policy(cfg, remembered)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	path, err := assemble.LogPath(cfg)
	if err != nil {
		return nil, err
	}
	d := &localDesk{close: r.Close, peer: assemble.Self()}
	d.desk = supervisor.NewDesk(sc, path, func(ctx context.Context, rec audit.Record) (err error) {
		options, err := assemble.LogOptions(cfg)
		if err != nil {
			return err
		}
		log, _, err := audit.Open(path, options)
		if err != nil {
			return err
		}
		_, err = log.Append(ctx, rec)
		return errors.Join(err, log.Close())
	})
	return d, nil
}

func (d *localDesk) Rules(context.Context) (protocol.RulesList, error) { return d.desk.List(), nil }
func (d *localDesk) AddRule(_ context.Context, r protocol.RuleSpec) (protocol.Rule, error) {
	return d.desk.Add(d.peer, r)
}
func (d *localDesk) ReplaceRule(_ context.Context, id string, r protocol.RuleSpec) (protocol.Rule, error) {
	return d.desk.Replace(d.peer, protocol.RulesReplace{ID: id, Rule: r})
}
func (d *localDesk) TryRule(_ context.Context, t protocol.RulesTry) (protocol.RulesTried, error) {
	return d.desk.Try(t)
}
func (d *localDesk) RemoveRule(_ context.Context, id string) (protocol.Rule, error) {
	return d.desk.Remove(d.peer, id)
}
func (d *localDesk) TestRules(_ context.Context, t protocol.RulesTest) (protocol.RulesTested, error) {
	return d.desk.Test(d.peer, t)
}
func (d *localDesk) SuggestRules(_ context.Context, s protocol.RulesSuggest) (protocol.RulesSuggested, error) {
	return d.desk.Suggest(s)
}
func (d *localDesk) Reload(context.Context) (protocol.Reloaded, error) { return d.desk.Reload(d.peer) }
func (d *localDesk) Close() error                                      { return d.close() }
