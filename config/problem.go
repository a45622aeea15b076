package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// A Position is a place in a file. Lines and columns count from 1; a zero
// Position is nowhere in a file.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
}

// String prints p as editors and compilers do: "sandgate.yaml:3:5".
func (p Position) String() string {
	if p.Line == 0 {
		return cmp.Or(p.File, "default")
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// A Problem is one thing that is wrong with a configuration.
type Problem struct {
	Position Position `json:"position"`
	// Field is the path of the value: "shell.rules[2].pattern"; "" is the whole file.
	Field string `json:"field"`
	// Text says what is wrong; Hint what to write instead, or "".
	Text string `json:"problem"`
	Hint string `json:"hint,omitempty"`
}

// String is "file:line:col: field: problem; hint".
func (p Problem) String() string {
	s := p.Position.String() + ": "
	if p.Field != "" {
		s += p.Field + ": "
	}
	s += p.Text
	if p.Hint != "" {
		s += "; " + p.Hint
	}
	return s
}

// A Notice is a sentence about something that is allowed.
type Notice struct {
	Position Position `json:"position"`
	Field    string   `json:"field,omitempty"`
	Text     string   `json:"notice"`
}

func (n Notice) String() string {
	return Problem{Position: n.Position, Field: n.Field, Text: n.Text}.String()
}

// An Error holds every problem of one configuration, in the file's order.
type Error struct {
	File     string    `json:"file"`
	Problems []Problem `json:"problems"`
}

// Error is one line if there is one problem, else a count and a line for each.
func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].String()
	}
	lines := make([]string, 0, len(e.Problems)+1)
	lines = append(lines, fmt.Sprintf("%s has %d problems", cmp.Or(e.File, "the default configuration"), len(e.Problems)))
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

func byPosition(a, b Problem) int {
	return cmp.Or(
		cmp.Compare(a.Position.Line, b.Position.Line),
		cmp.Compare(a.Position.Column, b.Position.Column),
		cmp.Compare(a.Field, b.Field),
		cmp.Compare(a.Text, b.Text),
	)
}

// newError sorts problems and drops repetitions; it is nil without problems.
func newError(file string, problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	slices.SortStableFunc(problems, byPosition)
	return &Error{File: file, Problems: slices.Compact(problems)}
}

// maxShown bounds, in bytes, how much of a value a message repeats.
const maxShown = 80

// quote shows a value from the file: escaped, so that it cannot move the
// cursor or hide text on a terminal, and cut.
func quote(s string) string {
	if len(s) <= maxShown {
		return strconv.QuoteToASCII(s)
	}
	cut := maxShown
	for cut > maxShown-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.QuoteToASCII(s[:cut]) + "..."
}

// fieldKey appends a key to a field path; it quotes a key that is not a plain word.
func fieldKey(path, key string) string {
	if !plainKey(key) {
		return path + "[" + quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func plainKey(key string) bool {
	if key == "" || len(key) > maxShown {
		return false
	}
	for _, c := range []byte(key) {
		word := c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !word {
			return false
		}
	}
	return true
}

func fieldIndex(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// fieldParent is the path that a field lies in; "" is the whole file.
func fieldParent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// lazily compiles a pattern when it is first asked for: every command has this package,
// and few ask for all of it.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}
