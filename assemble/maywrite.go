package assemble

import (
	"path/filepath"

	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// CallsMayWrite reports whether calls of a configuration may write a file that has no protected name.
func CallsMayWrite(cfg *config.Config, file string) bool {
	dir, err := Resolved(filepath.Dir(file))
	if err != nil {
		return false // nothing can be written there
	}
	p := sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{}}
	p.Protect, _ = Patterns(cfg)
	for _, root := range WritableRoots(cfg) {
		p.Paths[root] = sandboxprofile.Write
	}
	return sandboxprofile.NewLookup(p).Rights(filepath.Join(dir, filepath.Base(file)))&sandboxprofile.Write != 0
}
