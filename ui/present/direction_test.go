package present

import (
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/bidi"

	"github.com/sandgate/sandgate/approval"
)

// TestOnlyLettersWithADirectionHoldWords: between two words that are drawn from right to left
// every letter of Unicode holds them in their places if its bidirectional class is L, and
// none does of another class. Package approval has a table of its own, which this compares.
func TestOnlyLettersWithADirectionHoldWords(t *testing.T) {
	t.Parallel()
	undirected := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !unicode.IsLetter(r) {
			continue
		}
		p, _ := bidi.LookupRune(r)
		if r >= 0x0590 && (p.Class() == bidi.R || p.Class() == bidi.AL) {
			continue // they are the words
		}
		shown := approval.Escape("a א " + string(r) + " ב z")
		if !strings.ContainsRune(shown, r) {
			continue // a person reads its code point
		}
		if held := strings.Contains(shown, "א"); held != (p.Class() == bidi.L) {
			t.Fatalf("%U is of class %v: %s", r, p.Class(), shown)
		}
		if p.Class() == bidi.ON {
			undirected++
		}
	}
	if undirected < 20 {
		t.Errorf("only %d letters without a direction were tried", undirected)
	}
}
