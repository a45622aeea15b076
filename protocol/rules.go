package protocol

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/sandgate/sandgate/approval"
)

// Requests of the operator socket about standing rules.
const (
	MethodRulesList    Method = "rules.list"
	MethodRulesAdd     Method = "rules.add"
	MethodRulesRemove  Method = "rules.remove"
	MethodRulesReplace Method = "rules.replace"
	MethodRulesTry     Method = "rules.try"
	MethodRulesTest    Method = "rules.test"
	MethodRulesSuggest Method = "rules.suggest"
	// MethodReload reads the files of standing rules again.
	MethodReload Method = "reload"
)

// A RuleSpec is the content of a rule. Either Shell is set, or Tool or Connector. In a file it
// is a config.StandingRule, which has a place there and says who added it.
type RuleSpec struct {
	ID        string        `json:"id,omitempty"` // "" in rules.add is a name made from the rest
	Effect    CheckDecision `json:"effect"`
	Tool      string        `json:"tool,omitempty"` // a glob
	Connector string        `json:"connector,omitempty"`
	Agent     string        `json:"agent,omitempty"` // a glob; "" is every agent. With Tool or Connector
	Shell     string        `json:"shell,omitempty"` // words that a command begins with
	Exact     bool          `json:"exact,omitempty"`
	ReadOnly  bool          `json:"read_only,omitempty"`
	Reason    string        `json:"reason,omitempty"`
	Match     []string      `json:"match,omitempty"`
	NoMatch   []string      `json:"no_match,omitempty"`
}

// A Rule is a rule in force, or one that would be.
type Rule struct {
	RuleSpec
	Name   string `json:"name"`             // as decisions and the log call it
	Origin string `json:"origin,omitempty"` // where it is written: FILE:LINE:COLUMN; "" is a default
	Tier   string `json:"tier"`             // config, admin or user: only the last can be removed
	// Inactive says why the rule has no effect; "" if it has.
	Inactive string `json:"inactive,omitempty"`
	// Caution says why the rule covers less than its words seem to; "" if it does not.
	Caution string     `json:"caution,omitempty"`
	Added   *time.Time `json:"added,omitempty"`
	By      string     `json:"by,omitempty"`
}

// RulesList is the answer to rules.list: the standing rules and those of the
// configuration, in the order in which they are tried.
type RulesList struct {
	Rules []Rule `json:"rules"`
	File  string `json:"file,omitempty"` // what rules.add writes
}

// RulesRemove takes one standing rule away.
type RulesRemove struct {
	ID string `json:"id"`
	// Seen is the rule as a person saw it: if another one has the id by now, nothing is removed. With
	// nil, the one that has it is removed.
	Seen *RuleSpec `json:"seen,omitempty"`
}

// RulesReplace puts a rule in the place of the standing rule ID, at once: there is no
// moment without either. It keeps the id.
type RulesReplace struct {
	ID   string    `json:"id"`
	Rule RuleSpec  `json:"rule"`
	Seen *RuleSpec `json:"seen,omitempty"` // as for RulesRemove
}

// RulesTry asks which decisions of the log a rule would have been about.
type RulesTry struct {
	Rule RuleSpec `json:"rule"`
	// Since leaves out what is older; the zero time leaves out nothing.
	Since time.Time `json:"since,omitzero"`
	Limit int       `json:"limit,omitempty"` // of Covered; 0 is 20, at most 200
}

// RulesTried is the answer to rules.try. Nothing has been added.
type RulesTried struct {
	Decisions int `json:"decisions"` // that were looked at
	Matches   int `json:"matches"`   // that the rule covers
	// Skipped counts those that could not be looked at: redacted or cut.
	Skipped int `json:"skipped"`
	// Covered are the last of the matches, newest first.
	Covered []CoveredCall `json:"covered"`
	Caution string        `json:"caution,omitempty"` // as of the Rule that it would be
}

// A CoveredCall is a past call that a rule covers.
type CoveredCall struct {
	Seq     uint64          `json:"seq"`
	Time    time.Time       `json:"time"`
	Agent   string          `json:"agent"`
	Tool    ToolName        `json:"tool"`
	Subject string          `json:"subject"`
	Action  approval.Action `json:"action"` // how it was decided
}

// RuleChanged answers rules.add, rules.replace and rules.remove.
type RuleChanged struct {
	Rule Rule `json:"rule"`
}

// RulesTest asks what would become of a call, and why. Nothing is run, asked or
// remembered.
type RulesTest struct {
	Tool  ToolName        `json:"tool"`
	Args  json.RawMessage `json:"args,omitempty"`
	Agent string          `json:"agent,omitempty"` // whose remembered answers count
	Mode  approval.Mode   `json:"mode,omitempty"`  // can only tighten the supervisor's
}

// A RulesTested is the answer to rules.test: a decision, and how it came about.
type RulesTested struct {
	Decision CheckDecision `json:"decision"`
	// Step is the step of the order of a decision that decides.
	Step   string `json:"step"`
	Rule   string `json:"rule,omitempty"`
	Origin string `json:"origin,omitempty"` // of Rule
	Reason string `json:"reason,omitempty"`
	Hint   string `json:"hint,omitempty"`
	// Passed are the steps before it, which had nothing to say.
	Passed     []string         `json:"passed"`
	Considered []ConsideredRule `json:"considered"`
	// Change is the smallest change that would alter the decision, if one is known.
	Change     *RuleChange `json:"change,omitempty"`
	PlanDigest string      `json:"plan_digest,omitempty"`
	// Class bounds what the call can do, and Ceiling is the limit that the kernel
	// enforces if no person allows it, in words; both are "" where nothing runs.
	Class   string `json:"class,omitempty"`
	Ceiling string `json:"ceiling,omitempty"`
}

// A ConsideredRule is one rule held against one thing that the call does.
type ConsideredRule struct {
	Subject string        `json:"subject"`
	Rule    string        `json:"rule"`
	Origin  string        `json:"origin,omitempty"`
	Effect  CheckDecision `json:"effect"`
	Outcome string        `json:"outcome"` // no_match, may_match, unfit, matches, decides
	Why     string        `json:"why,omitempty"`
}

// A RuleChange is something that an operator could do.
type RuleChange struct {
	To     CheckDecision `json:"to"`
	How    string        `json:"how"` // one line for people
	Add    []RuleSpec    `json:"add,omitempty"`
	Origin string        `json:"origin,omitempty"` // what would have to be edited
}

// RulesSuggest asks for rules that the history speaks for.
type RulesSuggest struct {
	// Min is how often a person must have allowed what a rule would; 0 is 3.
	Min int `json:"min,omitempty"`
	// Since leaves out what is older; the zero time leaves out nothing.
	Since time.Time `json:"since,omitzero"`
}

// RulesSuggested is the answer to rules.suggest. Nothing has been added.
type RulesSuggested struct {
	Suggestions []Suggestion `json:"suggestions"`
	Decisions   int          `json:"decisions"` // entries of the log that were looked at
	// Skipped counts those that could not be: redacted, cut, or too many.
	Skipped int `json:"skipped"`
}

// A Suggestion is a rule, and what it would have done to the calls in the log.
type Suggestion struct {
	Rule  RuleSpec `json:"rule"`
	Saved int      `json:"saved"` // questions that would not have been asked
	// Examples are commands of those; Also are commands in the log that the rule would
	// allow too and that no person allowed.
	Examples []string  `json:"examples"`
	Also     []string  `json:"also"`
	Last     time.Time `json:"last"`
}

// Reloaded is the answer to reload.
type Reloaded struct {
	Rules    int `json:"rules"`    // standing rules that were read
	Inactive int `json:"inactive"` // those of them without effect
}

// Validate implements the check of params.
func (p *RulesTest) Validate() error { return checkID("params.tool", string(p.Tool)) }

// Validate implements the check of params.
func (p *RulesReplace) Validate() error {
	if err := checkID("params.id", p.ID); err != nil {
		return err
	}
	return below("params.rule", p.Rule.Validate())
}

// maxTried bounds how many calls rules.try lists.
const maxTried = 200

// Validate implements the check of params.
func (p *RulesTry) Validate() error {
	if p.Limit < 0 || p.Limit > maxTried {
		return &FieldError{Path: "params.limit", Reason: fmt.Sprintf("must be 0 to %d", maxTried)}
	}
	return below("params.rule", p.Rule.Validate())
}

// Validate implements the check of params.
func (p *RulesRemove) Validate() error { return checkID("params.id", p.ID) }

// Validate implements the check of params.
func (p *RuleSpec) Validate() error {
	switch p.Effect {
	case CheckAllow, CheckAsk, CheckDeny:
		return nil
	}
	return &FieldError{Path: "params.effect", Reason: "must be allow, ask or deny"}
}

// Validate implements the check of params.
func (p *RulesSuggest) Validate() error {
	if p.Min < 0 {
		return &FieldError{Path: "params.min", Reason: "must not be negative"}
	}
	return nil
}
