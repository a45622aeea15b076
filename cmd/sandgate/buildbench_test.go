package main

import (
	"path/filepath"
	"testing"
)

// BenchmarkBuild is what every start of serve and run pays before the first call.
func BenchmarkBuild(b *testing.B) {
	b.Setenv("XDG_STATE_HOME", b.TempDir())
	dir := filepath.Join(b.TempDir())
	for b.Loop() {
		cfg, err := loadConfig("", dir)
		if err != nil {
			b.Fatal(err)
		}
		r, err := build(cfg, buildOptions{})
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}
