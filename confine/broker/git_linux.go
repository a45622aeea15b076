package broker

import (
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// Git takes any directory for a repository that is dressed as one, and follows files and
// links to it. A person who later calls git there, outside, runs what its configuration
// and hooks say. So a name is judged by what git makes of it:
//
//   - in a directory that is a repository, whatever it is called, names are protected as
//     they are in .git;
//   - the name that makes a directory a repository comes into being only when nothing in
//     it would run, and its configuration is replaced by the copy that was read;
//   - what sends git elsewhere (.git as a file, commondir) is a copy that was read too,
//     and leads into what may be written, where the two rules above hold.

// asGit is the name as the patterns know it: for what lies in the directory dir, which
// git takes for a repository.
func asGit(dir, name string) string { return "/.git" + name[len(dir):] }

// gitParts are the names in a repository that run something, or lead to what does.
var gitParts = []string{"config", "config.worktree", "commondir", "hooks", "info", "remotes", "branches"}

// isRepository says what git does of a directory (setup.c, is_git_directory), once it has
// a further name. A commondir may lead to a directory without HEAD. It errs on the side
// of saying yes: what the names are of does not matter.
func isRepository(dir, further string) bool { return isRepositoryAt(unix.AT_FDCWD, dir+"/", further) }

func isRepositoryAt(at int, dir, further string) bool {
	has := func(name string) bool {
		var st unix.Stat_t
		return fold(name) == fold(further) || unix.Fstatat(at, dir+name, &st, unix.AT_SYMLINK_NOFOLLOW) != unix.ENOENT
	}
	return has("objects") && has("refs") || has("HEAD") && has("commondir")
}

// watchesGit reports whether what git makes of name matters.
func (b *Broker) watchesGit(name string) bool {
	if !b.Rules.git || b.Rules.own(name) {
		return false
	}
	p, _ := b.poolOf(name)
	return p == nil
}

// maxGitParts is how many components of one path are looked at for what git makes of the
// directory that they lie in. A longer path is taken for one in a repository.
const maxGitParts = 8

// repositoryOf is the directory above name that git takes for a repository, "" for none,
// where a pattern protects name in it.
func (b *Broker) repositoryOf(name string) string {
	looked := 0
	for i := 0; i < len(name); {
		end := len(name)
		if n := strings.IndexByte(name[i+1:], '/'); n >= 0 {
			end = i + 1 + n
		}
		dir := name[:i]
		if i > 0 && isOneOf(name[i+1:end], gitParts...) {
			// No program nests that many directories. Each is looked at by its whole
			// path.
			if looked++; looked > maxGitParts || b.Rules.protect.Match(fold(asGit(dir, name))) && isRepository(dir, "") {
				return dir
			}
		}
		i = end
	}
	return ""
}

// reach is Rules.Reach, in a repository too.
func (b *Broker) reach(name string) int { return longest(b.tails(name)) }

func (b *Broker) tails(name string) [][]string {
	list := b.Rules.tails(name)
	if dir := path.Dir(name); b.watchesGit(name) && isOneOf(path.Base(name), gitParts...) && isRepository(dir, "") {
		list = append(list, b.Rules.tails(asGit(dir, name))...)
	}
	return list
}

// renames reports whether a link is another name for what lies beside it, and each
// pattern that goes on below the one goes on below the other: git tries with such a link
// whether there are links.
func (b *Broker) renames(full, to string) bool {
	if strings.Contains(to, "/") || to == "." || to == ".." {
		return false
	}
	there := b.tails(path.Join(path.Dir(full), to))
	for _, t := range b.tails(full) {
		if !slices.ContainsFunc(there, func(u []string) bool { return slices.Equal(t, u) }) {
			return false
		}
	}
	return true
}

// gitNameOf says what a name that stands Protected is to git.
func (b *Broker) gitNameOf(name string) gitName {
	if n := gitNameOf(name); n != notGit {
		return n
	}
	dir := path.Dir(name)
	switch {
	case !b.watchesGit(name):
	case isRepository(dir, ""):
		return gitNameOf(asGit(dir, name))
	case isOneOf(path.Base(dir), "hooks") && isRepository(path.Dir(dir), ""):
		return gitNameOf(asGit(path.Dir(dir), name))
	}
	return notGit
}

// appear judges what a new name makes of the directory that it is to lie in.
func (c *call) appear(p location, full string) unix.Errno {
	if dir := path.Dir(full); c.b.isPart(full) && !isRepository(dir, "") && isRepository(dir, path.Base(full)) {
		var st unix.Stat_t
		if unix.Fstatat(p.dir, ".git", &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			return c.verdict(full, Protected) // git takes this one where it does not like what .git says
		}
		if unix.Fstat(p.dir, &st) != nil || st.Mode&othersWrite != 0 {
			return c.verdict(full, Protected) // see servesGit
		}
		return c.judgeParts(p, dir)
	}
	return 0
}

// servesGit reports whether another user of the machine who may write in the directory full could
// put there what runs at the user's next git: a directory of git's, or the hooks of one. A program
// makes no such directory (see keepsOthersOut); a person's is not moved to where it would be one.
func (b *Broker) servesGit(full string) bool {
	return b.watchesGit(full) && (BelowGit(full) || isOneOf(path.Base(full), "hooks") || isRepository(full, ""))
}

// isPart reports whether name may be what a directory becomes a repository by.
func (b *Broker) isPart(name string) bool {
	return isOneOf(path.Base(name), "objects", "refs", "HEAD", "commondir") && b.watchesGit(name) && path.Base(path.Dir(name)) != ".git"
}

// judgeParts judges what lies in a directory that is to be a repository.
func (c *call) judgeParts(p location, dir string) unix.Errno {
	for _, name := range gitParts {
		var st unix.Stat_t
		if unix.Fstatat(p.dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT {
			continue
		}
		ok := false
		switch name {
		case "hooks":
			ok = st.Mode&unix.S_IFMT == unix.S_IFDIR && onlySamples(p.dir, name)
		case "remotes", "branches":
			ok = st.Mode&unix.S_IFMT == unix.S_IFDIR && isEmptyDir(p.dir, name)
		case "info":
			var in unix.Stat_t
			ok = st.Mode&unix.S_IFMT == unix.S_IFDIR && unix.Fstatat(p.dir, "info/attributes", &in, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT
		default:
			ok = st.Mode&unix.S_IFMT == unix.S_IFREG && c.recast(p.dir, dir, name, &st)
		}
		if !ok {
			return c.verdict(path.Join(dir, name), Protected)
		}
	}
	return 0
}

// recast reads a file that git is about to take notice of, and puts a copy of what was
// read in its place: of the file a program may have a descriptor, a mapping or a link.
func (c *call) recast(fd int, dir, name string, st *unix.Stat_t) bool {
	if c.b.isKept(st) {
		return false
	}
	text, errno := readWhole(fd, name)
	if errno != 0 {
		return false
	}
	if name == "commondir" {
		if !c.b.maySend(path.Join(dir, name), string(text)) {
			return false
		}
	} else if !mayBecome("", string(text), dir, c.b.changeable) {
		return false
	}
	made, err := installCopy(fd, name, text, st.Mode&0o777, false, func() bool { return true }) // who makes it a repository looks again
	if err != nil {
		return false
	}
	c.b.made.add(&made, fd, name)
	c.b.installed(&made, fd, name, config{text: string(text)})
	return true
}

func onlySamples(at int, name string) bool {
	dir, entries, err := listed(at, name, maxBelow)
	if err != nil {
		return false
	}
	defer dir.Close()
	return len(entries) <= maxBelow && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), sampleSuffix) })
}

func isEmptyDir(at int, name string) bool {
	dir, entries, err := listed(at, name, 0)
	if err != nil {
		return false
	}
	defer dir.Close()
	return len(entries) == 0
}

// listed opens a directory, and gives what is in it: more than most names are never read.
func listed(at int, name string, most int) (*os.File, []os.DirEntry, error) {
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	dir := os.NewFile(uintptr(fd), name)
	entries, err := dir.ReadDir(most + 1) // one more, so that it is known that there are too many
	if err != nil && err != io.EOF {
		dir.Close()
		return nil, nil, err
	}
	return dir, entries, nil
}

// changeable reports whether a name may be changed. A configuration may have thousands.
func (b *Broker) changeable(name string) bool { return b.mayLook() && b.standing(name) == Writable }

// leadsInside reports whether a path written in dir leads into what may be written, and
// not to a private place: patterns hold there, whatever its name.
func (b *Broker) leadsInside(dir, to string) bool {
	name, ok := textOf(dir, to)
	return ok && b.Rules.bare.Rights(name)&sandboxprofile.Write != 0
}

// mayLead reports whether a link in dir may lead to to: into what may be written, to what
// the profile lets be read, or into the system, where no one outside would expect a part
// of the workspace and write to it.
func (b *Broker) mayLead(dir, to string) bool {
	name, ok := textOf(dir, to)
	return ok && (b.leadsInside(dir, to) || (b.Rules.rights.Rights(name)&sandboxprofile.Read != 0 || HarmlessTarget(name)) && !UsersDirectory(name))
}

// UsersDirectory reports whether name is a directory that the user may write, though the
// programs may not: by a link, git would take it for a work tree of a repository of theirs
// (core.worktree), and write there. To root that is the whole system, which is not looked at.
func UsersDirectory(name string) bool {
	if os.Geteuid() == 0 && sandboxprofile.IsSystemTree(name) {
		return false
	}
	var st unix.Stat_t
	if unix.Stat(name, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false
	}
	for unix.Access(name, unix.F_OK) == unix.ENOENT && name != "/" { // where it could be made
		name = path.Dir(name)
	}
	return unix.Access(name, unix.W_OK) == nil
}

// sharesPool reports whether a link in a private place leads to something that this sandbox
// has made in the same place.
func (b *Broker) sharesPool(full, to string) bool {
	p, _ := b.poolOf(full)
	name, ok := textOf(path.Dir(full), to)
	q, entry := b.poolOf(name)
	return ok && p != nil && p == q && p.holds(entry)
}

// HarmlessTarget reports whether a link to name is harmless: system files, and devices that
// take or give nothing.
func HarmlessTarget(name string) bool {
	switch name {
	case "/dev/null", "/dev/zero", "/dev/full", "/dev/stdin", "/dev/stdout", "/dev/stderr":
		return true
	}
	return sandboxprofile.IsSystemTree(name) && !sandboxprofile.Contains("/proc", name) && !sandboxprofile.Contains("/dev", name)
}

// judgeLink judges a link of the name full that leads to to.
func (c *call) judgeLink(full, to string) unix.Errno {
	if c.b.Rules.own(full) {
		return 0
	}
	// A link is a name for all that lies below what it leads to.
	if c.b.reach(full) > 0 && !c.b.renames(full, to) || c.b.watchesGit(full) && isOneOf(path.Base(full), sendsGit...) {
		return c.verdict(full, Protected)
	}
	// What lies below .git is safe from the user's own checkout: see BelowGit. Git makes no link
	// there that leads to what is not.
	if target, ok := textOf(path.Dir(full), to); c.b.watchesGit(full) && BelowGit(path.Dir(full)) && !(ok && BelowGit(target)) {
		return c.verdict(full+" -> "+to, Protected)
	}
	if !c.b.mayLead(path.Dir(full), to) && !c.b.sharesPool(full, to) && !c.b.leadsNowhere(full, to) {
		return c.verdict(full+" -> "+to, Outside)
	}
	// Programs outside write and read through it: a checkout into a work tree that is a
	// link to a git directory, an editor, a redirection.
	target, _ := textOf(path.Dir(full), to)
	if c.b.standing(target) == Hidden {
		return c.verdict(full+" -> "+to, Hidden)
	}
	if c.b.Rules.protect.Match(fold(target)) || c.b.repositoryOf(target) != "" ||
		c.b.watchesGit(full) && BelowGit(target) && !BelowGit(path.Dir(full)) {
		return c.verdict(full+" -> "+to, Protected)
	}
	return 0
}

// maxMoved is how many names are looked at below a directory that gets another parent,
// while others wait. What has more is moved by copying (EXDEV), as to another file system.
const maxMoved = 20_000

// judgeMoved looks at what lies below a directory that is to lie elsewhere. Links that lead
// out of it lead somewhere else then. And programs' domain grants by directory what lies
// below it now, so it would show what is withheld where that comes to lie below another.
// What cannot be looked at is not moved.
func (c *call) judgeMoved(at int, called, from, to string, depth int, left *budget) unix.Errno {
	dir, entries, err := listed(at, called, left.names)
	if err != nil {
		return c.verdict(to, Protected)
	}
	defer dir.Close()
	fd := int(dir.Fd())
	for _, e := range entries {
		if !left.spend() {
			return unix.EXDEV
		}
		was, name := path.Join(from, e.Name()), path.Join(to, e.Name())
		switch {
		case c.b.withheld(fd, e, was, name):
			return c.verdict(was, Hidden)
		case e.Type()&os.ModeSymlink != 0:
			target, errno := readLink(fd, e.Name())
			if errno != 0 {
				return c.verdict(name, Protected)
			}
			if leaves(target, depth) && !c.b.mayLead(to, target) && !c.b.sharesPool(name, target) {
				return c.verdict(name+" -> "+target, Outside)
			}
		case e.IsDir():
			if errno := c.judgeMoved(fd, e.Name(), was, name, depth+1, left); errno != 0 {
				return errno
			}
		case e.Type().IsRegular() && isOneOf(e.Name(), "config", "config.worktree") && c.b.watchesGit(name) && (BelowGit(from) || isRepository(from, "")):
			text, errno := readWhole(fd, e.Name())
			if errno != 0 || !meansTheSame(string(text), from, to, depth) {
				return c.verdict(name, Protected)
			}
		case e.Type().IsRegular() && c.b.sends(name):
			text, errno := readWhole(fd, e.Name())
			if errno != 0 || !c.b.maySend(name, string(text)) {
				return c.verdict(name, Protected)
			}
		}
	}
	return 0
}

// withheld reports whether an entry of a directory is hidden under the name that it had or
// gets, or was when the sandbox was built.
func (b *Broker) withheld(dir int, e os.DirEntry, was, name string) bool {
	if p, _ := b.poolOf(was); p != nil {
		return false // no pattern holds there
	}
	if b.Rules.hides(was) || b.Rules.hides(name) {
		return true
	}
	if len(b.kept) == 0 || !e.Type().IsRegular() {
		return false
	}
	var st unix.Stat_t
	return unix.Fstatat(dir, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW) == nil && b.withholds(&st, was)
}

// withholds reports whether a file that has a name is one that was hidden when the sandbox was
// built, under whatever name.
func (b *Broker) withholds(st *unix.Stat_t, name string) bool {
	return b.isKept(st) && !slices.Contains(b.frozen, idOf(st)) && b.standing(name) != Protected
}

// meansTheSame reports whether a git configuration has the same effect in the directory to as
// it had in from, depth below a directory that is moved: relative paths in it start where it
// lies, and only one below .git may have a work tree elsewhere.
func meansTheSame(text, from, to string, depth int) bool {
	for line := range strings.Lines(text) {
		for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune("= \t\"\r\n", r) }) {
			if leaves(word, depth) && !strings.Contains(word, ":") {
				return false
			}
		}
	}
	return BelowGit(from) == BelowGit(to) || !strings.Contains(strings.ToLower(text), "worktree")
}

// leaves reports whether a relative path leads further up than depth directories.
func leaves(to string, depth int) bool {
	up := 0
	for part := range strings.SplitSeq(to, "/") {
		if part == ".." {
			up++
		}
	}
	return !strings.HasPrefix(to, "/") && up > depth
}

func readLink(dir int, name string) (string, unix.Errno) {
	var buf [pathMax]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	if err != nil {
		return "", errnoOf(err)
	}
	return string(buf[:n]), 0
}

// sendsGit are files that send git elsewhere (gitrepository-layout(5)).
var sendsGit = []string{".git", "commondir"}

// sends reports whether name is such a file.
func (b *Broker) sends(name string) bool {
	return isOneOf(path.Base(name), sendsGit...) && b.watchesGit(name)
}

// staysApart reports whether target lies in a repository without a work tree that no
// program made, beside the directory dir: it cannot be moved into a work tree, since it
// holds protected names, and nothing on the way to it is a link.
func (b *Broker) staysApart(dir, target string) bool {
	at, apart := b.rootFD, false
	defer func() { closeUnless(b.rootFD, at) }()
	for end := 1; end <= len(target); end++ {
		if end < len(target) && target[end] != '/' {
			continue
		}
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
		next, err := unix.Openat2(at, path.Base(target[:end]), &how)
		switch {
		case err == unix.ENOENT || err == unix.ENOTDIR:
			return apart
		case err != nil:
			return false
		}
		closeUnless(b.rootFD, at)
		at = next
		var st unix.Stat_t
		if isRepositoryAt(at, "", "") && unix.Fstatat(at, "config", &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			apart = !b.made.has(&st, at, "config") && !sandboxprofile.Contains(dir, target[:end]) && !sandboxprofile.Contains(target[:end], dir)
		}
	}
	return apart
}

func closeUnless(kept, fd int) {
	if fd != kept {
		unix.Close(fd)
	}
}

// maySend reports whether the file name may hold text.
func (b *Broker) maySend(name, text string) bool {
	to := strings.TrimRight(text, "\r\n")
	if isOneOf(path.Base(name), ".git") {
		var ok bool
		if to, ok = strings.CutPrefix(to, "gitdir: "); !ok || to == "" {
			return true // git follows nothing else (setup.c, read_gitfile_gently)
		}
		if BelowGit(path.Dir(name)) {
			return false // the work tree would be a git directory
		}
	}
	if strings.ContainsFunc(to, unicode.IsControl) {
		return false // git reads a path to its first NUL
	}
	if dir := path.Dir(name); isOneOf(path.Base(name), "commondir") {
		// All that git writes (builtin/worktree.c). In any other directory it would take a
		// configuration and hooks away from a repository, and bring others.
		var st unix.Stat_t
		if to != "../.." || path.Base(path.Dir(dir)) != "worktrees" || unix.Lstat(dir+"/objects", &st) != unix.ENOENT {
			return false
		}
	}
	target, ok := textOf(path.Dir(name), to)
	return to == "" || ok && b.leadsInside(path.Dir(name), to) && (BelowGit(target) || b.staysApart(path.Dir(name), target))
}
