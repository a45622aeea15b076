package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// vars is what is certain about the variables of one script: the value that a plain
// assignment or a loop gives, where nothing else could have changed it.
type vars struct {
	count map[string]int // the places that set a variable
	// opaque: something in the script may set variables that are not named here.
	opaque bool
	known  map[string]word // values in force at this point of the walk
	named  []string        // what may be set, wherever
}

// fixes reports whether a variable can be known by its one assignment. Names without
// a lower-case letter are left out: bash and the environment use those.
func (v *vars) fixes(name string) bool {
	return !v.opaque && v.count[name] == 1 && strings.ToUpper(name) != name
}

// assignments finds what a script of listed syntax sets. It is opaque unless every
// command in it is spelled plainly, and is none that sets variables.
func assignments(f *syntax.File) vars {
	v := vars{count: map[string]int{}, known: map[string]word{}}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				v.count[n.Name.Value]++
				v.named = append(v.named, n.Name.Value)
			}
		case *syntax.WordIter:
			v.count[n.Name.Value]++
			v.named = append(v.named, n.Name.Value)
		case *syntax.CallExpr:
			if len(n.Args) == 0 || setsNothing(n.Args) {
				break
			}
			v.opaque = true
			for _, w := range n.Args[1:] {
				v.named = append(v.named, literalText(w))
			}
		}
		return true
	})
	return v
}

// setsNothing reports whether a command surely sets no variable of the shell's.
func setsNothing(words []*syntax.Word) bool {
	name := words[0].Lit()
	return name != "" && !strings.ContainsAny(name, "\\{*?[") && // of printf see there
		(hasField(": [ test echo printf true false pwd exit return break continue cd kill", name) || !known().in("builtins", name))
}

// literalText is the value of a word made of plain and quoted text only, "" of any
// other.
func literalText(w *syntax.Word) string {
	var b strings.Builder
	if slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool { return !appendLiteral(&b, p) }) {
		return ""
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
		return !slices.ContainsFunc(p.Parts, func(q syntax.WordPart) bool { return !appendLiteral(b, q) })
	default:
		return false
	}
	return true
}

func isName(s string) bool { return delimiter().MatchString(s) }
