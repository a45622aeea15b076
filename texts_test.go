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

// Words that make an error, a hint or a help text hard to read: "is no list" is "is not a list", and
// "whoever asks" is "anyone who asks".
var (
	hardWords = regexp.MustCompile(`(?i)\b(whoever|nobody|somebody|everybody|told|not spoken|none of (?:ask|the|these|them))\b|\b(?:is|are|was|were) no ([a-z]+)`)
	easyWords = regexp.MustCompile(`(?i)\bthere (?:is|are|was|were) no |\bno longer\b|of agent nobody|, and none of the user's`)
)

// TestTextsArePlain: texts that a person or a model reads have none of these words. The texts of
// supervisor and confine/linux have not been edited for it.
func TestTextsArePlain(t *testing.T) {
	read := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch dir := filepath.ToSlash(filepath.Dir(name)); {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"),
			strings.HasSuffix(dir, "test"), dir == "supervisor", dir == "confine/linux":
			return nil
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				read++
				if word := hardWord(text.Value); word != "" {
					t.Errorf("%s: %q in %s", files.Position(text.Pos()), word, text.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || read < 10000 {
		t.Errorf("%d texts read: %v", read, err)
	}
}

// hardWord is the first of these words in a text of Go source, or "".
func hardWord(literal string) string {
	text, err := strconv.Unquote(literal)
	if err != nil || strings.Count(text, " ") < 2 {
		return ""
	}
	return hardWords.FindString(easyWords.ReplaceAllString(text, ""))
}

// TestHardWordsAreFound: and their twins pass.
func TestHardWordsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"hooks.PreToolUse is no list":        "is no list",
		"hooks.PreToolUse is not a list":     "",
		"good for whoever asks":              "whoever",
		"good for anyone who asks":           "",
		"there is no network here":           "",
		"the approval is no longer pending":  "",
		"%q is none of ask, allow and deny":  "none of ask",
		"%q is not one of ask, allow, deny":  "",
		"nobody answered in time, so denied": "nobody",
	} {
		if got := hardWord(strconv.Quote(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
