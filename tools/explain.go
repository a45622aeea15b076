package tools

// An Explainer is a Tool that can say which rules of the configuration it held
// a call against, and what became of each. It is pure, like Plan, and costs
// nothing unless it is asked.
type Explainer interface {
	Explain(c Call) ([]Considered, error)
}

// Considered is one rule, held against one thing that a call does.
type Considered struct {
	// Subject is that thing: a simple command of a command line, a path.
	Subject string `json:"subject"`
	Rule    string `json:"rule"`
	// Position is where the rule is written: "sandgate.yaml:21:5"; "" for a default.
	Position string  `json:"position,omitempty"`
	Effect   Effect  `json:"effect"` // what the rule does to what it matches
	Outcome  Outcome `json:"outcome"`
	Why      string  `json:"why,omitempty"`
}

// Outcome says whether a rule applied, and why not.
type Outcome string

const (
	NoMatch  Outcome = "no_match"  // it speaks about something else
	MayMatch Outcome = "may_match" // it denies, and may be meant: the subject is asked about
	Unfit    Outcome = "unfit"     // its words match, and something keeps it from allowing
	Matches  Outcome = "matches"   // it matches, and another decides
	Decides  Outcome = "decides"
)

// Explain holds a call against the rules of its tool. Tools that have none to
// tell about give nothing. The error is Plan's.
func (r *Registry) Explain(c Call) ([]Considered, error) {
	entry, ok := r.tools[c.Tool]
	if !ok {
		return nil, r.unknown(c.Tool)
	}
	x, ok := entry.tool.(Explainer)
	if !ok {
		return nil, nil
	}
	if err := entry.validate(c.Args); err != nil {
		return nil, err
	}
	return x.Explain(c)
}

// Explain holds a path argument against every rule, whether it may be read or written.
func (p Paths) Explain(path string, write bool) ([]Considered, error) {
	d, err := p.DecideArgument(path, write)
	if err != nil {
		return nil, err
	}
	list := make([]Considered, 0, len(p.Rules))
	for i := range p.Rules {
		list = append(list, p.consider(&p.Rules[i], d, write))
	}
	return list, nil
}

// consider says what became of one rule, given what was decided.
func (p Paths) consider(rule *PathRule, d PathDecision, write bool) Considered {
	c := Considered{Subject: d.Path, Rule: "sandbox.paths." + rule.Name, Position: rule.Position, Outcome: NoMatch}
	switch {
	case d.Path == "" || !below(rule.Root, d.Path):
		c.Why = "the path is not in " + rule.Root
		return c
	case d.Rule == rule:
		c.Outcome = Decides
	case d.Rule == nil:
		c.Outcome, c.Why = Unfit, "the path is hidden"
		return c
	default:
		c.Outcome, c.Why = Matches, "a longer root decides, or a stricter rule for the same root"
	}
	own := p.decideBy(rule, d.Path, write)
	c.Effect = own.Effect
	if c.Why == "" {
		c.Why = own.Reason
	}
	return c
}
