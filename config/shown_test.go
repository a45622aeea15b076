package config

import "testing"

// TestShown: a value reads as in the file, on one line, and no part of it moves the cursor.
func TestShown(t *testing.T) {
	for _, x := range []struct {
		value any
		want  string
	}{
		{[]string{"a.example:443"}, `["a.example:443"]`},
		{9999, "9999"},
		{[]string{"a\x1b[2J"}, `["a\\e[2J"]`},
		{[]string{"a-name-of-forty-letters-that-takes-room", "another-name-of-forty-letters-that-is-cut"}, `[a-name-of-forty-letters-that-takes-room, another-name-of-forty-letters-that-is-...`},
	} {
		if got := shown(x.value); got != x.want {
			t.Errorf("%v: %s, want %s", x.value, got, x.want)
		}
	}
}
