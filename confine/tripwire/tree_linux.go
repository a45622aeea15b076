package tripwire

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A class says why a survey speaks of something.
type class uint8

const (
	mask      class = iota // its name is hidden or protected: a mount has to cover it
	link                   // a symbolic link that leads out of the writable trees
	reference              // a .git file or link that sends git out of the writable trees
	shared                 // a file with further names outside of the tree
	closed                 // a directory that its owner has closed to itself: nobody can look for names in it
)

// A Finding is one thing in a tree that a sandbox has to cover, or that a tool
// must not have made.
type Finding struct {
	sandboxprofile.Mask
	class   class
	dir     ident  // the directory that had it
	root    string // the tree it was found in
	protect bool   // its name is protected; it may be hidden too
	git     bool   // it lies where git looks for its configuration and hooks
	// under is the directory with a hidden name that it lies in, if it does. A mount is
	// over that, unless a call has made it.
	under string
	// take is the part that has to go to undo it: the path itself, or the file HEAD of
	// a directory that is a repository only by its content.
	take   string
	target string // where a link or reference leads, as it is written
	across bool   // another name of a covered file, which is in another tree
}

// key tells whether two surveys found the same thing.
func (f Finding) key() string { return string('0'+rune(f.class)) + f.Path + "\x00" + f.target }

// A tree remembers what a survey found below one root, directory by directory.
//
// The names in a directory change only together with its ctime, which no program
// can set (inode(7)). A directory whose identity and times are as they were is
// not read again, so a survey of a tree in which nothing happened costs one
// lstat(2) for each directory.
type tree struct {
	mu      *sync.Mutex // of everything below that changes, in all trees that are watched together
	root    string
	key     string // asideKey
	whole   string // where what lies elsewhere matters too
	profile sandboxprofile.Profile
	protect folded
	hide    folded
	hidden  bool    // the root itself is
	git     bool    // the configuration of git is protected: a repository in disguise matters
	own     []ident // our own directories, wherever they are mounted
	top     *node
	told    *savedTree // what an index told, until top is made of it
	// aside is set where no tool may write: only hidden files matter there, and further
	// names of files only if a hidden file turns out to have several. To look each file up
	// would take most of the time that the trees of toolchains take.
	aside   bool
	trusted map[uint64]bool // devices whose file system keeps ctime as local ones do
	overlay map[uint64]bool // those of a container: they tell of changes, and keep no ctime
	// named are paths that a git configuration in the tree names as hooks, includes
	// or programs. They are protected like the configuration itself.
	named map[string]bool
	outer outerNames // what configurations outside of the tree name
	// outside are files known to have names outside of the tree.
	outside map[ident]bool
	// hard are the files with several names that the last walk found, and leaks those of them
	// that are covered and have names outside of the tree.
	hard  map[ident][]hardName
	leaks []ident

	// restored is how many walks of a tree from an index are still to come without watches;
	// read counts the directories that were read since the index was written, which shows
	// whether kept is worth writing.
	restored   int
	read, kept int

	// watch is nil for a tree that is looked at directory by directory each time.
	watch   *watcher
	stirred bool    // something has changed since the last pass began
	memory  *memory // of the last walk, if everything is watched
	// latest is the result of the last walk of a tree aside, and handed is set when the next
	// one returns it again: see Guard.handOver.
	latest []Finding
	handed bool

	// of one walk:
	believing      bool // no directory is looked at
	marks          []visited
	closed         []Finding
	at             int // the root
	changed, moved bool
	lost           bool  // directories may have gone from the tree since it was pruned
	failed         error // the first place that could not be looked at
	unwatched      int   // directories
	found          []Finding
	names          map[ident][]hardName
	next           map[string]bool // what becomes named
}

func newTrees(s *compiledProfile, own []ident) []*tree {
	p := s.profile
	protect, hide := newFolded(p.Protect), newFolded(p.Hide)
	git := protect.Match("/.git/config")
	trees := make([]*tree, len(s.roots))
	watch, mu, patterns := newWatcher(), &sync.Mutex{}, patternsKey(p)
	for i, root := range s.roots {
		trees[i] = &tree{
			root: root.path, key: asideKey(p, patterns, root.path), whole: s.treesKey + root.path, profile: p, protect: protect, hide: hide, hidden: hide.Match(root.path), git: git, own: own,
			mu: mu, watch: watch, top: &node{}, trusted: map[uint64]bool{}, overlay: map[uint64]bool{}, named: map[string]bool{}, aside: !slices.Contains(s.written, i),
		}
	}
	return trees
}

// A node is one directory.
type node struct {
	name    string
	stamp   stamp
	settled bool // its ctime lies far enough back that a change shows in it
	repo    bool // git takes it for a repository
	head    bool // which has a HEAD
	shut    bool // nobody can list it
	kids    []*node
	marks   []mark
	hard    []hardName
	wd      int32        // its watch, 0 for none
	dirty   bool         // something has changed since it was read
	up      *node        // the directory that it is in, once it was visited
	ahead   *unix.Stat_t // what lookAhead saw, until it is visited
	// quiet is set when it and all below it are watched, are as they were read, and have
	// nothing to speak of. What is above one that is not quiet is not either.
	quiet bool
}

// stir takes note that n has to be visited.
func (n *node) stir() {
	for ; n != nil && n.quiet; n = n.up {
		n.quiet = false
	}
}

// A mark is a name in a directory that a survey speaks of, or looks at again
// each time.
type mark struct {
	name          string
	kind          sandboxprofile.FileKind
	hide, protect bool
	target        string // of a link that leads out
}

// A hardName is one of several names of a file.
type hardName struct {
	path          string
	dir, id       ident
	links         uint64 // that the file has, wherever they are
	hide, protect bool   // this name is covered
}

// An ident is a file, whatever its names.
type ident struct{ dev, ino uint64 }

// A stamp is a directory in one state.
type stamp struct {
	ident
	ctime, mtime unix.Timespec
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{ident{st.Dev, st.Ino}, st.Ctim, st.Mtim}
}

// A location is where a node lies. as is the path that patterns are asked about: in
// a repository in disguise it goes on as if that were called .git.
type location struct {
	path, as      string
	hide, protect bool   // something above is covered
	under         string // the first directory above with a hidden name
}

func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

// inside is the path that patterns are asked about for what lies in n.
func (p location) inside(n *node) string {
	if n.repo && filepath.Base(p.as) != ".git" {
		return join(filepath.Dir(p.as), ".git")
	}
	return p.as
}

func (p location) child(n *node, name string) location {
	c := location{path: join(p.path, name), hide: p.hide, protect: p.protect, under: p.under}
	c.as = c.path
	if in := p.inside(n); in != p.path {
		c.as = join(in, name)
	}
	for _, m := range n.marks {
		if m.name == name {
			c.hide, c.protect = c.hide || m.hide, c.protect || m.protect
			if m.hide && c.under == "" {
				c.under = c.path
			}
		}
	}
	return c
}

// walkPasses is how often a walk starts again because something changed while it
// went. What a busy program makes and removes does not keep it from ending.
const walkPasses = 6

// walk gives what there is to find now. A pass in which nothing has changed since the
// one before it saw everything at one time: a process that moves a directory from where
// the walk has not been to where it was changes two others. What a configuration of git
// names is known only after a pass, and starts another.
//
// With an error, something could not be examined, and the result is the rest.
//
// With later, a tree is taken to be as its index describes it. One that is comparable is added
// to those that have to be confirmed; the others have to be walked before anything runs.
func (t *tree) walk(later *[]*tree) ([]Finding, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { t.restored = max(t.restored-1, 0) }()
	if t.handed {
		t.handed = false
		return t.latest, nil
	}
	if later != nil && t.comparable() {
		*later = append(*later, t)
		return nil, nil
	}
	if t.still() {
		return nil, nil
	}
	t.watch.update()
	if found, ok := t.recall(); ok {
		return found, nil
	}
	t.memory = nil
	at, err := unix.Open(t.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("confine: survey %q: %w", t.root, err)
	}
	defer unix.Close(at)
	t.at = at
	if t.asTold() {
		t.latest = []Finding{}
		return nil, nil
	}
	if found, ok := t.believed(later != nil); ok {
		return found, nil
	}
	t.expand()
	t.lookAhead()
	err = t.passes()
	if err == nil && !t.explained() {
		t.top, t.lost = &node{}, true // a directory in which a file has got a second name elsewhere does not show it
		err = t.passes()
	}
	if t.watch != nil {
		if t.lost {
			t.watch.prune(t)
			t.lost = false
		}
		t.watch.update()
		if err == nil && !t.stirred && t.unwatched == 0 { // as it was all the while
			t.memory = &memory{found: t.closed, names: t.names, marks: t.marks}
		}
	}
	t.addAliases()
	found := t.found
	t.found, t.names, t.latest = nil, nil, nil
	if t.aside && err == nil {
		t.latest = append([]Finding{}, found...)
	}
	return found, err
}

// believed returns what there was to find when the index of a tree was written, if the index is
// complete.
func (t *tree) believed(may bool) ([]Finding, bool) {
	if !may || t.told == nil || t.restored == 0 {
		return nil, false
	}
	t.expand()
	t.begin()
	t.believing = true
	err := t.visit(t.top, location{path: t.root, as: t.root})
	t.believing = false
	if err != nil || t.failed != nil || t.aside && len(t.names) > 0 || !maps.Equal(t.named, t.next) || !t.explained() {
		return nil, false
	}
	t.addAliases()
	found := t.found
	t.found, t.names = nil, nil
	return found, true
}

// begin forgets the last pass.
func (t *tree) begin() {
	t.found, t.names, t.next, t.changed, t.moved, t.failed = nil, map[ident][]hardName{}, map[string]bool{}, false, false, nil
	t.marks, t.closed, t.unwatched, t.stirred = nil, nil, 0, false
	if t.git && !t.aside {
		t.nameFromOutside()
	}
}

// still reports whether there is nothing to find as there was nothing: the root is as
// it was and has no directories, nor a name to speak of. Most granted directories are
// like that.
func (t *tree) still() bool {
	n := t.top
	if t.restored > 0 || !n.settled || n.shut || len(n.kids)+len(n.marks)+len(n.hard)+len(t.named) > 0 {
		return false
	}
	var st unix.Stat_t
	return unix.Lstat(t.root, &st) == nil && stampOf(&st) == n.stamp
}

// passes walks until nothing changes.
func (t *tree) passes() error {
	for range walkPasses {
		t.watch.update()
		t.begin()
		if err := t.visit(t.top, location{path: t.root, as: t.root}); err != nil {
			return fmt.Errorf("confine: survey %q: %w", t.root, err)
		}
		if t.aside && len(t.names) > 0 {
			t.aside, t.top, t.changed, t.moved, t.lost = false, &node{}, true, true, true
		}
		if !maps.Equal(t.named, t.next) {
			t.named, t.top, t.changed, t.moved, t.lost = t.next, &node{}, true, true, true
		}
		if !t.changed {
			break
		}
	}
	if t.moved {
		return fmt.Errorf("confine: survey %q: directories are moved about all the time", t.root)
	}
	if t.failed != nil {
		return fmt.Errorf("confine: survey %q: %w", t.root, t.failed)
	}
	return nil
}

// fail notes why something could not be looked at. The walk goes on: what else there is
// has to be found.
func (t *tree) fail(err error) {
	if t.failed == nil {
		t.failed = err
	}
}

// explained reports whether each file that seems to have names outside of the
// tree is known to.
func (t *tree) explained() bool {
	for id, names := range t.names {
		if leadsOutside(names) && !t.outside[id] {
			return false
		}
	}
	return true
}

func leadsOutside(names []hardName) bool {
	return slices.ContainsFunc(names, func(h hardName) bool { return h.links > uint64(len(names)) })
}

// visit brings n up to date, if it has to, and adds what is found in and below it.
func (t *tree) visit(n *node, at location) error {
	if n.quiet {
		return nil
	}
	if !t.believing && !t.watch.fresh(n) {
		done, err := t.look(n, at)
		if done || err != nil {
			return err
		}
	}
	if n.shut && mayWrite(t.profile, at.path) {
		t.close(Finding{Mask: sandboxprofile.Mask{Path: at.path, Kind: sandboxprofile.Dir}, class: closed, root: t.root, take: at.path})
	}
	if n.wd == 0 {
		t.unwatched++
	}
	for _, h := range n.hard {
		h.path, h.dir = join(at.path, h.path), n.stamp.ident
		h.hide, h.protect = h.hide || at.hide, h.protect || at.protect
		t.names[h.id] = append(t.names[h.id], h)
	}
	if len(n.marks) > 0 {
		t.marks = append(t.marks, visited{n, at})
	}
	for _, m := range n.marks {
		t.judge(n, at, m)
	}
	for _, kid := range n.kids {
		if kid.quiet {
			continue
		}
		kid.up = n
		if err := t.visit(kid, at.child(n, kid.name)); err != nil {
			return err
		}
	}
	// Of all, and at the end: two nodes of one directory (a bind mount) have one watch.
	n.quiet = t.watch.fresh(n) && !n.shut && len(n.marks)+len(n.hard) == 0 &&
		!slices.ContainsFunc(n.kids, func(kid *node) bool { return !kid.quiet })
	return nil
}

// look brings n itself up to date. It reports whether there is nothing to see in it.
func (t *tree) look(n *node, at location) (done bool, err error) {
	st, err := t.stat(n, at)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		t.gone(n) // or exchanged, meanwhile: its parent will tell
		t.unwatched++
		t.fail(unseen(at.path, err))
		return true, nil
	}
	if slices.Contains(t.own, ident{st.Dev, st.Ino}) {
		n.kids, n.marks, n.hard = nil, nil, nil
		t.close(Finding{Mask: sandboxprofile.Mask{Path: at.path, Kind: sandboxprofile.Dir, Hide: true}, dir: t.above(at.path), root: t.root, take: at.path})
		return true, nil
	}
	if now := stampOf(&st); !n.settled || n.stamp != now || !t.trustsAt(at.path, st.Dev) || !t.rewatch(n, at) {
		old := *n
		if err := t.list(n, at); err != nil {
			return false, err
		}
		t.compare(&old, n)
	}
	n.dirty = false
	return false, nil
}

// stat looks at the directory n, once by what lookAhead saw.
func (t *tree) stat(n *node, at location) (st unix.Stat_t, err error) {
	if n.ahead != nil {
		st, n.ahead = *n.ahead, nil
		return st, nil
	}
	err = unix.Fstatat(t.at, t.relative(at.path), &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// lookAhead looks at the directories of a tree that has an index, on all processors: for the
// trees of toolchains that is most of what `sandgate run` does. No tool may write there, so no
// tool moves directories about between one look and the next.
func (t *tree) lookAhead() {
	if !t.aside || t.restored == 0 {
		return
	}
	type item struct {
		node *node
		path string
	}
	list := make([]item, 0, t.kept)
	var add func(n *node, path string)
	add = func(n *node, path string) {
		list = append(list, item{n, path})
		for _, kid := range n.kids {
			add(kid, strings.TrimPrefix(path+"/"+kid.name, "./"))
		}
	}
	add(t.top, ".")
	var looking sync.WaitGroup
	share := (len(list) + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)
	for part := range slices.Chunk(list, share) {
		looking.Go(func() {
			seen := make([]unix.Stat_t, len(part))
			for i, of := range part {
				if unix.Fstatat(t.at, of.path, &seen[i], unix.AT_SYMLINK_NOFOLLOW) == nil {
					of.node.ahead = &seen[i]
				}
			}
		})
	}
	looking.Wait()
}

// rewatch watches a directory that is as it was when it was read, if it is not watched and
// can be. It fails if that has changed meanwhile. The first walks of a tree that has an
// index do not watch: a process that makes one call has no more.
func (t *tree) rewatch(n *node, at location) bool {
	if n.wd != 0 || t.restored > 0 || !t.watch.room() {
		return true
	}
	fd, err := openAt(t.at, t.relative(at.path), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return n.shut // then it was not read before either
	}
	defer unix.Close(fd)
	t.watch.add(t, n, fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && n.stamp == stampOf(&st)
}

// close adds a directory that is spoken of by itself.
func (t *tree) close(f Finding) {
	t.found, t.closed = append(t.found, f), append(t.closed, f)
}

// above is the directory that has path.
func (t *tree) above(path string) ident {
	var st unix.Stat_t
	if err := unix.Fstatat(t.at, t.relative(filepath.Dir(path)), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return ident{} // of no directory: no mount lies there
	}
	return ident{st.Dev, st.Ino}
}

// relative is path as seen from the root.
func (t *tree) relative(path string) string {
	if rel := strings.TrimPrefix(strings.TrimPrefix(path, t.root), "/"); rel != "" {
		return rel
	}
	return "."
}

func (t *tree) gone(n *node) {
	if n.stamp != (stamp{}) {
		t.changed, t.moved = true, true
	}
	*n = node{name: n.name, up: n.up}
	t.lost = true
}

// compare notes whether n, as it was listed just now, is the same as before. What it
// knew of directories that are still in it is kept.
func (t *tree) compare(old, n *node) {
	kept := old.stamp.ident == n.stamp.ident && old.repo == n.repo &&
		slices.EqualFunc(old.kids, n.kids, func(a, b *node) bool { return a.name == b.name })
	t.changed = t.changed || !kept || old.stamp != n.stamp || !slices.Equal(old.marks, n.marks)
	t.lost = t.lost || !kept
	t.moved = t.moved || old.stamp != (stamp{}) && old.stamp.ident != n.stamp.ident
	if old.stamp.ident != n.stamp.ident || old.repo != n.repo {
		return
	}
	known := map[string]*node{}
	for _, kid := range old.kids {
		known[kid.name] = kid
	}
	for i, kid := range n.kids {
		if was := known[kid.name]; was != nil {
			n.kids[i] = was
		}
	}
}

// unseen is the error of a directory that is there and cannot be looked at for a reason
// that is not its own: what lies in it is not known to be harmless.
func unseen(path string, err error) error {
	switch {
	case errors.Is(err, unix.ENAMETOOLONG):
		return fmt.Errorf("%.60q... is nested too deep to be scanned: remove it", path)
	case confine.IsShortage(err):
		return fmt.Errorf("%q cannot be looked at: %w", path, err)
	}
	return nil
}

// settling is how far back a ctime has to lie before the next change is sure to
// give another: the kernel's clock for it moves in steps of up to 10 ms.
const settling = 50 * time.Millisecond

// list reads the directory.
func (t *tree) list(n *node, at location) error {
	*n = node{name: n.name, up: n.up}
	fd, err := openAt(t.at, t.relative(at.path), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		n.shut = errors.Is(err, unix.EACCES) && ownedByUs(at.path)
		t.fail(unseen(at.path, err))
		return nil
	}
	dir := os.NewFile(uintptr(fd), at.path)
	defer dir.Close()
	var now unix.Timespec
	var before, after unix.Stat_t
	if err := errors.Join(unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now), unix.Fstat(fd, &before)); err != nil {
		return err
	}
	trusted := t.trusts(fd, before.Dev)
	if trusted || t.overlay[before.Dev] {
		t.watch.add(t, n, fd) // before it is read
	}
	entries, err := dir.ReadDir(-1)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	seen := shown(t.profile, at.path)
	if t.git && seen {
		n.repo, n.head = isRepository(entries)
	}
	for _, e := range entries {
		if !seen { // and on the way to something that is
			t.pass(n, at, e)
			continue
		}
		t.enter(n, at, fd, e)
	}
	if err := unix.Fstat(fd, &after); err != nil {
		return err
	}
	n.stamp = stampOf(&before)
	n.settled = n.stamp == stampOf(&after) && before.Ctim.Nano() < now.Nano()-int64(settling) && trusted
	if n.settled { // others are read each time
		t.read++
	}
	return nil
}

// isRepository says what git does (setup.c, is_git_directory): HEAD and either the
// objects and references themselves, or the file that tells where they are. Such a file
// may lead to a directory without HEAD: git reads its configuration and runs its hooks.
func isRepository(entries []fs.DirEntry) (repo, head bool) {
	has := map[string]bool{}
	for _, e := range entries {
		switch name := sandboxprofile.Fold(e.Name()); name {
		case "head", "objects", "refs", "commondir":
			has[name] = true
		}
	}
	return has["objects"] && has["refs"] || has["head"] && has["commondir"], has["head"]
}

// pass takes note of one name in a directory that no tool sees.
func (t *tree) pass(n *node, at location, e fs.DirEntry) {
	if path := join(at.path, e.Name()); e.IsDir() && t.shows(path) {
		n.kids = append(n.kids, &node{name: e.Name()})
	}
}

// enter takes note of one name.
func (t *tree) enter(n *node, at location, fd int, e fs.DirEntry) {
	path := join(at.path, e.Name())
	m := mark{name: e.Name(), kind: hostfs.KindOf(e.Type()), hide: t.hide.MatchLast(path)}
	if !t.aside {
		m.protect = t.isNamed(path) || t.protect.MatchLast(join(at.inside(n), m.name)) || n.repo && t.protect.MatchLast(path)
	}
	if e.Type()&fs.ModeSocket != 0 && !slices.Contains(t.profile.UnixSockets, path) {
		m.hide = true
	}
	switch m.kind {
	case sandboxprofile.Dir:
		if t.shows(path) {
			n.kids = append(n.kids, &node{name: m.name})
		}
	case sandboxprofile.Symlink:
		if !t.aside {
			m.target = t.leadsOut(fd, at.path, m.name)
		}
	case sandboxprofile.File:
		if !t.aside || m.hide {
			n.enterHard(fd, m)
		}
	}
	if m.hide || m.protect || m.target != "" || !t.aside && leadsGit(m) {
		n.marks = append(n.marks, m)
	}
}

// shows reports whether a tool can see anything of the directory path: what it
// does not see at all is not its work.
func (t *tree) shows(path string) bool {
	if shown(t.profile, path) {
		return true
	}
	for granted, r := range t.profile.Paths {
		if r != 0 && sandboxprofile.Contains(path, granted) && !ownMount(t.profile, granted) {
			return true
		}
	}
	return false
}

// enterHard takes note of a file with several names.
func (n *node) enterHard(fd int, m mark) {
	var st unix.Stat_t
	if unix.Fstatat(fd, m.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Nlink > 1 && st.Mode&unix.S_IFMT == unix.S_IFREG {
		n.hard = append(n.hard, hardName{path: m.name, id: ident{st.Dev, st.Ino}, links: uint64(st.Nlink), hide: m.hide, protect: m.protect})
	}
}

// leadsGit reports whether git may follow m to another place: a .git that is a file, or a
// link to a file or a directory.
func leadsGit(m mark) bool {
	return sandboxprofile.Fold(m.name) == ".git" && (m.kind == sandboxprofile.File || m.kind == sandboxprofile.Symlink)
}

// judge adds what m means now.
func (t *tree) judge(n *node, at location, m mark) {
	f := Finding{Mask: sandboxprofile.Mask{Path: join(at.path, m.name), Kind: m.kind, Hide: m.hide}, dir: n.stamp.ident, root: t.root, protect: m.protect}
	f.take, f.under = f.Path, at.under
	f.git = filepath.Base(at.inside(n)) == ".git"
	if n.repo && n.head && f.git && filepath.Base(at.path) != ".git" && !t.protect.MatchLast(f.Path) {
		if head := join(at.path, "HEAD"); exists(head) { // and not another spelling, which git does not take here
			f.take = head
		}
	}
	if m.kind == sandboxprofile.File && (m.hide || m.protect) {
		t.countLinks(n, at, m)
	}
	switch {
	case m.hide && m.kind == sandboxprofile.Symlink && !at.hide:
		// What it points at is reachable or not by its own name.
	case m.hide && !at.hide:
		t.found = append(t.found, f)
	case m.protect && m.name == "commondir" && ofWorktree(f.Path):
		// It may go away with its worktree. What it says is looked at each time.
	case m.protect:
		if f.git && strings.HasPrefix(m.name, "config") {
			t.nameFrom(f.Path)
		}
		if mayWrite(t.profile, f.Path) { // elsewhere its tree may have been looked at for other names alone
			t.found = append(t.found, f)
		}
	case !mayWrite(t.profile, f.Path):
	case leadsGit(m) && m.target == "":
		t.nameFromGit(at.path, f.Path)
		switch f.target = gitfile(f.Path); {
		case f.target == "":
		case !t.inside(at.path, f.target) || holdsItsTree(at.path, f.target):
			f.class = reference
			t.found = append(t.found, f)
		default: // a mount keeps it: a repository in its place would have other remotes
			t.found = append(t.found, f)
		}
	case m.target != "":
		f.class, f.target = link, m.target
		if leadsGit(m) {
			f.class = reference
		}
		t.found = append(t.found, f)
	}
}

// countLinks adds a covered file that has got a second name since its directory was read: only
// the directory of that name shows it.
func (t *tree) countLinks(n *node, at location, m mark) {
	path, same := join(at.path, m.name), func(h hardName) bool { return h.path == m.name }
	var st unix.Stat_t
	if slices.ContainsFunc(n.hard, same) || unix.Lstat(path, &st) != nil || st.Nlink < 2 || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	id := ident{st.Dev, st.Ino}
	same = func(h hardName) bool { return h.path == path }
	if !slices.ContainsFunc(t.names[id], same) {
		t.names[id] = append(t.names[id], hardName{path: path, dir: n.stamp.ident, id: id, links: uint64(st.Nlink), hide: m.hide || at.hide, protect: m.protect || at.protect})
	}
}

func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}

// nameFrom protects what the configuration at path names.
func (t *tree) nameFrom(path string) { t.name(namedBy(path)) }

func (t *tree) name(paths []string) {
	for _, p := range paths {
		relative := !filepath.IsAbs(p)
		if relative || sandboxprofile.Contains(t.root, p) && p != t.root && mayWrite(t.profile, p) {
			t.next[p] = true
		}
	}
}

// nameFromGit protects what the repository's configuration names that the .git file or
// link at path, in dir, leads to: a worktree's lies elsewhere.
func (t *tree) nameFromGit(dir, path string) {
	gitdir := gitfile(path)
	if gitdir == "" {
		gitdir = path // a link to the directory itself
	}
	for _, config := range configsOf(absolute(dir, gitdir)) {
		t.nameFrom(config)
	}
}

// nameFromOutside protects what the configurations name that git reads besides, wherever
// it is called in the tree: the user's, the system's, and those of repositories around.
func (t *tree) nameFromOutside() {
	if !t.outer.valid() {
		t.outer = newOuterNames(t.root)
	}
	t.name(t.outer.names)
}

// isNamed reports whether a configuration of git names path. What it names relative to
// the top of a work tree can be below any directory: each may be one.
func (t *tree) isNamed(path string) bool {
	if len(t.named) == 0 {
		return false
	}
	path = sandboxprofile.Fold(path)
	for name := range t.named {
		if name = sandboxprofile.Fold(name); name == path || name[0] != '/' && strings.HasSuffix(path, "/"+name) {
			return true
		}
	}
	return false
}

// leadsOut gives where a link leads if that is out of every writable tree and
// matters: what the system has, and devices that take or give nothing, do not.
func (t *tree) leadsOut(fd int, dir, name string) string {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, name, buf)
	if err != nil {
		return ""
	}
	target := string(buf[:n])
	if t.inside(dir, target) || filepath.Clean(target) == target && broker.HarmlessTarget(target) {
		return ""
	}
	return target
}

// inside reports whether target, written in dir, leads into a writable tree by
// its text alone: a link in the middle of it is found by itself. Where ".." comes
// after a name the text does not say where it leads.
func (t *tree) inside(dir, target string) bool {
	if !filepath.IsAbs(target) {
		if !broker.SaysWhere(target) {
			return false
		}
		target = filepath.Join(dir, target)
	} else if filepath.Clean(target) != strings.TrimSuffix(target, "/") {
		return false
	}
	return t.profile.Paths[target]&sandboxprofile.Write != 0 || hostfs.WritableAround(t.profile, target) != ""
}

// addAliases finds the other names of covered files. They are covered like it: a write
// to one is a write to all.
func (t *tree) addAliases() {
	t.outside, t.hard, t.leaks = map[ident]bool{}, t.names, nil
	for id, names := range t.names {
		if leadsOutside(names) {
			t.outside[id] = true
			t.addShared(names[0])
		}
		hide := slices.ContainsFunc(names, func(h hardName) bool { return h.hide })
		protect := slices.ContainsFunc(names, func(h hardName) bool { return h.protect })
		if t.outside[id] && (hide || protect) {
			t.leaks = append(t.leaks, id)
		}
		for _, h := range names {
			if hide && !h.hide || protect && !h.protect && !h.hide {
				t.found = append(t.found, Finding{
					Mask: sandboxprofile.Mask{Path: h.path, Kind: sandboxprofile.File, Hide: hide}, dir: h.dir, root: t.root, protect: protect, take: h.path,
				})
			}
		}
	}
	slices.SortStableFunc(t.found, func(a, b Finding) int { return sandboxprofile.ComparePaths(a.Path, b.Path) })
}

// addShared tells of a file with names outside of the tree, if a tool may write it.
func (t *tree) addShared(h hardName) {
	if !h.hide && !h.protect && mayWrite(t.profile, h.path) {
		t.found = append(t.found, Finding{Mask: sandboxprofile.Mask{Path: h.path, Kind: sandboxprofile.File}, class: shared, root: t.root, take: h.path})
	}
}

// trusts reports whether the file system below fd keeps ctime as Linux's own
// local ones do. Others are asked anew each time: a server, or a program behind
// FUSE, may say what it likes.
func (t *tree) trusts(fd int, dev uint64) bool {
	trusted, known := t.trusted[dev]
	if known {
		return trusted
	}
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) == nil {
		trusted, t.overlay[dev] = keepsCtime(fs), fs.Type == unix.OVERLAYFS_SUPER_MAGIC
	}
	t.trusted[dev] = trusted
	return trusted
}

// trustsAt is trusts for a directory that is not open.
func (t *tree) trustsAt(path string, dev uint64) bool {
	if trusted, known := t.trusted[dev]; known {
		return trusted
	}
	fd, err := openAt(t.at, t.relative(path), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return t.trusts(fd, dev)
}

func keepsCtime(fs unix.Statfs_t) bool {
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return true
	}
	return false
}

func ownedByUs(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && int(st.Uid) == os.Geteuid()
}

// openAt opens rel, which lies below the directory at, following no link in any
// component.
func openAt(at int, rel string, flags uint64) (int, error) {
	for {
		fd, err := unix.Openat2(at, rel, &unix.OpenHow{
			Flags: flags | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
		})
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) { // EAGAIN: a rename elsewhere, openat2(2)
			return fd, err
		}
	}
}
