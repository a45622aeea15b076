package approval

import (
	"strings"
	"testing"

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
		if isTwin(r) || isSign(r) {
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

func TestEscapeCommandProperties(t *testing.T) {
	letters := rapid.SampledFrom([]rune("abсрοйᏞ日のé\u0301\u202e1.-/ \n‘’｜𝐫ｒאבع٣⁄"))
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
