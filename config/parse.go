package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sandgate/sandgate/internal/units"
	"go.yaml.in/yaml/v3"
)

// What bounds a configuration file: its bytes, and lists and mappings within
// each other. Field paths grow with depth, so depth would cost its square.
const (
	maxFile  = 1 << 20
	maxDepth = 64
)

// parseDocument reads the one document of data; it is nil for a file of nothing
// but comments.
func parseDocument(data []byte, file string) (*yaml.Node, error) {
	if err := checkText(data, file); err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, syntaxError(data, file, err)
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
		return doc.Content[0], checkDepth(doc.Content[0], file, maxDepth)
	case err != nil:
		return nil, syntaxError(data, file, err)
	}
	return nil, oneProblem(Position{file, second.Line, second.Column},
		"a second document starts here", "keep one document: remove the line with ---")
}

// misleading reports characters that are not what a reader sees: controls; the
// line breaks of YAML 1.1 that editors show within a line, so that what looks
// like the rest of a comment would be a key; and those that reorder or hide text
// (CVE-2021-42574).
func misleading(r rune) bool {
	switch r {
	case '\n', '\r', '\t':
		return false
	case 0x2028, 0x2029:
		return true
	}
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r)
}

func checkDepth(n *yaml.Node, file string, left int) error {
	if left == 0 {
		return oneProblem(Position{file, n.Line, n.Column}, fmt.Sprintf("more than %d levels of nesting", maxDepth), "")
	}
	for _, inner := range n.Content {
		if err := checkDepth(inner, file, left-1); err != nil {
			return err
		}
	}
	return nil
}

func oneProblem(pos Position, text, hint string) error {
	return newError(pos.File, []Problem{{Position: pos, Text: text, Hint: hint}})
}

// checkText refuses what YAML libraries answer in different ways, other
// encodings (a byte order mark would switch to UTF-16) and control characters,
// and what makes a file look other than it is read.
func checkText(data []byte, file string) error {
	if len(data) > maxFile {
		return oneProblem(Position{file, 1, 1}, fmt.Sprintf("the file is larger than %v", units.Size(maxFile)), "")
	}
	pos := Position{file, 1, 1}
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			return oneProblem(pos, fmt.Sprintf("byte 0x%02x is not UTF-8", data[0]), "save the file as UTF-8")
		}
		if misleading(r) || r == '\r' && !bytes.HasPrefix(data, []byte("\r\n")) {
			return oneProblem(pos, fmt.Sprintf("control character %U", r), fmt.Sprintf(`write it escaped, in double quotes: "\u%04x"`, r))
		}
		pos.Column++
		if r == '\n' {
			pos.Line, pos.Column = pos.Line+1, 1
		}
		data = data[n:]
	}
	return nil
}

var yamlLine = lazily(`^(?:yaml: )?(?:line ([0-9]+): )?(.*)`)

// syntaxError turns a message of the YAML parser into a Problem with a column.
// The parser calls a tab in the indentation "a character that cannot start any
// token"; here it is named.
func syntaxError(data []byte, file string, err error) error {
	lines := strings.Split(string(data), "\n")
	if pos, ok := findTab(lines, file); ok {
		return oneProblem(pos, "a tab in the indentation", "indent with spaces")
	}
	m := yamlLine().FindStringSubmatch(strings.TrimSpace(err.Error()))
	line, _ := strconv.Atoi(m[1])
	if fromGrammar(m[2]) {
		line++
	}
	line = min(max(line, 1), len(lines))
	text := lines[line-1]
	column := 1 + len(text) - len(strings.TrimLeft(text, " \t"))
	return oneProblem(Position{file, line, column}, "not valid YAML: "+m[2], "")
}

// fromGrammar tells messages of the YAML library's grammar, which counts lines
// from 0, from those of its scanner, which counts from 1 (go-yaml, parser.fail).
func fromGrammar(message string) bool {
	what, ok := strings.CutPrefix(message, "did not find expected ")
	return ok && slices.ContainsFunc([]string{"key", "node content", "'-'", "','", "<"}, func(start string) bool {
		return strings.HasPrefix(what, start)
	})
}

func findTab(lines []string, file string) (Position, bool) {
	for i, line := range lines {
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if t := strings.IndexByte(indent, '\t'); t >= 0 && strings.TrimSpace(line) != "" {
			return Position{file, i + 1, t + 1}, true
		}
	}
	return Position{}, false
}
