// Package repositories finds what git needs of a repository that lies around or beside a
// workspace: a package of a larger repository, a linked worktree, a submodule.
//
// It reads the disk and decides nothing. What it finds are directories: the work tree to
// be read, and of git's own files those that git writes for this work tree. Hooks and
// settings stay protected by their names, as in a workspace, and other work trees' files
// are read-only. A .git file in a workspace may have been written by a tool: it is
// followed only where git's own files, out of the tool's reach, lead back to it.
package repositories

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// Found is what git needs besides the workspace.
type Found struct {
	Roots []sp.Root // those that are not writable are to be read
	Notes []string  // what is not shown, and why
}

// maxFile is the most that is read of one of git's small files, in bytes.
const maxFile = 64 << 10

// Find looks for the repository that the directory workspace, absolute and free of links,
// belongs to. home is the user's home directory.
func Find(workspace, home string) Found {
	var f Found
	top, dotgit := discover(workspace)
	if top == "" {
		return f
	}
	if top != workspace && home != "" && sp.Contains(top, home) {
		return f.note("the repository of %s is not shown: it contains the home directory", workspace)
	}
	if !ours(top) || !ours(dotgit) {
		return f.note("the repository %s is not shown: it belongs to another user", top)
	}
	st, err := os.Lstat(dotgit)
	switch {
	case err != nil:
		return f
	case st.IsDir():
		f.alternates(dotgit)
		if top == workspace {
			return f // it lies in the workspace
		}
		f.add(".repository", top, false)
		f.gitdir(dotgit)
	case st.Mode().IsRegular():
		gitdir, why := follow(top, dotgit)
		if why != "" {
			return f.note("%s is not followed: %s", dotgit, why)
		}
		if top != workspace {
			f.add(".repository", top, false)
		}
		f.linked(gitdir)
	}
	return f
}

func (f Found) note(format string, args ...any) Found {
	f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
	return f
}

func (f *Found) add(name, path string, write bool) {
	// A name with a dot at its beginning does not belong to a configuration.
	f.Roots = append(f.Roots, sp.Root{Name: name, Path: path, Write: write})
}

// discover goes up from a directory, as git does, to the first that has a .git, and not
// into another file system, unless the environment says so.
func discover(dir string) (top, dotgit string) {
	var first, st unix.Stat_t
	across, _ := strconv.ParseBool(os.Getenv("GIT_DISCOVERY_ACROSS_FILESYSTEM"))
	if unix.Stat(dir, &first) != nil {
		return "", ""
	}
	for at := dir; ; at = filepath.Dir(at) {
		if unix.Stat(at, &st) != nil || st.Dev != first.Dev && !across {
			return "", ""
		}
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return at, filepath.Join(at, ".git")
		}
		if at == filepath.Dir(at) {
			return "", ""
		}
	}
}

// ours reports whether a file belongs to the user that the tool will run as: the owner
// of the repository is this user, or this user is root.
func ours(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && (int(st.Uid) == os.Geteuid() || os.Geteuid() == 0)
}

// readOnly are files of a repository that are another work tree's, or say what git runs.
var readOnly = []string{"worktrees", "modules", "hooks", "config", "config.worktree", "info"}

// gitdir is a repository's own directory, written as in a workspace.
func (f *Found) gitdir(dir string) {
	if !isRepository(dir) {
		return
	}
	f.add(".git", dir, true)
	f.keep(dir, readOnly)
}

// alternates notes where a repository has objects of another one's, gitrepository-layout(5).
// A tool may have written that file, so what it names is not shown, and only named if
// it is a directory of objects.
func (f *Found) alternates(dir string) {
	for line := range strings.Lines(small(filepath.Join(dir, "objects/info/alternates"))) {
		path := strings.TrimSpace(line)
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, "objects", path)
		}
		real, err := filepath.EvalSymlinks(path)
		if _, other := os.Lstat(filepath.Join(real, "../HEAD")); err != nil || other != nil || filepath.Base(real) != "objects" || !ours(real) {
			continue
		}
		*f = f.note("%s uses objects of another repository, which are not shown; to show them: --ro %s", dir, real)
	}
}

// keep makes files read-only that are there.
func (f *Found) keep(dir string, names []string) {
	for _, name := range names {
		if st, err := os.Lstat(filepath.Join(dir, name)); err == nil && (st.IsDir() || st.Mode().IsRegular()) {
			f.add(".git-"+name, filepath.Join(dir, name), false)
		}
	}
}

// linked is the directory of a linked work tree or of a submodule.
func (f *Found) linked(gitdir string) {
	common := commonDir(gitdir)
	if common == gitdir {
		f.alternates(gitdir)
		f.gitdir(gitdir)
		return
	}
	f.alternates(common)
	f.gitdir(common)
	f.keep(common, []string{"HEAD", "index", "ORIG_HEAD", "COMMIT_EDITMSG"}) // of the main work tree
	f.add(".git-worktree", gitdir, true)
	f.keep(gitdir, []string{"commondir", "gitdir", "config.worktree"})
}

// commonDir is the repository that a linked work tree shares, or gitdir itself.
func commonDir(gitdir string) string {
	text := small(filepath.Join(gitdir, "commondir"))
	if text == "" {
		return gitdir
	}
	dir := strings.TrimSpace(text)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(gitdir, dir)
	}
	return filepath.Clean(dir)
}

func isRepository(dir string) bool {
	return !slices.ContainsFunc([]string{"HEAD", "objects", "refs"}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err != nil
	})
}

// follow gives the directory that a .git file of the work tree top leads to, if git's own
// files there lead back; why says what is wrong.
func follow(top, dotgit string) (gitdir, why string) {
	target, ok := strings.CutPrefix(small(dotgit), "gitdir: ")
	if target = strings.TrimRight(target, "\r\n"); !ok || target == "" {
		return "", "git would not follow it"
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(top, target)
	}
	real, err := filepath.EvalSymlinks(target)
	switch {
	case err != nil:
		return "", "it leads to a directory that does not exist: " + target
	case sp.Contains(top, real):
		return "", "it leads into the workspace"
	case !ours(real):
		return "", target + " belongs to another user"
	}
	if back := strings.TrimSpace(small(filepath.Join(real, "gitdir"))); back != "" {
		// A linked work tree: REPOSITORY/worktrees/NAME/gitdir names its .git file.
		if !filepath.IsAbs(back) {
			back = filepath.Join(real, back)
		}
		if !same(back, dotgit) || filepath.Base(filepath.Dir(real)) != "worktrees" || !same(commonDir(real), filepath.Dir(filepath.Dir(real))) {
			return "", target + " does not refer back to it"
		}
		if !isRepository(commonDir(real)) {
			return "", commonDir(real) + " is not a repository"
		}
		return real, ""
	}
	// A submodule: core.worktree in its settings names the work tree.
	tree := worktreeOf(small(filepath.Join(real, "config")))
	if tree != "" && !filepath.IsAbs(tree) {
		tree = filepath.Join(real, tree)
	}
	if tree == "" || !same(tree, top) || !isRepository(real) {
		return "", target + " does not refer back to it; if it is yours, show it with --rw " + target
	}
	return real, ""
}

func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// worktreeOf is core.worktree of git's settings, as `git submodule` writes it.
func worktreeOf(config string) string {
	section, tree := "", ""
	for line := range strings.Lines(config) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.ToLower(line)
		}
		key, value, ok := strings.Cut(line, "=")
		if ok && section == "[core]" && strings.EqualFold(strings.TrimSpace(key), "worktree") {
			tree = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return tree
}

// small is the text of a regular file, or "" if it is not one or too large.
func small(path string) string {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > maxFile {
		return ""
	}
	b := make([]byte, maxFile)
	n, _ := file.Read(b)
	return string(b[:n])
}
