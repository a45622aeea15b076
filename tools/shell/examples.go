package shell

import "fmt"

// checkExamples holds each rule against its own examples.
func (p *Policy) checkExamples() error {
	for i := range p.rules.list {
		r := &p.rules.list[i]
		for _, example := range r.Match {
			if !p.rulesOver(r, example) {
				return ruleError(i, r.Rule, fmt.Errorf("does not decide its match example %q", example))
			}
		}
		for _, example := range r.NoMatch {
			if p.rulesOver(r, example) {
				return ruleError(i, r.Rule, fmt.Errorf("decides its no_match example %q", example))
			}
		}
	}
	return nil
}

// rulesOver reports whether the rule, alone, gives its effect to every command
// of a command line.
func (p *Policy) rulesOver(r *compiledRule, command string) bool {
	alone := p.copied()
	alone.rules, alone.tiers = newRuleSet([]compiledRule{*r}, everyRule), nil
	d := alone.Decide(command, "bash")
	return d.RuleIndex == r.index && d.Effect == r.effect
}
