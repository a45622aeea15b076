package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandgate/sandgate/tools"
)

// redirect judges one redirection. What is written to a file is held against the
// path rules, as is what is read.
func (a *analysis) redirect(r *syntax.Redirect) {
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if r.Hdoc != nil && r.Word.Lit() != "" { // the body of a quoted one is data
			a.inside(r.Hdoc)
		}
	case syntax.WordHdoc:
		a.inside(r.Word)
	case syntax.DplIn, syntax.DplOut: // n>&m touches no file unless m is a name
		w := a.fold(r.Word)
		if !w.fixed() || w.text != "-" && !isDigits(strings.TrimSuffix(w.text, "-")) {
			a.file(w, true)
		}
	default:
		w := a.fold(r.Word)
		a.file(w, r.Op != syntax.RdrIn)
		a.noteStream(w, r.Op)
	}
}

// harmlessFiles are what redirections use that is no file.
var harmlessFiles = fieldSet("/dev/null /dev/stdout /dev/stderr /dev/stdin")

func (a *analysis) file(w word, write bool) {
	if w.fixed() && harmlessFiles[w.text] || w.stream {
		return
	}
	text := "< " + w.String()
	if write {
		text = "> " + w.String()
	}
	// Bash opens a connection for these names (bash(1), REDIRECTION).
	if strings.HasPrefix(w.text, "/dev/tcp/") || strings.HasPrefix(w.text, "/dev/udp/") {
		a.add(Part{Text: text, Effect: min(tools.Ask, a.p.fallback), Rule: ruleSyntax, RuleIndex: -1, Reason: "opens a network connection"})
		return
	}
	effect, reason, hint := a.checkPath(w, write)
	reads := !write && effect == tools.Allow || a.scratch(w)
	a.beyond = a.beyond || !reads
	a.add(Part{Text: text, Effect: effect, Rule: rulePaths, RuleIndex: -1, Reason: reason, Hint: hint, reads: reads})
}

// scratch reports whether a word names a file that a line that only reads may write.
func (a *analysis) scratch(w word) bool {
	name, reason := a.pathOf(w)
	if reason != "" || a.dirs.anywhere && !strings.HasPrefix(name, "/") {
		return false
	}
	return !slices.ContainsFunc(a.knownDirs(name), func(dir string) bool { return !a.p.files.Scratch(name, dir) })
}

// noteStream notes a file that a command of the line reads as its input, or writes.
func (a *analysis) noteStream(w word, op syntax.RedirOperator) {
	if a.starts == nil {
		return
	}
	a.starts.unread = a.starts.unread || !w.fixed()
	for _, s := range a.at(w, tools.Started{}) {
		if op == syntax.RdrIn || op == syntax.RdrInOut {
			a.starts.inputs = append(a.starts.inputs, s)
		}
		if op != syntax.RdrIn {
			a.starts.outputs[s] = true
		}
	}
}
