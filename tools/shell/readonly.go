package shell

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/tools"
)

// operandKind is what the operands of a program are.
type operandKind int8

// operandKinds are the words for them in programs.txt.
const operandKinds = "none files data textfiles onefile revisions listing"

const (
	noOperands    operandKind = iota
	readFiles                 // files that it reads
	anyData                   // text
	dataThenFiles             // the first is text, unless an option gives it
	oneFile                   // one file that it reads; a second would be written
	revisions                 // revisions, paths and both
	listings                  // the same, of what only lists as long as it has none of them
)

// A readForm is the part of a program's options that only read and print.
// Everything that it does not list is not read-only.
type readForm struct {
	grammar
	operands operandKind
	// pairs and pathPairs list the options that take a name and a value, the
	// latter of which is a file to read.
	pairs, pathPairs string
	// gives lists the options that stand for the first operand of dataThenFiles.
	gives string
	pure  func(script string) bool // what a script may hold, of a program that has one
	// Of a listing: first are the words that may come first, needs are options one of
	// which lets operands be, and bare says that it lists without either.
	first, needs string
	bare         bool
}

// versionOnly recognises what asks a program for its version or its help.
func versionOnly(base string, rest []word) bool {
	return len(rest) == 1 && rest[0].fixed() && (hasField("--version --help", rest[0].text) || known().in("version:"+rest[0].text, base))
}

// notReadOnly says why a command is not of a form that only reads, inside the
// path rules.
func (a *analysis) notReadOnly(cmd simpleCommand) string {
	base, rest := a.baseName(cmd.words[0].text), cmd.words[1:]
	switch {
	case versionOnly(base, rest):
		return ""
	case base == "find":
		f := parseFind(rest)
		return a.orPaths(cmp.Or(f.runs, f.reason), base, f.paths)
	}
	name := base
	if known().subs[base] {
		var reason string
		if name, rest, reason = a.subcommand(base, rest); reason != "" || name == base {
			return reason
		}
	}
	form := known().reads[name]
	if form == nil {
		return strings.Replace(name, "/", " ", 1) + " has no known read-only form"
	}
	return a.holdAgainst(form, strings.Replace(name, "/", " ", 1), rest)
}

func (a *analysis) holdAgainst(form *readForm, base string, rest []word) string {
	if base == "echo" {
		return "" // it prints whatever it is given
	}
	if base == "strings" && slices.ContainsFunc(rest, func(w word) bool { return strings.HasPrefix(w.prefix(), "@") || !w.fixed() && w.prefix() == "" }) {
		return "@FILE adds the words in that file"
	}
	g := form.grammar
	g.lenient = known().inert[base]
	named := form.first != "" && len(rest) > 0 && rest[0].fixed() && hasField(form.first, rest[0].text)
	if named {
		rest = rest[1:]
	}
	rest, reason := a.takePairs(form, base, rest)
	if reason != "" {
		return reason
	}
	p, reason := g.parse(rest)
	if reason != "" {
		return base + ": " + reason
	}
	for _, o := range p.options {
		if o.path {
			if reason := a.unreadablePath(base, o.value); reason != "" {
				return reason
			}
		}
	}
	if reason := form.holdScript(p); reason != "" {
		return base + ": " + reason
	}
	switch {
	case form.operands != listings, named, form.needs != "" && p.has(strings.Fields(form.needs)...), form.bare && len(p.operands) == 0:
	case (base == "git symbolic-ref" || base == "git config") && len(p.operands) == 1:
	default:
		return base + " changes something"
	}
	return a.holdOperands(form, base, p)
}

// takePairs removes the options that take two words.
func (a *analysis) takePairs(form *readForm, base string, words []word) (rest []word, reason string) {
	if form.pairs == "" {
		return words, ""
	}
	for i := 0; i < len(words); i++ {
		w := words[i]
		isPath := w.fixed() && hasField(form.pathPairs, w.text)
		if !isPath && !(w.fixed() && hasField(form.pairs, w.text)) {
			rest = append(rest, w)
			continue
		}
		if i+2 >= len(words) || words[i+1].split || words[i+1].glob || words[i+2].split || words[i+2].glob {
			return nil, base + " " + w.text + ": its two values are not known before it runs"
		}
		if isPath {
			if reason = a.unreadablePath(base, words[i+2]); reason != "" {
				return nil, reason
			}
		}
		i += 2
	}
	return rest, ""
}

func (a *analysis) holdOperands(form *readForm, base string, p parsed) string {
	files := p.operands
	switch form.operands {
	case noOperands:
		if len(files) > 0 {
			return base + " with operands may change something"
		}
	case anyData:
		files = nil
	case oneFile:
		if len(files) > 1 || len(files) == 1 && files[0].glob {
			return base + " writes its second operand"
		}
	case revisions, listings: // one may be a path, or REVISION:PATH, and git diff compares any two files
		files = slices.Clone(files)
		for i, w := range files {
			if _, path, ok := strings.Cut(w.text, ":"); ok && w.fixed() && path != "" {
				files[i] = fixedWord(path)
			}
		}
	case dataThenFiles:
		if !p.has(strings.Fields(form.gives)...) && len(files) > 0 {
			if files[0].split || files[0].glob {
				return base + ": a word that could become several"
			}
			files = files[1:]
		}
	}
	return a.orPaths("", base, files)
}

// orPaths gives reason, or why one of the files may not be read.
func (a *analysis) orPaths(reason, base string, files []word) string {
	for i := 0; reason == "" && i < len(files); i++ {
		reason = a.unreadablePath(base, files[i])
	}
	return reason
}

func (a *analysis) unreadablePath(base string, w word) string {
	if w.stream || w.fixed() && (w.text == "-" || harmlessFiles[w.text]) {
		return ""
	}
	effect, reason, _ := a.checkPath(w, false)
	if effect == tools.Allow {
		return ""
	}
	return base + " " + w.String() + ": " + reason
}
