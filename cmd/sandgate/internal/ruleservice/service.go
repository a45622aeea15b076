package ruleservice

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor"
	"github.com/sandgate/sandgate/supervisor/explain"
)

// A Service is where rules are looked at and changed: the running supervisor's,
// through the operator socket, or one of this process when none is running.
type Service interface {
	Rules(ctx context.Context) (protocol.RulesList, error)
	AddRule(ctx context.Context, r protocol.RuleSpec) (protocol.Rule, error)
	ReplaceRule(ctx context.Context, id string, r protocol.RuleSpec, seen *protocol.RuleSpec) (protocol.Rule, error)
	TryRule(ctx context.Context, t protocol.RulesTry) (protocol.RulesTried, error)
	RemoveRule(ctx context.Context, id string, seen *protocol.RuleSpec) (protocol.Rule, error)
	TestRules(ctx context.Context, t protocol.RulesTest) (protocol.RulesTested, error)
	SuggestRules(ctx context.Context, s protocol.RulesSuggest) (protocol.RulesSuggested, error)
	Reload(ctx context.Context) (protocol.Reloaded, error)
	Close() error
}

// Flags say which rule service.
type Flags struct {
	Socket, Config string
}

// Register adds the flags that every command about rules has.
func (f *Flags) Register(c *cobra.Command) {
	c.Flags().StringVar(&f.Socket, "operator-socket", "", "operator socket `path` (default: runtime directory/operator.sock)")
	c.Flags().StringVar(&f.Config, "config", "", "use the configuration `file` instead of the supervisor")
}

// Open finds the running supervisor. With --config, or if none is running, it
// is one of this process.
func (f Flags) Open(ctx context.Context, a *cli.App, program string) (Service, error) {
	if f.Config == "" {
		p, err := client.DialApprover(ctx, f.Socket, client.WithProgram(program, a.Version))
		var dial *client.DialError
		switch {
		case err == nil:
			return p, nil
		case f.Socket != "" || !errors.As(err, &dial):
			return nil, cli.WireStatus(err)
		}
	}
	cfg, err := settings.LoadAndWarn(a, f.Config, "")
	if err != nil {
		return nil, err
	}
	d, err := NewLocal(cfg)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// A Local works on the files alone.
type Local struct {
	rules *explain.RuleService
	peer  unixsock.Peer
	close func() error
}

func NewLocal(cfg *config.Config) (*Local, error) {
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
	d := &Local{close: r.Close, peer: assemble.Self()}
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

func (d *Local) Rules(context.Context) (protocol.RulesList, error) {
	return d.rules.List(), nil
}
func (d *Local) AddRule(_ context.Context, r protocol.RuleSpec) (protocol.Rule, error) {
	return d.rules.Add(d.peer, r)
}
func (d *Local) ReplaceRule(_ context.Context, id string, r protocol.RuleSpec, seen *protocol.RuleSpec) (protocol.Rule, error) {
	return d.rules.Replace(d.peer, protocol.RulesReplace{ID: id, Rule: r, Seen: seen})
}
func (d *Local) TryRule(_ context.Context, t protocol.RulesTry) (protocol.RulesTried, error) {
	return d.rules.Try(t)
}
func (d *Local) RemoveRule(_ context.Context, id string, seen *protocol.RuleSpec) (protocol.Rule, error) {
	return d.rules.Remove(d.peer, protocol.RulesRemove{ID: id, Seen: seen})
}
func (d *Local) TestRules(_ context.Context, t protocol.RulesTest) (protocol.RulesTested, error) {
	return d.rules.Test(d.peer, t)
}
func (d *Local) SuggestRules(_ context.Context, s protocol.RulesSuggest) (protocol.RulesSuggested, error) {
	return d.rules.Suggest(s)
}
func (d *Local) Reload(context.Context) (protocol.Reloaded, error) {
	return d.rules.Reload(d.peer)
}
func (d *Local) Close() error { return d.close() }
