package tripwire

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// asGitMakesIt reports whether a protected name in a directory of git's is as init,
// clone, worktree and submodule leave it. It errs on the side of saying no: a
// configuration that cannot be read, or is not known to be harmless, is not harmless.
// known is what the configuration said of other things before (see riskyLines); inside
// reports whether a path lies where the tool may write anyway.
func asGitMakesIt(f Finding, known []string, inside func(dir, target string) bool) bool {
	if !f.git {
		return false
	}
	if f.take != f.Path { // a repository by what lies in it: git takes it where it does not like what .git says
		if _, err := os.Lstat(filepath.Join(filepath.Dir(f.take), ".git")); err == nil {
			return false
		}
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

// gitfile returns where a .git file, or a link to one, leads, or "" if git would not
// follow it (gitrepository-layout(5)). One that is not read here may lead anywhere: git
// reads more of it.
func gitfile(path string) string {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return "" // a link to nothing, or to a directory, which is looked at where it lies
	}
	b, ok := readSmallAt(path, 0)
	if !ok {
		return "/"
	}
	target, ok := bytes.CutPrefix(b, []byte("gitdir: "))
	if !ok {
		return ""
	}
	to := strings.TrimRight(string(target), "\r\n")
	if strings.ContainsFunc(to, unicode.IsControl) {
		return "/" // git reads it to its first NUL
	}
	return to
}

// holdsItsTree reports whether the .git file of dir leads to a git directory that the user's
// own checkout in dir, or in a work tree around, writes to, or one that dir lies in.
func holdsItsTree(dir, target string) bool {
	gitdir := absolute(dir, target)
	if real, err := filepath.EvalSymlinks(gitdir); err == nil {
		gitdir = real // a link below .git leads where it does
	}
	return broker.BelowGit(dir) || !broker.BelowGit(gitdir) &&
		(sandboxprofile.Contains(dir, gitdir) || sandboxprofile.Contains(gitdir, dir) || inWorkTree(gitdir))
}

// inWorkTree reports whether a directory lies in the work tree of a repository, whose commits
// can bring anything there.
func inWorkTree(dir string) bool {
	for at := filepath.Dir(dir); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			return true
		}
		if at == "/" {
			return false
		}
	}
}

// sectionHeader is the whole of a line that begins a section and does no more.
var sectionHeader = regexp.MustCompile(`^\[([A-Za-z0-9-]+)(?:[ \t]+"[^"\\\]]*")?\]$`)

// riskyLines gives the lines of a git configuration that are not known to be harmless,
// each behind the header of its section. The grammar is git's in its plainest form;
// anything else is risky, not misread.
func riskyLines(path string, inside func(dir, target string) bool) (risky []string, ok bool) {
	b, ok := readSmall(path)
	if !ok {
		return nil, false
	}
	var header, in string // the section
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		section := sectionHeader.FindStringSubmatch(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case section != nil:
			header, in = line, strings.ToLower(section[1])
		case !harmlessLine(line, header, in, filepath.Dir(path), inside):
			risky = append(risky, header+" "+line)
			if line[0] == '[' || strings.HasSuffix(line, `\`) {
				in = "" // another section, or the rest of a value, in a form that is not read here
			}
		}
	}
	return risky, true
}

// plainValue takes out what git takes out of a value: two halves of a word may have it
// between them.
var plainValue = strings.NewReplacer(`"`, "", `\`, "")

func harmlessLine(line, header, section, dir string, inside func(dir, target string) bool) bool {
	key, value, _ := strings.Cut(line, "=")
	key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
	if strings.HasSuffix(line, `\`) || strings.Contains(plainValue.Replace(value), "::") {
		return false // goes on in the next line; ext::COMMAND is a remote that is a program (gitremote-helpers(7))
	}
	if strings.EqualFold(header, "[core]") && key == "worktree" {
		// Of a submodule; elsewhere it would lead a checkout out. Where a value ends that
		// has a quote, a backslash or a comment in it is git's to say.
		return !strings.ContainsAny(value, "\"\\#;") && inside(dir, value) && broker.BelowGit(dir) && !broker.BelowGit(absolute(dir, value))
	}
	// What was there before is mounted and cannot be changed: this one is new.
	return broker.HarmlessKey(section, key) || strings.EqualFold(header, "["+section+"]") && broker.SharesWithGroup(section, key, value)
}

// namingKeys are variables whose value is, or begins with, the path of a program
// or of more configuration.
var namingKeys = []string{
	"hookspath", "path", "fsmonitor", "askpass", "gitproxy", "textconv", "clean", "smudge",
	"process", "driver", "uploadpack", "receivepack", "attributesfile", "update", "smtpserver", "httpd",
	"external", "templatedir", "tunnel", "modulepath",
}

// namingEnds are how the other variables of that kind end, in whatever version of git
// (interactive.diffFilter, gc.recentObjectsHook, sendemail.toCmd).
var namingEnds = []string{"cmd", "command", "editor", "filter", "helper", "hook", "pager", "program"}

// namesFiles reports whether the value of a variable can name a file that git runs or reads. In the section
// pager each variable is a command's name. An alias does not name a program that runs by itself: a person has to
// use its name.
func namesFiles(section, key string) bool {
	return section == "pager" || slices.Contains(namingKeys, key) ||
		slices.ContainsFunc(namingEnds, func(end string) bool { return strings.HasSuffix(key, end) })
}

// dataSections and dataKeys are of variables whose value may have a slash, and that name data: references, addresses,
// texts, and directories with a list of their own.
var (
	dataSections = []string{"branch", "remote", "submodule", "user", "url", "color", "safe", "svn-remote", "gitflow", "http", "i18n", "format"}
	dataKeys     = []string{"worktree", "template", "excludesfile", "ignorerevsfile", "signaturefile", "aliasesfile", "mailmap", "pretty", "format", "xfuncname", "wordregex"}
)

// mayNameFiles reports whether nothing is known of a variable, of a later version of git or of another program: its
// value may be the path of a program.
func mayNameFiles(section, key string) bool {
	return !broker.HarmlessKey(section, key) && !slices.Contains(dataSections, section) && !slices.Contains(dataKeys, key)
}

// maxIncludes bounds how many files a configuration may include to be followed.
const maxIncludes = 32

// namedBy gives the paths that the configuration at path may name, and what it includes:
// absolute ones, and those that are relative to the top of whichever work tree. Too many
// do no harm.
func namedBy(path string) []string {
	home, _ := os.UserHomeDir() // without one, ~ names nothing
	n := naming{home: home, seen: map[string]bool{}}
	n.read(path, filepath.Dir(path))
	return n.paths
}

type naming struct {
	home  string
	seen  map[string]bool
	paths []string
}

// outerNames are names in git configurations around a tree, and the state of those
// files when they were read.
type outerNames struct {
	files map[string]unix.Stat_t // what does not exist is zero
	names []string
}

func newOuterNames(root string) outerNames {
	home, _ := os.UserHomeDir()
	n := naming{home: home, seen: map[string]bool{}}
	o := outerNames{files: map[string]unix.Stat_t{}}
	for _, config := range globalConfigs() {
		n.read(config, filepath.Dir(config))
	}
	for dir := range hostfs.Above(root) {
		git := join(dir, ".git")
		o.files[git] = statOf(git)
		if o.files[git].Ino == 0 {
			continue
		}
		gitdir := git
		if led := gitfile(git); led != "" {
			gitdir = absolute(dir, led)
		}
		o.files[gitdir+"/commondir"] = statOf(gitdir + "/commondir")
		for _, config := range configsOf(gitdir) {
			n.read(config, gitdir)
		}
	}
	for file := range n.seen {
		o.files[file] = statOf(file)
	}
	o.names = n.paths
	return o
}

// valid reports whether each file is as it was when it was read.
func (o outerNames) valid() bool {
	for file, was := range o.files {
		now := statOf(file)
		if now.Ino != was.Ino || now.Dev != was.Dev || now.Ctim != was.Ctim || now.Size != was.Size {
			return false
		}
	}
	return o.files != nil
}

// statOf is zero for what cannot be looked at.
func statOf(path string) (st unix.Stat_t) {
	if unix.Stat(path, &st) != nil {
		return unix.Stat_t{}
	}
	return st
}

func (n *naming) read(path, gitdir string) {
	if len(n.seen) >= maxIncludes || n.seen[path] {
		return
	}
	n.seen[path] = true
	b, ok := readSmallAt(path, 0)
	if !ok {
		return
	}
	section := ""
	for line := range strings.Lines(string(b)) {
		if begins, ok := strings.CutPrefix(strings.TrimSpace(line), "["); ok {
			section = strings.ToLower(begins[:max(0, strings.IndexAny(begins, " \t]."))])
		}
		key, value, ok := strings.Cut(line, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		key = key[strings.LastIndexAny(key, " \t]")+1:] // a section may begin on the same line
		names := namesFiles(section, key)
		if !ok || section == "alias" || !names && !mayNameFiles(section, key) {
			continue
		}
		whole := strings.TrimSpace(plainValue.Replace(value))
		switch key {
		case "path": // of an include, relative to the file that names it
			file := n.resolve(whole, filepath.Dir(path))
			n.paths = append(n.paths, file)
			n.read(file, gitdir)
		case "hookspath", "attributesfile", "templatedir":
			n.add(whole, gitdir)
		default:
			for i, word := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'!;|&", r) }) {
				switch {
				case !names && (!strings.Contains(word, "/") || n.isDirectory(word, gitdir)): // a program is a file
				case strings.Contains(word, "/"):
					n.add(word, gitdir)
				case i > 0 && word[0] != '-' && word[0] != '%': // the first is a program of the PATH
					n.paths = append(n.paths, filepath.Join(filepath.Dir(gitdir), word))
				}
			}
		}
	}
}

func (n *naming) isDirectory(word, gitdir string) bool {
	info, err := os.Stat(n.resolve(word, filepath.Dir(gitdir)))
	return strings.HasSuffix(word, "/") || err == nil && info.IsDir()
}

func (n *naming) resolve(word, dir string) string {
	switch {
	case strings.HasPrefix(word, "~/"):
		return filepath.Join(n.home, word[2:])
	case filepath.IsAbs(word):
		return filepath.Clean(word)
	}
	return filepath.Join(dir, word)
}

// add names word, which may be relative to the top of a work tree or to the repository.
func (n *naming) add(word, gitdir string) {
	if word == "" {
		return
	}
	n.paths = append(n.paths, n.resolve(word, filepath.Dir(gitdir)))
	if filepath.IsAbs(word) || word[0] == '~' {
		return
	}
	n.paths = append(n.paths, n.resolve(word, gitdir))
	if rel := filepath.Clean(word); rel != "." && rel != ".." && !strings.HasPrefix(rel, "../") {
		n.paths = append(n.paths, rel)
	}
}

// globalConfigs are the configurations that git reads besides a repository's own, git-config(1):
// those of distributions and of a git that was built from source, the user's, and what the user
// has in their place.
func globalConfigs() []string {
	files := []string{"/etc/gitconfig", "/usr/local/etc/gitconfig"}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config/git/config"))
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		files = append(files, filepath.Join(dir, "git/config"))
	}
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"} {
		if file := os.Getenv(name); filepath.IsAbs(file) {
			files = append(files, filepath.Clean(file))
		}
	}
	return files
}

// configsOf are the configurations of the repository that gitdir is, or that it shares.
func configsOf(gitdir string) []string {
	dirs := []string{gitdir}
	if b, ok := readSmall(filepath.Join(gitdir, "commondir")); ok {
		dirs = append(dirs, absolute(gitdir, strings.TrimRight(string(b), "\r\n")))
	}
	var files []string
	for _, dir := range dirs {
		files = append(files, filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree"))
	}
	return files
}

func absolute(dir, target string) string {
	if filepath.IsAbs(target) {
		return filepath.Clean(target)
	}
	return filepath.Join(dir, target)
}

// maxSmall bounds what is read of a file that a tool wrote.
const maxSmall = 64 << 10

// readSmall reads a regular file, following no link at its end and waiting for
// no pipe.
func readSmall(path string) ([]byte, bool) { return readSmallAt(path, unix.O_NOFOLLOW) }

func readSmallAt(path string, flags int) ([]byte, bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|flags, 0)
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
func configurations(found []Finding, inside func(dir, target string) bool) map[string][]string {
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
