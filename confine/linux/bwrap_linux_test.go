package linux_test

import (
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/confine/quarantine"
	"github.com/sandgate/sandgate/confine/tripwire"
)

func newBwrap(t *testing.T) *linux.Bwrap {
	t.Helper()
	b, err := linux.NewBwrap("")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { b.Close() })
	b.Use(newGuard(t))
	return b
}

func TestBwrapKeepsEveryClaim(t *testing.T) { confinetest.Run(t, newBwrap(t)) }

// newGuard keeps what it takes in a quarantine of the test's own.
func newGuard(t *testing.T) *tripwire.Guard {
	t.Helper()
	store, err := quarantine.Open(filepath.Join(t.TempDir(), "quarantine"))
	if err != nil {
		t.Fatal(err)
	}
	return tripwire.New(store)
}
