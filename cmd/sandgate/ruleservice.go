package main

import (
	"context"
	"errors"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor"
	"github.com/sandgate/sandgate/supervisor/explain"
)

// A ruleService is where rules are looked at and changed: the running supervisor's,
// through the operator socket, or one of this process when none is running.
type ruleService interface {
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

// ruleServiceFlags say which rule service.
type ruleServiceFlags struct {
	socket, config string
}

// open finds the running supervisor. With --config, or if none is running, it
// is one of this process.
func (f ruleServiceFlags) open(ctx context.Context, a *cli.App, program string) (ruleService, error) {
	if f.config == "" {
		p, err := client.DialApprover(ctx, f.socket, client.WithProgram(program, a.Version))
		var dial *client.DialError
		switch {
		case err == nil:
			return p, nil
		case f.socket != "" || !errors.As(err, &dial):
			return nil, cli.WireStatus(err)
		}
	}
	cfg, err := loadTold(a, f.config, "")
	if err != nil {
		return nil, err
	}
	d, err := newLocalRuleService(cfg)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// A localRuleService works on the files alone.
type localRuleService struct {
	rules *explain.RuleService
	peer  unixsock.Peer
	close func() error
}

func newLocalRuleService(cfg *config.Config) (*localRuleService, error) {
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
	d := &localRuleService{close: r.Close, peer: assemble.Self()}
	d.rules = supervisor.NewRuleService(sc, path, func(ctx context.Context, rec audit.Record) (err error) {
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

func (d *localRuleService) Rules(context.Context) (protocol.RulesList, error) {
	return d.rules.List(), nil
}
func (d *localRuleService) AddRule(_ context.Context, r protocol.RuleSpec) (protocol.Rule, error) {
	return d.rules.Add(d.peer, r)
}
func (d *localRuleService) ReplaceRule(_ context.Context, id string, r protocol.RuleSpec) (protocol.Rule, error) {
	return d.rules.Replace(d.peer, protocol.RulesReplace{ID: id, Rule: r})
}
func (d *localRuleService) TryRule(_ context.Context, t protocol.RulesTry) (protocol.RulesTried, error) {
	return d.rules.Try(t)
}
func (d *localRuleService) RemoveRule(_ context.Context, id string) (protocol.Rule, error) {
	return d.rules.Remove(d.peer, id)
}
func (d *localRuleService) TestRules(_ context.Context, t protocol.RulesTest) (protocol.RulesTested, error) {
	return d.rules.Test(d.peer, t)
}
func (d *localRuleService) SuggestRules(_ context.Context, s protocol.RulesSuggest) (protocol.RulesSuggested, error) {
	return d.rules.Suggest(s)
}
func (d *localRuleService) Reload(context.Context) (protocol.Reloaded, error) {
	return d.rules.Reload(d.peer)
}
func (d *localRuleService) Close() error { return d.close() }
