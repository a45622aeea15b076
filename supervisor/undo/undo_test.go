package undo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
	"github.com/sandgate/sandgate/tools"
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

// TestASingleFileIsNotRecorded: where a profile lets a call write a file by itself, nothing looks at that. The result
// says so, and says nothing of a file in a directory that is recorded.
func TestASingleFileIsNotRecorded(t *testing.T) {
	ws, beside := t.TempDir(), t.TempDir()
	for _, name := range []string{ws + "/in", beside + "/alone", beside + "/read"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := changes.Open(t.TempDir()+"/s", changes.Options{Size: 1 << 30, File: 1 << 20, Age: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	k := Keeper{Store: s, Workdir: ws}
	said := func(paths map[string]sandboxprofile.Rights) string {
		warnings, ended, _ := k.Begin(tools.Plan{Profile: sandboxprofile.Profile{Paths: paths}}, changes.Call{Session: "s"})
		return strings.Join(append(warnings, ended()...), "\n")
	}
	rw := sandboxprofile.Read | sandboxprofile.Write
	if got := said(map[string]sandboxprofile.Rights{ws: rw, beside + "/alone": rw}); !strings.Contains(got, beside+"/alone "+NotUndone) {
		t.Errorf("of a file by itself: %q", got)
	}
	if got := said(map[string]sandboxprofile.Rights{ws: rw, ws + "/in": rw, beside + "/read": sandboxprofile.Read}); got != "" {
		t.Errorf("of files in a directory that is recorded, and that can only be read: %q", got)
	}
}
