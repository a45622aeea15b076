package linux

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWhatIsCopied: a file that everybody may read, and nothing that is one only by its name.
func TestWhatIsCopied(t *testing.T) {
	dir := t.TempDir() + "/"
	for name, mode := range map[string]os.FileMode{"open": 0o644, "program": 0o755, "group": 0o640, "others": 0o604, "owner": 0o600} {
		if err := os.WriteFile(dir+name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir+name, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dir+"large", make([]byte, maxCopy+1), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("open", dir+"link"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(dir+"fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]uint32{"open": 0o444, "program": 0o555, "group": 0, "others": 0, "owner": 0, "large": 0, "link": 0, "fifo": 0, "missing": 0, ".": 0} {
		f, got := openCopied(dir + name)
		if (f != nil) != (mode != 0) || got != mode {
			t.Errorf("%s: %v, mode %o", name, f != nil, got)
		}
		if f != nil {
			f.Close()
		}
	}
}
