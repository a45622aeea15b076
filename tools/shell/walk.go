package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// top walks one statement of a script that surely runs, once and in order. Only
// here does an assignment give a variable a value that is relied on.
func (a *analysis) top(s *syntax.Stmt) {
	a.stmt(s)
	if f, ok := s.Cmd.(*syntax.FuncDecl); ok && f.Name != nil && !s.Background && a.depth == 1 {
		a.funcs[f.Name.Value] = true
	}
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Background || len(c.Args) > 0 {
		return
	}
	for _, as := range c.Assigns {
		if as.Value == nil || as.Append || as.Index != nil || !a.vars.fixes(as.Name.Value, 1) {
			continue
		}
		if v := a.fold(as.Value); v.fixed() && !v.tilde {
			a.vars.known[as.Name.Value] = v
		}
	}
}

func (a *analysis) stmts(list []*syntax.Stmt) {
	for _, s := range list {
		a.stmt(s)
	}
}

func (a *analysis) stmt(s *syntax.Stmt) {
	if !a.step() {
		return
	}
	if s.Coprocess || s.Disown {
		a.ask("syntax of another shell", "write it for bash")
	}
	var in stdin
	for _, r := range s.Redirs {
		a.redirect(r, &in)
	}
	if s.Background {
		defer a.fork()()
	}
	a.command(s.Cmd, in)
}

// fork notes the state that a child shell starts with, and gives the function
// that returns to it: what the child does to its directory ends with it.
func (a *analysis) fork() func() {
	dirs := a.dirs
	return func() { a.dirs = dirs }
}

// subshell walks statements that run in a child shell.
func (a *analysis) subshell(list []*syntax.Stmt) {
	defer a.fork()()
	a.stmts(list)
}

func (a *analysis) substitution(c *syntax.CmdSubst) {
	if c.TempFile || c.ReplyVar {
		a.ask("a substitution that runs in the same shell is not analysed", "use $(...)")
	}
	a.subshell(c.Stmts)
}

// repeated walks code that runs an unknown number of times, or at another time:
// a directory that it changes to is then any.
func (a *analysis) repeated(walk func()) {
	a.loose++
	before := len(a.dirs.known)
	walk()
	if len(a.dirs.known) != before {
		a.dirs = dirSet{anywhere: true}
	}
	a.loose--
}

// command walks a command of any kind. Every kind of the grammar is listed: one
// that is not is asked about.
func (a *analysis) command(c syntax.Command, in stdin) {
	switch c := c.(type) {
	case nil: // redirections alone
	case *syntax.CallExpr:
		a.call(c, in)
	case *syntax.BinaryCmd:
		a.binary(c)
	case *syntax.Block:
		a.stmts(c.Stmts)
	case *syntax.Subshell:
		a.subshell(c.Stmts)
	case *syntax.IfClause:
		a.ifClause(c)
	case *syntax.WhileClause:
		a.repeated(func() { a.stmts(c.Cond); a.stmts(c.Do) })
	case *syntax.ForClause:
		a.forClause(c)
	case *syntax.CaseClause:
		a.caseClause(c)
	case *syntax.FuncDecl:
		a.function(c)
	case *syntax.ArithmCmd:
		a.arithmetic(c.X)
	case *syntax.LetClause:
		a.let(c)
	case *syntax.TestClause:
		a.test(c.X)
	case *syntax.DeclClause:
		a.declare(c)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			a.stmt(c.Stmt)
		}
	case *syntax.CoprocClause:
		a.ask("a coprocess", "run the command in the foreground")
		a.stmt(c.Stmt)
	default:
		a.ask("syntax that is not analysed", "use simpler syntax")
	}
}

// let walks the words of let. The parser reads "let x=1&&rm" as one expression,
// and bash, for which let is a command like others, as two commands.
func (a *analysis) let(c *syntax.LetClause) {
	for _, x := range c.Exprs {
		a.arithmetic(x)
	}
	from, to := int(c.Pos().Offset()), int(c.End().Offset())
	if text := a.source[min(from, len(a.source)):min(to, len(a.source))]; strings.ContainsAny(text, "&|;<>()\n") {
		a.ask("let with an operator that ends the command", "use $((...))")
		_, words, _ := strings.Cut(text, "let")
		a.parsed(": " + words) // rules that deny see what bash makes of it
	}
}

func (a *analysis) binary(c *syntax.BinaryCmd) {
	if c.Op == syntax.AndStmt || c.Op == syntax.OrStmt {
		a.stmt(c.X)
		if c.Op == syntax.AndStmt && endsInCd(c.X) {
			a.afterCd(c.Y)
			return
		}
		a.stmt(c.Y)
		return
	}
	a.pipe(c)
}

// afterCd walks what runs only if a cd before it succeeded.
func (a *analysis) afterCd(s *syntax.Stmt) {
	before := a.dirs
	a.dirs = a.arrived
	a.stmt(s)
	a.dirs = a.dirs.or(before)
}

// endsInCd reports whether the last thing that a statement does, if it succeeds,
// is a cd.
func endsInCd(s *syntax.Stmt) bool {
	if s.Negated || s.Background || len(s.Redirs) > 0 {
		return false
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		return len(c.Args) > 0 && literalText(c.Args[0]) == "cd"
	case *syntax.BinaryCmd:
		return c.Op == syntax.AndStmt && endsInCd(c.Y)
	}
	return false
}

// pipe walks the sides of a pipeline, each of which is a child shell.
func (a *analysis) pipe(c *syntax.BinaryCmd) {
	back := a.fork()
	a.stmt(c.X)
	back()
	defer back()
	a.stmt(c.Y)
}

func (a *analysis) ifClause(c *syntax.IfClause) {
	for ; c != nil; c = c.Else {
		a.stmts(c.Cond)
		a.stmts(c.Then)
	}
}

func (a *analysis) forClause(c *syntax.ForClause) {
	if loop, ok := c.Loop.(*syntax.CStyleLoop); ok {
		for _, x := range []syntax.ArithmExpr{loop.Init, loop.Cond, loop.Post} {
			a.arithmetic(x)
		}
		a.repeated(func() { a.stmts(c.Do) })
		return
	}
	loop, ok := c.Loop.(*syntax.WordIter)
	if !ok || c.Select {
		a.ask("a loop that is not analysed", "write the commands out")
	}
	if !ok {
		return
	}
	if e := classify(loop.Name.Value, word{dynamic: true}); e == envDangerous {
		a.ask("the loop sets "+loop.Name.Value, "use another variable name")
	}
	items := a.words(loop.Items)
	if c.Select || !loop.InPos.IsValid() || !a.unroll(loop.Name.Value, items, c.Do) {
		a.repeated(func() { a.stmts(c.Do) })
	}
}

// unroll walks the body of a loop once for each of its words, if they are known
// and nothing else sets the variable meanwhile.
func (a *analysis) unroll(name string, items []word, body []*syntax.Stmt) bool {
	if len(items) > maxUnroll || !a.loopFixes(name, body) {
		return false
	}
	for _, w := range items {
		if w.dynamic || w.split || w.tilde {
			return false
		}
	}
	before, had := a.vars.known[name]
	for _, w := range items {
		a.vars.known[name] = w
		a.stmts(body)
	}
	delete(a.vars.known, name)
	if had && len(items) == 0 {
		a.vars.known[name] = before
	}
	return true
}

func (a *analysis) loopFixes(name string, body []*syntax.Stmt) bool {
	if a.vars.funcs {
		return a.vars.fixes(name, 1)
	}
	if a.vars.opaque || strings.ToUpper(name) == name {
		return false
	}
	for _, s := range body {
		inner := bindings(s)
		if inner.opaque || inner.bound[name].count > 0 {
			return false
		}
	}
	return true
}

func (a *analysis) caseClause(c *syntax.CaseClause) {
	a.fold(c.Word)
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			a.fold(p)
		}
		a.stmts(item.Stmts)
	}
}

// function walks the body of a function where it is declared. A call is then as
// good as its body; but a name that a rule or this package gives a meaning to is
// not to be redefined.
func (a *analysis) function(c *syntax.FuncDecl) {
	if c.Name == nil || a.hasMeaning(c.Name.Value) {
		a.ask("a function takes the name of a command", "give it another name")
	}
	outer := a.vars.known
	a.vars.known = map[string]word{}
	a.repeated(func() {
		dirs := a.dirs
		a.dirs = dirSet{anywhere: true} // it runs where it is called from
		a.stmt(c.Body)
		a.dirs = dirs
	})
	a.vars.known = outer
	if changesDir(c.Body) {
		a.dirs = dirSet{anywhere: true}
	}
}

func changesDir(n syntax.Node) bool {
	found := false
	syntax.Walk(n, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 && literalText(c.Args[0]) == "cd" {
			found = true
		}
		return !found
	})
	return found
}

// hasMeaning reports whether a command of this name is judged by its name.
func (a *analysis) hasMeaning(name string) bool {
	if a.p.names(name) || slices.ContainsFunc(a.p.answers, func(r compiledRule) bool { return r.words[0] == name }) {
		return true
	}
	return builtin(name) != nil || wrapperFor(name) != nil || strings.ContainsAny(name, "/[:.") || specialBuiltins[name]
}

// expansion walks a parameter expansion and gives its value where it is known.
func (a *analysis) expansion(p *syntax.ParamExp) (word, bool) {
	if p.NestedParam != nil || p.Flags != nil || p.Width || p.IsSet || len(p.Modifiers) > 0 {
		a.ask("an expansion of another shell", "write it for bash")
	}
	if p.Excl && p.Names == 0 && !keysOnly(p) {
		a.ask("an indirect expansion: the name of the variable is computed", "name the variable")
	}
	a.subscript(p.Index)
	if p.Slice != nil {
		a.arithmetic(p.Slice.Offset)
		a.arithmetic(p.Slice.Length)
	}
	if p.Repl != nil {
		a.foldAll(p.Repl.Orig, p.Repl.With)
	}
	if p.Exp != nil {
		a.operation(p)
	}
	if !simple(p) {
		return word{}, false
	}
	v, ok := a.vars.known[p.Param.Value]
	return v, ok
}

func simple(p *syntax.ParamExp) bool {
	return p.Param != nil && !p.Excl && !p.Length && p.Index == nil && p.Slice == nil &&
		p.Repl == nil && p.Exp == nil && p.Names == 0
}

// keysOnly recognises ${!a[@]} and ${!a[*]}, which list the keys of an array.
func keysOnly(p *syntax.ParamExp) bool {
	w, ok := p.Index.(*syntax.Word)
	return ok && (w.Lit() == "@" || w.Lit() == "*")
}

func (a *analysis) operation(p *syntax.ParamExp) {
	a.foldAll(p.Exp.Word)
	switch p.Exp.Op {
	case syntax.OtherParamOps:
		// @P expands the value once more as a prompt, command substitutions
		// included.
		if op := literalText(p.Exp.Word); op == "" || strings.Trim(op, "QULuakK") != "" {
			a.ask("an expansion that evaluates the value", "use the value as it is")
		}
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if p.Param != nil && classify(p.Param.Value, word{dynamic: true}) == envDangerous {
			a.ask("sets "+p.Param.Value, "leave the variable alone")
		}
	}
}

func (a *analysis) foldAll(ws ...*syntax.Word) {
	for _, w := range ws {
		if w != nil {
			a.fold(w)
		}
	}
}

// test walks [[ ]], whose -v and number comparisons evaluate their operands.
func (a *analysis) test(x syntax.TestExpr) {
	switch x := x.(type) {
	case *syntax.Word:
		a.fold(x)
	case *syntax.ParenTest:
		a.test(x.X)
	case *syntax.UnaryTest:
		a.unaryTest(x)
	case *syntax.BinaryTest:
		a.binaryTest(x)
	default:
		a.ask("a test that is not analysed", "use simpler syntax")
	}
}

func (a *analysis) unaryTest(x *syntax.UnaryTest) {
	w, ok := x.X.(*syntax.Word)
	if !ok || x.Op != syntax.TsVarSet && x.Op != syntax.TsRefVar {
		a.test(x.X)
		return
	}
	if v := a.fold(w); !v.fixed() || !isName(v.text) {
		a.ask("a test that evaluates a subscript", "test a plain variable name")
	}
}

func (a *analysis) binaryTest(x *syntax.BinaryTest) {
	switch x.Op {
	case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
		for _, side := range []syntax.TestExpr{x.X, x.Y} {
			if w, ok := side.(*syntax.Word); ok {
				a.arithmetic(w)
			} else {
				a.test(side)
			}
		}
	default:
		a.test(x.X)
		a.test(x.Y)
	}
}
