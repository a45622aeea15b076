package tripwire

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// BenchmarkGrowthPaths is the look at the host before a call by the number of paths in
// its profile: files in ten directories, or directories.
func BenchmarkGrowthPaths(b *testing.B) {
	for name, put := range map[string]func(string) error{
		"files":       func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"directories": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		for _, n := range []int{5, 50, 500} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) { growthPaths(b, n, put) })
		}
	}
}

func growthPaths(b *testing.B, n int, put func(string) error) {
	dir := b.TempDir()
	p := sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{}, Limits: sandboxprofile.NoLimits()}
	for i := range n {
		path := filepath.Join(dir, fmt.Sprint(i%10), fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := put(path); err != nil {
			b.Fatal(err)
		}
		p.Paths[path] = sandboxprofile.Read
	}
	time.Sleep(2 * settling)
	g := New(nil)
	for range 2 {
		if _, err := g.Survey(p); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := g.Survey(p); err != nil {
			b.Fatal(err)
		}
	}
}
