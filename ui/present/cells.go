package present

import (
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Width is how many cells a text takes at most, whatever the terminal.
//
// Terminals do not agree on the width of characters that join the one before: of "का" and
// of "👍🏽" some draw one character, others each code point for itself. What is measured by
// one rule and drawn by the other overflows its line, and the end of a command is out of
// sight. So each code point counts by itself, by the rule under which it is wider, and none
// counts as nothing.
func Width(text string) (cells int) {
	for _, r := range text {
		cells += cellsOf(r)
	}
	return cells
}

func cellsOf(r rune) int {
	if r < unicode.MaxASCII {
		return 1
	}
	return max(1, ansi.StringWidth(string(r)), ansi.StringWidthWc(string(r)))
}

// Joins reports whether a character is drawn together with the one before it, by some
// terminals: marks, the colours of an emoji, and the later parts of a Korean syllable.
func Joins(r rune) bool {
	return unicode.Is(unicode.M, r) || r >= 0x1f3fb && r <= 0x1f3ff || r >= 0x1160 && r <= 0x11ff || r >= 0xd7b0 && r <= 0xd7ff
}

// Fill is how many bytes of a line have room in width cells, and at least one character.
// What joins another character is not parted from it, unless it fills the line.
func Fill(line string, width int) int {
	whole := 0 // before the last character that joins none
	for i, r := range line {
		if !Joins(r) {
			whole = i
		}
		if width -= cellsOf(r); width < 0 && i > 0 {
			if whole > 0 {
				return whole
			}
			return i
		}
	}
	return len(line)
}

// Wrap breaks one line into parts of at most width cells, and loses nothing.
func Wrap(line string, width int) (parts []string) {
	for {
		n := Fill(line, width)
		parts, line = append(parts, line[:n]), line[n:]
		if line == "" {
			return parts
		}
	}
}

// Cut is the beginning of a text, with a mark if that is not all of it.
func Cut(text string, width int) string {
	if Width(text) <= width {
		return text
	}
	room := width - 1
	for i, r := range text {
		if room -= cellsOf(r); room < 0 {
			return text[:i] + "…"
		}
	}
	return text
}

// CutLeft is the end of a text.
func CutLeft(text string, width int) string {
	at := len(text)
	for at > 0 {
		r, n := utf8.DecodeLastRuneInString(text[:at])
		if width -= cellsOf(r); width < 0 {
			break
		}
		at -= n
	}
	return text[at:]
}
