//go:build unix

package confine

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// asGitMakesIt reports whether path, a protected name in a .git directory, is as
// `git init` and `git clone` leave it. It errs on the side of saying so to a
// person: what cannot be read, or is not known to be harmless, is reported.
func asGitMakesIt(path string) bool {
	if filepath.Base(filepath.Dir(path)) != ".git" {
		return false
	}
	switch filepath.Base(path) {
	case "hooks":
		return onlySamples(path)
	case "config":
		return harmlessConfig(path)
	}
	return false
}

// onlySamples: git runs a hook only by its plain name.
func onlySamples(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), ".sample") {
			return false
		}
	}
	return true
}

// harmlessKeys are the variables that git itself writes into a new repository's
// configuration and that name no program, by section (git-config(1)).
var harmlessKeys = map[string][]string{
	"core":       {"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks"},
	"remote":     {"url", "fetch"},
	"branch":     {"remote", "merge"},
	"user":       {"name", "email"},
	"extensions": {"objectformat", "refstorage"},
	"init":       {"defaultbranch"},
}

// maxGitConfig bounds what is read of a file that a tool wrote.
const maxGitConfig = 64 << 10

func harmlessConfig(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxGitConfig {
		return false
	}
	lines := bufio.NewScanner(io.LimitReader(f, maxGitConfig))
	var allowed []string
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			if !strings.HasSuffix(line, "]") {
				return false // a variable may follow on the same line
			}
			name, _, _ := strings.Cut(strings.Trim(line, "[]"), " ")
			allowed = harmlessKeys[strings.ToLower(name)]
		case strings.HasSuffix(line, "\\"):
			return false // goes on in the next line
		default:
			key, value, _ := strings.Cut(line, "=")
			if !slices.Contains(allowed, strings.ToLower(strings.TrimSpace(key))) || strings.Contains(value, "::") {
				return false // ext::COMMAND is a remote that is a program (gitremote-helpers(7))
			}
		}
	}
	return lines.Err() == nil
}
