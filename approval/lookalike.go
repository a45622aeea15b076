package approval

import (
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

// latinTwins are letters of other alphabets that look like a Latin letter in most
// fonts: the single-letter part of the standard's confusables.txt.
const latinTwins = "\u0430\u0441\u0501\u0435\u04bb\u0456\u0458\u04cf\u043e\u0440\u0455\u051b\u0443\u0445" +
	"\u0475\u051d\u04af\u044c\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e" +
	"\u0420\u0421\u0422\u0423\u0425\u0474\u050c\u051c\u04ae" +
	"\u03bf\u03bd\u03b1\u03c1\u03b9\u03ba\u03c4\u03c5\u03c9\u03b3\u03b7\u0391\u0392\u0395" +
	"\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03f2\u03f3\u03f9" +
	"\u0585\u0578\u057d\u0570\u0581\u0584\u053c\u054f\u0555" +
	"\u04c0\u0433\u0431\u0437\u0417\u043a\u03c3\u03dc\u037f\u03fa\u03b5\u054d\u0566\u057c\u0561\u0582\u101d\u0d20\u0b20\u12d0\u1200"

// twins are characters that look like an ASCII character, whatever stands beside
// them, and which nobody needs in a command, a path or an address.
const twins = "\u2044\u2215\u29f8\uff0f\u2024\uff0e\ua789\u2236\u02d0\u01c3\u01c0\u2223\u2758\u2759" +
	"\u2010\u2011\u0251\u0261\u0269\u2160\u2164\u2169\u216c\u216d\u216e\u216f\u2170\u2174" +
	"\u2179\u217c\u217d\u217e\u217f\u210a\u210b\u210c\u210d\u210e\u2110\u2111\u2112\u2113" +
	"\u2115\u2119\u211a\u211b\u211c\u211d\u2124\u212c\u212d\u212f\u2130\u2131\u2133\u2134" +
	"\u037e\u212a\u01c1\u0294\ua7f7"

// plainSigns are signs beyond ASCII that look like none of it.
const plainSigns = "\u00a1\u00a3\u00a5\u00a7\u00a9\u00ae\u00b0\u00b1\u00b6\u00bf\u20ac\u2190\u2191\u2192\u2193\u2705\u2713\u2717\u274c\u3001\u3002\u300c\u300d\u300e\u300f\u3010\u3011"

// strokes are letters of East Asia of a stroke or two. Beside other letters of theirs they are read as
// letters, and alone as the sign that they look like.
const strokes = "\u30ce\uff89\u30fc\uff70\u4e00\u4e28\u4e36\u4e3f\u3161\uffda\u3163\uffdc\u3127\u30cb\uff86\u4e8c\u3078\u30d8"

// isSign reports whether r is a sign that could be taken for one of ASCII, of which each means
// something in a command: quotes, dashes, bars, slashes. All are but those that are known to look
// otherwise, and pictures.
func isSign(r rune) bool {
	switch {
	case r < utf8.RuneSelf, strings.ContainsRune(plainSigns, r):
		return false
	case r == 0xa778, r == 0xa78b, r == 0xa78c: // letters, drawn as signs
		return true
	case unicode.Is(unicode.Sc, r):
		return r >= 0xfe50 // in other widths
	case unicode.Is(unicode.So, r):
		return r < 0x1f000 || r >= 0x1f100 && r <= 0x1f1e5 || r >= 0x1f650 && r <= 0x1f67f || r == 0x1f7f0
	case unicode.Is(unicode.Lm, r):
		return unicode.In(r, unicode.Common, unicode.Latin) && !strings.ContainsRune(strokes, r)
	}
	return unicode.In(r, unicode.P, unicode.Sk, unicode.Sm, unicode.N) // a digit of another script looks like some other of ours
}

// isStroke reports whether a letter stands alone that is one stroke.
func isStroke(before, r, after rune) bool {
	beside := func(r rune) bool {
		return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo) && !strings.ContainsRune(strokes, r)
	}
	return strings.ContainsRune(strokes, r) && !beside(before) && !beside(after)
}

// isTwin reports whether r passes for an ASCII character by itself.
func isTwin(r rune) bool {
	switch {
	case r >= 0x1d400 && r <= 0x1d7ff: // letters and digits in mathematical fonts
		return true
	case r >= 0xff10 && r <= 0xff19, r >= 0xff21 && r <= 0xff3a, r >= 0xff41 && r <= 0xff5a:
		return true // full width
	}
	return strings.ContainsRune(twins, r)
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
	for i := 0; i < len(s); {
		n := wordLength(s[i:])
		if word := s[i : i+n]; isPlain(word) {
			b.WriteString(word)
		} else {
			showWord(&b, word, strict)
		}
		if i += n; i < len(s) {
			b.WriteByte(s[i])
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
	text    string // what is not in a label has a label of its own, without letters
	latin   bool
	foreign bool // letters of scripts that do not go together, or of none that is known
	twin    bool // every letter is a latinTwin
}

// showWord writes a word. Letters are shown as code points in a label that mixes
// alphabets, and in a label that could be Latin beside one that is.
func showWord(b *strings.Builder, word string, strict bool) {
	labels := labelsOf(word)
	latin := strict || strings.ContainsFunc(word, isTwin)
	for _, l := range labels {
		latin = latin || l.latin || l.foreign
	}
	for _, l := range labels {
		hide := l.foreign || l.twin && latin
		before := ' '
		for i, r := range l.text {
			after, _ := utf8.DecodeRuneInString(l.text[i+utf8.RuneLen(r):])
			switch {
			case hide && isForeign(r), isTwin(r), strict && (isSign(r) || isStroke(before, r, after)):
				writeCodePoint(b, r)
			default:
				b.WriteRune(r)
			}
			before = r
		}
	}
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

// labelLength is the length of the label, or of what is none, that s begins with.
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
	l := label{text: text}
	var alphabet *unicode.RangeTable
	letters, twinned := 0, 0
	for _, r := range text {
		script := alphabetOf(r)
		if script == nil {
			continue
		}
		l.foreign = l.foreign || script == unknownScript || alphabet != nil && alphabet != script
		alphabet = script
		letters++
		if strings.ContainsRune(latinTwins, r) {
			twinned++
		}
		l.latin = l.latin || script == unicode.Latin
	}
	l.twin = letters > 0 && letters == twinned
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
