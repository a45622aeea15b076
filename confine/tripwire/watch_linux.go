package tripwire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// A watcher has the kernel tell which directories of some trees have changed (inotify(7)), so
// that a survey of a tree in which nothing happened costs no call for each directory. A
// directory is watched before it is read. A change of a name in it is reported before the
// call that makes it returns, so that no change of an action that has ended is missing.
//
// What is mounted over a directory changes nothing in the one above it. The table of
// mounts shows that (proc_pid_mountinfo(5)), and then every directory is looked at.
//
// A nil watcher watches nothing: every directory is looked at each time.
type watcher struct {
	fd, mounts int
	nodes      map[int32]watchedNode
}

type watchedNode struct {
	*node
	tree *tree
}

const (
	// maxWatches bounds those of one watcher. The kernel's own bound is the user's, for all
	// programs (max_user_watches): it is to have room for theirs.
	maxWatches = 32 << 10

	watched = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB |
		unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK
)

// newWatcher returns nil where no watcher can be had.
func newWatcher() *watcher {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	mounts, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		unix.Close(fd)
		return nil
	}
	w := &watcher{fd: fd, mounts: mounts, nodes: map[int32]watchedNode{}}
	runtime.AddCleanup(w, func(fds [2]int) { unix.Close(fds[0]); unix.Close(fds[1]) }, [2]int{fd, mounts})
	return w
}

// room reports whether one more directory can be watched.
func (w *watcher) room() bool { return w != nil && len(w.nodes) < maxWatches }

// add watches the directory that fd is open on, for n.
func (w *watcher) add(t *tree, n *node, fd int) {
	n.wd, n.dirty = 0, false
	if !w.room() {
		return
	}
	wd, err := unix.InotifyAddWatch(w.fd, fmt.Sprintf("/proc/self/fd/%d", fd), watched)
	if err != nil {
		return // then it is looked at each time
	}
	n.wd = int32(wd)
	if was := w.nodes[n.wd]; was.node != nil && was.node != n { // the same directory elsewhere, or a node that is no more
		was.stir()
	}
	w.nodes[n.wd] = watchedNode{n, t}
}

// fresh reports whether n is as it was when it was read.
func (w *watcher) fresh(n *node) bool {
	return w != nil && n.wd != 0 && !n.dirty && w.nodes[n.wd].node == n
}

// update marks what has changed.
func (w *watcher) update() {
	if w == nil {
		return
	}
	fds := []unix.PollFd{{Fd: int32(w.mounts), Events: unix.POLLPRI}}
	if n, err := unix.Poll(fds, 0); err != nil || n > 0 {
		w.all()
	}
	var buf [64 << 10]byte
	for {
		n, err := unix.Read(w.fd, buf[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil || n < unix.SizeofInotifyEvent:
			w.all()
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			w.note(int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:]))
			b = b[min(unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(b[12:])), len(b)):]
		}
	}
}

func (w *watcher) note(wd int32, mask uint32) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		w.all()
		return
	}
	n, ok := w.nodes[wd]
	if !ok {
		return
	}
	n.stir()
	n.dirty, n.tree.stirred, n.tree.memory = true, true, nil
	if mask&unix.IN_IGNORED != 0 {
		delete(w.nodes, wd)
	}
}

// all marks everything.
func (w *watcher) all() {
	for _, n := range w.nodes {
		n.stir()
		n.dirty, n.tree.stirred, n.tree.memory = true, true, nil
	}
}

// prune lets go of directories that are not in the tree any more.
func (w *watcher) prune(t *tree) {
	if w == nil {
		return
	}
	in := make(map[int32]bool, len(w.nodes))
	t.top.collect(in)
	for wd, n := range w.nodes {
		if n.tree == t && !in[wd] {
			_, _ = unix.InotifyRmWatch(w.fd, uint32(wd)) // it may be gone
			delete(w.nodes, wd)
		}
	}
}

func (n *node) collect(in map[int32]bool) {
	if n.wd != 0 {
		in[n.wd] = true
	}
	for _, kid := range n.kids {
		kid.collect(in)
	}
}

// A visited node is one that has something to judge each time.
type visited struct {
	node *node
	at   location
}

// A memory has the findings of the last complete walk that only a change of a directory
// changes, and the places where the rest is to be judged.
type memory struct {
	found []Finding
	names map[ident][]hardName
	marks []visited
}

// recall gives what there is to find in a tree of which no directory has changed since
// the last walk. It gives false if a walk is needed.
func (t *tree) recall() ([]Finding, bool) {
	if t.memory == nil {
		return nil, false
	}
	m := t.memory
	t.found, t.names, t.next = slices.Clone(m.found), m.names, map[string]bool{}
	if t.git && !t.aside {
		t.nameFromOutside()
	}
	for _, v := range m.marks {
		for _, mark := range v.node.marks {
			t.judge(v.node, v.at, mark)
		}
	}
	if !maps.Equal(t.named, t.next) || !t.explained() {
		return nil, false
	}
	t.addAliases()
	found := t.found
	t.found, t.names = nil, nil
	return found, true
}
