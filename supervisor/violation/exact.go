package violation

import (
	"path"
	"slices"

	"github.com/sandgate/sandgate/protocol"
)

// A Change is one that a broker refused.
type Change struct {
	Path    string
	Outside bool // of what may be written; else a pattern withholds it
}

// Exact gives the violations among the changes that a broker refused: what a pattern
// withholds. What merely lies outside of what may be written, a program often tries and
// does without (a cache beside a library, say); that is a violation when the program
// complains, see Confirmed.
func (p Policy) Exact(refused []Change) []protocol.Violation {
	var list []protocol.Violation
	for _, r := range refused {
		if r.Outside || !p.Refused(r.Path, protocol.RightWrite) {
			continue
		}
		v := p.File(r.Path, protocol.RightWrite, protocol.Observed)
		if len(list) < Max && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// Confirmed is what is left of violations that were inferred from what a program
// printed, where a broker knows each change that was refused: a right to write counts
// only at a path that was refused, and at the one that the program meant.
func (p Policy) Confirmed(inferred []protocol.Violation, refused []Change) []protocol.Violation {
	var list []protocol.Violation
	for _, v := range inferred {
		if v.Kind == protocol.ViolationFile && v.Right == protocol.RightWrite {
			i := slices.IndexFunc(refused, func(r Change) bool { return r.Path == v.Path })
			if i < 0 {
				i = slices.IndexFunc(refused, func(r Change) bool { return path.Base(r.Path) == path.Base(v.Path) })
			}
			if i < 0 || !refused[i].Outside || !p.Refused(refused[i].Path, protocol.RightWrite) {
				continue // it did not happen, or Exact has it
			}
			v = p.File(refused[i].Path, protocol.RightWrite, protocol.Observed)
		}
		told := func(r Change) bool { return !r.Outside && path.Base(r.Path) == path.Base(v.Path) }
		if v.Kind == protocol.ViolationFile && slices.ContainsFunc(refused, told) {
			continue // the same complaint
		}
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}
