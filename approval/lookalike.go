package approval

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A letter of one alphabet can pass for a letter of another: the first letter of
// "\u0430pple.com" is Cyrillic. What follows is the part of Unicode Technical Standard #39
// (Unicode Security Mechanisms) that a prompt needs: which letters cannot be what
// they seem, so that Escape shows them as code points.

// alphabets are the recommended scripts of Unicode Standard Annex #31, table 5,
// without those of East Asia. A letter of any other script is a code point to most
// who read it, and to some of them a Latin letter: Cherokee, Lisu, Coptic.
var alphabets = []*unicode.RangeTable{
	unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Arabic, unicode.Hebrew, unicode.Devanagari,
	unicode.Armenian, unicode.Bengali, unicode.Ethiopic, unicode.Georgian, unicode.Gujarati, unicode.Gurmukhi,
	unicode.Kannada, unicode.Khmer, unicode.Lao, unicode.Malayalam, unicode.Myanmar, unicode.Oriya,
	unicode.Sinhala, unicode.Tamil, unicode.Telugu, unicode.Thaana, unicode.Thai, unicode.Tibetan,
}

// eastAsia are scripts that are written within one word with each other and with
// Latin: "highly restrictive" in section 5.2 of the standard.
var eastAsia = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo, unicode.Common, unicode.Inherited,
}

// alsoLikeLatin are letters of other alphabets that people take for a Latin one in most fonts,
// and of which Unicode's table (confusables.go) does not say so.
const alsoLikeLatin = "\u0437\u043a\u044c\u03b5\u03b7\u03ba\u03c4\u03c9\u053c\u0582"

// partings are signs that look like the separators of a path or an address and have no use in a
// text. Quotes and dashes people need.
const partings = "\u2044\u2215\u29f8\uff0f\u2024\uff0e\ua789\u2236\u02d0\u01c1\u2223\u2758\u2759\u2010\u2011\u037e\ua7f7"

// livingLatin are letters of Latin alphabets that look like others, and which people write: Turkish,
// Ewe, Skolt Sámi. In a command they are shown as code points all the same.
const livingLatin = "\u0131\u0263\u028b\u01b7"

// plainSigns are signs beyond ASCII that look like none of it.
const plainSigns = "\u00a1\u00a3\u00a5\u00a7\u00a9\u00ae\u00b0\u00b1\u00b6\u00bf\u20ac\u2190\u2191\u2192\u2193\u2705\u2713\u2717\u274c\u3001\u3002\u300c\u300d\u300e\u300f\u3010\u3011"

// strokes are letters of East Asia of a stroke or two, and the circle that is a digit. Beside other letters of theirs they are read as
// letters, and alone as the sign that they look like.
const strokes = "\u3007\u30ce\uff89\u30fc\uff70\u4e00\u4e28\u4e36\u4e3f\u3161\uffda\u3163\uffdc\u3127\u30cb\uff86\u4e8c\u3078\u30d8"

// isSign reports whether r is a sign that could be taken for one of ASCII, of which each means
// something in a command: quotes, dashes, bars, slashes. All are but those that are known to look
// otherwise, and pictures.
func isSign(r rune) bool {
	switch {
	case r < utf8.RuneSelf, strings.ContainsRune(plainSigns, r), strings.ContainsRune(strokes, r):
		return false
	case r == 0xa778, r == 0xa78b, r == 0xa78c: // letters, drawn as signs
		return true
	case unicode.Is(unicode.Sc, r):
		return r >= 0xfe50 // in other widths
	case unicode.Is(unicode.So, r):
		return r < 0x1f000 || r >= 0x1f100 && r <= 0x1f1e5 || r >= 0x1f650 && r <= 0x1f67f || r == 0x1f7f0
	case unicode.Is(unicode.Lm, r):
		return unicode.In(r, unicode.Common, unicode.Latin)
	}
	return unicode.In(r, unicode.P, unicode.Sk, unicode.Sm, unicode.N) // a digit of another script looks like some other of ours
}

// isStroke reports whether at i of a label stands a stroke with no other letter of East Asia beside it, or beside
// strokes that it stands among.
func isStroke(label []rune, i int) bool {
	if !strings.ContainsRune(strokes, label[i]) {
		return false
	}
	eastAsian := func(r rune) bool {
		return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo) || strings.ContainsRune(strokes, r)
	}
	first, end := i, i
	for first > 0 && eastAsian(label[first-1]) {
		first--
	}
	for end < len(label) && eastAsian(label[end]) {
		end++
	}
	return !slices.ContainsFunc(label[first:end], func(r rune) bool { return !strings.ContainsRune(strokes, r) })
}

// isTwin reports whether r passes for an ASCII character by itself, whatever stands beside it. A letter of
// another alphabet does so only in a word of such letters.
func isTwin(r rune, strict bool) bool {
	switch {
	case r < utf8.RuneSelf, unicode.Is(unicode.M, r), isForeign(r), strings.ContainsRune(strokes, r):
		return false
	case strict:
		return isSign(r) || unicode.In(r, likeASCII, formsOfASCII) || strings.ContainsRune(partings, r)
	}
	letter := unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt)
	return letter && unicode.In(r, likeASCII, formsOfASCII) && !strings.ContainsRune(livingLatin, r) ||
		unicode.In(r, unicode.Nd, unicode.Nl) && unicode.Is(formsOfASCII, r) ||
		unicode.Is(unicode.Lo, r) && unicode.Is(likeASCII, r) || strings.ContainsRune(partings, r)
}

// EscapeCommand is Escape for text that a program will read, and EscapeLine for what stands in a line of ours: signs that could be taken for
// those of ASCII are shown as code points too, since they are neither quotes nor options,
// and so are a word that could be Latin and is not, and Hebrew and Arabic letters but
// for single words between others.
func EscapeCommand(s string) string {
	if isPlain(s) {
		return s
	}
	return shown(s, true)
}

// showLetters shows letters as code points that pass for others, or move what stands
// beside them. A code point is Latin letters, beside which another may pass for one in its
// turn: it ends when there are no more.
func showLetters(s string, strict bool) string {
	for {
		shown := showReversed(showTwins(s, strict), strict)
		if shown == s {
			return s
		}
		s = shown
	}
}

// showTwins goes by words: runs of anything but blanks, so that an address or a
// path is one.
func showTwins(s string, strict bool) string {
	var b strings.Builder
	var honest *unicode.RangeTable
	for i := 0; i < len(s); {
		n := wordLength(s[i:])
		if word := s[i : i+n]; isPlain(strings.ReplaceAll(word, "→", "")) { // a tab is shown as an arrow
			b.WriteString(word)
			honest = nil
		} else {
			honest = showWord(&b, word, strict, honest)
		}
		if i += n; i < len(s) {
			if b.WriteByte(s[i]); s[i] != ' ' {
				honest = nil
			}
			i++
		}
	}
	return b.String()
}

func wordLength(s string) int {
	if n := strings.IndexAny(s, " \n"); n >= 0 {
		return n
	}
	return len(s)
}

// A label is a run of letters, marks and digits within a word.
type label struct {
	text    string              // what is not in a label has a label of its own, without letters
	script  *unicode.RangeTable // of its letters, or nil
	foreign bool                // letters of scripts that do not go together, or of none that is known
	twin    bool                // every letter looks like a Latin one, and is none
}

// showWord writes a word. Letters are shown as code points in a label that mixes alphabets, and in a label
// that could be Latin beside one that is. What could be Latin is not where a blank or a hyphen parts it from
// a label before it that could not: as in a sentence. The first word of a command has no such label. The
// script of such a label is honest, and what is returned for the word after.
func showWord(b *strings.Builder, word string, strict bool, honest *unicode.RangeTable) *unicode.RangeTable {
	labels := labelsOf(word)
	latin := strict || strings.ContainsFunc(word, func(r rune) bool { return isTwin(r, strict) })
	for _, l := range labels {
		latin = latin || l.foreign || l.script == unicode.Latin
	}
	for _, l := range labels {
		twin := l.twin && l.script != honest
		switch {
		case l.text == "-":
		case l.foreign || twin || l.script == unicode.Latin:
			honest = nil
		default:
			honest = l.script
		}
		text := []rune(l.text)
		for i, r := range text {
			if (l.foreign || twin && latin) && isForeign(r) || isTwin(r, strict) || strict && isStroke(text, i) {
				writeCodePoint(b, r)
			} else {
				b.WriteRune(r)
			}
		}
	}
	return honest
}

func labelsOf(word string) []label {
	var labels []label
	for word != "" {
		n := labelLength(word)
		labels = append(labels, labelOf(word[:n]))
		word = word[n:]
	}
	return labels
}

// labelLength is the length of the label that s begins with, or of the text that is not
// a label.
func labelLength(s string) int {
	inside := func(r rune) bool { return unicode.In(r, unicode.L, unicode.M, unicode.N) }
	first, _ := utf8.DecodeRuneInString(s)
	for i, r := range s {
		if inside(r) != inside(first) {
			return i
		}
	}
	return len(s)
}

func labelOf(text string) label {
	l := label{text: text, twin: true}
	for _, r := range text {
		script := alphabetOf(r)
		if script == nil {
			continue
		}
		l.foreign = l.foreign || script == unknownScript || l.script != nil && l.script != script
		l.script = script
		l.twin = l.twin && script != unicode.Latin && (unicode.In(r, likeASCII, formsOfASCII) || strings.ContainsRune(alsoLikeLatin, r))
	}
	l.twin = l.twin && l.script != nil
	return l
}

// unknownScript stands for every script that is not listed.
var unknownScript = &unicode.RangeTable{}

// alphabetOf is the script of a letter, or nil for what goes with every script.
func alphabetOf(r rune) *unicode.RangeTable {
	if r < utf8.RuneSelf {
		if unicode.IsLetter(r) {
			return unicode.Latin
		}
		return nil
	}
	if !unicode.IsLetter(r) || unicode.In(r, eastAsia...) {
		return nil
	}
	for _, script := range alphabets {
		if unicode.Is(script, r) {
			return script
		}
	}
	return unknownScript
}

// isForeign reports whether r is a letter of an alphabet other than Latin.
func isForeign(r rune) bool {
	script := alphabetOf(r)
	return script != nil && script != unicode.Latin
}
