package broker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestTextSaysWhereTheKernelGoes: in a tree in which every name is a link to ".", so that
// ".." after a name leads above what the text says, no text that is believed leads there.
func TestTextSaysWhereTheKernelGoes(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"a", ".a", "...", "....", "..a", "a..", " ..", ".. ", `..\`}
	dir := base
	for i := 0; ; i++ {
		for _, name := range names {
			if err := os.Symlink(".", filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if i == 4 {
			break
		}
		dir = filepath.Join(dir, "d")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	believed, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom(append([]string{"", ".", "..", "..", ".."}, names...)), 1, 7).Draw(t, "parts")
		to := strings.TrimLeft(strings.Join(parts, "/"), "/")
		if to == "" || strings.Count(to+"/", "../") > 4 { // above the tree the kernel finds none of these names
			return
		}
		real, err := filepath.EvalSymlinks(dir + "/" + to)
		if err != nil {
			t.Fatal(err)
		}
		where, ok := textOf(dir, to)
		if !ok {
			refused++
			return
		}
		believed++
		below := where // less the names that lead nowhere
		for slices.Contains(names, filepath.Base(below)) {
			below = filepath.Dir(below)
		}
		if real != below {
			t.Fatalf("%q: the text says %s, and it leads to %s", to, where, real)
		}
	})
	if believed == 0 || refused == 0 {
		t.Errorf("%d texts believed, %d refused", believed, refused)
	}
}
