package changes

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/atomicfile"
)

// Options bound what is kept. The zero value stands for those that a workspace had when
// something was kept of it last.
type Options struct {
	Size int64         `json:"size"` // bytes on disk, for each workspace
	File int64         `json:"file"` // bytes of one file: the content of a larger one is not kept
	Age  time.Duration `json:"age"`  // of a call, ns
	// LeaveOut are names of files and directories (path.Match) that are not looked at.
	// Directories with a CACHEDIR.TAG never are.
	LeaveOut []string `json:"leave_out"`
	// all: nothing is left out, those neither.
	all bool
}

// ErrFull means that the workspace alone, as it is, takes more than Options.Size.
var ErrFull = errors.New("the workspace is larger than what may be kept of it")

// A Store has the changes of all workspaces of one user. Several processes may use it.
type Store struct {
	dir     string
	options Options

	watch      *dirWatcher
	mu         sync.Mutex
	workspaces map[string]*Workspace

	ahead sync.WaitGroup // what is done for a call that is to come
	ended atomic.Bool    // none is to come any more
}

// Open makes the directory if it is not there. It refuses one that others could read.
func Open(dir string, o Options) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("changes: %q is %v; it must be a directory that only its owner can use (0700)", dir, info.Mode())
	}
	return &Store{dir: dir, options: o, watch: newWatch(), workspaces: map[string]*Workspace{}}, nil
}

// A Workspace is one directory whose changes are kept.
type Workspace struct {
	Root    string // absolute, without links
	dir     string
	options Options
	objects objects
	// patience is how long one look may take, and mostNames how many names it may look at.
	patience  time.Duration
	mostNames int64
	spent     time.Duration // of the next look's patience, before it began

	store    *Store
	watching *dirWatcher
	tells    bool             // the file system tells watching of every change
	quiet    map[string]stamp // directories that have not changed since they were read
	reading  map[string]bool  // and since they began to be
	whole    time.Time        // when everything was read
	apart    bool             // there are directories that are not looked at

	mu     sync.Mutex
	tree   *snapshot
	top    stamp        // the directory that Root was
	late   int          // entries in the file of the tree that are not where they belong in it
	end    int64        // of its last whole frame
	begun  bool         // no look has come to its end yet
	failed atomic.Int64 // when a call could not begin, ns; 0: the last one could
	looks  int          // that have told what they found
	heard  int          // how many second names may have come before the last of them
	named  int          // how many of the files that names came to were looked for
	file   fs.FileInfo  // as this process has left it, nil at first
	size   int64        // of the objects, about: other processes add to them too
	told   map[string]string
	ending string // the call that has ended, and is looked at
	// bounded is when calls were held against their age last.
	bounded time.Time
	dropped int             // calls that went for want of room, and nobody has been told of
	unseen  map[string]bool // directories that cannot be looked into, and that somebody has been told of
	unsaid  []Blind         // and those that nobody has, with the reason
	said    int64           // bytes of records that were written since
	// tooMuch is why a look failed, and until when none is tried again: one call pays for it.
	tooMuch error
	until   time.Time
}

// idTime begins the ID of a call.
const idTime = "20060102T150405.000000000"

// restTime is how long a workspace that could not be looked at is left alone, and lateTime one of which the
// next look knows more.
const (
	restTime = 10 * time.Minute
	lateTime = time.Minute
)

// Workspace opens what is kept of root.
func (s *Store) Workspace(root string) (*Workspace, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.workspaces[root]; w != nil {
		return w, nil
	}
	w := &Workspace{Root: root, dir: s.dirOf(root), options: s.options, patience: lookTime, mostNames: lookNames, store: s, watching: s.watch, told: map[string]string{}, unseen: map[string]bool{}, tree: newSnapshot()}
	w.objects = newObjects(filepath.Join(w.dir, "objects"), &w.size)
	for _, d := range []string{w.objects.packs.dir, w.running(), w.calls(), w.writers()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("changes: %w", err)
		}
	}
	if err := w.describe(); err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	w.size, w.tells = w.objects.total(), tellsChanges(root)
	s.workspaces[root] = w
	return w, nil
}

// description is the file "workspace".
type description struct {
	Root    string  `json:"root"`
	Options Options `json:"options"`
}

func (w *Workspace) describe() error {
	file := filepath.Join(w.dir, "workspace")
	if w.options.Size == 0 {
		// A person waits, and no call: what is in the way of a look may be the very thing to
		// undo.
		w.patience, w.mostNames = draftLookTime, math.MaxInt64
		d, err := readDescription(file)
		w.options = d.Options
		return err
	}
	b, err := json.Marshal(description{w.Root, w.options})
	if was, unread := os.ReadFile(file); unread == nil && bytes.Equal(was, b) {
		return nil
	}
	if err == nil { // first: who finds the description takes the lock
		err = os.WriteFile(filepath.Join(w.dir, "lock"), nil, 0o600)
	}
	if err == nil {
		err = replace(file, b)
	}
	return err
}

func readDescription(file string) (d description, err error) {
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &d)
	}
	return d, err
}

// Workspaces lists the roots that something is kept of.
func (s *Store) Workspaces() (roots []string) {
	files, _ := filepath.Glob(filepath.Join(s.dir, "*", "workspace"))
	for _, f := range files {
		if d, err := readDescription(f); err == nil {
			roots = append(roots, d.Root)
		}
	}
	slices.Sort(roots)
	return roots
}

func (w *Workspace) running() string         { return filepath.Join(w.dir, "running") }
func (w *Workspace) calls() string           { return filepath.Join(w.dir, "calls") }
func (w *Workspace) treeFile() string        { return filepath.Join(w.dir, "tree") }
func (w *Workspace) begunFile() string       { return filepath.Join(w.dir, "tree.begun") }
func (w *Workspace) record(id string) string { return filepath.Join(w.calls(), id+".json") }

// A Call is a call that made changes.
type Call struct {
	ID      string    `json:"id"` // of the record: sorts by time
	Session string    `json:"session"`
	Call    string    `json:"call"`
	Agent   string    `json:"agent,omitempty"`
	Tool    string    `json:"tool"`
	Subject string    `json:"subject,omitempty"` // in words, without secrets
	Started time.Time `json:"started"`
	// Workspace is where the call worked, if it may write other directories, too: then what it
	// changed in each of them is of one call.
	Workspace string `json:"workspace,omitempty"`
	// Lasting is a process that serves many calls, such as an MCP server.
	Lasting bool `json:"lasting,omitempty"`
}

// A Record is a call that has ended, with what it changed.
type Record struct {
	Call
	Ended   time.Time `json:"ended"`
	Changes []Change  `json:"changes"`
	// With are calls that ran at the same time: what is listed may be theirs.
	With []string `json:"with,omitempty"`
	// Interrupted: the supervisor ended before the call did.
	Interrupted bool `json:"interrupted,omitempty"`
	// Pending: no look has found all that it did. What it changed of what was there before is listed.
	Pending bool `json:"pending,omitempty"`
	// Undo: a person put back what calls had changed. Undoes are those of which nothing
	// is left.
	Undo   bool     `json:"undo,omitempty"`
	Undoes []string `json:"undoes,omitempty"`
	// Unfinished: the undo failed before it had put all of it back.
	Unfinished bool `json:"unfinished,omitempty"`
	// Needs are contents that an undo which is under way is about to write. No record has
	// them, a merged text for one, and they stay until it has ended.
	Needs []string `json:"needs,omitempty"`
	// Of are the names that an undo which is under way is about. A change that a look finds elsewhere meanwhile
	// was made by somebody before or beside it.
	Of []Name `json:"of,omitempty"`
	// Parts are the records of a call that changed other directories than the workspace, by those:
	// of what Place gives, and of nothing that is stored.
	Parts map[string]string `json:"parts,omitempty"`
}

// A Running call is one whose changes are being kept.
type Running struct {
	w    *Workspace
	file *os.File // locked for as long as this process lives
	id   string
	in   func(name string) bool
	// whole: in are all names that calls can change.
	whole bool
	since int // the moment when it began
	// writer is of an undo.
	writer *writer
	beat   *time.Ticker
	stop   chan struct{}
	// Blind are directories in which nothing is kept, each with the reason, that this process has not
	// reported yet. After End it has those that came since.
	Blind []Blind
	// Undone are names that people have put back since the session's last call.
	Undone []string
	// Dropped is how many calls cannot be undone any more, since Options.Size was reached. After
	// End it counts those from then on too.
	Dropped int
}

// A Blind is a directory in which nothing is kept.
type Blind struct{ Name, Why string }

// Load begins to read what was kept of roots before, and to hold it against what is there, for calls that are to come.
// It waits for nothing; what cannot be read the call finds.
func (s *Store) Load(roots []string) {
	for _, root := range roots {
		if _, err := os.Lstat(filepath.Join(s.dirOf(root), "tree")); err != nil {
			continue
		}
		s.ahead.Go(func() {
			if w, err := s.Workspace(root); err == nil {
				_ = w.locked(func() error {
					err := w.load()
					if err == nil && w.tells { // else all of it is read again
						err = w.confirm()
					}
					return err
				})
				w.objects.packs.hears() // it is asked when the call has ended, and somebody waits
			}
		})
	}
}

// LookAhead begins to look at the workspace, for a call that is to come, beside what else is done for it. That call's own
// look, by Begin, then reads what has changed since, as after any other look. It waits for nothing; what it fails
// of Begin fails of, too.
func (s *Store) LookAhead(root string, writable func(path string) bool) {
	s.ahead.Go(func() {
		if w, err := s.Workspace(root); err == nil && w.tells { // else all of it is read again
			_ = w.locked(func() error { return w.lookFor(w.names(writable), true, notSince, true) })
		}
	})
}

// Close ends what was begun ahead: no call is to come any more.
func (s *Store) Close() error {
	s.ended.Store(true)
	s.ahead.Wait()
	return nil
}

// names asks of a name in the workspace what writable says of its path.
func (w *Workspace) names(writable func(path string) bool) func(name string) bool {
	below := strings.TrimSuffix(w.Root, "/") + "/" // asked of each name: no more is done than has to be
	return func(name string) bool {
		if name == topName {
			return writable(w.Root)
		}
		return writable(below + name)
	}
}

// Begin looks at the workspace, stores what it does not have yet, and notes that a call
// begins. writable says which host paths calls of this workspace can change at all:
// nothing else is looked at.
func (w *Workspace) Begin(c Call, writable func(path string) bool) (*Running, error) {
	r, err := w.begin(c, w.names(writable), true, nil)
	if err != nil {
		w.failed.Store(time.Now().UnixNano())
	} else {
		w.failed.Store(0)
	}
	return r, err
}

// begin is Begin, or not whole, of an undo of these steps.
func (w *Workspace) begin(c Call, in func(name string) bool, whole bool, undo []Step) (*Running, error) {
	r := &Running{w: w, in: in, whole: whole}
	var needs []string
	var of []Name
	for _, s := range undo {
		of = append(of, s.Path)
		if s.bringsContent() {
			needs = append(needs, s.Was.Hash)
		}
	}
	err := w.locked(func() error {
		if err := w.look(in, whole, notSince); err != nil {
			return err
		}
		if err := w.objects.have(needs); err != nil {
			return err
		}
		// Not when the call was started: one that had to wait for this look comes after what
		// the look has seen.
		c.ID = fmt.Sprintf("%s-%s", w.nextTime().Format(idTime), strings.ToLower(rand.Text()[:4]))
		f, err := os.OpenFile(filepath.Join(w.running(), c.ID), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		r.file, r.id = f, c.ID
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			return errors.Join(err, r.abandon())
		}
		if !whole {
			if r.writer, err = w.newWriter(); err != nil {
				return errors.Join(err, r.abandon())
			}
		}
		if err := appendLine(f, Record{Call: c, Needs: needs, Of: of, Undo: !whole}); err != nil {
			return errors.Join(err, r.abandon())
		}
		r.since = w.moment()
		r.Undone = w.undoneSince(c.Session, c.ID)
		r.Dropped, w.dropped = w.dropped, 0
		r.Blind, w.unsaid = w.unsaid, nil
		r.live()
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("changes of %s: %w", w.Root, err)
	}
	return r, nil
}

// nextTime is now, or later than that of every record: the clock may have been set back, and the order of records is
// the order in which an undo takes them back.
func (w *Workspace) nextTime() time.Time {
	now := time.Now().UTC()
	for _, dir := range []string{w.calls(), w.running()} {
		names, _ := os.ReadDir(dir)
		for _, n := range names {
			if at, ok := timeOfID(n.Name()); ok && !now.After(at) {
				now = at.Add(time.Nanosecond)
			}
		}
	}
	return now
}

// timeOfID is when a record was begun.
func timeOfID(id string) (time.Time, bool) {
	stamp, _, _ := strings.Cut(id, "-")
	at, err := time.Parse(idTime, stamp)
	return at, err == nil
}

// beatEvery is how often a call that is under way shows that its supervisor lives.
const beatEvery = time.Second

// live renews the time of the call's file until it has ended. What is changed after the last of these times,
// a killed supervisor's call has not changed: it ends with it.
func (r *Running) live() {
	r.beat, r.stop = time.NewTicker(beatEvery), make(chan struct{})
	name := r.file.Name()
	go func() {
		for {
			select {
			case <-r.beat.C:
				r.writer.lives()
				_ = os.Chtimes(name, time.Time{}, time.Now()) // it may have gone
			case <-r.stop:
				return
			}
		}
	}()
}

func (r *Running) abandon() error {
	return errors.Join(os.Remove(r.file.Name()), r.file.Close(), r.writer.end())
}

// Root is the directory whose changes are kept.
func (r *Running) Root() string { return r.w.Root }

// End looks at the workspace again and records what has changed since Begin. A call that
// changed nothing leaves no record.
func (r *Running) End() (rec Record, err error) { return r.end(nil, nil) }

// end is End for what was put back too; failed is why not all of it could be.
func (r *Running) end(undo *Undo, failed error) (rec Record, err error) {
	w := r.w
	defer func() { r.beat.Stop(); close(r.stop) }()
	defer func() { err = errors.Join(err, r.writer.end()) }()
	err = w.locked(func() error {
		w.ending = r.id
		defer func() { w.ending = "" }()
		looks := w.looks
		full := w.look(r.in, r.whole, r.since)
		err := full
		if errors.Is(full, ErrFull) && w.looks != looks {
			err = nil // what the call has changed is known, and what it has taken away is kept
		}
		r.Dropped, w.dropped = r.Dropped+w.dropped, 0
		r.Blind, w.unsaid = w.unsaid, nil
		if err != nil {
			// A later look finds it.
			return errors.Join(err, appendLine(r.file, Record{Pending: true}), r.file.Close())
		}
		defer r.file.Close()
		if rec, err = readRunning(r.file.Name()); err != nil {
			return err
		}
		rec.Ended = time.Now()
		if undo != nil {
			rec.Undo, rec.Unfinished = true, failed != nil && !w.hasReached(undo.Steps)
			if !rec.Unfinished {
				rec.Undoes = undo.Whole
			}
			w.until = time.Time{} // it may fit again
			_ = os.Remove(w.tooMuchFile())
		}
		return cmp.Or(w.finish(rec, r.file.Name()), full)
	})
	if err != nil {
		return rec, fmt.Errorf("changes of %s: %w", w.Root, err)
	}
	return rec, nil
}

// hasReached reports whether everything stands as it did before what is undone.
func (w *Workspace) hasReached(steps []Step) bool {
	return !slices.ContainsFunc(steps, func(s Step) bool {
		now, there := w.tree.entry(string(s.Path))
		return there != (s.Was != nil) || there && !now.same(*s.Was)
	})
}

// finish writes the record of a call, and forgets that it runs.
func (w *Workspace) finish(rec Record, running string) error {
	rec.Needs, rec.Of = nil, nil
	if len(rec.Changes) > 0 {
		b, err := json.Marshal(rec)
		if err != nil {
			return err
		}
		w.said += int64(len(b))
		if err := replace(w.record(rec.ID), b); err != nil {
			return err
		}
	}
	return os.Remove(running)
}

// replace writes a file that a reader finds whole or not at all. It waits for no disk: a
// killed process loses nothing, and a machine that loses power has lost the last calls.
func replace(file string, b []byte) error {
	tmp := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+rand.Text()+".tmp") // of this process alone
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

// locked keeps other looks at this workspace out, of this process and of others.
func (w *Workspace) locked(do func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	unlock, err := atomicfile.Lock(filepath.Join(w.dir, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	w.objects.packs.fresh()
	return do()
}

// notSince is for a look before anything has happened.
const notSince = -1

// look finds what has changed since the last look, for the calls that are under way.
// Changes from a time without a tree belong to a person, and are never taken back. Names
// that are not in are as they were. Where files may have got another name since then,
// each is held against its stamp too.
func (w *Workspace) look(in func(name string) bool, whole bool, since int) error {
	return w.lookFor(in, whole, since, false)
}

// lookFor is look, or ahead: for a call that may not come.
func (w *Workspace) lookFor(in func(name string) bool, whole bool, since int, ahead bool) error {
	if whole && time.Now().Before(w.until) {
		return w.tooMuch
	}
	if whole && rests(w.tooMuchFile()) {
		why, _ := os.ReadFile(w.tooMuchFile())
		if string(why) == ErrFull.Error() {
			return fmt.Errorf("%w: so another look has found", ErrFull)
		}
		return fmt.Errorf("%w: so another look has found", errBound)
	}
	err := w.lookNow(in, whole, since, ahead)
	rest := restTime
	if errors.Is(err, errLate) {
		rest = lateTime
	}
	if errors.Is(err, errBound) || errors.Is(err, ErrFull) {
		w.tooMuch, w.until = err, time.Now().Add(rest)
	}
	if w.until.After(time.Now()) && whole && w.patience <= lookTime { // else the next one takes as long
		why := errBound
		if errors.Is(err, ErrFull) {
			why = ErrFull
		}
		_ = os.WriteFile(w.tooMuchFile(), []byte(why.Error()), 0o600)
		_ = os.Chtimes(w.tooMuchFile(), time.Time{}, w.until)
	}
	return err
}

// tooMuchFile is there since a look came to one of its bounds: for other processes. Its time is until when
// none of them looks.
func (w *Workspace) tooMuchFile() string { return filepath.Join(w.dir, "too-much") }

func rests(tooMuch string) bool {
	info, err := os.Stat(tooMuch)
	if err != nil {
		return false
	}
	rest := time.Until(info.ModTime())
	return rest > 0 && rest <= restTime
}

// Rests reports whether nothing is kept of a root for the time being: it had too much in it, or the last call could
// not begin, as on a full disk.
func (s *Store) Rests(root string) bool {
	s.mu.Lock()
	w := s.workspaces[root]
	s.mu.Unlock()
	return rests(filepath.Join(s.dirOf(root), "too-much")) || w != nil && time.Since(time.Unix(0, w.failed.Load())) < lateTime
}

func (s *Store) dirOf(root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:8]))
}

func (w *Workspace) lookNow(in func(name string) bool, whole bool, since int, ahead bool) error {
	if err := w.load(); err != nil {
		return err
	}
	w.hear()
	heard := w.secondNames()
	l := w.newLook(ahead)
	l.in = in
	l.writing, _ = w.writing()
	l.others = w.beginOfOthers()
	late := l.run(since)
	if late != nil && !errors.Is(late, errLate) {
		return late
	}
	// The contents are there. A change is written before the tree that has it. What was there before anybody
	// had looked, no call has made.
	if w.begun && (whole || w.ending == "") { // what an undo has put back was looked at when that began
		l.changes = nil
	}
	if err := w.tell(l.changes, whole); err != nil {
		return err
	}
	if err := w.keepTree(l.now, late == nil && (whole || l.all)); err != nil {
		w.file = nil // what the file says by now is read again
		return err
	}
	w.looks++
	w.heard = heard
	w.settle(l.watched)
	if !whole { // an undo is never refused for what it takes away: the next call's look bounds that
		return late
	}
	if w.size <= w.options.Size && w.said <= w.options.Size/16 && time.Since(w.bounded) < time.Hour {
		return late
	}
	w.said = 0
	w.bounded = time.Now()
	return cmp.Or(w.bound(), late)
}

func (w *Workspace) newLook(ahead bool) *look {
	return &look{w: w, ahead: ahead, objects: w.objects, limit: w.options.File, leftOut: leaving(w.options.LeaveOut), all: w.options.all}
}

// confirm has later looks pass over what is as the tree has it. It stores nothing, and asks nobody what calls may change.
func (w *Workspace) confirm() error {
	w.hear()
	l, began := w.newLook(true), time.Now()
	err := l.confirm()
	w.settle(l.watched)
	w.spent = time.Since(began)
	return err
}

// beginOfOthers is when the first of the calls that go on after this look began, ns, or 0.
func (w *Workspace) beginOfOthers() int64 {
	names, _ := os.ReadDir(w.running())
	for _, n := range names { // sorted by time
		began, ok := timeOfID(n.Name())
		switch {
		case !ok || n.Name() == w.ending:
		case began.After(time.Now()): // the clock was set back: nobody knows when
			return 1
		default:
			return began.Add(-clockTick).UnixNano()
		}
	}
	return 0
}

// keepTree makes what a look found the tree, here and in its file: in another one, until a look has come
// to its end.
func (w *Workspace) keepTree(found map[string]*Entry, whole bool) (err error) {
	file := w.treeFile()
	if w.begun {
		file = w.begunFile()
	}
	first := w.end == 0
	if len(found) > 0 || first { // it is there once something was looked at
		if w.end, err = appendTree(file, w.end, found); err != nil {
			return err
		}
	}
	for _, gone := range w.tree.update(found) {
		w.unwatch(gone)
	}
	if !first {
		w.late += len(found)
	}
	if w.late > w.tree.size/8+1000 {
		if w.end, err = writeSnapshot(file, w.tree); err != nil {
			return err
		}
		w.late = 0
	}
	if w.begun && !whole {
		return nil
	}
	if w.begun {
		if err := os.Rename(file, w.treeFile()); err != nil {
			return err
		}
		w.begun = false
	}
	w.file, err = os.Stat(w.treeFile())
	return err
}

// leaving says which names are left out by these patterns: for most of them, by one look-up.
func leaving(patterns []string) func(base string) bool {
	names, wild := map[string]bool{}, []string(nil)
	for _, pattern := range patterns {
		if strings.ContainsAny(pattern, `*?[\`) {
			wild = append(wild, pattern)
		}
		names[pattern] = true
	}
	return func(base string) bool {
		return names[base] || slices.ContainsFunc(wild, func(pattern string) bool {
			ok, _ := path.Match(pattern, base)
			return ok
		})
	}
}

// load reads the tree, unless it is as this process has left it.
func (w *Workspace) load() (err error) {
	now, err := os.Stat(w.treeFile())
	if err == nil && w.file != nil && os.SameFile(now, w.file) && now.Size() == w.file.Size() && now.ModTime().Equal(w.file.ModTime()) {
		return nil
	}
	// Another process was here. What it had half written when it was killed is nothing.
	if half, _ := filepath.Glob(filepath.Join(w.calls(), ".*")); len(half) > 0 {
		for _, file := range half {
			_ = os.Remove(file)
		}
	}
	file := w.treeFile()
	if w.begun = errors.Is(err, fs.ErrNotExist); w.begun {
		file = w.begunFile()
	}
	t, late, end, err := readSnapshot(file)
	if err != nil {
		return err
	}
	w.holdContents(t)
	w.forget()
	w.tree, w.late, w.end = t, late, end
	if !w.begun {
		w.file = now
	}
	return nil
}

// bootID says which start of this machine it is.
const bootID = "/proc/sys/kernel/random/boot_id"

// holdContents has files read again whose contents a loss of power has taken, once after each
// start of the machine: what was written last has its name then, and not a byte in it.
func (w *Workspace) holdContents(t *snapshot) {
	file := filepath.Join(w.dir, "boot")
	boot, err := os.ReadFile(bootID)
	if was, unread := os.ReadFile(file); err != nil || unread == nil && bytes.Equal(was, boot) {
		return
	}
	w.objects.packs.hears()
	for _, e := range t.all() {
		if e.Hash != "" && !w.objects.seemsWhole(e.Hash, e.Size) {
			e.Seen = stamp{}
		}
	}
	_ = replace(file, boot) // else the next one does it again
}

// tell writes changes to every call that is under way. A whole look, which sees all that
// calls can change, ends those whose supervisor has died.
func (w *Workspace) tell(list []Change, whole bool) error {
	names, err := os.ReadDir(w.running())
	if err != nil {
		return err
	}
	for _, n := range names {
		file := filepath.Join(w.running(), n.Name())
		f, err := os.OpenFile(file, os.O_RDWR|os.O_APPEND, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		note := Record{Changes: list}
		for _, other := range names {
			if other.Name() != n.Name() {
				note.With = append(note.With, other.Name())
			}
		}
		info, _ := f.Stat() // before it is written to
		err = appendLine(f, note)
		dead := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
		if dead && info != nil { // the line is no sign of its life: what a person changes before it ends is not the call's
			_ = os.Chtimes(file, time.Time{}, info.ModTime())
		}
		if dead && whole && err == nil {
			err = w.endDead(file, info)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// endDead ends a call whose supervisor has died. lived is its file, as that has left it.
func (w *Workspace) endDead(file string, lived fs.FileInfo) error {
	rec, err := readRunning(file)
	if err != nil || rec.ID == "" || lived == nil {
		return os.Remove(file) // it died before it had said who it was: nothing had started
	}
	rec.Ended = time.Now()
	w.interrupted(&rec, lived)
	return w.finish(rec, file)
}

// interrupted says of a record that its supervisor has died, or has ended it without a look. It lived when its file was
// written last.
func (w *Workspace) interrupted(rec *Record, lived fs.FileInfo) {
	rec.Interrupted, rec.Pending = !rec.Pending, false
	last := lived.ModTime().Add(2 * beatEvery).UnixNano()
	for i, c := range rec.Changes {
		rec.Changes[i].Late = w.changedAt(c) > last
	}
}

// pending are the calls that have ended without a record: their supervisor died, or what they left is more than a look
// takes in. The next whole look ends them, but it may never complete. Their changes to known names are found here, so
// that they can be put back before that.
func (w *Workspace) pending() (l []Record) {
	if len(w.dead()) == 0 {
		return nil
	}
	_ = w.locked(func() error {
		files := w.dead() // a look may have ended some meanwhile
		if len(files) > 0 && w.load() == nil {
			_ = w.look(w.tree.known(), false, notSince) // where it fails, what looks have found before is listed
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if rec, unread := readRunning(file); err == nil && unread == nil && len(rec.Changes) > 0 {
				w.interrupted(&rec, info)
				rec.Pending, rec.Ended, rec.Unfinished = true, info.ModTime(), rec.Undo
				l = append(l, rec)
			}
		}
		return nil
	})
	return l
}

// dead are the files of calls under way whose supervisor lives no more, or has given them up.
func (w *Workspace) dead() (files []string) {
	names, _ := os.ReadDir(w.running())
	for _, n := range names {
		file := filepath.Join(w.running(), n.Name())
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
			files = append(files, file)
		}
		f.Close()
	}
	return files
}

// changedAt is when a name was changed last, ns. Of one that is gone that is when something was changed in the
// directory that it was in.
func (w *Workspace) changedAt(c Change) int64 {
	if c.After != nil {
		return c.After.Seen.Ctime
	}
	for dir := path.Dir(string(c.Path)); ; dir = path.Dir(dir) {
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(w.Root, dir), &st) == nil {
			return stampOf(&st).Ctime
		}
		if dir == "." {
			return 0
		}
	}
}

// blind notes that nothing is kept in a directory.
func (w *Workspace) blind(name, why string) {
	if why != "" && !w.unseen[name] {
		w.unseen[name] = true
		w.unsaid = append(w.unsaid, Blind{name, why})
	}
}

// appendLine writes a line whole or, where the disk has no room, not at all. It begins with
// the end of one that a kill has cut off, which would swallow it otherwise.
func appendLine(f *os.File, r Record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	before, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err = f.Write(slices.Concat([]byte("\n"), b, []byte("\n"))); err != nil {
		return errors.Join(err, f.Truncate(before.Size()))
	}
	return nil
}

// readRunning reads a call that is under way: each look's changes, put together.
func readRunning(file string) (Record, error) {
	f, err := os.Open(file)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	var rec Record
	net := map[Name]Change{}
	lines := bufio.NewReader(f)
	for {
		b, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var r Record
		if json.Unmarshal(b, &r) != nil {
			continue // the line before was cut off: what it had to say was said again
		}
		if rec.ID == "" {
			rec = r
		}
		rec.Pending = rec.Pending || r.Pending
		for _, other := range r.With {
			if !slices.Contains(rec.With, other) {
				rec.With = append(rec.With, other)
			}
		}
		for _, c := range r.Changes {
			then(net, c)
		}
	}
	if rec.Undo {
		of := map[Name]bool{}
		for _, name := range rec.Of {
			of[name] = true
		}
		maps.DeleteFunc(net, func(name Name, _ Change) bool { return !of[name] })
	}
	rec.Changes = list(net)
	return rec, nil
}

// then adds a later change to what has changed.
func then(net map[Name]Change, c Change) {
	if first, ok := net[c.Path]; ok {
		c.Before = first.Before
		if c.Before != nil {
			c.From = ""
		} else if c.From == "" && oneFile(first.After, c.After) {
			c.From = first.From
		}
	}
	if c.Before == nil && c.After == nil || c.Before != nil && c.After != nil && c.Before.same(*c.After) {
		delete(net, c.Path)
		return
	}
	net[c.Path] = c
}

func list(net map[Name]Change) []Change {
	var l []Change
	for _, c := range net {
		l = append(l, c)
	}
	slices.SortFunc(l, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return l
}

// Calls lists the calls that changed something, the oldest first. What cannot be read is
// left out.
func (w *Workspace) Calls() ([]Record, error) { return w.callsAfter("") }

// callsAfter are those whose record is later than that of id.
func (w *Workspace) callsAfter(id string) ([]Record, error) {
	files, err := os.ReadDir(w.calls())
	if err != nil {
		return nil, fmt.Errorf("changes: %w", err)
	}
	var l []Record
	for _, f := range files {
		if name, whole := strings.CutSuffix(f.Name(), ".json"); !whole || strings.HasPrefix(name, ".") || name <= id {
			continue // half of one is being written
		}
		b, err := os.ReadFile(filepath.Join(w.calls(), f.Name()))
		var r Record
		if err == nil && json.Unmarshal(b, &r) == nil {
			l = append(l, r)
		}
	}
	return l, nil
}

// UnderWay lists the calls that run now.
func (w *Workspace) UnderWay() (l []Call) {
	names, _ := os.ReadDir(w.running())
	for _, n := range names {
		file := filepath.Join(w.running(), n.Name())
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil { // its supervisor lives
			if r, err := readRunning(file); err == nil {
				l = append(l, r.Call)
			}
		}
		f.Close()
	}
	return l
}

// Content gives what an entry held.
func (w *Workspace) Content(e *Entry) ([]byte, error) {
	if e == nil || e.Hash == "" {
		return nil, nil
	}
	return w.objects.get(e.Hash)
}

// undoneSince are the names that undos have put back since the session last heard.
func (w *Workspace) undoneSince(session, now string) (names []string) {
	last, known := w.told[session]
	w.told[session] = now
	if !known {
		return nil // it has seen nothing that is gone
	}
	l, _ := w.callsAfter(last)
	for _, r := range l {
		if r.Undo {
			for _, c := range r.Changes {
				names = append(names, string(c.Path))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// bound keeps what is kept within Options: the oldest calls go first.
//
// A workspace that does not fit even if everything else goes is not dropped for new calls: otherwise a call could fill
// it, and what earlier calls removed would be lost. What is kept of the workspace as it is goes then, and nothing is
// kept of it until it fits again.
func (w *Workspace) bound() error {
	records, err := w.Calls()
	if err != nil {
		return err
	}
	drop := func() {
		_ = os.Remove(w.record(records[0].ID))
		records = records[1:]
	}
	old := len(records)
	for len(records) > 0 && time.Since(records[0].Ended) > w.options.Age {
		drop()
	}
	// What records say of names counts too: a rename of a large directory is one content and
	// many names, and all records are read at once.
	kept := len(records)
	defer func() { w.dropped += kept - len(records) }()
	for len(records) > 1 && w.recordBytes(records) > w.options.Size/16 {
		drop()
	}
	if w.size <= w.options.Size && len(records) == old {
		return nil
	}
	tree := w.tree.hashes()
	takes := w.objects.take(tree)
	if takes > w.options.Size {
		_ = os.Remove(w.treeFile())
		_ = os.Remove(w.begunFile())
		w.file, tree = nil, map[string]bool{}
	}
	for {
		use := maps.Clone(tree)
		for _, r := range records {
			for _, c := range r.Changes {
				if c.Before != nil {
					use[c.Before.Hash] = true
				}
			}
		}
		w.underWayUse(use)
		w.objects.sweep(use, len(records) == 0 || len(tree) == 0)
		if w.size = w.objects.total(); w.size <= w.options.Size || len(records) == 0 {
			break
		}
		for range max(1, len(records)/8) {
			drop()
		}
	}
	switch {
	case takes > w.options.Size:
		return fmt.Errorf("%w: %d MiB of %d", ErrFull, takes>>20, w.options.Size>>20)
	case w.size > w.options.Size:
		return fmt.Errorf("%w: %d MiB of %d, with what calls that go on have changed", ErrFull, w.size>>20, w.options.Size>>20)
	}
	return nil
}

// recordBytes is how much the records take, in bytes.
func (w *Workspace) recordBytes(records []Record) (n int64) {
	for _, r := range records {
		if st, err := os.Stat(w.record(r.ID)); err == nil {
			n += st.Size()
		}
	}
	return n
}

func (w *Workspace) underWayUse(use map[string]bool) {
	names, _ := os.ReadDir(w.running())
	for _, n := range names {
		r, _ := readRunning(filepath.Join(w.running(), n.Name()))
		for _, hash := range r.Needs {
			use[hash] = true
		}
		for _, c := range r.Changes {
			if c.Before != nil {
				use[c.Before.Hash] = true
			}
		}
	}
}
