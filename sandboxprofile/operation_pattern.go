package sandboxprofile

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxPattern bounds a compiled pattern, in instructions. Matching takes time in
// proportion to them for each byte, so a pattern of a few thousand characters
// that means millions of instructions is refused.
const maxPattern = 5000

// A Pattern is a Search's pattern, compiled.
type Pattern struct {
	// Line matches lines, without their line feed.
	Line *regexp.Regexp
	// Block matches every text of whole lines in one of which Line matches, and
	// some others. It is nil if there is no such pattern: "^" and "$" can be made
	// to match at each line of a text, but not what asks for the ends of the
	// whole.
	Block *regexp.Regexp
	// Size is how many instructions Line has.
	Size int
	// Needle is in every line that Line matches; "" if nothing is known to be. If
	// Fold is set it is in lower case, and may be there in any.
	Needle string
	Fold   bool
}

// Lacks reports whether b has no line in which Line matches, if that can be decided
// without a regular expression: most files have no similar text. It may use buf,
// and returns it for the next time.
func (p Pattern) Lacks(b, buf []byte) (lacks bool, scratch []byte) {
	switch {
	case p.Needle == "":
		return false, buf
	case p.Fold:
		buf = append(buf[:0], b...)
		for i, c := range buf {
			if 'A' <= c && c <= 'Z' {
				buf[i] = c + 'a' - 'A'
			}
		}
		b = buf
	}
	return !bytes.Contains(b, []byte(p.Needle)), buf
}

// CompilePattern compiles a pattern of package regexp (RE2). Lines are matched
// one by one, so a pattern with a line feed in it is an error.
func CompilePattern(pattern string) (Pattern, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return Pattern{}, patternError(err)
	}
	if spansLines(tree) {
		return Pattern{}, errors.New("contains a line feed; lines are matched one by one")
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return Pattern{}, patternError(err)
	}
	p := Pattern{Size: len(program.Inst)}
	if p.Size > maxPattern {
		return Pattern{}, fmt.Errorf("needs %d steps for each byte, more than %d; use fewer repetitions, or search for one thing at a time", p.Size, maxPattern)
	}
	p.Needle, p.Fold = needle(tree)
	if p.Line, err = regexp.Compile(pattern); err != nil {
		return Pattern{}, patternError(err)
	}
	if tree, err := syntax.Parse(pattern, syntax.Perl&^syntax.OneLine); err == nil && !wantsEnds(tree) {
		p.Block, err = regexp.Compile("(?m:" + pattern + ")")
		if err != nil {
			p.Block = nil
		}
	}
	return p, nil
}

func patternError(err error) error {
	return errors.New("is not a regular expression: " + strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

func spansLines(tree *syntax.Regexp) bool {
	return tree.Op == syntax.OpLiteral && slices.Contains(tree.Rune, '\n') || slices.ContainsFunc(tree.Sub, spansLines)
}

func wantsEnds(tree *syntax.Regexp) bool {
	return tree.Op == syntax.OpBeginText || tree.Op == syntax.OpEndText || slices.ContainsFunc(tree.Sub, wantsEnds)
}

// needle gives the longest text that every match of a regular expression has in
// it, and whether its case does not matter.
func needle(tree *syntax.Regexp) (text string, fold bool) {
	switch tree.Op {
	case syntax.OpLiteral:
		fold = tree.Flags&syntax.FoldCase != 0
		return longestPlain(tree.Rune, fold), fold
	case syntax.OpCapture, syntax.OpPlus:
		return needle(tree.Sub[0])
	case syntax.OpRepeat:
		if tree.Min > 0 {
			return needle(tree.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range tree.Sub {
			if t, f := needle(sub); len(t) > len(text) {
				text, fold = t, f
			}
		}
	}
	return text, fold
}

// longestPlain gives the longest run of runes that stand for their own bytes and,
// with fold, for those of the other case: k and s have a third one, U+212A and
// U+017F, and beyond ASCII there are many.
func longestPlain(runes []rune, fold bool) string {
	plain := func(r rune) bool {
		if fold {
			return r < utf8.RuneSelf && !strings.ContainsRune("ksKS", r)
		}
		return r != utf8.RuneError && utf8.ValidRune(r)
	}
	longest := ""
	for run := range strings.FieldsFuncSeq(string(runes), func(r rune) bool { return !plain(r) }) {
		if len(run) > len(longest) {
			longest = run
		}
	}
	if fold {
		return strings.ToLower(longest)
	}
	return longest
}
