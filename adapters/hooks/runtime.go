package hooks

import (
	"maps"
	"slices"
)

// A Runtime is one agent program: what its hooks say, and how they are answered.
type Runtime struct {
	Name string
	// before is the event that a tool waits on, and end the one that ends a session.
	before, end string
	// asks is set if a hook can have the user asked.
	asks   bool
	tools  map[string]tool
	encode func(Answer) Output
	// spills are where the runtime puts output aside for its model, by the file of the
	// conversation and the runtime's directory for temporary files; nil if it does not.
	spills func(transcript, scratch string) []spill
	// settings is where hooks are configured.
	settings settings
}

// Runtimes are those that are known, by name.
func Runtimes() map[string]*Runtime {
	all := map[string]*Runtime{}
	for _, r := range []*Runtime{claudeCode(), codex(), gemini()} {
		all[r.Name] = r
	}
	return all
}

// Names lists the runtimes.
func Names() []string { return slices.Sorted(maps.Keys(Runtimes())) }

// Asks reports whether a hook can have the runtime's own user asked.
func (r *Runtime) Asks() bool { return r.asks }

// Encode writes an answer in the runtime's format.
func (r *Runtime) Encode(a Answer) Output {
	switch {
	case a.Broken && a.Verdict != Ask:
		return Blocks(a)
	case a.Verdict == Ask && !r.asks:
		a.Verdict, a.Hint = Deny, "this needs a person's answer, which a hook of "+r.Name+" cannot request; "+
			"use a shell command, or ask the user to run the hook with --ask operator"
	}
	return r.encode(a)
}

// own are tools that touch nothing but the runtime itself: its plans, its questions to
// the user, agents whose own calls come here as well, and commands that were decided
// about when they were started.
func own(names ...string) map[string]tool {
	all := map[string]tool{}
	for _, name := range names {
		all[name] = tool{own: true}
	}
	return all
}

func with(base map[string]tool, more map[string]tool) map[string]tool {
	maps.Copy(base, more)
	return base
}
