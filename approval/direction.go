package approval

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hebrew, Arabic and their like are drawn from right to left, by the Unicode bidirectional
// algorithm, and take with them what has no direction of its own: signs, blanks and digits.
// Of `rm א > ב` some terminals draw `rm ב < א`. No character does that which could be shown,
// the letters do it by being there. So they are shown as code points where what stands
// beside them could change its place.

// isRightToLeft reports whether r is drawn from right to left: the blocks that the algorithm
// reserves for such scripts, with their marks and digits.
func isRightToLeft(r rune) bool {
	return r >= 0x0590 && r <= 0x08ff || r >= 0xfb1d && r <= 0xfdff || r >= 0xfe70 && r <= 0xfeff ||
		r >= 0x10800 && r <= 0x10fff || r >= 0x1e800 && r <= 0x1efff
}

// showReversed goes by lines, and in a line by what stands between two letters that are
// drawn from left to right: nothing moves across such a letter. With strict it is a part of
// a command, or of a sentence whose other words are ours.
func showReversed(s string, strict bool) string {
	if !strings.ContainsFunc(s, isRightToLeft) {
		return s
	}
	var b strings.Builder
	for line := range strings.Lines(s) {
		for rest := line; rest != ""; {
			n := strings.IndexFunc(rest, isLeftToRight)
			if n < 0 {
				n = len(rest)
			}
			writeDirected(&b, rest[:n], len(rest) < len(line), n < len(rest), strict)
			_, letter := utf8.DecodeRuneInString(rest[n:])
			b.WriteString(rest[n : n+letter])
			rest = rest[n+letter:]
		}
	}
	return b.String()
}

func isLeftToRight(r rune) bool {
	return unicode.IsLetter(r) && !isRightToLeft(r) && !unicode.Is(undirected, r)
}

// undirected are the letters that have no direction of their own, such as ˆ: all that are of
// neither of the algorithm's classes L, R and AL. They move as a sign does.
var undirected = &unicode.RangeTable{R16: []unicode.Range16{
	{0x02b9, 0x02ba, 1}, {0x02c6, 0x02cf, 1}, {0x02ec, 0x02ec, 1}, {0x0374, 0x0374, 1},
	{0x2e2f, 0x2e2f, 1}, {0xa67f, 0xa67f, 1}, {0xa717, 0xa71f, 1}, {0xa788, 0xa788, 1},
}}

// writeDirected writes what stands between two letters, or an end of the line.
func writeDirected(b *strings.Builder, text string, before, after, strict bool) {
	keep := !strict && (before || !after) && isPhrase(text) || strict && before && after && isOneWord(text)
	for _, r := range text {
		if isRightToLeft(r) && !keep {
			writeCodePoint(b, r)
		} else {
			b.WriteRune(r)
		}
	}
}

// isOneWord reports whether text has one word from right to left, and no digit: whatever
// stands around it keeps its place.
func isOneWord(text string) bool {
	return !strings.ContainsFunc(text, isDigit) && !strings.ContainsFunc(reversed(text), func(r rune) bool { return !isRightToLeft(r) })
}

// isPhrase is for prose: words that are read in their own order, with blanks between them
// and the marks of a sentence before a blank.
func isPhrase(text string) bool {
	if strings.ContainsFunc(text, isDigit) {
		return false
	}
	phrase := reversed(text)
	for i, r := range phrase {
		sentence := strings.ContainsRune(",.;:!?", r) && phrase[i+1] == ' '
		if !isRightToLeft(r) && r != ' ' && !sentence {
			return false
		}
	}
	return true
}

// reversed is the part of text that is drawn from right to left: from the first such
// character to the last.
func reversed(text string) string {
	first, last := strings.IndexFunc(text, isRightToLeft), strings.LastIndexFunc(text, isRightToLeft)
	if first < 0 {
		return ""
	}
	_, n := utf8.DecodeRuneInString(text[last:])
	return text[first : last+n]
}

func isDigit(r rune) bool { return unicode.IsNumber(r) && !isRightToLeft(r) }
