package tui

import (
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// flooded is a desk on which n requests of other groups and sessions wait.
func flooded(n int) *desk {
	d := newDesk(80, 24)
	list := make([]protocol.Approval, n)
	for i := range list {
		list[i] = request(i, nil)
	}
	d.arrive(list...)
	return d
}

// TestAFloodCostsWhatIsOnTheScreen: with a thousand requests waiting, only those that
// were looked at are built, and a key and the screen after it take no more memory
// than with ten. Memory is what can be counted alike on every machine.
func TestAFloodCostsWhatIsOnTheScreen(t *testing.T) {
	perKey := func(n int) float64 {
		d := flooded(n)
		d.press("down", "down")
		if d.shows != 3 {
			t.Errorf("%d waiting: %d presentations were asked for, want those of the 3 that were looked at", n, d.shows)
		}
		keys := []string{"down", "up"}
		i := 0
		return testing.AllocsPerRun(20, func() {
			d.press(keys[i%2])
			d.m.View()
			i++
		})
	}
	few, many := perKey(10), perKey(1000)
	if many > 1.2*few {
		t.Errorf("%v allocations for a key with 1000 waiting, %v with 10", many, few)
	}
}

func BenchmarkKeyInAFlood(b *testing.B) {
	d := flooded(1000)
	keys := []string{"down", "up"}
	for i := 0; b.Loop(); i++ {
		d.press(keys[i%2])
		d.m.View()
	}
}
