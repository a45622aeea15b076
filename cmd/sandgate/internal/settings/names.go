package settings

import (
	"os"
)

// NamesIn are the names in a directory; none if it cannot be read.
func NamesIn(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
