package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// vars is what is certain about the variables of one script. A variable has a
// known value only where nothing else in the script could have changed it.
type vars struct {
	bound map[string]binding
	// opaque: something in the script changes variables that cannot be named.
	opaque bool
	funcs  bool
	// swallowed: the parser took a line for part of a comment, as it does where
	// the comment's own line ends in a backslash. Bash does not.
	swallowed bool
	known     map[string]word // values in force at this point of the walk
}

// A binding counts the places of a script that give a variable a value.
type binding struct {
	count int
	other bool // one of them gives what need not be a number
}

// fixes reports whether name can be known by its one assignment. Names without
// a lower-case letter are left out: bash and the environment use those.
func (v *vars) fixes(name string, most int) bool {
	return !v.opaque && v.bound[name].count <= most && strings.ToUpper(name) != name
}

// bindings finds every place of a script that sets a variable.
func bindings(n syntax.Node) vars {
	v := vars{bound: map[string]binding{}, known: map[string]word{}}
	syntax.Walk(n, func(n syntax.Node) bool {
		v.visit(n)
		return true
	})
	return v
}

func (v *vars) visit(n syntax.Node) {
	switch n := n.(type) {
	case *syntax.Assign:
		if n.Name != nil {
			v.bind(n.Name.Value, !numericAssign(n))
		} else {
			v.opaque = true
		}
	case *syntax.WordIter:
		v.bind(n.Name.Value, true)
	case *syntax.ParamExp:
		if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
			v.bind(n.Param.Value, true)
		}
	case *syntax.Redirect:
		if n.N != nil && strings.HasPrefix(n.N.Value, "{") {
			v.bind(strings.Trim(n.N.Value, "{}"), false)
		}
	case *syntax.BinaryArithm:
		v.bindArithm(n.X)
	case *syntax.UnaryArithm:
		v.bindArithm(n.X)
	case *syntax.Comment:
		v.swallowed = v.swallowed || strings.Contains(n.Text, "\n")
	case *syntax.FuncDecl:
		v.funcs = true
	case *syntax.CoprocClause:
		v.opaque = true
	case *syntax.CallExpr:
		v.visitCall(n)
	}
}

func (v *vars) bind(name string, other bool) {
	b := v.bound[name]
	v.bound[name] = binding{b.count + 1, b.other || other}
}

// bindArithm takes every variable that is an operand for one that is assigned
// to: what arithmetic assigns is a number.
func (v *vars) bindArithm(x syntax.ArithmExpr) {
	if w, ok := x.(*syntax.Word); ok && isName(w.Lit()) {
		v.bind(w.Lit(), false)
	}
}

// visitCall finds the variables that a built-in sets by name.
func (v *vars) visitCall(c *syntax.CallExpr) {
	if len(c.Args) == 0 {
		return
	}
	switch literalText(c.Args[0]) {
	case "read", "mapfile", "readarray", "printf", "getopts", "wait", "unset", "builtin", "command":
		for _, w := range c.Args[1:] {
			v.bindOperand(literalText(w))
		}
	case "eval", "source", ".", "trap", "export", "declare", "local", "typeset", "readonly", "let", "alias", "enable", "shopt":
		v.opaque = true
	}
}

func (v *vars) bindOperand(s string) {
	switch {
	case s == "":
		v.opaque = true // not a literal
	case isName(s):
		v.bind(s, true)
	case strings.HasPrefix(s, "-") && len(s) > 2:
		v.bind(s[2:], true) // -vNAME
	}
}

// numericAssign reports whether the value assigned is a number for certain, so
// that arithmetic on the variable evaluates nothing else.
func numericAssign(n *syntax.Assign) bool {
	if n.Array != nil || n.Index != nil || n.Value == nil {
		return false
	}
	if len(n.Value.Parts) == 1 {
		switch p := n.Value.Parts[0].(type) {
		case *syntax.ArithmExp:
			return true
		case *syntax.ParamExp:
			return p.Length
		}
	}
	return isNumber(literalText(n.Value))
}

// literalText is the value of a word made of plain and quoted text only, "" of
// any other.
func literalText(w *syntax.Word) string {
	var b strings.Builder
	for _, p := range w.Parts {
		if !appendLiteral(&b, p) {
			return ""
		}
	}
	return b.String()
}

func appendLiteral(b *strings.Builder, p syntax.WordPart) bool {
	switch p := p.(type) {
	case *syntax.Lit:
		b.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
	case *syntax.SglQuoted:
		b.WriteString(p.Value)
		return !p.Dollar
	case *syntax.DblQuoted:
		for _, q := range p.Parts {
			if !appendLiteral(b, q) {
				return false
			}
		}
	default:
		return false
	}
	return true
}

func isName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// isNumber accepts what arithmetic takes for a number and nothing else:
// decimal, hexadecimal, and base#digits.
func isNumber(s string) bool {
	s = strings.TrimLeft(s, "-+")
	if s == "" || s[0] < '0' || s[0] > '9' {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '#' {
			return false
		}
	}
	return true
}
