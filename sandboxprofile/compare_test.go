package sandboxprofile

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestComparePathsByComponents holds the order of paths against that of their components.
func TestComparePathsByComponents(t *testing.T) {
	name := rapid.StringOfN(rapid.SampledFrom([]rune("/ab-.é\x00")), 0, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		if got, want := ComparePaths(a, b), slices.Compare(components(a), components(b)); got != want {
			t.Fatalf("%q and %q: %d, want %d", a, b, got, want)
		}
	})
}
