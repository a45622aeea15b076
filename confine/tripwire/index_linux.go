package tripwire

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// An index keeps on disk what a treeCache remembers, so that the first survey of a process
// costs one lstat(2) for each directory too. It holds the names and times of directories
// and no content, lies where no tool sees anything, and is believed as far as the memory
// of a process: a directory whose identity and times are as they were is not read again.
//
// One that cannot be read or written is none: the directories are read.
type index struct {
	dir string
	// least is how many directories have to be read anew for it to be written again:
	// writing costs as much as reading a few hundred.
	least int
}

const (
	indexFormat = "sandgate-index-1\n"
	// maxIndexes is how many of them are kept, the latest.
	maxIndexes = 16
	// maxIndex bounds a file.
	maxIndex     = 64 << 20
	worthKeeping = 256 // index.least

	walksOfOneCall = 3 // before it, and after it until there is nothing to undo
)

// What a file holds, for package gob.
type (
	savedTree struct {
		Root    string
		Aside   bool
		Named   []string
		Outside []savedIdent
		Nodes   []savedNode // parents before what lies in them
	}
	savedNode struct {
		Name  string
		ID    savedIdent
		Times [4]int64 // ctime and mtime, seconds and nanoseconds
		Flags uint8
		Kids  int
		Marks []savedMark
		Hard  []savedHard
	}
	savedIdent struct{ Dev, Ino uint64 }
	savedMark  struct {
		Name, Target  string
		Kind          uint8
		Hide, Protect bool
	}
	savedHard struct {
		Path          string
		ID            savedIdent
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

// path is the file of a treeCache. The program is a part of its name: what another version
// took note of may mean something else.
func (x index) path(key string) string {
	var st unix.Stat_t
	if unix.Stat("/proc/self/exe", &st) != nil {
		return ""
	}
	h := sha256.New()
	fmt.Fprint(h, key, st.Dev, st.Ino, st.Ctim, st.Size)
	return filepath.Join(x.dir, hex.EncodeToString(h.Sum(nil)[:16]))
}

// load fills trees that are new.
func (x index) load(key string, trees []*tree) {
	if x.dir == "" {
		return
	}
	b, ok := readOwn(x.path(key))
	if !ok || len(b) < len(indexFormat)+sha256.Size {
		return
	}
	body := b[len(indexFormat)+sha256.Size:]
	if sum := sha256.Sum256(body); string(b[:len(indexFormat)]) != indexFormat || !bytes.Equal(b[len(indexFormat):len(indexFormat)+sha256.Size], sum[:]) {
		return // cut off by a loss of power
	}
	var saved []savedTree
	if gob.NewDecoder(bytes.NewReader(body)).Decode(&saved) != nil || len(saved) != len(trees) {
		return
	}
	for i, t := range trees {
		s := saved[i]
		top, rest := restore(s.Nodes)
		if s.Root != t.root || top == nil || len(rest) > 0 {
			continue
		}
		t.top, t.aside, t.restored = top, s.Aside, walksOfOneCall
		for _, name := range s.Named {
			t.named[name] = true
		}
		t.outside = map[ident]bool{}
		for _, id := range s.Outside {
			t.outside[ident{id.Dev, id.Ino}] = true
		}
	}
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

// restore makes the node that list begins with, and gives what is left.
func restore(list []savedNode) (*node, []savedNode) {
	if len(list) == 0 {
		return nil, nil
	}
	s, rest := list[0], list[1:]
	n := &node{
		name:    s.Name,
		stamp:   stamp{ident{s.ID.Dev, s.ID.Ino}, unix.Timespec{Sec: s.Times[0], Nsec: s.Times[1]}, unix.Timespec{Sec: s.Times[2], Nsec: s.Times[3]}},
		settled: s.Flags&savedSettled != 0, repo: s.Flags&savedRepo != 0, head: s.Flags&savedHead != 0, shut: s.Flags&savedShut != 0,
	}
	for _, m := range s.Marks {
		n.marks = append(n.marks, mark{name: m.Name, target: m.Target, kind: sandboxprofile.FileKind(m.Kind), hide: m.Hide, protect: m.Protect})
	}
	for _, h := range s.Hard {
		n.hard = append(n.hard, hardName{path: h.Path, id: ident{h.ID.Dev, h.ID.Ino}, links: h.Links, hide: h.Hide, protect: h.Protect})
	}
	for range s.Kids {
		var kid *node
		if kid, rest = restore(rest); kid == nil {
			return nil, nil
		}
		n.kids = append(n.kids, kid)
	}
	return n, rest
}

func (n *node) save(list []savedNode) []savedNode {
	s := savedNode{
		Name: n.name, ID: savedIdent{n.stamp.dev, n.stamp.ino}, Kids: len(n.kids),
		Times: [4]int64{n.stamp.ctime.Sec, n.stamp.ctime.Nsec, n.stamp.mtime.Sec, n.stamp.mtime.Nsec},
	}
	for i, is := range [...]bool{n.settled, n.repo, n.head, n.shut} { // in the order of the constants
		if is {
			s.Flags |= 1 << i
		}
	}
	for _, m := range n.marks {
		s.Marks = append(s.Marks, savedMark{Name: m.name, Target: m.target, Kind: uint8(m.kind), Hide: m.hide, Protect: m.protect})
	}
	for _, h := range n.hard {
		s.Hard = append(s.Hard, savedHard{Path: h.path, ID: savedIdent{h.id.dev, h.id.ino}, Links: h.links, Hide: h.hide, Protect: h.protect})
	}
	list = append(list, s)
	for _, kid := range n.kids {
		list = kid.save(list)
	}
	return list
}

// keep writes what trees remember, if enough of it is new.
func (x index) keep(key string, trees []*tree) {
	if x.dir == "" {
		return
	}
	read := 0
	for _, t := range trees {
		t.mu.Lock()
		read += t.read
		t.mu.Unlock()
	}
	if read < x.least {
		return
	}
	var saved []savedTree
	for _, t := range trees {
		t.mu.Lock()
		s := savedTree{Root: t.root, Aside: t.aside, Named: slices.Sorted(maps.Keys(t.named)), Nodes: t.top.save(nil)}
		for id := range t.outside {
			s.Outside = append(s.Outside, savedIdent{id.dev, id.ino})
		}
		t.read = 0
		t.mu.Unlock()
		saved = append(saved, s)
	}
	var body bytes.Buffer
	if gob.NewEncoder(&body).Encode(saved) != nil || body.Len() > maxIndex {
		return
	}
	sum := sha256.Sum256(body.Bytes())
	x.write(x.path(key), slices.Concat([]byte(indexFormat), sum[:], body.Bytes()))
	x.prune()
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
