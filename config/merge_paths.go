package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/sandboxprofile"
)

const pathsKey = "sandbox.paths"

// layPaths puts the paths of a trusted file over the others, name by name. An entry
// for the same directory is the same entry under another name.
func (m *merger) layPaths() {
	if !m.c.Set(pathsKey) {
		m.c.Sandbox.Paths = nil
		m.forget(pathsKey)
	}
	for _, have := range m.c.Sandbox.Paths {
		if replaced(have, m.t.Sandbox.Paths) {
			m.forget(fieldKey(pathsKey, have.Name))
		}
	}
	m.c.Sandbox.Paths = laid(m.c.Sandbox.Paths, m.t.Sandbox.Paths)
	for _, p := range m.t.Sandbox.Paths {
		m.take(fieldKey(pathsKey, p.Name))
	}
	m.c.Origins[pathsKey] = m.position(pathsKey)
}

// laid are the paths that there are with theirs over ours. The first has a say in StartDir.
func laid(ours, theirs []Path) []Path {
	left := slices.DeleteFunc(slices.Clone(ours), func(p Path) bool { return replaced(p, theirs) })
	return slices.Concat(theirs, left)
}

func replaced(p Path, theirs []Path) bool {
	return slices.ContainsFunc(theirs, func(q Path) bool { return q.Name == p.Name || q.Root == p.Root })
}

// boundPaths leaves of every directory what t has of it too. Below a root of t its
// other rights hold, so that root becomes one of c.
func (m *merger) boundPaths() {
	ours, theirs := m.c.Sandbox.Paths, m.t.Sandbox.Paths
	m.widerPaths(ours, theirs)
	var out []Path
	for _, p := range ours {
		if bound := longest(theirs, p.Root); bound != nil {
			out = append(out, m.meetPath(p, *bound))
		}
	}
	for _, q := range theirs {
		p := longest(ours, q.Root)
		if p == nil || p.Root == q.Root {
			continue
		}
		piece := *p
		piece.Root = q.Root
		piece = m.meetPath(piece, q)
		if around := longest(out, q.Root); around != nil && sameRights(*around, piece) {
			continue
		}
		// People read the name that our file gives to another directory in a question.
		taken := slices.DeleteFunc(slices.Concat(out, ours), func(o Path) bool { return o.Name == p.Name && nameIfGone(out, *p) != "" })
		piece.Name, piece.Position = freeName(taken, cmp.Or(nameIfGone(out, *p), q.Name)), q.Position
		m.takeAs(fieldKey(pathsKey, piece.Name), fieldKey(pathsKey, q.Name))
		out = append(out, piece)
	}
	m.boundedPaths(ours, out)
	m.c.Sandbox.Paths = out
}

// widerPaths notes which of t's paths would grant more than there is.
func (m *merger) widerPaths(ours, theirs []Path) {
	for _, q := range theirs {
		field := fieldKey(pathsKey, q.Name)
		p := longest(ours, q.Root)
		switch {
		case p == nil:
			m.unused(field+".root", quote(q.Root)+" would be an additional directory")
			continue
		case q.Mode == ReadWrite && p.Mode == ReadOnly:
			m.unused(field+".mode", m.wider(fieldKey(pathsKey, p.Name)+".mode", q.Mode, p.Mode))
		}
		if p.WriteApproval && !q.WriteApproval && p.Mode == ReadWrite && q.Mode == ReadWrite {
			m.unused(field+".write_approval", "writes would no longer need approval")
		}
		if wideSuffixes(q.Suffixes, p.Suffixes) {
			m.unused(field+".suffixes", fmt.Sprintf("files other than %v would be allowed", p.Suffixes))
		}
		if p.ReadApproval && !q.ReadApproval {
			m.unused(field+".read_approval", "reads would no longer need approval")
		}
	}
	for _, p := range ours { // one that another directory's takes the name of is then as what lies around it
		q := longest(laid(ours, theirs), p.Root)
		if q == nil || q.Root == p.Root {
			continue
		}
		if q.Mode == ReadWrite && p.Mode == ReadOnly || p.ReadApproval && !q.ReadApproval || p.WriteApproval && !q.WriteApproval && q.Mode == ReadWrite || wideSuffixes(q.Suffixes, p.Suffixes) {
			m.unused(fieldKey(pathsKey, p.Name)+".root", fmt.Sprintf("%s would get the permissions of %s (mode %s) instead of its own", quote(p.Root), quote(q.Root), q.Mode))
		}
	}
}

// boundedPaths tells of what the administrator's file has taken away, and forgets the
// positions of what is gone.
func (m *merger) boundedPaths(before, after []Path) {
	for _, p := range before {
		field := fieldKey(pathsKey, p.Name)
		i := slices.IndexFunc(after, func(q Path) bool { return q.Name == p.Name && q.Root == p.Root })
		switch {
		case i < 0:
			m.narrowed(field)
			if !slices.ContainsFunc(after, func(q Path) bool { return q.Name == p.Name }) {
				m.forget(field)
			}
		case !sameRights(p, after[i]):
			m.narrowed(field)
			for _, key := range []string{"mode", "write_approval", "read_approval", "suffixes"} {
				if bound := longest(m.t.Sandbox.Paths, p.Root); bound != nil && m.changed(key, p, after[i]) {
					m.takeAs(field+"."+key, fieldKey(pathsKey, bound.Name)+"."+key)
				}
			}
		}
	}
}

func (m *merger) changed(key string, a, b Path) bool {
	switch key {
	case "mode":
		return a.Mode != b.Mode
	case "write_approval":
		return a.WriteApproval != b.WriteApproval
	case "read_approval":
		return a.ReadApproval != b.ReadApproval
	}
	return !slices.Equal(a.Suffixes, b.Suffixes)
}

// meetPath is p with no more than bound has there.
func (m *merger) meetPath(p, bound Path) Path {
	if bound.Mode == ReadOnly {
		p.Mode = ReadOnly
	}
	p.WriteApproval = p.WriteApproval || bound.WriteApproval
	p.ReadApproval = p.ReadApproval || bound.ReadApproval
	both := meetSuffixes(p.Suffixes, bound.Suffixes)
	if len(both) == 0 && len(p.Suffixes) > 0 {
		m.problem(fieldKey(pathsKey, bound.Name)+".suffixes",
			fmt.Sprintf("%v and the suffixes of sandbox.paths.%s, %v, have nothing in common: no file of %s is left", bound.Suffixes, p.Name, p.Suffixes, quote(p.Root)),
			"remove the path from one of the two files")
		both = []string{"/"} // no name ends so: without an ending every file would be meant
	}
	p.Suffixes = both
	return p
}

// meetSuffixes are the endings of names that have one of each list; none is any.
func meetSuffixes(a, b []string) []string {
	if len(a) == 0 || len(b) == 0 {
		return slices.Concat(a, b)
	}
	var both []string
	for _, x := range a {
		for _, y := range b {
			longer, shorter := x, y
			if len(y) > len(x) {
				longer, shorter = y, x
			}
			if strings.HasSuffix(longer, shorter) && !slices.Contains(both, longer) {
				both = append(both, longer)
			}
		}
	}
	return both
}

// wideSuffixes reports whether names with one of the endings have none of those that
// bound them; no endings are all.
func wideSuffixes(endings, bound []string) bool {
	if len(bound) == 0 {
		return false
	}
	return len(endings) == 0 || slices.ContainsFunc(endings, func(e string) bool {
		return !slices.ContainsFunc(bound, func(b string) bool { return strings.HasSuffix(e, b) })
	})
}

func sameRights(a, b Path) bool {
	return a.Mode == b.Mode && a.WriteApproval == b.WriteApproval && a.ReadApproval == b.ReadApproval && slices.Equal(a.Suffixes, b.Suffixes)
}

// longest is the entry that decides about a path, nil if none holds it.
func longest(list []Path, path string) *Path {
	var found *Path
	for i := range list {
		if sandboxprofile.Contains(list[i].Root, path) && (found == nil || len(list[i].Root) > len(found.Root)) {
			found = &list[i]
		}
	}
	return found
}

// nameIfGone is the name of p if nothing else of it is left.
func nameIfGone(list []Path, p Path) string {
	if slices.ContainsFunc(list, func(q Path) bool { return q.Name == p.Name }) {
		return ""
	}
	return p.Name
}

func freeName(list []Path, name string) string {
	free := name
	for n := 2; slices.ContainsFunc(list, func(q Path) bool { return q.Name == free }); n++ {
		free = fmt.Sprintf("%s_%d", name, n)
	}
	return free
}

// nowhere is in place of names of which no directory is left: no path has it.
const nowhere = "(none)"

// namesNow are the names under which the directories of a rule are found now.
func namesNow(r Rule, written, paths []Path) []string {
	if len(r.SandboxPaths) == 0 {
		return r.SandboxPaths
	}
	var names []string
	for _, name := range r.SandboxPaths {
		i := slices.IndexFunc(written, func(p Path) bool { return p.Name == name })
		if i < 0 {
			continue
		}
		same := func(p Path) bool { return p.Name == name && p.Root == written[i].Root }
		if slices.ContainsFunc(paths, same) {
			names = append(names, name)
			continue
		}
		for _, p := range paths {
			if sandboxprofile.Contains(written[i].Root, p.Root) && !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	switch {
	case len(names) > 0:
		return names
	case r.Approval: // without its condition a rule that asks asks more
		return nil
	}
	return []string{nowhere}
}

// grantsNow are the paths that a custom tool has, under the names of now; nil is all.
func grantsNow(granted map[string]Mode, written, paths []Path) map[string]Mode {
	if granted == nil {
		return nil
	}
	now := map[string]Mode{}
	for _, p := range paths {
		if was := longest(written, p.Root); was != nil && granted[was.Name] != "" {
			now[p.Name] = granted[was.Name]
		}
	}
	return now
}

// roots are directories by name.
func roots(paths []Path) map[string]string {
	m := map[string]string{}
	for _, p := range paths {
		m[p.Name] = p.Root
	}
	return m
}
