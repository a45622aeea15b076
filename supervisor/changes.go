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
	"github.com/sandgate/sandgate/supervisor/outcome"
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
	writable, roots := s.keptRoots(plan.Profile)
	record := changes.Call{
		Session: string(c.session.id), Call: string(c.req.CallID), Agent: c.session.agent, Tool: string(c.req.Tool),
		Subject: s.cfg.Log.RedactedText(c.subject()), Started: c.started, Lasting: c.kind.lasting(),
	}
	if err := s.together(&record, roots); err != nil {
		c.warnings = append(c.warnings, approval.EscapeLine("what this call changes in several directories "+NotUndone+" at once: "+err.Error()))
	}
	var under []*changes.Running
	for _, root := range roots {
		w, err := s.cfg.Changes.Workspace(root)
		var r *changes.Running
		if err == nil {
			r, err = w.Begin(record, writable)
		}
		if err != nil {
			c.warnings = append(c.warnings, approval.EscapeLine("what this call changes in "+root+" "+NotUndone+": "+err.Error()))
			continue
		}
		c.tellBlind(root, r)
		if len(r.Undone) > 0 {
			c.warnings = append(c.warnings, undoneText(root, r.Undone))
		}
		under = append(under, r)
	}
	return func() {
		for _, r := range under {
			rec, err := r.End()
			if err != nil {
				c.warnings = append(c.warnings, approval.EscapeLine("what this call changed "+NotUndone+" as a whole: "+err.Error()))
			}
			c.tellUnkept(r.Root(), rec)
			c.tellBlind(r.Root(), r)
			if r.Dropped > 0 {
				c.warnings = append(c.warnings, outcome.Plural(int64(r.Dropped), "earlier call")+" "+NotUndone+" any more: what is kept of this workspace has reached undo.size")
			}
		}
	}
}

// tellBlind says where nothing is kept.
func (c *call) tellBlind(root string, r *changes.Running) {
	if n := len(r.Blind); n > 0 {
		more := ""
		if n > 1 {
			more = fmt.Sprintf(" (and %d more directories)", n-1)
		}
		c.warnings = append(c.warnings, approval.EscapeLine("what calls change in "+filepath.Join(root, r.Blind[0].Name)+" "+NotUndone+": "+r.Blind[0].Why+more))
	}
}

// tellUnkept says of which files a call has changed or removed what was not kept.
func (c *call) tellUnkept(root string, rec changes.Record) {
	unkept := slices.DeleteFunc(slices.Clone(rec.Changes), func(ch changes.Change) bool {
		return ch.Before == nil || ch.Before.IsDir() || ch.Before.Unkept == ""
	})
	if n := len(unkept); n > 0 {
		more := ""
		if n > 1 {
			more = fmt.Sprintf(" (and %d more)", n-1)
		}
		c.warnings = append(c.warnings, approval.EscapeLine("what this call changed in "+filepath.Join(root, string(unkept[0].Path))+" "+NotUndone+": its content was not kept: "+unkept[0].Before.Unkept+more))
	}
}

// together has what a call changes in several directories be one record of the workspace: a commit
// in a package of a larger repository is of the package's files and of the repository's own.
func (s *Supervisor) together(record *changes.Call, roots []string) error {
	at := slices.IndexFunc(roots, func(root string) bool { return sandboxprofile.Contains(root, s.cfg.Workdir) })
	if at < 0 || len(roots) < 2 {
		return nil
	}
	w, err := s.cfg.Changes.Workspace(roots[at])
	if err == nil {
		err = w.Beside(slices.Delete(slices.Clone(roots), at, at+1))
	}
	if err == nil {
		record.Workspace = roots[at]
	}
	return err
}

// LookAhead begins to look at what calls under a profile may change: where there is one call for a process, what
// it has to look at takes as long as all else that is done before it.
func (s *Supervisor) LookAhead(p sandboxprofile.Profile) {
	if s.cfg.Changes == nil {
		return
	}
	writable, roots := s.keptRoots(p)
	for _, root := range roots {
		s.cfg.Changes.LookAhead(root, writable)
	}
}

// keptRoots are the directories in which something is kept of what a call changes, and which names in them it may.
func (s *Supervisor) keptRoots(p sandboxprofile.Profile) (writable func(path string) bool, roots []string) {
	sees := sandboxprofile.NewLookup(p) // prepared: it is asked about every name that is looked at
	writable = func(path string) bool { return sees.Rights(path)&sandboxprofile.Write != 0 }
	return writable, slices.DeleteFunc(writableRoots(p, writable), func(root string) bool { // the cache of the workspace
		return s.cfg.Caches != "" && sandboxprofile.Contains(s.cfg.Caches, root)
	})
}

// rests reports whether nothing is kept for the time being in some directory that a call may change.
func (s *Supervisor) rests(plan tools.Plan) bool {
	_, roots := s.keptRoots(plan.Profile)
	return slices.ContainsFunc(roots, s.cfg.Changes.Rests)
}

// keeps reports whether a call leaves a record of what it changes.
func (s *Supervisor) keeps(plan tools.Plan) bool {
	if s.cfg.Changes == nil || plan.Class == sandboxprofile.ClassRead || plan.Kind == tools.ByAgent {
		return false
	}
	k := plan.Action.Kind
	return k == sandboxprofile.Exec || k == sandboxprofile.WriteFile || k == sandboxprofile.EditFile
}

// writableRoots are the directories of the host that p lets a call write, without those that a look at
// another one comes to: it goes into nothing that is not writable.
func writableRoots(p sandboxprofile.Profile, writable func(path string) bool) (roots []string) {
	for _, path := range slices.Sorted(maps.Keys(p.Paths)) {
		looked := slices.ContainsFunc(roots, func(r string) bool {
			if !strings.HasPrefix(path, strings.TrimSuffix(r, "/")+"/") {
				return false
			}
			for dir := path; dir != r; dir = filepath.Dir(dir) {
				if !writable(dir) {
					return false
				}
			}
			return true
		})
		if looked || p.Paths[path]&sandboxprofile.Write == 0 || slices.Contains(p.Scratch, path) {
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
