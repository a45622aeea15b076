package toolchains

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// A Host is the machine as a person uses it. Paths are absolute.
type Host struct {
	Home string // the person's real home directory, links resolved; "" if there is none
	Path string // PATH
	Env  func(name string) string
	// Roots are the configured directories. What lies in them has its rights from there;
	// those that a tool may write to are looked through for projects.
	Roots []sp.Root
	// Program is the program that will be run, as it was typed; "" if that is not known.
	Program string
	// Never are directories that are not shown, and neither is a tree that holds one.
	Never []string
	// Hidden reports whether a path is hidden by a pattern, and Secret whether a text
	// holds a token or a password. Many goroutines call Secret.
	Hidden func(path string) bool
	Secret func(text string) bool
	// Holds, if set, reports what look would of the file at path, which was found to be st: it
	// may remember what look said of the same file in the same state. Many goroutines call it.
	Holds func(path string, st fs.FileInfo, look func() bool) bool
	// Preset gives the grants of a shipped preset.
	Preset func(name string) []sp.Grant
}

// Found is what programs on PATH need.
type Found struct {
	Grants  []sp.Grant // by path; paths of links as well as what they lead to
	Path    string     // PATH as it leads to the same directories inside
	Secrets []string   // files in what is granted that hold a token or a password
	Tokens  []string   // which settings of presets are not shown, because they hold one
	Notes   []string   // what is not shown, and why
	Caches  []Cache    // of the toolchains that are used here
	// Repository is what git needs besides, from package repositories.
	Repository []sp.Root
	Unfollowed []string // what of it is not shown, and why
	Readable   []string // what of it holds a token and has to be shown
}

// Bounds of the search. What lies beyond is not found, and not shown.
const (
	maxPath     = 256  // directories of PATH
	maxEntries  = 2048 // entries of one directory
	maxLinks    = 40   // as in path_resolution(7)
	maxHead     = 256  // bytes of a script's first line
	maxSettings = 64 << 10

	maxCertificates = 4 << 20 // bytes of a file
)

// Find looks at the machine.
func Find(h Host) Found {
	f := newFinder(h)
	dirs := f.pathDirs()
	var kept []Cache
	for _, fam := range families {
		if f.used(fam, dirs) {
			f.family(fam)
			for _, c := range caches[fam.name] {
				if c.unless != "" && f.inProject(c.unless) {
					continue
				}
				c.Outside = f.place(c.Outside)
				kept = append(kept, c)
			}
		}
	}
	for _, d := range dirs {
		f.pathDir(d)
	}
	f.variables()
	f.projects()
	for _, d := range dirs { // after the trees are known: most links lead to one of them
		f.links(d)
	}
	f.prune()
	found := Found{Path: insidePath(dirs), Notes: f.notes, Secrets: f.secrets(), Caches: kept}
	for _, p := range slices.Sorted(maps.Keys(f.grants)) {
		found.Grants = append(found.Grants, f.grants[p])
	}
	return found
}

type finder struct {
	Host
	grants   map[string]sp.Grant
	notes    []string
	told     map[string]bool
	followed map[string]bool // interpreters of scripts
}

func newFinder(h Host) *finder {
	return &finder{Host: h, grants: map[string]sp.Grant{}, told: map[string]bool{}, followed: map[string]bool{}}
}

// A dir is one directory of PATH.
type dir struct{ entry, real string }

func (f *finder) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !f.told[text] {
		f.told[text] = true
		f.notes = append(f.notes, text)
	}
}

// pathDirs are the directories of PATH that can be shown: those that exist, are absolute,
// and into which only this user and root can put programs.
func (f *finder) pathDirs() []dir {
	var list []dir
	for i, entry := range filepath.SplitList(f.Path) {
		if i == maxPath {
			f.note("PATH has more than %d directories: the others are ignored", maxPath)
			break
		}
		if !filepath.IsAbs(entry) {
			if entry != "" {
				f.note("%q in PATH is relative: it is not used in the sandbox", entry)
			}
			continue
		}
		entry = filepath.Clean(entry)
		real, err := filepath.EvalSymlinks(entry)
		if err != nil || slices.ContainsFunc(list, func(d dir) bool { return d.entry == entry }) {
			continue
		}
		if st, err := os.Stat(real); err != nil || !st.IsDir() {
			continue
		} else if othersWrite(st) {
			f.note("%s in PATH is not shown: other users can write to it", entry)
			continue
		}
		list = append(list, dir{entry, real})
	}
	return list
}

func othersWrite(st fs.FileInfo) bool {
	return st.Mode().Perm()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0
}

// insidePath is PATH with the directories that are reached by a link outside of what a
// sandbox shows under the names that they have inside.
func insidePath(dirs []dir) string {
	var list []string
	for _, d := range dirs {
		p := d.entry
		if p != d.real && within(p, "/run", "/tmp", "/var", "/dev") {
			p = d.real
		}
		if !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return strings.Join(list, ":")
}

func within(path string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return sp.Contains(tree, path) })
}

// used reports whether a toolchain is one that this person uses here.
func (f *finder) used(fam family, dirs []dir) bool {
	for _, pattern := range fam.path {
		if slices.ContainsFunc(dirs, func(d dir) bool {
			return match(f.place(pattern), d.entry) || match(f.place(pattern), d.real)
		}) {
			return true
		}
	}
	started := filepath.Base(f.Program)
	if slices.Contains(fam.starts, started) || slices.Contains(fam.programs, started) ||
		slices.ContainsFunc(fam.programs, func(name string) bool { return has(dirs, name) }) {
		return true
	}
	return f.inProject(fam.markers...)
}

// inProject reports whether a project has one of these names.
func (f *finder) inProject(names ...string) bool {
	return len(names) > 0 && slices.ContainsFunc(f.projectDirs(), func(d string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return exists(filepath.Join(d, name)) })
	})
}

func has(dirs []dir, name string) bool {
	return slices.ContainsFunc(dirs, func(d dir) bool { return exists(filepath.Join(d.real, name)) })
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (f *finder) family(fam family) {
	grants := fam.grants
	if fam.preset != "" && f.Preset != nil {
		grants = append(slices.Clone(grants), f.Preset(fam.preset)...)
	}
	for _, g := range grants {
		for _, path := range f.expand(g.Path) {
			f.show(path, g.Rights, g.Reason)
		}
	}
	if fam.versions != nil {
		f.versions(*fam.versions)
	}
}

// versions shows the versions in use: by a variable, by a file of a project or of a
// directory above it, or by default. A name may stand for the newest that begins with it.
func (f *finder) versions(v versions) {
	in := f.place(v.in)
	if in == "" {
		return
	}
	var text []string
	if f.Env != nil {
		text = append(text, f.Env(v.variable))
	}
	for _, d := range f.projectDirs() {
		text = append(text, readHead(filepath.Join(d, v.file), maxHead))
	}
	for _, r := range f.Roots {
		for d := filepath.Dir(r.Path); d != "/" && r.Write; d = filepath.Dir(d) {
			text = append(text, readHead(filepath.Join(d, v.file), maxHead))
		}
	}
	text = append(text, readHead(f.place(v.global), maxHead))
	installed := names(in)
	for _, name := range strings.FieldsFunc(strings.Join(text, "\n"), func(r rune) bool { return r == '\n' || r == ':' || r == ' ' || r == '\r' }) {
		for _, have := range slices.Backward(installed) {
			if have == name || strings.HasPrefix(have, name+".") {
				f.show(filepath.Join(in, have), execute, v.reason)
				break
			}
		}
	}
}

// place is a path of the table as this person has it: "~" and the variables that put a
// directory elsewhere resolved. "" is nowhere.
func (f *finder) place(path string) string {
	if !strings.HasPrefix(path, "~/") {
		return path
	}
	if f.Home == "" {
		return ""
	}
	for prefix, variable := range places {
		rest, ok := strings.CutPrefix(path, prefix)
		if !ok || rest != "" && rest[0] != '/' || f.Env == nil {
			continue
		}
		first, _, _ := strings.Cut(f.Env(variable), ":") // GOPATH is a list
		if filepath.IsAbs(first) && filepath.Clean(first) != "/" {
			return filepath.Clean(first) + rest
		}
	}
	return f.Home + path[1:]
}

// expand gives the existing paths that a path of the table stands for.
func (f *finder) expand(path string) []string {
	path = f.place(path)
	if path == "" {
		return nil
	}
	if !strings.Contains(path, "*") {
		return []string{path}
	}
	list, err := filepath.Glob(path)
	if err != nil {
		return nil
	}
	return list[:min(len(list), maxEntries)]
}

// match reports whether a path matches a pattern, name by name.
func match(pattern, path string) bool {
	ok, err := filepath.Match(pattern, path)
	return ok && err == nil
}

// knownTree is the tree of the table that a path lies in, or "".
func (f *finder) knownTree(path string) string {
	for _, t := range trees {
		pattern := f.place(t)
		if pattern == "" {
			continue
		}
		names := strings.Split(path, "/")
		if n := strings.Count(pattern, "/") + 1; n <= len(names) {
			if head := strings.Join(names[:n], "/"); match(pattern, head) {
				return head
			}
		}
	}
	return ""
}

// show grants a path, and the links on the way to what it leads to.
func (f *finder) show(path string, rights sp.Rights, reason string) {
	links, real, ok := resolve(path)
	if !ok || sp.IsSystemTree(real) && !within(real, "/etc") || f.inRoot(real) {
		return
	}
	if why := f.refused(real); why != "" {
		f.note("%s is not shown: %s", path, why)
		return
	}
	for _, link := range links {
		if !sp.IsSystemTree(link) && !f.inRoot(link) {
			f.add(link, read, "a link on the way to "+real)
		}
	}
	f.add(real, rights, reason)
}

func (f *finder) add(path string, rights sp.Rights, reason string) {
	g, ok := f.grants[path]
	if !ok {
		g = sp.Grant{Path: path, Reason: reason}
	}
	g.Rights |= rights
	f.grants[path] = g
}

// prune drops what a grant above gives already.
func (f *finder) prune() {
	maps.DeleteFunc(f.grants, func(path string, g sp.Grant) bool {
		for p := filepath.Dir(path); p != "/"; p = filepath.Dir(p) {
			if above, ok := f.grants[p]; ok && g.Rights.SubsetOf(above.Rights) {
				return true
			}
		}
		return false
	})
}

// covered reports whether a path is shown already: by the system, a root or a grant.
func (f *finder) covered(path string) bool {
	if sp.IsSystemTree(path) && !within(path, "/etc") || f.inRoot(path) {
		return true
	}
	for p := path; ; p = filepath.Dir(p) {
		if g, ok := f.grants[p]; ok && g.Rights&sp.Execute != 0 {
			return true
		}
		if p == filepath.Dir(p) {
			return false
		}
	}
}

func (f *finder) inRoot(path string) bool {
	return slices.ContainsFunc(f.Roots, func(r sp.Root) bool { return sp.Contains(r.Path, path) })
}

// refused gives the reason why a path is never shown, or "".
func (f *finder) refused(path string) string {
	switch {
	case f.Home != "" && sp.Contains(path, f.Home):
		return "it contains the whole home directory"
	case slices.Contains(roots, path):
		return "it contains files of many kinds"
	case slices.ContainsFunc(shared, func(s string) bool { return f.Home != "" && f.Home+s[1:] == path }):
		return "it contains files of many kinds"
	case f.ofSomebody(path):
		return "it is in another user's home directory"
	case f.Hidden != nil && f.Hidden(path):
		return "a pattern of sandbox.hide hides it"
	}
	for _, n := range f.Never {
		if sp.Contains(path, n) || sp.Contains(n, path) {
			return "it contains sandgate's own files"
		}
	}
	return ""
}

// ofSomebody reports whether a path lies in the home directory of another person.
func (f *finder) ofSomebody(path string) bool {
	if f.Home != "" && sp.Contains(f.Home, path) || within(path, "/home/linuxbrew/.linuxbrew") {
		return false
	}
	return within(path, "/root", "/home", "/Users")
}

// pathDir shows a directory of PATH with the tree that it belongs to.
func (f *finder) pathDir(d dir) {
	if f.covered(d.real) {
		f.show(d.entry, read, "a directory of PATH") // the links to it
		return
	}
	tree := f.treeOf(d.real)
	f.show(tree, execute, "programs on PATH, and the files beside them")
	f.show(d.entry, execute, "programs on PATH")
	f.venv(tree, true)
}

// holders are directories that programs lie in: what these need is beside them.
var holders = []string{"bin", "sbin", ".bin", "condabin", "shims", "libexec", "Scripts"}

// treeOf is the tree that a directory with programs belongs to, or the directory itself
// where that holds other things too.
func (f *finder) treeOf(dir string) string {
	if t := f.knownTree(dir); t != "" {
		return t
	}
	tree := filepath.Dir(dir)
	if f.Home == "" || !sp.Contains(f.Home, dir) {
		return dir // what else lies there is not this person's
	}
	if !slices.Contains(holders, filepath.Base(dir)) || f.refused(tree) != "" || f.holdsRoot(tree) || holdsProjects(tree) {
		return dir
	}
	if !f.ofTools(tree) && !isInstallation(tree) {
		f.note("of %s only %s is shown: other files beside it may not belong to the toolchain; to show all: --ro %s", tree, filepath.Base(dir), tree)
		return dir
	}
	return tree
}

// isInstallation reports whether all that lies in a directory has the name of a toolchain's: a person's
// documents and projects lie beside a bin, too.
func isInstallation(tree string) bool {
	list := names(tree)
	for _, name := range list {
		st, err := os.Lstat(filepath.Join(tree, name))
		switch {
		case err != nil:
			return false
		case name == "src":
			if !exists(filepath.Join(tree, "src", "runtime")) || !exists(filepath.Join(tree, "VERSION")) { // Go's own
				return false
			}
		case st.Mode().IsRegular():
			if !slices.ContainsFunc(installedFiles, func(p string) bool { return match(p, name) }) {
				return false
			}
		case !slices.Contains(installedDirs, name) && !slices.Contains(holders, name):
			return false
		}
	}
	return len(list) < maxEntries
}

func (f *finder) holdsRoot(tree string) bool {
	return slices.ContainsFunc(f.Roots, func(r sp.Root) bool { return sp.Contains(tree, r.Path) })
}

// holdsProjects reports whether repositories lie in a directory.
func holdsProjects(dir string) bool {
	for _, name := range names(dir) {
		if exists(filepath.Join(dir, name, ".git")) {
			return true
		}
	}
	return false
}

// names lists a directory, as far as it is looked at. It waits for nothing: a call may have
// put a FIFO where a project has a directory.
func names(dir string) (list []string) {
	for _, e := range entries(dir) {
		list = append(list, e.Name())
	}
	return list
}

// entries is names with the kind of each.
func entries(dir string) []fs.DirEntry {
	d, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer d.Close()
	list, _ := d.ReadDir(maxEntries)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}

// links shows what programs of a directory lead to: the file behind a link, and the
// interpreter of a script.
func (f *finder) links(d dir) {
	if sp.IsSystemTree(d.real) && d.real != "/usr/local/bin" || f.inRoot(d.real) || f.refused(d.real) != "" {
		return
	}
	for _, e := range entries(d.real) {
		path := filepath.Join(d.real, e.Name())
		if e.Type()&fs.ModeSymlink != 0 {
			if _, real, ok := resolve(path); ok {
				f.target(path, real)
				path = real
			}
		}
		if i := interpreter(path); i != "" && !f.followed[i] {
			f.followed[i] = true // most scripts of a directory have the same
			if _, real, ok := resolve(i); ok {
				f.target(i, real)
			}
		}
	}
}

// target shows a program that something on PATH leads to, by the path that it is named by.
func (f *finder) target(named, real string) {
	st, err := os.Stat(real)
	if err != nil || !st.Mode().IsRegular() || st.Mode()&0o111 == 0 {
		return
	}
	if f.covered(real) {
		f.show(named, read, "a program on PATH") // the links to it
		return
	}
	tree := filepath.Dir(filepath.Dir(real))
	switch t := f.knownTree(real); {
	case t != "":
		tree = t
	case exists(filepath.Join(tree, venvSettings)):
	case strings.Contains(real, "/node_modules/"):
		tree = real[:strings.Index(real, "/node_modules/")+len("/node_modules")]
	case !slices.Contains(holders, filepath.Base(filepath.Dir(real))) || !f.ofTools(tree) || f.refused(tree) != "" || holdsProjects(tree):
		tree = real // a script of the person's own: the file alone
	}
	f.show(tree, execute, "a program on PATH leads there")
	f.show(named, read, "a program on PATH")
	f.venv(tree, true)
}

// ofTools reports whether a tree lies where programs keep theirs: below a hidden directory
// of the home directory, or outside of it.
func (f *finder) ofTools(tree string) bool {
	rest, ok := strings.CutPrefix(tree, f.Home+"/")
	return f.Home == "" || !ok || strings.HasPrefix(rest, ".")
}

// interpreter is the program that a script names in its first line, or "".
func interpreter(path string) string {
	head := readHead(path, maxHead)
	line, _, ok := strings.Cut(head, "\n")
	line, script := strings.CutPrefix(line, "#!")
	if !ok || !script {
		return ""
	}
	if fields := strings.Fields(line); len(fields) > 0 && filepath.IsAbs(fields[0]) {
		return filepath.Clean(fields[0])
	}
	return ""
}

// readHead gives the beginning of a regular file. It waits for nothing.
func readHead(path string, most int) string {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if syscall.Fstat(fd, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return ""
	}
	b := make([]byte, min(int64(most), max(st.Size, 0)+1))
	read := 0
	for read < len(b) {
		n, err := syscall.Read(fd, b[read:])
		if n <= 0 || err != nil {
			break
		}
		read += n
	}
	return string(b[:read]) // as much as there is
}

// resolve follows the links of a path, and lists them. It fails if nothing is there.
func resolve(path string) (links []string, real string, ok bool) {
	current, rest := "/", strings.Split(filepath.Clean(path), "/")
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			current = filepath.Dir(current)
			continue
		}
		next := filepath.Join(current, name)
		st, err := os.Lstat(next)
		if err != nil {
			return links, "", false
		}
		if st.Mode()&fs.ModeSymlink == 0 {
			current = next
			continue
		}
		to, err := os.Readlink(next)
		if err != nil || len(links) == maxLinks {
			return links, "", false
		}
		links = append(links, next)
		if filepath.IsAbs(to) {
			current = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return links, current, true
}

// variables shows what variables name: the tree of a toolchain, a file of authorities.
func (f *finder) variables() {
	if f.Env == nil {
		return
	}
	for _, name := range directories {
		p := f.Env(name)
		if !filepath.IsAbs(p) {
			continue
		}
		real, err := filepath.EvalSymlinks(p)
		switch {
		case err != nil || f.covered(real):
		case f.refused(real) == "" && (f.holdsRoot(real) || holdsProjects(real)):
			f.note("%s, which %s names, is not shown: it contains projects", p, name)
		default:
			f.show(filepath.Clean(p), execute, name+" names it")
			f.venv(real, true)
		}
	}
	for _, name := range certificates {
		f.authorities(f.Env(name), name)
	}
	for _, s := range certificateSettings {
		for line := range strings.Lines(readHead(f.place(s.file), maxSettings)) {
			if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == s.key {
				f.authorities(strings.Trim(strings.TrimSpace(value), `"'`), s.file)
			}
		}
	}
}

// authorities shows certificate authorities that something of the person's names.
func (f *finder) authorities(path, named string) {
	if filepath.IsAbs(path) && !within(path, "/etc/ssl/certs", "/etc/pki", "/usr") && f.onlyCertificates(path) {
		f.show(filepath.Clean(path), read, "certificate authorities, which "+named+" names")
	}
}

// onlyCertificates reports whether a file, or the files of a directory, are certificates
// and no keys.
func (f *finder) onlyCertificates(path string) bool {
	st, err := os.Stat(path)
	if err != nil {
		return false
	}
	files := []string{path}
	if st.IsDir() {
		files = nil
		for _, name := range names(path) {
			files = append(files, filepath.Join(path, name))
		}
	}
	any := false
	for _, file := range files {
		text := readHead(file, maxCertificates)
		if strings.Contains(text, "PRIVATE KEY") {
			f.note("%s is not shown: it holds a private key", file)
			return false
		}
		any = any || strings.Contains(text, "BEGIN CERTIFICATE") || strings.Contains(text, "BEGIN TRUSTED CERTIFICATE")
	}
	return any
}

// projectDirs are the directories in which a project may begin: the roots that a tool may
// write to, and two levels of what lies in them, as far as is looked at.
func (f *finder) projectDirs() []string {
	var list []string
	for _, r := range f.Roots {
		if r.Write {
			list = append(list, r.Path)
		}
	}
	level := list
	for range 2 {
		var next []string
		for _, d := range level {
			for _, e := range entries(d) {
				if name := e.Name(); e.IsDir() && !strings.HasPrefix(name, ".") && name != "node_modules" && len(list)+len(next) < maxProjects {
					next = append(next, filepath.Join(d, name))
				}
			}
		}
		list, level = append(list, next...), next
	}
	return list
}

const (
	maxProjects  = 256
	venvSettings = "pyvenv.cfg"
)

// projects looks for virtual environments in the workspace.
func (f *finder) projects() {
	for _, d := range f.projectDirs() {
		for _, name := range names(d) {
			at := filepath.Join(d, name)
			f.venv(at, false)
			if name == ".tox" || name == ".nox" {
				for _, env := range names(at) {
					f.venv(filepath.Join(at, env), false)
				}
			}
		}
	}
}

// venv shows the Python that a virtual environment stands on. One in the workspace, which
// a tool may have written, is not believed: it leads to a Python in a tree of the table, where
// what people install by hand does not lie (/opt), or nowhere.
func (f *finder) venv(dir string, believed bool) {
	text := readHead(filepath.Join(dir, venvSettings), maxSettings)
	if text == "" {
		return
	}
	var named []string
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(key) == "home" {
			named = append(named, strings.TrimSpace(value))
		}
	}
	if to, err := os.Readlink(filepath.Join(dir, "bin", "python")); err == nil && filepath.IsAbs(to) {
		named = append(named, filepath.Dir(to))
	}
	for _, base := range named {
		if base = filepath.Clean(base); !filepath.IsAbs(base) {
			continue
		}
		_, real, ok := resolve(base)
		switch {
		case !ok:
			f.note("the Python of %s does not exist: %s", dir, base)
		case f.covered(real):
			f.show(base, read, "the Python of a virtual environment")
		case f.knownTree(real) != "" && (believed || f.knownTree(base) != "" && hasPython(real) && !within(real, "/opt")):
			f.show(f.knownTree(real), execute, "the Python of a virtual environment")
			f.show(base, read, "the Python of a virtual environment")
		case believed:
			f.show(f.treeOf(real), execute, "the Python of a virtual environment")
			f.show(base, read, "the Python of a virtual environment")
		default:
			f.note("the Python of %s is in %s, which is not shown; to show it: --ro %s", dir, base, cmp.Or(filepath.Dir(real), real))
		}
	}
}

// hasPython reports whether a directory has the program of a Python: a tool can name any other
// directory as one.
func hasPython(dir string) bool {
	return slices.ContainsFunc([]string{"python3", "python"}, func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
	})
}

// Named are programs of which several versions are common.
func Named() []string { return slices.Clone(named) }

// Needed are the paths that have to be shown for a program to run, in the words of a
// person who shows them: directories and files, with what they lead to.
func Needed(h Host, program string) []string {
	f := newFinder(h)
	_, real, ok := resolve(program)
	if !ok {
		return nil
	}
	f.target(program, real)
	if i := interpreter(real); i != "" {
		if _, to, ok := resolve(i); ok {
			f.target(i, to)
		}
	}
	var list []string
	for path := range f.grants {
		// Showing a link shows its target: the link itself is seen with its directory.
		if st, err := os.Lstat(path); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			dir := filepath.Dir(path)
			if tree := filepath.Dir(dir); exists(filepath.Join(tree, venvSettings)) {
				dir = tree // what the Python is found by
			}
			if f.refused(dir) != "" {
				return nil
			}
			path = dir
		}
		list = append(list, path)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	return slices.DeleteFunc(slices.Clone(list), func(p string) bool {
		return slices.ContainsFunc(list, func(q string) bool { return p != q && sp.Contains(q, p) })
	})
}
