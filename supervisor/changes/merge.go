package changes

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
	"golang.org/x/sys/unix"
)

// The largest text that is merged, in bytes and in lines: a comparison takes 200 times the
// size of a text of empty ones.
const maxMerged, maxMergedLines = 1 << 20, 200_000

// mergeAll merges where somebody has changed something since.
func (u *Undo) mergeAll(w *Workspace) {
	for i := range u.Steps {
		if s := &u.Steps[i]; s.left != nil {
			w.merge(s)
			s.left = nil
		}
	}
	u.Steps = slices.DeleteFunc(u.Steps, func(s Step) bool { return s.Merged && equal(s.Now, s.Was) })
}

// merge makes of a file that was changed since one in which both changes are, if they are in
// different places of a text.
func (w *Workspace) merge(s *Step) {
	left, there, was := s.left, s.Now, s.Was
	for _, e := range []*Entry{left, there, was} {
		if e == nil || e.kind() != unix.S_IFREG || e.Unkept != "" || e.Size > maxMerged || !restorable(*e) {
			return
		}
	}
	merged := Entry{Mode: was.Mode, Owner: was.Owner, Attributes: was.Attributes}
	switch {
	case there.Owner.is(left.Owner):
	case was.Owner.is(left.Owner):
		merged.Owner = there.Owner
	default:
		return
	}
	switch {
	case there.Mode == left.Mode:
	case was.Mode == left.Mode:
		merged.Mode = there.Mode
	default:
		return
	}
	switch {
	case there.Attributes == left.Attributes:
	case was.Attributes == left.Attributes:
		merged.Attributes = there.Attributes
	default:
		return
	}
	var texts [3]string
	for i, e := range []*Entry{left, there, was} {
		b, err := w.objects.get(e.Hash)
		if err != nil || !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 || bytes.Count(b, []byte{'\n'}) > maxMergedLines {
			return // it stays a conflict
		}
		texts[i] = string(b)
	}
	text, ok := merge3(texts[0], texts[1], texts[2])
	if !ok {
		return
	}
	hash, err := w.objects.put([]byte(text))
	if err != nil {
		return
	}
	merged.Hash, merged.Size = hash, int64(len(text))
	s.Own, s.Was, s.Merged, s.Conflict = was, &merged, true, ""
}

// merge3 is base with what a and b made of it, unless they changed the same line or two that
// are next to each other: who reads one would want to know of the other.
func merge3(base, a, b string) (string, bool) {
	if a == b {
		return a, true
	}
	x, y := udiff.Lines(base, a), udiff.Lines(base, b)
	for _, p := range x {
		for _, q := range y {
			if p != q && p.Start <= q.End && q.Start <= p.End {
				return "", false
			}
		}
	}
	edits, ok := udiff.Merge(x, y)
	if !ok {
		return "", false
	}
	text, err := udiff.Apply(base, edits)
	return text, err == nil
}
