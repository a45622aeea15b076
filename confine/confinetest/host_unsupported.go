//go:build !linux

package confinetest

import (
	"runtime"
	"testing"
)

// The claims build everywhere and run where package confine has a backend.

func leak(t *testing.T) { unsupported(t) }

func listen(t *testing.T) (port int, stop func()) {
	unsupported(t)
	return 0, nil
}

func serveUnix(t *testing.T, _, _ string) { unsupported(t) }

func unsupported(t *testing.T) {
	t.Helper()
	t.Fatalf("no backend on %s, so nothing to hold against the claims", runtime.GOOS)
}
