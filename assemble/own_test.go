package assemble

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandgate/sandgate/config"
)

// TestTheSocketsAreOurs: the directory of the sockets is among what no answer gives to a program, wherever
// it lies (TestARefusedPathIsOneQuestion has what that means). The directory around it is not.
func TestTheSocketsAreOurs(t *testing.T) {
	base := t.TempDir()
	if err := os.Mkdir(filepath.Join(base, "sandgate"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", base)
	own := ownPlaces(&config.Config{}, filepath.Join(t.TempDir(), "audit.jsonl"))
	if !slices.Contains(own, filepath.Join(base, "sandgate")) || slices.Contains(own, base) {
		t.Errorf("%q", own)
	}
}
