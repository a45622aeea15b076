package broker

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestANameIsTakenAway: also from a directory that its own user may not change by its mode, which
// stays; what cannot be taken away ends in a mistake.
func TestANameIsTakenAway(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "made")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	tries := 0
	b := &Broker{}
	takeAway(fd, func() error {
		if tries++; tries == 1 {
			return unix.EACCES // what everybody but root gets
		}
		return unix.Unlinkat(fd, "made", 0)
	})
	st, err := os.Stat(dir)
	if _, gone := os.Lstat(name); !os.IsNotExist(gone) || err != nil || st.Mode().Perm() != 0o555 {
		t.Errorf("there: %v, the directory's mode: %v, %v", gone, st.Mode(), err)
	}
	b.guard(func() { takeAway(fd, func() error { return unix.EROFS }) })
	if b.fault.Load() == nil {
		t.Error("what cannot be taken away is no mistake")
	}
}
