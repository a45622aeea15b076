package assemble

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor"
	"github.com/sandgate/sandgate/supervisor/mcphost"
	"github.com/sandgate/sandgate/supervisor/rulebook"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// LogOptions is how cfg wants the audit log written.
func LogOptions(cfg *config.Config) (audit.Options, error) {
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
		return o, configError(err)
	}
	return o, nil
}

// LogPath is where the audit log of cfg lies.
func LogPath(cfg *config.Config) (string, error) {
	if cfg.Audit.Path != "" {
		return cfg.Audit.Path, nil
	}
	path, err := audit.DefaultPath()
	if err != nil {
		return "", internalError(err)
	}
	return path, nil
}

// Policy builds everything that decides under cfg, and nothing that runs. The
// zero memory remembers nothing.
func Policy(cfg *config.Config, memory Memory) (supervisor.Config, error) {
	var none supervisor.Config
	own, err := PresentOwnPaths(cfg)
	if err != nil {
		return none, err
	}
	registry, d, err := Tools(cfg, own, Options{})
	if err != nil {
		return none, err
	}
	servers, err := MCPServers(cfg, d, own)
	if err != nil {
		return none, err
	}
	operator, err := OperatorProfile(cfg)
	if err != nil {
		return none, err
	}
	mode := approval.Mode(cfg.Approval.Mode)
	approvals := newController(cfg, mode, Options{}, memory, registry)
	rules, err := openRules(cfg, registry, approvals)
	if err != nil {
		return none, err
	}
	return supervisor.Config{
		ConfigFile: cfg.File, Tools: registry, Approvals: approvals, Mode: mode, Operator: operator, Rules: rules,
		MCP: mcphost.Config{Servers: servers},
	}, nil
}

// PresentOwnPaths is ownPaths for a command that makes none of them.
func PresentOwnPaths(cfg *config.Config) (map[string]sandboxprofile.Rights, error) {
	path, err := LogPath(cfg)
	if err != nil {
		return nil, err
	}
	dir, err := Resolved(filepath.Dir(path))
	if err != nil { // no log yet, nothing to keep from anybody
		return map[string]sandboxprofile.Rights{}, nil
	}
	return OwnPaths(cfg, filepath.Join(dir, filepath.Base(path)))
}

// openRules puts the standing rules in force.
func openRules(cfg *config.Config, registry *tools.Registry, approvals *approval.Controller) (*rulebook.Book, error) {
	env, err := Env()
	if err != nil {
		return nil, err
	}
	sh, ok := registry.Tool("shell").(rulebook.Shell)
	if !ok {
		return nil, internalError(errors.New("bug: the tool shell for rules about commands is missing"))
	}
	rules := shellRules(cfg.Shell.Rules)
	for i := range rules {
		rules[i].Name = cmp.Or(rules[i].Name, rules[i].Label(i))
	}
	book, err := rulebook.Open(env.RulesFiles(), rulebook.Bounds{
		Default: shell.Default(cfg.Shell.Default), Shell: rules, Dangerous: slices.Concat(cfg.Approval.DangerousTools, guarded(cfg.Approval)),
	}, sh, approvals)
	if err != nil {
		return nil, configError(err)
	}
	return book, nil
}

// keepRulesAway takes the files of standing rules away from tools, wherever they
// lie: who writes there decides what is allowed. The user's directory is made if
// a tool could make it.
func keepRulesAway(cfg *config.Config, own map[string]sandboxprofile.Rights) error {
	env, err := Env()
	if err != nil {
		return err
	}
	for _, f := range env.RulesFiles() {
		dir := filepath.Dir(f.Path)
		for _, p := range cfg.Sandbox.Paths {
			if f.Tier == config.TierUser && p.Mode == config.ReadWrite && sandboxprofile.Contains(p.Root, dir) {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					return internalError(err)
				}
			}
		}
		if err := keepAway(cfg, own, f.Path, "set XDG_CONFIG_HOME to another directory"); err != nil {
			return err
		}
	}
	return nil
}
