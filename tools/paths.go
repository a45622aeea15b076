package tools

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// A PathRule is one entry of `sandbox.paths`: a directory, and what tools may do
// at and below it. The zero value grants nothing.
type PathRule struct {
	Name string // "workspace"
	Root string // absolute, clean, symbolic links resolved
	// Write is false for `mode: ro`.
	Write bool
	// Suffixes, if any, are the only endings that a file's name may have.
	Suffixes []string
	// ReadApproval and WriteApproval say that a person is asked first.
	ReadApproval  bool
	WriteApproval bool
	// Undoable: a person is not asked before a write because it can be undone; no file says so.
	Undoable bool
	// Cache: programs keep there what they can make again, and each that a person lets run has it.
	Cache bool
	// Position is where the rule is written: "sandgate.yaml:4:5".
	Position string
}

// Label names the rule as the configuration does: "sandbox.paths.workspace".
func (r *PathRule) Label() string { return "sandbox.paths." + r.Name }

// Paths decides what a call may do with a path. It is the tools' own reading of
// the configuration, made before anybody is asked; the sandbox holds the same
// roots and patterns again, whatever is decided here.
type Paths struct {
	Rules []PathRule
	// Hide and Protect are the patterns of the profile: see
	// sandboxprofile.MatchPattern.
	Hide    []string
	Protect []string
	// Cwd is the start of relative paths. "" means the first rule's root; callers with a
	// configuration give its directory.
	Cwd string
	// Origin is the directory for relative names in rules. "" means Cwd; otherwise it is what Cwd
	// was before an untrusted configuration changed it.
	Origin string
	// Home replaces "~/"; "" leaves it an ordinary name.
	Home string
	// Scratch are directories of the sandbox's own. A root that lies below one, as a
	// workspace lies in HOME, is the user's.
	Scratch []string
	// Open are those of them that a call held to reading may write: see sandboxprofile.Profile.Open.
	Open []string
	// Above is the state before the workspace's own file narrowed it, or nil: what calls
	// could change then still counts as changeable. The author of that file wrote the others
	// of the workspace, too.
	Above *Paths
	// Until stops what reads files to hold them: Call.Done.
	Until <-chan struct{}

	hide, protect *sandboxprofile.Matcher // set by Prepared
}

// Prepared returns p with its patterns in a faster form. Call it again after changing Hide or
// Protect.
func (p Paths) Prepared() Paths {
	p.hide, p.protect = sandboxprofile.NewMatcher(p.Hide), sandboxprofile.NewMatcher(p.Protect)
	return p
}

// A PathDecision is the decision of Paths about one path. Its zero value denies.
type PathDecision struct {
	// Path is absolute and free of links. It is for the plan and the audit log:
	// to an agent it would tell where a link outside the roots leads.
	Path string
	// Rule is the one that decided, nil if the path is outside every root.
	Rule   *PathRule
	Effect Effect
	Reason string // for people and agents; set unless Effect is Allow
	Hint   string // for the model: what would be allowed instead
}

// Resolve gives the absolute path that path means, with "..", "~/" and every
// symbolic link resolved, also those of a path whose last components do not
// exist yet, and those of dangling links. A relative path starts at Cwd. Its
// error is an *ArgumentError for field "path".
//
// The answer is true when it is given. Between then and the use of the path another
// process may swap a component for a link, so its user opens it with openat2(2) and
// RESOLVE_NO_SYMLINKS, as sandboxprofile.Operation says: a resolved path has no links
// left, so one that appears is an attack or drift.
func (p Paths) Resolve(path string) (string, error) {
	resolved, err := p.resolve(path)
	if err != nil {
		return "", argumentError(err)
	}
	return resolved, nil
}

func (p Paths) resolve(path string) (string, error) {
	if err := checkPath(path); err != nil {
		return "", err
	}
	abs, err := absolute(path, p.Start(), p.Home)
	if err != nil {
		return "", err
	}
	return resolveLinks(abs)
}

// AskedReads are the roots below which a person is asked before a read.
func (p Paths) AskedReads() []string {
	var roots []string
	for _, r := range p.Rules {
		if r.ReadApproval {
			roots = append(roots, r.Root)
		}
	}
	return roots
}

// Asks gives the first root, of those below which a person is asked before a read, that one of
// the words of a command names; "" if none does.
func (p Paths) Asks(words []string, dir string) (label string) {
	if len(p.AskedReads()) == 0 {
		return ""
	}
	p.Cwd = dir
	for path := range pathsIn(words) {
		if found, err := p.Decide(path, false); err == nil && found.Rule != nil && found.Rule.ReadApproval {
			return found.Rule.Label()
		}
	}
	return ""
}

// Unread are the roots below which a person is asked before a read, but for those that the words of a command
// spell. Nobody is asked where a word leads: a link that a call has made, of a name that a person types, names
// nothing.
func (p Paths) Unread(words []string, dir string) []string {
	return slices.DeleteFunc(p.AskedReads(), func(root string) bool {
		for path := range pathsIn(words) {
			if abs, err := absolute(path, dir, p.Home); err == nil && below(root, filepath.Clean(abs)) {
				return true
			}
		}
		return false
	})
}

// pathsIn yields what the words of a command may name, and the directory that it runs in.
func pathsIn(words []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, word := range words {
			_, value, _ := strings.Cut(word, "=")
			if !yield(word) || !yield(value) {
				return
			}
		}
		yield(".")
	}
}

// AskedWrites are the roots below which a person is asked before a write.
func (p Paths) AskedWrites() []string {
	var roots []string
	for _, r := range p.Rules {
		if r.Write && r.WriteApproval {
			roots = append(roots, r.Root)
		}
	}
	return roots
}

// Speaks names what allows one command of a line to run without a prompt.
type Speaks struct {
	Words string   // of the rule
	Roots []string // that the rule is for, by name; none, and it is for all
}

// Unnamed are the roots that a program leaves as they are because of what lets it run without a question. Of
// those that ask before a write they are all that no rule names: not the one in which commands start, and
// none that has a path that is a word of each rule. Calls that run without a prompt may write what a rule
// for the project runs. A rule for some roots leaves all others as they are, whether they ask or not: a
// link, an archive, a default name of output leads to none of them.
func (p Paths) Unnamed(line ...Speaks) []string {
	p.Cwd = cmp.Or(p.Origin, p.Start())
	in := func(root, name string) bool {
		resolved, err := p.Resolve(name)
		found := p.rulesFor(resolved)
		return err == nil && len(found) > 0 && found[0].Root == root
	}
	asks := p.AskedWrites()
	if len(line) == 0 {
		line = []Speaks{{}}
	}
	return slices.DeleteFunc(p.Changed(nil), func(root string) bool {
		leaves := func(s Speaks) bool {
			if len(s.Roots) > 0 {
				return !slices.ContainsFunc(p.Rules, func(r PathRule) bool { return r.Root == root && slices.Contains(s.Roots, r.Name) })
			}
			words := strings.FieldsFunc(s.Words, func(r rune) bool { return r == ' ' || r == '=' })
			named := slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "/") && in(root, w) })
			return slices.Contains(asks, root) && !named && !in(root, ".")
		}
		cache := slices.ContainsFunc(p.Rules, func(r PathRule) bool { return r.Cache && r.Root == root })
		return cache || !slices.ContainsFunc(line, leaves)
	})
}

// Changed are the roots that may be written, but for those that stay as they are. One may lie in another.
func (p Paths) Changed(unchanged []string) []string {
	var roots []string
	for _, r := range p.Rules {
		if r.Write && !slices.Contains(unchanged, r.Root) {
			roots = append(roots, r.Root)
		}
	}
	return roots
}

// Private reports whether path lies in a directory of the sandbox's own, or leads there.
func (p Paths) Private(path string) bool {
	private := func(abs string, err error) bool {
		return err == nil && !slices.ContainsFunc(p.Rules, func(r PathRule) bool { return below(r.Root, abs) }) &&
			slices.ContainsFunc(p.Scratch, func(dir string) bool { return below(dir, abs) })
	}
	abs, err := absolute(path, p.Start(), p.Home)
	return private(filepath.Clean(abs), err) || private(p.Resolve(path))
}

// Unasked reports whether a call may write to path without a prompt: the path is private, or below
// a root that allows writes without asking.
func (p Paths) Unasked(path string) bool {
	if p.Above != nil {
		above := *p.Above
		if above.Cwd, above.Scratch = p.Start(), p.Scratch; above.Unasked(path) {
			return true
		}
	}
	resolved, err := p.Resolve(path)
	rules := p.rulesFor(resolved)
	free := len(rules) > 0 && !slices.ContainsFunc(rules, func(r *PathRule) bool { return !r.Write || r.WriteApproval })
	return p.Private(path) || err == nil && free
}

// Start is where relative paths start.
func (p Paths) Start() string {
	if p.Cwd == "" && len(p.Rules) > 0 {
		return p.Rules[0].Root
	}
	return p.Cwd
}

// Decide says whether path may be read, or written if write is set. The longest root
// that holds the resolved path decides; among rules with that same root the strictest
// does. The error is an *ArgumentError for a text that cannot be a path.
//
// A path outside every root and a hidden one are refused in the same words, and
// a broken path out there is refused like a sound one, so that a refusal does
// not tell what exists.
func (p Paths) Decide(path string, write bool) (PathDecision, error) {
	resolved, err := p.resolve(path)
	var failure *resolveError
	switch {
	case err == nil:
	case errors.As(err, &failure) && failure.at != "" && !p.shows(failure.at):
		return p.unreachable(path, "", write), nil
	default:
		return PathDecision{}, argumentError(err)
	}

	if !p.shows(resolved) {
		return p.unreachable(path, resolved, write), nil
	}
	rules := p.rulesFor(resolved)
	strictest := PathDecision{Effect: Allow}
	for i, rule := range rules {
		if d := p.decideBy(rule, resolved, write); i == 0 || d.Effect < strictest.Effect {
			strictest = d
		}
	}
	return strictest, nil
}

// shows reports whether an agent may learn anything about resolved.
func (p Paths) shows(resolved string) bool {
	return len(p.rulesFor(resolved)) > 0 && !matchesAny(p.hide, p.Hide, resolved)
}

// rulesFor gives the rules with the longest root that holds resolved.
func (p Paths) rulesFor(resolved string) []*PathRule {
	var found []*PathRule
	for i := range p.Rules {
		rule := &p.Rules[i]
		if !below(rule.Root, resolved) {
			continue
		}
		if len(found) > 0 && len(rule.Root) > len(found[0].Root) {
			found = found[:0]
		}
		if len(found) == 0 || len(rule.Root) == len(found[0].Root) {
			found = append(found, rule)
		}
	}
	return found
}

// decideBy says what one rule makes of a path below its root.
func (p Paths) decideBy(rule *PathRule, resolved string, write bool) PathDecision {
	d := PathDecision{Path: resolved, Rule: rule}
	switch {
	case write && !rule.Write:
		d.Reason = fmt.Sprintf("%q is in %s, which is read-only", resolved, rule.Label())
		d.Hint = p.hint(write)
	case !hasSuffix(resolved, rule.Suffixes):
		d.Reason = fmt.Sprintf("%q is in %s, where only %s files are allowed", resolved, rule.Label(), strings.Join(rule.Suffixes, ", "))
		d.Hint = "use a file name that ends in " + strings.Join(rule.Suffixes, " or ")
	case write && matchesAny(p.protect, p.Protect, resolved):
		d.Reason = fmt.Sprintf("%q is write-protected", resolved)
		d.Hint = "you may read it; ask the user to change it"
	case write && rule.WriteApproval:
		d.Effect, d.Reason = Ask, rule.Label()+" asks before a write"
	case !write && rule.ReadApproval:
		d.Effect, d.Reason = Ask, rule.Label()+" asks before a read"
	default:
		d.Effect = Allow
	}
	return d
}

// unreachable refuses a path that is outside every root or hidden. Its words use
// the path as it was given, never as it resolved.
func (p Paths) unreachable(given, resolved string, write bool) PathDecision {
	return PathDecision{
		Path:   resolved,
		Reason: fmt.Sprintf("%q is outside the paths that tools may %s", given, verb(write)),
		Hint:   p.hint(write),
	}
}

// maxHinted is how many roots a hint lists: as many as a model reads.
const maxHinted = 12

// hint lists where such an access is possible.
func (p Paths) hint(write bool) string {
	var roots []string
	for i := range p.Rules {
		rule := &p.Rules[i]
		if write && !rule.Write {
			continue
		}
		if len(roots) == maxHinted {
			roots = append(roots, "and others")
			break
		}
		roots = append(roots, fmt.Sprintf("%s (%s)", rule.Root, rule.Name))
	}
	if len(roots) == 0 {
		return "no path may be " + map[bool]string{false: "read", true: "written"}[write] + " in this configuration"
	}
	return fmt.Sprintf("tools may %s below %s", verb(write), strings.Join(roots, ", "))
}

func verb(write bool) string {
	if write {
		return "write"
	}
	return "read"
}

func hasSuffix(path string, suffixes []string) bool {
	name := filepath.Base(path)
	return len(suffixes) == 0 || slices.ContainsFunc(suffixes, func(s string) bool {
		return strings.HasSuffix(name, s)
	})
}

func matchesAny(prepared *sandboxprofile.Matcher, patterns []string, path string) bool {
	if prepared != nil {
		return prepared.Match(path)
	}
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return sandboxprofile.MatchPattern(pattern, path)
	})
}

func argumentError(err error) error {
	return &ArgumentError{Field: "path", Reason: err.Error()}
}

// InField says that err, if it is an *ArgumentError, is about another argument:
// Paths only knows "path".
func InField(err error, field string) error {
	var a *ArgumentError
	if !errors.As(err, &a) {
		return err
	}
	renamed := *a
	renamed.Field = field
	return &renamed
}
