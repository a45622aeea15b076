package highlight

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shellLines is Lines for a command line or a script of bash, by the reader that the shell tool
// decides with: what that does not take for a comment or a string has the colour of neither. A text
// that it cannot read is plain, and so is one with characters that are shown as others: what is read
// here is not what runs then.
func shellLines(text string) [][]Part {
	for _, shown := range []string{"<U+", "<0x", "→", "\r"} {
		if strings.Contains(text, shown) {
			return nil
		}
	}
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash), syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil
	}
	type span struct {
		from, to int
		kind     Kind
	}
	var spans []span
	add := func(k Kind, from, to syntax.Pos) {
		spans = append(spans, span{int(from.Offset()), int(to.Offset()), k})
	}
	operator := func(at syntax.Pos, op string) {
		spans = append(spans, span{int(at.Offset()), int(at.Offset()) + len(op), Operator})
	}
	keywords := func(all ...syntax.Pos) {
		for _, at := range all {
			if from := int(at.Offset()); at.IsValid() && from < len(text) {
				word := len(text[from:]) - len(strings.TrimLeft(text[from:], "abcdefghijklmnopqrstuvwxyz"))
				spans = append(spans, span{from, from + word, Keyword})
			}
		}
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Comment:
			add(Comment, n.Pos(), n.End())
		case *syntax.SglQuoted:
			add(String, n.Pos(), n.End())
		case *syntax.DblQuoted: // what is substituted in it runs
			for _, part := range n.Parts {
				if _, ok := part.(*syntax.Lit); ok {
					add(String, part.Pos(), part.End())
				}
			}
		case *syntax.IfClause:
			keywords(n.Position, n.ThenPos, n.FiPos)
		case *syntax.WhileClause:
			keywords(n.WhilePos, n.DoPos, n.DonePos)
		case *syntax.ForClause:
			keywords(n.ForPos, n.DoPos, n.DonePos)
		case *syntax.CaseClause:
			keywords(n.Case, n.In, n.Esac)
		case *syntax.BinaryCmd:
			operator(n.OpPos, n.Op.String())
		case *syntax.Redirect:
			operator(n.OpPos, n.Op.String())
		}
		return true
	})
	slices.SortStableFunc(spans, func(a, b span) int { return a.from - b.from })
	lines, end := [][]Part{nil}, 0
	for _, s := range spans {
		if s.from < end || s.to < s.from || s.to > len(text) {
			continue
		}
		lines = appendPart(appendPart(lines, Part{Text: text[end:s.from]}), Part{text[s.from:s.to], s.kind})
		end = s.to
	}
	return appendPart(lines, Part{Text: text[end:]})
}
