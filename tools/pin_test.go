package tools

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestPinNoticesEveryChange(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(path string) error
		want   string // one of the changes named
	}{
		{"content of another size", func(p string) error { return os.WriteFile(p, []byte("longer content"), 0o755) }, "size"},
		{"content of the same size, times set back", rewriteAndSetTimesBack, "change time"},
		{"mode", func(p string) error { return os.Chmod(p, 0o700) }, "mode"},
		{"another file by rename", func(p string) error {
			if err := os.WriteFile(p+".new", []byte("content"), 0o755); err != nil {
				return err
			}
			return os.Rename(p+".new", p)
		}, "inode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pin, path := pinned(t)
			if err := pin.Verify(); err != nil {
				t.Fatalf("an unchanged file: %v", err)
			}
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
			var drift *DriftError
			if err := pin.Verify(); !errors.As(err, &drift) || !slices.Contains(drift.Changed, c.want) || drift.Path != path {
				t.Errorf("after the change: %v; want drift of its %s", err, c.want)
			}
		})
	}
}

func TestPinNoticesThatTheFileIsGone(t *testing.T) {
	pin, path := pinned(t)
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	var drift *DriftError
	if err := pin.Verify(); !errors.As(err, &drift) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v; want drift because of %v", err, fs.ErrNotExist)
	}
	if err := os.Symlink(path+".moved", path); err != nil {
		t.Fatal(err)
	}
	if err := pin.Verify(); !errors.As(err, &drift) || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a link to the same file: %v; want drift", err)
	}
}

func TestPinFileTakesRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, fifo, "/dev/null"} {
		if pin, err := PinFile(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("PinFile(%q) = %+v, %v", path, pin, err)
		}
	}
	if _, err := PinFile(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("PinFile(missing): %v", err)
	}
}

func pinned(t *testing.T) (Pin, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(path, []byte("content"), 0o755); err != nil {
		t.Fatal(err)
	}
	// Age it, so that a change within one clock tick of the kernel still moves
	// the times.
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	pin, err := PinFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return pin, path
}

// rewriteAndSetTimesBack is what somebody does who wants to go unnoticed.
func rewriteAndSetTimesBack(path string) error {
	before, err := os.Stat(path)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) { // until the kernel's clock has ticked
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		if _, err := f.WriteString("CONTENT"); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		if err := os.Chtimes(path, time.Time{}, before.ModTime()); err != nil {
			return err
		}
		after, err := os.Stat(path)
		if err != nil {
			return err
		}
		if changeTime(after) != changeTime(before) {
			return nil
		}
	}
	return errors.New("the change time never moved")
}

func changeTime(info fs.FileInfo) int64 {
	var p Pin
	if err := p.stat(info); err != nil {
		panic(err)
	}
	return p.ChangeTime
}

// TestPinnedContent: what is read is the file that was pinned, or nothing.
func TestPinnedContent(t *testing.T) {
	pin, _ := pinned(t)
	if b, err := pin.ReadFile(100); err != nil || string(b) != "content" {
		t.Fatalf("%q, %v", b, err)
	}
	if b, err := pin.ReadFile(6); err == nil || b != nil {
		t.Errorf("more than the limit: %q, %v", b, err)
	}
	for name, change := range map[string]func(path string) error{
		"a link to it": func(path string) error {
			return errors.Join(os.Rename(path, path+".x"), os.Symlink(path+".x", path))
		},
		"another file": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("content"), 0o755))
		},
		"nothing at all": os.Remove,
	} {
		pin, path := pinned(t)
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		var drift *DriftError
		if b, err := pin.ReadFile(100); !errors.As(err, &drift) || b != nil {
			t.Errorf("%s: %q, %v; want a *DriftError", name, b, err)
		}
	}
}
