package undo

import (
	"cmp"
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

// NotUndone is in each warning of a result about something that cannot be taken back, and in no
// other.
const NotUndone = "cannot be undone"

// A Keeper keeps what calls change, so that it can be undone.
type Keeper struct {
	Store *changes.Store // nil keeps nothing
	// Caches is where what can be made again is kept between calls: nothing there is to be undone.
	Caches  string
	Workdir string
}

// Begin looks at the places that a call may change, before it starts. ended looks
// again and records what has changed, so that a person can take it back. What cannot be
// kept is said in the result; failed says why nothing is kept of some place.
func (k Keeper) Begin(plan tools.Plan, record changes.Call) (warnings []string, ended func() []string, failed error) {
	writable, roots := k.roots(plan.Profile)
	for _, file := range writableFiles(plan.Profile, roots) {
		warnings = append(warnings, approval.EscapeLine("what this call changes in "+file+" "+NotUndone+": it is a single file that is granted, and only directories are recorded"))
	}
	if err := k.together(&record, roots); err != nil {
		warnings = append(warnings, approval.EscapeLine("what this call changes in several directories "+NotUndone+" at once: "+err.Error()))
	}
	var under []*changes.Running
	for _, root := range roots {
		w, err := k.Store.Workspace(root)
		var r *changes.Running
		if err == nil {
			r, err = w.Begin(record, writable)
		}
		if err != nil {
			failed = cmp.Or(failed, err)
			warnings = append(warnings, approval.EscapeLine("what this call changes in "+root+" "+NotUndone+": "+err.Error()))
			continue
		}
		warnings = append(warnings, blind(root, r)...)
		if len(r.Undone) > 0 {
			warnings = append(warnings, undoneText(root, r.Undone))
		}
		under = append(under, r)
	}
	return warnings, func() (warnings []string) {
		for _, r := range under {
			rec, err := r.End()
			if err != nil {
				warnings = append(warnings, approval.EscapeLine("what this call changed "+NotUndone+" as a whole: "+err.Error()))
			}
			warnings = append(warnings, unkept(r.Root(), rec)...)
			warnings = append(warnings, blind(r.Root(), r)...)
			if r.Dropped > 0 {
				warnings = append(warnings, outcome.Plural(int64(r.Dropped), "earlier call")+" "+NotUndone+" any more: what is kept of this workspace has reached undo.size")
			}
		}
		return warnings
	}, failed
}

// blind says where nothing is kept.
func blind(root string, r *changes.Running) (warnings []string) {
	if n := len(r.Blind); n > 0 {
		more := ""
		if n > 1 {
			more = fmt.Sprintf(" (and %d more directories)", n-1)
		}
		warnings = append(warnings, approval.EscapeLine("what calls change in "+filepath.Join(root, r.Blind[0].Name)+" "+NotUndone+": "+r.Blind[0].Why+more))
	}
	return warnings
}

// unkept says of which files a call has changed or removed what was not kept.
func unkept(root string, rec changes.Record) (warnings []string) {
	renamed := map[changes.Name]bool{}
	for _, ch := range rec.Changes {
		renamed[ch.From] = ch.From != ""
	}
	lost := slices.DeleteFunc(slices.Clone(rec.Changes), func(ch changes.Change) bool {
		return ch.Before == nil || ch.Before.IsDir() || ch.Before.Unkept == ""
	})
	if n := len(lost); n > 0 {
		more := ""
		if n > 1 {
			more = fmt.Sprintf(" (and %d more)", n-1)
		}
		but := ""
		if first := lost[0]; first.After == nil && renamed[first.Path] { // it may have been written, too: a call can set times back
			but = ", except for its name"
		}
		warnings = append(warnings, approval.EscapeLine("what this call changed in "+filepath.Join(root, string(lost[0].Path))+" "+NotUndone+but+": its content was not kept: "+lost[0].Before.Unkept+more))
	}
	return warnings
}

// together has what a call changes in several directories be one record of the workspace: a commit
// in a package of a larger repository is of the package's files and of the repository's own.
func (k Keeper) together(record *changes.Call, roots []string) error {
	at := slices.IndexFunc(roots, func(root string) bool { return sandboxprofile.Contains(root, k.Workdir) })
	if at < 0 || len(roots) < 2 {
		return nil
	}
	w, err := k.Store.Workspace(roots[at])
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
func (k Keeper) LookAhead(p sandboxprofile.Profile) {
	if k.Store == nil {
		return
	}
	writable, roots := k.roots(p)
	for _, root := range roots {
		k.Store.LookAhead(root, writable)
	}
}

// roots are the directories in which something is kept of what a call changes, and which names in them it may.
func (k Keeper) roots(p sandboxprofile.Profile) (writable func(path string) bool, roots []string) {
	sees := sandboxprofile.NewLookup(p) // prepared: it is asked about every name that is looked at
	writable = func(path string) bool { return sees.Rights(path)&sandboxprofile.Write != 0 }
	return writable, slices.DeleteFunc(writableRoots(p, writable), func(root string) bool { // the cache of the workspace
		return k.Caches != "" && sandboxprofile.Contains(k.Caches, root)
	})
}

// Rests reports whether nothing is kept for the time being in some directory that a call may change.
func (k Keeper) Rests(plan tools.Plan) bool {
	_, roots := k.roots(plan.Profile)
	return slices.ContainsFunc(roots, k.Store.Rests)
}

// Keeps reports whether a call leaves a record of what it changes.
func (k Keeper) Keeps(plan tools.Plan) bool {
	if k.Store == nil || plan.Class == sandboxprofile.ClassRead || plan.Kind == tools.ByAgent {
		return false
	}
	a := plan.Action.Kind
	return a == sandboxprofile.Exec || a == sandboxprofile.WriteFile || a == sandboxprofile.EditFile
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

// writableFiles are the files of the host that p lets a call write by themselves, and no look at a directory comes to.
func writableFiles(p sandboxprofile.Profile, roots []string) (files []string) {
	for _, path := range slices.Sorted(maps.Keys(p.Paths)) {
		in := slices.ContainsFunc(roots, func(r string) bool { return sandboxprofile.Contains(r, path) })
		if info, err := os.Lstat(path); !in && p.Paths[path]&sandboxprofile.Write != 0 && err == nil && info.Mode().IsRegular() {
			files = append(files, path)
		}
	}
	return files
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
