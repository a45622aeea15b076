package changes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Place is a workspace with the other directories that its calls may write: of a package, say, the
// files of the repository that lies above it. What a call changed in all of them is one record here.
type Place struct {
	*Workspace
	others []*Workspace
}

// Place opens what is kept of a workspace, and of what lies beside it.
func (s *Store) Place(root string) (p Place, err error) {
	if p.Workspace, err = s.Workspace(root); err != nil {
		return p, err
	}
	beside, err := p.beside()
	if err != nil {
		return p, fmt.Errorf("changes: %w", err)
	}
	for _, other := range s.Workspaces() {
		if !slices.Contains(beside, other) {
			continue
		}
		w, err := s.Workspace(other)
		if err != nil {
			return p, err
		}
		p.others = append(p.others, w)
	}
	return p, nil
}

func (w *Workspace) besideFile() string { return filepath.Join(w.dir, "beside.json") }

func (w *Workspace) beside() (roots []string, err error) {
	b, err := os.ReadFile(w.besideFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &roots)
	}
	return roots, err
}

// Beside notes that calls of the workspace may write other directories, too.
func (w *Workspace) Beside(roots []string) error {
	had, err := w.beside()
	if err != nil || slices.Equal(had, union(had, roots)) {
		return err
	}
	return w.locked(func() error {
		had, err := w.beside() // by another process meanwhile
		if err != nil {
			return err
		}
		b, err := json.Marshal(union(had, roots))
		if err != nil {
			return err
		}
		return replace(w.besideFile(), b)
	})
}

func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// whole identifies a call, however many directories it has changed.
func (c Call) whole() string {
	return fmt.Sprintf("%s\x00%s\x00%d", c.Session, c.Call, c.Started.UnixNano())
}

// listed are the calls that a person can undo, the oldest first.
func (w *Workspace) listed() ([]Record, error) {
	pending := w.pending()
	l, err := w.Calls()
	l = append(l, pending...)
	slices.SortFunc(l, func(a, b Record) int { return cmp.Compare(a.ID, b.ID) })
	return l, err
}

// Calls lists the calls that changed something, the oldest first.
func (p Place) Calls() ([]Record, error) {
	l, err := p.listed()
	if err != nil || len(p.others) == 0 {
		return l, err
	}
	at := map[string]int{}
	for i, r := range l {
		at[r.whole()] = i
	}
	for _, w := range p.others {
		records, err := w.listed()
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if r.Workspace != p.Root {
				continue // of calls that work elsewhere
			}
			for i := range r.Changes {
				r.Changes[i].Root = w.Root
			}
			i, there := at[r.whole()]
			if !there {
				at[r.whole()] = len(l)
				r.Parts = map[string]string{w.Root: r.ID}
				l = append(l, r)
				continue
			}
			all := &l[i]
			if all.Parts == nil {
				all.Parts = map[string]string{p.Root: all.ID}
			}
			all.Parts[w.Root] = r.ID
			all.Changes, all.Undoes = append(all.Changes, r.Changes...), append(all.Undoes, r.Undoes...)
			all.Interrupted, all.Unfinished, all.Pending = all.Interrupted || r.Interrupted, all.Unfinished || r.Unfinished, all.Pending || r.Pending
		}
	}
	slices.SortStableFunc(l, func(a, b Record) int { return cmp.Compare(a.ID, b.ID) })
	return l, nil
}

// part is the part of a record that concerns one directory.
func (r Record) part(root, main string) (Record, bool) {
	if r.Parts == nil {
		return r, root == main
	}
	id, there := r.Parts[root]
	r.ID, r.Undoes = id, nil
	r.Changes = slices.DeleteFunc(slices.Clone(r.Changes), func(c Change) bool { return cmp.Or(c.Root, main) != root })
	return r, there
}

// IDs are those of the record's parts.
func (r Record) IDs() []string {
	if r.Parts == nil {
		return []string{r.ID}
	}
	return slices.Sorted(maps.Values(r.Parts))
}

// A PlaceUndo is an Undo of each of a place's directories.
type PlaceUndo struct {
	Parts []PartUndo
	main  Place
}

// A PartUndo is the part of an undo that concerns one directory.
type PartUndo struct {
	*Workspace
	Undo
}

// Plan says what undoing these records comes to, or what of it lies at or below one of the paths, which
// are absolute.
func (p Place) Plan(records []Record, paths []string) (u PlaceUndo, err error) {
	u.main = p
	for _, w := range append([]*Workspace{p.Workspace}, p.others...) {
		var here []Record
		for _, r := range records {
			if r, there := r.part(w.Root, p.Root); there {
				here = append(here, r)
			}
		}
		var below []string
		for _, name := range paths {
			if rel, err := filepath.Rel(w.Root, name); err == nil && filepath.IsLocal(rel) {
				below = append(below, rel)
			}
		}
		if len(here) == 0 || len(paths) > 0 && len(below) == 0 {
			continue
		}
		part, err := w.Plan(here, below)
		if err != nil {
			return u, err
		}
		u.Parts = append(u.Parts, PartUndo{w, part})
	}
	return u, nil
}

// Records are those that it takes back, in whole or in part.
func (u PlaceUndo) Records() (ids []string) {
	for _, p := range u.Parts {
		ids = append(ids, p.Records...)
	}
	return ids
}

// Blocking are the steps that keep the whole from being carried out.
func (u PlaceUndo) Blocking(force bool) (l []Step) {
	for _, p := range u.Parts {
		l = append(l, p.Blocking(force)...)
	}
	return l
}

// WithoutFinal is Undo.WithoutFinal of each directory. left counts the steps that it leaves out, of which first is one.
func (u PlaceUndo) WithoutFinal() (rest PlaceUndo, left int, first Step) {
	rest.main = u.main
	for _, p := range u.Parts {
		part, out := p.Undo.WithoutFinal()
		if left += len(out); left == len(out) && left > 0 {
			first = out[0]
		}
		rest.Parts = append(rest.Parts, PartUndo{p.Workspace, part})
	}
	return rest, left, first
}

// Len is how many names it changes.
func (u PlaceUndo) Len() (n int) {
	for _, p := range u.Parts {
		n += len(p.Steps)
	}
	return n
}

// Apply puts all of it back, as Workspace.Apply does, in a record that is one here. perform
// learns which directory is meant.
func (u PlaceUndo) Apply(c Call, force bool, perform Perform) (rec Record, err error) {
	if l := u.Blocking(force); len(l) > 0 {
		return rec, fmt.Errorf("undo %s: %w: %s", l[0].Path, ErrConflict, l[0].Conflict)
	}
	c.Started = time.Now()
	if len(u.main.others) > 0 {
		c.Workspace = u.main.Root
	}
	for _, p := range u.Parts {
		if len(p.Steps) == 0 {
			continue
		}
		r, err := p.Workspace.Apply(p.Undo, c, force, func(order io.Reader) error { return perform(p.Root, order) })
		if err != nil {
			return rec, err
		}
		if r.Changes = append(rec.Changes, r.Changes...); rec.ID != "" {
			r.ID = rec.ID
		}
		rec = r
	}
	return rec, nil
}

// Holds reports whether a path lies in one of the place's directories.
func (p Place) Holds(path string) bool {
	return slices.ContainsFunc(append([]*Workspace{p.Workspace}, p.others...), func(w *Workspace) bool {
		rel, err := filepath.Rel(w.Root, path)
		return err == nil && filepath.IsLocal(rel)
	})
}

// PathIn is where a change lies: a path of the workspace main, or an absolute one.
func (c Change) PathIn() string {
	if c.Root == "" {
		return string(c.Path)
	}
	return filepath.Join(c.Root, string(c.Path))
}

// Below reports whether the record has a change at or below one of the absolute paths.
func (r Record) Below(main string, paths []string) bool {
	return slices.ContainsFunc(r.Changes, func(c Change) bool {
		name := filepath.Join(cmp.Or(c.Root, main), string(c.Path))
		return slices.ContainsFunc(paths, func(p string) bool { return name == p || strings.HasPrefix(name, strings.TrimSuffix(p, "/")+"/") })
	})
}
