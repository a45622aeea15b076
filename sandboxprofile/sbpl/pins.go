package sbpl

import (
	"path"
	"slices"
	"strings"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// pinned are the operations for renaming, removing and putting in place.
// Changing what a pinned directory holds stays allowed.
const pinned = "file-write-unlink file-write-create"

// pins keeps each directory in place whose path a rule above depends on. A
// rename is checked at both ends and not for what lies below: without these,
// moving .git away and back would open .git/hooks.
func (c *compiler) pins() error {
	c.text.section("pins")
	var filters []string
	for _, name := range c.pinnedPaths() {
		filters = append(filters, literal(name), foldedPath(name))
	}
	if len(filters) > 0 {
		c.text.comment("Paths that rules above depend on.")
		c.deny(pinned, filters...)
	}
	for _, e := range c.pinnedNames() {
		c.text.comment("The first part of a pattern.")
		c.deny(pinned, e)
	}
	for _, dir := range c.private {
		if names := c.plainBeginnings(dir); len(names) > 0 {
			// Nothing gets from here to where it would count: moving it out is
			// file-write-create there, and dir itself is pinned.
			c.text.comment("Programs make these in a new home; what a pattern covers in them stays out of reach.")
			c.allow("file-write-create", names...)
		}
	}
	return nil
}

// plainBeginnings are the proper beginnings of patterns without wildcards, as
// paths in a scratch directory.
func (c *compiler) plainBeginnings(dir string) []string {
	var list []string
	for _, p := range slices.Concat(c.protect, c.hide) {
		name := dir
		for part := range strings.SplitSeq(path.Dir(p.source), "/") {
			if part == "." || strings.ContainsAny(part, `*?[\`) {
				break
			}
			name += "/" + part
			if f := literal(name); !slices.Contains(list, f) {
				list = append(list, f)
			}
		}
	}
	return list
}

// pinnedPaths are the keys of the profile, the scratch directories, what the
// survey added, and everything above them, as far as it can be written.
func (c *compiler) pinnedPaths() []string {
	names := slices.Concat(c.keys(), c.private)
	for _, m := range c.facts.Masks {
		if !c.byPattern(m) {
			names = append(names, Resolve(m.Path))
		}
	}
	set := make(map[string]bool)
	for _, name := range names {
		for ; name != "/"; name = path.Dir(name) {
			if c.kernel.Rights(name)&sp.Write != 0 || slices.Contains(c.private, name) {
				set[name] = true
			}
		}
	}
	return sortedPaths(set)
}

// pinnedNames are the proper beginnings of the patterns, each once.
func (c *compiler) pinnedNames() []string {
	var list []string
	for _, p := range slices.Concat(c.protect, c.hide) {
		for n := 1; n < len(p.components); n++ {
			if e := p.leads(n); !slices.Contains(list, e) {
				list = append(list, e)
			}
		}
	}
	return list
}
