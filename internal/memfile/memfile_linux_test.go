package memfile

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestNobodyChangesASealedFile(t *testing.T) {
	f, err := New("note", strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || string(got) != "content" {
		t.Fatalf("read %q, %v", got, err)
	}
	if _, err := f.WriteAt([]byte("C"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("written: %v, want EPERM", err)
	}
	for _, size := range []int64{0, 100} {
		if err := f.Truncate(size); !errors.Is(err, unix.EPERM) {
			t.Errorf("resized to %d: %v, want EPERM", size, err)
		}
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("sealed again: %v, want EPERM", err)
	}
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("descriptor flags %#x, %v: not close-on-exec", flags, err)
	}
}

// A page that is held for a while keeps the seal off for that while, and no longer. A
// writable mapping gives the kernel's own answer for one that it holds itself.
func TestSealWaitsForHeldPages(t *testing.T) {
	mapped := func(t *testing.T) (f *os.File, unmap func()) {
		t.Helper()
		fd, err := unix.MemfdCreate("held", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		f = os.NewFile(uintptr(fd), "held")
		t.Cleanup(func() { f.Close() })
		if err := f.Truncate(1); err != nil {
			t.Fatal(err)
		}
		m, err := unix.Mmap(fd, 0, 1, unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		return f, func() {
			if err := unix.Munmap(m); err != nil {
				t.Error(err)
			}
		}
	}
	t.Run("let go", func(t *testing.T) {
		f, unmap := mapped(t)
		done := make(chan error)
		go func() { done <- seal(f, time.Minute) }()
		select {
		case err := <-done:
			t.Fatalf("sealed a file that is held: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		unmap()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, unix.EPERM) {
			t.Errorf("written: %v, want EPERM", err)
		}
	})
	t.Run("held on", func(t *testing.T) {
		f, unmap := mapped(t)
		defer unmap()
		if err := seal(f, 0); !errors.Is(err, unix.EBUSY) {
			t.Errorf("sealed a file that is held: %v, want EBUSY", err)
		}
	})
}
