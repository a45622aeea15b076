package changes

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSums: what is added is found where it was added last, until it is lost, whatever pack it is in.
func TestSums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, want, at := newSums(), map[[sha256.Size]byte]extent{}, int64(0)
		sums := rapid.Map(rapid.IntRange(1, 300), func(n int) (sum [sha256.Size]byte) {
			binary.BigEndian.PutUint16(sum[rapid.SampledFrom([]int{0, 6, 20}).Example(n):], uint16(n)) //nolint:gosec // below 300
			return sum
		})
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "lose") {
				sum := sums.Draw(t, "lost")
				s.lose(sum)
				delete(want, sum)
			}
			pack, lines := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "pack"), []byte{}
			for _, sum := range rapid.SliceOfNDistinct(sums, 0, 40, rapid.ID).Draw(t, "added") {
				e := extent{pack, at, at + 7}
				at += 7
				lines = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(append(lines, sum[:]...), uint64(e.at)), uint64(e.to)) //nolint:gosec // sizes
				want[sum] = e
			}
			s.add(pack, lines)
			if got := maps.Collect(s.all()); !maps.Equal(got, want) {
				t.Fatalf("all: %v, want %v", got, want)
			}
			for _, sum := range append(slices.Collect(maps.Keys(want)), sums.Draw(t, "asked")) {
				e, known := s.get(sum)
				if w, is := want[sum]; known != is || e != w {
					t.Fatalf("%x: %v %v, want %v %v", sum[:8], e, known, w, is)
				}
			}
		}
	})
}
