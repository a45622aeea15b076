package linux

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/confine/quarantine"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestTemporariesOfTheDeadAreRemoved: what lies beside a file that was being replaced when
// the supervisor was killed goes at the next start, if the journal names it and it lies
// where the call may write. No other file of such a name does.
func TestTemporariesOfTheDeadAreRemoved(t *testing.T) {
	for _, x := range []struct {
		name    string
		of      func(ws, outside string) string // the directory that the journal names
		removed bool
	}{
		{"in the workspace", func(ws, _ string) string { return ws }, true},
		{"where the call may not write", func(_, outside string) string { return outside }, false},
		{"through a link", func(ws, outside string) string {
			link := filepath.Join(ws, "link")
			if err := os.Symlink(outside, link); err != nil {
				t.Fatal(err)
			}
			return link
		}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			ws, outside := t.TempDir(), t.TempDir()
			store, err := quarantine.Open(filepath.Join(t.TempDir(), "quarantine"))
			if err != nil {
				t.Fatal(err)
			}
			p := sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{ws: sandboxprofile.Read | sandboxprofile.Write}, Limits: sandboxprofile.NoLimits()}
			g := tripwire.New(store)
			w, err := g.NewBaseline(p, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			s := &bwrapSandbox{baseline: w}
			if err := w.Journal.Mark(tripwire.JournalRuns); err != nil {
				t.Fatal(err)
			}
			action := sandboxprofile.Action{Kind: sandboxprofile.WriteFile, File: &sandboxprofile.Operation{Path: filepath.Join(x.of(ws, outside), "a long name that is replaced first")}}
			if _, err := s.fileRun(action); err != nil {
				t.Fatal(err)
			}
			action.File.Path = filepath.Join(filepath.Dir(action.File.Path), "f")
			run, err := s.fileRun(action)
			if err != nil {
				t.Fatal(err)
			}
			left, users := filepath.Join(filepath.Dir(action.File.Path), run.Temporary), filepath.Join(ws, ".sandgate-0123456789abcdef")
			for _, path := range []string{left, users} {
				if err := os.WriteFile(path, []byte("new"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			real, err := filepath.EvalSymlinks(left) // the link itself is taken away
			if err != nil {
				t.Fatal(err)
			}
			w.Journal.File.Close() // as death does

			if _, err := tripwire.New(store).Recover(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(real); os.IsNotExist(err) != x.removed {
				t.Errorf("the temporary file: %v, want removed: %v", err, x.removed)
			}
			if _, err := os.Lstat(users); err != nil {
				t.Errorf("the user's own file: %v", err)
			}
			if names, _ := os.ReadDir(store.Running()); len(names) != 0 {
				t.Errorf("journals left: %v", names)
			}
		})
	}
}
