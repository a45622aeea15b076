package changes

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"math/rand/v2"
	"slices"
)

// sums finds contents by their SHA-256. A process that begins reads the lines of all indexes and needs few of them, so
// they stay as they were read, and slots have their numbers. To fill a map takes five times as long.
type sums struct {
	lines []byte   // of indexes (see packs)
	runs  []sumRun // which packs they are of, in order
	slots []uint32 // the number of a line plus one, at or after the place that its sum gives; 0 is none
	seed  uint64   // so that nobody can choose contents that all get the same place
}

// A sumRun says which pack the lines from one on are of.
type sumRun struct {
	from int
	pack string
}

func newSums() *sums { return &sums{seed: rand.Uint64()} } //nolint:gosec // a call does not learn it

func (s *sums) len() int { return len(s.lines) / indexLine }

// add takes over whole lines of a pack's index. Of two with the same sum the later one counts.
func (s *sums) add(pack string, lines []byte) {
	from := s.len()
	if len(lines) == 0 {
		return
	}
	if from == 0 {
		s.lines = lines
	} else {
		s.lines = append(s.lines, lines...)
	}
	if n := len(s.runs); n == 0 || s.runs[n-1].pack != pack {
		s.runs = append(s.runs, sumRun{from, pack})
	}
	if 2*s.len() > len(s.slots) {
		size := 64
		for size < 3*s.len() {
			size *= 2
		}
		s.slots, from = make([]uint32, size), 0
	}
	for i := from; i < s.len(); i++ {
		*s.slot(s.sum(i)) = uint32(i) + 1 //nolint:gosec // so many would take 200 GB
	}
}

func (s *sums) sum(line int) [sha256.Size]byte { return [sha256.Size]byte(s.lines[line*indexLine:]) }

// slot is the one that a sum has, or would get.
func (s *sums) slot(sum [sha256.Size]byte) *uint32 {
	const odd = 0x9e3779b97f4a7c15 // 2^64 by the golden ratio (Knuth, The Art of Computer Programming 6.4)
	mask := uint64(len(s.slots) - 1)
	for at := (binary.NativeEndian.Uint64(sum[:]) ^ s.seed) * odd >> 32; ; at++ {
		slot := &s.slots[at&mask]
		if *slot == 0 || s.sum(int(*slot)-1) == sum {
			return slot
		}
	}
}

// get says where a content is.
func (s *sums) get(sum [sha256.Size]byte) (e extent, known bool) {
	if len(s.slots) == 0 {
		return e, false
	}
	slot := *s.slot(sum)
	if slot == 0 {
		return e, false
	}
	return s.extent(int(slot) - 1), true
}

func (s *sums) extent(line int) extent {
	run, exact := slices.BinarySearchFunc(s.runs, line, func(r sumRun, line int) int { return r.from - line })
	if !exact {
		run--
	}
	b := s.lines[line*indexLine+sha256.Size:]
	return extent{s.runs[run].pack, int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))} //nolint:gosec // as packs.add has written them
}

// lose forgets a content: no content has the sum that its lines get.
func (s *sums) lose(sum [sha256.Size]byte) {
	for line := range s.len() {
		if s.sum(line) == sum {
			clear(s.lines[line*indexLine:][:sha256.Size])
		}
	}
}

// all are the contents.
func (s *sums) all() iter.Seq2[[sha256.Size]byte, extent] {
	return func(yield func([sha256.Size]byte, extent) bool) {
		for _, slot := range s.slots {
			if line := int(slot) - 1; slot != 0 && s.sum(line) != ([sha256.Size]byte{}) && !yield(s.sum(line), s.extent(line)) {
				return
			}
		}
	}
}
