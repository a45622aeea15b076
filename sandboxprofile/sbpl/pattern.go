package sbpl

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// Expressions are written in the common part of POSIX, RE2 and Seatbelt's own
// matcher, without brackets made from outside input.
const (
	anything = "[^/]*"
	// oneChar is one character: a byte of ASCII, or up to four bytes that are not
	// printable ASCII, since it is not known whether the matcher sees bytes or
	// characters.
	oneChar = "([^/]|[^ -~][^ -~][^ -~]?[^ -~]?)"
	// notASCII is one character of up to three bytes that are not.
	notASCII = "[^ -~][^ -~]?[^ -~]?"
)

// A pattern is one protect or hide pattern as expressions that match a suffix.
type pattern struct {
	source     string
	components []string
}

// covers matches what the pattern covers, at any depth and everything below.
func (p pattern) covers() string {
	return fmt.Sprintf(`(regex #"/%s(/.*)?$")`, strings.Join(p.components, "/"))
}

// leads matches what the first n components name: directories that, moved away or
// put in place, would change what the pattern covers.
func (p pattern) leads(n int) string {
	return fmt.Sprintf(`(regex #"/%s$")`, strings.Join(p.components[:n], "/"))
}

// parsePattern translates a pattern that Validate has let pass.
func parsePattern(source string) (pattern, error) {
	p := pattern{source: source}
	for c := range strings.SplitSeq(source, "/") {
		e, err := component(c)
		if err != nil {
			return p, err
		}
		p.components = append(p.components, e)
	}
	return p, nil
}

// component translates path.Match's syntax for one component.
func component(c string) (string, error) {
	if strings.Trim(c, "*") == "" {
		return "[^/]+", nil // a component is never empty
	}
	var b strings.Builder
	for rest := []rune(c); len(rest) > 0; {
		n, e, err := token(rest)
		if err != nil {
			return "", err
		}
		b.WriteString(e)
		rest = rest[n:]
	}
	return b.String(), nil
}

// token translates the first wildcard or character of c, and says how many runes
// it is long.
func token(c []rune) (int, string, error) {
	switch c[0] {
	case '*':
		return 1, anything, nil
	case '?':
		return 1, oneChar, nil
	case '[':
		return class(c)
	case '\\':
		e, err := char(c[1]) // path.Match rejects a backslash at the end
		return 2, e, err
	}
	e, err := char(c[0])
	return 1, e, err
}

func char(r rune) (string, error) {
	e, ok := foldRune(r)
	if !ok {
		return "", fmt.Errorf("%q cannot be written in a Seatbelt expression", r)
	}
	return e, nil
}

// foldRune matches r in both cases; ok is false for what cannot be written.
func foldRune(r rune) (e string, ok bool) {
	switch {
	case r < ' ' || r > '~' || r == '"':
		return "", false
	case r == 'k' || r == 'K' || r == 's' || r == 'S':
		// U+212A and U+017F fold to these two, and to no other ASCII letter.
		return fmt.Sprintf("([%c%c]|%s)", unicode.ToLower(r), unicode.ToUpper(r), notASCII), true
	case unicode.IsLetter(r):
		return fmt.Sprintf("[%c%c]", unicode.ToLower(r), unicode.ToUpper(r)), true
	case strings.ContainsRune(`\.+*?()|[]{}^$`, r):
		return `\` + string(r), true
	}
	return string(r), true
}

// class translates [abc], [a-c] and, as any character, [^abc].
func class(c []rune) (int, string, error) {
	i, negated := 1, false
	if c[i] == '^' {
		i, negated = i+1, true
	}
	var members []string
	for first := true; first || c[i] != ']'; first = false {
		n, lo, hi := classRange(c[i:])
		i += n
		if hi > '~' && !negated {
			return 0, "", errors.New("a character class beyond ASCII cannot be written in a Seatbelt expression")
		}
		for r := lo; r <= hi && !negated; r++ {
			e, err := char(r)
			if err != nil {
				return 0, "", err
			}
			members = append(members, e)
		}
	}
	switch {
	case negated:
		return i + 1, oneChar, nil
	case len(members) == 0: // a range from above to below matches nothing
		return 0, "", errors.New("an empty character class matches nothing")
	}
	return i + 1, "(" + strings.Join(members, "|") + ")", nil
}

// classRange reads one member of a class, as path.Match does: a, \a or a-c.
func classRange(c []rune) (n int, lo, hi rune) {
	n, lo = classRune(c)
	if c[n] != '-' {
		return n, lo, lo
	}
	m, hi := classRune(c[n+1:])
	return n + 1 + m, lo, hi
}

func classRune(c []rune) (int, rune) {
	if c[0] == '\\' {
		return 2, c[1]
	}
	return 1, c[0]
}

func (c *compiler) compilePatterns() error {
	for _, part := range []struct {
		name    string
		sources []string
		into    *[]pattern
	}{{"protect", c.profile.Protect, &c.protect}, {"hide", c.profile.Hide, &c.hide}} {
		for _, source := range part.sources {
			p, err := parsePattern(source)
			if err != nil {
				return &Error{Part: part.name, Path: source, Reason: err.Error(), hint: "write the pattern in plain ASCII"}
			}
			*part.into = append(*part.into, p)
		}
	}
	return nil
}

// patterns takes away what the profile's patterns do, whatever granted it.
func (c *compiler) patterns() error {
	c.text.section("patterns")
	c.denyPatterns("protected", operations(sp.Write), c.protect)
	c.denyPatterns("hidden", operations(everyRight), c.hide)
	return nil
}

func (c *compiler) denyPatterns(what, ops string, list []pattern) {
	if len(list) == 0 {
		return
	}
	w := &c.text
	w.comment(fmt.Sprintf("These are %s at any depth, but for what only the system writes.", what))
	w.line("(deny %s", ops)
	w.line("  (require-all")
	if trees := c.exemptTrees(); len(trees) > 0 {
		w.line("    (require-not (require-any %s))", strings.Join(trees, " "))
	}
	w.line("    (require-any")
	for _, p := range list {
		w.line("      ;; %s\n      %s", p.source, p.covers())
	}
	w.line("    ))\n  %s)", c.with())
}

// exemptTrees matches the system trees in which nothing can be written. In the
// others patterns hold, or a directory with a hidden file in it could be moved
// there to be read.
func (c *compiler) exemptTrees() []string {
	var trees []string
	for _, tree := range sp.SystemTrees() {
		name := Resolve(tree)
		if !c.writesIn(name) {
			trees = append(trees, subpath(name))
		}
	}
	return trees
}

func (c *compiler) writesIn(tree string) bool {
	if c.kernel.Rights(tree)&sp.Write != 0 {
		return true
	}
	for k, r := range c.kernel.Paths {
		if r&sp.Write != 0 && sp.Contains(tree, k) {
			return true
		}
	}
	for _, dir := range c.private {
		if sp.Contains(tree, dir) {
			return true
		}
	}
	return false
}
