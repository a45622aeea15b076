package tripwire

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/hostfs"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// readHost looks at the host for the compilers: what kind of file stands at each
// path of the profile, and which existing files inside the granted trees match a
// protect or hide pattern. The findings are the latter and what else is to be
// known of the trees. For later see walk.
func (g *Guard) readHost(s *compiledProfile, later *[]*tree) (seen Survey, err error) {
	seen = Survey{Key: s.key}
	if seen.Kinds, err = s.kinds.look(); err != nil {
		return seen, err
	}
	seen.Facts = seen.Kinds.facts
	seen.Found, err = g.findIn(s, seen.Kinds.dirs, later)
	if err == nil {
		var aliases []Finding
		aliases, err = g.across(s, seen.Kinds.dirs)
		seen.Found = append(seen.Found, aliases...)
	}
	for _, x := range seen.Found {
		if x.class == mask && x.under == "" {
			seen.Facts.Masks = append(seen.Facts.Masks, x.Mask)
		}
	}
	seen.Named = g.named(s)
	if err == nil {
		g.index.keep(g.trees(s))
	}
	return seen, err
}

// named gives, as patterns, what the configurations of git name that the last walk of
// each tree has read: hooks, programs and further configuration, there or not.
func (g *Guard) named(s *compiledProfile) []string {
	patterns := map[string]bool{}
	trees := g.trees(s)
	for _, i := range s.written {
		t := trees[i]
		t.mu.Lock()
		for name := range t.named {
			if pattern := strings.Trim(wildcards.Replace(filepath.Clean(name)), "/"); pattern != "" && pattern != "." {
				patterns[pattern] = true
			}
		}
		t.mu.Unlock()
	}
	return slices.Sorted(maps.Keys(patterns))
}

// wildcards have a meaning for path.Match; a pattern with more meanings does no harm.
var wildcards = strings.NewReplacer("*", "?", "[", "?", "]", "?", `\`, "?")

// A compiledProfile has the guard's computations about a profile, made once.
type compiledProfile struct {
	profile sandboxprofile.Profile
	invalid error
	key     string // Profile.Key
	kinds   *knownKinds
	proc    []string // tellingProc
	// roots are the granted paths that are surveyed, if they are directories: a parent
	// comes before what lies in it. Those of the system are none, where patterns do not
	// apply and looking would cost more than most calls, but for one that a tool may
	// write to.
	roots []surveyedRoot
	// written are the places of the roots that a tool may write to, in or around them.
	written  []int
	treesKey string // treesKeyOf
}

type surveyedRoot struct {
	path  string
	above []int // the places of the roots that it lies in
}

func compileProfile(p sandboxprofile.Profile) *compiledProfile {
	s := &compiledProfile{profile: p, invalid: p.Validate(), key: p.Key(), proc: tellingProc(), treesKey: treesKeyOf(p)}
	places := map[string]int{}
	for _, root := range slices.Sorted(maps.Keys(p.Paths)) {
		r := p.Paths[root]
		if system := sandboxprofile.IsSystemTree(root) && r&sandboxprofile.Write == 0; r == 0 || system {
			continue
		}
		var in []int
		for dir := range hostfs.Above(root) {
			if i, ok := places[dir]; ok {
				in = append(in, i)
			}
		}
		places[root] = len(s.roots)
		s.roots = append(s.roots, surveyedRoot{root, in})
	}
	s.written = writtenRoots(p, s.roots, places)
	s.kinds = newKnownKinds(hostfs.Keys(p), s.roots)
	return s
}

// writtenRoots are those of the roots that p lets a tool write anything in.
func writtenRoots(p sandboxprofile.Profile, roots []surveyedRoot, places map[string]int) []int {
	holds := map[int]bool{} // something below that may be written
	for path, r := range p.Paths {
		if r&sandboxprofile.Write == 0 {
			continue
		}
		for dir := range hostfs.Above(path) {
			if i, ok := places[dir]; ok {
				holds[i] = true
			}
		}
	}
	var written []int
	for i, root := range roots {
		if holds[i] || p.Paths[root.path]&sandboxprofile.Write != 0 || hostfs.WritableAround(p, root.path) != "" {
			written = append(written, i)
		}
	}
	return written
}

// findIn walks the trees of some roots, by place. A tree that lies inside another is
// walked once. With an error it gives what it has found all the same.
func (g *Guard) findIn(s *compiledProfile, roots []int, later *[]*tree) ([]Finding, error) {
	if len(roots) == 0 {
		return nil, nil
	}
	var found []Finding
	var errs []error
	done := make([]bool, len(s.roots))
	trees := g.trees(s)
	for _, i := range roots {
		t := trees[i]
		if t.hidden || slices.ContainsFunc(s.roots[i].above, func(in int) bool { return done[in] }) {
			continue
		}
		in, err := t.walk(later)
		found = append(found, withoutNested(in)...)
		errs = append(errs, err)
		done[i] = true
	}
	return found, errors.Join(errs...)
}

// HandOver has the next look take what the last one saw in trees that no tool may write
// to. It is for the one call that a look was made ahead for, a moment before: what people
// do in that moment, they could as well have done just after.
func (g *Guard) HandOver(p sandboxprofile.Profile) {
	for _, t := range g.trees(g.profiles.Of(p)) {
		t.mu.Lock()
		t.handed = t.latest != nil
		t.mu.Unlock()
	}
}

func within(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return sandboxprofile.Contains(r, path) })
}

// mayWrite reports whether p lets a tool make names in the directory of path,
// patterns aside.
func mayWrite(p sandboxprofile.Profile, path string) bool {
	for dir := range hostfs.Above(path) {
		if ownMount(p, dir) {
			return false
		}
		if r, ok := p.Paths[dir]; ok {
			return r&sandboxprofile.Write != 0
		}
	}
	return false
}

// shown reports whether p lets a tool see the host's file at path, patterns aside.
func shown(p sandboxprofile.Profile, path string) bool {
	for {
		if ownMount(p, path) {
			return false
		}
		if r, ok := p.Paths[path]; ok {
			return r != 0
		}
		if path == "/" {
			return false
		}
		path = path[:max(strings.LastIndexByte(path, '/'), 1)]
	}
}

// ownMount reports whether a sandbox for p has a directory of its own at path, or none,
// where the host has another. Files there on the host are not a tool's work, whatever
// is granted around them.
func ownMount(p sandboxprofile.Profile, path string) bool {
	return path == "/proc" || path == "/dev" || slices.Contains(p.Scratch, path)
}

// refuseLinks fails for a protected name that is a link. A mount cannot pin it,
// and the tool could put a file in its place: that is refused, not forgotten.
func refuseLinks(f sandboxprofile.Facts) error {
	for _, m := range f.Masks {
		if m.Kind == sandboxprofile.Symlink {
			return &confine.Unenforceable{
				Part:   fmt.Sprintf("write protection of %q", m.Path),
				Reason: "it is a symbolic link, which a mount cannot cover",
				Hint:   "replace the link with what it points to, or move it out of the writable root",
			}
		}
	}
	return nil
}

// withoutNested drops protect masks that lie below another protect mask.
func withoutNested(found []Finding) []Finding {
	var roots []string
	return slices.DeleteFunc(found, func(f Finding) bool {
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

// A folded matcher compares as a file system that folds names does, like the broker's
// (sandboxprofile.Fold): whether a directory folds is the file system's to say (ext4's
// casefold, vfat), and where it does not, a name that differs in nothing else is not worth
// a hole.
type folded struct{ *sandboxprofile.Matcher }

func newFolded(patterns []string) folded {
	lower := make([]string, len(patterns))
	for i, p := range patterns {
		lower[i] = sandboxprofile.Fold(p)
	}
	return folded{sandboxprofile.NewMatcher(lower)}
}

// Match is Matcher.Match.
func (f folded) Match(path string) bool { return f.Matcher.Match(sandboxprofile.Fold(path)) }

// MatchLast is Matcher.MatchLast.
func (f folded) MatchLast(path string) bool { return f.Matcher.MatchLast(sandboxprofile.Fold(path)) }
