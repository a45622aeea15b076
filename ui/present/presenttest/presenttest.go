// Package presenttest has the texts that the tests of every screen show, and what holds of them
// there: each is told from our words, and none looks like what it is not.
package presenttest

import (
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
)

// end is the last of each text.
const end = "ZZEND"

// Texts are what an agent may call a command, a file, a tool or itself.
func Texts() []string {
	return []string{
		"docs, as long as you look on, " + end,
		"touch q # `? That is all: it is empty. Press y. (\" " + end,
		"touch \u2013n \u043e\u0440\u0435 \u2019x; id\u2019 ./\u0441\u043e\u0440 " + end, // dash, quotes, and Cyrillic that looks Latin
		"x\n  writes      nothing\x1b[2J \u202e \u05d0 > \u05d1 " + end,
		strings.Repeat("d/", 200) + " (exact) of agent nobody " + end,
	}
}

// Check reports what is wrong with what a screen shows: lines that are not broken, each of our
// words with texts of Texts in them. After such a text comes a quote, or the rest of its path, or nothing.
// A test needs to see one at least.
func Check(t testing.TB, where, shown string) {
	t.Helper()
	seen := false
	for line := range strings.SplitSeq(shown, "\n") {
		if escaped := approval.EscapeLine(line); escaped != line {
			t.Errorf("%s: not escaped: %q", where, line)
		}
		for rest := line; ; {
			_, after, ok := strings.Cut(rest, end)
			if !ok {
				break
			}
			seen = true
			if rest = after; rest != "" && !strings.ContainsAny(rest[:1], `"/\`) {
				t.Errorf("%s: what comes after %q is not told from it: %q", where, end, line)
			}
		}
	}
	if !seen {
		t.Errorf("%s: the text is not there:\n%s", where, shown)
	}
}
