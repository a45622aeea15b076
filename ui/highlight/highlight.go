// Package highlight finds out which parts of a text are comments, strings and so
// on, for a terminal to colour.
//
//	lines := highlight.Lines(ctx, "bash", text)
//
// The text is not trusted: it may be made to look like what it is not, or to keep
// a regular expression busy for hours. So this is help for the eye and nothing
// more: the parts put together are the text, byte by byte, or there is nothing;
// the work ends with ctx, and what was not reached stays plain. Nothing is loaded
// before the first use, because every command links this package.
package highlight

import (
	"context"
	"embed"
	"strings"
	"time"

	"github.com/alecthomas/chroma/v2"
)

// A Kind is what a part of a text is. The zero value is nothing in particular.
type Kind uint8

// The kinds.
const (
	Plain Kind = iota
	Comment
	String
	Keyword
	Operator
)

// A Part is a piece of one line.
type Part struct {
	Text string
	Kind Kind
}

// The lexers are chroma's own files (lexers/LICENSE), of the languages that agents
// mostly write. Its package of all lexers would cost every start 4 ms.
//
//go:embed lexers
var lexers embed.FS

// languages are the files of lexers/ by the names that a tool may give a language.
func languages() map[string]string {
	return map[string]string{
		"bash": "shell", "sh": "shell", "shell": "shell", // the shell tool's reader
		"c": "c", "h": "c", "cpp": "c++", "c++": "c++", "cc": "c++", "hpp": "c++",
		"css": "css", "docker": "docker", "dockerfile": "docker", "html": "html", "ini": "ini", "java": "java",
		"javascript": "javascript", "js": "javascript", "jsx": "javascript", "json": "json",
		"makefile": "makefile", "make": "makefile", "python": "python", "py": "python", "rust": "rust", "rs": "rust",
		"sql": "sql", "toml": "toml", "typescript": "typescript", "ts": "typescript", "tsx": "typescript",
		"xml": "xml", "yaml": "yaml", "yml": "yaml",
		"go": "go", // of the standard library
	}
}

// Bounds on the work: a longer text stays plain, a slower one does from where the
// time is up.
const (
	maxBytes = 64 << 10
	maxTime  = 200 * time.Millisecond // and up to chroma's 250 for one expression
)

// Lines splits a text into lines, and these into parts. It returns nil for a
// language that it does not know, and for a text that is too long.
func Lines(ctx context.Context, language, text string) [][]Part {
	file, ok := languages()[strings.ToLower(language)]
	if !ok || len(text) > maxBytes {
		return nil
	}
	switch file {
	case "go":
		return goLines(text)
	case "shell":
		return shellLines(text)
	}
	lexer := load(file)
	if lexer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	return tokenise(ctx, lexer, text)
}

// load reads a lexer, and beside it the others, which it may hand parts of a text
// to: the rules of a lexer are compiled when it is used.
func load(file string) chroma.Lexer {
	files, err := lexers.ReadDir("lexers")
	if err != nil {
		return nil
	}
	registry := chroma.NewLexerRegistry()
	var lexer chroma.Lexer
	for _, f := range files {
		if l, err := chroma.NewXMLLexer(lexers, "lexers/"+f.Name()); err == nil {
			registry.Register(l)
			if f.Name() == file+".xml" {
				lexer = l
			}
		}
	}
	return lexer
}

// tokenise fails with nil, whatever a lexer does: panicking included.
func tokenise(ctx context.Context, lexer chroma.Lexer, text string) (lines [][]Part) {
	defer func() {
		if recover() != nil {
			lines = nil
		}
	}()
	tokens, err := lexer.Tokenise(&chroma.TokeniseOptions{State: "root"}, text)
	if err != nil {
		return nil
	}
	lines = [][]Part{nil}
	rest := text
	for token := tokens(); token != chroma.EOF && ctx.Err() == nil; token = tokens() {
		var same bool
		if rest, same = strings.CutPrefix(rest, token.Value); !same {
			return nil // the lexer has changed the text
		}
		lines = appendPart(lines, Part{token.Value, kindOf(token.Type)})
	}
	return appendPart(lines, Part{Text: rest})
}

// appendPart continues the last line, and begins one after each line feed.
func appendPart(lines [][]Part, p Part) [][]Part {
	for i, text := range strings.Split(p.Text, "\n") {
		if i > 0 {
			lines = append(lines, nil)
		}
		last := len(lines) - 1
		lines[last] = extend(lines[last], Part{text, p.Kind})
	}
	return lines
}

// extend lengthens the last part if p is of its kind.
func extend(line []Part, p Part) []Part {
	last := len(line) - 1
	switch {
	case p.Text == "":
		return line
	case last >= 0 && line[last].Kind == p.Kind:
		line[last].Text += p.Text
		return line
	}
	return append(line, p)
}

func kindOf(t chroma.TokenType) Kind {
	switch {
	case t.InCategory(chroma.Comment) && t != chroma.CommentPreproc:
		return Comment
	case t.InSubCategory(chroma.LiteralString):
		return String
	case t.InCategory(chroma.Keyword), t == chroma.NameTag:
		return Keyword
	case t.InCategory(chroma.Operator), t == chroma.Punctuation:
		return Operator
	}
	return Plain
}
