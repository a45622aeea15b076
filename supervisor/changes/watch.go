package changes

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/dirwatch"
)

// A dirWatcher knows which directories have stayed as they were since they were looked at, for
// all workspaces of a store: one inotify instance, of the few that a user has.
type dirWatcher struct {
	mu     sync.Mutex
	kernel *dirwatch.Watcher[inWorkspace]
	made   int // how often names came, in any workspace, that may be second names
	// named are files that something happened to under a name that was not known for theirs, where that is
	// reported, and dropped how many of them are not listed any more.
	named   []uint64
	dropped int
}

type inWorkspace struct {
	w    *Workspace
	name string
}

// maxWatches bounds what one process takes of the user's watches, which are a few ten
// thousand. What cannot be watched is looked at each time.
const maxWatches = 32 << 10

func (k inWorkspace) open() (int, error) {
	root, err := openRoot(k.w.Root)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	return openIn(root, k.name)
}

func newWatch() *dirWatcher {
	return &dirWatcher{kernel: dirwatch.New[inWorkspace](maxWatches, dirwatch.Inodes)}
}

// A watchedDir is a directory that was looked at while it was watched.
type watchedDir struct {
	name string
	seen stamp
}

// wholeEvery is how often a look reads everything, whatever the kernel reported: a program
// that writes through a mapping, or a disk that another machine writes to, causes no
// report.
const wholeEvery = 10 * time.Minute

// hear takes note of what has changed since the last look.
func (w *Workspace) hear() {
	w.watching.mu.Lock()
	defer w.watching.mu.Unlock()
	d := w.watching
	second := d.kernel.Changed(func(k inWorkspace, name string, inode uint64) {
		delete(k.w.quiet, k.name)
		delete(k.w.reading, k.name)
		if name == dirwatch.Itself { // its mode is an entry of the one that it lies in
			dir, _ := cutName(k.name)
			delete(k.w.quiet, dir)
			delete(k.w.reading, dir)
		}
		if inode == 0 {
			return
		}
		if e, known := w.tree.entry(joinName(k.name, name)); k.w != w || !known || e.Seen.Ino != inode {
			d.named = append(d.named, inode)
		}
	}, inWorkspace.open)
	if len(d.named) > maxNamed {
		second, d.named, d.dropped = true, nil, d.dropped+len(d.named)
	}
	if second {
		d.made++
	}
	w.stirFiles(d.named[min(max(w.named-d.dropped, 0), len(d.named)):])
	w.named = d.dropped + len(d.named)
	w.reading = map[string]bool{}
	if time.Since(w.whole) > wholeEvery {
		w.quiet, w.whole = map[string]stamp{}, time.Now()
	}
}

// maxNamed bounds the files that are listed for workspaces which have not asked yet.
const maxNamed = 10_000

// stirFiles has the directories read again in which files of these inodes are known: they may have been written by
// another name.
func (w *Workspace) stirFiles(inodes []uint64) {
	if len(inodes) == 0 {
		return
	}
	in := make(map[uint64]bool, len(inodes))
	for _, ino := range inodes {
		in[ino] = true
	}
	for dir, m := range w.tree.dirs {
		for i := range m.entries {
			if in[m.entries[i].Seen.Ino] {
				delete(w.quiet, dir)
				break
			}
		}
	}
}

// unheard reports whether a file may have changed since a moment without a report of its directory. Two ways are
// known. A file can be written by a name that it had for a while (link(2)): such a name came in a directory that is
// watched, in one that came itself and is not watched yet, or in one that never is (apart). And a file can be written
// through a mapping that was made before the last look, which has heard that it was opened.
// Before a call, it is about what people did since the last look.
func (w *Workspace) unheard(since int) bool {
	if since == notSince {
		return w.secondNames() != w.heard
	}
	return w.apart || w.moment() != since
}

// secondNames counts how often second names may have come.
func (w *Workspace) secondNames() int {
	w.watching.mu.Lock()
	defer w.watching.mu.Unlock()
	return w.watching.made
}

// moment counts the names that came and the looks that were taken until now.
func (w *Workspace) moment() int {
	w.watching.mu.Lock()
	defer w.watching.mu.Unlock()
	return w.watching.made + w.looks
}

// deaf reports whether a directory that was to be watched is not: the user has no watches left.
func (w *Workspace) deaf(told bool) bool { return !told && w.tells && w.watching.kernel != nil }

// forget has everything looked at again.
func (w *Workspace) forget() {
	w.watching.mu.Lock()
	defer w.watching.mu.Unlock()
	w.quiet = map[string]stamp{}
}

// watch begins to watch a directory that is about to be read.
func (w *Workspace) watch(name string, fd int) bool {
	w.watching.mu.Lock()
	defer w.watching.mu.Unlock()
	w.reading[name] = w.tells && w.watching.kernel.Add(inWorkspace{w, name}, fd)
	return w.reading[name]
}

func (w *Workspace) unwatch(name string) {
	w.watching.mu.Lock()
	defer w.watching.mu.Unlock()
	delete(w.quiet, name)
	w.watching.kernel.Drop(inWorkspace{w, name})
}

// stir has a directory read again.
func (w *Workspace) stir(name string) {
	w.watching.mu.Lock()
	defer w.watching.mu.Unlock()
	delete(w.quiet, name)
}

// settle takes directories for quiet from when they were read. Another workspace's look may
// have heard meanwhile that they changed.
func (w *Workspace) settle(l []watchedDir) {
	w.watching.mu.Lock()
	defer w.watching.mu.Unlock()
	for _, d := range l {
		if w.reading[d.name] {
			w.quiet[d.name] = d.seen
		}
	}
}

// same reports whether a directory has stayed as it was looked at, and is that directory.
func (w *Workspace) same(name string, now stamp) bool {
	w.watching.mu.Lock()
	defer w.watching.mu.Unlock()
	seen, quiet := w.quiet[name]
	return quiet && seen.Dev == now.Dev && seen.Ino == now.Ino
}

// stirred are the directories that have to be read, those above others first.
func (w *Workspace) stirred() []string {
	w.watching.mu.Lock()
	defer w.watching.mu.Unlock()
	var l []string
	for name := range w.tree.dirs {
		if _, quiet := w.quiet[name]; !quiet {
			l = append(l, name)
		}
	}
	slices.Sort(l)
	return l
}
