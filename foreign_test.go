package sandgate_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// verbs are those of a format, with what stands behind each.
var verbs = regexp.MustCompile(`%[-+# 0-9.*]*[a-zA-Z]`)

// TestNothingOfOursStandsBehindAForeignText: approval.EscapeLine leaves a text in its own words, which may read like
// ours: it ends a line. In the middle of one of ours a text is quoted (approval.EscapeName, present.Say).
func TestNothingOfOursStandsBehindAForeignText(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		behind := func(n ast.Node, what string) {
			t.Errorf("%s: %q stands behind a foreign text: quote that one with approval.EscapeName", files.Position(n.Pos()), what)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr: // a + EscapeLine(b) + c
				left, ok := n.X.(*ast.BinaryExpr)
				if n.Op == token.ADD && (escapes(n.X) || ok && escapes(left.Y)) {
					seen++
					if text, constant := literal(n.Y); !constant || !closes.MatchString(text) {
						behind(n.Y, text)
					}
				}
			case *ast.CallExpr:
				for i, arg := range n.Args {
					if !escapes(arg) {
						continue
					}
					seen++
					for f, format := range n.Args[:i] {
						text, ok := literal(format)
						if at := verbs.FindAllStringIndex(strings.ReplaceAll(text, "%%", "  "), -1); ok && len(at) >= i-f && !closes.MatchString(text[at[i-f-1][1]:]) {
							behind(arg, text[at[i-f-1][1]:])
						}
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil || seen < 50 {
		t.Error(seen, err)
	}
}

// closes is what may stand behind a text that ends a line.
var closes = regexp.MustCompile(`^[).;"]*(\n|$)`)

func escapes(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name == "EscapeLine"
	case *ast.Ident:
		return f.Name == "EscapeLine"
	}
	return false
}

// literal is what a constant text says.
func literal(n ast.Expr) (string, bool) {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
