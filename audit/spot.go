package audit

import (
	"bytes"
	"strings"
	"sync"
)

// A spotter looks for many words in one pass. The zero value finds none.
type spotter struct {
	// pairs has a bit for the first two bytes of each word.
	pairs [1 << 16 / 64]uint64
	words [1 << 8][]string // by their first byte
	// all is set by a word that is too short to have two bytes: everything has it, as
	// far as a spotter can tell.
	all bool
	// folded takes letters of either case, for words in lower case.
	folded bool
}

func (s *spotter) look(words ...string) {
	for _, w := range words {
		if len(w) < 2 {
			s.all = true
			continue
		}
		pair := uint16(w[0])<<8 | uint16(w[1])
		s.pairs[pair/64] |= 1 << (pair % 64)
		s.words[w[0]] = append(s.words[w[0]], w)
	}
}

// in reports whether one of the words is in text. It may report a secret in a text
// with letters outside ASCII that has none.
func (s *spotter) in(text []byte) bool {
	if s.all {
		return true
	}
	if s.folded && (bytes.Contains(text, []byte("\u017f")) || bytes.Contains(text, []byte("\u212a"))) {
		return true // the long s and the sign for kelvin, which are letters of ASCII in another case
	}
	var before byte
	for i, c := range text {
		if s.folded && 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		pair := uint16(before)<<8 | uint16(c)
		if s.pairs[pair/64]&(1<<(pair%64)) != 0 && i > 0 && s.starts(text[i-1:], before) {
			return true
		}
		before = c
	}
	return false
}

// starts reports whether text begins with one of the words that begin with first.
func (s *spotter) starts(text []byte, first byte) bool {
	for _, w := range s.words[first] {
		if len(text) < len(w) {
			continue
		}
		if head := string(text[:len(w)]); head == w || s.folded && strings.EqualFold(head, w) {
			return true
		}
	}
	return false
}

// nameSpotter looks for nameHints.
var nameSpotter = sync.OnceValue(func() *spotter {
	s := &spotter{folded: true}
	s.look(nameHints...)
	return s
})
