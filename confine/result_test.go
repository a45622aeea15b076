package confine

import "testing"

// TestLostOutputIsNoGoodEnd: whoever is faster, the program's end or its killer.
func TestLostOutputIsNoGoodEnd(t *testing.T) {
	for _, c := range []struct {
		cause, want Cause
		truncated   bool
	}{
		{Exited, Exited, false},
		{Exited, OutputLimit, true},
		{OutputLimit, OutputLimit, true},
		{TimedOut, TimedOut, true}, // what ended it is the cause
		{NotStarted, NotStarted, false},
	} {
		r := Result{Cause: c.cause}
		r.Count(1, 2, c.truncated)
		if r.Cause != c.want || r.Stdout != 1 || r.Stderr != 2 || r.Truncated != c.truncated {
			t.Errorf("%s, truncated %v: %+v", c.cause, c.truncated, r)
		}
	}
}
