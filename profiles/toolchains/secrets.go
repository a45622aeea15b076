package toolchains

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// Where tokens are looked for: in settings, which lie near the top of a tree.
const (
	tokenDepth = 3
	tokenFiles = 4096 // entries of one tree
)

// settings are ends of names that settings have. A file without a dot in its name may be
// settings too.
var settings = []string{"rc", ".toml", ".conf", ".cfg", ".ini", ".json", ".properties", ".xml", ".yaml", ".yml", ".env", ".credentials", ".config", ".token", ".txt", ".key", ".pem"}

// contents are directories that hold other people's packages and no settings.
var contents = []string{"node_modules", "site-packages", "dist-packages", "lib", "lib64", "share", "include", "src", "pkg", "registry", "git", "cache", "caches", "repository", "mod", "packages", "store", ".git"}

// secrets are the granted files that hold a token or a password, by their text:
// patterns find them by name.
func (f *finder) secrets() []string {
	if f.Secret == nil {
		return nil
	}
	trees := slices.Sorted(maps.Keys(f.grants))
	found := make([][]string, len(trees))
	var looking sync.WaitGroup
	for i, tree := range trees {
		if sp.IsSystemTree(tree) {
			continue // what every user of the machine can read is not this person's secret
		}
		looking.Go(func() {
			if st, err := os.Lstat(tree); err == nil && st.Mode().IsRegular() && f.holdsSecret(tree, st) {
				found[i] = []string{tree}
			} else if err == nil && st.IsDir() && !slices.Contains(contents, filepath.Base(tree)) {
				left := tokenFiles
				found[i] = f.secretsIn(tree, tokenDepth, &left)
			}
		})
	}
	looking.Wait()
	list := slices.Concat(found...)
	slices.Sort(list)
	return slices.Compact(list)
}

func (f *finder) secretsIn(dir string, depth int, left *int) (list []string) {
	for _, e := range entries(dir) {
		if *left--; *left < 0 {
			return list
		}
		name := e.Name()
		at := filepath.Join(dir, name)
		switch {
		case e.IsDir():
			if depth > 1 && !slices.Contains(contents, name) {
				list = append(list, f.secretsIn(at, depth-1, left)...)
			}
		case e.Type().IsRegular() && isSettings(name):
			if st, err := e.Info(); err == nil && st.Mode().IsRegular() && f.holdsSecret(at, st) {
				list = append(list, at)
			}
		}
	}
	return list
}

func isSettings(name string) bool {
	if strings.HasPrefix(name, ".") || !strings.Contains(name, ".") {
		return true
	}
	return slices.ContainsFunc(settings, func(end string) bool { return strings.HasSuffix(name, end) })
}

func (f *finder) holdsSecret(path string, st fs.FileInfo) bool {
	if st.Size() == 0 || st.Size() > maxSettings || st.Mode()&0o111 != 0 {
		return false
	}
	look := func() bool {
		text := readHead(path, maxSettings)
		return !strings.ContainsRune(text, 0) && f.Secret(text)
	}
	if f.Holds == nil {
		return look()
	}
	return f.Holds(path, st, look)
}

// Secrets are the files of settings at path, or near the top of the tree there, that hold a
// token or a password by their text.
func Secrets(h Host, path string) []string {
	f := newFinder(h)
	f.grants[path] = sp.Grant{}
	return f.secrets()
}
