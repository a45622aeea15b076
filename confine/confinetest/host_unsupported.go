//go:build !linux

package confinetest

import (
	"runtime"
	"testing"

	"github.com/sandgate/sandgate/confine"
)

// The claims build everywhere and run where package confine has a backend.

func leak(t *testing.T) { unsupported(t) }

func listen(t *testing.T) (port int, stop func()) {
	unsupported(t)
	return 0, nil
}

func inheritedFiles(t *testing.T, _ confine.Confiner) { unsupported(t) }

func keys(t *testing.T, _ confine.Confiner) { unsupported(t) }

func hostKeys(t *testing.T, _ confine.Confiner) { unsupported(t) }

func serveUnix(t *testing.T, _, _ string) { unsupported(t) }

func unsupported(t *testing.T) {
	t.Helper()
	t.Fatalf("no backend on %s, so nothing to hold against the claims", runtime.GOOS)
}

func WorkingIn(t *testing.T, _ string) []int {
	unsupported(t)
	return nil
}

func errnoOf(err error) string { return err.Error() }
