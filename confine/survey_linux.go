package confine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// survey looks at the host for the compilers: what kind of file stands at each
// path of the profile, and which existing files inside the granted trees match a
// protect or hide pattern. The findings are the latter and what else is to be
// known of the trees.
func (g *Guard) survey(p sandboxprofile.Profile) (sandboxprofile.Facts, []sighting, error) {
	study := g.studies.Of(p)
	f, err := study.kinds.look()
	if err != nil {
		return f, nil, err
	}
	found, err := g.findIn(study, p, func(root string) bool { return f.Kinds[root] == sandboxprofile.Dir })
	for _, x := range found {
		if x.class == mask {
			f.Masks = append(f.Masks, x.Mask)
		}
	}
	return f, found, err
}

// A study is what the guard computes of a profile once.
type study struct {
	invalid error
	key     string // Profile.Key
	kinds   *knownKinds
	proc    []string // tellingProc
	// roots are the granted paths that are surveyed, if they are directories: a parent
	// comes before what lies in it. Those of the system are none, where patterns do not
	// apply and looking would cost more than most calls, but for one that a tool may
	// write to.
	roots []studiedRoot
}

type studiedRoot struct {
	path    string
	treeKey string
}

func newStudy(p sandboxprofile.Profile) *study {
	s := &study{invalid: p.Validate(), key: p.Key(), kinds: newKnownKinds(keys(p)), proc: tellingProc()}
	for _, root := range slices.Sorted(maps.Keys(p.Paths)) {
		r := p.Paths[root]
		if system := sandboxprofile.IsSystemTree(root) && r&sandboxprofile.Write == 0; r != 0 && !system {
			s.roots = append(s.roots, studiedRoot{root, treeKey(p, root)})
		}
	}
	return s
}

// find walks every tree to be surveyed that wanted names. A tree that lies inside
// another is walked once.
func (g *Guard) find(p sandboxprofile.Profile, wanted func(root string) bool) ([]sighting, error) {
	return g.findIn(g.studies.Of(p), p, wanted)
}

func (g *Guard) findIn(s *study, p sandboxprofile.Profile, wanted func(root string) bool) ([]sighting, error) {
	var found []sighting
	var done []string
	for _, root := range s.roots {
		if within(root.path, done) || !wanted(root.path) {
			continue
		}
		t := g.tree(p, root)
		if t.hidden {
			continue
		}
		in, err := t.walk()
		if err != nil {
			return nil, err
		}
		found = append(found, withoutNested(in)...)
		done = append(done, root.path)
	}
	return found, nil
}

func within(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return sandboxprofile.Contains(r, path) })
}

// mayWrite reports whether p lets a tool make names in the directory of path,
// patterns aside.
func mayWrite(p sandboxprofile.Profile, path string) bool {
	longest, rights := "", sandboxprofile.Rights(0)
	for root, r := range p.Paths {
		if path != root && sandboxprofile.Contains(root, path) && len(root) > len(longest) {
			longest, rights = root, r
		}
	}
	return rights&sandboxprofile.Write != 0
}

// writes reports whether p lets a tool write anything below root.
func writes(p sandboxprofile.Profile, root string) bool {
	for path, r := range p.Paths {
		if r&sandboxprofile.Write != 0 && (sandboxprofile.Contains(root, path) || sandboxprofile.Contains(path, root)) {
			return true
		}
	}
	return false
}

// refuseLinks fails for a protected name that is a link. A mount cannot pin it,
// and the tool could put a file in its place: that is refused, not forgotten.
func refuseLinks(f sandboxprofile.Facts) error {
	for _, m := range f.Masks {
		if m.Kind == sandboxprofile.Symlink {
			return &Unenforceable{
				Part:   fmt.Sprintf("write protection of %q", m.Path),
				Reason: "it is a symbolic link, which a mount cannot cover",
				Hint:   "replace the link with what it points to, or move it out of the writable root",
			}
		}
	}
	return nil
}

// withoutNested drops protect masks that lie below another protect mask.
func withoutNested(found []sighting) []sighting {
	var roots []string
	return slices.DeleteFunc(found, func(f sighting) bool {
		if f.class != mask || f.Hide {
			return false
		}
		if within(f.Path, roots) {
			return true
		}
		if f.Kind == sandboxprofile.Dir {
			roots = append(roots, f.Path)
		}
		return false
	})
}

// A folded matcher takes no notice of the case of letters: whether a directory
// does is the file system's to say (ext4's casefold, vfat), and where it does
// not, a name that differs in nothing else is not worth a hole.
type folded struct{ *sandboxprofile.Matcher }

func newFolded(patterns []string) folded {
	lower := make([]string, len(patterns))
	for i, p := range patterns {
		lower[i] = strings.ToLower(p)
	}
	return folded{sandboxprofile.NewMatcher(lower)}
}

// Match is Matcher.Match.
func (f folded) Match(path string) bool { return f.Matcher.Match(strings.ToLower(path)) }

// MatchLast is Matcher.MatchLast.
func (f folded) MatchLast(path string) bool { return f.Matcher.MatchLast(strings.ToLower(path)) }
