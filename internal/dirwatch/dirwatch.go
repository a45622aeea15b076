// Package dirwatch tells which directories have changed since they were looked at, so that a
// second look at a large tree need not read what has stayed as it was.
package dirwatch

import (
	"slices"

	"golang.org/x/sys/unix"
)

// A Watcher has the kernel tell of changes in directories, each known to the caller by a key.
// One directory may have several keys: it can be in two trees, or have had another name.
// A nil Watcher watches nothing. It is not safe for concurrent use.
type Watcher[K comparable] struct {
	source source
	most   int
	keys   map[int32][]K // by watch descriptor
	wds    map[K]int32
}

// New gives a watcher of at most so many directories, or nil where the system has none to
// give. The kernel's own bound is the user's, for all programs: leave room for theirs.
func New[K comparable](most int, events Events) *Watcher[K] {
	s, err := newSource(events)
	if err != nil {
		return nil
	}
	w := &Watcher[K]{source: s, most: most, keys: map[int32][]K{}, wds: map[K]int32{}}
	closeWith(w)
	return w
}

// Add watches the directory that fd is open on. It reports whether that is so: if not, the
// directory has to be looked at each time. Add it before you read it, and nothing is missed.
func (w *Watcher[K]) Add(k K, fd int) bool {
	if w == nil {
		return false
	}
	if _, known := w.wds[k]; !known && len(w.wds) >= w.most {
		return false
	}
	wd, err := w.source.add(fd)
	if err != nil {
		w.Drop(k)
		return false
	}
	if was, known := w.wds[k]; known && was != wd {
		w.Drop(k)
	}
	if _, known := w.wds[k]; !known {
		w.wds[k] = wd
		w.keys[wd] = append(w.keys[wd], k)
	}
	return true
}

// Drop ends the watch of k.
func (w *Watcher[K]) Drop(k K) {
	if w == nil {
		return
	}
	wd, known := w.wds[k]
	if !known {
		return
	}
	delete(w.wds, k)
	w.keys[wd] = slices.DeleteFunc(w.keys[wd], func(other K) bool { return other == k })
	if len(w.keys[wd]) == 0 {
		delete(w.keys, wd)
		w.source.remove(wd)
	}
}

// Itself is the name under which a directory may be reported that has changed itself.
const Itself = "."

// Changed calls do for each directory that may have changed since the last time: for all of
// them where the kernel has lost count, or something was mounted. inode is the file that has or had the name, 0 where that
// is not reported. Changed reports whether a name came that may be a second name of a file that was there before, and of
// which do has not heard. open opens the directory of a key, as far as it can.
func (w *Watcher[K]) Changed(do func(k K, name string, inode uint64), open func(k K) (fd int, err error)) (secondName bool) {
	if w == nil {
		return false
	}
	came := arrivals{at: map[place]step{}, moving: map[uint32]bool{}}
	hear := func() {
		complete := w.source.changed(func(e event) {
			for _, k := range w.keys[e.wd] {
				do(k, e.name, e.inode)
				if e.gone {
					delete(w.wds, k)
				}
			}
			if len(w.keys[e.wd]) > 0 {
				came.hear(e)
			}
			if e.gone {
				delete(w.keys, e.wd)
			}
		})
		if !complete {
			came.lost = true
			for k := range w.wds {
				do(k, "", 0)
			}
		}
	}
	hear()
	return came.secondNames(func(at place) bool { return w.isOnlyName(at, open) }, hear)
}

// isOnlyName reports whether a file has this name and no other. The directory may have moved: the watch goes with it.
func (w *Watcher[K]) isOnlyName(at place, open func(k K) (fd int, err error)) bool {
	if len(w.keys[at.wd]) == 0 {
		return false
	}
	fd, err := open(w.keys[at.wd][0])
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	wd, err := w.source.add(fd)
	if err != nil || wd != at.wd {
		if err == nil && len(w.keys[wd]) == 0 {
			w.source.remove(wd)
		}
		return false
	}
	var st unix.Stat_t
	return unix.Fstatat(fd, at.name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Nlink == 1 &&
		st.Mode&unix.S_IFMT != unix.S_IFDIR
}
