package sbpl

import (
	"fmt"
	"strconv"
	"strings"
)

// A node is one expression: a list, or an atom, a string or an expression
// literal (#"...").
type node struct {
	kind nodeKind
	text string
	list []node
	line int
}

type nodeKind uint8

const (
	listNode nodeKind = iota
	atomNode
	stringNode
	regexNode
)

// maxDepth bounds nested lists, so that no text exhausts the stack.
const maxDepth = 32

type reader struct {
	rest string
	line int
}

// readAll reads every expression of a text.
func readAll(text string) ([]node, error) {
	r := &reader{rest: text, line: 1}
	var all []node
	for {
		r.skip()
		if r.rest == "" {
			return all, nil
		}
		n, err := r.read(0)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
}

func (r *reader) fail(format string, args ...any) error {
	return fmt.Errorf("sbpl: parse: line %d: %s", r.line, fmt.Sprintf(format, args...))
}

// take consumes n bytes.
func (r *reader) take(n int) string {
	s := r.rest[:n]
	r.line += strings.Count(s, "\n")
	r.rest = r.rest[n:]
	return s
}

// skip consumes white space and comments.
func (r *reader) skip() {
	for r.rest != "" {
		switch {
		case strings.IndexByte(space, r.rest[0]) >= 0:
			r.take(1)
		case r.rest[0] == ';':
			end := strings.IndexByte(r.rest, '\n')
			if end < 0 {
				end = len(r.rest)
			}
			r.take(end)
		default:
			return
		}
	}
}

const (
	space  = " \t\r\n"
	delims = space + `();"`
)

func (r *reader) read(depth int) (node, error) {
	line := r.line
	switch {
	case depth > maxDepth:
		return node{}, r.fail("lists nest deeper than %d", maxDepth)
	case r.rest[0] == '(':
		return r.readList(depth)
	case r.rest[0] == ')':
		return node{}, r.fail("a list ends that did not begin")
	case r.rest[0] == '"':
		text, err := r.readString()
		return node{kind: stringNode, text: text, line: line}, err
	case strings.HasPrefix(r.rest, `#"`):
		end := strings.IndexByte(r.rest[2:], '"')
		if end < 0 {
			return node{}, r.fail("an expression does not end")
		}
		text := r.take(end + 3)
		return node{kind: regexNode, text: text[2 : len(text)-1], line: line}, nil
	}
	end := strings.IndexAny(r.rest, delims)
	if end < 0 {
		end = len(r.rest)
	}
	return node{kind: atomNode, text: r.take(end), line: line}, nil
}

func (r *reader) readList(depth int) (node, error) {
	n := node{kind: listNode, line: r.line}
	r.take(1)
	for {
		r.skip()
		switch {
		case r.rest == "":
			return n, r.fail("the list of line %d does not end", n.line)
		case r.rest[0] == ')':
			r.take(1)
			return n, nil
		}
		item, err := r.read(depth + 1)
		if err != nil {
			return n, err
		}
		n.list = append(n.list, item)
	}
}

// readString reads a string with the escapes that quote writes, and no others.
func (r *reader) readString() (string, error) {
	var b strings.Builder
	for i := 1; i < len(r.rest); i++ {
		switch c := r.rest[i]; c {
		case '"':
			r.take(i + 1)
			return b.String(), nil
		case '\\':
			i++
			if i == len(r.rest) || (r.rest[i] != '"' && r.rest[i] != '\\') {
				return "", r.fail("unknown escape in a string")
			}
			b.WriteByte(r.rest[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", r.fail("a string does not end")
}

// String writes the expression in one line; reading it gives the same one.
func (n node) String() string {
	switch n.kind {
	case atomNode:
		return n.text
	case stringNode:
		return quote(n.text)
	case regexNode:
		return `#"` + n.text + `"`
	}
	parts := make([]string, len(n.list))
	for i, item := range n.list {
		parts[i] = item.String()
	}
	return "(" + strings.Join(parts, " ") + ")"
}

// head is the atom that a list begins with, or "".
func (n node) head() string {
	if n.kind != listNode || len(n.list) == 0 || n.list[0].kind != atomNode {
		return ""
	}
	return n.list[0].text
}

// octal reads Scheme's #o4000.
func octal(s string) (uint32, bool) {
	digits, ok := strings.CutPrefix(s, "#o")
	v, err := strconv.ParseUint(digits, 8, 32)
	return uint32(v), ok && err == nil
}
