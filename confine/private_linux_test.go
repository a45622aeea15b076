package confine

import (
	"os"
	"sync"
	"testing"
)

// TestSweepsTakeNothingThatIsMade: a supervisor that starts removes what dead ones have left,
// and not what another one is just making; what is left, it removes.
func TestSweepsTakeNothingThatIsMade(t *testing.T) {
	place := t.TempDir()
	stop := make(chan struct{})
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				removeStale([]string{place})
			}
		}
	})
	for range 200 {
		dir, lock, err := makeLocked(place)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir+"/0-tmp", 0o700); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		lock.Close()
	}
	close(stop)
	sweeping.Wait()

	_, lock, err := makeLocked(place)
	if err != nil {
		t.Fatal(err)
	}
	lock.Close() // whoever held it is dead
	removeStale([]string{place})
	if left, err := os.ReadDir(place); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
