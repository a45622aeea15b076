package undo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/supervisor/changes"
)

// TestALargeFileMayHaveChangedUnderItsNewName: an undo gives a large file its name back, and nothing has what it held: a
// call can write it, set its times back and rename it. The call's result says so, and nothing of a small one.
func TestALargeFileMayHaveChangedUnderItsNewName(t *testing.T) {
	ws := t.TempDir()
	s, err := changes.Open(t.TempDir()+"/s", changes.Options{Size: 1 << 30, File: 1 << 20, Age: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Workspace(ws)
	if err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"large": 2 << 20, "small": 1} {
		if err := os.WriteFile(filepath.Join(ws, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rename := func(name string) string {
		r, err := w.Begin(changes.Call{Session: "s"}, func(string) bool { return true })
		if err == nil {
			err = os.Rename(filepath.Join(ws, name), filepath.Join(ws, name+"2"))
		}
		var rec changes.Record
		if err == nil {
			rec, err = r.End()
		}
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(unkept(ws, rec), "\n")
	}
	if said := rename("large"); !strings.Contains(said, "large cannot be undone, except for its name: its content was not kept: larger than 1 MiB") {
		t.Errorf("of a large file: %q", said)
	}
	if said := rename("small"); said != "" {
		t.Errorf("of a small file: %q", said)
	}
}
