package privatedirs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMeterWalksWhenRoomIsLost: a program that watches a private directory sees no walk while nothing is written, and what
// is written is found at the next look.
func TestMeterWalksWhenRoomIsLost(t *testing.T) {
	const limit = 16 << 20
	base := t.TempDir()
	m := (&Dirs{Base: base}).Meter()
	first := m.Used(limit)
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, base, unix.IN_OPEN|unix.IN_ACCESS); err != nil {
		t.Fatal(err)
	}
	seen := func() bool {
		n, _ := unix.Read(watch, make([]byte, 1<<12))
		return n > 0
	}
	if n := m.Used(limit); n != first || seen() {
		t.Errorf("nothing was written: %d, then %d, or the look was seen", first, n)
	}
	if err := os.WriteFile(filepath.Join(base, "file"), make([]byte, limit), 0o600); err != nil {
		t.Fatal(err)
	}
	seen()
	if n := m.Used(limit); n < limit {
		t.Errorf("%d bytes were written, %d are found", limit, n)
	}
	if !seen() {
		t.Error("the twin: a walk is not seen")
	}
	if err := os.Remove(filepath.Join(base, "file")); err != nil {
		t.Fatal(err)
	}
	m.Used(limit) // it is over the limit, so each look walks
	for i := range 1 << 14 {
		if err := os.Symlink("nowhere", filepath.Join(base, fmt.Sprint("link", i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := m.Used(limit); n < limit {
		t.Errorf("%d names, each of a file of its own, are %d bytes", 1<<14, n)
	}
}

// TestMeterIsNotMisledByRoom: who makes room first and fills it afterwards is found, as the most that there was counts.
func TestMeterIsNotMisledByRoom(t *testing.T) {
	const limit = 16 << 20
	base, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, make([]byte, limit), 0o600); err != nil {
		t.Fatal(err)
	}
	m := (&Dirs{Base: base}).Meter()
	m.Used(limit)
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	m.Used(limit)
	if err := os.WriteFile(filepath.Join(base, "file"), make([]byte, limit), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := m.Used(limit); n < limit {
		t.Errorf("%d bytes were written after as many had been removed, %d are found", limit, n)
	}
}
