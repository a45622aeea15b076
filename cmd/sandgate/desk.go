package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor"
	"github.com/sandgate/sandgate/supervisor/rulebook"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
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
	desk  *supervisor.Desk
	peer  unixsock.Peer
	close func() error
}

func newLocalDesk(cfg *config.Config) (*localDesk, error) {
	r := &running{}
	remembered, err := presentMemory(cfg, r)
	if err != nil {
		return nil, err
	}
	sc, err := policyOf(cfg, remembered)
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	path, err := logPath(cfg)
	if err != nil {
		return nil, err
	}
	d := &localDesk{close: r.Close, peer: unixsock.Peer{UID: os.Getuid(), GID: os.Getgid(), PID: os.Getpid()}}
	d.desk = supervisor.NewDesk(sc, path, func(ctx context.Context, rec audit.Record) (err error) {
		options, err := logOptions(cfg)
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

// logOptions is how cfg wants the audit log written.
func logOptions(cfg *config.Config) (audit.Options, error) {
	o := audit.Options{Sync: audit.SyncMode(cfg.Audit.Sync)}
	if len(cfg.Audit.Redact) == 0 {
		return o, nil // the shipped rules, compiled when they are needed
	}
	var more []audit.Rule
	for _, r := range cfg.Audit.Redact {
		more = append(more, audit.Rule{Name: r.Name, Pattern: r.Pattern, Match: r.Match, NoMatch: r.NoMatch})
	}
	var err error
	if o.Redactor, err = audit.DefaultRedactor(more); err != nil {
		return o, usageError(err)
	}
	return o, nil
}

func logPath(cfg *config.Config) (string, error) {
	if cfg.Audit.Path != "" {
		return cfg.Audit.Path, nil
	}
	path, err := audit.DefaultPath()
	if err != nil {
		return "", withStatus(exitInternal, err)
	}
	return path, nil
}

// policyOf builds everything that decides under cfg, and nothing that runs. The
// zero memory remembers nothing.
func policyOf(cfg *config.Config, memory memory) (supervisor.Config, error) {
	var none supervisor.Config
	own, err := presentOwnPaths(cfg)
	if err != nil {
		return none, err
	}
	registry, d, err := newTools(cfg, own, buildOptions{})
	if err != nil {
		return none, err
	}
	servers, err := mcpServers(cfg, d, own)
	if err != nil {
		return none, err
	}
	operator, err := operatorProfile(cfg)
	if err != nil {
		return none, err
	}
	mode := approval.Mode(cfg.Approval.Mode)
	approvals := newController(cfg, mode, nil, memory, registry)
	rules, err := openRules(cfg, registry, approvals)
	if err != nil {
		return none, err
	}
	return supervisor.Config{
		Version: version, ConfigFile: cfg.File, Tools: registry, Approvals: approvals, Mode: mode, Operator: operator, Rules: rules,
		MCP: supervisor.MCPConfig{Servers: servers},
	}, nil
}

// presentOwnPaths is ownPaths for a command that makes none of them.
func presentOwnPaths(cfg *config.Config) (map[string]sandboxprofile.Rights, error) {
	path, err := logPath(cfg)
	if err != nil {
		return nil, err
	}
	dir, err := resolved(filepath.Dir(path))
	if err != nil { // no log yet, nothing to keep from anybody
		return map[string]sandboxprofile.Rights{}, nil
	}
	return ownPaths(cfg, filepath.Join(dir, filepath.Base(path)))
}

// openRules puts the standing rules in force.
func openRules(cfg *config.Config, registry *tools.Registry, approvals *approval.Controller) (*rulebook.Book, error) {
	env, err := configEnv()
	if err != nil {
		return nil, err
	}
	sh, ok := registry.Tool("shell").(*shell.Tool)
	if !ok {
		return nil, withStatus(exitInternal, errors.New("bug: there is no tool shell for rules about commands"))
	}
	rules := shellRules(cfg.Shell.Rules)
	for i := range rules {
		rules[i].Name = cmp.Or(rules[i].Name, rules[i].Label(i))
	}
	book, err := rulebook.Open(env.RulesFiles(), rulebook.Bounds{
		Default: shell.Default(cfg.Shell.Default), Shell: rules, Dangerous: slices.Concat(cfg.Approval.DangerousTools, cfg.Approval.Guarded),
	}, sh, approvals)
	if err != nil {
		return nil, usageError(err)
	}
	return book, nil
}

// keepRulesAway takes the files of standing rules away from tools, wherever they
// lie: who writes there decides what is allowed. The user's directory is made if
// a tool could make it.
func keepRulesAway(cfg *config.Config, own map[string]sandboxprofile.Rights) error {
	env, err := configEnv()
	if err != nil {
		return err
	}
	for _, f := range env.RulesFiles() {
		dir := filepath.Dir(f.Path)
		for _, p := range cfg.Sandbox.Paths {
			if f.Tier == config.TierUser && p.Mode == config.ReadWrite && sandboxprofile.Contains(p.Root, dir) {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					return withStatus(exitInternal, err)
				}
			}
		}
		if err := keepAway(cfg, own, f.Path, "set XDG_CONFIG_HOME to another directory"); err != nil {
			return err
		}
	}
	return nil
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
