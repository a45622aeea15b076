package shell

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"

	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// A Rule says what happens to the simple commands that begin with its pattern.
// A rule that allows matches only what is certain to be meant by it; a rule that
// denies or asks also matches what could be.
type Rule struct {
	// Pattern is one or more words, quoted as in a shell: a command matches if
	// its own words begin with them.
	Pattern string `json:"pattern"`
	// Exact: the command has no other words.
	Exact bool `json:"exact,omitempty"`
	// ReadOnly: only forms that neither write, nor run programs, nor read
	// outside the path rules. A program without a table of such forms has none.
	ReadOnly bool `json:"read_only,omitempty"`
	// Allowed set to false denies. Unset is true.
	Allowed *bool `json:"allowed,omitempty"`
	// Approval set to false runs without asking. Unset is true.
	Approval    *bool  `json:"approval,omitempty"`
	Description string `json:"description,omitempty"` // shown to the approver
	Reason      string `json:"reason,omitempty"`      // told to the model
	// SandboxPaths names the roots of `sandbox.paths` that every path on the
	// command line must lie in; none named, no such limit.
	SandboxPaths []string `json:"sandbox_paths,omitempty"`
	// Match and NoMatch are command lines that the rule must, and must not,
	// decide. A rule that fails one of them does not load.
	Match    []string `json:"match,omitempty"`
	NoMatch  []string `json:"no_match,omitempty"`
	Position string   `json:"-"` // where it is written: "sandgate.yaml:21:5"
	// Bound, if any, bounds whatever runs together with a command that the rule
	// matches, or could match, also where another rule decides: it only narrows.
	Bound *sandboxprofile.Profile `json:"-"`
	// Review: whatever runs together with a command that the rule matches, or could match,
	// runs on a draft.
	Review bool `json:"review,omitempty"`
	// Name is what decisions call the rule; "" is its place in the list and its pattern.
	Name string `json:"-"`
	// Tier is the file that the rule is from, of several. The rules of a tier are
	// tried by themselves too, and the strictest of the tiers decides.
	Tier string `json:"-"`
	// Narrows: nothing runs because of the rule that would not run without it.
	Narrows bool `json:"-"`
}

// Effect is what the rule does to what it matches.
func (r Rule) Effect() tools.Effect {
	switch {
	case r.Allowed != nil && !*r.Allowed:
		return tools.Deny
	case r.Approval != nil && !*r.Approval:
		return tools.Allow
	}
	return tools.Ask
}

// Label is the name of the rule at place i.
func (r Rule) Label(i int) string {
	if r.Name != "" {
		return r.Name
	}
	return fmt.Sprintf("shell.rules[%d] %q", i, r.Pattern)
}

// A Default is what happens to a command that no rule matches. The zero value
// denies.
type Default struct {
	Allowed  bool `json:"allowed"`
	Approval bool `json:"approval"`
	// Confined lets a command that no rule speaks about run as far as the sandbox holds
	// it: it changes the workspace and reaches listed hosts, and nothing else.
	Confined bool `json:"confined,omitempty"`
}

// Effect is what the default does.
func (d Default) Effect() tools.Effect {
	switch {
	case !d.Allowed:
		return tools.Deny
	case d.Approval, d.Confined: // where the sandbox decides, it does so afterwards: see settled
		return tools.Ask
	}
	return tools.Allow
}

// A compiledRule is a rule ready to be matched.
type compiledRule struct {
	Rule
	index  int
	effect tools.Effect
	words  []string
}

func compileRule(i int, r Rule) (compiledRule, error) {
	p := shellwords.NewParser()
	words, err := p.Parse(r.Pattern)
	switch {
	case err != nil:
		return compiledRule{}, ruleError(i, r, err)
	case p.Position >= 0:
		return compiledRule{}, ruleError(i, r, errors.New("a pattern is the words of one command, without operators"))
	case len(words) == 0 || words[0] == "":
		return compiledRule{}, ruleError(i, r, errors.New("the pattern is empty"))
	case slices.Contains(words, "*"):
		return compiledRule{}, ruleError(i, r, fmt.Errorf("a pattern consists of words, not wildcards: %q already matches every command that begins with it",
			strings.TrimSpace(strings.ReplaceAll(r.Pattern, "*", ""))))
	case r.ReadOnly && r.Effect() == tools.Deny:
		return compiledRule{}, ruleError(i, r, errors.New("read_only needs a rule that allows; this rule denies"))
	}
	r.Name = r.Label(i)
	return compiledRule{Rule: r, index: i, effect: r.Effect(), words: words}, nil
}

// A RuleError says which rule does not load, and why.
type RuleError struct {
	Index    int
	Name     string
	Pattern  string
	Position string
	Err      error
}

func (e *RuleError) Error() string {
	at := e.Position
	if at != "" {
		at += ": "
	}
	return fmt.Sprintf("%s%s: %v", at, e.Name, e.Err)
}

func (e *RuleError) Unwrap() error { return e.Err }

func ruleError(i int, r Rule, err error) error {
	return &RuleError{Index: i, Name: r.Label(i), Pattern: r.Pattern, Position: r.Position, Err: err}
}

// A verdict is whether a rule matches a command.
type verdict int8

const (
	no verdict = iota
	perhaps
	yes
)

// match holds the words of a pattern against those of a command. Where the
// command has a word that only the shell will know, the answer is perhaps.
func (r *compiledRule) match(program verdict, words []word) verdict {
	v := program
	for i, want := range r.words[1:] {
		if v == no {
			return no
		}
		if i+1 >= len(words) {
			return no
		}
		w := words[i+1]
		if w.split {
			return perhaps
		}
		v = min(v, matchWord(want, w))
	}
	if r.Exact && v != no {
		v = min(v, exactLength(len(r.words), words))
	}
	return v
}

func exactLength(n int, words []word) verdict {
	if len(words) == n {
		return yes
	}
	if slices.ContainsFunc(words[n:], func(w word) bool { return !w.split }) {
		return no
	}
	return perhaps
}

func matchWord(want string, have word) verdict {
	switch {
	case have.fixed() && have.text == want:
		return yes
	case !have.fixed() && strings.HasPrefix(want, have.prefix()):
		return perhaps
	}
	return no
}

// programMatch compares the program that a rule names with the one that a
// command names. A rule that allows wants the very program; one that denies
// matches whatever has that name, wherever it lies.
func (a *analysis) programMatch(r *compiledRule, name word) verdict {
	want := r.words[0]
	if !name.fixed() {
		return perhaps
	}
	switch {
	case name.text == want && strings.Contains(want, "/"):
		return a.spelled(r)
	case name.text == want:
		return a.trusted(r, want)
	case strings.Contains(want, "/"):
		return min(samePath(want, name.text), a.spelled(r))
	case !strings.Contains(name.text, "/"):
		return no
	}
	if r.effect == tools.Allow {
		return verdictOf(a.baseName(name.text) == want)
	}
	return verdictOf(path.Base(path.Clean(name.text)) == want)
}

func verdictOf(b bool) verdict {
	if b {
		return yes
	}
	return no
}

// trusted says whether a bare name is the program that PATH gives it in a
// trusted directory. Rules that do not allow need not know.
func (a *analysis) trusted(r *compiledRule, name string) verdict {
	if r.effect != tools.Allow {
		return yes
	}
	_, ok := a.p.programs.Identify(name, a.dirs.one())
	return verdictOf(ok)
}

// spelled says whether a rule for a path still means that file: a relative path
// means another one after a change of directory.
func (a *analysis) spelled(r *compiledRule) verdict {
	if r.effect == tools.Allow && !path.IsAbs(r.words[0]) && a.dirs.moved(a.p.origin) {
		return no
	}
	return yes
}

func samePath(a, b string) verdict {
	return verdictOf(strings.Contains(b, "/") && path.Clean(a) == path.Clean(b))
}
