package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandgate/sandgate/tools"
)

// stdin says where a command reads its standard input from, as a shell that is
// given no script runs what it reads there.
type stdin struct {
	script string // the text of a here-document that is known
	known  bool
}

// redirect judges one redirection. What is written to a file is held against the
// path rules, as is what is read.
func (a *analysis) redirect(r *syntax.Redirect, in *stdin) {
	if r.N != nil && strings.HasPrefix(r.N.Value, "{") && classify(strings.Trim(r.N.Value, "{}"), word{dynamic: true}) == envDangerous {
		a.ask("the redirection sets a variable that programs act on", "use a plain descriptor number")
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		a.hereDocument(r, in)
	case syntax.WordHdoc:
		w := a.fold(r.Word)
		*in = stdin{w.text, w.fixed()}
	case syntax.DplIn, syntax.DplOut:
		a.duplicate(r)
	case syntax.RdrIn:
		a.file(a.fold(r.Word), false)
	case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut:
		a.file(a.fold(r.Word), true)
	default:
		a.ask("a redirection that is not analysed", "use > or >>")
	}
}

func (a *analysis) hereDocument(r *syntax.Redirect, in *stdin) {
	*in = stdin{"", r.Hdoc == nil}
	if r.Hdoc == nil {
		return
	}
	quoted := literalText(r.Word) != r.Word.Lit()
	if quoted {
		*in = stdin{literalText(r.Hdoc), true}
		return // the body of a quoted here-document is data
	}
	f := folder{a: a}
	f.parts(r.Hdoc.Parts, true)
	w := f.word()
	*in = stdin{w.text, w.fixed()}
}

// duplicate judges n>&m, which touches no file unless m is a name.
func (a *analysis) duplicate(r *syntax.Redirect) {
	w := a.fold(r.Word)
	switch {
	case !w.fixed():
		a.ask("a redirection to a target that only the shell will know", "write the target out")
	case w.text == "-" || isNumber(strings.TrimSuffix(w.text, "-")) && !strings.HasPrefix(w.text, "-"):
	default:
		a.file(w, true)
	}
}

// harmlessFiles are what redirections use that is no file.
var harmlessFiles = map[string]bool{"/dev/null": true, "/dev/stdout": true, "/dev/stderr": true, "/dev/stdin": true}

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

// scratch reports whether a word names a file in a directory of the sandbox's own.
func (a *analysis) scratch(w word) bool {
	name, reason := a.pathOf(w)
	if reason != "" || w.glob || a.dirs.anywhere && !strings.HasPrefix(name, "/") {
		return false
	}
	return !slices.ContainsFunc(a.knownDirs(name), func(dir string) bool { return !a.p.files.Private(name, dir) })
}
