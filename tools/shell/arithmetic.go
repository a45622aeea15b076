package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const evaluates = "arithmetic that evaluates a value: it could hold a command"

// arithmetic walks an expression. Bash evaluates the value of a variable as an
// expression again, and a subscript in it may hold a command substitution, even
// one that was quoted where it came from: only what is surely a number passes.
func (a *analysis) arithmetic(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.BinaryArithm:
		a.arithmetic(x.X)
		a.arithmetic(x.Y)
	case *syntax.UnaryArithm:
		a.arithmetic(x.X)
	case *syntax.ParenArithm:
		a.arithmetic(x.X)
	case *syntax.Word:
		a.operand(x)
	default:
		a.ask(evaluates, "compute it another way")
	}
}

func (a *analysis) operand(w *syntax.Word) {
	text := w.Lit()
	switch {
	case text != "" && (isNumber(text) || a.numeric(text)):
	case a.numericParts(w.Parts):
	default:
		a.fold(w) // commands in it are still found
		a.ask(evaluates, "compute it another way")
	}
}

// numericParts reports whether each part of a word is a number, or expands to
// one.
func (a *analysis) numericParts(parts []syntax.WordPart) bool {
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if !isNumber(p.Value) {
				return false
			}
		case *syntax.ParamExp:
			if !a.numericExpansion(p) {
				return false
			}
		case *syntax.DblQuoted:
			if !a.numericParts(p.Parts) {
				return false
			}
		case *syntax.ArithmExp:
			a.arithmetic(p.X)
		default:
			return false
		}
	}
	return len(parts) > 0
}

func (a *analysis) numericExpansion(p *syntax.ParamExp) bool {
	if p.Length && p.Param != nil && p.Exp == nil && !p.Excl {
		a.subscript(p.Index)
		return true
	}
	if p.Param != nil && p.Index != nil && p.Exp == nil && p.Slice == nil && p.Repl == nil && !p.Excl {
		a.subscript(p.Index)
		return a.numeric(p.Param.Value)
	}
	return simple(p) && (strings.Contains("?#$!", p.Param.Value) || a.numeric(p.Param.Value))
}

// numeric reports whether a variable holds a number, or nothing, for certain.
func (a *analysis) numeric(name string) bool {
	if !isName(name) || a.vars.opaque {
		return false
	}
	if b, ok := a.vars.bound[name]; ok {
		return !b.other || a.knownNumber(name)
	}
	switch name {
	case "RANDOM", "SECONDS", "LINENO", "COLUMNS", "LINES", "UID", "EUID", "PPID", "BASHPID", "EPOCHSECONDS", "SHLVL":
		return true
	}
	// An unset variable is zero. Names in capitals may come with the
	// environment, or be set by the shell to a word of the command line, as "_".
	return name != "_" && strings.ToUpper(name) != name
}

func (a *analysis) knownNumber(name string) bool {
	v, ok := a.vars.known[name]
	return ok && v.fixed() && isNumber(v.text)
}

// subscript walks the index of an array. It is arithmetic, or the key of an
// associative array, and which of them is not known here.
func (a *analysis) subscript(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok && (w.Lit() == "@" || w.Lit() == "*") {
		return
	}
	a.arithmetic(x)
}
