package sandboxprofile

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
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
	// some others. It is nil if there is none: "^" and "$" can be made to match at
	// each line of a text, but not what asks for the ends of the whole.
	Block *regexp.Regexp
	// Size is how many instructions Line has.
	Size int
}

// CompilePattern compiles a pattern of package regexp (RE2). Lines are matched
// one by one, so a pattern with a line feed in it is an error.
func CompilePattern(pattern string) (Pattern, error) {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return Pattern{}, patternError(err)
	}
	if spansLines(tree) {
		return Pattern{}, errors.New("has a line feed in it; lines are matched one by one")
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return Pattern{}, patternError(err)
	}
	p := Pattern{Size: len(program.Inst)}
	if p.Size > maxPattern {
		return Pattern{}, fmt.Errorf("means %d steps for each byte, more than %d; repeat less, or look for one thing at a time", p.Size, maxPattern)
	}
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
	return errors.New("is no regular expression: " + strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

func spansLines(tree *syntax.Regexp) bool {
	return tree.Op == syntax.OpLiteral && slices.Contains(tree.Rune, '\n') || slices.ContainsFunc(tree.Sub, spansLines)
}

func wantsEnds(tree *syntax.Regexp) bool {
	return tree.Op == syntax.OpBeginText || tree.Op == syntax.OpEndText || slices.ContainsFunc(tree.Sub, wantsEnds)
}
