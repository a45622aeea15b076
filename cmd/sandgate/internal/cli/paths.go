package cli

import (
	"fmt"
	"path/filepath"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// AbsolutePaths resolves paths of the command line. A directory may be named through a link, but it is the
// name itself that was changed.
func AbsolutePaths(paths []string) (l []string, err error) {
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, UsageError(err)
		}
		if dir, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
			abs = filepath.Join(dir, filepath.Base(abs))
		}
		l = append(l, abs)
	}
	return l, nil
}

// BelowRoot turns paths of the command line into names of the workspace.
func BelowRoot(root string, paths []string) (names []string, err error) {
	full, err := AbsolutePaths(paths)
	if err != nil {
		return nil, err
	}
	for i, abs := range full {
		if !sandboxprofile.Contains(root, abs) {
			return nil, UsageError(fmt.Errorf("%s is not in %s", paths[i], root))
		}
		name, err := filepath.Rel(root, abs)
		if err != nil {
			return nil, UsageError(err)
		}
		names = append(names, name)
	}
	return names, nil
}
