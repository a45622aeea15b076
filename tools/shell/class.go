package shell

import (
	"slices"
	"strings"

	"github.com/sandgate/sandgate/tools"
)

// A Class is what a command line can do, as far as its text says.
type Class int8

// The classes. Whoever acts on Read lets the kernel hold it: a text can be misread.
const (
	Unknown Class = iota // anything that the sandbox allows
	Read                 // it reads what it may read and prints; it may write private scratch
)

func (c Class) String() string {
	if c == Read {
		return "read"
	}
	return "unknown"
}

// An Analysis is what the text of a command line says, whatever the rules say of it.
// The zero value says nothing.
type Analysis struct {
	Class Class
	// Programs are all programs that a line of class Read may execute, besides the
	// bash that reads it: names to be looked up in PATH, sorted. A name may be built
	// into bash and not be found.
	Programs []string
}

// Free reports whether a line needs nobody where reading needs nobody: it is of class
// Read, and what asks about it is the default alone.
func (d Decision) Free() bool {
	return d.Analysis.Class == Read && !slices.ContainsFunc(d.Parts, func(p Part) bool {
		return p.Effect == tools.Deny || p.Effect == tools.Ask && (p.RuleIndex >= 0 || !p.reads)
	})
}

// starts are the programs that those of the tables start themselves.
var starts = map[string]string{"which": "sh", "egrep": "sh grep", "fgrep": "sh grep"}

// noteClass notes whether a simple command only reads.
func (a *analysis) noteClass(cmd simpleCommand) (reads bool) {
	name := cmd.words[0]
	base := a.baseName(name.text)
	_, trusted := a.p.programs.Identify(name.text, a.dirs.one())
	if !trusted || cmd.env || a.onlyReads(base, cmd) != "" {
		a.beyond = true
		return false
	}
	a.started = append(append(a.started, base), strings.Fields(starts[base])...)
	return true
}

// onlyReads says why a command is more than one that reads, or "". What a wrapper or
// find runs is judged as a command of its own.
func (a *analysis) onlyReads(base string, cmd simpleCommand) string {
	switch {
	case cmd.free:
		return ""
	case known().in("repositories", base) && a.dirs.moved(a.p.origin):
		return base + " acts on the configuration of the directory that it is in"
	case base == "find":
		f := parseFind(cmd.words[1:])
		return a.orPaths(f.reason, base, f.paths)
	}
	return a.notReadOnly(cmd)
}

// class is what the walk found.
func (a *analysis) class() Analysis {
	if a.beyond || a.over {
		return Analysis{}
	}
	slices.Sort(a.started)
	return Analysis{Class: Read, Programs: slices.Compact(a.started)}
}
