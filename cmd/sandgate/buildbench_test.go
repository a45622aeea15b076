package main

import (
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
)

// BenchmarkBuild is what every start of serve and run pays before the first call.
func BenchmarkBuild(b *testing.B) {
	b.Setenv("XDG_STATE_HOME", b.TempDir())
	dir := filepath.Join(b.TempDir())
	for b.Loop() {
		cfg, err := settings.Load("", dir)
		if err != nil {
			b.Fatal(err)
		}
		r, err := assemble.Start(cfg, assemble.Options{})
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}
