package changes

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/atomicfile"
)

// A Keep is a draft, or some of it, on its way into the workspaces, all or nothing. It is written
// down before the first name is touched. One that fails is taken back; one that is killed is
// brought to its end by Settle.
type Keep struct {
	// Config is the configuration file that it runs under; "" is that of the workspace.
	Config string `json:"config,omitempty"`
	// Drops: once it is kept, the rest of the draft goes.
	Drops bool `json:"drops,omitempty"`
	// Steps are its effects on each root.
	Steps [][]Step `json:"steps"`
	// File is undo.file, by which the steps were planned.
	File int64 `json:"file"`
	// Back: it failed, and is being taken back.
	Back bool `json:"back,omitempty"`
}

// Perform has a root's names put in place, as Apply's perform does.
type Perform func(root string, order io.Reader) error

func (d *Draft) keepFile() string { return filepath.Join(d.dir, "keep.json") }

// UnderWay is the keep that has begun and not ended, or nil.
func (d *Draft) UnderWay() (*Keep, error) {
	b, err := os.ReadFile(d.keepFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // none
	}
	k := &Keep{}
	if err == nil {
		err = json.Unmarshal(b, k)
	}
	if err == nil && len(k.Steps) != len(d.Roots) {
		err = errors.New("it is of other directories")
	}
	if err != nil {
		return nil, fmt.Errorf("draft %s: read what was being kept: %w", d.ID, err)
	}
	return k, nil
}

func (d *Draft) write(k *Keep) error {
	b, err := json.Marshal(k)
	if err == nil {
		err = atomicfile.WriteFile(d.keepFile(), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("draft %s: nothing was done: %w", d.ID, err)
	}
	return nil
}

// Keep puts the plans, one for each root, into the workspaces: all of them, or nothing. The
// caller holds the draft.
func (d *Draft) Keep(plans []DraftPlan, k Keep, force bool, perform Perform) error {
	k.Steps = make([][]Step, len(d.Roots))
	for i, p := range plans {
		if l := p.Blocking(force); len(l) > 0 {
			return fmt.Errorf("keep %s: %w: %s", l[0].Path, ErrConflict, l[0].Conflict)
		}
		if k.Steps[i] = p.Steps; p.w != nil {
			k.File = p.w.options.File
		}
		if err := d.check(i); err != nil { // a person has looked at the plans meanwhile
			return fmt.Errorf("draft %s: %w", d.ID, err)
		}
	}
	if err := d.write(&k); err != nil {
		return err
	}
	for i, p := range plans {
		if err := p.carryOut(d.Roots[i], perform); err != nil {
			return d.takeBack(&k, perform, err)
		}
	}
	for i, p := range plans {
		if k.Drops {
			break
		}
		if err := d.noteKept(i, p, k.Back); err != nil {
			return err
		}
	}
	return d.ended()
}

// SaveReplaced writes the files that a forced keep replaces, and that somebody has changed since, below a new
// directory beside the draft. It returns that directory, or "" if there are no such files.
func (d *Draft) SaveReplaced(plans []DraftPlan) (dir string, err error) {
	var to *os.Root // names are of calls: none leads out of it, whatever links are saved, too
	defer func() {
		if to != nil {
			err = errors.Join(err, to.Close())
		}
	}()
	for i, p := range plans {
		for _, s := range p.Steps {
			if s.Conflict == "" || s.Now == nil || s.Now.IsDir() {
				continue
			}
			if s.Now.Unkept != "" {
				return dir, fmt.Errorf("draft %s: nothing was done: %s is in the way, and cannot be saved (%s): move it away", d.ID, s.Path, s.Now.Unkept)
			}
			if dir == "" {
				if dir, err = os.MkdirTemp(filepath.Dir(d.dir), d.ID+".replaced-"); err != nil {
					return "", fmt.Errorf("draft %s: nothing was done: %w", d.ID, err)
				}
				if to, err = os.OpenRoot(dir); err != nil {
					return dir, fmt.Errorf("draft %s: nothing was done: %w", d.ID, err)
				}
			}
			if err := p.save(to, filepath.Join(fmt.Sprint(i), string(s.Path)), s.Now); err != nil {
				return dir, fmt.Errorf("draft %s: nothing was done: save %s: %w", d.ID, s.Path, err)
			}
		}
	}
	return dir, nil
}

func (p DraftPlan) save(to *os.Root, name string, e *Entry) error {
	if err := to.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	if e.kind() == unix.S_IFLNK {
		return to.Symlink(string(e.Link), name)
	}
	b, err := p.Content(e)
	if err == nil {
		err = to.WriteFile(name, b, 0o600)
	}
	return err
}

func (p DraftPlan) carryOut(root string, perform Perform) error {
	if len(p.Steps) == 0 {
		return nil
	}
	_, err := p.w.Apply(p.Undo, Call{Tool: "review"}, true, func(order io.Reader) error { return perform(root, order) })
	return err
}

// ended forgets the keep before the draft may go: later changes are not part of it.
func (d *Draft) ended() error {
	if err := os.Remove(d.keepFile()); err != nil {
		return fmt.Errorf("draft %s: %w", d.ID, err)
	}
	return nil
}

// takeBack undoes what a keep has done, which failed for cause.
func (d *Draft) takeBack(k *Keep, perform Perform, cause error) error {
	left, err := d.GiveUp(k, perform)
	switch {
	case err != nil:
		return fmt.Errorf("%w; what was done by then could not be taken back yet: %w", cause, err)
	case len(left) > 0:
		return fmt.Errorf("%w; what was done by then is taken back, but for %s: %s", cause, left[0].Path, left[0].Conflict)
	}
	return fmt.Errorf("nothing was kept: %w", cause)
}

// Settle brings a keep that was killed to its end: forward if it can, else back. It returns
// the names that were left alone because somebody has changed them. The caller holds the
// draft.
func (d *Draft) Settle(k *Keep, perform Perform) (left []Step, err error) {
	left, err = d.goOn(k, perform)
	if err != nil && !k.Back {
		return nil, d.takeBack(k, perform, err)
	}
	return left, err
}

// GiveUp takes back what a keep has done that was killed. It gives the names that were left alone.
// The caller holds the draft.
func (d *Draft) GiveUp(k *Keep, perform Perform) (left []Step, err error) {
	k.Back = true
	if err := d.write(k); err != nil {
		return nil, err
	}
	return d.goOn(k, perform)
}

// goOn does what is left to do of a keep.
func (d *Draft) goOn(k *Keep, perform Perform) (left []Step, err error) {
	for i, root := range d.Roots {
		if len(k.Steps[i]) == 0 {
			continue
		}
		p, conflicts, err := d.rest(i, k)
		if err == nil {
			err = p.carryOut(root, perform)
		}
		if err != nil {
			return nil, err
		}
		left = append(left, conflicts...)
		if err := d.noteKept(i, p, k.Back); err != nil {
			return nil, err
		}
	}
	return left, d.ended()
}

// rest looks at a root, and says what is left to do there. A name is in its old state, in its new
// state, or in between: anything else is a later change by somebody.
func (d *Draft) rest(root int, k *Keep) (p DraftPlan, left []Step, err error) {
	if p.w, err = d.workspace(root, Options{File: k.File}); err != nil {
		return p, nil, err
	}
	var names []string
	of, made := map[string]bool{}, map[string]bool{}
	for _, s := range k.Steps[root] {
		names = append(names, string(s.Path))
		of[string(s.Path)], made[string(s.Path)] = true, s.Now.isDir() != s.Was.isDir()
	}
	known := newSnapshot().known(names...)
	err = p.w.locked(func() error {
		return p.w.look(func(name string) bool { return known(name) || made[path.Dir(name)] }, true, notSince)
	})
	if err != nil {
		return p, nil, err
	}
	foreign := map[string]bool{} // directories that have what is not of the keep
	for name := range p.w.tree.all() {
		if !of[name] && !isUnfinished(path.Base(name)) { // what it was writing when it was killed goes with the next one
			foreign[path.Dir(name)] = true
		}
	}
	for _, s := range k.Steps[root] {
		now, was := s.Now, s.Was
		if k.Back {
			now, was = was, now
		}
		var there *Entry
		if e, ok := p.w.tree.entry(string(s.Path)); ok {
			there = &e
		}
		if equal(there, was) {
			continue
		}
		step := Step{Path: s.Path, Now: there, Was: was, Merged: s.Merged, Own: s.Own}
		if k.Back { // to what somebody had changed, where that was in the way
			step.Conflict, step.Merged, step.Own = s.Conflict, false, nil
			if s.Merged {
				step.Conflict = "it was changed since"
			}
		}
		between := inBetween(there, now, was) && !(there.isDir() && made[string(s.Path)] && foreign[string(s.Path)])
		switch {
		case !equal(there, now) && !between:
			step.Conflict = "it was changed since"
		case was != nil && was.Unkept != "":
			step.Conflict = "its content was not kept: " + was.Unkept
		default:
			p.Steps = append(p.Steps, step)
			continue
		}
		left = append(left, step)
	}
	return p, left, nil
}

// inBetween reports whether a name can be on its way from one entry to the other: an entry that
// changes its type is removed first, and a directory has a mode of its own until it is filled. A
// file is replaced at once.
func inBetween(there, now, was *Entry) bool {
	if there != nil && was != nil && there.sameButOwner(*was) {
		return true // and does not belong to whom it is to belong yet
	}
	if there == nil {
		return now != nil && was != nil && now.kind() != was.kind()
	}
	if !there.IsDir() {
		return false
	}
	mode := there.Mode & 0o777
	of := func(e *Entry) bool { return e.isDir() && mode == e.Mode&0o777|0o700 }
	return of(now) || of(was) || now.isDir() != was.isDir() && mode == 0o700
}
