package tools

import (
	"slices"
	"testing"
)

// TestAnUntrustedFileKeepsNoRootWritable: a root that the narrower configuration alone has stays as the
// other says; one that both have is written.
func TestAnUntrustedFileKeepsNoRootWritable(t *testing.T) {
	with := Proposal{Unchanged: []string{"/w/docs"}, Kept: []string{"/w/cache", "/w/src"}}
	without := Proposal{EmptyHome: true, Unchanged: []string{"/w"}, Kept: []string{"/w/cache", "/w/docs"}}
	s := Stricter(with, without)
	if !s.EmptyHome || !slices.Equal(s.Unchanged, []string{"/w", "/w/docs"}) || !slices.Equal(s.Kept, []string{"/w/cache"}) {
		t.Errorf("unchanged are %v, kept %v, HOME %t", s.Unchanged, s.Kept, s.EmptyHome)
	}
}
