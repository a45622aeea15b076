package changes

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestATreeFile: a tree that is written is read back, whatever its names and times are, and what a kill cut off is
// written over.
func TestATreeFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tree")
	rapid.Check(t, func(t *rapid.T) {
		if err := os.RemoveAll(file); err != nil {
			t.Fatal(err)
		}
		want, end, entries := tree{}, int64(0), 0
		for range rapid.IntRange(1, 4).Draw(t, "looks") {
			changed := map[string]*Entry{}
			for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{".", "a", "a/b", "\xff", strings.Repeat("n", 300)}), 0, 5).Draw(t, "names") {
				if changed[name] = nil; rapid.Bool().Draw(t, "there") {
					changed[name] = genEntry.Draw(t, "entry")
				}
			}
			for name, e := range changed {
				if delete(want, name); e != nil {
					want[name] = *e
				}
			}
			var err error
			if end, err = appendTree(file, end, changed); err != nil {
				t.Fatal(err)
			}
			entries += len(changed)
			if cut := rapid.SliceOf(rapid.Byte()).Draw(t, "half of a frame"); len(cut) > 0 {
				f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
				if err == nil {
					_, err = f.Write(append([]byte{0, 0, 1, 0, 'x'}, cut...))
				}
				if err := errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
			}
			got, n, at, err := readTree(file)
			if err != nil || n != entries || at != end || !maps.Equal(got, want) {
				t.Fatalf("%v: %d of %d entries, to %d of %d: %s", err, n, entries, at, end, cmp.Diff(want, got))
			}
		}
	})
}

var genEntry = rapid.Custom(func(t *rapid.T) *Entry {
	return &Entry{
		Mode: rapid.Uint32().Draw(t, "mode"), Cache: rapid.Bool().Draw(t, "cache"), Owner: owner(rapid.Uint64().Draw(t, "owner")),
		Size: rapid.Int64().Draw(t, "size"), Hash: rapid.String().Draw(t, "hash"), Link: Name(rapid.String().Draw(t, "link")),
		Attributes: rapid.String().Draw(t, "attributes"), Unkept: rapid.String().Draw(t, "unkept"),
		Seen: stamp{Dev: rapid.Uint64().Draw(t, "dev"), Ino: rapid.Uint64().Draw(t, "ino"), Mtime: rapid.Int64().Draw(t, "mtime"), Ctime: rapid.Int64().Draw(t, "ctime"), Racy: rapid.Bool().Draw(t, "racy")},
	}
})
