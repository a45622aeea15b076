package changes

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHalfDroppedDraftsGo: what a kill has left of a draft that was being dropped goes with the
// next sweep, also where its description has gone already; one that is being made stays.
func TestHalfDroppedDraftsGo(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"20261123T214224-jfrf.dropped", "20261123T214224-jfrg", "other.dropped"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "0", "upper"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sweepDrafts(dir)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "20261123T214224-jfrg" || filepath.Base(left[1]) != "other.dropped" {
		t.Errorf("left: %q, %v", left, err)
	}
}
