package tripwire

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReusedInodesAreOtherFiles: a file that takes the inode of one that was covered
// is not covered. The number comes back soon where it is the lowest that is free.
func TestReusedInodesAreOtherFiles(t *testing.T) {
	path := t.TempDir() + "/config"
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path)
	was, err := coveredAt(path)
	if err != nil || was.born <= 0 {
		t.Fatalf("%+v, %v: this file system tells no birth", was, err)
	}
	w := &Baseline{covered: map[string]coveredFile{path: newCovered(path, was.ident)}}
	if !w.covers(path) {
		t.Fatal("the file itself is taken for another")
	}
	// Later than the step of the clock that births are told by.
	for now := was.born; now < was.born+int64(settling); {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME, &ts); err != nil {
			t.Fatal(err)
		}
		now = ts.Nano()
	}
	for range 1000 {
		write(path + ".new")
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			t.Fatal(err)
		}
		if w.covers(path) {
			t.Fatalf("inode %d, of another file, is taken for the covered one", st.Ino)
		}
		if st.Ino == was.ino {
			return
		}
	}
	t.Log("the inode did not come back")
}
