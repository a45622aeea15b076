package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// survey looks at the host for the compilers: what kind of file stands at each
// path of the profile, and which existing files inside the granted trees match a
// protect or hide pattern.
func survey(p sandboxprofile.Profile) (sandboxprofile.Facts, error) {
	f := sandboxprofile.Facts{Kinds: map[string]sandboxprofile.FileKind{}, Links: map[string]string{}}
	for _, path := range keys(p) {
		kind, link, err := inspect(path)
		if err != nil {
			return f, err
		}
		f.Kinds[path] = kind
		if kind == sandboxprofile.Symlink {
			f.Links[path] = link
		}
	}
	masks, err := findMasks(p, f)
	f.Masks = masks
	return f, err
}

func keys(p sandboxprofile.Profile) []string {
	var ks []string
	for k := range p.Paths {
		ks = append(ks, k)
	}
	ks = slices.Concat(ks, p.Scratch, p.Devices, p.UnixSockets)
	slices.Sort(ks)
	return slices.Compact(ks)
}

func inspect(path string) (sandboxprofile.FileKind, string, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return sandboxprofile.Missing, "", nil // what we may not see, the tool may not either
	case err != nil:
		return sandboxprofile.Missing, "", fmt.Errorf("confine: survey: %w", err)
	}
	kind := kindOf(info.Mode())
	if kind != sandboxprofile.Symlink {
		return kind, "", nil
	}
	link, err := os.Readlink(path)
	if err != nil {
		return sandboxprofile.Missing, "", fmt.Errorf("confine: survey: %w", err)
	}
	return kind, link, nil
}

func kindOf(m fs.FileMode) sandboxprofile.FileKind {
	switch {
	case m.IsDir():
		return sandboxprofile.Dir
	case m.IsRegular():
		return sandboxprofile.File
	case m&fs.ModeSymlink != 0:
		return sandboxprofile.Symlink
	default:
		return sandboxprofile.Other
	}
}

// findMasks walks every granted tree but the system's own, where patterns do not
// apply and finding nothing would cost more than most calls. A system directory
// that a tool may write to is walked like any other. A tree that lies inside
// another is walked once.
func findMasks(p sandboxprofile.Profile, f sandboxprofile.Facts) ([]sandboxprofile.Mask, error) {
	s := surveyor{p, sandboxprofile.NewMatcher(p.Protect), sandboxprofile.NewMatcher(p.Hide)}
	var masks []sandboxprofile.Mask
	var done []string
	for _, root := range slices.Sorted(maps.Keys(p.Paths)) { // a parent comes before what lies in it
		r := p.Paths[root]
		system := sandboxprofile.IsSystemTree(root) && r&sandboxprofile.Write == 0
		if r == 0 || system || f.Kinds[root] != sandboxprofile.Dir || within(root, done) || s.hide.Match(root) {
			continue
		}
		found, err := s.tree(root)
		if err != nil {
			return nil, err
		}
		masks = append(masks, found...)
		done = append(done, root)
	}
	return masks, nil
}

func within(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool {
		return path == r || strings.HasPrefix(path, strings.TrimSuffix(r, "/")+"/")
	})
}

// A surveyor finds what in a tree has to be covered.
type surveyor struct {
	profile       sandboxprofile.Profile
	protect, hide *sandboxprofile.Matcher
}

func (s surveyor) tree(root string) ([]sandboxprofile.Mask, error) {
	var masks []sandboxprofile.Mask
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				return nil // gone meanwhile, or as closed to the tool as it is to us
			}
			return err
		}
		m, ok := s.mask(path, d)
		if !ok || path == root {
			return nil
		}
		if m.Kind == sandboxprofile.Symlink && m.Hide {
			return nil // what it points at is reachable or not by its own name
		}
		masks = append(masks, m)
		if m.Hide && d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("confine: survey %q: %w", root, err)
	}
	return withoutNested(masks), nil
}

// mask is what covers path, if anything must. Below a granted root the parents
// were asked about before, so only the last component counts. A socket is covered
// unless the profile lists it: connecting is none of the rights of a path, and
// Landlock knows it from ABI 9 on only.
func (s surveyor) mask(path string, d fs.DirEntry) (sandboxprofile.Mask, bool) {
	m := sandboxprofile.Mask{Path: path, Kind: kindOf(d.Type())}
	switch {
	case s.hide.MatchLast(path), d.Type()&fs.ModeSocket != 0 && !slices.Contains(s.profile.UnixSockets, path):
		m.Hide = true
		return m, true
	case s.protect.MatchLast(path):
		return m, true
	default:
		return m, false
	}
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

// appeared lists what an action has left under protected names: masks of now that
// were none before. A repository as git makes it, with sample hooks and a
// configuration that runs nothing, is not worth a word.
func appeared(before, now sandboxprofile.Facts) []string {
	known := map[string]bool{}
	for _, m := range before.Masks {
		known[m.Path] = true
	}
	var paths []string
	for _, m := range now.Masks {
		if !m.Hide && !known[m.Path] && !asGitMakesIt(m.Path) {
			paths = append(paths, m.Path)
		}
	}
	return paths
}

// withoutNested drops protect masks that lie below another protect mask.
func withoutNested(masks []sandboxprofile.Mask) []sandboxprofile.Mask {
	var roots []string
	return slices.DeleteFunc(masks, func(m sandboxprofile.Mask) bool {
		if m.Hide {
			return false
		}
		if within(m.Path, roots) {
			return true
		}
		if m.Kind == sandboxprofile.Dir {
			roots = append(roots, m.Path)
		}
		return false
	})
}
