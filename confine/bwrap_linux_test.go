package confine_test

import (
	"testing"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
)

func newBwrap(t *testing.T) *confine.Bwrap {
	t.Helper()
	b, err := confine.NewBwrap("")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestBwrapKeepsEveryClaim(t *testing.T) { confinetest.Run(t, newBwrap(t)) }
