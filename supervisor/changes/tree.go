package changes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// An Entry is what one name of a workspace stands for.
type Entry struct {
	Mode uint32 `json:"mode"` // st_mode: type and permissions
	// Cache: it is a directory that had a CACHEDIR.TAG when it was first seen. Nothing in it
	// is looked at.
	Cache bool `json:"cache,omitempty"` // beside Mode it takes no room: a map holds up to 128 bytes itself
	// Listed: all that lay in a directory when Seen was taken is in the tree. As long as that stays as it is, no name
	// has come or gone.
	Listed bool   `json:"-"`
	Owner  owner  `json:"owner,omitempty"` // with the group
	Size   int64  `json:"size,omitempty"`  // of a file
	Hash   string `json:"hash,omitempty"`  // of a file's content, SHA-256
	Link   Name   `json:"link,omitempty"`  // what a symbolic link says
	// Attributes are those of a file that its owner may set (user.*, xattr(7)), with the access control
	// list (acl(5)), which is all that is kept of a directory's.
	Attributes string `json:"attributes,omitempty"`
	// Unkept says why the content is not kept, or what is not known about a directory; "" if
	// nothing is missing.
	Unkept string `json:"unkept,omitempty"`

	Seen stamp `json:"seen"`
}

// A stamp shows whether a file may have changed since it was looked at.
type stamp struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Mtime int64  `json:"mtime"` // ns
	Ctime int64  `json:"ctime"` // ns
	// Racy: it was looked at so soon after its last change that another one could bear
	// the same time, or while a call that has changed it may still write it through a mapping:
	// a page that is dirty already is written without a new time.
	Racy bool `json:"racy,omitempty"`
}

// is reports whether they are of one file that has not changed.
func (s stamp) is(o stamp) bool {
	return s.Dev == o.Dev && s.Ino == o.Ino && s.Mtime == o.Mtime && s.Ctime == o.Ctime
}

// clockTick is how long two changes can bear the same time: the kernel's coarse clock
// goes on every 4 to 10 ms (time(7)).
const clockTick = 20 * time.Millisecond

// grain is how long two changes can bear this change time: on a disk that knows whole seconds (ext4 with small inodes,
// FAT, some servers) up to two of them. No call chooses that time.
func grain(ctime int64) time.Duration {
	if ctime%int64(time.Second) == 0 {
		return 2*time.Second + clockTick
	}
	return clockTick
}

// An owner is a user and a group, and 0 where they are not known: in what was kept before they were.
type owner uint64

func ownerOf(st *unix.Stat_t) owner { return owner(uint64(st.Uid)<<32|uint64(st.Gid)) + 1 }

func (o owner) uid() int { return int(uint32(uint64(o-1) >> 32)) } //nolint:gosec // it is one
func (o owner) gid() int { return int(uint32(o - 1)) }             //nolint:gosec // it is one

func (o owner) is(p owner) bool { return o == p || o == 0 || p == 0 }

func (o owner) String() string { return fmt.Sprintf("user %d and group %d", o.uid(), o.gid()) }

func (e Entry) kind() uint32 { return e.Mode & unix.S_IFMT }

// IsDir reports whether it is a directory.
func (e Entry) IsDir() bool { return e.kind() == unix.S_IFDIR }

// isDir is IsDir of an entry that may not be there.
func (e *Entry) isDir() bool { return e != nil && e.IsDir() }

// same reports whether two entries stand for the same: type, permissions, content, attributes, owner.
func (e Entry) same(f Entry) bool { return e.Owner.is(f.Owner) && e.sameButOwner(f) }

func (e Entry) sameButOwner(f Entry) bool {
	return e.Mode == f.Mode && e.Hash == f.Hash && e.Link == f.Link && e.Attributes == f.Attributes && (e.Unkept == "" || e.Size == f.Size && e.Seen.is(f.Seen))
}

// asMade is e as a sandbox makes it where there is what now is: it gives other users of the machine no right to write.
func (e *Entry) asMade(now *Entry) *Entry {
	if e == nil || e.kind() == unix.S_IFLNK || now != nil && now.Mode&0o002 != 0 {
		return e
	}
	made := *e
	made.Mode &^= 0o002
	return &made
}

// A Name is the bytes of a path or of a link's text, which need not be UTF-8. In JSON it is
// a string where it is, and {"base64": "..."} where it is not.
type Name string

type encodedName struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON keeps every byte; a plain string would have those that are not UTF-8 replaced,
// and so stand for another file.
func (n Name) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(n)) {
		return json.Marshal(string(n))
	}
	return json.Marshal(encodedName{[]byte(n)})
}

// UnmarshalJSON reads both forms.
func (n *Name) UnmarshalJSON(b []byte) error {
	var e encodedName
	if len(b) > 0 && b[0] == '{' {
		err := json.Unmarshal(b, &e)
		*n = Name(e.Base64)
		return err
	}
	var s string
	err := json.Unmarshal(b, &s)
	*n = Name(s)
	return err
}

// A Change is one name that stands for something else than before. Before is nil for
// what was made, After for what was removed.
type Change struct {
	Path   Name   `json:"path"`           // below the workspace
	Root   string `json:"root,omitempty"` // below this directory instead: of what Place gives
	Before *Entry `json:"before,omitempty"`
	After  *Entry `json:"after,omitempty"`
	// From is the name that it had, for what was renamed: removed there by the same call.
	From Name `json:"from,omitempty"`
	// Late: the call's supervisor was killed, and this was changed after it had died.
	Late bool `json:"late,omitempty"`
}

// A tree is the content of a workspace when it was last looked at.
type tree map[string]Entry

// A look walks a workspace by descriptors and follows no link: a call that is under way
// cannot lead it out by swapping a directory. Directories that have stayed as they were
// since the last look are not read again.
type look struct {
	objects objects
	w       *Workspace
	leftOut func(base string) bool
	in      func(name string) bool
	ahead   bool  // nobody waits for it yet
	all     bool  // nothing is left out; what cannot be looked into says so
	limit   int64 // the largest file that is kept, in bytes
	others  int64 // when the first of the calls that go on was begun, ns; 0 is none
	dev     uint64
	until   time.Time
	names   atomic.Int64  // looked at
	writing []string      // the letters of undos that are under way
	helpers chan struct{} // one for each directory that is looked at beside the first
	helping sync.WaitGroup

	mu      sync.Mutex // of what follows, and of what it notes in w
	err     error
	left    map[string]bool // what passedOver has found out
	visited map[string]bool
	held    map[string]bool // of those, the ones that are as they were
	// What it found: entries that are not what they were (nil: gone), what that changes,
	// and directories of which the watch will tell when they change.
	now     map[string]*Entry
	changes []Change
	watched []watchedDir
}

// Bounds of one look. A program can make more names than anybody can look at, files that
// are large and take no disk, and paths that are longer than any pattern is made for.
const (
	lookTime  = 10 * time.Second
	lookNames = 500_000
	lookDepth = 64 // directories in one another; what lies deeper is left out

	boundEvery = 64 // names that have not changed: the clock costs a tenth of looking at one
)

// errBound means that a look came to one of its bounds, and errLate that this was its time: what it has found is
// kept, and the next one has less to do.
var (
	errEnded = errors.New("no call is to come any more")
	errBound = errors.New("it has too much in it to be looked at")
	errLate  = fmt.Errorf("%w: not done", errBound)
)

func (l *look) bound() error {
	switch {
	case l.ahead && l.w.store.ended.Load():
		return errEnded
	case time.Now().After(l.until):
		return fmt.Errorf("%w after %v; a later look goes on from there", errLate, l.w.patience)
	case l.names.Load() > l.w.mostNames:
		return fmt.Errorf("%w: more than %d names", errBound, l.w.mostNames)
	}
	return nil
}

// begin opens the workspace.
func (l *look) begin() (top *os.File, st unix.Stat_t, err error) {
	fd, err := openRoot(l.w.Root)
	if err != nil {
		return nil, st, err
	}
	top = os.NewFile(uintptr(fd), l.w.Root)
	if err := unix.Fstat(fd, &st); err != nil {
		top.Close()
		return nil, st, &fs.PathError{Op: "stat", Path: l.w.Root, Err: err}
	}
	l.until, l.left = time.Now().Add(l.w.patience-l.w.spent), map[string]bool{".": false}
	l.w.spent = 0
	l.visited, l.held, l.now = map[string]bool{}, map[string]bool{}, map[string]*Entry{}
	l.helpers = make(chan struct{}, runtime.GOMAXPROCS(0)-1)
	l.dev = uint64(st.Dev) //nolint:unconvert // int32 on darwin
	if now := stampOf(&st); now.Dev != l.w.top.Dev || now.Ino != l.w.top.Ino {
		l.w.forget() // another directory stands there
		l.w.top = now
	}
	return top, st, nil
}

// confirm finds the directories that are as the tree has them.
func (l *look) confirm() error {
	top, _, err := l.begin()
	if err != nil {
		return err
	}
	defer top.Close()
	l.hold(int(top.Fd()), l.w.stirred())
	return l.err
}

// run looks at the tree, stores content that is new, and finds what differs.
func (l *look) run(since int) error {
	top, st, err := l.begin()
	if err != nil {
		return err
	}
	defer top.Close()
	fd := int(top.Fd())
	l.top(fd, &st)
	dirs := l.w.stirred()
	if l.w.unheard(since) {
		dirs = slices.Sorted(maps.Keys(l.w.tree.dirs))
	}
	l.hold(fd, dirs)
	for _, name := range l.w.stirred() {
		if _, known := l.now[name]; known || l.visited[name] || name != "" && l.passedOver(name) {
			continue
		}
		dir, err := reach(fd, name)
		if dir != nil {
			err = l.directory(dir, name)
			l.helping.Wait() // then all below it was visited
		}
		l.fails(err)
		if l.err != nil {
			break
		}
	}
	slices.SortFunc(l.changes, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(l.w.unsaid, func(a, b Blind) int { return cmp.Compare(a.Name, b.Name) })
	renames(l.changes)
	return l.err
}

func (l *look) isHeld(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[name]
}

// fails keeps the first error.
func (l *look) fails(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = cmp.Or(l.err, err)
}

// failed reports whether something has failed, here or elsewhere in the look.
func (l *look) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}

// enter looks at a directory: beside the one that it lies in where a processor may be idle.
func (l *look) enter(dir *os.File, name string) error {
	select {
	case l.helpers <- struct{}{}:
		l.helping.Go(func() {
			l.fails(l.directory(dir, name))
			<-l.helpers
		})
		return nil
	default:
		return l.directory(dir, name)
	}
}

// topName is the workspace itself: what it holds is looked at below "", and here are its mode, its owner
// and its access control lists.
const topName = "."

func (l *look) top(fd int, st *unix.Stat_t) {
	if !l.in(topName) {
		return
	}
	e := Entry{Mode: uint32(st.Mode), Owner: ownerOf(st), Attributes: listOfDirectory(fd), Seen: stampOf(st)} //nolint:unconvert // uint16 on darwin
	e.Seen.Mtime, e.Seen.Ctime = 0, 0                                                                         // of what lies in it
	if old, known := l.w.tree.entry(topName); known && old.Seen.is(e.Seen) {
		l.note(topName, e, old, known)
	} else { // no call has made it
		l.found(topName, &e, nil)
	}
}

// found notes what stands at a name now, nil for nothing, and what that changes.
func (l *look) found(name string, e *Entry, c *Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now[name] = e; c != nil {
		l.changes = append(l.changes, *c)
	}
}

// hold holds directories against the tree, on all processors. Those in which nothing has changed are done with: most of
// a workspace is, and for them a look is one call of the kernel for each name.
func (l *look) hold(top int, dirs []string) {
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		l.helping.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(dirs) && !l.failed(); i = int(next.Add(1)) - 1 {
				if !l.holds(top, dirs[i]) {
					l.w.stir(dirs[i])
				}
				l.fails(l.bound())
			}
		})
	}
	l.helping.Wait()
}

// holds reports whether a directory, and each name in it, is what it was. It asks nobody which names calls may change:
// what is as it was is as it was for all of them. A directory that a look has more to say of is not held.
func (l *look) holds(top int, name string) bool {
	dir, there := l.w.tree.entry(name)
	if !there || !dir.Listed {
		return false
	}
	fd, err := openIn(top, name)
	if err != nil {
		return false // the look at the one that it was in finds out why
	}
	defer unix.Close(fd)
	quiet := l.w.same(name, dir.Seen)
	told := !quiet && l.w.watch(name, fd)
	if !quiet && l.w.deaf(told) {
		l.apart("", "")
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || dir.Seen != stampOf(&st) {
		return false
	}
	in := l.w.tree.dirs[name]
	for i, base := range in.names {
		e := &in.entries[i]
		if unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || e.Seen != stampOf(&st) {
			return false
		}
		switch e.kind() {
		case unix.S_IFREG:
			if st.Nlink > 1 { // its other name can change it, and tells nobody
				return false
			}
		case unix.S_IFDIR:
			if e.Cache || e.Unkept != "" || l.leftOut(base) { // what is passed over is said
				return false
			}
		}
	}
	l.names.Add(int64(len(in.names)))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.visited[name], l.held[name] = true, true
	if told {
		l.watched = append(l.watched, watchedDir{name, dir.Seen})
	}
	return true
}

// openBelow returns nil if the name is no longer a directory: the look at its parent
// reports that.
func openBelow(top int, name string) *os.File {
	f, _ := reach(top, name)
	return f
}

// reach is openBelow, and an error where it could not find out.
func reach(top int, name string) (*os.File, error) {
	fd, err := openStepwise(top, name)
	switch {
	case exhausted(err):
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	case err != nil:
		return nil, nil
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openStepwise opens a directory below top, and follows no link.
func openStepwise(top int, name string) (int, error) {
	fd, err := unix.Openat(top, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for _, base := range strings.FieldsFunc(name, func(r rune) bool { return r == '/' }) {
		if err != nil {
			break
		}
		up := fd
		fd, err = openDirectory(up, base)
		_ = unix.Close(up)
	}
	return fd, err
}

// exhausted reports whether it is this process, or the machine, that could not open more. The look fails then: what it
// passed over would be lost without a word, and the next look would take it for something that a call has made.
func exhausted(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// passedOver reports whether the name, or a directory that it lies in, is left out.
func (l *look) passedOver(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passes(name)
}

// passedOverKnown is passedOver for a name of the tree: a file that is not a directory is never left out
// by its name.
func (l *look) passedOverKnown(name string) bool {
	if e, known := l.w.tree.entry(name); known && !e.IsDir() {
		return l.passedOver(path.Dir(name)) || !l.in(name)
	}
	return l.passedOver(name)
}

func isDirectoryAt(dir int, base string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

func (l *look) passes(name string) bool {
	left, known := l.left[name]
	if !known {
		left = l.passes(path.Dir(name)) || l.leftOut(path.Base(name)) || !l.in(name)
		l.left[name] = left
	}
	return left
}

// directory looks at what dir holds, and closes it.
func (l *look) directory(dir *os.File, below string) error {
	defer dir.Close()
	l.mu.Lock()
	l.visited[below] = true
	l.mu.Unlock()
	fd := int(dir.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if uint64(st.Dev) != l.dev { //nolint:unconvert // int32 on darwin
		return nil // mounted there meanwhile
	}
	told, all, now := l.w.watch(below, fd), true, time.Now()
	if l.w.deaf(told) {
		l.apart("", "")
	}
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	prefix := below + "/"
	if below == "" {
		prefix = ""
	}
	paths := make([]string, 0, len(names)) // of those that are looked at
	for _, base := range names {
		switch name := prefix + base; {
		case l.leftOut(base) && isDirectoryAt(fd, base): // a file or a link of that name is somebody's
			l.apart("", "")
			all = false
		case !l.in(name):
			told, all = false, false // another call may change it
		default:
			paths = append(paths, name)
		}
	}
	known := 0
	for i, name := range paths {
		base := name[len(prefix):]
		var st unix.Stat_t
		if unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW) != nil { // gone meanwhile
			paths[i], all = "", false
			continue
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR && !l.all && slices.Contains(l.writing, lettersIn(base)) {
			paths[i], all = "", false // of an undo that is under way: it would be brought back with another call
			continue
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR && l.leftOut(base) { // a moment ago it was none
			l.apart("", "")
			paths[i], all = "", false
			continue
		}
		if st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink > 1 {
			told = false // it can be changed by its other name
		}
		was, err := l.name(fd, base, name, &st)
		if l.names.Add(1)%boundEvery == 0 {
			err = cmp.Or(err, l.bound())
		}
		if err != nil {
			return err
		}
		if was {
			known++
		}
	}
	if err := l.bound(); err != nil {
		return err
	}
	if l.failed() {
		return nil
	}
	if known < l.w.tree.dirs[below].len() {
		told = l.notThere(below, paths) && told
	}
	seen := stampOf(&st)
	l.listed(below, seen, all && now.UnixNano()-max(seen.Mtime, seen.Ctime) >= grain(seen.Ctime).Nanoseconds())
	if told {
		l.mu.Lock()
		l.watched = append(l.watched, watchedDir{below, seen})
		l.mu.Unlock()
	}
	return nil
}

// listed notes of a directory whether all that lay in it at that time is in the tree, or is about to be. What comes so
// soon after its last change that it could bear the same time would be missed.
func (l *look) listed(name string, seen stamp, all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.now[name]
	if old, known := l.w.tree.entry(name); e == nil && known {
		e = &old
	}
	if e == nil || e.Listed == (all && e.Seen == seen) {
		return
	}
	now := *e
	now.Listed = !now.Listed
	l.now[name] = &now
}

// apart notes that there is a directory which is not looked at, and why, if that is to be reported.
func (l *look) apart(name, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.w.apart = true
	l.w.blind(name, why)
}

// notThere looks at the known names of a directory that it does not have. It reports whether none of them is another
// call's to change.
func (l *look) notThere(below string, paths []string) (told bool) {
	there := make(map[string]bool, len(paths))
	for _, name := range paths {
		there[name] = true
	}
	told = true
	for _, base := range l.w.tree.namesIn(below) {
		switch name := joinName(below, base); {
		case there[name]:
		case l.passedOverKnown(name):
			old, _ := l.w.tree.entry(name)
			told = told && l.leftOut(base) && old.IsDir()
		default:
			l.gone(name)
		}
	}
	return told
}

// name looks at one name of a directory, and says whether it was known.
func (l *look) name(dir int, base, name string, st *unix.Stat_t) (known bool, err error) {
	e := Entry{Mode: uint32(st.Mode), Owner: ownerOf(st), Seen: stampOf(st)} //nolint:unconvert // uint16 on darwin
	old, known := l.w.tree.entry(name)
	switch e.kind() {
	case unix.S_IFDIR:
		if e.Seen == old.Seen {
			e.Listed = old.Listed
		}
		if known && old.IsDir() && (l.w.same(name, e.Seen) || e.Listed && l.isHeld(name)) {
			e.Cache, e.Unkept, e.Attributes = old.Cache, old.Unkept, old.Attributes
			l.note(name, e, old, known)
			return known, nil
		}
		fd, err := openDirectory(dir, base)
		if exhausted(err) {
			return known, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		if e.Unkept = l.closed(name, st, err); err != nil || e.Unkept != "" {
			_ = unix.Close(fd)
			l.apart(name, e.Unkept)
			break
		}
		e.Attributes = listOfDirectory(fd)
		if e.Cache = old.Cache; (!known || !old.IsDir()) && !l.all {
			e.Cache = isCache(fd) && !l.w.lookedInto(name, e.Seen)
		}
		l.note(name, e, old, known)
		if e.Cache { // whoever brought the tag: a repository may have one among its sources
			l.apart(name, "its CACHEDIR.TAG says that it can be made again, and what calls remove there does not come back")
			return known, unix.Close(fd)
		}
		return known, l.enter(os.NewFile(uintptr(fd), name), name)
	case unix.S_IFLNK:
		e.Link = Name(readLink(dir, base))
	case unix.S_IFREG:
		e.Size = st.Size
		if known && old.Size == e.Size && old.Mode&unix.S_IFMT == unix.S_IFREG && old.Seen == e.Seen && !old.Seen.Racy {
			e.Hash, e.Attributes, e.Unkept = old.Hash, old.Attributes, old.Unkept
			break
		}
		if err := l.keep(dir, base, &e); err != nil {
			return known, fmt.Errorf("keep %s: %w", name, err)
		}
		if err := l.bound(); err != nil { // it may have been large
			return known, err
		}
	}
	if !e.IsDir() && (!known || old.IsDir()) { // else nothing was
		l.goneBelow(name)
	}
	l.note(name, e, old, known)
	return known, nil
}

// closed says why what is in a directory cannot be looked at, and calls may change it; "" if it can.
func (l *look) closed(name string, st *unix.Stat_t, open error) string {
	switch {
	case uint64(st.Dev) != l.dev: //nolint:unconvert // int32 on darwin
		return "another file system is mounted there"
	case open != nil && (l.all || errors.Is(open, fs.ErrPermission) && int(st.Uid) == os.Geteuid()): // a call can open it
		return "it is closed: " + open.Error()
	case strings.Count(name, "/") >= lookDepth:
		return tooDeep
	}
	return ""
}

func (l *look) note(name string, e, old Entry, known bool) {
	blind := e.IsDir() && e.Mode == old.Mode && e.Unkept != "" && e.Unkept == old.Unkept // what is in it is not known
	if known && e == old {
		return
	}
	now := e // most names come no further, and cost no memory
	switch {
	case !known:
		l.found(name, &now, &Change{Path: Name(name), After: &now})
	case !e.same(old) && !blind:
		l.found(name, &now, &Change{Path: Name(name), Before: new(old), After: &now})
	default:
		l.found(name, &now, nil)
	}
}

// gone notes that a name, and what was below it, is not there any more.
func (l *look) gone(name string) {
	if old, known := l.w.tree.entry(name); known {
		l.found(name, nil, &Change{Path: Name(name), Before: &old})
	} else {
		l.found(name, nil, nil)
	}
	l.goneBelow(name)
}

func (l *look) goneBelow(name string) {
	for _, base := range l.w.tree.namesIn(name) {
		if below := joinName(name, base); l.passedOverKnown(below) {
			l.forgotten(below)
		} else {
			l.gone(below)
		}
	}
}

// forgotten is what went with a directory and is not among the things that calls could
// change.
func (l *look) forgotten(name string) {
	l.found(name, nil, nil)
	for _, base := range l.w.tree.namesIn(name) {
		l.forgotten(joinName(name, base))
	}
}

// lookedInto reports whether what lay in a directory has been kept, under this name or another one. A call
// cannot take such a directory out of the record by a tag.
func (w *Workspace) lookedInto(name string, now stamp) bool {
	for _, e := range w.tree.all() {
		if e.IsDir() && !e.Cache && e.Seen.Dev == now.Dev && e.Seen.Ino == now.Ino {
			return true
		}
	}
	records, err := w.Calls()
	return err != nil || slices.ContainsFunc(records, func(r Record) bool {
		return slices.ContainsFunc(r.Changes, func(c Change) bool {
			return strings.HasPrefix(string(c.Path), name+"/") || string(c.Path) == name && c.Before.isDir() && !c.Before.Cache
		})
	})
}

func larger(limit int64) string { return fmt.Sprintf("larger than %d MiB", limit>>20) }

// keep stores a file's content.
func (l *look) keep(dir int, base string, e *Entry) error {
	if e.Size > l.limit {
		e.Unkept = larger(l.limit)
		return nil
	}
	// A FIFO may stand there by now: never wait for one.
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if exhausted(err) {
		return err
	}
	if err != nil {
		e.Unkept = "not readable: " + err.Error()
		return nil
	}
	f := os.NewFile(uintptr(fd), base)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		e.Unkept = "not readable: it was replaced meanwhile"
		return nil
	}
	now := time.Now()
	// It may have grown since: half of it would come back in the place of the whole.
	if e.Hash, err = l.objects.keep(f, st.Size, l.limit); errors.Is(err, errGrown) {
		e.Size, e.Seen, e.Unkept = st.Size, stampOf(&st), larger(l.limit)
		return nil
	}
	if err != nil {
		return err
	}
	e.Attributes = attributesOf(fd)
	e.Mode, e.Owner, e.Size, e.Seen = uint32(st.Mode), ownerOf(&st), st.Size, stampOf(&st) //nolint:unconvert // uint16 on darwin
	last := max(e.Seen.Mtime, e.Seen.Ctime)
	tick := grain(e.Seen.Ctime)
	e.Seen.Racy = now.UnixNano()-last < tick.Nanoseconds() || l.others != 0 && last+(tick-clockTick).Nanoseconds() >= l.others // or is to come
	return nil
}

// renames notes which of the new names are old ones.
func renames(list []Change) {
	gone := map[[2]uint64]Name{}
	for _, c := range list {
		if c.After == nil {
			gone[[2]uint64{c.Before.Seen.Dev, c.Before.Seen.Ino}] = c.Path
		}
	}
	for i, c := range list {
		if c.Before == nil {
			list[i].From = gone[[2]uint64{c.After.Seen.Dev, c.After.Seen.Ino}]
		}
	}
}

func readLink(dir int, base string) string {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, base, buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// cacheTag begins the file CACHEDIR.TAG, by which a program says that a directory can be
// made again (bford.info/cachedir). Cargo's target and pip's, ruff's and pytest's caches have it.
const cacheTag = "Signature: 8a477f597d28d172789f06886806bc55"

func isCache(dir int) bool {
	fd, err := unix.Openat(dir, "CACHEDIR.TAG", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	buf := make([]byte, len(cacheTag))
	n, _ := unix.Read(fd, buf)
	return string(buf[:max(n, 0)]) == cacheTag
}

// A treeLine is a name of a list, in JSON.
type treeLine struct {
	Path  Name   `json:"path"`
	Entry *Entry `json:"entry,omitempty"` // nil: it is gone
}

// known are the names of the tree, those that changed in records, and the directories
// that they lie in.
func (t *snapshot) known(changed ...string) func(name string) bool {
	more := map[string]bool{}
	for _, name := range changed {
		for ; name != topName; name = path.Dir(name) {
			more[name] = true
		}
		more[topName] = true
	}
	return func(name string) bool {
		_, in := t.entry(name)
		return in || more[name]
	}
}

func (t *snapshot) hashes() map[string]bool {
	in := map[string]bool{}
	for _, e := range t.all() {
		in[e.Hash] = true
	}
	return in
}
