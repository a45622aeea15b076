package changes

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// An Undo is what would put names back to what they were.
type Undo struct {
	Records []string // that it takes back, in whole or in part
	Whole   []string // those in whole
	Steps   []Step   // sorted by path
}

// A Step is one name: Now is to become Was.
type Step struct {
	Path string
	Now  *Entry // as the calls left it; nil: they removed it
	Was  *Entry // nil: they made it
	// Conflict says why it cannot be put back as it is; "" if it can.
	Conflict string
	// Final: nothing can put it back, with or without force.
	Final bool
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
				changed = append(changed, c.Path)
			}
		}
		if err := w.look(w.tree.known(changed...)); err != nil {
			return err
		}
		u = plan(records, paths, w.tree)
		return nil
	})
	if err != nil {
		return u, fmt.Errorf("changes of %s: %w", w.Root, err)
	}
	return u, nil
}

// plan is pure: from the oldest record's before to the newest one's after, and what
// stands there now.
func plan(records []Record, paths []string, now tree) (u Undo) {
	records = slices.Clone(records)
	slices.SortFunc(records, func(a, b Record) int { return strings.Compare(a.ID, b.ID) })
	steps := map[string]*Step{}
	for _, r := range records {
		took, all := false, true
		for _, c := range r.Changes {
			if !within(c.Path, paths) {
				all = false
				continue
			}
			took = true
			s := steps[c.Path]
			switch {
			case s == nil:
				steps[c.Path] = &Step{Path: c.Path, Was: c.Before, Now: c.After}
				continue
			case !equal(s.Now, c.Before):
				s.Conflict = "something else changed it between these calls"
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
		var there *Entry
		if e, ok := now[name]; ok {
			there = &e
		}
		if equal(there, s.Was) {
			continue // it is back already
		}
		switch {
		case s.Was != nil && s.Was.Unkept != "":
			s.Conflict, s.Final = "its content was not kept: "+s.Was.Unkept, true
		case s.Was != nil && !restorable(*s.Was):
			s.Conflict, s.Final = "it was a device, a socket or a pipe, or ran with the rights of its owner", true
		case !equal(there, s.Now):
			s.Conflict = "it was changed since"
		}
		s.Now = there
		u.Steps = append(u.Steps, *s)
	}
	slices.SortFunc(u.Steps, func(a, b Step) int { return strings.Compare(a.Path, b.Path) })
	return u
}

// Touches reports whether the record has a change at or below one of the names.
func (r Record) Touches(names []string) bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool { return within(c.Path, names) })
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

func within(name string, paths []string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool {
		return p == "." || name == p || strings.HasPrefix(name, p+"/")
	})
}

// ErrConflict means that names stand for something that no call left there.
var ErrConflict = errors.New("changed since")

// Apply puts names back and records that as a change of its own, so that it can be undone
// too. Nothing is done if a step has a conflict, unless force is set: what stands there
// now is in the record then.
func (w *Workspace) Apply(u Undo, c Call, force bool) (rec Record, err error) {
	for _, s := range u.Conflicts() {
		if s.Final || !force {
			return rec, fmt.Errorf("undo %s: %w: %s", s.Path, ErrConflict, s.Conflict)
		}
	}
	c.Started = time.Now()
	var changed []string
	for _, s := range u.Steps {
		changed = append(changed, s.Path)
	}
	w.mu.Lock()
	in := w.tree.known(changed...)
	w.mu.Unlock()
	r, err := w.begin(c, in)
	if err != nil {
		return rec, err
	}
	root, err := unix.Open(w.Root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		a := application{w: w, root: root, steps: u.Steps}
		err = errors.Join(a.run(), unix.Close(root))
	}
	rec, ended := r.end(&u)
	return rec, errors.Join(err, ended)
}

// An application goes by descriptors and follows no link: a call that is under way may
// swap directories meanwhile.
type application struct {
	w     *Workspace
	root  int
	steps []Step
}

func (a *application) run() error {
	// What was made goes, the deepest first; then what was there comes, the highest first.
	for _, s := range slices.Backward(a.steps) {
		if s.Now != nil && (s.Was == nil || s.Was.kind() != s.Now.kind()) {
			if err := a.at(s, (*application).remove); err != nil {
				return err
			}
		}
	}
	for _, s := range a.steps {
		if s.Was != nil {
			if err := a.at(s, (*application).restore); err != nil {
				return err
			}
		}
	}
	// Directories get their modes last: one that was closed to writing could not be filled.
	for _, s := range slices.Backward(a.steps) {
		if s.Was != nil && s.Was.IsDir() {
			if err := a.at(s, func(_ *application, dir int, base string, s Step) error {
				return unix.Fchmodat(dir, base, s.Was.Mode&0o7777, 0)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// at calls do with the directory that the name lies in.
func (a *application) at(s Step, do func(a *application, dir int, base string, s Step) error) error {
	dir, err := unix.FcntlInt(uintptr(a.root), unix.F_DUPFD_CLOEXEC, 0)
	for _, part := range strings.Split(path.Dir(s.Path), "/") {
		if err != nil || part == "." {
			break
		}
		var below int
		below, err = unix.Openat(dir, part, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(dir)
		dir = below
	}
	if err == nil {
		err = do(a, dir, path.Base(s.Path), s)
		unix.Close(dir)
	}
	if err != nil {
		return fmt.Errorf("undo %s: %w", s.Path, err)
	}
	return nil
}

// still holds what stands there against what was planned for.
func still(dir int, base string, e *Entry) error {
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
	if now := stampOf(&st); !e.IsDir() && (now.Ino != e.Seen.Ino || now.Mtime != e.Seen.Mtime || now.Ctime != e.Seen.Ctime) {
		return fmt.Errorf("%w: while this was being undone", ErrConflict)
	}
	return nil
}

func (*application) remove(dir int, base string, s Step) error {
	if err := still(dir, base, s.Now); err != nil {
		return err
	}
	flags := 0
	if s.Now.IsDir() {
		flags = unix.AT_REMOVEDIR
	}
	err := unix.Unlinkat(dir, base, flags)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return nil // it holds what nobody asked to take back
	}
	return err
}

func (a *application) restore(dir int, base string, s Step) error {
	if s.Was.IsDir() {
		err := unix.Mkdirat(dir, base, 0o700)
		if errors.Is(err, fs.ErrExist) {
			err = nil
		}
		if err != nil {
			return err
		}
		return unix.Fchmodat(dir, base, s.Was.Mode&0o777|0o700, 0) // until it is filled
	}
	now := s.Now
	if now != nil && now.kind() != s.Was.kind() {
		now = nil // it was removed above
	}
	if err := still(dir, base, now); err != nil {
		return err
	}
	tmp := ".sandgate-undo-" + rand.Text()
	if s.Was.kind() == unix.S_IFLNK {
		if err := unix.Symlinkat(s.Was.Link, dir, tmp); err != nil {
			return err
		}
		return place(dir, tmp, base)
	}
	content, err := a.w.objects.get(s.Was.Hash)
	if err != nil {
		return err
	}
	fd, err := unix.Openat(dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), filepath.Join(a.w.Root, path.Dir(s.Path), tmp))
	_, err = f.Write(content)
	if err == nil {
		err = unix.Fchmod(fd, s.Was.Mode&0o777)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, unix.Unlinkat(dir, tmp, 0))
	}
	return place(dir, tmp, base)
}

func place(dir int, tmp, base string) error {
	err := unix.Renameat(dir, tmp, dir, base)
	if err != nil {
		err = errors.Join(err, unix.Unlinkat(dir, tmp, 0))
	}
	return err
}
