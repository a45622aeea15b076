package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The walk finds every simple command and redirection of a script, those in syntax
// that is not listed as well, so that rules which deny see what can be seen.

// top walks one statement of a script that surely runs, once and in order. Only
// here does an assignment give a variable a value that is relied on.
func (a *analysis) top(s *syntax.Stmt) {
	a.stmt(s)
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Background || len(c.Args)+len(s.Redirs) > 0 { // dash assigns nothing where a redirection fails
		return
	}
	for _, as := range c.Assigns {
		if as.Value == nil || !plainAssign(as) || !a.vars.fixes(as.Name.Value) {
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
	if s == nil || !a.step() {
		return
	}
	defer func(before bool) { a.fed = before }(a.fed)
	for _, r := range s.Redirs {
		a.redirect(r)
		a.fed = a.fed || !hasField("> >> >| >& &> &>>", r.Op.String()) && literalText(r.Word) != "/dev/null"
	}
	if s.Background {
		defer a.fork()()
	}
	a.command(s.Cmd)
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

// inside walks the substitutions in any part of the tree.
func (a *analysis) inside(n syntax.Node) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if !a.charge(1) {
			return false
		}
		switch n := n.(type) {
		case *syntax.CmdSubst:
			a.subshell(n.Stmts)
			return false
		case *syntax.ProcSubst:
			a.subshell(n.Stmts)
			return false
		case *syntax.Assign:
			if n.Name != nil && n.Value != nil {
				a.noteVariable(n.Name.Value, a.fold(n.Value))
			}
		}
		return true
	})
}

// repeated walks code that runs an unknown number of times, or at another time. If it
// changes the directory, it begins its second round in another one: it is judged
// once more, from any.
func (a *analysis) repeated(walk func()) {
	before := a.dirs
	walk()
	if before.anywhere || len(a.dirs.known) == len(before.known) && !a.dirs.anywhere {
		return
	}
	a.dirs = dirSet{anywhere: true}
	walk()
	a.dirs = dirSet{anywhere: true}
}

func (a *analysis) command(c syntax.Command) {
	switch c := c.(type) {
	case nil: // redirections alone
	case *syntax.CallExpr:
		a.call(c)
	case *syntax.BinaryCmd:
		a.binary(c)
	case *syntax.Block:
		a.stmts(c.Stmts)
	case *syntax.Subshell:
		a.subshell(c.Stmts)
	case *syntax.IfClause:
		for ; c != nil; c = c.Else {
			a.stmts(c.Cond)
			a.stmts(c.Then)
		}
	case *syntax.WhileClause:
		a.repeated(func() { a.stmts(c.Cond); a.stmts(c.Do) })
	case *syntax.ForClause:
		a.forClause(c)
	case *syntax.CaseClause:
		a.inside(c.Word)
		for _, item := range c.Items {
			for _, p := range item.Patterns {
				a.inside(p)
			}
			a.stmts(item.Stmts)
		}
	case *syntax.TimeClause:
		a.stmt(c.Stmt)
	case *syntax.CoprocClause:
		a.stmt(c.Stmt)
	case *syntax.FuncDecl: // not listed
		a.dirs = dirSet{anywhere: true}
		a.stmt(c.Body)
	default:
		a.inside(c)
	}
}

func (a *analysis) binary(c *syntax.BinaryCmd) {
	if c.Op != syntax.AndStmt && c.Op != syntax.OrStmt { // a pipeline, each side of which is a child shell
		back := a.fork()
		a.stmt(c.X)
		back()
		defer back()
		defer func(before bool) { a.fed = before }(a.fed)
		a.fed = true
		a.stmt(c.Y)
		return
	}
	a.stmt(c.X)
	if c.Op == syntax.AndStmt && endsInCd(c.X) { // runs only if the cd succeeded
		before := a.dirs
		a.dirs = a.arrived
		a.stmt(c.Y)
		a.dirs = a.dirs.or(before)
		return
	}
	a.stmt(c.Y)
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

func (a *analysis) forClause(c *syntax.ForClause) {
	loop, ok := c.Loop.(*syntax.WordIter)
	if !ok {
		a.inside(c.Loop)
		a.repeated(func() { a.stmts(c.Do) })
		return
	}
	if items := a.words(loop.Items); !a.unroll(loop.Name.Value, items, c.Do) {
		a.repeated(func() { a.stmts(c.Do) })
	}
}

// unroll walks the body of a loop once for each of its words, if they are known
// and nothing else sets the variable.
func (a *analysis) unroll(name string, items []word, body []*syntax.Stmt) bool {
	if len(items) > maxUnroll || !a.vars.fixes(name) || slices.ContainsFunc(items, func(w word) bool { return w.dynamic || w.split || w.tilde }) {
		return false
	}
	for _, w := range items {
		a.vars.known[name] = w
		a.stmts(body)
	}
	delete(a.vars.known, name)
	return true
}

// value gives the value of an expansion where it is known.
func (a *analysis) value(p *syntax.ParamExp) (word, bool) {
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

// number recognises $?, $#, $$ and the length of a value: each is one word.
func number(p *syntax.ParamExp) bool {
	return p.Param != nil && (p.Length || simple(p) && strings.Contains("?#$", p.Param.Value))
}
