package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/unicode/norm"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/profiles"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor"
	"github.com/sandgate/sandgate/supervisor/config"
	"github.com/sandgate/sandgate/supervisor/store"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/files"
	"github.com/sandgate/sandgate/tools/program"
	"github.com/sandgate/sandgate/tools/shell"
)

// This file is the one place where a configuration becomes a supervisor. Nothing
// registers itself: what a supervisor can do is what is built here.

// loadConfig finds the configuration that applies and reads it.
func loadConfig(file, workspace string) (*config.Config, error) {
	env, err := configEnv()
	if err != nil {
		return nil, err
	}
	env.File, env.Workspace = file, workspace
	cfg, _, err := config.Resolve(env)
	if err != nil {
		return nil, withStatus(exitUsage, err)
	}
	return cfg, nil
}

// running is a supervisor with everything that ends when it does.
type running struct {
	*supervisor.Supervisor
	recovery audit.Recovery
	close    []func() error
}

// Close ends the supervisor first and the log last.
func (r *running) Close() error {
	var errs []error
	for _, c := range slices.Backward(r.close) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// buildOptions are what a command adds to the configuration.
type buildOptions struct {
	mode     approval.Mode // "" is the configuration's
	prompter approval.Prompter
	warnings []string
}

// build makes the supervisor that cfg describes.
func build(cfg *config.Config, o buildOptions) (_ *running, err error) {
	r := &running{}
	defer func() {
		if err != nil {
			_ = r.Close()
		}
	}()
	backend := startBackend(r)  // it takes as long as all the rest
	log, err := openLog(cfg, r) // before the tools: its directory is kept from them, and has to exist for that
	if err != nil {
		return nil, err
	}
	answers, err := openAnswers(cfg, r) // before the tools, for the same reason
	if err != nil {
		return nil, err
	}
	own, err := ownPaths(cfg, log.Path())
	if err != nil {
		return nil, err
	}
	registry, warnings, err := newTools(cfg, own)
	if err != nil {
		return nil, err
	}
	operator, err := operatorProfile(cfg)
	if err != nil {
		return nil, err
	}
	confiner, unconfined, err := requireBackend(cfg, backend)
	if err != nil {
		return nil, err
	}
	mode := approval.Mode(cfg.Approval.Mode)
	if o.mode != "" {
		mode = o.mode
	}
	for _, n := range cfg.Notices {
		warnings = append(warnings, n.String())
	}
	sc := supervisor.Config{
		Version:    version,
		ConfigFile: cfg.File,
		Tools:      registry,
		Approvals:  newController(cfg, mode, o.prompter, answers),
		Mode:       mode,
		Log:        log,
		Operator:   operator,
		Unconfined: unconfined,
		Egress:     egressConfig(cfg),
		Warnings:   slices.Concat(o.warnings, warnings),
	}
	if confiner != nil {
		sc.Confiner = confiner
		sc.SessionConfiner = func() supervisor.SessionConfiner { return confine.NewCells(confiner) }
	}
	sup, err := supervisor.New(sc)
	if err != nil {
		return nil, withStatus(exitInternal, err)
	}
	r.Supervisor = sup
	r.close = append(r.close, sup.Close)
	return r, nil
}

// startBackend makes the confiner on another thread. What it gives waits for it.
func startBackend(r *running) func() (*confine.Bwrap, error) {
	backend := sync.OnceValues(func() (*confine.Bwrap, error) { return confine.NewBwrap("") })
	go backend()
	r.close = append(r.close, func() error {
		if b, err := backend(); err == nil {
			return b.Close()
		}
		return nil
	})
	return backend
}

// requireBackend gives the backend, or why there is none. With
// require_os_sandbox and fail_fast the lack of one is an error; with
// refuse_tools, and with require_os_sandbox false, the supervisor starts and
// every tool is refused.
func requireBackend(cfg *config.Config, backend func() (*confine.Bwrap, error)) (b *confine.Bwrap, unconfined, err error) {
	b, unconfined = backend()
	if unconfined == nil || !cfg.Sandbox.RequireOSSandbox || cfg.Sandbox.OSSandboxFallback != config.FailFast {
		return b, unconfined, nil
	}
	err = unconfined
	var u *confine.Unenforceable
	if errors.As(err, &u) {
		err = withHint(err, u.Hint)
	}
	return nil, nil, withStatus(exitUnavailable, err)
}

func newController(cfg *config.Config, mode approval.Mode, p approval.Prompter, answers approval.Store) *approval.Controller {
	return approval.NewController(approval.Options{
		Mode:       mode,
		Timeout:    cfg.Approval.Timeout,
		NoApprover: approval.NoApprover(cfg.Approval.NoApprover),
		DenyCache:  cfg.Approval.DenyCache,
		Prompter:   p,
		Store:      answers,
		Normalize:  norm.NFC.String,
	})
}

// openAnswers opens what people have answered for good. nil keeps that in memory.
func openAnswers(cfg *config.Config, r *running) (approval.Store, error) {
	if cfg.Approval.Store != config.StoreBbolt {
		return nil, nil
	}
	path, err := store.DefaultPath()
	if err != nil {
		return nil, withStatus(exitInternal, err)
	}
	s, err := store.Open(path)
	if err != nil {
		return nil, withStatus(exitInternal, err)
	}
	r.close = append(r.close, s.Close)
	return s, nil
}

func openLog(cfg *config.Config, r *running) (*audit.Log, error) {
	path := cfg.Audit.Path
	if path == "" {
		var err error
		if path, err = audit.DefaultPath(); err != nil {
			return nil, withStatus(exitInternal, err)
		}
	}
	log, recovery, err := audit.Open(path, audit.Options{Sync: audit.SyncMode(cfg.Audit.Sync)})
	if err != nil {
		return nil, withStatus(exitInternal, err)
	}
	r.recovery = recovery
	r.close = append(r.close, log.Close)
	return log, nil
}

// operatorProfile is the profile that bounds every tool. None bounds nothing:
// the tools' own profiles hold as they are.
func operatorProfile(cfg *config.Config) (sandboxprofile.Profile, error) {
	if cfg.Sandbox.Profile == "" {
		return sandboxprofile.Top(), nil
	}
	p, err := profiles.Operator(cfg.Sandbox.Profile, profileVars(cfg))
	if err != nil {
		return p, withStatus(exitUsage, err)
	}
	return p, nil
}

// ownPaths are the files of sandgate itself and the rights that tools keep on
// them, wherever they lie: the configuration may be read, since a person may have
// put it beside the code, and the directory of the log is not theirs at all.
func ownPaths(cfg *config.Config, log string) (map[string]sandboxprofile.Rights, error) {
	own := map[string]sandboxprofile.Rights{}
	for _, p := range cfg.OwnFiles() {
		own[p] = 0
	}
	if cfg.File != "" {
		own[cfg.File] = sandboxprofile.Read
	}
	err := keepAway(cfg, own, log, "set audit.path to a file in a directory of its own")
	if err == nil && cfg.Approval.Store == config.StoreBbolt {
		// Another directory than that of the log if audit.path is set. A tool that
		// could write there would answer for the operator.
		var answers string
		if answers, err = store.DefaultPath(); err == nil {
			err = keepAway(cfg, own, answers, "set XDG_STATE_HOME to another directory, or approval.store to memory")
		}
	}
	return own, err
}

// keepAway takes the directory of one of our files away from tools, if it lies
// in a configured path at all. One that has a configured path in it, or is one,
// cannot be covered.
func keepAway(cfg *config.Config, own map[string]sandboxprofile.Rights, file, hint string) error {
	dir, err := resolved(filepath.Dir(file))
	if errors.Is(err, fs.ErrNotExist) { // `profile derive` makes none, and there is nothing to keep yet
		return nil
	}
	if err != nil {
		return withStatus(exitInternal, err)
	}
	for _, p := range cfg.Sandbox.Paths {
		if !sandboxprofile.Contains(p.Root, dir) {
			continue
		}
		own[dir] = 0
		for _, q := range cfg.Sandbox.Paths {
			if sandboxprofile.Contains(dir, q.Root) {
				err := fmt.Errorf("%s shares its directory with sandbox.paths.%s (%s)", file, q.Name, q.Root)
				return withHint(usageError(err), hint)
			}
		}
	}
	return nil
}

// without takes rights away from p at the given paths, where it has more.
func without(p sandboxprofile.Profile, own map[string]sandboxprofile.Rights) sandboxprofile.Profile {
	p.Paths = maps.Clone(p.Paths)
	for path, keep := range own {
		if r := p.Rights(path); !r.SubsetOf(keep) {
			p.Paths[path] = r.Intersect(keep)
		}
	}
	return p
}

// derived is what the configuration's tools run under, before the operator's
// profile narrows it.
type derived struct {
	needs           sandboxprofile.Needs
	files, programs sandboxprofile.Profile
	warnings        []string
}

func derive(cfg *config.Config, own map[string]sandboxprofile.Rights) (derived, error) {
	needs, err := deriveNeeds(cfg)
	if err != nil {
		return derived{}, withStatus(exitUsage, err)
	}
	narrow, warnings := forPrograms(cfg, needs)
	offline := needs // a file tool has no business on the network
	offline.Network = sandboxprofile.Network{}
	return derived{
		needs:    needs,
		files:    without(sandboxprofile.Derive(offline), own),
		programs: without(sandboxprofile.Derive(narrow), own),
		warnings: warnings,
	}, nil
}

// newTools builds every tool that cfg describes. None of them reaches own.
func newTools(cfg *config.Config, own map[string]sandboxprofile.Rights) (*tools.Registry, []string, error) {
	d, err := derive(cfg, own)
	if err != nil {
		return nil, nil, err
	}
	paths := toolPaths(cfg, d.needs)
	list := files.New(files.Config{Paths: paths, Profile: d.files})
	env := programEnv(cfg, d.needs.Home, d.programs)
	sh, err := shell.New(shell.Config{
		Default: shell.Default(cfg.Shell.Default), Rules: shellRules(cfg.Shell.Rules), Paths: paths, Profile: d.programs, Env: env,
	})
	if err != nil {
		return nil, nil, withStatus(exitUsage, err)
	}
	run := program.New(program.Config{Paths: paths, Profile: d.programs, Env: env})
	registry, err := tools.NewRegistry(append(list, sh, run)...)
	return registry, d.warnings, err
}

func shellRules(rules []config.Rule) []shell.Rule {
	var out []shell.Rule
	for _, r := range rules {
		out = append(out, shell.Rule{
			Pattern: r.Pattern, Exact: r.Exact, ReadOnly: r.ReadOnly, Allowed: &r.Allowed, Approval: &r.Approval,
			Description: r.Description, Reason: r.Reason, SandboxPaths: r.SandboxPaths,
			Match: r.Match, NoMatch: r.NoMatch, Position: r.Position.String(),
		})
	}
	return out
}

// deriveNeeds is the configuration in the words of package sandboxprofile.
func deriveNeeds(cfg *config.Config) (sandboxprofile.Needs, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return sandboxprofile.Needs{}, fmt.Errorf("home directory: %w", err)
	}
	nw, err := network(cfg.Shell.Network)
	if err != nil {
		return sandboxprofile.Needs{}, fmt.Errorf("shell.network: %w", err)
	}
	n := sandboxprofile.Needs{
		Home:    home,
		Protect: expandList(cfg.Sandbox.Protect, profiles.Protect()),
		Hide:    expandList(cfg.Sandbox.Hide, profiles.Hide()),
		Network: nw,
		Limits:  limits(cfg.Sandbox.Limits),
		Env:     sandboxprofile.Env{Names: slices.Clone(cfg.Sandbox.Env.Allow)},
	}
	for name := range withProxy(cfg.Shell.Network, cfg.Sandbox.Env.Set) {
		n.Env.Names = append(n.Env.Names, name)
	}
	for _, p := range cfg.Sandbox.Paths {
		n.Roots = append(n.Roots, sandboxprofile.Root{Name: p.Name, Path: p.Root, Write: p.Mode == config.ReadWrite})
	}
	for _, name := range cfg.Sandbox.Presets {
		preset, err := profiles.Preset(name)
		if err != nil {
			return n, err
		}
		n.Presets = append(n.Presets, preset)
	}
	return n, nil
}

// forPrograms leaves out of needs what mounts cannot keep for a program: a root
// that is limited to some suffixes. The file tools keep to suffixes by
// themselves; a program would not, so it does not see such a root at all.
func forPrograms(cfg *config.Config, n sandboxprofile.Needs) (sandboxprofile.Needs, []string) {
	var warnings []string
	n.Roots = slices.DeleteFunc(slices.Clone(n.Roots), func(r sandboxprofile.Root) bool {
		i := slices.IndexFunc(cfg.Sandbox.Paths, func(p config.Path) bool { return p.Name == r.Name })
		if len(cfg.Sandbox.Paths[i].Suffixes) == 0 {
			return false
		}
		warnings = append(warnings, fmt.Sprintf("sandbox.paths.%s is limited to %s: only the file tools see it, programs do not",
			r.Name, strings.Join(cfg.Sandbox.Paths[i].Suffixes, ", ")))
		return true
	})
	return n, warnings
}

// expandList puts the shipped list where the word "default" stands.
func expandList(list, shipped []string) []string {
	var out []string
	for _, p := range list {
		if p == config.DefaultList {
			out = append(out, shipped...)
		} else {
			out = append(out, p)
		}
	}
	return out
}

// maxScratch bounds each private directory: it lies in memory.
const maxScratch = 1 << 30

func limits(l config.Limits) sandboxprofile.Limits {
	return sandboxprofile.Limits{
		Wall: l.Timeout, CPU: l.CPU, Memory: int64(l.Memory), Pids: l.Pids, FileSize: int64(l.FileSize),
		OpenFiles: l.OpenFiles, Output: int64(l.Output), Scratch: min(int64(l.FileSize), maxScratch),
	}
}

func toolPaths(cfg *config.Config, n sandboxprofile.Needs) tools.Paths {
	p := tools.Paths{Hide: n.Hide, Protect: n.Protect, Home: n.Home}
	for _, c := range cfg.Sandbox.Paths {
		p.Rules = append(p.Rules, tools.PathRule{
			Name: c.Name, Root: c.Root, Write: c.Mode == config.ReadWrite, Suffixes: c.Suffixes,
			ReadApproval: c.ReadApproval, WriteApproval: c.WriteApproval, Position: c.Position.String(),
		})
	}
	if cwd, err := os.Getwd(); err == nil && len(p.Rules) == 0 {
		p.Cwd = cwd
	}
	return p
}

const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// programEnv is the environment of every program, with a PATH of directories
// that the sandbox shows and nobody in it can write to.
func programEnv(cfg *config.Config, home string, p sandboxprofile.Profile) []string {
	set := withProxy(cfg.Shell.Network, cfg.Sandbox.Env.Set)
	env := tools.BuildEnv(cfg.Sandbox.Env.Allow, set, os.Environ(), home)
	for i, kv := range env {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			env[i] = "PATH=" + safePath(path, p)
		}
	}
	return env
}

func safePath(path string, p sandboxprofile.Profile) string {
	var keep []string
	for _, dir := range strings.Split(path, ":") {
		r := p.Rights(dir)
		if strings.HasPrefix(dir, "/") && r&sandboxprofile.Execute != 0 && r&sandboxprofile.Write == 0 {
			keep = append(keep, dir)
		}
	}
	if len(keep) == 0 {
		return defaultPath
	}
	return strings.Join(keep, ":")
}

// profileVars are what an operator profile may refer to.
func profileVars(cfg *config.Config) map[string]string {
	vars := map[string]string{}
	for _, p := range cfg.Sandbox.Paths {
		vars[p.Name] = p.Root
	}
	return vars
}
