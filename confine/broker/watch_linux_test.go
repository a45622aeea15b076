package broker

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWatchesAreBounded: a sandbox has so many watches, and gets those back that it removes.
func TestWatchesAreBounded(t *testing.T) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	b := &Broker{maxWatched: 3, watchers: []watcher{{fd: fd}}}
	dir, last := t.TempDir(), 0
	add := func(name string) {
		t.Helper()
		path := fmt.Sprintf("%s/%s", dir, name)
		if err := unix.Mkdir(path, 0o700); err != nil && err != unix.EEXIST {
			t.Fatal(err)
		}
		if last, err = unix.InotifyAddWatch(fd, path, unix.IN_CREATE); err != nil {
			t.Fatal(err)
		}
		b.watched++
	}
	for _, name := range []string{"a", "a", "a", "b", "c"} { // the same again is the same watch
		if !b.mayWatch() {
			t.Fatalf("%s cannot be watched: %d watches", name, b.watched)
		}
		add(name)
	}
	if b.recounted = (time.Time{}); b.mayWatch() {
		t.Fatalf("one more than %d could be watched", b.maxWatched)
	}
	if _, err := unix.InotifyRmWatch(fd, uint32(last)); err != nil {
		t.Fatal(err)
	}
	if b.recounted = (time.Time{}); !b.mayWatch() {
		t.Fatal("one that was removed still counts")
	}
}
