package shell

import "github.com/sandgate/sandgate/tools"

// A Decision is what the rules say about one command line.
type Decision struct {
	Effect tools.Effect
	// Rule is the pattern of the rule that decided; "default", or "syntax" for
	// what no rule can speak about.
	Rule string
	// RuleName names that rule; "" if it was none of them.
	RuleName string
	// RuleIndex is that rule's place in Config.Rules, -1 if it was none of them.
	RuleIndex int
	Reason    string // for people and for the model; set unless Effect is Allow
	Hint      string // for the model: what would be allowed instead
	// Parts are the simple commands and redirections that were found, in the
	// order in which they were met. The strictest of them decides.
	Parts []Part
	// Analysis is what the line can do, whatever the rules say.
	Analysis Analysis
	// Bounds are the places of the rules whose Bound bounds the command line.
	Bounds []int
}

// A Part is one thing that a command line does, and what the rules say about it.
type Part struct {
	Text string
	// Words are the words of a simple command; nil unless all of them are known.
	Words     []string
	Effect    tools.Effect
	Rule      string
	RuleName  string
	RuleIndex int
	Reason    string
	Hint      string
	// readings are the words of a simple command in every way in which a rule reads
	// them, up to the first that is not known.
	readings  [][]string
	roots     []string // that the rule is for, if it names some
	free      bool     // it runs nothing by itself, and needs no rule
	reads     bool     // it does no more than class Read allows
	tabled    bool     // what allows it is what tables say of words that no rule names
	protocols string   // of git, where it speaks with another repository
}

const (
	ruleDefault = "default"
	ruleSyntax  = "syntax"
	rulePaths   = "sandbox.paths"
)

// decide makes the decision of the parts: the first of the strictest, rather one
// that a rule decided.
func decide(parts []Part) Decision {
	d := Decision{Effect: tools.Allow, RuleIndex: -1, Rule: ruleDefault, Parts: parts}
	for i, p := range parts {
		named := p.RuleIndex >= 0 && d.RuleIndex < 0
		if i > 0 && (p.Effect > d.Effect || p.Effect == d.Effect && !named) {
			continue
		}
		d.Effect, d.Rule, d.RuleName, d.RuleIndex, d.Reason, d.Hint = p.Effect, p.Rule, p.RuleName, p.RuleIndex, p.Reason, p.Hint
	}
	return d
}

// Label names the deciding rule as the configuration does.
func (d Decision) Label() string {
	if d.RuleIndex < 0 {
		return "shell." + d.Rule
	}
	return d.RuleName
}
