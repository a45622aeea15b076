package changes

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// An Undo would put names back to their former states.
type Undo struct {
	Records []string // that it takes back, in whole or in part
	Whole   []string // those in whole
	Steps   []Step   // sorted by path
}

// A Step is one name: Now is to become Was.
type Step struct {
	Path Name
	Now  *Entry // as the calls left it; nil: they removed it
	Was  *Entry // nil: they made it
	// Conflict says why it cannot be put back as it is; "" if it can.
	Conflict string
	// Final: nothing can put it back, with or without force.
	Final bool
	// Merged: Was also has somebody's later changes, in other places of the text.
	Merged bool
	// Own is Was without those.
	Own *Entry `json:",omitempty"`

	// From is where the file stands now whose name this was: its content was not kept, and it gets the name back.
	From *Elsewhere `json:",omitempty"`
	// Moves: it gets another name back, and is not removed.
	Moves bool `json:",omitempty"`

	left *Entry // as the calls left it, where something else stands now
	dir  *Entry // the directory that it was between the calls
	in   Record // the first of them that changed it
	lost bool   // nothing but what has become of the content is in the way
	had  Name   // what the file was called before the last call that gave it this name
}

// An Elsewhere is a file under another name.
type Elsewhere struct {
	Path Name
	Is   Entry
}

// Conflicts are the steps that cannot be taken.
func (u Undo) Conflicts() (l []Step) {
	for _, s := range u.Steps {
		if s.Conflict != "" {
			l = append(l, s)
		}
	}
	return l
}

// Blocking are those that keep the whole from being carried out: with force, the final ones.
func (u Undo) Blocking(force bool) []Step {
	return slices.DeleteFunc(u.Conflicts(), func(s Step) bool { return force && !s.Final })
}

// WithoutFinal is the part of an undo that can be carried out with force, and the steps that it leaves out: they
// cannot be done, or would replace what stays, or lie in it. A call could have anything of that kind among a
// person's files, and an undo that it stops would bring back nothing.
func (u Undo) WithoutFinal() (rest Undo, left []Step) {
	final := slices.DeleteFunc(u.Conflicts(), func(s Step) bool { return !s.Final })
	if len(final) == 0 {
		return u, nil
	}
	rest.Records = u.Records
	for _, s := range u.Steps {
		if slices.ContainsFunc(final, s.falls) {
			left = append(left, s)
		} else {
			rest.Steps = append(rest.Steps, s)
		}
	}
	return rest, left
}

// falls reports whether a step cannot be taken where f is not. A directory that has to go may stay with what is in it,
// but nothing else gets its name then.
func (s Step) falls(f Step) bool {
	below := func(a, b Step) bool { return strings.HasPrefix(string(a.Path), string(b.Path)+"/") }
	return s.Path == f.Path || f.Now != nil && (below(s, f) && !f.Now.IsDir() || below(f, s) && s.Was != nil && !s.Was.IsDir())
}

// Plan says what undoing these records comes to: all of what they changed, or what lies
// at or below one of the paths. It looks at the workspace and changes nothing.
func (w *Workspace) Plan(records []Record, paths []string) (u Undo, err error) {
	err = w.locked(func() error {
		if err := w.load(); err != nil {
			return err
		}
		var changed []string
		for _, r := range records {
			for _, c := range r.Changes {
				changed = append(changed, string(c.Path))
			}
		}
		if err := w.look(w.tree.known(changed...), false, 0); err != nil {
			return err
		}
		u = plan(records, paths, w.tree)
		u.mergeAll(w)
		return nil
	})
	if err != nil {
		return u, fmt.Errorf("changes of %s: %w", w.Root, err)
	}
	return u, nil
}

// plan is pure: from the oldest record's before to the newest one's after, and what
// stands there now.
func plan(records []Record, paths []string, now *snapshot) (u Undo) {
	records = slices.Clone(records)
	slices.SortFunc(records, func(a, b Record) int { return strings.Compare(a.ID, b.ID) })
	steps := map[Name]*Step{}
	for _, r := range records {
		took, all := false, true
		for _, c := range r.Changes {
			if !within(c.Path, paths) {
				all = false
				continue
			}
			took = true
			s := steps[c.Path]
			if s == nil {
				s = &Step{Path: c.Path, Was: c.Before, in: r}
				steps[c.Path] = s
			} else if !equal(s.Now, c.Before) {
				s.Conflict = "something else changed it between these calls"
			}
			if c.Late {
				s.Conflict = "it changed after the call ended: another program may have changed it"
			}
			for _, e := range []*Entry{c.Before, c.After} {
				if e.isDir() {
					s.dir = e
				}
			}
			if c.From != "" || !oneFile(s.Now, c.After) { // a later call that has only touched it has renamed it no less
				s.had = c.From
			}
			s.Now = c.After
		}
		if took {
			u.Records = append(u.Records, r.ID)
		}
		if all {
			u.Whole = append(u.Whole, r.ID)
		}
	}
	for name, s := range steps {
		if s.Was != nil && !s.withItsDirectories(steps) {
			delete(steps, name)
		}
	}
	for name, s := range steps {
		var there *Entry
		if e, ok := now.entry(string(name)); ok {
			there = &e
		}
		s.Was = s.Was.asMade(there)
		if equal(there, s.Was) || backBut(there, s.Was) {
			continue // it is back already
		}
		switch {
		case s.Was != nil && s.Was.Unkept != "":
			s.lost = s.Conflict == "" && there == nil && s.Now == nil
			s.Conflict, s.Final = "its content was not kept: "+s.Was.Unkept, !s.Was.IsDir() // which comes back empty
		case s.Was != nil && !restorable(*s.Was):
			s.Conflict, s.Final = "it was a device, a socket or a pipe, or ran with the rights of its owner", true
		case there != nil && s.Was != nil && there.sameButOwner(*s.Was): // an undo was killed before it had given it back
		case !equal(there, s.Now) && s.Conflict == "":
			s.Conflict, s.left = "it was changed since", s.Now
		}
		s.Now = there
		u.Steps = append(u.Steps, *s)
	}
	slices.SortFunc(u.Steps, func(a, b Step) int { return cmp.Compare(a.Path, b.Path) })
	u.renameBack()
	return u
}

// renameBack has files whose content was not kept get their names back: where calls have renamed them, they are still
// there. An entry that would be removed, and whose old name does not come back with this undo, is all that is left of
// it, and so may be something that somebody has put there since: force replaces neither.
func (u *Undo) renameBack() {
	file := func(e *Entry) [2]uint64 { return [2]uint64{e.Seen.Dev, e.Seen.Ino} }
	large := func(e *Entry) bool { return e != nil && e.kind() == unix.S_IFREG && e.Unkept != "" }
	moved := map[[2]uint64]*Step{}
	for i := range u.Steps {
		if s := &u.Steps[i]; s.Was == nil && large(s.Now) && s.Conflict == "" {
			moved[file(s.Now)] = s
		}
	}
	for i := range u.Steps {
		s := &u.Steps[i]
		if !s.lost || !large(s.Was) {
			continue
		}
		m := moved[file(s.Was)]
		if m == nil || m.Now.Size != s.Was.Size || m.Now.Seen.Mtime != s.Was.Seen.Mtime || m.Now.Mode != s.Was.Mode || !restorable(*s.Was) {
			continue
		}
		s.From, s.Conflict, s.Final, m.Moves = &Elsewhere{m.Path, *m.Now}, "", false, true
		delete(moved, file(s.Was)) // it gets one name back
	}
	for _, m := range moved {
		if m.had != "" {
			m.Conflict = "it was " + string(m.had) + ", and no other file has its content"
		}
	}
	for i := range u.Steps { // what may be somebody's is in the undo's own record, or stays
		if s := &u.Steps[i]; s.Conflict != "" && large(s.Now) {
			s.Conflict, s.Final = s.Conflict+"; it would be gone for good, since it is not kept ("+s.Now.Unkept+"): move it away yourself", true
		}
	}
}

// oneFile reports whether both are the same file, whatever has become of it.
func oneFile(a, b *Entry) bool {
	return a != nil && b != nil && a.Seen.Dev == b.Seen.Dev && a.Seen.Ino == b.Seen.Ino
}

// withItsDirectories makes the directories come back, or stay, in which somebody has put a name between the
// calls: these calls made them, and they would go. It gives false for what came and went with a directory
// while two of them ran.
func (s *Step) withItsDirectories(steps map[Name]*Step) bool {
	var made []*Step
	for dir := path.Dir(string(s.Path)); dir != "."; dir = path.Dir(dir) {
		d := steps[Name(dir)]
		switch {
		case d == nil || d.Was.isDir():
		case d.in.ranWith(s.in):
			return false
		case d.Was == nil && d.dir != nil:
			made = append(made, d)
		default:
			s.Conflict = "it was created between these calls, and something else was there before: " + dir
		}
	}
	for _, d := range made {
		d.Was = d.dir
	}
	return true
}

// ranWith reports whether two calls, of which the first has made something, ran at one time. What serves many calls
// runs at the time of all.
func (r Record) ranWith(o Record) bool {
	return r.ID == o.ID || !r.Lasting && (slices.Contains(r.With, o.ID) || slices.Contains(o.With, r.ID))
}

func equal(a, b *Entry) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.same(*b)
}

func restorable(e Entry) bool {
	switch e.kind() {
	case unix.S_IFREG, unix.S_IFDIR, unix.S_IFLNK:
		return e.Mode&(unix.S_ISUID|unix.S_ISGID) == 0 || e.IsDir()
	}
	return false
}

func within(name Name, paths []string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool {
		return p == "." || string(name) == p || strings.HasPrefix(string(name), p+"/")
	})
}

// ErrConflict means that names stand for something that no call left there.
var ErrConflict = errors.New("changed since")

// Apply has names put back, by perform, and records that as a change of its own, so that it
// can be undone too. Nothing is done if a step has a conflict, unless force is set: what
// stands there now is in the record then.
//
// perform hands what it is given to PutBack, in a sandbox that may write what calls may
// write. So an undo is held like a call: whatever a record says, it reaches no more than
// the calls that it came from.
func (w *Workspace) Apply(u Undo, c Call, force bool, perform func(io.Reader) error) (rec Record, err error) {
	if l := u.Blocking(force); len(l) > 0 {
		return rec, fmt.Errorf("undo %s: %w: %s", l[0].Path, ErrConflict, l[0].Conflict)
	}
	var changed []string
	for _, s := range u.Steps {
		changed = append(changed, string(s.Path))
	}
	w.mu.Lock()
	known := w.tree.known(changed...)
	w.mu.Unlock()
	if c.Started.IsZero() {
		c.Started = time.Now()
	}
	r, err := w.begin(c, known, false, u.Steps)
	if err != nil {
		return rec, err
	}
	_, left := w.writing()
	o := order{Steps: u.Steps, Writing: r.writer.letters, Left: left}
	in, out := io.Pipe()
	go func() { out.CloseWithError(w.write(out, o)) }()
	err = perform(in)
	in.Close()
	if err == nil {
		err = w.give(u.Steps)
	}
	rec, ended := r.end(&u, err)
	return rec, errors.Join(err, ended)
}

// An order is the first line that PutBack reads.
type order struct {
	Steps []Step `json:"steps"`
	// Writing is in the names of the files that it writes, and Left in those that killed ones
	// have left, each with when it lived at the latest, ns.
	Writing string           `json:"writing"`
	Left    map[string]int64 `json:"left,omitempty"`
}

// write writes what PutBack reads: the order, then the content of each file that comes back,
// behind its length.
func (w *Workspace) write(out io.Writer, o order) error {
	steps := o.Steps
	line, err := json.Marshal(o)
	if err == nil {
		_, err = out.Write(append(line, '\n'))
	}
	for _, s := range steps {
		if err != nil {
			return err
		}
		if !s.bringsContent() {
			continue
		}
		var content []byte
		if content, err = w.objects.get(s.Was.Hash); err == nil {
			_, err = out.Write(append(binary.BigEndian.AppendUint64(nil, uint64(len(content))), content...))
		}
	}
	return err
}

func (s Step) bringsContent() bool {
	return s.Was != nil && s.Was.kind() == unix.S_IFREG && s.From == nil
}

// PutBack carries out what Apply orders, below root. It goes by descriptors and follows no
// link: a call that is under way may swap directories meanwhile.
func PutBack(root string, ordered io.Reader) error {
	in := bufio.NewReader(ordered)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("undo: read what is to be put back: %w", err)
	}
	a := application{content: in}
	if err := json.Unmarshal(line, &a.order); err != nil {
		return fmt.Errorf("undo: read what is to be put back: %w", err)
	}
	if len(a.Writing) != writingLetters {
		return errors.New("undo: read what is to be put back: nothing says what the files are called while they are written")
	}
	if a.root, err = openRoot(root); err != nil {
		return fmt.Errorf("undo: %w", err)
	}
	defer unix.Close(a.root)
	return a.run()
}

type application struct {
	order
	root    int
	content *bufio.Reader
	bare    []error // files that came back without their attributes
	failed  []Step  // what could not be taken
	why     error   // of the first of them
	// closed are directories that had to be opened to work in them, with what they were.
	closed map[string]stat
	// relinked are the files that we have taken a name from, which has changed their times.
	relinked map[uint64]bool

	opened *os.File // the directory of the last step
	name   string
}

func (a *application) run() error {
	lacking := a.lacking(false)
	if lacking != nil {
		if err := a.lacking(true); err != nil {
			return err
		}
	}
	defer a.leave()
	cleaned := map[string]bool{}
	for _, s := range a.Steps {
		if dir := path.Dir(string(s.Path)); !cleaned[dir] {
			cleaned[dir] = true
			_ = a.at(s, clean) // one that comes back only now has nothing in it
		}
	}
	// What is in the way goes first, and what was made goes last: after a failure everything is
	// still there that was, and a reference of a repository has its objects. Only where the
	// disk has too little room for both is the rest removed first, too.
	a.leave()
	err := a.removals(func(s Step) bool { return lacking != nil || a.inTheWay(s) })
	a.leave()
	for _, s := range a.Steps { // the highest first
		if s.Was != nil && err == nil {
			err = a.restoreNext(s)
		}
	}
	a.leave()
	// What still has what a call wrote, a reference say, may need what calls made.
	left := func(s Step) bool { return s.Was != nil && s.Now != nil && s.Now.kind() == unix.S_IFREG }
	if err == nil && !slices.ContainsFunc(a.failed, left) {
		err = a.removals(func(s Step) bool { return lacking == nil && !a.inTheWay(s) })
	}
	a.leave()
	// Directories get their modes last: one that is closed to writing could not be filled.
	for _, s := range slices.Backward(a.Steps) {
		if s.Was == nil || !s.Was.IsDir() {
			continue
		}
		if moded := a.take(s, (*application).mode); err == nil {
			err = moded
		}
		delete(a.closed, string(s.Path))
	}
	a.leave()
	a.close()
	if err == nil {
		err = a.why
	}
	if n := len(a.failed); n > 1 && err != nil {
		err = fmt.Errorf("%w (and %d more names)", err, n-1)
	}
	if err == nil && len(a.bare) > 0 {
		err = a.bare[0]
	}
	return errors.Join(err, written(a.root))
}

// removals has what was made go, the deepest first.
func (a *application) removals(now func(Step) bool) error {
	for _, s := range slices.Backward(a.Steps) {
		if s.Now == nil || s.Moves || s.Was != nil && s.Was.kind() == s.Now.kind() || !now(s) {
			continue
		}
		if err := a.take(s, (*application).remove); err != nil {
			return err
		}
	}
	return nil
}

// take takes a step. One that cannot be taken keeps no other from being taken: a call can leave at any name what its
// sandbox made and an undo's cannot remove, and nothing that it destroyed elsewhere would come back. It gives an error
// where the next step would fail for the same reason.
func (a *application) take(s Step, do func(a *application, dir int, base string, s Step) error) error {
	err := a.at(s, do)
	if err == nil || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EIO) || exhausted(err) {
		return err
	}
	if !slices.ContainsFunc(a.failed, func(f Step) bool { return f.Path == s.Path }) {
		a.failed = append(a.failed, s)
	}
	if a.why == nil {
		a.why = err
	}
	return nil
}

// inTheWay reports whether what stands at a step's name, or at one above, is of another kind than
// what comes back.
func (a *application) inTheWay(s Step) bool {
	return slices.ContainsFunc(a.Steps, func(o Step) bool {
		return o.Was != nil && o.Now != nil && o.Was.kind() != o.Now.kind() && (o.Path == s.Path || strings.HasPrefix(string(s.Path), string(o.Path)+"/"))
	})
}

// lacking fails if the disk has too little room, before anything is changed: an undo that
// stopped at a full disk would be half of one. A file that is replaced makes room only then;
// removed says that what was made is gone before.
func (a *application) lacking(removed bool) error {
	var st unix.Statfs_t
	if unix.Fstatfs(a.root, &st) != nil || st.Blocks == 0 {
		return nil // then the write that fails tells
	}
	unit := max(int64(st.Bsize), 1) //nolint:unconvert // uint32 on darwin
	taken := func(e *Entry) int64 {
		if e == nil || e.kind() != unix.S_IFREG {
			return 0
		}
		return (e.Size + unit - 1) / unit
	}
	free := int64(st.Bavail) //nolint:gosec // blocks of a disk
	for _, s := range a.Steps {
		if removed && !s.Moves && (s.Was == nil || s.Was.kind() != unix.S_IFREG) {
			free += taken(s.Now)
		}
	}
	for _, s := range a.Steps {
		if need := taken(s.Was); s.From == nil && need > free {
			return fmt.Errorf("undo %s: nothing was done: the disk has too little room left for what comes back: %w", s.Path, unix.ENOSPC)
		}
		if s.bringsContent() {
			free += taken(s.Now) - taken(s.Was)
		}
	}
	return nil
}

// at calls do with the directory that the name lies in.
func (a *application) at(s Step, do func(a *application, dir int, base string, s Step) error) error {
	dir, err := a.directory(path.Dir(string(s.Path)))
	if err == nil {
		err = do(a, dir, path.Base(string(s.Path)), s)
	}
	if err != nil {
		return fmt.Errorf("undo %s: %w", s.Path, err)
	}
	return nil
}

// directory gives a descriptor of a directory, the same one for names of it that follow each other.
func (a *application) directory(name string) (int, error) {
	if a.opened != nil && a.name == name {
		return int(a.opened.Fd()), nil
	}
	a.leave()
	a.enter(a.root, ".", ".")
	fd, err := unix.FcntlInt(uintptr(a.root), unix.F_DUPFD_CLOEXEC, 0)
	below := ""
	for _, part := range strings.Split(name, "/") {
		if err != nil || part == "." {
			break
		}
		below = path.Join(below, part)
		a.enter(fd, part, below)
		up := fd
		fd, err = openDirectory(up, part)
		unix.Close(up)
	}
	if err != nil {
		return -1, err
	}
	a.opened, a.name = os.NewFile(uintptr(fd), name), name
	return fd, nil
}

// A stat is which directory something is, and its mode.
type stat struct {
	ino  uint64
	mode uint32
}

// enter opens a directory to ourselves that is closed to its own owner, until close. Where that
// cannot be, the step that needs it says so.
func (a *application) enter(dir int, base, name string) {
	var st unix.Stat_t
	if unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return
	}
	mode := uint32(st.Mode) //nolint:unconvert // uint16 on darwin
	if mode&unix.S_IFMT != unix.S_IFDIR || mode&0o700 == 0o700 {
		return
	}
	if chmodDirectory(dir, base, mode|0o700) == nil {
		if a.closed == nil {
			a.closed = map[string]stat{}
		}
		a.closed[name] = stat{st.Ino, mode}
	}
}

// close closes what enter has opened and no step was about, the deepest first.
func (a *application) close() {
	closed := a.closed
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(closed))) {
		dir, err := a.directory(path.Dir(name))
		var st unix.Stat_t
		if base := path.Base(name); err == nil && unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Ino == closed[name].ino {
			_ = chmodDirectory(dir, base, closed[name].mode)
		}
		a.leave()
	}
}

// leave forgets the directory: another one may have its name.
func (a *application) leave() {
	if a.opened != nil {
		a.opened.Close()
		a.opened = nil
	}
}

func openDirectory(dir int, base string) (int, error) {
	return unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// still holds what stands there against what was planned for.
func (a *application) still(dir int, base string, e *Entry) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, fs.ErrNotExist) && e == nil:
		return nil
	case err != nil && e != nil:
		return err
	case e == nil:
		return fmt.Errorf("%w: something stands there now", ErrConflict)
	}
	now := stampOf(&st)
	if e.kind() == unix.S_IFSOCK && uint32(st.Mode)&unix.S_IFMT != unix.S_IFSOCK { //nolint:unconvert // uint16 on darwin
		return errors.New("a socket stands there, which no call can reach: remove it yourself and undo with --force")
	}
	if e.kind() != uint32(st.Mode)&unix.S_IFMT || now.Ino != e.Seen.Ino { //nolint:unconvert // uint16 on darwin
		return fmt.Errorf("%w: something else stands there now", ErrConflict)
	}
	sameTime := now.Ctime == e.Seen.Ctime || a.relinked[now.Ino] && uint32(st.Mode) == e.Mode //nolint:unconvert // as above
	if !e.IsDir() && (now.Mtime != e.Seen.Mtime || !sameTime) {
		return fmt.Errorf("%w: while this was being undone", ErrConflict)
	}
	return nil
}

// unlink takes a name from the file ino.
func (a *application) unlink(dir int, base string, ino uint64) error {
	a.relinks(ino)
	return unix.Unlinkat(dir, base, 0)
}

func (a *application) relinks(ino uint64) {
	if a.relinked == nil {
		a.relinked = map[uint64]bool{}
	}
	a.relinked[ino] = true
}

func (a *application) remove(dir int, base string, s Step) error {
	if err := a.still(dir, base, s.Now); err != nil {
		return err
	}
	if !s.Now.IsDir() {
		return a.removeFile(dir, base, s.Now)
	}
	err := unix.Unlinkat(dir, base, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		if s.Was != nil {
			return errors.New("a directory stands there with what is not recorded in it: move it away and undo with --force")
		}
		return nil // it holds what nobody asked to take back
	}
	return err
}

// removeFile has a file go under a name of ours: somebody may have saved something else since it was looked at. Where
// it cannot be renamed, it goes under its own.
func (a *application) removeFile(dir int, base string, now *Entry) error {
	tmp := a.temporary()
	if renameNew(dir, base, dir, tmp) != nil {
		return a.unlink(dir, base, now.Seen.Ino)
	}
	err := a.removeMoved(dir, tmp, now)
	if err != nil && renameNew(dir, tmp, dir, base) != nil {
		err = errors.Join(err, &notPutBack{tmp})
	}
	return err
}

// removeMoved removes a file that has just got the name tmp, unless it is not what was to stand there.
func (a *application) removeMoved(dir int, tmp string, now *Entry) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, tmp, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	// The new name has changed its ctime.
	if was := stampOf(&st); was.Ino != now.Seen.Ino || was.Mtime != now.Seen.Mtime || uint32(st.Mode) != now.Mode { //nolint:unconvert // uint16 on darwin
		return fmt.Errorf("%w: while this was being undone", ErrConflict)
	}
	return a.unlink(dir, tmp, now.Seen.Ino)
}

// temporary is a name for a file that is being written or removed.
func (a *application) temporary() string {
	return unfinished + a.Writing + rand.Text()[writingLetters:]
}

// restoreNext restores a step, whose content is the next one that was sent.
func (a *application) restoreNext(s Step) error {
	var content []byte
	if s.bringsContent() {
		var size uint64
		if err := binary.Read(a.content, binary.BigEndian, &size); err != nil {
			return err
		}
		content = make([]byte, size)
		if _, err := io.ReadFull(a.content, content); err != nil {
			return err
		}
	}
	return a.take(s, func(a *application, dir int, base string, s Step) error { return a.restore(dir, base, s, content) })
}

func (a *application) restore(dir int, base string, s Step, content []byte) error {
	now := s.Now
	if now != nil && now.kind() != s.Was.kind() {
		now = nil // it was removed above
	}
	if err := a.still(dir, base, now); err != nil {
		return err
	}
	if s.From != nil {
		return a.renameBack(dir, base, *s.From)
	}
	if s.Was.IsDir() {
		if now == nil {
			return unix.Mkdirat(dir, base, 0o700)
		}
		return chmodDirectory(dir, base, s.Was.Mode|0o700) // until it is filled
	}
	tmp := a.temporary()
	if s.Was.kind() == unix.S_IFLNK {
		if err := unix.Symlinkat(string(s.Was.Link), dir, tmp); err != nil {
			return err
		}
		return a.place(dir, tmp, base, now)
	}
	fd, err := unix.Openat(dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), tmp)
	defer f.Close()
	_, err = f.Write(content)
	if err == nil {
		dropList(int(f.Fd()))
		err = f.Chmod(fs.FileMode(withoutList(s.Was.Mode, s.Was.Attributes) & 0o777))
	}
	if err != nil {
		return errors.Join(err, unix.Unlinkat(dir, tmp, 0))
	}
	if err := setAttributes(int(f.Fd()), s.Was.Attributes); err != nil {
		a.bare = append(a.bare, fmt.Errorf("undo %s: its content is back, its extended attributes are not: %w", s.Path, err))
	}
	return a.place(dir, tmp, base, now)
}

// renameBack gives a file the name that it had.
func (a *application) renameBack(dir int, base string, from Elsewhere) error {
	at := openBelow(a.root, path.Dir(string(from.Path)))
	if at == nil {
		return fmt.Errorf("%w: it cannot be had from %s", ErrConflict, from.Path)
	}
	defer at.Close()
	if err := a.still(int(at.Fd()), path.Base(string(from.Path)), &from.Is); err != nil {
		return fmt.Errorf("of %s: %w", from.Path, err)
	}
	return renameNew(int(at.Fd()), path.Base(string(from.Path)), dir, base)
}

// unfinished begins the name of a file that is being written; its writer's letters follow.
const unfinished = ".sandgate-undo-"

// writingLetters is how many of the letters of such a name are the undo's own.
const writingLetters = 16

var unfinishedName = regexp.MustCompile(`^` + regexp.QuoteMeta(unfinished) + `[A-Z2-7]{26}$`) // rand.Text

func isUnfinished(base string) bool { return unfinishedName.MatchString(base) }

// clean removes what killed undos have left in a directory.
func clean(a *application, dir int, _ string, _ Step) error {
	at := openBelow(dir, "")
	if at == nil {
		return nil
	}
	defer at.Close()
	names, err := at.Readdirnames(-1)
	for _, base := range names {
		ordered := func(s Step) bool { return path.Base(string(s.Path)) == base }
		var st unix.Stat_t
		lived, left := a.Left[lettersIn(base)]
		if !left || slices.ContainsFunc(a.Steps, ordered) || unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR && stampOf(&st).Ctime <= lived {
			_ = unix.Unlinkat(dir, base, 0)
		}
	}
	return err
}

func (a *application) mode(dir int, base string, s Step) error {
	fd, err := openDirectory(dir, base)
	if errors.Is(err, fs.ErrPermission) && s.Was.Attributes == "" { // nobody may read it, its owner neither
		return chmodDirectory(dir, base, s.Was.Mode)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// Before its mode, which opens it: a new one has the lists that the directory it lies in gives.
	if lists := listOfDirectory(fd); lists != "" && lists != s.Was.Attributes {
		dropLists(fd)
	}
	if err := chmodDirectory(dir, base, withoutList(s.Was.Mode, s.Was.Attributes)); err != nil || s.Was.Attributes == "" {
		return err
	}
	if err := setAttributes(fd, s.Was.Attributes); err != nil {
		a.bare = append(a.bare, fmt.Errorf("undo %s: it is back, its access control list is not: %w", s.Path, err))
	}
	return nil
}

// chmodDirectory changes a directory and nothing that a link leads to.
func chmodDirectory(dir int, base string, mode uint32) error {
	fd, err := openDirectory(dir, base)
	if errors.Is(err, fs.ErrPermission) { // nobody may read it, its owner neither
		return unix.Fchmodat(dir, base, mode&0o1777, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = unix.Fchmod(fd, mode&0o3777)
	if mode&unix.S_ISGID != 0 && errors.Is(err, unix.EPERM) { // where a sandbox lets nobody set that bit
		err = unix.Fchmod(fd, mode&0o1777)
	}
	return err
}

// place gives a file its name, in exchange for the file that is expected to be there: somebody
// may have saved something else while it was written. Where nothing can be exchanged (the file
// system, a name that the sandbox installs itself) it is looked at once more and replaced.
func (a *application) place(dir int, tmp, base string, now *Entry) error {
	err := a.placeAs(dir, tmp, base, now)
	var kept *notPutBack
	if err != nil && !errors.As(err, &kept) {
		err = errors.Join(err, unix.Unlinkat(dir, tmp, 0))
	}
	return err
}

// A notPutBack says that a name has somebody's file, which could not get its own name back.
type notPutBack struct{ name string }

func (e *notPutBack) Error() string { return "what stood there is called " + e.name + " now" }

func (a *application) placeAs(dir int, tmp, base string, now *Entry) error {
	if now == nil {
		switch err := renameNew(dir, tmp, dir, base); {
		case err == nil:
			return nil
		case errors.Is(err, fs.ErrExist):
			return fmt.Errorf("%w: something stands there now", ErrConflict)
		}
	} else if exchange(dir, tmp, base) == nil {
		return a.exchanged(dir, tmp, base, now)
	}
	if err := a.still(dir, base, now); err != nil {
		return err
	}
	if now != nil {
		a.relinks(now.Seen.Ino)
	}
	return unix.Renameat(dir, tmp, dir, base)
}

// exchanged removes what stood at a name, which is tmp now, unless it is not what was to stand there.
func (a *application) exchanged(dir int, tmp, base string, now *Entry) error {
	err := a.removeMoved(dir, tmp, now)
	if err != nil && exchange(dir, tmp, base) != nil {
		err = errors.Join(err, &notPutBack{tmp})
	}
	return err
}
