package supervisor

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
	"github.com/sandgate/sandgate/tools"
)

// TestDetailsPromiseNoUndoThatIsNot: a question says that files can be put back only while something is kept of them.
func TestDetailsPromiseNoUndoThatIsNot(t *testing.T) {
	ws := t.TempDir()
	if err := os.WriteFile(filepath.Join(ws, "large"), []byte(rand.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := changes.Open(filepath.Join(t.TempDir(), "changes"), changes.Options{Size: 10, File: 1 << 20, Age: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	s := &Supervisor{cfg: Config{Changes: store}}
	p := tools.Proposal{Plan: tools.Plan{
		Class:   sandboxprofile.ClassWorkspace,
		Action:  sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{Path: "/bin/sh", Dir: ws}},
		Profile: sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{ws: sandboxprofile.Read | sandboxprofile.Write}},
	}}
	if s.details(p, "", nil)["undo"] == "" {
		t.Error("nothing is said of what can be put back")
	}
	w, err := store.Workspace(ws)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Begin(changes.Call{Started: time.Now()}, func(string) bool { return true }); !errors.Is(err, changes.ErrFull) {
		t.Fatalf("it has room: %v", err)
	}
	if got := s.details(p, "", nil)["undo"]; got != "" {
		t.Errorf("of a workspace that is too large: %q", got)
	}
}
