package files

import (
	"path/filepath"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/tools"
)

// reach is one file as patterns see it. It is absolute: what was remembered for
// the files of one workspace says nothing about another. What the path rules
// refuse has no reach, and patterns never get to speak of it.
func reach(d tools.PathDecision) approval.Reach {
	return approval.Reach{
		Elements: []approval.Element{{Kind: approval.PathGlob, Name: d.Path}},
		Offers:   func() []approval.Pattern { return offers(d) },
	}
}

// offers are the files beside this one: of its kind first, then all, then those
// further down, but never the whole of a root.
func offers(d tools.PathDecision) []approval.Pattern {
	dir, ext := filepath.Dir(d.Path), filepath.Ext(d.Path)
	var values []string
	if ext != "" && ext != filepath.Base(d.Path) {
		values = append(values, dir+"/*"+ext)
	}
	values = append(values, dir+"/*")
	if d.Rule != nil && dir != d.Rule.Root {
		values = append(values, dir+"/**")
	}
	var list []approval.Pattern
	for _, v := range values {
		list = append(list, approval.Pattern{Kind: approval.PathGlob, Value: v})
	}
	return list
}
