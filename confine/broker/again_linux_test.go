package broker

import (
	"errors"
	"fmt"
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

// TestACopyThatCannotStayLeavesWhatWasThere: what a copy has replaced may be a person's. It
// has its name again, or somebody else's file has that by then, and nothing else is left.
func TestACopyThatCannotStayLeavesWhatWasThere(t *testing.T) {
	for _, c := range []struct {
		name           string
		before         string // "" for none
		isNew, stands  bool
		meanwhile      string // what somebody else puts there before the look
		want, wantText string
	}{
		{"it stands", "theirs", false, true, "", "", "copy"},
		{"it does not", "theirs", false, false, "", "read-only file system", "theirs"},
		{"nothing was there", "", false, true, "", "", "copy"},
		{"and it does not stand", "", false, false, "", "read-only file system", ""},
		{"a new one does not", "", true, false, "", "read-only file system", ""},
		{"a new one has something there", "theirs", true, true, "", "file exists", "theirs"},
		{"somebody has replaced it", "theirs", false, false, "newer", "read-only file system", "newer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "config")
			if c.before != "" {
				if err := os.WriteFile(name, []byte(c.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			_, err = installCopy(fd, "config", []byte("copy"), 0o600, c.isNew, func() bool {
				if c.meanwhile != "" {
					if err := errors.Join(os.WriteFile(name+".lock", []byte(c.meanwhile), 0o600), os.Rename(name+".lock", name)); err != nil {
						t.Fatal(err)
					}
				}
				return c.stands
			})
			if got := fmt.Sprint(err); got != c.want && (err != nil || c.want != "") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if text, _ := os.ReadFile(name); string(text) != c.wantText {
				t.Errorf("there is %q, want %q", text, c.wantText)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 1 || len(entries) == 0 && c.wantText != "" {
				t.Errorf("left: %v %v", entries, err)
			}
		})
	}
}
