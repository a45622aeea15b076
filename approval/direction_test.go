package approval

import (
	"strings"
	"testing"
)

// TestReversedLettersAreShown: a letter that is drawn from right to left stays as it is only
// where nothing beside it can change its place. Prose keeps its words.
func TestReversedLettersAreShown(t *testing.T) {
	for _, tt := range []struct{ name, in, text, line, command string }{
		{"what a sign divides", "rm א > ב", "rm <U+05D0> > <U+05D1>", "rm <U+05D0> > <U+05D1>", "rm <U+05D0> > <U+05D1>"},
		{"arguments", "cp אב גד x", "cp אב גד x", "cp <U+05D0><U+05D1> <U+05D2><U+05D3> x", "cp <U+05D0><U+05D1> <U+05D2><U+05D3> x"},
		{"a digit after it", "kill א 12 x", "kill <U+05D0> 12 x", "kill <U+05D0> 12 x", "kill <U+05D0> 12 x"},
		{"Arabic digits and signs", "x ع/٣ y", "x <U+0639>/<U+0663> y", "x ع/<U+0663> y", "x ع/<U+0663> y"},
		{"two ends of a name", "x/א.ב/y", "x/<U+05D0>.<U+05D1>/y", "x/<U+05D0>.<U+05D1>/y", "x/<U+05D0>.<U+05D1>/y"},
		{"a line that begins with it and goes on in Latin", "א; rm", "<U+05D0>; rm", "<U+05D0>; rm", "<U+05D0>; rm"},
		{"at the end, where our words may follow", "echo שלום", "echo שלום", "echo <U+05E9><U+05DC><U+05D5><U+05DD>", "echo <U+05E9><U+05DC><U+05D5><U+05DD>"},
		{"a name alone", "א", "א", "<U+05D0>", "<U+05D0>"},

		{"a name in a path", "cat docs/שלום.txt", "cat docs/שלום.txt", "cat docs/שלום.txt", "cat docs/שלום.txt"},
		{"letters without a direction", "rm א\u02c6>\u02c6ב z", "rm <U+05D0>\u02c6>\u02c6<U+05D1> z", "rm א<U+02C6>><U+02C6><U+05D1> z", "rm א<U+02C6>><U+02C6><U+05D1> z"},
		{"one at the beginning", "ˆ אב; rm x", "ˆ <U+05D0><U+05D1>; rm x", "<U+02C6> <U+05D0><U+05D1>; rm x", "<U+02C6> <U+05D0><U+05D1>; rm x"},
		{"words with Latin between them", "a א b ب c", "a א b ب c", "a א b ب c", "a א b ب c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, c := range []struct {
				name string
				f    func(string) string
				want string
			}{{"Escape", Escape, tt.text}, {"EscapeLine", EscapeLine, tt.line}, {"EscapeCommand", EscapeCommand, tt.command}} {
				got := c.f(tt.in)
				if got != c.want {
					t.Errorf("%s(%q) = %q, want %q", c.name, tt.in, got, c.want)
				}
				if again := c.f(got); again != got {
					t.Errorf("%s is not idempotent: %q became %q", c.name, got, again)
				}
			}
		})
	}
	prose := "שלום, עולם. מה שלומך?\nמאה\nالسلام عليكم\nx שלום"
	if got := Escape(prose); got != prose {
		t.Errorf("prose became %q", got)
	}
	for _, p := range []Presentation{{Type: Command, Content: "rm א > ב"}, {Type: Diff, Content: "+rm א > ב"}, {Type: FileContent, Content: "rm א > ב"}} {
		if got := safePresentation(p).Content; strings.ContainsFunc(got, isRightToLeft) {
			t.Errorf("%s: %q", p.Type, got)
		}
	}
}
