package assemble

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/supervisor"
	"github.com/sandgate/sandgate/supervisor/mcphost"
	"github.com/sandgate/sandgate/supervisor/store"
	"github.com/sandgate/sandgate/tools"
)

// Memory stores what outlives a decision: permanent answers and pending requests. The zero
// Memory is private to the process.
type Memory struct {
	answers approval.Store
	journal approval.Journal
	orphans supervisor.Orphans
	// definitions are those of the tools of MCP servers that were let through.
	definitions mcphost.Definitions
}

// promptRate bounds how often one session may have people asked: a turn with many
// calls passes, and an agent that asks without end leaves room for others.
var promptRate = approval.PromptRate{Burst: 100, Every: time.Second}

func newController(cfg *config.Config, mode approval.Mode, o Options, m Memory, registry *tools.Registry) *approval.Controller {
	return approval.NewController(approval.Options{
		Mode:       mode,
		Timeout:    cfg.Approval.Timeout,
		NoApprover: approval.NoApprover(cfg.Approval.NoApprover),
		DenyCache:  cfg.Approval.DenyCache,
		PromptRate: promptRate,
		Prompter:   o.Prompter,
		Outer:      o.Decider,
		Store:      m.answers,
		Journal:    m.journal,
		Tools:      ToolPolicy(cfg, registry),
	})
}

// ToolPolicy is what `approval` says about tools. Known, besides the lists, are
// the tools that the configuration has rules for: the built-in ones, and those of
// `tools` that say whether they ask.
func ToolPolicy(cfg *config.Config, registry *tools.Registry) *approval.ToolPolicy {
	a := cfg.Approval
	p := &approval.ToolPolicy{Safe: a.SafeTools, Dangerous: a.DangerousTools, Guarded: guarded(a)}
	switch a.UnknownTools {
	case config.Allow:
		p.Unknown = approval.Allow
	case config.Ask:
		p.Unknown = approval.Ask
	}
	p.Known = append(p.Known, ownQuestions()...)
	silent := map[string]bool{}
	for _, t := range cfg.Tools {
		silent[t.Name] = !cfg.Set("tools." + t.Name + ".approval.required")
	}
	for _, d := range registry.Definitions() {
		if !silent[d.Name] {
			p.Known = append(p.Known, d.Name)
		}
	}
	for _, s := range cfg.MCP.Servers { // its configuration says what is asked about
		p.Known = append(p.Known, s.Name+"_*", "mcp."+s.Name)
	}
	return p
}

// alike are built-in tools of which each does what the others do: a rule for one of them is as wide as one for all.
var alike = [][]string{{"shell", "run", "run_background", "task_input"}, {"write_file", "edit_file", "multi_edit"}}

// guarded are the names that no glob of a standing rule allows: besides those of the configuration, the tools that are
// like a dangerous one.
func guarded(a config.Approval) []string {
	list := slices.Clone(a.Guarded)
	for _, tools := range alike {
		if slices.ContainsFunc(tools, func(tool string) bool {
			return slices.ContainsFunc(a.DangerousTools, func(glob string) bool { return approval.Glob(glob, tool) })
		}) {
			list = append(list, tools...)
		}
	}
	return list
}

// openMemory opens the permanent answers, and finds the requests that an earlier
// process left waiting.
func openMemory(cfg *config.Config, r *Running) (Memory, error) {
	if cfg.Approval.Store != config.StoreBbolt {
		return Memory{}, nil
	}
	s, err := openAnswers(r)
	if err != nil {
		return Memory{}, err
	}
	dir := filepath.Dir(s.Path())
	journal := store.NewJournal(dir)
	r.close = append(r.close, journal.Close)
	left, err := store.FindOrphans(dir)
	if err != nil {
		return Memory{}, internalError(err)
	}
	r.close = append(r.close, left.Close)
	return Memory{s, journal, left, store.Definitions(filepath.Join(dir, "mcp-definitions"))}, nil
}

func openAnswers(r *Running) (*store.Store, error) {
	path, err := store.DefaultPath()
	if err != nil {
		return nil, internalError(err)
	}
	s, err := store.Open(path)
	if err != nil {
		return nil, internalError(err)
	}
	r.close = append(r.close, s.Close)
	return s, nil
}

// PresentMemory opens the remembered answers if there are any, and makes none.
func PresentMemory(cfg *config.Config, r *Running) (Memory, error) {
	path, err := store.DefaultPath()
	if err != nil || cfg.Approval.Store != config.StoreBbolt {
		return Memory{}, nil // as without a store
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return Memory{}, nil
	}
	s, err := openAnswers(r)
	if err != nil {
		return Memory{}, err
	}
	return Memory{answers: s}, nil
}
