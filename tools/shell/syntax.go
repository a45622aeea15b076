package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A dialect is the language of a script. Its zero value has no reader here.
type dialect int8

const (
	foreign dialect = iota
	bash
	posix // what bash and dash read alike
)

// dialectOf is the language that a shell reads. What sh is depends on the system.
func (p *Policy) dialectOf(shell string) dialect {
	if shell == "sh" {
		shell = p.programs.Sh()
	}
	switch shell {
	case "bash", "":
		return bash
	case "dash":
		return posix
	}
	return foreign
}

// A listing holds a syntax tree against the syntax that is listed here with its
// meaning. Whatever is not listed makes the script unanalysed: parsers differ in the
// corners of the language, and what one takes for text another runs.
type listing struct {
	src    string
	lang   dialect
	reason string // the first thing that is not listed
}

// unlisted says what in a script is not listed, or "".
func unlisted(src string, f *syntax.File, lang dialect) string {
	l := listing{src: src, lang: lang}
	syntax.Walk(f, l.node)
	return l.reason
}

func (l *listing) needs(ok bool, otherwise string) bool {
	if !ok && l.reason == "" {
		l.reason = otherwise
	}
	return ok
}

// node reports whether to go on below a node.
func (l *listing) node(n syntax.Node) bool {
	switch n := n.(type) {
	case nil, *syntax.File, *syntax.CallExpr, *syntax.Subshell, *syntax.Block, *syntax.BinaryCmd, *syntax.IfClause, *syntax.WhileClause,
		*syntax.CaseItem, *syntax.TimeClause, *syntax.TestClause, *syntax.ParenTest, *syntax.SglQuoted, *syntax.WordIter:
		return l.reason == ""
	case *syntax.Stmt:
		return l.needs(!n.Coprocess && !n.Disown, "syntax of another shell")
	case *syntax.Comment: // bash ends it with the line, and the parser does not
		return l.needs(!strings.Contains(n.Text, "\n"), "a comment that ends with a backslash")
	case *syntax.ForClause:
		w, ok := n.Loop.(*syntax.WordIter)
		return l.needs(ok && !n.Select && !n.Braces && w.InPos.IsValid(), "a loop that is not `for NAME in WORDS`") && l.needs(ofTheLine(w.Name.Value), notOfTheLine)
	case *syntax.CaseClause:
		return l.needs(!n.Braces, "syntax of another shell")
	case *syntax.Assign:
		return l.needs(plainAssign(n), "an assignment that is not NAME=VALUE") && l.needs(l.harmless(n) || ofTheLine(n.Name.Value), notOfTheLine)
	case *syntax.DeclClause:
		return l.needs(l.exports(n), n.Variant.Value+" changes how values are evaluated, or what later commands do")
	case *syntax.Redirect:
		return l.redirect(n)
	case *syntax.Word:
		return l.braces(n)
	case *syntax.Lit: // inside ${...} the parser takes <(...) for text
		return l.needs(!strings.Contains(n.Value, "<(") && !strings.Contains(n.Value, ">("), "a process substitution where it is easily missed")
	case *syntax.DblQuoted:
		l.needs(!n.Dollar, "a translated string")
		l.quoted(n.Parts)
		return false
	case *syntax.ParamExp:
		l.needs(plainExpansion(n), "an expansion that may evaluate its value")
		return false
	case *syntax.CmdSubst:
		return l.needs(!n.TempFile && !n.ReplyVar && (!n.Backquotes || l.plainBackquotes(n)), "backquotes around more than plain words") &&
			l.needs(bodiesWithin(n, n.Right), bodyOutside)
	case *syntax.ProcSubst:
		return l.needs(n.Op == syntax.CmdIn, "a process substitution for writing") && l.needs(bodiesWithin(n, n.Rparen), bodyOutside)
	case *syntax.ArithmExp:
		l.needs(!n.Bracket && !n.Unsigned && literalArithm(n.X), evaluates)
		return false
	case *syntax.ArithmCmd:
		l.needs(!n.Unsigned && literalArithm(n.X), evaluates)
		return false
	case *syntax.UnaryTest:
		return l.needs(unaryTestOps[n.Op], "a test that evaluates its operand")
	case *syntax.BinaryTest:
		return l.binaryTest(n)
	}
	return l.needs(false, "syntax that is not analysed")
}

const evaluates = "arithmetic on more than plain numbers: a value in it could contain a command"

// plainAssign accepts NAME=VALUE: no array, no element, nothing appended.
func plainAssign(as *syntax.Assign) bool {
	return as.Name != nil && !as.Naked && !as.Append && as.Index == nil && as.Array == nil
}

const notOfTheLine = "a variable whose name is not in lower case: the shell or a program may use its value for more than text"

// harmless accepts an assignment of text that is there to be seen, to a variable of which all
// programs make no more than that.
func (l *listing) harmless(as *syntax.Assign) bool {
	text := ""
	if as.Value != nil {
		text = strings.Trim(l.src[as.Value.Pos().Offset():as.Value.End().Offset()], `"'`)
	}
	return plainAssign(as) && harmless(as.Name.Value, fixedWord(text))
}

// exports accepts `export` of assignments that are harmless to every program.
func (l *listing) exports(d *syntax.DeclClause) bool {
	return d.Variant.Value == "export" && len(d.Args) > 0 && !slices.ContainsFunc(d.Args, func(as *syntax.Assign) bool { return !l.harmless(as) })
}

var delimiter = lazily(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (l *listing) redirect(r *syntax.Redirect) bool {
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		l.needs(l.hereDocument(r), "a here-document whose end marker is not plain letters on its own line")
		if r.Hdoc != nil && r.Word.Lit() != "" { // else it is data
			l.quoted(r.Hdoc.Parts)
		}
		return false
	case syntax.RdrIn, syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.RdrInOut, syntax.DplIn, syntax.DplOut, syntax.WordHdoc:
		return l.needs(r.N == nil || isDigits(r.N.Value), "a redirection that sets a variable")
	}
	return l.needs(false, "a redirection that is not analysed")
}

// hereDocument holds the end of a here-document to what every shell sees: letters,
// quoted at most as a whole, on a line of their own.
func (l *listing) hereDocument(r *syntax.Redirect) bool {
	if len(r.Word.Parts) != 1 || r.Hdoc == nil || r.N != nil && !isDigits(r.N.Value) {
		return false
	}
	word := ""
	switch p := r.Word.Parts[0].(type) {
	case *syntax.Lit:
		word = p.Value
	case *syntax.SglQuoted:
		if word = p.Value; p.Dollar {
			return false
		}
	case *syntax.DblQuoted:
		if word = literalText(r.Word); p.Dollar {
			return false
		}
	}
	end := min(int(r.Hdoc.End().Offset()), len(l.src))
	before, ok := strings.CutSuffix(l.src[:end], word)
	if r.Op == syntax.DashHdoc {
		before = strings.TrimRight(before, "\t")
	}
	return ok && delimiter().MatchString(word) && strings.HasSuffix(before, "\n") && (end == len(l.src) || l.src[end] == '\n')
}

const bodyOutside = "a here-document in a substitution that ends before the document"

// bodiesWithin reports whether every here-document of a substitution lies in it: dash
// looks for it nowhere else, and runs the lines after the substitution.
func bodiesWithin(n syntax.Node, end syntax.Pos) bool {
	within := true
	syntax.Walk(n, func(n syntax.Node) bool {
		if r, ok := n.(*syntax.Redirect); ok && r.Hdoc != nil && r.Hdoc.End().After(end) {
			within = false
		}
		return within
	})
	return within
}

// quoted looks at the parts of a text in which only substitutions have a meaning.
func (l *listing) quoted(parts []syntax.WordPart) {
	for _, p := range parts {
		if _, ok := p.(*syntax.Lit); !ok {
			syntax.Walk(p, l.node)
		}
	}
}

var (
	plainBraces   = lazily(`^[A-Za-z0-9_./*@%:+-]*\{[A-Za-z0-9_./*@%:+,-]*\}[A-Za-z0-9_./*@%:+-]*$`)
	literalBraces = lazily(`^[^{}]*(\{[^{},.]*\}[^{}]*)*$`)
)

// braces accepts braces that bash leaves alone, since they hold neither a comma nor
// two dots, and plain ones. To dash all of them are text.
func (l *listing) braces(w *syntax.Word) bool {
	var lit strings.Builder
	for _, p := range w.Parts {
		if p, ok := p.(*syntax.Lit); ok {
			lit.WriteString(p.Value)
		}
	}
	text := lit.String()
	plain := len(w.Parts) == 1 && plainBraces().MatchString(text) && l.lang == bash
	return l.needs(plain || literalBraces().MatchString(text), "braces that expand")
}

// plainOperand accepts no more of a word inside an expansion than text without quotes.
func plainOperand(w *syntax.Word) bool {
	if w == nil || len(w.Parts) == 0 {
		return true
	}
	l, ok := w.Parts[0].(*syntax.Lit)
	return ok && len(w.Parts) == 1 && !strings.ContainsAny(l.Value, "\\'\"`$~{}()<>\n&|;!")
}

var plainOps = map[syntax.ParExpOperator]bool{
	syntax.AlternateUnset: true, syntax.AlternateUnsetOrNull: true, syntax.DefaultUnset: true, syntax.DefaultUnsetOrNull: true,
	syntax.RemSmallPrefix: true, syntax.RemLargePrefix: true, syntax.RemSmallSuffix: true, syntax.RemLargeSuffix: true,
}

// plainExpansion accepts the value of a variable, its length, a default or an
// alternative, parts cut off or replaced, all by plain text, and all of an array.
func plainExpansion(p *syntax.ParamExp) bool {
	switch {
	case p.Param == nil, p.NestedParam != nil, p.Flags != nil, p.Excl, p.Width, p.IsSet, p.Split+p.GlobSubst+p.RcExpand != syntax.OptUnset,
		len(p.Modifiers) > 0, p.Names != 0:
		return false
	case p.Index != nil && !allOf(p.Index):
		return false
	case p.Slice != nil:
		return literalArithm(p.Slice.Offset) && literalArithm(p.Slice.Length)
	case p.Repl != nil:
		return plainOperand(p.Repl.Orig) && plainOperand(p.Repl.With)
	case p.Exp != nil:
		return plainOps[p.Exp.Op] && plainOperand(p.Exp.Word)
	}
	return true
}

// allOf recognises the subscripts @ and *.
func allOf(x syntax.ArithmExpr) bool {
	w, ok := x.(*syntax.Word)
	return ok && (w.Lit() == "@" || w.Lit() == "*")
}

// plainBackquotes accepts words without a character that shells read in several ways
// between backquotes.
func (l *listing) plainBackquotes(c *syntax.CmdSubst) bool {
	from, to := int(c.Left.Offset())+1, int(c.Right.Offset())
	return from <= to && to <= len(l.src) && !strings.ContainsAny(l.src[from:to], "\\'\"`$#<\n")
}

// literalArithm accepts numbers and operators. Bash evaluates the value of a variable
// as an expression again, and a subscript in it may hold a command, even one that was
// quoted where it came from.
func literalArithm(x syntax.ArithmExpr) bool {
	switch x := x.(type) {
	case nil:
		return true
	case *syntax.BinaryArithm:
		return literalArithm(x.X) && literalArithm(x.Y)
	case *syntax.UnaryArithm:
		return literalArithm(x.X)
	case *syntax.ParenArithm:
		return literalArithm(x.X)
	case *syntax.Word:
		return isDigits(x.Lit())
	}
	return false
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

var unaryTestOps = map[syntax.UnTestOperator]bool{
	syntax.TsExists: true, syntax.TsRegFile: true, syntax.TsDirect: true, syntax.TsCharSp: true, syntax.TsBlckSp: true, syntax.TsNmPipe: true,
	syntax.TsSocket: true, syntax.TsSmbLink: true, syntax.TsRead: true, syntax.TsWrite: true, syntax.TsExec: true, syntax.TsNoEmpty: true,
	syntax.TsEmpStr: true, syntax.TsNempStr: true, syntax.TsNot: true,
}

// binaryTest accepts comparisons of text and of files, and of numbers that are there
// to be seen.
func (l *listing) binaryTest(t *syntax.BinaryTest) bool {
	switch t.Op {
	case syntax.AndTest, syntax.OrTest, syntax.TsMatch, syntax.TsMatchShort, syntax.TsNoMatch, syntax.TsBefore, syntax.TsAfter,
		syntax.TsNewer, syntax.TsOlder, syntax.TsDevIno:
		return true
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		x, isWord := t.X.(*syntax.Word)
		y, isWordToo := t.Y.(*syntax.Word)
		return l.needs(isWord && isWordToo && isDigits(x.Lit()) && isDigits(y.Lit()), evaluates)
	}
	return l.needs(false, "a test that is not analysed")
}
