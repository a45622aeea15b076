package fileops

import (
	"bytes"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// maxIgnoreFile bounds what is read of one .gitignore file, in bytes.
const maxIgnoreFile = 256 << 10

// ignore holds the rules of the .gitignore files of a directory and of those
// above it (gitignore(5)). A nil ignore ignores nothing.
type ignore struct {
	above *ignore
	dir   string // absolute
	rules []ignoreRule
}

// An ignoreRule is one line of a .gitignore file.
type ignoreRule struct {
	glob    []string
	negate  bool // "!": what matches is not ignored after all
	dirOnly bool // a slash at the end
	base    bool // no other slash: held against the last component
}

// rulesAbove reads the rules from Root down to the directory above base.
func (w *walk) rulesAbove() *ignore {
	var rules *ignore
	if w.Ignored {
		return nil
	}
	for _, dir := range directoriesBetween(w.Root, w.base) {
		if d, err := w.disk.OpenDir(dir); err == nil {
			rules = rules.enter(d, dir, nil)
			d.Close()
		}
	}
	return rules
}

// directoriesBetween gives root and what is below it down to, without, base.
func directoriesBetween(root, base string) []string {
	rest, ok := strings.CutPrefix(base, strings.TrimSuffix(root, "/")+"/")
	if root == "" || !ok {
		return nil
	}
	list := []string{root}
	parts := strings.Split(rest, "/")
	for _, part := range parts[:len(parts)-1] {
		list = append(list, path.Join(list[len(list)-1], part))
	}
	return list
}

// enter gives the rules that hold in dir, at the absolute path abs. nodes are its
// entries, if they are known. The top of a repository starts anew, as in git.
func (above *ignore) enter(dir Dir, abs string, nodes []Node) *ignore {
	has := func(name string) bool {
		return nodes == nil || slices.ContainsFunc(nodes, func(n Node) bool { return n.Name == name })
	}
	var rules []ignoreRule
	if has(".git") {
		var top bool
		if rules, top = repository(dir); top {
			above = nil
		}
	}
	if has(".gitignore") {
		if file, err := dir.OpenFile(".gitignore"); err == nil {
			rules = append(rules, readRules(file)...) // later ones win: these over info/exclude
		}
	}
	if len(rules) == 0 {
		return above
	}
	return &ignore{above, abs, rules}
}

// repository reports whether dir is the top of a repository, and reads its
// info/exclude. In a worktree or a submodule .git is a file that names another
// directory; we do not go there.
func repository(dir Dir) (rules []ignoreRule, top bool) {
	if git, err := dir.OpenDir(".git"); err == nil {
		defer git.Close()
		return excludeRules(git), true
	}
	if file, err := dir.OpenFile(".git"); err == nil {
		file.Close()
		return nil, true
	}
	return nil, false
}

// excludeRules reads info/exclude of a .git directory.
func excludeRules(git Dir) []ignoreRule {
	info, err := git.OpenDir("info")
	if err != nil {
		return nil
	}
	defer info.Close()
	file, err := info.OpenFile("exclude")
	if err != nil {
		return nil
	}
	return readRules(file)
}

// readRules reads a file in the format of .gitignore, and closes it. What cannot
// be read ignores nothing.
func readRules(file File) []ignoreRule {
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxIgnoreFile))
	if err != nil {
		return nil
	}
	var rules []ignoreRule
	for line := range strings.SplitSeq(string(bytes.TrimPrefix(content, []byte("\uFEFF"))), "\n") {
		if r, ok := parseRule(line); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

func parseRule(line string) (r ignoreRule, ok bool) {
	line = trimSpaces(strings.TrimSuffix(line, "\r"))
	if strings.HasPrefix(line, "#") {
		return r, false
	}
	line, r.negate = strings.CutPrefix(line, "!")
	line, r.dirOnly = strings.CutSuffix(line, "/")
	r.base = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return r, false
	}
	r.glob = strings.Split(strings.ReplaceAll(line, "[!", "[^"), "/")
	return r, true
}

// trimSpaces removes the spaces at the end of a line, but not one behind a backslash.
func trimSpaces(line string) string {
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	return line
}

// match reports whether the absolute path abs is ignored: by the last rule that
// matches it, of the nearest file that has one.
func (i *ignore) match(abs string, isDir bool) bool {
	for ; i != nil; i = i.above {
		rel := strings.TrimPrefix(strings.TrimPrefix(abs, i.dir), "/")
		parts := strings.Split(rel, "/")
		for _, r := range slices.Backward(i.rules) {
			if r.match(parts, isDir) {
				return !r.negate
			}
		}
	}
	return false
}

func (r ignoreRule) match(parts []string, isDir bool) bool {
	switch {
	case r.dirOnly && !isDir:
		return false
	case r.base:
		parts = parts[len(parts)-1:]
	}
	return sandboxprofile.MatchComponents(r.glob, parts)
}
