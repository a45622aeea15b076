package confine

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// BenchmarkGrowthPaths is the look at the host before a call by the number of paths in
// its profile.
func BenchmarkGrowthPaths(b *testing.B) {
	for _, n := range []int{5, 50, 500} {
		dir := b.TempDir()
		p := sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{}, Limits: sandboxprofile.NoLimits()}
		for i := range n {
			path := filepath.Join(dir, fmt.Sprint(i%10), fmt.Sprint(i))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				b.Fatal(err)
			}
			p.Paths[path] = sandboxprofile.Read
		}
		time.Sleep(2 * settling)
		g := NewGuard(nil)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := g.look(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
