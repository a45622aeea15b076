package audit

import "testing"

// TestParseStat: a process chooses its own name, and may try to look dead.
func TestParseStat(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20"
	for _, c := range []struct {
		stat  string
		start uint64
		state byte
		ok    bool
	}{
		{"12 (bash)" + rest, 4711, 'S', true},
		{"12 (a) Z 1 (b)" + rest, 4711, 'S', true},
		{"12 ()" + rest, 4711, 'S', true},
		{"12 (bash) S 1 2", 0, 0, false},
		{"", 0, 0, false},
	} {
		start, state, err := parseStat("stat", []byte(c.stat))
		if start != c.start || state != c.state || (err == nil) != c.ok {
			t.Errorf("parseStat(%q) = %d, %c, %v", c.stat, start, state, err)
		}
	}
}
