package confine

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// asGitMakesIt reports whether a protected name in a directory of git's is as
// init, clone, worktree and submodule leave it. It errs on the side of saying no:
// what cannot be read, or is not known to be harmless, is not harmless. known is
// what the configuration said of other things before (see riskyLines); inside
// tells whether a path lies where the tool may write anyway.
func asGitMakesIt(f sighting, known []string, inside func(dir, target string) bool) bool {
	if !f.git {
		return false
	}
	switch name := filepath.Base(f.Path); name {
	case "hooks":
		return onlySamples(f.Path)
	case "config", "config.worktree":
		risky, ok := riskyLines(f.Path, inside)
		return ok && slices.Equal(risky, known)
	case "commondir":
		return ofWorktree(f.Path)
	}
	return false
}

// onlySamples: git runs a hook only by its plain name.
func onlySamples(dir string) bool {
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
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

// ofWorktree reports whether a commondir is that of a linked worktree as git
// makes it: it leads from REPOSITORY/worktrees/NAME back to REPOSITORY.
func ofWorktree(path string) bool {
	b, ok := readSmall(path)
	return ok && strings.TrimSpace(string(b)) == "../.." && filepath.Base(filepath.Dir(filepath.Dir(path))) == "worktrees"
}

// gitfile gives where a .git file leads, "" if it is none that git would follow
// (gitrepository-layout(5)). One that is not read here may lead anywhere: git
// reads more of it.
func gitfile(path string) string {
	b, ok := readSmall(path)
	if !ok {
		return "/"
	}
	target, ok := bytes.CutPrefix(b, []byte("gitdir: "))
	if !ok {
		return ""
	}
	return strings.TrimRight(string(target), "\r\n")
}

// harmlessKeys are the variables that name no program, by section (git-config(1)).
var harmlessKeys = map[string][]string{
	"core": {"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks",
		"autocrlf", "eol", "safecrlf", "quotepath", "longpaths", "sparsecheckout", "sparsecheckoutcone"},
	"remote":     {"url", "fetch", "tagopt", "pushurl"},
	"branch":     {"remote", "merge", "rebase"},
	"user":       {"name", "email", "signingkey"},
	"extensions": {"objectformat", "refstorage", "worktreeconfig"},
	"init":       {"defaultbranch"},
	"submodule":  {"url", "active"},
	"index":      {"sparse", "version"},
	"pull":       {"rebase", "ff"},
	"push":       {"default", "autosetupremote"},
	"fetch":      {"prune"},
	"gc":         {"auto", "autodetach"},
	"commit":     {"gpgsign"},
	"tag":        {"gpgsign"},
	"merge":      {"conflictstyle", "ff"},
	"rerere":     {"enabled"},
	"advice":     {"detachedhead", "defaultbranchname"},
	"color":      {"ui"},
}

// sectionHeader is the whole of a line that begins a section and does no more.
var sectionHeader = regexp.MustCompile(`^\[([A-Za-z0-9-]+)(?:[ \t]+"[^"\\\]]*")?\]$`)

// riskyLines gives the lines of a git configuration that are not known to be
// harmless, each behind the header of its section. The grammar is git's in its
// plainest form; what is written in another is risky, not misread.
func riskyLines(path string, inside func(dir, target string) bool) (risky []string, ok bool) {
	b, ok := readSmall(path)
	if !ok {
		return nil, false
	}
	var header string
	var allowed []string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		section := sectionHeader.FindStringSubmatch(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case section != nil:
			header, allowed = line, harmlessKeys[strings.ToLower(section[1])]
		case !harmlessLine(line, header, allowed, filepath.Dir(path), inside):
			risky = append(risky, header+" "+line)
			if line[0] == '[' || strings.HasSuffix(line, `\`) {
				allowed = nil // another section, or the rest of a value, in a form that is not read here
			}
		}
	}
	return risky, true
}

func harmlessLine(line, header string, allowed []string, dir string, inside func(dir, target string) bool) bool {
	key, value, _ := strings.Cut(line, "=")
	key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
	if strings.HasSuffix(line, `\`) || strings.Contains(value, "::") {
		return false // goes on in the next line; ext::COMMAND is a remote that is a program (gitremote-helpers(7))
	}
	if strings.EqualFold(header, "[core]") && key == "worktree" {
		return inside(dir, value) // of a submodule; elsewhere it would lead a checkout out
	}
	return slices.Contains(allowed, key)
}

// namingKeys are variables whose value is, or begins with, the path of a program
// or of more configuration.
var namingKeys = []string{
	"hookspath", "path", "fsmonitor", "sshcommand", "editor", "pager", "askpass", "gitproxy", "textconv", "command", "clean", "smudge",
	"process", "driver", "cmd", "program", "helper", "uploadpack", "receivepack", "packobjectshook", "alternaterefscommand", "attributesfile",
}

// namedBy gives the paths that the configuration at path may name, resolved
// against each directory that git could mean. Too many is no harm.
func namedBy(path string) []string {
	if base := filepath.Base(path); base != "config" && base != "config.worktree" {
		return nil
	}
	b, ok := readSmall(path)
	if !ok {
		return nil
	}
	home, _ := os.UserHomeDir() // without one, ~ names nothing
	gitdir := filepath.Dir(path)
	var paths []string
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(line, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		key = key[strings.LastIndexAny(key, " \t]")+1:] // a section may begin on the same line
		if ok && slices.Contains(namingKeys, key) {
			for _, word := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'!;|&", r) }) {
				paths = append(paths, resolveNamed(word, home, gitdir, key == "hookspath" || key == "path")...)
			}
		}
	}
	return paths
}

// resolveNamed gives what word may name. A word without a slash is a program of
// the PATH, unless the variable takes nothing but a path.
func resolveNamed(word, home, gitdir string, pathOnly bool) []string {
	switch {
	case strings.HasPrefix(word, "~/"):
		return []string{filepath.Join(home, word[2:])}
	case filepath.IsAbs(word):
		return []string{filepath.Clean(word)}
	case pathOnly || strings.Contains(word, "/"):
		return []string{filepath.Join(filepath.Dir(gitdir), word), filepath.Join(gitdir, word)}
	}
	return nil
}

// maxSmall bounds what is read of a file that a tool wrote.
const maxSmall = 64 << 10

// readSmall reads a regular file, following no link at its end and waiting for
// no pipe.
func readSmall(path string) ([]byte, bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxSmall {
		return nil, false
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	return b, err == nil && len(b) <= maxSmall
}

// configurations gives, for each covered configuration of git, its risky lines.
// The user's own git replaces the file when it changes a line, and a mount does
// not follow: what it says then is compared with this.
func configurations(found []sighting, inside func(dir, target string) bool) map[string][]string {
	known := map[string][]string{}
	for _, f := range found {
		if f.git && f.Kind == sandboxprofile.File {
			if risky, ok := riskyLines(f.Path, inside); ok && len(risky) > 0 {
				known[f.Path] = risky
			}
		}
	}
	return known
}
