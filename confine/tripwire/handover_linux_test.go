package tripwire

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestAheadIsOneLook: what a look ahead saw where no tool may write counts for one look
// more, and what a tool may write to is looked at each time.
func TestAheadIsOneLook(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	read, write := filepath.Join(top, "sdk"), filepath.Join(top, "work")
	for _, dir := range []string{read, write} {
		if err := os.MkdirAll(filepath.Join(dir, "in"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const ro = sandboxprofile.Read | sandboxprofile.Execute
	p := sandboxprofile.Profile{
		Limits: sandboxprofile.NoLimits(),
		Paths:  map[string]sandboxprofile.Rights{read: ro, write: ro | sandboxprofile.Write},
		Hide:   []string{".env"},
	}
	g := New(nil)
	hidden := func() (list []string) {
		seen, err := g.Survey(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range seen.Found {
			list = append(list, f.Path)
		}
		slices.Sort(list)
		return list
	}
	if got := hidden(); len(got) > 0 {
		t.Fatalf("found %v in directories without a hidden name", got)
	}
	g.HandOver(p)
	for _, dir := range []string{read, write} {
		if err := os.WriteFile(filepath.Join(dir, "in/.env"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := hidden(), []string{filepath.Join(write, "in/.env")}; !slices.Equal(got, want) {
		t.Errorf("the look that follows found %v, want %v", got, want)
	}
	if got, want := hidden(), []string{filepath.Join(read, "in/.env"), filepath.Join(write, "in/.env")}; !slices.Equal(got, want) {
		t.Errorf("the one after it found %v, want %v", got, want)
	}
}
