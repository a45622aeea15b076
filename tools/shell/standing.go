package shell

import (
	"slices"

	"github.com/sandgate/sandgate/tools"
)

// Standing are the rules that an operator adds to those of the configuration.
// They tighten anything and loosen little: a rule that denies decides wherever
// it stands, one that asks is tried before the configuration's, and one that
// allows after them, so that it reaches only what the configuration has no rule
// for.
type Standing struct{ Ask, Allow, Deny []Rule }

// Add puts r where its effect belongs.
func (s *Standing) Add(r Rule) {
	switch r.Effect() {
	case tools.Allow:
		s.Allow = append(s.Allow, r)
	case tools.Ask:
		s.Ask = append(s.Ask, r)
	default:
		s.Deny = append(s.Deny, r)
	}
}

// around gives every rule in the order in which they are tried.
func (s Standing) around(own []Rule) []Rule { return slices.Concat(s.Deny, s.Ask, own, s.Allow) }

// With is the policy with one more standing rule. p is as it was. Its error is
// a *RuleError.
func (p *Policy) With(r Rule) (*Policy, error) {
	s := Standing{}
	s.Add(r)
	with, err := p.having(s.around(p.list()))
	if err != nil {
		return nil, err
	}
	return with, with.checkExamples()
}

// Without is the policy without the rules of a name.
func (p *Policy) Without(name string) (*Policy, error) {
	return p.having(slices.DeleteFunc(p.list(), func(r Rule) bool { return r.Name == name }))
}

func (p *Policy) list() []Rule {
	rules := make([]Rule, len(p.rules.list))
	for i, c := range p.rules.list {
		rules[i] = c.Rule
	}
	return rules
}

// having is p with other rules.
func (p *Policy) having(rules []Rule) (*Policy, error) {
	q := p.copied()
	return q, q.compile(rules)
}
