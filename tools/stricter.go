package tools

import (
	"cmp"
	"slices"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// Stricter is p, the proposal of a configuration that an untrusted file has narrowed, held against
// that of the same call without the file: what either asks is asked, what either holds is held, and p's
// profile is the plan's. What a narrower file takes away can make a test of directories true that
// allows, and no test has to know of it: without the file the answer is no freer.
func Stricter(p, without Proposal) Proposal {
	s := p
	if q := without; DecidedWithout(p, q) {
		s = q
		s.Plan.Profile, s.Unheld = p.Plan.Profile, cmp.Or(q.Unheld, p.Unheld)
	}
	s.Review, s.EmptyHome = p.Review || without.Review, p.EmptyHome || without.EmptyHome
	s.Withheld, s.Unchanged = union(p.Withheld, without.Withheld), union(p.Unchanged, without.Unchanged)
	s.Kept = slices.DeleteFunc(slices.Clone(p.Kept), func(dir string) bool { return !slices.Contains(without.Kept, dir) })
	s.Apart = slices.Concat(p.Apart, without.Apart)
	s.Changeable = union(p.Changeable, without.Changeable)
	s.Reach = p.Reach.Stricter(without.Reach)
	return s
}

// DecidedWithout reports whether the answer without the file is the one that holds.
func DecidedWithout(p, without Proposal) bool {
	class := func(p Proposal) sandboxprofile.Class {
		if c := p.Plan.Action.Ceiling; c != nil {
			return c.Class
		}
		return sandboxprofile.ClassBeyond
	}
	return p.Request == nil && (without.Request != nil || p.Unheld == nil && without.Unheld != nil || class(without) < class(p))
}

func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}
