package violation

import (
	"path"
	"slices"
	"strings"

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
// complains, see Confirmed. The broker's own list ends before more others.
func (p Policy) Exact(refused []Change, more int) []protocol.Violation {
	var list []protocol.Violation
	for _, r := range refused {
		if r.Outside || !p.Refused(r.Path, protocol.RightWrite) {
			continue
		}
		v := p.File(r.Path, protocol.RightWrite, protocol.Observed)
		switch {
		case slices.Contains(list, v):
		case len(list) < Max:
			list = append(list, v)
		default:
			more++
		}
	}
	return append(list, More(protocol.ViolationFile, protocol.Observed, more)...)
}

// Confirmed is the rest of the violations that were inferred from a program's output,
// where a broker knows each change that was refused: a right to write counts only at a
// path that was refused, and at the one that the program meant. Names are printed
// relative to dir, or to where the program had gone below it.
func (p Policy) Confirmed(inferred []protocol.Violation, refused []Change, dir string) []protocol.Violation {
	var list []protocol.Violation
	for _, v := range inferred {
		if v.Kind == protocol.ViolationFile && v.Right == protocol.RightWrite {
			r, ok := p.meant(v.Path, refused, dir)
			if !ok || !r.Outside || !p.Refused(r.Path, protocol.RightWrite) {
				continue // it did not happen, or Exact has it
			}
			v = p.File(r.Path, protocol.RightWrite, protocol.Observed)
		}
		told := func(r Change) bool { return !r.Outside && likeness(v.Path, r.Path, dir) >= sameName }
		if v.Kind == protocol.ViolationFile && slices.ContainsFunc(refused, told) {
			continue // the same complaint
		}
		if !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// meant is the refused change that a complaint about a path is most likely about. Of two
// that are as likely it is the one that Exact leaves to the complaint.
func (p Policy) meant(complaint string, refused []Change, dir string) (best Change, ok bool) {
	most := noLikeness
	for _, r := range refused {
		l := likeness(complaint, r.Path, dir)
		if l > most || l == most && l > noLikeness && r.Outside && !best.Outside {
			best, most = r, l
		}
	}
	return best, most > noLikeness
}

// How likely a complaint about a path is about another.
const (
	noLikeness = iota
	sameBase   // a link leads there, perhaps; or a directory for it could not be made
	sameName   // relative to another directory
	samePath
)

func likeness(complaint, refused, dir string) int {
	name, below := strings.CutPrefix(complaint, strings.TrimSuffix(dir, "/")+"/")
	switch {
	case complaint == refused:
		return samePath
	case below && strings.HasSuffix(refused, "/"+name):
		return sameName
	case path.Base(complaint) == path.Base(refused), strings.HasPrefix(complaint, refused+"/"):
		return sameBase
	}
	return noLikeness
}
