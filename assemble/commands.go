package assemble

import (
	"errors"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/rulebook"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// commandTool decides about command lines: a *shell.Tool, or two.
type commandTool interface {
	tools.Tool
	tools.Explainer
	rulebook.Shell
	Reach(argv []string, dir string) approval.Reach
	Ruled(argv []string, dir string) (bounds []sandboxprofile.Profile, review bool, err error)
	StartsOf(argv []string, dir string) []tools.Started
	Unasked(argv []string, dir string) map[string]string
}

func shellTool(cfg *config.Config, d Derived, paths tools.Paths, env []string) (commandTool, error) {
	of := func(cfg *config.Config, paths tools.Paths) (*shell.Tool, error) {
		rules, err := boundRules(cfg)
		if err != nil {
			return nil, err
		}
		return shell.New(shell.Config{
			Default: shell.Default(cfg.Shell.Default), Closed: closedTiers(cfg), Rules: rules, Paths: paths, Profile: d.Programs, Env: env, ProxyEnv: proxyEnv(),
			Credentials: shellCredentials(cfg),
		})
	}
	sh, err := of(cfg, paths)
	vouched := cfg.Vouched()
	if err != nil || vouched == cfg {
		return sh, err
	}
	was := *paths.Above // a call that names no directory starts where it does now
	was.Cwd, was.Origin = paths.Start(), paths.Origin
	without, err := of(vouched, was)
	return narrowedShell{sh, without}, err
}

// A narrowedShell is the shell of a configuration that an untrusted file narrows. Each call is decided
// with the file and without it, and the stricter answer holds. See tools.Stricter.
type narrowedShell struct {
	*shell.Tool
	without *shell.Tool
}

func (t narrowedShell) Plan(c tools.Call) (tools.Proposal, error) {
	p, err := t.Tool.Plan(c)
	if err != nil {
		return p, err
	}
	without, err := t.without.Plan(c)
	return tools.Stricter(p, without), err
}

// Explain is of the rules whose answer holds.
func (t narrowedShell) Explain(c tools.Call) ([]tools.Considered, error) {
	p, err := t.Tool.Plan(c)
	if err != nil {
		return t.Tool.Explain(c)
	}
	if without, err := t.without.Plan(c); err == nil && !tools.DecidedWithout(p, without) {
		return t.Tool.Explain(c)
	}
	list, err := t.without.Explain(c)
	for i := range list {
		if list[i].Outcome == tools.Decides {
			list[i].Why = strings.TrimSuffix("without the untrusted file of the workspace: "+list[i].Why, ": ")
		}
	}
	return list, err
}

// Without is the policy without the file: a change has to do for both.
func (t narrowedShell) Without() *shell.Policy { return t.without.Policy() }

func (t narrowedShell) SetStanding(s shell.Standing) error {
	if err := t.without.CheckStanding(s); err != nil {
		return err
	}
	if err := t.Tool.SetStanding(s); err != nil {
		return err
	}
	return t.without.SetStanding(s)
}

func (t narrowedShell) CheckStanding(s shell.Standing) error {
	return errors.Join(t.Tool.CheckStanding(s), t.without.CheckStanding(s))
}

func (t narrowedShell) Reach(argv []string, dir string) approval.Reach {
	return t.Tool.Reach(argv, dir).Stricter(t.without.Reach(argv, dir))
}

func (t narrowedShell) Ruled(argv []string, dir string) ([]sandboxprofile.Profile, bool, error) {
	if _, _, err := t.without.Ruled(argv, dir); err != nil {
		return nil, false, err
	}
	return t.Tool.Ruled(argv, dir)
}
