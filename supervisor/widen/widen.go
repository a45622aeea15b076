package widen

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
	"golang.org/x/sys/unix"
)

// A wider plan is one with one thing more.
type Plan struct {
	Plan  tools.Plan
	Path  string // links resolved
	Right protocol.Right
	Below bool // it is a directory
	// Lifted are the protected patterns that cover the path.
	Lifted []string
}

func (w Plan) String() string {
	verb := map[protocol.Right]string{protocol.RightRead: "read", protocol.RightWrite: "change"}[w.Right]
	s := verb + " " + approval.EscapeName(w.Path)
	if w.Below {
		s += ", and all below it"
	}
	if len(w.Lifted) > 0 {
		s += ", and everything else that is protected as " + strings.Join(w.Lifted, ", ")
	}
	return s
}

// Policy says what no answer adds to a plan, and what an answer adds only as a whole.
type Policy struct {
	Operator sandboxprofile.Profile
	Own      []string // sandgate's files and directories
	Withheld []string // of the proposal
}

// First is the plan with the first thing that was refused and that a person could add.
func (b Policy) First(refused []protocol.Violation, plan tools.Plan) (Plan, bool) {
	for _, v := range refused {
		if v.Kind != protocol.ViolationFile || v.Right != protocol.RightRead && v.Right != protocol.RightWrite {
			continue
		}
		if w, ok := b.widerBy(plan, v); ok {
			return w, true
		}
	}
	return Plan{}, false
}

// widerBy adds one path. An answer never adds what is hidden, sandgate's own or the
// system's, nor what the operator's profile withholds, nor HOME or a directory above it,
// which is more than one thing, nor what this user has no right to.
func (b Policy) widerBy(plan tools.Plan, v protocol.Violation) (Plan, bool) {
	w := Plan{Plan: plan, Right: v.Right}
	want, access := sandboxprofile.Read, uint32(unix.R_OK)
	if v.Right == protocol.RightWrite {
		want, access = sandboxprofile.Read|sandboxprofile.Write, unix.W_OK
	}
	if l := plan.Action.Ceiling; want&sandboxprofile.Write != 0 && l != nil && l.Class == sandboxprofile.ClassRead {
		return w, false // a line that only reads was misread
	}
	if l := plan.Action.Ceiling; l != nil && l.EmptyHome && v.Allow == "" {
		return w, false // HOME stays empty: the directory of that name outside is another one
	}
	var err error
	if w.Path, err = filepath.EvalSymlinks(v.Path); errors.Is(err, fs.ErrNotExist) && want&sandboxprofile.Write != 0 {
		w.Path, err = filepath.EvalSymlinks(filepath.Dir(v.Path))
	}
	if err != nil || b.neverAdded(plan, w.Path) || unix.Access(w.Path, access) != nil {
		return w, false
	}
	info, err := os.Lstat(w.Path)
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return w, false
	}
	w.Below = info.IsDir()
	p := plan.Profile
	p.Paths = maps.Clone(p.Paths)
	for _, dir := range b.Withheld { // it is asked about as a whole, as it is when it is named
		if sandboxprofile.Contains(dir, w.Path) && p.Paths[dir] == 0 {
			w.Path, w.Below = dir, true
			delete(p.Paths, dir)
			p.Paths[dir] = p.Rights(dir) & (want | sandboxprofile.Execute) // and not all that the root around it has
		}
	}
	p.Protect = slices.DeleteFunc(slices.Clone(p.Protect), func(pattern string) bool {
		covers := want&sandboxprofile.Write != 0 && sandboxprofile.MatchPattern(pattern, v.Path)
		if covers {
			w.Lifted = append(w.Lifted, pattern)
		}
		return covers
	})
	if !want.SubsetOf(p.Rights(w.Path)) {
		p.Paths[w.Path] = p.Rights(w.Path) | want
	}
	w.Plan.Profile = sandboxprofile.Intersect(p, b.Operator)
	return w, want.SubsetOf(w.Plan.Profile.Rights(w.Path)) && w.Plan.Profile.Digest() != plan.Profile.Digest()
}

func (b Policy) neverAdded(plan tools.Plan, path string) bool {
	home, err := os.UserHomeDir()
	if err != nil || sandboxprofile.IsSystemTree(path) || sandboxprofile.Contains(path, home) || sandboxprofile.Contains("/run", path) {
		return true
	}
	for _, own := range b.Own {
		if sandboxprofile.Contains(own, path) || sandboxprofile.Contains(path, own) {
			return true
		}
	}
	longest, none := "", false
	for dir, r := range plan.Profile.Paths {
		if sandboxprofile.Contains(dir, path) && len(dir) > len(longest) {
			longest, none = dir, r == 0
		}
	}
	return none && !slices.Contains(b.Withheld, longest)
}
