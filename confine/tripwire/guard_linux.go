package tripwire

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/quarantine"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A mount covers the files that exist when a sandbox is built. What a tool makes under
// a protected name while it runs cannot be covered, so it is found when the tool has
// ended, and moved into the quarantine before anybody hears of the end.

// A Guard finds what actions left against the protected patterns, and undoes it.
// One serves all sandboxes of a supervisor, since what one call leaves another may
// be the first to see. It is safe for concurrent use.
type Guard struct {
	store    *quarantine.Store // nil: nothing can be undone
	profiles *sandboxprofile.Memo[*compiledProfile]
	own      []ident // directories of ours, which no tool sees and no sweep touches
	index    index

	mu     sync.Mutex
	caches map[string]*treeCache
	// runs are the sandboxes with an action that has not been swept up after. One
	// that could not be stays here, and bars the next sandbox until it could.
	runs map[*Baseline]state
	// elsewhere are covered files that have names outside of the trees, and how many names.
	elsewhere map[ident]uint64
}

type state uint8

const (
	active    state = iota // its action runs
	unsettled              // its action has ended, and something could not be undone
)

// A treeCache is the trees of all profiles that give the same ones.
type treeCache struct {
	trees []*tree
	used  time.Time
}

// maxCaches bounds how many are kept.
const maxCaches = 16

// undoRounds is how often a sweep starts again because another call that runs
// makes new names meanwhile.
const undoRounds = 4

// maxUndone bounds the names that one round takes. What is beyond it bars the
// next sandbox, which goes on with it.
const maxUndone = 10_000

// New makes a guard that keeps what it takes in store. Without a store, a
// planted file is an error and bars the next sandbox. The store and the directories own
// are sandgate's: under whatever name they are found in a tree, they are hidden from
// tools, and nothing in them is taken for a tool's work.
func New(store *quarantine.Store, own ...string) *Guard {
	g := &Guard{store: store, profiles: sandboxprofile.NewMemo(compileProfile), caches: map[string]*treeCache{}, runs: map[*Baseline]state{}, elsewhere: map[ident]uint64{}}
	if store != nil {
		own = append(slices.Clone(own), store.Dir())
	}
	for _, dir := range own {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR { // one that is not there yet is nowhere else either
			g.own = append(g.own, ident{st.Dev, st.Ino})
		}
	}
	return g
}

// trees gives the memory of the roots of s, each in its place.
func (g *Guard) trees(s *compiledProfile) []*tree {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.caches[s.treesKey]
	if known == nil {
		if len(g.caches) >= maxCaches {
			oldest := slices.MinFunc(slices.Collect(maps.Keys(g.caches)), func(a, b string) int { return g.caches[a].used.Compare(g.caches[b].used) })
			delete(g.caches, oldest)
		}
		known = &treeCache{trees: newTrees(s, g.own)}
		g.index.load(known.trees)
		g.caches[s.treesKey] = known
	}
	known.used = time.Now()
	return known.trees
}

// treesKeyOf is the same for profiles whose paths and patterns are.
func treesKeyOf(p sandboxprofile.Profile) string {
	return treeKey(p, patternsKey(p), "", func(string) bool { return true })
}

// asideKey is the same for profiles that make the same of what lies below a root that no
// tool may write to: whatever else they name does not matter there. patterns is the
// profile's patternsKey.
func asideKey(p sandboxprofile.Profile, patterns, root string) string {
	return treeKey(p, patterns, root, func(path string) bool {
		return sandboxprofile.Contains(root, path) || sandboxprofile.Contains(path, root)
	})
}

// patternsKey is the same for profiles with the same patterns, sockets and scratch directories.
func patternsKey(p sandboxprofile.Profile) string {
	var b []byte
	for _, list := range [][]string{p.Protect, p.Hide, p.UnixSockets, p.Scratch} {
		for _, s := range list {
			b = append(append(b, s...), 0)
		}
		b = append(b, 1)
	}
	sum := sha256.Sum256(b)
	return string(sum[:])
}

func treeKey(p sandboxprofile.Profile, patterns, root string, matters func(path string) bool) string {
	b := append(append([]byte(patterns), root...), 0)
	for _, path := range slices.Sorted(maps.Keys(p.Paths)) {
		if matters(path) {
			b = append(append(b, path...), 0, byte(p.Paths[path]))
		}
	}
	sum := sha256.Sum256(b)
	return string(sum[:])
}

// A Baseline records what one sandbox covers, and the state before its action.
type Baseline struct {
	profile sandboxprofile.Profile
	covered map[string]coveredFile // names with a mount over them, as init found it
	Journal *journal               // nil without a store
	stays   atomic.Bool            // its action goes on between looks
	ended   int64                  // when its last process had ended (nanoseconds since 1970), if that is known and long ago

	mu      sync.Mutex
	call    string              // of the action that runs
	known   map[string]bool     // keys of links and the like that were there before
	config  map[string][]string // risky lines of covered configurations
	planted []confine.Planted   // by the action that runs
	closed  bool                // the sandbox has ended
}

// NewBaseline is for a sandbox that was built on found and whose mounts are mounts.
func (g *Guard) NewBaseline(p sandboxprofile.Profile, found []Finding, mounts []wire.Mount) (*Baseline, error) {
	w := &Baseline{profile: p, covered: map[string]coveredFile{}}
	for _, m := range mounts {
		w.covered[m.Path] = newCovered(m.Path, ident{m.File.Dev, m.File.Ino})
	}
	w.Refresh(found)
	if len(g.profiles.Of(p).written) == 0 {
		return w, nil
	}
	var err error
	w.Journal, err = g.newJournal(w)
	return w, err
}

// Refresh takes what is there before the next action.
func (w *Baseline) Refresh(found []Finding) {
	config := configurations(found, insideOf(w.profile))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.config, w.known = config, map[string]bool{}
	for _, f := range found {
		if f.class != mask {
			w.known[f.key()] = true
		}
	}
}

// insideOf tells whether target, written in dir, leads into a path that p lets a
// tool write.
func insideOf(p sandboxprofile.Profile) func(dir, target string) bool {
	return (&tree{profile: p}).inside
}

// made reports whether an action of w's sandbox can have made f, and it is not
// harmless.
func (w *Baseline) made(f Finding) bool {
	if f.class == shared || f.across || !mayWrite(w.profile, f.Path) {
		return false // link(2) does not lead out of a mount: no tool made such a name
	}
	if w.ended != 0 && bornAfter(f, w.ended) {
		return false
	}
	w.mu.Lock()
	known, config := w.known[f.key()], w.config[f.Path]
	w.mu.Unlock()
	if f.class != mask {
		return !known && !w.covers(f.under)
	}
	return f.protect && !w.covers(f.Path) && !w.covers(f.under) && !asGitMakesIt(f, config, insideOf(w.profile))
}

// bornAfter reports whether f was made after a time, which no program can set (statx(2)): not
// what the kernel does not know it of. What git keeps has to be older: git writes a
// configuration anew, with the lines that were in it.
func bornAfter(f Finding, when int64) bool {
	var fs unix.Statfs_t
	if f.git || unix.Statfs(filepath.Dir(f.take), &fs) != nil || !keepsCtime(fs) {
		return false
	}
	is, err := coveredAt(f.take)
	return err == nil && is.born > when
}

// covers reports whether the mount is still over path. A file that the host
// replaced has lost it: rename(2) onto a mount point of another namespace
// succeeds, and takes the mount away.
func (w *Baseline) covers(path string) bool {
	want, ok := w.covered[path]
	if !ok {
		return false
	}
	now, err := coveredAt(path)
	return err == nil && now == want
}

// A coveredFile is a file that a mount covers. The number of an inode is used again as
// soon as it is free: a file that is replaced twice can have the first one's. When it
// was born tells them apart (statx(2)); 0 where the file system does not know.
type coveredFile struct {
	ident
	born int64 // nanoseconds since 1970
}

// newCovered is for the file that id was when it was mounted over. One that has been
// replaced meanwhile is covered by nothing.
func newCovered(path string, id ident) coveredFile {
	c, err := coveredAt(path)
	if err != nil || c.ident != id {
		return coveredFile{ident: id, born: -1}
	}
	return c
}

func coveredAt(path string) (coveredFile, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return coveredFile{}, err
	}
	c := coveredFile{ident: ident{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}}
	if st.Mask&unix.STATX_BTIME != 0 {
		c.born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return c, nil
}

// Intact reports whether every mount is still over what it was made for.
func (w *Baseline) Intact() bool {
	for path := range w.covered {
		if !w.covers(path) {
			return false
		}
	}
	return true
}

// report notes one thing that the action did.
func (w *Baseline) report(p confine.Planted, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Kept == "" {
		w.known[key] = true
	}
	w.planted = append(w.planted, p)
}

// Begin notes that an action of w runs from now on.
func (g *Guard) Begin(ctx context.Context, w *Baseline) error {
	w.mu.Lock()
	w.call, w.planted = confine.CallOf(ctx), nil
	w.mu.Unlock()
	w.stays.Store(false)
	if err := w.Journal.Mark(JournalRuns); err != nil {
		return err
	}
	g.mu.Lock()
	g.runs[w] = active
	g.mu.Unlock()
	return nil
}

// Look does for an action of w's that stays, such as a server's, what Settle does at its end.
// While another action runs it undoes nothing: that may need for a moment what it makes, and
// its end sees to all of it. A mount that is lost does not come back: what it hid or protected
// is open to the action, which has to end (the host's git and editors replace files by rename(2)).
func (g *Guard) Look(w *Baseline) ([]confine.Planted, error) {
	w.stays.Store(true)
	running := g.in(active) // without w, if that writes nothing
	var err error
	if slices.Contains(running, w) && !slices.ContainsFunc(running, func(other *Baseline) bool { return !other.stays.Load() }) {
		_, err = g.sweep(g.profiles.Of(w.profile), nil)
	}
	for path := range w.covered {
		if err == nil && !w.covers(path) {
			err = fmt.Errorf("%s was replaced while the sandbox ran, and the new file is not covered", path)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && len(w.planted) > maxUndone {
		err = fmt.Errorf("it has made more than %d protected names", maxUndone)
	}
	return slices.Clone(w.planted), err
}

// Settle undoes what was planted while w's action ran, and gives what that was.
// With an error, something could not be undone.
func (g *Guard) Settle(w *Baseline) ([]confine.Planted, error) {
	found, err := g.sweep(g.profiles.Of(w.profile), w)
	if err == nil {
		w.Refresh(found)
		err = w.Journal.Mark(journalRests)
	}
	w.mu.Lock()
	planted, closed := w.planted, w.closed
	w.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil {
		g.runs[w] = unsettled
		return planted, &confine.Unenforceable{Part: "the protected names", Reason: err.Error(),
			Hint: "inspect the file and remove it; in the cache of a workspace use `sandgate cache clear`. Check also that the quarantine is writable: `sandgate quarantine list`"}
	}
	delete(g.runs, w)
	if closed {
		w.Journal.end()
	}
	return planted, nil
}

// Release ends the baseline of a sandbox that has ended.
func (g *Guard) Release(w *Baseline) {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, owes := g.runs[w]; !owes {
		w.Journal.end()
	}
}

// before surveys the host for a sandbox that is to be used next. What other calls
// that still run have planted by now goes first, and what could not be undone is
// tried again.
func (g *Guard) before(s *compiledProfile, later *[]*tree) (Survey, error) {
	for _, w := range g.in(unsettled) {
		if !overlap(s.profile, w.profile) {
			continue // somebody else's, and barred for them
		}
		if _, err := g.Settle(w); err != nil {
			return Survey{}, err
		}
	}
	seen, err := g.readHost(s, later)
	if err != nil || !slices.ContainsFunc(seen.Found, func(f Finding) bool { return g.maker(f, nil) != nil }) {
		return seen, err
	}
	if _, err := g.sweep(s, nil); err != nil {
		return Survey{}, err
	}
	return g.readHost(s, later)
}

// overlap reports whether a tool under p sees anything that one under q can write.
func overlap(p, q sandboxprofile.Profile) bool {
	for path, r := range q.Paths {
		if r&sandboxprofile.Write == 0 {
			continue
		}
		for other, s := range p.Paths {
			if s != 0 && (sandboxprofile.Contains(path, other) || sandboxprofile.Contains(other, path)) {
				return true
			}
		}
	}
	return false
}

// in gives the sandboxes in a state.
func (g *Guard) in(s state) []*Baseline {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []*Baseline
	for w, is := range g.runs {
		if is == s {
			list = append(list, w)
		}
	}
	return list
}

// maker is the sandbox whose action made f: own if it can be, or else another.
func (g *Guard) maker(f Finding, own *Baseline) *Baseline {
	if own != nil && own.made(f) {
		return own
	}
	for _, w := range g.in(active) {
		if w != own && w.made(f) {
			return w
		}
	}
	return nil
}

// sweep looks for planted names in the trees that may be written to, and takes them
// away until there are none. It gives what is found at the end. With an error it has done
// what it could: what it found has no name any more that a program acts on.
func (g *Guard) sweep(s *compiledProfile, own *Baseline) ([]Finding, error) {
	var failed error // of the first round that did: the message stays short
	for range undoRounds {
		found, unseen := g.findIn(s, slices.DeleteFunc(slices.Clone(s.written), func(i int) bool { return !isDir(s.roots[i].path) }), nil)
		some, err := g.undoAll(found, own)
		failed = cmp.Or(failed, err)
		if !some {
			return found, errors.Join(unseen, failed)
		}
	}
	return nil, cmp.Or(failed, errors.New("they are made faster than they can be taken away"))
}

func isDir(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// undoAll takes each planted finding away, and reports whether there were any.
func (g *Guard) undoAll(found []Finding, own *Baseline) (some bool, err error) {
	takings := map[*Baseline]*quarantine.Taking{}
	var errs []error
	taken := 0
	// What a program runs goes before what only leads astray: there may be too many.
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(order(a.class), order(b.class)) })
	for _, f := range found {
		w := g.maker(f, own)
		if w == nil {
			continue
		}
		if onlyReported(w.profile, f) {
			w.report(confine.Planted{Path: f.Path, Reason: reasonOf(f)}, f.key())
			continue
		}
		if some = true; taken == maxUndone {
			errs = append(errs, fmt.Errorf("more than %d protected names were made at once", maxUndone))
			break
		}
		taken++
		if g.store != nil && takings[w] == nil {
			takings[w] = g.store.Begin(w.call)
		}
		if err := undo(f, w, takings[w]); err != nil && len(errs) < 3 { // the first few are enough to act on
			errs = append(errs, err)
		}
	}
	return some, errors.Join(errs...)
}

func order(c class) int {
	if c == link {
		return 1
	}
	return 0
}

func undo(f Finding, w *Baseline, t *quarantine.Taking) error {
	kept, err := "", errors.New("no quarantine is configured")
	if t != nil {
		kept, err = t.Take(f.root, f.take, reasonOf(f))
	}
	if err != nil && !isGone(err) {
		return disarm(f, w, err)
	}
	if err == nil {
		w.report(confine.Planted{Path: f.take, Reason: reasonOf(f), Kept: kept}, "")
	}
	return nil
}

// isGone is for what another call moves about, or what went with another name: the next
// round sees where it is.
func isGone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// disarm is for what cannot be kept, for this reason: it must not act meanwhile.
func disarm(f Finding, w *Baseline, why error) error {
	now, err := quarantine.Disarm(f.root, f.take)
	switch {
	case err != nil && isGone(err):
		return nil
	case err != nil:
		return fmt.Errorf("%q was planted and could not be moved into quarantine: %w", f.take, errors.Join(why, err))
	case now == "":
		return fmt.Errorf("%q was planted and could not be moved into quarantine, so it was removed (it %s): %w", f.take, reasonOf(f), why)
	}
	w.report(confine.Planted{Path: f.take, Reason: reasonOf(f), Kept: now}, "")
	return fmt.Errorf("%q was planted and could not be moved into quarantine; it is %q now: %w", f.take, now, why)
}

// onlyReported is for a link to something that the tool may read: environments of
// interpreters are made of such links. One whose text does not say where it leads is not:
// "top/../x" leads out as soon as top is a link that leads up, which is harmless by itself.
func onlyReported(p sandboxprofile.Profile, f Finding) bool {
	if f.class != link || !broker.SaysWhere(f.target) {
		return false
	}
	target := f.target
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(f.Path), target)
	}
	return p.Rights(filepath.Clean(target))&sandboxprofile.Read != 0
}

func reasonOf(f Finding) string {
	switch {
	case f.class == link:
		return fmt.Sprintf("is a link that leads out of what may be written, to %q", f.target)
	case f.class == reference:
		return fmt.Sprintf("sends git out of what may be written, to %q", f.target)
	case f.class == closed:
		return "is a directory that cannot be listed"
	case f.take != f.Path:
		return fmt.Sprintf("makes its directory a git repository with its own %s", filepath.Base(f.Path))
	}
	return "has a protected name"
}
