package sandboxprofile

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fold gives what a file system that folds letter case may take name for: ext4 and f2fs
// compare by Unicode's full folding without characters that are ignored by default
// (utf8_casefold in the kernel's fs/unicode). Patterns are about ASCII letters, so it is
// enough that what folds to these does. Elsewhere a name that looks like a protected one is
// judged as that one, which does no harm.
func Fold(name string) string {
	if isASCII(name) {
		return strings.ToLower(name)
	}
	var b strings.Builder
	for _, r := range name {
		if ligature, ok := ligatures[r]; ok {
			b.WriteString(ligature)
			continue
		}
		if r < utf8.RuneSelf || !unicode.Is(ignored, r) {
			b.WriteRune(unicode.ToLower(firstFold(r)))
		}
	}
	return b.String()
}

// firstFold is the first of the letters that fold to each other.
func firstFold(r rune) rune {
	first := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		first = min(first, next)
	}
	return first
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// ligatures fold to several ASCII letters (CaseFolding.txt, status F).
var ligatures = map[rune]string{
	'ß': "ss", 'ẞ': "ss", 'ﬀ': "ff", 'ﬁ': "fi", 'ﬂ': "fl", 'ﬃ': "ffi", 'ﬄ': "ffl", 'ﬅ': "st", 'ﬆ': "st",
}

// ignored are the characters with the property Default_Ignorable_Code_Point
// (DerivedCoreProperties.txt).
var ignored = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x00ad, Hi: 0x00ad, Stride: 1}, {Lo: 0x034f, Hi: 0x034f, Stride: 1}, {Lo: 0x061c, Hi: 0x061c, Stride: 1}, {Lo: 0x115f, Hi: 0x1160, Stride: 1},
		{Lo: 0x17b4, Hi: 0x17b5, Stride: 1}, {Lo: 0x180b, Hi: 0x180f, Stride: 1}, {Lo: 0x200b, Hi: 0x200f, Stride: 1}, {Lo: 0x202a, Hi: 0x202e, Stride: 1},
		{Lo: 0x2060, Hi: 0x206f, Stride: 1}, {Lo: 0x3164, Hi: 0x3164, Stride: 1}, {Lo: 0xfe00, Hi: 0xfe0f, Stride: 1}, {Lo: 0xfeff, Hi: 0xfeff, Stride: 1},
		{Lo: 0xffa0, Hi: 0xffa0, Stride: 1}, {Lo: 0xfff0, Hi: 0xfff8, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x1bca0, Hi: 0x1bca3, Stride: 1}, {Lo: 0x1d173, Hi: 0x1d17a, Stride: 1}, {Lo: 0xe0000, Hi: 0xe0fff, Stride: 1},
	},
}
