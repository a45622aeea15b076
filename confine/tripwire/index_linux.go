package tripwire

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// An index keeps on disk what trees remember, so that the first survey of a process
// costs one lstat(2) for each directory too. It holds the names and times of directories
// and no content, lies where no tool sees anything, and is believed as far as the memory
// of a process: a directory whose identity and times are as they were is not read again.
// Each tree has a file of its own: that of a toolchain serves every workspace.
//
// An index that cannot be read or written does not count: the directories are read.
type index struct {
	dir string
	// least is how many directories of a tree have to be read anew for it to be written
	// again, and a sixteenth of what was written before: writing costs as much as reading
	// some of them.
	least int
}

const (
	indexFormat = "sandgate-index-2\n"
	// maxIndexes is how many trees are kept, those that were used last.
	maxIndexes = 128
	// maxIndex bounds a file.
	maxIndex     = 64 << 20
	worthKeeping = 32 // index.least

	walksOfOneCall = 3 // before it, and after it until there is nothing to undo
)

// What a file holds, for package gob, which reads lists of numbers ten times as fast as
// lists of structures.
type (
	savedTree struct {
		Root    string
		Aside   bool
		Named   []string
		Outside []uint64 // device and inode in turn

		// Of each node, parents before what lies in them.
		Names []string
		IDs   []uint64 // device and inode
		Times []int64  // ctime and mtime, seconds and nanoseconds
		Flags []byte
		Kids  []int

		Marks []savedMark // by node, as they lie in it
		Hard  []savedHard
	}
	savedMark struct {
		Node          int
		Name, Target  string
		Kind          uint8
		Hide, Protect bool
	}
	savedHard struct {
		Node          int
		Path          string
		Dev, Ino      uint64
		Links         uint64
		Hide, Protect bool
	}
)

const (
	savedSettled = 1 << iota
	savedRepo
	savedHead
	savedShut
)

// Remember keeps what surveys have seen in dir, which no tool may see, for the next
// process. It is made if its parent is there.
func (g *Guard) Remember(dir string) {
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return
	}
	var st unix.Stat_t
	if unix.Lstat(dir, &st) == nil && st.Mode&(unix.S_IFMT|0o077) == unix.S_IFDIR && int(st.Uid) == os.Geteuid() {
		g.index = index{dir, worthKeeping}
	}
}

// path is the file of a tree. The program is a part of its name: what another version
// took note of may mean something else.
func (x index) path(key string) string {
	self := program()
	if self == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key + self))
	return filepath.Join(x.dir, hex.EncodeToString(sum[:16]))
}

// program distinguishes this program from others; "" if that is not possible.
var program = sync.OnceValue(func() string {
	var st unix.Stat_t
	if unix.Stat("/proc/self/exe", &st) != nil {
		return ""
	}
	return fmt.Sprint(st.Dev, st.Ino, st.Ctim, st.Size)
})

// load fills trees that are new.
func (x index) load(trees []*tree) {
	for _, t := range trees {
		if x.dir != "" && !(t.aside && x.fill(t, t.key)) {
			x.fill(t, t.whole)
		}
	}
}

// fill has t remember what the file for a key tells, if that is of t.
func (x index) fill(t *tree, key string) bool {
	path := x.path(key)
	b, ok := readOwn(path)
	if !ok || len(b) < len(indexFormat)+sha256.Size {
		return false
	}
	body := b[len(indexFormat)+sha256.Size:]
	if sum := sha256.Sum256(body); string(b[:len(indexFormat)]) != indexFormat || !bytes.Equal(b[len(indexFormat):len(indexFormat)+sha256.Size], sum[:]) {
		return false // cut off by a loss of power
	}
	var s savedTree
	if gob.NewDecoder(bytes.NewReader(body)).Decode(&s) != nil || s.Root != t.root || s.Aside != (key == t.key) || !s.whole() {
		return false
	}
	t.told, t.aside, t.restored, t.kept = &s, s.Aside, walksOfOneCall, len(s.Names)
	for _, name := range s.Named {
		t.named[name] = true
	}
	t.outside = map[ident]bool{}
	for i := 0; i+1 < len(s.Outside); i += 2 {
		t.outside[ident{s.Outside[i], s.Outside[i+1]}] = true
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // prune goes by it
	return true
}

func readOwn(path string) ([]byte, bool) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 || st.Size > maxIndex {
		return nil, false
	}
	b := make([]byte, st.Size)
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, false
	}
	return b, true
}

// whole reports whether the lists of s are as long as they have to be, and make one tree.
func (s *savedTree) whole() bool {
	n, below := len(s.Names), 1
	if n == 0 || len(s.IDs) != 2*n || len(s.Times) != 4*n || len(s.Flags) != n || len(s.Kids) != n {
		return false
	}
	for i, kids := range s.Kids {
		if below += kids; kids < 0 || below <= i {
			return false
		}
	}
	return below == n
}

// expand makes the nodes of an index.
func (t *tree) expand() {
	if t.told != nil {
		t.top, t.told = t.told.restore(), nil
	}
}

// comparable reports whether a tree can be compared with its index without making a node for each
// directory: no tool may write to it, and nothing was found in it. It is so for most trees of
// toolchains.
func (t *tree) comparable() bool {
	s := t.told
	if s == nil || !t.aside || t.restored == 0 || len(s.Marks)+len(s.Hard)+len(s.Named) > 0 {
		return false
	}
	for i, flags := range s.Flags {
		if flags&(savedSettled|savedShut) != savedSettled || s.IDs[2*i] != s.IDs[0] || slices.Contains(t.own, ident{s.IDs[2*i], s.IDs[2*i+1]}) {
			return false
		}
	}
	return true
}

// asTold reports whether a tree that is comparable still is as its index describes it.
func (t *tree) asTold() bool {
	return t.comparable() && t.trusts(t.at, t.told.IDs[0]) && t.told.holds(t.at, runtime.GOMAXPROCS(0))
}

// confirm is asTold for a tree that was taken to be so: it is not locked meanwhile.
func (t *tree) confirm() bool {
	at, err := unix.Open(t.root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(at)
	t.mu.Lock()
	s := t.told
	ok := t.comparable() && t.trusts(at, s.IDs[0])
	t.mu.Unlock()
	if !ok || !s.holds(at, max(1, runtime.GOMAXPROCS(0)-1)) { // one is for bubblewrap, which works at the same time
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told == s {
		t.latest = []Finding{}
	}
	return true
}

// holds compares the directories below at with those that were saved, on so many processors.
func (s *savedTree) holds(at, processors int) bool {
	var differs atomic.Bool
	var looking sync.WaitGroup
	share := (len(s.Names) + processors - 1) / processors
	for from := 0; from < len(s.Names); from += share {
		looking.Go(func() {
			for i, path := range s.paths(from, min(from+share, len(s.Names))) {
				var st unix.Stat_t
				if differs.Load() || unix.Fstatat(at, path, &st, unix.AT_SYMLINK_NOFOLLOW) != nil ||
					st.Mode&unix.S_IFMT != unix.S_IFDIR || stampOf(&st) != s.stamp(i) {
					differs.Store(true)
					return
				}
			}
		})
	}
	looking.Wait()
	return !differs.Load()
}

// stamp is that of a node.
func (s *savedTree) stamp(i int) stamp {
	times := s.Times[4*i:]
	return stamp{ident{s.IDs[2*i], s.IDs[2*i+1]}, unix.Timespec{Sec: times[0], Nsec: times[1]}, unix.Timespec{Sec: times[2], Nsec: times[3]}}
}

// paths gives the nodes of a range with their paths below the root.
func (s *savedTree) paths(from, to int) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		type level struct{ length, left int } // of the path of a node, and its kids that are still to come
		var above []level
		path := make([]byte, 0, unix.PathMax)
		for i := range to {
			for len(above) > 0 && above[len(above)-1].left == 0 {
				above = above[:len(above)-1]
			}
			if i > 0 {
				in := &above[len(above)-1]
				in.left--
				path = path[:in.length]
				if in.length > 0 {
					path = append(path, '/')
				}
				path = append(path, s.Names[i]...)
			}
			above = append(above, level{len(path), s.Kids[i]})
			if i < from {
				continue
			}
			rel := "."
			if len(path) > 0 {
				rel = string(path)
			}
			if !yield(i, rel) {
				return
			}
		}
	}
}

// restore makes the nodes.
func (s *savedTree) restore() *node {
	list := make([]node, len(s.Names))
	for i := range list {
		flags := s.Flags[i]
		list[i] = node{
			name: s.Names[i], stamp: s.stamp(i),
			settled: flags&savedSettled != 0, repo: flags&savedRepo != 0, head: flags&savedHead != 0, shut: flags&savedShut != 0,
		}
	}
	for _, m := range s.Marks {
		if m.Node >= 0 && m.Node < len(list) {
			n := &list[m.Node]
			n.marks = append(n.marks, mark{name: m.Name, target: m.Target, kind: sandboxprofile.FileKind(m.Kind), hide: m.Hide, protect: m.Protect})
		}
	}
	for _, h := range s.Hard {
		if h.Node >= 0 && h.Node < len(list) {
			n := &list[h.Node]
			n.hard = append(n.hard, hardName{path: h.Path, id: ident{h.Dev, h.Ino}, links: h.Links, hide: h.Hide, protect: h.Protect})
		}
	}
	next := 1
	var take func(i int)
	take = func(i int) {
		for range s.Kids[i] {
			kid := next
			next++
			list[i].kids = append(list[i].kids, &list[kid])
			take(kid)
		}
	}
	take(0)
	return &list[0]
}

func (s *savedTree) save(n *node) {
	at := len(s.Names)
	s.Names, s.Kids = append(s.Names, n.name), append(s.Kids, len(n.kids))
	s.IDs = append(s.IDs, n.stamp.dev, n.stamp.ino)
	s.Times = append(s.Times, n.stamp.ctime.Sec, n.stamp.ctime.Nsec, n.stamp.mtime.Sec, n.stamp.mtime.Nsec)
	var flags byte
	for i, is := range [...]bool{n.settled, n.repo, n.head, n.shut} { // in the order of the constants
		if is {
			flags |= 1 << i
		}
	}
	s.Flags = append(s.Flags, flags)
	for _, m := range n.marks {
		s.Marks = append(s.Marks, savedMark{at, m.name, m.target, uint8(m.kind), m.hide, m.protect})
	}
	for _, h := range n.hard {
		s.Hard = append(s.Hard, savedHard{at, h.path, h.id.dev, h.id.ino, h.links, h.hide, h.protect})
	}
	for _, kid := range n.kids {
		s.save(kid)
	}
}

// keep writes what trees remember, if enough of it is new.
func (x index) keep(trees []*tree) {
	wrote := false
	for _, t := range trees {
		wrote = x.dir != "" && x.keepOne(t) || wrote
	}
	if wrote {
		x.prune()
	}
}

func (x index) keepOne(t *tree) bool {
	t.mu.Lock()
	if t.read < max(x.least, t.kept/16) {
		t.mu.Unlock()
		return false
	}
	s, key := savedTree{Root: t.root, Aside: t.aside, Named: slices.Sorted(maps.Keys(t.named))}, t.whole
	if t.aside {
		key = t.key
	}
	s.save(t.top)
	for id := range t.outside {
		s.Outside = append(s.Outside, id.dev, id.ino)
	}
	t.read, t.kept = 0, len(s.Names)
	t.mu.Unlock()
	var body bytes.Buffer
	if gob.NewEncoder(&body).Encode(&s) != nil || body.Len() > maxIndex {
		return false
	}
	sum := sha256.Sum256(body.Bytes())
	x.write(x.path(key), slices.Concat([]byte(indexFormat), sum[:], body.Bytes()))
	return true
}

// write replaces a file without waiting for the disk: what is cut off shows in its sum.
func (x index) write(path string, b []byte) {
	if path == "" {
		return
	}
	temp := filepath.Join(x.dir, "new-"+rand.Text())
	if os.WriteFile(temp, b, 0o600) != nil || os.Rename(temp, path) != nil {
		_ = os.Remove(temp) // it may not be there
	}
}

func (x index) prune() {
	entries, err := os.ReadDir(x.dir)
	if err != nil || len(entries) <= maxIndexes {
		return
	}
	age := func(e os.DirEntry) int64 {
		info, err := e.Info()
		if err != nil {
			return 0
		}
		return info.ModTime().UnixNano()
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return int(min(1, max(-1, age(b)-age(a)))) })
	for _, e := range entries[maxIndexes:] {
		_ = os.Remove(filepath.Join(x.dir, e.Name())) // another process may have
	}
}
