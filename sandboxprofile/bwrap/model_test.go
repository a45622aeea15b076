package bwrap_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	sp "github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/bwrap"
	"pgregory.net/rapid"
)

// A host is a model of a file system: each path with its kind, without links.
type host map[string]sp.FileKind

// A mounted is one mount that the arguments make, in their order.
type mounted struct {
	dest   string
	kind   string // bind, null, tmpfs
	write  bool
	sealed bool
}

// sandbox is what interpreting the arguments gives.
type sandbox []mounted

// interpret reads the mount options of a command line, and checks each against
// the rule that nothing is ever created on the host.
func interpret(args []string, h host) (sandbox, error) {
	var s sandbox
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "--bind", "--ro-bind", "--dev-bind":
			src, dest := args[i+1], args[i+2]
			m := mounted{dest: dest, kind: "bind", write: args[i] == "--bind"}
			if src == "/dev/null" {
				m.kind = "null"
			} else if src != dest || h[src] == sp.Missing {
				return nil, fmt.Errorf("%v binds what is not there", args[i:i+3])
			}
			if err := s.target(dest, h, m.kind == "null" || h[src] != sp.Dir); err != nil {
				return nil, err
			}
			s = append(s, m)
			i += 2
		case "--ro-bind-data":
			if err := s.target(args[i+2], h, true); err != nil {
				return nil, err
			}
			s = append(s, mounted{dest: args[i+2], kind: "bind"})
			i += 2
		case "--tmpfs", "--proc", "--dev":
			if err := s.target(args[i+1], h, false); err != nil {
				return nil, err
			}
			s = append(s, mounted{dest: args[i+1], kind: "tmpfs", write: true})
			i++
		case "--dir":
			if h[args[i+1]] != sp.Dir {
				return nil, fmt.Errorf("%v makes a directory on the host", args[i:i+2])
			}
			i++
		case "--remount-ro":
			for j := range s {
				if s[j].dest == args[i+1] {
					s[j].sealed = true
				}
			}
			i++
		}
	}
	return s, nil
}

// target fails if mounting at dest would create something on the host, or lies
// below something that is no directory.
func (s sandbox) target(dest string, h host, file bool) error {
	m := s.at(dest)
	switch {
	case m.kind == "null":
		return fmt.Errorf("%s lies below a masked file", dest)
	case m.kind == "bind" && m.dest != dest:
		if h[dest] == sp.Missing {
			return fmt.Errorf("%s would be created on the host", dest)
		}
		if file == (h[dest] == sp.Dir) {
			return fmt.Errorf("%s is %v on the host", dest, h[dest])
		}
	}
	return nil
}

// at is the mount that a path is seen through: the last one that covers it.
func (s sandbox) at(name string) mounted {
	m := mounted{dest: "/", kind: "tmpfs"}
	for _, c := range s {
		if sp.Contains(c.dest, name) {
			m = c
		}
	}
	return m
}

var (
	component = rapid.SampledFrom([]string{"a", "b", ".git", "hooks", ".env"})
	modelPath = rapid.Map(rapid.SliceOfN(component, 1, 4), func(c []string) string { return "/" + strings.Join(c, "/") })
)

var genHost = rapid.Custom(func(t *rapid.T) host {
	h := host{"/": sp.Dir, "/proc": sp.Dir, "/dev": sp.Dir}
	for _, p := range rapid.SliceOfN(modelPath, 0, 12).Draw(t, "files") {
		for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
			h[dir] = sp.Dir
		}
		if h[p] == sp.Missing {
			h[p] = rapid.SampledFrom([]sp.FileKind{sp.Dir, sp.File}).Draw(t, "kind")
		}
	}
	for p := range h { // a file that became a directory's parent is a directory
		for dir := path.Dir(p); dir != "/"; dir = path.Dir(dir) {
			h[dir] = sp.Dir
		}
	}
	return h
})

var genTree = rapid.Custom(func(t *rapid.T) sp.Profile {
	rights := rapid.Map(rapid.IntRange(0, 7), func(i int) sp.Rights { return sp.Rights(i) })
	keys := rapid.OneOf(modelPath, rapid.Just("/"))
	return sp.Profile{
		Paths:   rapid.MapOfN(keys, rights, 0, 5).Draw(t, "paths"),
		Scratch: rapid.SliceOfN(modelPath, 0, 2).Draw(t, "scratch"),
		Protect: rapid.SliceOfN(rapid.SampledFrom([]string{".git/hooks", "b"}), 0, 2).Draw(t, "protect"),
		Hide:    rapid.SliceOfN(rapid.SampledFrom([]string{".env", "a/b"}), 0, 2).Draw(t, "hide"),
		Limits:  sp.NoLimits(),
	}
})

// survey is what the profile's host would be found to be.
func survey(p sp.Profile, h host) sp.Facts {
	f := sp.Facts{Kinds: map[string]sp.FileKind{}}
	for _, k := range p.Keys() {
		f.Kinds[k] = h[k]
	}
	for _, name := range slices.SortedFunc(maps.Keys(h), sp.ComparePaths) {
		hide := slices.ContainsFunc(p.Hide, func(pat string) bool { return sp.MatchPattern(pat, name) })
		if hide || slices.ContainsFunc(p.Protect, func(pat string) bool { return sp.MatchPattern(pat, name) }) {
			f.Masks = append(f.Masks, sp.Mask{Path: name, Kind: h[name], Hide: hide})
		}
	}
	return f
}

// TestMountsAreTheProfile: for every file of a random host and of two random
// profiles, the mounts of what both allow show it, and show it writable, exactly
// if the rights of both say so.
func TestMountsAreTheProfile(t *testing.T) {
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		if !mountsAreTheProfile(t) {
			refused++
		}
	})
	t.Logf("%d profiles were refused", refused)
}

// FuzzMountsAreTheProfile lets coverage choose the trees.
func FuzzMountsAreTheProfile(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		seed := make([]byte, 800)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { mountsAreTheProfile(t) }))
}

// mountsAreTheProfile is false if the profile is refused.
func mountsAreTheProfile(t *rapid.T) bool {
	h, a, b := genHost.Draw(t, "host"), genTree.Draw(t, "profile"), sp.Top()
	if rapid.Bool().Draw(t, "meet") {
		b = genTree.Draw(t, "ceiling")
	}
	p := sp.Intersect(a, b)
	args, err := bwrap.Compile(p, survey(p, h))
	var mine *bwrap.Error
	if errors.As(err, &mine) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := interpret(args, h)
	if err != nil {
		t.Fatalf("%v\n%v", err, args)
	}
	for name := range h {
		if name == "/proc" || name == "/dev" {
			continue // the sandbox's own
		}
		if p.Rights(name) != a.Rights(name)&b.Rights(name) {
			t.Fatalf("%s: both allow %v, the meet %v", name, a.Rights(name)&b.Rights(name), p.Rights(name))
		}
		checkPath(t, p, s, name)
	}
	return true
}

func checkPath(t *rapid.T, p sp.Profile, s sandbox, name string) {
	t.Helper()
	rights, m := p.Rights(name), s.at(name)
	visible := m.kind == "bind"
	switch {
	case visible && rights == 0:
		t.Fatalf("%s is visible and has no rights; seen through %+v", name, m)
	case visible && m.write && rights&sp.Write == 0:
		t.Fatalf("%s is writable and has %v; seen through %+v", name, rights, m)
	case !visible && rights != 0:
		t.Fatalf("%s has %v and is not visible; seen through %+v", name, rights, m)
	case visible && !m.write && rights&sp.Write != 0:
		t.Fatalf("%s has %v and is read-only; seen through %+v", name, rights, m)
	case m.kind == "tmpfs" && m.write && !m.sealed && m.dest == name && rights == 0 && !slices.Contains(p.Scratch, name):
		t.Fatalf("%s is masked by a directory that can be written", name)
	}
}
