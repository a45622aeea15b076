package assemble

import (
	"path/filepath"
	"slices"

	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/statedir"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
)

// leftOut are directories that are made again from what is kept.
var leftOut = []string{"node_modules", ".venv", "venv", "__pycache__", ".tox", ".nox", ".gradle", ".mypy_cache", ".pytest_cache", ".ruff_cache"}

// ChangesDir is where what calls have changed is kept.
func ChangesDir() (string, error) {
	dir, err := statedir.Path("changes")
	if err != nil {
		return "", internalError(err)
	}
	return dir, nil
}

// openChanges gives nil where nothing is to be kept.
func openChanges(cfg *config.Config) (*changes.Store, error) {
	if !cfg.Undo.Enabled {
		return nil, nil
	}
	dir, err := ChangesDir()
	if err != nil {
		return nil, err
	}
	u := cfg.Undo
	s, err := changes.Open(dir, changes.Options{Size: int64(u.Size), File: int64(u.File), Age: u.Age, LeaveOut: leftOut})
	if err != nil {
		return nil, internalError(err)
	}
	return s, nil
}

// TokenFile is where the token of programs is.
func TokenFile(cfg *config.Config) (string, error) {
	if cfg.HTTP.TokenFile != "" {
		return cfg.HTTP.TokenFile, nil
	}
	log, err := audit.DefaultPath()
	if err != nil {
		return "", internalError(err)
	}
	return filepath.Join(filepath.Dir(log), "http-token"), nil
}

// Resolved is the absolute path with every symbolic link resolved.
func Resolved(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// WritableRoots are the directories that any tool may write, without those in another one.
func WritableRoots(cfg *config.Config) (roots []string) {
	var list []string
	for _, p := range cfg.Sandbox.Paths {
		if p.Mode == config.ReadWrite {
			list = append(list, p.Root)
		}
	}
	slices.Sort(list)
	for _, root := range list {
		if !slices.ContainsFunc(roots, func(r string) bool { return sandboxprofile.Contains(r, root) }) {
			roots = append(roots, root)
		}
	}
	return roots
}
