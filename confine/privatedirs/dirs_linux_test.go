package privatedirs

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/broker"
)

// TestSweepsTakeNothingThatIsMade: a supervisor that starts removes what dead ones have left,
// and not what another one is just making; what is left, it removes.
func TestSweepsTakeNothingThatIsMade(t *testing.T) {
	place := t.TempDir()
	stop := make(chan struct{})
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				RemoveStale([]string{place})
			}
		}
	})
	for range 200 {
		dir, lock, err := makeLocked(place)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir+"/0-tmp", 0o700); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		lock.Close()
	}
	close(stop)
	sweeping.Wait()

	_, lock, err := makeLocked(place)
	if err != nil {
		t.Fatal(err)
	}
	lock.Close() // whoever held it is dead
	RemoveStale([]string{place})
	if left, err := os.ReadDir(place); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestARecordOfATools: where TMPDIR lies in a workspace, a tool can write a directory like ours,
// with a record that claims a person's file. The directory is removed, and the file stays. In
// /tmp, where tools cannot write one, a record is followed.
func TestARecordOfATools(t *testing.T) {
	for place, followed := range map[string]bool{t.TempDir(): false, "/tmp": true} {
		base, lock, err := makeLocked(place)
		if err != nil {
			t.Fatal(err)
		}
		lock.Close()
		f, err := os.CreateTemp(place, "claimed-")
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Cleanup(func() { os.Remove(f.Name()) })
		claimed := base + "/claimed" // a pool's record names the inodes that lie in it at first
		if err := os.Rename(f.Name(), claimed); err != nil {
			t.Fatal(err)
		}
		if err := (broker.Pool{Place: place, Dir: base}).Record(); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(claimed, f.Name()); err != nil {
			t.Fatal(err)
		}
		RemoveStale([]string{place})
		if _, err := os.Lstat(base); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s stays: %v", base, err)
		}
		if _, err := os.Lstat(f.Name()); errors.Is(err, fs.ErrNotExist) != followed {
			t.Errorf("a claimed file in %s: %v", place, err)
		}
	}
}

// TestTreesThatNoPathReaches: what lies deeper than PATH_MAX in a private directory, and in
// what a tool has closed, is removed; it is counted before, and what lies elsewhere is not,
// whatever link leads there. A tree that is too deep to be counted is over every limit.
func TestTreesThatNoPathReaches(t *testing.T) {
	outside := t.TempDir()
	if err := os.WriteFile(outside+"/file", make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		depth int
		over  bool
	}{{3, false}, {60, false}, {700, true}} {
		base := t.TempDir() + "/base"
		if err := os.MkdirAll(base+"/plain/lifted-0", 0o700); err != nil {
			t.Fatal(err)
		}
		at, err := unix.Open(base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		for range x.depth {
			name := strings.Repeat("d", 250)
			if err == nil {
				err = unix.Mkdirat(at, name, 0o700)
			}
			next := -1
			if err == nil {
				next, err = unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			}
			unix.Close(at)
			at = next
		}
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Openat(at, "file", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := unix.Write(fd, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if err := unix.Symlinkat(outside, at, "link"); err != nil {
			t.Fatal(err)
		}
		if n := diskUse(base); n < 1<<20 || (n > 2<<20+int64(x.depth)<<12) != x.over {
			t.Errorf("%d deep, 1 MiB: counted %d", x.depth, n)
		}
		if err := unix.Fchmod(at, 0); err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		unix.Close(at)
		removeTree(base)
		if _, err := os.Lstat(base); !os.IsNotExist(err) {
			t.Errorf("%d deep: it is left (%v)", x.depth, err)
		}
	}
	if _, err := os.Stat(outside + "/file"); err != nil {
		t.Error(err)
	}
}
