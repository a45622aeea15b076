package bench

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestBenchesOfTheKilledGo: what a killed bench left goes with the next, and nothing else does.
func TestBenchesOfTheKilledGo(t *testing.T) {
	parent, elsewhere := t.TempDir(), t.TempDir()
	works, err := newScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	killed, err := newScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(killed.Name(), "a"), filepath.Join(parent, "sandgate-other"), filepath.Join(elsewhere, "kept")} {
		if err := os.Mkdir(dir, 0o500); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(elsewhere, filepath.Join(parent, benchPrefix+"link")); err != nil {
		t.Fatal(err)
	}
	killed.Close() // as the kernel does
	next, err := newScratch(parent)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Base(works.Name()), filepath.Base(next.Name()), benchPrefix + "link", "sandgate-other"}
	wantNames(t, parent, want)
	wantNames(t, elsewhere, []string{"kept"})
	works.remove()
	next.remove()
	wantNames(t, parent, want[2:])
}

func wantNames(t *testing.T, dir string, want []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("%s holds %q, want %q", dir, names, want)
	}
}
