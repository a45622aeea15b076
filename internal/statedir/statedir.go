// Package statedir says where a user's state lies: the log, answers, what is kept.
package statedir

import (
	"fmt"
	"os"
	"path/filepath"
)

// Path is the file or directory called name in sandgate's state directory, by the XDG
// Base Directory Specification. It fails if neither XDG_STATE_HOME nor HOME is set.
func Path(name string) (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // the specification: a relative path is invalid and ignored
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the state directory: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "sandgate", name), nil
}
