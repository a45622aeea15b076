package changes

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
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
			for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{".", "a", "a/b", "a/b/c", "a/d", "a-b", "a-b/c", "\xff", strings.Repeat("n", 300)}), 0, 7).Draw(t, "names") {
				if changed[name] = nil; rapid.Bool().Draw(t, "there") {
					changed[name] = genEntry.Draw(t, "entry")
				}
			}
			for name := range want { // a look finds what lay in a directory that is gone gone, too
				if _, said := changed[name]; !said && rapid.Bool().Draw(t, "is gone") {
					changed[name] = nil
				}
			}
			now := func(name string) *Entry {
				e, said := changed[name]
				if old, there := want[name]; !said && there {
					e = &old
				}
				return e
			}
			for _, names := range [][2]string{{"a/b", "a/b/c"}, {"a-b", "a-b/c"}, {"a", "a/b"}, {"a", "a/d"}} {
				dir, in := names[0], now(names[1])
				if e := now(dir); in != nil && (!e.isDir() || e.Cache) {
					changed[dir] = &Entry{Mode: unix.S_IFDIR | 0o700, Seen: in.Seen}
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
			got, err := readTree(file)
			if err != nil || !maps.Equal(got, want) {
				t.Fatalf("%v: %s", err, cmp.Diff(want, got))
			}
			read, late, at, err := readSnapshot(file)
			if got := entriesOf(read); err != nil || late > entries || at != end || !maps.Equal(got, want) || read.size != len(want)-count(want, topName) {
				t.Fatalf("%v: %d of %d entries late, to %d of %d, %d names: %s", err, late, entries, at, end, read.size, cmp.Diff(want, got))
			}
		}
	})
}

func count(t tree, name string) int {
	if _, there := t[name]; there {
		return 1
	}
	return 0
}

var genEntry = rapid.Custom(func(t *rapid.T) *Entry {
	return &Entry{
		Mode: rapid.Uint32().Draw(t, "mode"), Cache: rapid.Bool().Draw(t, "cache"), Listed: rapid.Bool().Draw(t, "listed"), Owner: owner(rapid.Uint64().Draw(t, "owner")),
		Size: rapid.Int64().Draw(t, "size"), Hash: rapid.String().Draw(t, "hash"), Link: Name(rapid.String().Draw(t, "link")),
		Attributes: rapid.String().Draw(t, "attributes"), Unkept: rapid.String().Draw(t, "unkept"),
		Seen: stamp{Dev: rapid.Uint64().Draw(t, "dev"), Ino: rapid.Uint64().Draw(t, "ino"), Mtime: rapid.Int64().Draw(t, "mtime"), Ctime: rapid.Int64().Draw(t, "ctime"), Racy: rapid.Bool().Draw(t, "racy")},
	}
})
