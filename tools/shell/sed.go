package shell

import (
	"strings"
)

var sedGrammar = grammar{flags: "nErsuz", data: "el", long: "quiet silent regexp-extended separate unbuffered null-data posix debug sandbox follow-symlinks",
	longData: "expression line-length"}

// sedEffect is what a sed command line does beyond printing.
func sedEffect(rest []word) (p parsed, reason string) {
	p, reason = sedGrammar.parse(rest)
	if reason != "" {
		return p, "sed: " + reason
	}
	var scripts []string
	for _, o := range p.options {
		if o.name == "-e" || o.name == "--expression" {
			if !o.value.fixed() {
				return p, "sed: the script is not known before it runs"
			}
			scripts = append(scripts, o.value.text)
		}
	}
	if scripts == nil {
		if len(p.operands) == 0 || !p.operands[0].fixed() {
			return p, "sed: the script is not known before it runs"
		}
		scripts, p.operands = []string{p.operands[0].text}, p.operands[1:]
	}
	if !pureSed(strings.Join(scripts, "\n")) {
		return p, "sed: the script may write files or run programs"
	}
	return p, ""
}

// A sedScanner reads a sed script as GNU sed does, and gives up at whatever is
// not surely harmless.
type sedScanner struct {
	s string
	i int
}

// pureSed reports whether a sed script only edits what it prints: it has no
// command or flag that reads or writes another file (r, R, w, W) or runs a
// program (e).
func pureSed(script string) bool {
	p := sedScanner{s: script}
	for !p.end() {
		if !p.command() {
			return false
		}
	}
	return true
}

func (p *sedScanner) end() bool { return p.i >= len(p.s) }

func (p *sedScanner) peek() byte {
	if p.end() {
		return 0
	}
	return p.s[p.i]
}

func (p *sedScanner) skip(set string) {
	for !p.end() && strings.IndexByte(set, p.s[p.i]) >= 0 {
		p.i++
	}
}

func (p *sedScanner) command() bool {
	p.skip(" \t\n;")
	if p.end() {
		return true
	}
	if !p.addresses() {
		return false
	}
	p.skip(" \t!")
	c := p.peek()
	p.i++
	switch c {
	case 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', '=', 'F', '}':
		return p.ends()
	case '{':
		return true
	case '#':
		p.line()
		return true
	case ':', 'b', 't', 'T', 'v':
		return p.label()
	case 'a', 'i', 'c':
		p.text()
		return true
	case 'q', 'Q', 'l', 'L':
		p.skip(" \t0123456789")
		return p.ends()
	case 's':
		return p.substitute()
	case 'y':
		return p.delimited(2) && p.ends()
	}
	return false
}

// ends accepts what may follow a command.
func (p *sedScanner) ends() bool {
	p.skip(" \t")
	switch p.peek() {
	case 0:
		return p.end()
	case ';', '\n', '}', '#':
		return true
	}
	return false
}

func (p *sedScanner) line() {
	for !p.end() && p.s[p.i] != '\n' {
		p.i++
	}
}

// label skips a label. GNU sed ends one at a semicolon or white space, others at
// the end of the line: what both do not read alike is refused.
func (p *sedScanner) label() bool {
	start := p.i
	p.line()
	return strings.Trim(p.s[start:p.i], " \tabcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// text skips the text of a, i and c: the rest of the line, and the next after
// each line that ends in a backslash.
func (p *sedScanner) text() {
	for !p.end() && p.s[p.i] != '\n' {
		if p.s[p.i] == '\\' {
			p.i++
		}
		p.i++
	}
	p.i = min(p.i, len(p.s))
}

func (p *sedScanner) addresses() bool {
	if !p.address() {
		return false
	}
	p.skip(" \t")
	if p.peek() != ',' {
		return true
	}
	p.i++
	p.skip(" \t")
	p.skip("+~")
	return p.address()
}

func (p *sedScanner) address() bool {
	switch c := p.peek(); {
	case c == '$':
		p.i++
	case c >= '0' && c <= '9':
		p.skip("0123456789~")
	case c == '\\':
		p.i++
		if !p.delimited(1) {
			return false
		}
		p.skip("IM")
	case c == '/':
		if !p.delimited(1) {
			return false
		}
		p.skip("IM")
	}
	return true
}

// delimited skips n parts between the delimiter at hand. A newline in one is
// refused, as sed does for a pattern.
func (p *sedScanner) delimited(n int) bool {
	if p.end() {
		return false
	}
	d := p.s[p.i]
	p.i++
	if d == '\n' || d == '\\' || d >= 0x80 {
		return false
	}
	for n > 0 {
		switch {
		case p.end() || p.s[p.i] == '\n':
			return false
		case p.s[p.i] == '\\':
			p.i++
		case p.s[p.i] == d:
			n--
		}
		p.i++
	}
	return p.i <= len(p.s)
}

func (p *sedScanner) substitute() bool {
	if !p.delimited(2) {
		return false
	}
	p.skip("gpiIm0123456789M")
	return p.ends()
}
