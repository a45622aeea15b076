package shell

import (
	"strings"
)

var awkGrammar = grammar{stop: true, data: "vF", long: "posix traditional re-interval lint sandbox csv", longData: "assign field-separator"}

// awkEffect is what an awk command line does beyond printing.
func awkEffect(rest []word) (p parsed, reason string) {
	p, reason = awkGrammar.parse(rest)
	switch {
	case reason != "":
		return p, "awk: " + reason
	case len(p.operands) == 0 || !p.operands[0].fixed():
		return p, "awk: the program is not known before it runs"
	case !pureAwk(p.operands[0].text):
		return p, "awk: the program may write files, run programs or read others"
	}
	p.operands = p.operands[1:]
	return p, ""
}

// An awkScanner splits an awk program into tokens, as far as it takes to see
// what is text and what is not.
type awkScanner struct {
	s       string
	i       int
	operand bool // the last token ends an operand, so "/" divides
	paren   bool // the last token is ")", after which "/" is ambiguous
	depth   int  // parentheses open
	print   bool // in a print statement, where ">" is a redirection
}

// pureAwk reports whether an awk program only computes and prints: no system(),
// no pipe, no redirection, no getline, no indirect call or extension, and no
// change to the list of files that it reads.
func pureAwk(program string) bool {
	p := awkScanner{s: program}
	for p.i < len(p.s) {
		if !p.token() {
			return false
		}
	}
	return true
}

func (p *awkScanner) token() bool {
	c := p.s[p.i]
	switch {
	case c == ' ' || c == '\t' || c == '\r':
		p.i++
		return true
	case c == '#':
		for p.i < len(p.s) && p.s[p.i] != '\n' {
			p.i++
		}
		return true
	case c == '"':
		return p.quoted('"')
	case c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z':
		return p.name()
	case c >= '0' && c <= '9' || c == '.':
		p.i++
		p.operand, p.paren = true, false
		return true
	case c == '/':
		return p.slash()
	}
	return p.punctuation(c)
}

// quoted skips a string or a regular expression.
func (p *awkScanner) quoted(end byte) bool {
	for p.i++; p.i < len(p.s); p.i++ {
		switch p.s[p.i] {
		case '\\':
			p.i++
		case '\n':
			return false
		case end:
			p.i++
			p.operand, p.paren = true, false
			return true
		}
	}
	return false
}

var awkForbidden = fieldSet("system getline ARGV ARGC ENVIRON PROCINFO SYMTAB FUNCTAB INCLUDE load include fflush close")

// awkKeywords are followed by an expression, so "/" after one begins a regular
// expression.
var awkKeywords = fieldSet("print printf return in if while for do else case and or not exit next delete")

func (p *awkScanner) name() bool {
	start := p.i
	for p.i < len(p.s) && (p.s[p.i] == '_' || p.s[p.i]|0x20 >= 'a' && p.s[p.i]|0x20 <= 'z' || p.s[p.i] >= '0' && p.s[p.i] <= '9') {
		p.i++
	}
	word := p.s[start:p.i]
	if word == "print" || word == "printf" {
		p.print, p.depth = true, 0
	}
	p.operand, p.paren = !awkKeywords[word], false
	return !awkForbidden[word]
}

// slash tells a division from a regular expression by what is before it. After
// ")" it may be either, so nothing may follow that one reading would hide.
func (p *awkScanner) slash() bool {
	switch {
	case p.paren && strings.ContainsAny(p.s[p.i+1:], `/"`):
		return false
	case p.operand:
		p.i++
		p.operand = false
		return true
	}
	return p.regexp()
}

// regexp skips a regular expression. In a bracket a slash does not end it for
// some, so one there is refused.
func (p *awkScanner) regexp() bool {
	start := p.i
	if !p.quoted('/') {
		return false
	}
	text := p.s[start+1 : p.i-1]
	return strings.Count(text, "[") == strings.Count(text, "]")
}

func (p *awkScanner) punctuation(c byte) bool {
	p.i++
	p.operand, p.paren = false, false
	switch c {
	case ')':
		p.depth--
		p.operand, p.paren = true, true
	case '(':
		p.depth++
	case ']':
		p.operand = true
	case ';', '{', '}': // not the end of a line: a statement may go on
		p.print, p.depth = false, 0
	case '|':
		if !strings.HasPrefix(p.s[p.i:], "|") {
			return false
		}
		p.i++
	case '>':
		return !p.print || p.depth > 0
	case '@', '`', '\\':
		return c == '\\' && strings.HasPrefix(p.s[p.i:], "\n")
	case '+', '-': // x++ ends an operand, ++x does not: "/" after it is refused
		if p.i < len(p.s) && p.s[p.i] == c {
			p.i++
			p.operand, p.paren = true, true
		}
	}
	return true
}
