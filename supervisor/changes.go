package supervisor

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/changes"
	"github.com/sandgate/sandgate/tools"
)

// NotUndone is in each warning of a result that says what cannot be taken back, and in no other.
const NotUndone = "cannot be undone"

// keepChanges looks at the places that a call may change, before it starts. ended looks
// again and records what has changed, so that a person can take it back. What cannot be
// kept is said in the result: a call never fails for it.
func (s *Supervisor) keepChanges(c *call, plan tools.Plan) (ended func()) {
	if !s.keeps(plan) {
		return func() {}
	}
	sees := sandboxprofile.NewLookup(plan.Profile) // prepared: it is asked about every name that is looked at
	writable := func(path string) bool { return sees.Rights(path)&sandboxprofile.Write != 0 }
	record := changes.Call{
		Session: string(c.session.id), Call: string(c.req.CallID), Agent: c.session.agent, Tool: string(c.req.Tool),
		Subject: s.cfg.Log.RedactedText(c.subject()), Started: c.started, Lasting: c.server != nil,
	}
	var under []*changes.Running
	for _, root := range writableRoots(plan.Profile) {
		if slices.ContainsFunc(s.cfg.Own, func(own string) bool { return sandboxprofile.Contains(own, root) }) {
			continue // the cache of the workspace
		}
		w, err := s.cfg.Changes.Workspace(root)
		var r *changes.Running
		if err == nil {
			r, err = w.Begin(record, writable)
		}
		if err != nil {
			c.warnings = append(c.warnings, approval.EscapeLine("what this call changes in "+root+" "+NotUndone+": "+err.Error()))
			continue
		}
		if len(r.Undone) > 0 {
			c.warnings = append(c.warnings, undoneText(root, r.Undone))
		}
		under = append(under, r)
	}
	return func() {
		for _, r := range under {
			if _, err := r.End(); err != nil {
				c.warnings = append(c.warnings, approval.EscapeLine("what this call changed "+NotUndone+" as a whole: "+err.Error()))
			}
			if r.Dropped > 0 {
				c.warnings = append(c.warnings, plural(int64(r.Dropped), "earlier call")+" "+NotUndone+" any more: what is kept of this workspace has reached undo.size")
			}
		}
	}
}

// keeps reports whether a call leaves a record of what it changes.
func (s *Supervisor) keeps(plan tools.Plan) bool {
	if s.cfg.Changes == nil || plan.Class == sandboxprofile.ClassRead || plan.Elsewhere != nil {
		return false
	}
	k := plan.Action.Kind
	return k == sandboxprofile.Exec || k == sandboxprofile.WriteFile || k == sandboxprofile.EditFile
}

// writableRoots are the directories of the host that p lets a call write, without those
// that lie in another one.
func writableRoots(p sandboxprofile.Profile) (roots []string) {
	for _, path := range slices.Sorted(maps.Keys(p.Paths)) {
		inside := slices.ContainsFunc(roots, func(r string) bool { return strings.HasPrefix(path, strings.TrimSuffix(r, "/")+"/") })
		if inside || p.Paths[path]&sandboxprofile.Write == 0 || slices.Contains(p.Scratch, path) {
			continue
		}
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			roots = append(roots, path)
		}
	}
	return roots
}

// undoneText tells an agent that its own work is gone, so that it does not go on from it.
func undoneText(root string, names []string) string {
	const most = 10
	more := ""
	if n := len(names) - most; n > 0 {
		names, more = names[:most], fmt.Sprintf(" and %d more", n)
	}
	full := make([]string, len(names))
	for i, name := range names {
		full[i] = filepath.Join(root, name)
	}
	return approval.EscapeLine("since your last call a person has put files back to what they were before: " + strings.Join(full, ", ") + more + "; look at them before you go on")
}
