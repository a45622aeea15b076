package landlock

import (
	"fmt"
	"maps"
	"path"
	"slices"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// A Rule grants rights at and below one path, as the sandbox sees it. The path
// exists in a sandbox built from the same profile and facts; if opening it
// fails, the sandbox is not what was compiled, and must not be used.
type Rule struct {
	Path   string   `json:"path"`
	Access AccessFS `json:"access"`
}

func (r Rule) String() string { return fmt.Sprintf("%v %s", r.Access, r.Path) }

// What the rights of a profile are for a directory.
const (
	readAccess  = ReadFile | ReadDir
	writeAccess = WriteFile | RemoveDir | RemoveFile | MakeDir | MakeReg | MakeSock | MakeFifo | MakeSym | Refer | Truncate
	fullAccess  = readAccess | writeAccess | Execute
)

// Changing are the rights by which a file, a directory or a name is changed. A domain
// that handles them and grants none leaves everything as it is, but for what Landlock
// does not cover: a file's mode, owner, times and attributes.
const Changing = writeAccess | MakeChar | MakeBlock

// StillWritable are the rules under which a program that must change nothing can write
// all the same: those of private directories, and of devices that keep nothing. own
// are the paths of both, and no path of a profile may be among them.
func StillWritable(own []string) []Rule {
	var rules []Rule
	for _, dir := range own {
		a := AccessFS(writeAccess)
		if sp.Contains("/dev", dir) && dir != "/dev/shm" {
			a = WriteFile | Truncate
		}
		rules = append(rules, Rule{Path: dir, Access: a})
	}
	return rules
}

// Compile gives the rules for p in a bubblewrap sandbox that was compiled from
// the same p and f, sorted by path. The rights are those of the newest ABI; the
// init leaves out what its kernel does not handle.
func Compile(p sp.Profile, f sp.Facts) ([]Rule, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("landlock: compile: %w", err)
	}
	p = p.Normalize()
	if err := leaks(p); err != nil {
		return nil, err
	}
	rules := make(map[string]AccessFS)
	for k := range p.Paths {
		grant(rules, k, access(p.Rights(k)), f.Kinds[k])
	}
	for _, name := range p.OwnNames(f) {
		grant(rules, name, readAccess, sp.File)
	}
	for _, s := range p.UnixSockets {
		grant(rules, s, ResolveUnix, f.Kinds[s])
	}
	ownTrees(rules, p)
	return sorted(rules), nil
}

func access(r sp.Rights) AccessFS {
	var a AccessFS
	if r&sp.Read != 0 {
		a |= readAccess
	}
	if r&sp.Write != 0 {
		a |= writeAccess
	}
	if r&sp.Execute != 0 {
		a |= Execute
	}
	return a
}

// grant adds a right at one path, cut to what its kind can hold. A link is not a place
// of its own: its target has its own rule.
func grant(rules map[string]AccessFS, name string, a AccessFS, kind sp.FileKind) {
	switch kind {
	case sp.Missing, sp.Symlink:
		return
	case sp.Dir:
		a &^= ResolveUnix
	default:
		a &= forFiles
	}
	if a != 0 {
		rules[name] |= a
	}
}

// ownTrees are the directories that belong to the sandbox itself.
func ownTrees(rules map[string]AccessFS, p sp.Profile) {
	for _, dir := range p.Scratch {
		rules[dir] |= fullAccess
	}
	rules["/dev/shm"] |= fullAccess
	// Terminals that a program opens for itself (script, expect) and the plain
	// devices; no program may create nodes.
	rules["/dev"] |= readAccess | WriteFile | Truncate | IoctlDev
	rules["/proc"] |= readAccess
	// The root directory and the parents of granted paths hold names of granted
	// paths only, so they may be listed, unless something that the mounts show is
	// not to be read.
	if allReadable(p) {
		rules["/"] |= ReadDir
	}
}

func allReadable(p sp.Profile) bool {
	for _, r := range p.Paths {
		if r != 0 && r&sp.Read == 0 {
			return false
		}
	}
	return true
}

// leaks finds what neither mounts nor rules can keep: a path that is not to be read
// below one that is. The mounts hide a path without any right and hold write
// everywhere. Withholding execution of a readable file is not a boundary (it can be
// copied to a scratch directory and run there), so that leak is accepted.
func leaks(p sp.Profile) error {
	for _, k := range p.Keys() {
		r := p.Rights(k)
		if r == 0 || r&sp.Read != 0 || k == "/" {
			continue
		}
		if over := fromAbove(p, k) &^ (r | sp.Write); over != 0 {
			return fmt.Errorf("landlock: compile paths %q: cannot limit it to %v: a rule for a parent directory grants %v to everything below", k, r, over)
		}
	}
	return nil
}

// fromAbove is what the rules of the directories above k grant to k, scratch
// directories included: a bind below one is under the scratch directory's rule.
func fromAbove(p sp.Profile, k string) sp.Rights {
	var r sp.Rights
	for dir := path.Dir(k); ; dir = path.Dir(dir) {
		if slices.Contains(p.Scratch, dir) {
			r |= sp.Read | sp.Write | sp.Execute
		}
		r |= p.Paths[dir]
		if dir == "/" {
			return r
		}
	}
}

func sorted(rules map[string]AccessFS) []Rule {
	var list []Rule
	for _, k := range slices.SortedFunc(maps.Keys(rules), sp.ComparePaths) {
		list = append(list, Rule{Path: k, Access: rules[k]})
	}
	return list
}
