// Package fileops walks directories and reads through files for the init of a
// sandbox: list_files, glob and grep, with the rules of .gitignore files.
//
// It is handed a Disk and looks at nothing else, so it never follows a link and
// cannot leave what the Disk shows. What it walks is an attacker's: every loop in
// here is bounded by a limit of the search, by its time, or by a constant below.
package fileops

import (
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/sandboxprofile"
)

const (
	// maxDepth is how many directories deep a walk goes. Each level holds a descriptor.
	maxDepth = 128
	// maxEntries is how many names of one directory are looked at.
	maxEntries = 100_000
	// maxSkipped is how many skipped names a result tells; the rest is counted.
	maxSkipped = 20
)

// A Disk opens absolute paths that had no symbolic link in them when the call was
// checked. It follows none.
type Disk interface {
	OpenDir(path string) (Dir, error)
	OpenFile(path string) (File, error)
}

// A Dir is an open directory.
type Dir interface {
	// Entries gives at most limit names, sorted, and whether there are more.
	Entries(limit int) (entries []Node, more bool, err error)
	// Size is a file's size in bytes; 0 if it is not known.
	Size(name string) int64
	OpenDir(name string) (Dir, error)
	OpenFile(name string) (File, error)
	Close() error
}

// A File is an open regular file. Opening fails for anything else.
type File interface {
	io.ReadCloser
	// Size is how long the file was when it was opened: no more is read of it.
	Size() int64
}

// A Node is one name in a directory. Type is as in sandboxprofile.Entry.
type Node struct {
	Name string
	Type string
}

// The types of nodes that are distinguished here.
const (
	TypeFile = "file"
	TypeDir  = "directory"
	TypeLink = "symlink"
)

// Run does one search. The error is that of opening op.Path, or of a pattern that
// does not parse. It ends early when stop reports true, and tells what was found
// until then.
func Run(disk Disk, kind sandboxprofile.Kind, op sandboxprofile.Operation, stop func() bool) (sandboxprofile.Findings, error) {
	w := &walk{
		disk: disk, kind: kind, base: op.Path, Search: *op.Search, stop: stop,
		deadline: time.Now().Add(op.Search.Within), left: op.MaxBytes,
		hide: sandboxprofile.NewMatcher(op.Search.Hide),
	}
	if err := w.prepare(); err != nil {
		return sandboxprofile.Findings{}, err
	}
	err := w.start()
	return w.found, err
}

// walk is one search under way.
type walk struct {
	sandboxprofile.Search
	disk     Disk
	kind     sandboxprofile.Kind
	base     string // the path that is searched
	hide     *sandboxprofile.Matcher
	names    nameFilter
	lines    sandboxprofile.Pattern // of GrepFiles
	stop     func() bool
	deadline time.Time
	left     int64  // bytes that the result may still grow
	buf      []byte // lent to one grep after another, and so is scratch
	scratch  []byte
	found    sandboxprofile.Findings
}

func (w *walk) prepare() (err error) {
	if w.names, err = newNameFilter(w.kind, w.Glob); err != nil {
		return err
	}
	if w.kind == sandboxprofile.GrepFiles {
		w.lines, err = sandboxprofile.CompilePattern(w.Pattern)
	}
	return err
}

// start begins at base: a directory, or one file for GrepFiles.
func (w *walk) start() error {
	dir, err := w.disk.OpenDir(w.base)
	if err != nil && w.kind == sandboxprofile.GrepFiles {
		file, fileErr := w.disk.OpenFile(w.base)
		if fileErr != nil {
			return fileErr
		}
		defer file.Close()
		w.grepFile(file, w.display(""), path.Base(w.base))
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	w.dir(dir, "", 1, w.rulesAbove())
	return nil
}

// dir looks at one directory. rel is its path from base, "" for base itself.
func (w *walk) dir(dir Dir, rel string, depth int, above *ignore) {
	nodes, more, err := dir.Entries(maxEntries)
	if err != nil {
		w.skip(w.display(rel), "cannot be read: "+err.Error())
		return
	}
	if more {
		w.skip(w.display(rel), "has too many entries; some are not looked at")
	}
	rules := above
	if !w.Ignored {
		rules = above.enter(dir, path.Join(w.base, rel), nodes)
	}
	for _, node := range nodes {
		if w.over() {
			return
		}
		w.node(dir, node, path.Join(rel, node.Name), depth, rules)
	}
}

// node looks at one entry of dir.
func (w *walk) node(dir Dir, node Node, rel string, depth int, rules *ignore) {
	abs := path.Join(w.base, rel)
	if w.hide.Match(abs) {
		return // as if it were not there: a refusal to read it says no more
	}
	ignored := rules.match(abs, node.Type == TypeDir)
	if w.kind == sandboxprofile.ListFiles { // names it, as ls does, and does not go in
		w.entry(dir, node, rel)
		ignored = ignored && node.Type == TypeDir && (w.Depth == 0 || int64(depth) < w.Depth)
	}
	if ignored {
		w.found.Ignored++
	}
	switch {
	case node.Type == TypeDir:
		if w.enters(node, rel, abs, depth, ignored) {
			w.subdir(dir, node.Name, rel, depth, rules)
		}
	case ignored || !w.names.match(rel):
	case w.kind == sandboxprofile.GlobFiles:
		w.entry(dir, node, rel)
	case w.kind == sandboxprofile.GrepFiles:
		w.grepNode(dir, node, rel)
	}
}

// enters says whether the walk goes into a directory.
func (w *walk) enters(node Node, rel, abs string, depth int, ignored bool) bool {
	switch {
	case ignored, node.Name == ".git", w.Depth > 0 && int64(depth) >= w.Depth, !w.names.enters(rel):
		return false
	case slices.Contains(w.Exclude, abs):
		w.skip(w.display(rel), "has rules of its own; name it as the path")
		return false
	case depth >= maxDepth:
		w.skip(w.display(rel), "is too deep; name it as the path")
		return false
	}
	return true
}

func (w *walk) subdir(dir Dir, name, rel string, depth int, rules *ignore) {
	sub, err := dir.OpenDir(name)
	if err != nil {
		w.skip(w.display(rel), "cannot be read: "+err.Error())
		return
	}
	defer sub.Close()
	w.dir(sub, rel, depth+1, rules)
}

// entry adds a name to the result.
func (w *walk) entry(dir Dir, node Node, rel string) {
	e := sandboxprofile.Entry{Path: w.display(rel), Type: node.Type}
	if w.kind == sandboxprofile.ListFiles && node.Type == TypeFile {
		e.Size = dir.Size(node.Name)
	}
	if w.room(int64(len(w.found.Entries)), int64(len(e.Path))) {
		w.found.Entries = append(w.found.Entries, e)
	}
}

// perResult is the space that a result takes beside its text, in bytes of a message.
const perResult = 32

// room takes n bytes of what the result may still grow, if there is room for
// another one after have; if not, the search ends.
func (w *walk) room(have, n int64) bool {
	switch {
	case w.found.Stopped != "":
		return false
	case have >= w.Limit:
		w.found.Stopped = sandboxprofile.StoppedAtLimit
		return false
	case n+perResult > w.left:
		w.found.Stopped = sandboxprofile.StoppedAtBytes
		return false
	}
	w.left -= n + perResult
	return true
}

// over reports whether the search is to end, and notes why.
func (w *walk) over() bool {
	switch {
	case w.found.Stopped != "":
	case w.stop():
		w.found.Stopped = sandboxprofile.StoppedByCall
	case time.Now().After(w.deadline):
		w.found.Stopped = sandboxprofile.StoppedAtTime
	}
	return w.found.Stopped != ""
}

// skip notes that what is shown as name was not looked at.
func (w *walk) skip(name, reason string) {
	w.found.SkippedCount++
	if len(w.found.Skipped) < maxSkipped {
		w.found.Skipped = append(w.found.Skipped, sandboxprofile.Skipped{Path: name, Reason: reason})
	}
}

// display is a path as the caller would spell it.
func (w *walk) display(rel string) string {
	name := w.Prefix + rel
	if rel == "" {
		name = path.Clean(w.Prefix) // "." if it is empty
	}
	return strings.ToValidUTF8(name, "\uFFFD")
}

// nameFilter is a search's glob. The zero value matches everything.
type nameFilter struct {
	glob   *sandboxprofile.Glob
	negate bool
	// last holds the glob against the last component only.
	last bool
	// prune says that the glob tells which directories need not be entered.
	prune bool
}

func newNameFilter(kind sandboxprofile.Kind, text string) (nameFilter, error) {
	if text == "" {
		return nameFilter{}, nil
	}
	f := nameFilter{prune: kind == sandboxprofile.GlobFiles}
	if kind == sandboxprofile.GrepFiles {
		text, f.negate = strings.CutPrefix(text, "!")
		f.last = !strings.Contains(text, "/")
		f.prune = !f.last && !f.negate
	}
	glob, err := sandboxprofile.ParseGlob(strings.TrimPrefix(text, "/"))
	f.glob = &glob
	return f, err
}

func (f nameFilter) match(rel string) bool {
	if f.glob == nil {
		return true
	}
	if f.last {
		rel = path.Base(rel)
	}
	return f.glob.Match(rel) != f.negate
}

func (f nameFilter) enters(rel string) bool {
	return !f.prune || f.glob.Enters(rel)
}
