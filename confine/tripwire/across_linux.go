package tripwire

import (
	"slices"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// across gives the names of covered files in other trees than the one in which they are
// covered: a hidden file could be read by such a name, and a protected one written. A tree
// knows only its own names. The places are those of the roots that are looked at.
//
// A directory does not show that a file in it has got a second name elsewhere. So where a
// covered file has names that no tree knows, all trees are read anew, once for each such file.
func (g *Guard) across(s *compiledProfile, places []int) ([]Finding, error) {
	trees := g.outermost(s, places)
	found, unknown := g.aliases(s, trees)
	if len(unknown) == 0 {
		return found, nil
	}
	hides := slices.ContainsFunc(unknown, func(h hardName) bool { return h.hide })
	for _, t := range trees {
		if !t.forget(unknown, hides) {
			continue
		}
		if _, err := t.walk(nil); err != nil {
			return nil, err
		}
	}
	found, _ = g.aliases(s, trees)
	return found, nil
}

// forget has the next walk read everything, and look at files too if one of unknown is hidden.
// It reports whether that is to any purpose: a tree that has a name of each has been read so.
func (t *tree) forget(unknown []hardName, hides bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.aside && !hides || !slices.ContainsFunc(unknown, func(h hardName) bool { return !t.outside[h.id] }) {
		return false
	}
	t.top, t.lost, t.memory, t.told, t.handed, t.restored, t.aside = &node{}, true, nil, nil, false, 0, false
	return true
}

// outermost are the trees of roots that are walked by themselves.
func (g *Guard) outermost(s *compiledProfile, places []int) (list []*tree) {
	done := make([]bool, len(s.roots))
	for _, i := range places {
		t := g.trees(s)[i]
		if t.hidden || slices.ContainsFunc(s.roots[i].above, func(in int) bool { return done[in] }) {
			continue
		}
		list, done[i] = append(list, t), true
	}
	return list
}

// aliases gives what across does from what the trees know, and the covered files that have
// more names than they know, if those are new.
func (g *Guard) aliases(s *compiledProfile, trees []*tree) (found []Finding, unknown []hardName) {
	leaks := map[ident]bool{}
	for _, t := range trees {
		t.mu.Lock()
		for _, id := range t.leaks {
			leaks[id] = true
		}
		t.mu.Unlock()
	}
	for id := range leaks {
		hide, links, known := false, uint64(0), 0
		names := make([][]hardName, len(trees))
		for i, t := range trees {
			t.mu.Lock()
			names[i] = slices.Clone(t.hard[id])
			t.mu.Unlock()
			for _, h := range names[i] {
				hide, links, known = hide || h.hide, max(links, h.links), known+1
			}
		}
		if links > uint64(known) && g.isNews(id, links) {
			unknown = append(unknown, hardName{id: id, hide: hide})
		}
		for i, list := range names {
			if slices.ContainsFunc(list, func(h hardName) bool { return h.hide || h.protect && !hide }) {
				continue // the tree itself covers all of them
			}
			for _, h := range list {
				if hide || mayWrite(s.profile, h.path) {
					found = append(found, Finding{
						Mask: sandboxprofile.Mask{Path: h.path, Kind: sandboxprofile.File, Hide: hide}, dir: h.dir, root: trees[i].root, protect: !hide, take: h.path, across: true,
					})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b Finding) int { return sandboxprofile.ComparePaths(a.Path, b.Path) })
	return found, unknown
}

// isNews reports whether it is not known yet that a file with so many names has some that no
// tree knows. When its inode has changed it is looked for again: a name may have come or gone.
func (g *Guard) isNews(id ident, links uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	was, known := g.elsewhere[id]
	g.elsewhere[id] = links
	return !known || was != links
}
