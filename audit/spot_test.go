package audit

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestSpotterFindsWhatContainsFinds holds the one pass against one search for each word.
func TestSpotterFindsWhatContainsFinds(t *testing.T) {
	word := rapid.StringMatching(`[ab:/_]{2,4}`)
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(word, 0, 6).Draw(t, "words")
		text := rapid.StringMatching(`[abAB:/_ ]{0,40}`).Draw(t, "text")
		for _, folded := range []bool{false, true} {
			s := &spotter{folded: folded}
			s.look(words...)
			lower, want := text, false
			if folded {
				lower = strings.ToLower(text)
			}
			for _, w := range words {
				want = want || strings.Contains(lower, w)
			}
			if got := s.in([]byte(text)); got != want {
				t.Fatalf("%q in %q, folded %v: %v", words, text, folded, got)
			}
		}
	})
}

func TestSpotterOnOddTexts(t *testing.T) {
	s := &spotter{folded: true}
	s.look("secret", "key")
	for text, want := range map[string]bool{
		"": false, "k": false, "ke": false, "key": true, "KEY": true, "a KeY": true, "secre": false,
		"\u212aey": true, "\u017fecret": true, "caf\u00e9": false, "\xffkey\xff": true,
	} {
		if got := s.in([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	s.look("x")
	if !s.in([]byte("nothing")) {
		t.Error("a word of one byte is not looked for, and nothing says so")
	}
}
