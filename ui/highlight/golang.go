package highlight

import (
	"go/scanner"
	"go/token"
)

// goLines is Lines for Go, whose own scanner is at hand. Text that is not Go gives
// odd parts, and all of them.
func goLines(text string) [][]Part {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, []byte(text), func(token.Position, string) {}, scanner.ScanComments)
	lines, end := [][]Part{nil}, 0
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return appendPart(lines, Part{Text: text[end:]})
		}
		if tok == token.SEMICOLON && literal != ";" || literal == "" && !tok.IsOperator() {
			continue // a semicolon that is not there
		}
		if literal == "" {
			literal = tok.String()
		}
		at := file.Offset(pos)
		if at < end || at+len(literal) > len(text) {
			return nil
		}
		lines = appendPart(lines, Part{Text: text[end:at]})
		end = at + len(literal)
		lines = appendPart(lines, Part{text[at:end], goKind(tok)})
	}
}

func goKind(tok token.Token) Kind {
	switch {
	case tok == token.COMMENT:
		return Comment
	case tok == token.STRING, tok == token.CHAR:
		return String
	case tok.IsKeyword():
		return Keyword
	case tok.IsOperator():
		return Operator
	}
	return Plain
}
