package assemble

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestCachesArePruned: what was used longest ago goes first, a part as a whole, with
// read-only directories; what is used, and what a link leads to, stays. A workspace whose
// calls fill the disk, or say that they have, costs no other one its cache. Sizes are in pages.
func TestCachesArePruned(t *testing.T) {
	dir := t.TempDir()
	fill := func(id string, used time.Duration, parts map[string]int) {
		t.Helper()
		for name, size := range parts {
			part := filepath.Join(dir, id, "files", name, "in")
			if err := os.MkdirAll(part, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(part, "file"), bytes.Repeat([]byte{1}, size<<12), 0o400); err != nil {
				t.Fatal(err)
			}
		}
		lock := filepath.Join(dir, id, "lock")
		at := time.Now().Add(-used)
		if err := os.WriteFile(lock, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(lock, at, at); err != nil {
			t.Fatal(err)
		}
	}
	fill("oldest", 3*time.Hour, map[string]int{"a": 100})
	fill("used", 4*time.Hour, map[string]int{"a": 100})
	fill("old", 2*time.Hour, map[string]int{"a": 100, "b": 50})
	fill("new", time.Hour, map[string]int{"a": 100})
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "oldest", "files", "a", "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "oldest", "files", "a", "in"), 0o500); err != nil {
		t.Fatal(err)
	}
	lock, err := LockCache(filepath.Join(dir, "used"), syscall.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()

	left := func(want ...string) {
		t.Helper()
		got, err := filepath.Glob(filepath.Join(dir, "*", "files", "*"))
		if err != nil || len(got) != len(want) {
			t.Fatalf("%v, %v", got, err)
		}
		for i, w := range want {
			if rel, _ := filepath.Rel(dir, got[i]); rel != w {
				t.Errorf("%v", got)
			}
		}
	}
	prune := func(most int64, often time.Duration) {
		t.Helper()
		if err := PruneCaches(dir, most<<12, often); err != nil {
			t.Fatal(err)
		}
	}
	fill("greedy", 0, map[string]int{"a": 500})
	if err := os.Truncate(filepath.Join(dir, "new/files/a/in/file"), 1<<40); err != nil {
		t.Fatal(err)
	}
	prune(450, 0)
	left("new/files/a", "old/files/a", "old/files/b", "oldest/files/a", "used/files/a")
	prune(260, time.Hour) // it was looked at a moment ago
	left("new/files/a", "old/files/a", "old/files/b", "oldest/files/a", "used/files/a")
	prune(260, 0)
	left("new/files/a", "old/files/b", "used/files/a")
	if _, err := os.Stat(filepath.Join(outside, "mine")); err != nil {
		t.Error(err)
	}
}

// TestWhatACallPutsInACacheStopsNobody: in place of a cache's directory a call may make a FIFO,
// for which open(2) waits, or a link to one.
func TestWhatACallPutsInACacheStopsNobody(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "filled/in"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"fifo", "filled"} {
		if err := os.Symlink(link, filepath.Join(dir, "to-"+link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"fifo": false, "to-fifo": false, "to-filled": false, "filled": true, "filled/in": false, "absent": false} {
		if got := Filled(filepath.Join(dir, name)); got != want {
			t.Errorf("%s: filled %t, want %t", name, got, want)
		}
	}
}
