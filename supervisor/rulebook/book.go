package rulebook

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// A Book is the standing rules in force. It is safe for concurrent use.
type Book struct {
	files  []config.RulesTier
	bounds Bounds
	shell  Shell
	tools  Tools

	mu    sync.Mutex
	rules Set
}

// Shell applies rules about commands: *shell.Tool.
type Shell interface {
	Policy() *shell.Policy
	CheckStanding(shell.Standing) error
	SetStanding(shell.Standing) error
}

// Tools applies rules about tools: *approval.Controller. It may be nil.
type Tools interface{ SetRules(approval.Rules) }

// Open reads the files and puts their rules in force. A file that does not load
// is an error: without it a rule that denies would be missing.
func Open(files []config.RulesTier, b Bounds, sh Shell, tools Tools) (*Book, error) {
	book := &Book{files: files, bounds: b, shell: sh, tools: tools}
	return book, book.Reload()
}

// Reload reads the files again. If one does not load, or a rule fails its
// examples, the rules stay as they were.
func (b *Book) Reload() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reload()
}

func (b *Book) reload() error {
	set, err := b.read()
	if err != nil {
		return err
	}
	return b.apply(set)
}

func (b *Book) read() (Set, error) {
	var set Set
	for _, f := range b.files {
		rules, _, err := config.ReadRules(f)
		if err != nil {
			return nil, err
		}
		set = append(set, tiered(rules, f.Tier)...)
	}
	return set.bounded(b.bounds), nil
}

func tiered(rules []config.StandingRule, t config.Tier) Set {
	set := make(Set, len(rules))
	for i, r := range rules {
		set[i] = Rule{StandingRule: r, Tier: t}
	}
	return set
}

// apply puts set in force: those about commands first, as they alone can fail.
func (b *Book) apply(set Set) error {
	list, err := set.Approval()
	if err != nil {
		return err
	}
	if err := b.shell.SetStanding(set.Shell()); err != nil {
		return err
	}
	if b.tools != nil {
		b.tools.SetRules(list)
	}
	b.rules = set
	return nil
}

// Rules lists the rules that were read last, those without effect too.
func (b *Book) Rules() Set {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.rules)
}

// Policy decides on command lines now.
func (b *Book) Policy() *shell.Policy { return b.shell.Policy() }

// Without decides as well if an untrusted file narrows the rules: it has the rules without that file. It may be nil.
func (b *Book) Without() *shell.Policy {
	if s, ok := b.shell.(interface{ Without() *shell.Policy }); ok {
		return s.Without()
	}
	return nil
}

// Path is the file that Add and Remove write; "" if there is none.
func (b *Book) Path() string {
	for _, f := range b.files {
		if f.Tier == config.TierUser {
			return f.Path
		}
	}
	return ""
}

// An Error says why a rule is not taken, or not removed.
type Error struct {
	Op, ID, Reason, HintText string
	// Unknown is set if there is no such rule.
	Unknown bool
}

func (e *Error) Error() string { return fmt.Sprintf("rules: %s %q: %s", e.Op, e.ID, e.Reason) }

// Hint tells a person how to fix it.
func (e *Error) Hint() string { return e.HintText }

// A Change is a request to change the rules.
type Change struct {
	By  string // who, as the kernel names them
	Now time.Time
	// Seen refuses to change a rule that is not the one that the person has looked at; nil refuses none. It
	// is asked under the lock.
	Seen func(r Rule) error
	// Record writes the change to the audit log, before it happens: what cannot
	// be recorded is not done.
	Record func(event string, r Rule) error
}

// maxAdded is how many standing rules there may be for another one to be added: each
// change reads and checks all of them, and a program that adds in a loop would have the
// supervisor do nothing else.
const maxAdded = 1000

// Add puts a rule in force and at the end of the user's file. A rule without an
// id gets one. On an error nothing has changed.
func (b *Book) Add(r config.StandingRule, c Change) (Rule, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r.Added, r.By = c.Now.UTC().Format(time.RFC3339), c.By
	record := func() error { return c.Record("add", Rule{StandingRule: r, Tier: config.TierUser}) }
	err := b.edit("add", r.ID, record, func(data []byte, set Set) ([]byte, error) {
		if r.ID == "" {
			r.ID = set.freeID(r)
		}
		if len(set) >= maxAdded {
			return nil, &Error{Op: "add", ID: r.ID, Reason: fmt.Sprintf("there are %d standing rules, and no more than %d are kept", len(set), maxAdded),
				HintText: "`sandgate rules list` has them all; remove some, or write one pattern in place of many"}
		}
		return b.appended("add", data, set, r)
	})
	return b.changed(r.ID, err)
}

// Replace puts a rule in the place of the one that is called id: both changes are one
// write and one step, so that nothing is decided between them. It keeps the id. On an
// error nothing has changed.
func (b *Book) Replace(id string, r config.StandingRule, c Change) (Rule, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.ID != "" && r.ID != id {
		return Rule{}, &Error{Op: "replace", ID: id, Reason: fmt.Sprintf("a rule keeps its id, and %q is another", r.ID), HintText: "leave the id out, or remove the one and add the other"}
	}
	r.ID = id
	r.Added, r.By = c.Now.UTC().Format(time.RFC3339), c.By
	record := func() error { return c.Record("replace", Rule{StandingRule: r, Tier: config.TierUser}) }
	err := b.edit("replace", id, record, func(data []byte, set Set) (_ []byte, err error) {
		if _, err = set.users("replace", id, c); err != nil {
			return nil, err
		}
		if data, err = config.RemoveRule(data, id); err != nil {
			return nil, err
		}
		rest := slices.DeleteFunc(slices.Clone(set), func(o Rule) bool { return o.ID == id })
		return b.appended("replace", data, rest, r)
	})
	return b.changed(r.ID, err)
}

// appended is the user's file with r at its end, if r may be there.
func (b *Book) appended(op string, data []byte, set Set, r config.StandingRule) ([]byte, error) {
	if _, taken := set.find(r.ID); taken {
		return nil, &Error{Op: op, ID: r.ID, Reason: "there is a rule of this name", HintText: "remove it first, or choose another name with --id"}
	}
	if what := b.bounds.loosens(Rule{StandingRule: r}); what != "" {
		return nil, b.refusal(op, r.ID, what)
	}
	return config.AppendRule(data, r)
}

func (b *Book) refusal(op, id, what string) error {
	return &Error{Op: op, ID: id, Reason: "it would loosen what a standing rule cannot: " + what,
		HintText: "change the configuration itself, and start the supervisor again"}
}

// changed is the rule as it is in force now, unless err.
func (b *Book) changed(id string, err error) (Rule, error) {
	if err != nil {
		return Rule{}, err
	}
	r, _ := b.rules.find(id)
	return r, nil
}

// users finds a rule that is the user's own to change, and the one that a change is of.
func (s Set) users(op, id string, c Change) (Rule, error) {
	r, ok := s.find(id)
	switch {
	case !ok:
		return r, &Error{Op: op, ID: id, Reason: "this rule does not exist", HintText: join("; ", s.meant(id), "`sandgate rules list` has them all"), Unknown: true}
	case r.Tier != config.TierUser:
		return r, &Error{Op: op, ID: id, Reason: "it is the administrator's: " + r.Position.String(), HintText: "only the administrator can change it there"}
	case c.Seen != nil:
		return r, c.Seen(r)
	}
	return r, nil
}

// meant suggests the rule that a person may have meant: one with a similar name, or
// whose name would be this one, if names could have every character.
func (s Set) meant(id string) string {
	names := make([]string, len(s))
	for i, r := range s {
		names[i] = r.ID
	}
	plain := strings.Trim(strings.Join(strings.FieldsFunc(id, notName), "-"), "-_")
	best := tools.Nearest(plain, names)
	if best == "" {
		best = tools.Nearest(id, names)
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

func join(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), sep)
}

// Remove takes a rule out of force and out of the user's file.
func (b *Book) Remove(id string, c Change) (Rule, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var removed Rule
	record := func() error { return c.Record("remove", removed) }
	err := b.edit("remove", id, record, func(data []byte, set Set) ([]byte, error) {
		var err error
		if removed, err = set.users("remove", id, c); err != nil {
			return nil, err
		}
		return config.RemoveRule(data, id)
	})
	return removed, err
}

// edit changes the user's file under a lock, so that two supervisors do not lose
// each other's rules. What comes out is read and checked as any file, before it
// is written and before it is in force.
func (b *Book) edit(op, id string, record func() error, change func(data []byte, set Set) ([]byte, error)) error {
	path := b.Path()
	if path == "" {
		return &Error{Op: op, ID: id, Reason: "no configuration directory is available for rules", HintText: "set HOME or XDG_CONFIG_HOME"}
	}
	unlock, err := atomicfile.LockDir(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("rules: %s: %w", op, err)
	}
	defer unlock()
	set, err := b.read()
	if err != nil {
		return err
	}
	_, data, err := config.ReadRules(config.RulesTier{Tier: config.TierUser, Path: path})
	if err != nil {
		return err
	}
	if data, err = change(data, set); err != nil {
		return err
	}
	if set, err = b.withUser(set, data, path); err != nil {
		return err
	}
	if err := record(); err != nil {
		return err
	}
	if err := atomicfile.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("rules: %s: %w", op, err)
	}
	return b.apply(set)
}

// withUser is set with the user's rules replaced by those in data, checked as
// far as they can be.
func (b *Book) withUser(set Set, data []byte, path string) (Set, error) {
	rules, err := config.ParseRules(data, path)
	if err != nil {
		return nil, err
	}
	set = slices.DeleteFunc(slices.Clone(set), func(r Rule) bool { return r.Tier == config.TierUser })
	set = append(set, tiered(rules, config.TierUser)...).bounded(b.bounds)
	return set, b.shell.CheckStanding(set.Shell())
}

// freeID makes a name of what a rule says: allow-git-log, deny-github-2.
func (s Set) freeID(r config.StandingRule) string {
	name := string(r.Effect)
	for _, word := range strings.FieldsFunc(r.Agent+" "+r.Shell+" "+r.Connector+" "+r.Tool, notName) {
		word = strings.Trim(word, "_")
		if word != "" && len(name)+len(word) < 40 {
			name += "-" + word
		}
	}
	id := name
	for n := 2; ; n++ {
		if _, taken := s.find(id); !taken {
			return id
		}
		id = fmt.Sprintf("%s-%d", name, n)
	}
}

func notName(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_')
}
