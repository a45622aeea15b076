package confine_test

import (
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/quarantine"
)

func newBwrap(t *testing.T) *confine.Bwrap {
	t.Helper()
	b, err := confine.NewBwrap("")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { b.Close() })
	b.Use(newGuard(t))
	return b
}

func TestBwrapKeepsEveryClaim(t *testing.T) { confinetest.Run(t, newBwrap(t)) }

// newGuard keeps what it takes in a quarantine of the test's own.
func newGuard(t *testing.T) *confine.Guard {
	t.Helper()
	store, err := quarantine.Open(filepath.Join(t.TempDir(), "quarantine"))
	if err != nil {
		t.Fatal(err)
	}
	return confine.NewGuard(store)
}
