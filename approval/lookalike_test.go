package approval

import (
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/rangetable"
	"pgregory.net/rapid"
)

// TestLookalikesAreShown: what passes for another letter is a code point; words
// that are what they seem stay as they are.
func TestLookalikesAreShown(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"a Cyrillic letter in a Latin word", "pаypal.com", "p<U+0430>ypal.com"},
		{"a Cyrillic host", "https://аррӏе.com/x", "https://<U+0430><U+0440><U+0440><U+04CF><U+0435>.com/x"},
		{"a Greek letter in a Latin word", "gοοgle", "g<U+03BF><U+03BF>gle"},
		{"a Latin letter in a Cyrillic word", "приvет", "<U+043F><U+0440><U+0438>v<U+0435><U+0442>"},
		{"Cyrillic with Greek", "дο", "<U+0434><U+03BF>"},
		{"a script that few read", "ᏞᏚ", "<U+13DE><U+13DA>"},
		{"full width", "ｒｍ．com", "<U+FF52><U+FF4D><U+FF0E>com"},
		{"mathematical letters", "𝐫𝐦 -𝟣", "<U+1D42B><U+1D426> -<U+1D7E3>"},
		{"a Roman numeral", "ⅼs", "<U+217C>s"},
		{"slashes that are none", "a.com⁄b∕c", "a.com<U+2044>b<U+2215>c"},
		{"the Greek question mark", "ls\u037e rm", "ls<U+037E> rm"},
		{"hyphens that are none", "rm ‐rf", "rm <U+2010>rf"},

		{"Russian", "он и сор, а также привет", "он и сор, а также привет"},
		{"a Russian file name", "файл.txt", "файл.txt"},
		{"Greek", "καλημέρα κόσμε", "καλημέρα κόσμε"},
		{"Japanese with Latin", "Goで書く、東京。", "Goで書く、東京。"},
		{"Chinese punctuation", "你好，世界！", "你好，世界！"},
		{"French", "naïve “café” – œuvre", "naïve “café” – œuvre"},
		{"Hindi, Thai, Hebrew, Arabic", "नमस्ते สวัสดี שלום مرحبا", "नमस्ते สวัสดี שלום مرحبا"},
		{"the micro sign, and digits", "5 µs x² ½", "5 µs x² ½"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Escape(tt.in); got != tt.want {
				t.Errorf("Escape(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// TestCommandsHaveNoTypographicQuotes: in a command they quote nothing, and a word
// that could be the name of a program is not.
func TestCommandsHaveNoTypographicQuotes(t *testing.T) {
	for in, want := range map[string]string{
		"echo ‘a; rm -rf ~’": "echo <U+2018>a; rm -rf ~<U+2019>",
		"rm –rf":             "rm <U+2013>rf",
		"ls ｜ sh":            "ls <U+FF5C> sh",
		"сору a b":           "<U+0441><U+043E><U+0440><U+0443> a b",
		"echo привет 'é'":    "echo привет 'é'",
	} {
		if got := EscapeCommand(in); got != want {
			t.Errorf("EscapeCommand(%q) = %q, want %q", in, got, want)
		}
		p := safePresentation(Presentation{Type: Command, Content: in})
		if p.Content != want {
			t.Errorf("presentation of %q: %q, want %q", in, p.Content, want)
		}
		if p := safePresentation(Presentation{Type: Text, Content: "“it’s”"}); p.Content != "“it’s”" {
			t.Errorf("prose became %q", p.Content)
		}
	}
}

func checkEscapedCommand(t interface {
	Helper()
	Fatalf(string, ...any)
}, in string) {
	t.Helper()
	out := EscapeCommand(in)
	if again := EscapeCommand(out); again != out {
		t.Fatalf("EscapeCommand is not idempotent: %q became %q, then %q", in, out, again)
	}
	if again := Escape(out); again != out {
		t.Fatalf("Escape changes what EscapeCommand gave: %q became %q, then %q", in, out, again)
	}
	for _, r := range out {
		if isTwin(r, true) {
			t.Fatalf("EscapeCommand(%q) contains %U", in, r)
		}
	}
}

// TestSignsOfCommands: what has the ink of a sign of ASCII is a code point in a command, whatever it is
// called; letters and pictures that people write in one stay.
func TestSignsOfCommands(t *testing.T) {
	for _, r := range "\ua78c\ua78b\u02bb\u02ca\u055a\u0384\u1fbd\u1fef\u02ba\u02dd\u3003\u301d\u2034\u2216\u29f5\ufe68\u2572\u2571\u27cb\u2502\u2503\u2012\ufe58\u02d7\u2796\u2500\ufe54\u0589\ufe55\uff1a\uff1d\u30a0\ufe69\uff04\ufe60\ua778\u2039\ufe65\u204e\u2217\u223c\uff20\uff3f\u02cd\u4e36\u4e3f\u4e28\u30ce\u2018\u2014\u2212" {
		if got := EscapeCommand("rm a" + string(r) + " b"); strings.ContainsRune(got, r) {
			t.Errorf("%U is shown as %q", r, got)
		}
	}
	for _, r := range "\u04c0\uffdc\u3163\u01c1\uffda\u3161\u3127\ua7f7\uff86\u30cb\u4e8c\U0001f7f0\uff89\u3078\u30d8\u0294\U0001f676\U0001f677\u09ea\u09ed\u0a6a\u09e6\u0966\u0b66\u0e50\u1040\U0001fbf9\U0001f10d\u0433\u0417\u0431\u03c3\u03dc\u037f\u03fa\u054d\u0566\u057c\u0561\u101d\u0d20\u0b20\u12d0\u1200" {
		for _, text := range []string{"rm a " + string(r) + " tee src", "x=4" + string(r) + "0"} {
			if got := EscapeCommand(text); strings.ContainsRune(got, r) {
				t.Errorf("%U is shown in %q", r, got)
			}
		}
	}
	if got := EscapeCommand("sudo \u04c0\u0420"); got != "sudo <U+04C0><U+0420>" {
		t.Errorf("%q", got)
	}
	for _, s := range []string{"echo работа зима 二日 한국어 ニュース", "git commit -m 'ラーメン、一番。'", "echo 🎉 ✅ → ok", "cat docs/שלום.txt", "ls naïve"} {
		if got := EscapeCommand(s); got != s {
			t.Errorf("%q is shown as %q", s, got)
		}
	}
	for s, want := range map[string]string{"gi\u0307t": "gi<U+0307>t", "a_\u0332b": "a_<U+0332>b", "l-\u0335x": "l-<U+0335>x", "a\u0338": "a<U+0338>", "e\u0301": "e\u0301"} {
		if got := EscapeName(s); got != want {
			t.Errorf("%q is shown as %q", s, got)
		}
	}
	p := Presentation{Type: Command, Content: "  sh │ x\n\n── x.sh, which\n│ echo ‘a’ │\n", Metadata: map[string]any{Margin: "  "}}
	want := "  sh <U+2502> x\n\n── x.sh, which\n│ echo <U+2018>a<U+2019> <U+2502>\n"
	if got := safePresentation(p); got.Content != want || got.Escaped(got.Content) != want {
		t.Errorf("%q", got.Content)
	}
}

// knownTwins are characters that were known to look like ASCII before there was a table of them.
const knownTwins = "\u0430\u0441\u0501\u0435\u04bb\u0456\u0458\u04cf\u043e\u0440\u0455\u051b\u0443\u0445" +
	"\u0475\u051d\u04af\u044c\u0410\u0412\u0415\u0405\u0406\u0408\u041a\u041c\u041d\u041e" +
	"\u0420\u0421\u0422\u0423\u0425\u0474\u050c\u051c\u04ae" +
	"\u03bf\u03bd\u03b1\u03c1\u03b9\u03ba\u03c4\u03c5\u03c9\u03b3\u03b7\u0391\u0392\u0395" +
	"\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03f2\u03f3\u03f9" +
	"\u0585\u0578\u057d\u0570\u0581\u0584\u053c\u054f\u0555" +
	"\u04c0\u0433\u0431\u0437\u0417\u043a\u03c3\u03dc\u037f\u03fa\u03b5\u054d\u0566\u057c\u0561\u0582\u101d\u0d20\u0b20\u12d0\u1200" +
	"\u2044\u2215\u29f8\uff0f\u2024\uff0e\ua789\u2236\u02d0\u01c3\u01c0\u2223\u2758\u2759" +
	"\u2010\u2011\u0251\u0261\u0269\u2160\u2164\u2169\u216c\u216d\u216e\u216f\u2170\u2174" +
	"\u2179\u217c\u217d\u217e\u217f\u210a\u210b\u210c\u210d\u210e\u2110\u2111\u2112\u2113" +
	"\u2115\u2119\u211a\u211b\u211c\u211d\u2124\u212c\u212d\u212f\u2130\u2131\u2133\u2134" +
	"\u037e\u212a\u01c1\u0294\ua7f7"

// TestWhatLooksLikeASCIIIsShown: every character that Unicode says looks like one of ASCII, or is another
// form of it, is a code point where it could be taken for one: in a command, a path, a host, a name,
// alone and among letters of ASCII. One among letters of its own alphabet is not.
func TestWhatLooksLikeASCIIIsShown(t *testing.T) {
	check := func(r rune) {
		for _, text := range []string{string(r), string(r) + " a b", "gi" + string(r), "sh/" + string(r), "https://a." + string(r) + ".com/", "rm -" + string(r) + " x"} {
			for _, show := range []func(string) string{EscapeCommand, EscapeLine, EscapeName} {
				if got := show(text); strings.ContainsRune(got, r) {
					t.Fatalf("%U is shown: %q is %q", r, text, got)
				}
			}
		}
	}
	n := 0
	for _, table := range []*unicode.RangeTable{likeASCII, formsOfASCII} {
		rangetable.Visit(table, func(r rune) {
			if !unicode.Is(unicode.M, r) { // a mark of a letter of its own script
				check(r)
				n++
			}
		})
	}
	for _, r := range knownTwins {
		check(r)
	}
	if n < 1000 {
		t.Errorf("%d characters only", n)
	}
	// What stands where the table has it. A table that was made wrongly is not seen by itself.
	for _, r := range "\u0430\u03bf\u0585\u05e1\u0665\u0be6\u101d\u1d04\ua731\uff42\U0001d41a\u24d0\ufb01\U0001f74c\u0131\u017f\u01c3\u3007\u3033\u4e36\U0001ccd6" {
		check(r)
	}
	for _, s := range []string{
		"приложение", "привет мир", "исправить ошибку за раз", "файл из-за как", "διόρθωση και το", "καλημέρα", "日本語のファイル", "二〇二六年", "ニュースの一覧",
		"한국어 파일", "日中辞典", "naïve café", "smørrebrød", "Łódź", "ờ bên này", "œuvre", "hæ", "straße", "Ɗaki", "हिन्दी भाषा", "ภาษาไทย", "Հայերեն", "ქართული",
	} {
		for _, text := range []string{s, "git commit -m '" + s + "'", "cat docs/" + strings.ReplaceAll(s, " ", "_") + ".txt"} {
			if strings.Contains(text, "_") && strings.Contains(s, " ") {
				continue // each part of a name is a name
			}
			if got := EscapeCommand(text); got != text {
				t.Errorf("%q is shown as %q", text, got)
			}
		}
	}
	// Only words before one in its sentence vouch for it, with one blank or hyphen between them.
	for text, want := range map[string]string{
		"сору файл":     "<U+0441><U+043E><U+0440><U+0443> файл",
		"файл; сору":    "файл; <U+0441><U+043E><U+0440><U+0443>",
		"файл  сору":    "файл  <U+0441><U+043E><U+0440><U+0443>",
		"файл\nсору":    "файл\n<U+0441><U+043E><U+0440><U+0443>",
		"файл/сору":     "файл/<U+0441><U+043E><U+0440><U+0443>",
		"файл -- сору":  "файл -- <U+0441><U+043E><U+0440><U+0443>",
		"файл x сору":   "файл x <U+0441><U+043E><U+0440><U+0443>",
		"καλή сору":     "καλή <U+0441><U+043E><U+0440><U+0443>",
		"файл.сору.com": "файл.<U+0441><U+043E><U+0440><U+0443>.com",
		"日本 сору":       "日本 <U+0441><U+043E><U+0440><U+0443>",
	} {
		if got := EscapeCommand(text); got != want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}

// TestProseKeepsItsLetters: the lines of a file or a diff keep what people write. What nobody does is a
// code point there too.
func TestProseKeepsItsLetters(t *testing.T) {
	for _, s := range []string{"kapı açık", "œuvre, æ", "“it’s” – …", "x² ½ 5 µs 3 × 4", "сору a", "1º ª", "二〇二六年、一番。", "ʻokina", "№ 5 ™", "Ʒuõʹlljeei"} {
		if got := Escape(s); got != s {
			t.Errorf("%q is shown as %q", s, got)
		}
	}
	for _, r := range "\ua731\u1d04\u0261\uff42\U0001d41a\ufb01\u01c3\u2170\u017f\u2215" {
		if got := Escape("gi" + string(r)); strings.ContainsRune(got, r) {
			t.Errorf("%U is shown in a text", r)
		}
	}
}

func TestEscapeCommandProperties(t *testing.T) {
	letters := rapid.SampledFrom([]rune("abсрοйᏞ日のé-файл一〇\u0301\u202e1.-/ \n‘’｜𝐫ｒאבع٣⁄"))
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(letters).Draw(t, "letters")
		checkEscapedCommand(t, s)
		checkEscaped(t, s)
		checkEscapedCommand(t, rapid.String().Draw(t, "any"))
	})
}

func FuzzEscapeCommand(f *testing.F) {
	for _, seed := range []string{"", "pаypal.com", "сор\u202e", "Ꮲсор", "éа-сор", "‘a’", "d\u0301ο", "א⁄", "rm א > ב", "א rm"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkEscaped(t, s)
		checkEscapedCommand(t, s)
	})
}
