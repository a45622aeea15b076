package changes

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A Draft is the effect of calls on workspaces that they saw through an overlay (overlayfs):
// none of it is in the workspaces before a person keeps it.
type Draft struct {
	ID         string   `json:"id"`
	Roots      []string `json:"roots"`      // absolute, without links
	Identities []rootID `json:"identities"` // of the roots
	Command    []string `json:"command"`
	// Beside are those of the roots that lie beside the others: of a package, the repository's own files. The first
	// root is the workspace that they belong to.
	Beside []string  `json:"beside,omitempty"`
	Began  time.Time `json:"began"`
	// Foreign is a name that this user's overlays do not let calls write (EOVERFLOW), or "".
	Foreign string `json:"foreign,omitempty"`
	// Copied: no overlay could be laid over the roots, and calls work on copies of them. Moved:
	// they cannot lie over the roots either, and calls find them where they are.
	Copied bool `json:"-"`
	Moved  bool `json:"-"`

	dir string
}

// draftFile describes a draft, in its directory. For each root it has a directory, by number: its
// original content (base), the calls' writes (upper), the kernel's work directory (work), or else
// a copy of the root (copy) with its original state (copied), and the view for a person who looks
// at the changes (changes).
const draftFile = "draft.json"

// NewDraft makes a draft of roots, and of what lies beside them, below dir, a directory of its user alone.
func NewDraft(dir string, roots, command []string, beside ...string) (*Draft, error) {
	sweepDrafts(dir)
	// A file's time can lag behind the clock by one of its ticks.
	roots = slices.Concat(roots, beside)
	d := &Draft{Roots: roots, Beside: beside, Command: command, Began: time.Now().Add(-clockTick)}
	d.ID = fmt.Sprintf("%s-%s", d.Began.UTC().Format("20060102T150405"), strings.ToLower(rand.Text()[:4]))
	d.dir = filepath.Join(dir, d.ID)
	for i, root := range roots {
		fd, err := openRoot(root)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("draft: %w", err), d.Drop())
		}
		id, err := identityOf(fd)
		unix.Close(fd)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("draft: %w", err), d.Drop())
		}
		d.Identities = append(d.Identities, id)
		for _, part := range []string{"upper", "work"} {
			if err := os.MkdirAll(d.part(i, part), 0o700); err != nil {
				return nil, fmt.Errorf("draft: %w", err)
			}
		}
		top, err := d.writeBase(i)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("draft: list the files in %s: %w", root, err), d.Drop())
		}
		top.Mode |= 0o700
		if err := dress(unix.AT_FDCWD, d.part(i, "upper"), &top); err != nil { // which is what calls see as the root
			return nil, errors.Join(fmt.Errorf("draft: %w", err), d.Drop())
		}
	}
	b, err := json.Marshal(d)
	if err == nil {
		err = replace(filepath.Join(d.dir, draftFile), b)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("draft: %w", err), d.Drop())
	}
	return d, nil
}

// OpenDraft opens one by its directory.
func OpenDraft(dir string) (*Draft, error) {
	b, err := os.ReadFile(filepath.Join(dir, draftFile))
	d := &Draft{dir: dir}
	if err == nil {
		err = json.Unmarshal(b, d)
	}
	if err == nil && d.ID != filepath.Base(dir) {
		err = errors.New("it describes another one")
	}
	if err != nil {
		return nil, fmt.Errorf("draft %s: %w", filepath.Base(dir), err)
	}
	d.Copied, d.Moved = d.noted(copiedFile), d.noted(movedFile)
	return d, nil
}

// Drafts lists those below dir, the oldest first.
func Drafts(dir string) (l []*Draft) {
	files, _ := filepath.Glob(filepath.Join(dir, "*", draftFile))
	for _, f := range files {
		if d, err := OpenDraft(filepath.Dir(f)); err == nil {
			l = append(l, d)
		}
	}
	return l
}

// check holds a root against the one that the draft was made over: a call may have moved it, or one of the
// directories it lies in, and left a link to a place where no call may write, and another disk may be
// mounted there.
func (d *Draft) check(root int) error {
	fd, err := openRoot(d.Roots[root])
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return d.checkOpen(root, fd)
}

func (d *Draft) checkOpen(root, fd int) error {
	id, err := identityOf(fd)
	if err == nil && (root >= len(d.Identities) || !id.is(d.Identities[root])) {
		err = fmt.Errorf("%w: another directory is %s now", ErrConflict, d.Roots[root])
	}
	return err
}

// A rootID tells a directory from others, on other disks too: the top directories of all file systems of a kind
// have one inode number.
type rootID struct {
	Inode uint64 `json:"inode"`
	Born  int64  `json:"born"` // ns; 0 where the file system does not say it
	Disk  string `json:"disk"` // the file system's identifier
}

func (id rootID) is(o rootID) bool {
	if id.Born != 0 && o.Born != 0 {
		return id.Inode == o.Inode && id.Born == o.Born // the other one may be new with each mount
	}
	return id.Inode == o.Inode && id.Disk == o.Disk
}

func (d *Draft) part(root int, name string) string {
	return filepath.Join(d.dir, fmt.Sprint(root), name)
}

// ErrInUse means that something works on a draft.
var ErrInUse = errors.New("something still works on it")

// Hold keeps others from working on a draft, and from keeping or dropping it, until the file is closed:
// here, and in each process that it was handed to.
func (d *Draft) Hold() (*os.File, error) {
	f, err := os.Open(filepath.Join(d.dir, draftFile))
	if err != nil {
		return nil, fmt.Errorf("draft %s: %w", d.ID, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, fmt.Errorf("draft %s: %w", d.ID, err)
	}
	return f, nil
}

// IsHeldBy reports whether a descriptor is the one that Hold gives.
func (d *Draft) IsHeldBy(fd int) bool {
	var held, is unix.Stat_t
	return unix.Fstat(fd, &held) == nil && unix.Stat(filepath.Join(d.dir, draftFile), &is) == nil && held.Dev == is.Dev && held.Ino == is.Ino
}

// Files that are there for a draft that calls are at work on, and for one that a killed sandgate has left
// so: it has a part of what they were about to do.
const atWorkFile, cutOffFile = "at-work", "cut-off"

// Begin notes that calls work on the draft from here on. The caller holds it, as for End.
func (d *Draft) Begin() error { return d.note(atWorkFile) }

// End notes that nothing works on it any more.
func (d *Draft) End() error { return d.forgetNote(atWorkFile) }

func (d *Draft) forgetNote(file string) error {
	if err := os.Remove(filepath.Join(d.dir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("draft %s: %w", d.ID, err)
	}
	return nil
}

// WasCutOff reports whether calls were killed that worked on the draft. first: this has not been reported
// yet. A draft that something works on was not cut off by now.
func (d *Draft) WasCutOff() (first, was bool) {
	was = d.noted(cutOffFile)
	if !d.noted(atWorkFile) {
		return false, was
	}
	lock, err := d.Hold()
	if err != nil {
		return false, was
	}
	defer lock.Close()
	if !d.noted(atWorkFile) { // it has ended meanwhile
		return false, was
	}
	if d.note(cutOffFile) == nil {
		_ = d.End() // else it is told again
	}
	return true, true
}

// outOfReach reports whether calls of the draft see nothing of a root: a copy at another path is not part of a
// repository.
func (d *Draft) outOfReach(root int) bool { return d.Moved && slices.Contains(d.Beside, d.Roots[root]) }

// Dir is where it lies: no sandbox may see it.
func (d *Draft) Dir() string { return d.dir }

// Quarantine is where what calls on the draft planted is kept. It goes with the draft.
func (d *Draft) Quarantine() string { return filepath.Join(d.dir, "quarantine") }

// Drop removes a draft: at once for everybody else, and what a kill leaves of it goes with the next one that
// is made. A directory of it may be closed to its owner, and lie deeper than a path can be long, or
// than there are descriptors for.
func (d *Draft) Drop() error {
	if dropped := d.dir + droppedSuffix; d.dir != "" && os.Rename(d.dir, dropped) == nil {
		d.dir = dropped
	}
	// Calls of a killed sandgate may live on for a moment: a link that they put in the place of a directory leads nowhere.
	if top, err := os.OpenRoot(d.dir); err == nil {
		_ = fs.WalkDir(top.FS(), ".", func(p string, e fs.DirEntry, _ error) error {
			if e != nil && e.IsDir() {
				_ = top.Chmod(p, 0o700)
			}
			return nil
		})
		_ = top.Close()
	}
	err := removeDeep(d.dir)
	for try := 0; isSwapped(err) && try < 100; try++ {
		err = removeDeep(d.dir)
	}
	if err != nil {
		return fmt.Errorf("draft %s: %w", d.ID, err)
	}
	return nil
}

// isSwapped reports whether a name was something else than a moment before.
func isSwapped(err error) bool {
	return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ELOOP)
}

// A directory is a draft only once it is described, and no longer once it has the suffix.
const droppedSuffix = ".dropped"

// unmadeTime is how long a draft takes to be made, at most.
const unmadeTime = time.Hour

// sweepDrafts removes what killed processes have left of drafts that were being made or dropped.
func sweepDrafts(dir string) {
	left, _ := os.ReadDir(dir)
	for _, e := range left {
		if d := (&Draft{dir: filepath.Join(dir, e.Name())}); d.isLeft(e) {
			_ = d.Drop()
		}
	}
}

var draftName = regexp.MustCompile(`^[0-9]{8}T[0-9]{6}-[a-z2-7]{4}(` + regexp.QuoteMeta(droppedSuffix) + `)?$`)

func (d *Draft) isLeft(e fs.DirEntry) bool {
	if !e.IsDir() || !draftName.MatchString(e.Name()) {
		return false
	}
	if f, err := os.Open(filepath.Join(d.dir, draftFile)); err == nil {
		defer f.Close()
		// The process that drops it now holds it.
		return strings.HasSuffix(e.Name(), droppedSuffix) && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
	}
	if strings.HasSuffix(e.Name(), droppedSuffix) { // the description goes early; two may well remove the rest
		return true
	}
	info, err := e.Info()
	return err == nil && time.Since(info.ModTime()) > unmadeTime
}

// removeDeep removes a tree, however deep: directories that lie deep in it are moved up.
func removeDeep(dir string) error {
	for n := 0; ; n++ {
		err := os.RemoveAll(dir)
		var at *fs.PathError
		if !errors.As(err, &at) || n == 10_000 {
			return err
		}
		if !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENAMETOOLONG) || !liftDeep(dir, fmt.Sprintf("deep-%d", n)) {
			return at.Err // its path may be longer than anybody reads
		}
	}
}

// liftDeep makes a directory that lies deep below dir one of dir's own.
func liftDeep(dir, as string) bool {
	top, err := openDirectory(unix.AT_FDCWD, dir)
	if err != nil {
		return false
	}
	defer unix.Close(top)
	at := openBelow(top, "")
	for range lookDepth {
		if at == nil {
			return false
		}
		base := firstDirectory(at)
		below, err := openDirectory(int(at.Fd()), base)
		at.Close()
		if base == "" || err != nil {
			return false
		}
		at = os.NewFile(uintptr(below), base)
	}
	defer at.Close()
	base := firstDirectory(at)
	return base != "" && unix.Renameat(int(at.Fd()), base, top, as) == nil
}

func firstDirectory(dir *os.File) string {
	l, _ := dir.ReadDir(-1)
	for _, e := range l {
		if e.IsDir() {
			return e.Name()
		}
	}
	return ""
}

// A DraftPlan is the effect of keeping a draft on one root.
type DraftPlan struct {
	Undo
	w *Workspace
}

// Plan says what keeping the draft, or what of it lies at or below one of paths, would
// do to the root of that number. It changes nothing.
func (d *Draft) Plan(root int, o Options, paths []string) (p DraftPlan, err error) {
	if d.outOfReach(root) {
		return p, nil
	}
	wrap := func(err error) error { return fmt.Errorf("draft %s: %w", d.ID, err) }
	if p.w, err = d.workspace(root, o); err != nil {
		return p, wrap(err)
	}
	u := newUpper(p.w.objects, o.File)
	err = p.w.locked(func() error {
		read := u.read
		if d.Copied {
			read = func(string) error { return d.readCopy(root, u) }
		}
		if err := read(d.part(root, "upper")); err != nil {
			return err
		}
		return p.w.look(u.concerns(), true, notSince)
	})
	if err != nil {
		return p, wrap(err)
	}
	b, err := d.base(root, u.concerns())
	if err != nil {
		return p, wrap(err)
	}
	p.Undo = u.plan(p.w.tree, b, paths)
	if err := d.noteBefore(root, b, p.Steps); err != nil {
		return p, wrap(err)
	}
	err = p.w.locked(func() error {
		p.mergeAll(p.w)
		return nil
	})
	if err != nil {
		return p, wrap(err)
	}
	return p, nil
}

// workspace is what is remembered of a root to look at a draft: it is looked at anew.
// Contents stay: 30,000 take seconds to store. Nothing is dropped, and a person waits
// for it.
func (d *Draft) workspace(root int, o Options) (*Workspace, error) {
	if err := d.check(root); err != nil {
		return nil, err
	}
	// What a person keeps is kept, and a draft is compared with all that it changes: what was
	// passed over here would seem not to be there.
	o.Size, o.Age, o.LeaveOut, o.all = math.MaxInt64, math.MaxInt64, nil, true
	dir := d.part(root, "changes")
	seen, _ := filepath.Glob(filepath.Join(dir, "*", "tree*"))
	for _, file := range seen {
		if err := os.Remove(file); err != nil {
			return nil, err
		}
	}
	s, err := Open(dir, o)
	if err != nil {
		return nil, err
	}
	w, err := s.Workspace(d.Roots[root])
	if err == nil {
		w.patience = draftLookTime
	}
	return w, err
}

// Bounds of a look at a draft: what lies in it is the agent's choice. A person waits for it, and no call.
const (
	draftLookTime = 10 * time.Minute
	draftBytes    = 4 << 30
)

// Content gives what an entry of the plan holds.
func (p DraftPlan) Content(e *Entry) ([]byte, error) { return p.w.Content(e) }

// Same reports whether two steps do the same to the same thing. When a draft's own files were
// last touched says nothing: to look at them touches some.
func (s Step) Same(o Step) bool {
	for _, x := range []*Step{&s, &o} {
		if x.Was != nil {
			e := *x.Was
			e.Seen, x.Was = stamp{}, &e
		}
		if x.Now != nil {
			e := *x.Now
			e.Seen.Racy, x.Now = false, &e
		}
		if x.Own != nil {
			e := *x.Own
			e.Seen, x.Own = stamp{}, &e
		}
	}
	return reflect.DeepEqual(s, o)
}

// upper reads an overlay's upper directory: a whiteout is a device 0/0, a directory that stands
// for another one of the name is opaque (Documentation/filesystems/overlayfs.rst). For a copy it
// is the difference from was; there a call could make those signs itself, and they mean nothing.
type upper struct {
	objects objects
	limit   int64
	found   map[string]*Entry // nil: it was removed
	whole   map[string]bool   // nothing that was below it is there any more
	was     tree              // of a copy, when it was made; nil: it is an overlay
	left    tree              // of was, what was not met yet
	names   int               // looked at
	bytes   int64             // that were read: holes count, which take no disk and as much time
}

func newUpper(o objects, limit int64) *upper {
	return &upper{objects: o, limit: limit, found: map[string]*Entry{}, whole: map[string]bool{}}
}

func (u *upper) read(dir string) error {
	fd, err := openDirectory(unix.AT_FDCWD, dir)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	// The root itself: its mode alone, because its owner cannot be changed here, and its lists are the
	// disk's.
	e := &Entry{Mode: uint32(st.Mode), Seen: stampOf(&st)} //nolint:unconvert // uint16 on darwin
	if old, there := u.was[topName]; u.was == nil || !there || old.Mode != e.Mode {
		u.found[topName] = e
	}
	delete(u.left, topName)
	return u.directory(os.NewFile(uintptr(fd), dir), "")
}

func (u *upper) directory(dir *os.File, below string) error {
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	l := look{objects: u.objects, limit: u.limit}
	fd := int(dir.Fd())
	for _, base := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if u.names++; u.names > lookNames {
			return fmt.Errorf("%w: more than %d names", errBound, lookNames)
		}
		name := path.Join(below, base)
		e := &Entry{Mode: uint32(st.Mode), Owner: ownerOf(&st), Seen: stampOf(&st)} //nolint:unconvert // uint16 on darwin
		overlay := u.was == nil
		if overlay && e.kind() == unix.S_IFCHR && st.Rdev == 0 {
			u.found[name], u.whole[name] = nil, true
			continue
		}
		old, there := u.was[name]
		delete(u.left, name)
		same := there && old.untouched(e)
		if same && !e.IsDir() {
			continue
		}
		if !same {
			u.found[name] = e
		}
		switch e.kind() {
		case unix.S_IFDIR:
			if err := u.below(fd, base, name, e); err != nil {
				return err
			}
			continue
		case unix.S_IFLNK:
			e.Link = Name(readLink(fd, base))
		case unix.S_IFREG:
			e.Size = st.Size
			if st.Size <= u.limit {
				u.bytes += st.Size
			}
			if u.bytes > draftBytes {
				e.Unkept = fmt.Sprintf("the draft has more than %d MiB", draftBytes>>20)
			} else if err := l.keep(fd, base, e); err != nil {
				return fmt.Errorf("keep %s: %w", name, err)
			}
		}
		u.whole[name] = overlay
	}
	return nil
}

// tooDeep says of a directory that what lies in it is not looked at.
const tooDeep = "it is nested too deep"

// below reads a directory, which may be closed to its owner.
func (u *upper) below(dir int, base, name string, e *Entry) error {
	fd, err := openDirectory(dir, base)
	if errors.Is(err, fs.ErrPermission) {
		mode := e.Mode & 0o7777
		if err = unix.Fchmodat(dir, base, mode|0o700, unix.AT_SYMLINK_NOFOLLOW); err == nil {
			defer func() { _ = unix.Fchmodat(dir, base, mode, unix.AT_SYMLINK_NOFOLLOW) }()
			fd, err = openDirectory(dir, base)
		}
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if strings.Count(name, "/") >= lookDepth {
		e.Unkept, u.found[name] = tooDeep, e
		return unix.Close(fd)
	}
	u.whole[name], e.Attributes = u.was == nil && isOpaque(fd), listOfDirectory(fd)
	return u.directory(os.NewFile(uintptr(fd), name), name)
}

// concerns are the names of the workspace that the draft says something about, with the
// directories that they lie in.
func (u *upper) concerns() func(name string) bool {
	var more []string
	for name := range u.found {
		more = append(more, name)
	}
	known := newSnapshot().known(more...)
	return func(name string) bool {
		if known(name) {
			return true
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if u.whole[dir] {
				return true
			}
		}
		return false
	}
}

// plan is pure: from what is in the workspace now to what the draft says.
func (u *upper) plan(now *snapshot, b *base, paths []string) (p Undo) {
	names := make(map[string]bool, len(u.found))
	for name := range u.found {
		names[name] = true
	}
	for name := range now.all() {
		names[name] = true
	}
	ways := map[string]string{}
	for name := range names {
		s := Step{Path: Name(name)}
		if e, ok := now.entry(name); ok {
			s.Now = &e
		}
		said := false
		s.Was, said = u.found[name]
		s.Was = u.keepOwner(name, s.Was, s.Now)
		if s.Was = keepList(s.Was, s.Now); !said && !u.gone(name) || equal(s.Was, s.Now) {
			continue
		}
		// An overlay says the mode of each directory in which a call has made something.
		before, known := b.mode(name)
		if name == topName && (!known || s.Was.Mode == before || s.Was.Mode == before|0o700) {
			continue
		}
		moded := s.Was.isDir() && s.Now.isDir()
		since, way := b.since(name, s.Now), b.onTheWay(name, now, ways)
		if moded && s.Was.Mode == before && since == "" && way == "" {
			continue // somebody has closed or opened it since, and no call
		}
		switch {
		case s.Was != nil && s.Was.Unkept != "":
			s.Conflict, s.Final = "it cannot be kept: "+s.Was.Unkept, true
		case s.Now != nil && s.Now.kind() == unix.S_IFREG && s.Now.Unkept != "": // a keep that fails could not take that back
			s.Conflict, s.Final = "what stands there would be gone for good, since it is not kept ("+s.Now.Unkept+"): remove it yourself, or keep the rest", true
		case unknownIn(now, s) != "":
			s.Conflict, s.Final = "what is there now is not known: "+unknownIn(now, s), true
		case s.Was != nil && !restorable(*s.Was):
			s.Conflict, s.Final = "it is a device, a socket or a pipe, or runs with the rights of its owner", true
		case since != "" || way != "":
			if s.Conflict = cmp.Or(since, way); way == "" && s.mergeable() {
				s.left = b.origin(s.Path) // merged where it is known, and both are texts
			}
		case moded && s.Now.Mode != before:
			s.Conflict = "it was changed since"
		case b.merged[s.Path] != nil: // what somebody had changed is in it, and not in the draft
			s.Conflict, s.left = "it was changed since", b.merged[s.Path]
		}
		p.Steps = append(p.Steps, s)
	}
	above := map[string]bool{}
	for _, s := range p.Steps { // with the directories that are made for them
		if !within(s.Path, paths) {
			continue
		}
		for name := string(s.Path); name != "."; name = path.Dir(name) {
			above[name] = true
		}
	}
	p.Steps = slices.DeleteFunc(p.Steps, func(s Step) bool {
		return !within(s.Path, paths) && !(s.Now == nil && s.Was.isDir() && above[string(s.Path)])
	})
	slices.SortFunc(p.Steps, func(a, b Step) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return p
}

// keepOwner gives an entry the owner that it is to have. In a copy that is the one of what it takes the place of,
// unless a call has changed it: only root can copy that. What is new belongs to whom a call's files belong there.
func (u *upper) keepOwner(name string, e, of *Entry) *Entry {
	if e == nil || of != nil && u.was == nil {
		return e
	}
	with := *e
	switch was, there := u.was[name]; {
	case of == nil:
		with.Owner = 0
	case !there || was.Owner == e.Owner:
		with.Owner = of.Owner
	}
	return &with
}

// unknownIn says why it is not known what a step takes the place of; "" if it is. To change
// the mode of a directory needs no look into it.
func unknownIn(now *snapshot, s Step) string {
	if s.Now != nil && s.Was != nil && s.Was.IsDir() {
		return ""
	}
	for name := string(s.Path); name != "."; name = path.Dir(name) {
		if e, _ := now.entry(name); e.IsDir() && e.Unkept != "" {
			return e.Unkept
		}
	}
	return ""
}

// gone reports whether a name that the draft does not have went with a directory.
func (u *upper) gone(name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, said := u.found[dir]; said {
			return u.whole[dir]
		}
	}
	return false
}
