package rulebook

import (
	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// Consider holds a call against every rule about tools and connectors. Of those
// of one effect the first that covers it counts, and of the two effects deny.
func (b *Book) Consider(call approval.Call) []tools.Considered {
	list := []tools.Considered{}
	denied := false
	for _, effect := range []tools.Effect{tools.Deny, tools.Allow} {
		decided := denied
		for _, r := range b.Rules() {
			if r.Shell != "" || r.effect() != effect {
				continue
			}
			c := r.consider(call)
			if c.Outcome == tools.Decides && decided {
				c.Outcome, c.Why = tools.Matches, "another rule comes before it, or is stricter"
			}
			decided = decided || c.Outcome == tools.Decides
			list = append(list, c)
		}
		denied = denied || decided
	}
	return list
}

func (r Rule) consider(call approval.Call) tools.Considered {
	c := tools.Considered{Subject: call.ToolName, Rule: r.Label(), Position: r.Position.String(), Effect: r.effect(), Outcome: tools.NoMatch}
	if call.Connector != "" {
		c.Subject = call.Connector + "/" + call.ToolName
	}
	rule := r.standing()
	list, err := approval.NewRules(rule)
	if err != nil {
		c.Why = err.Error()
		return c
	}
	switch _, covered := list.Match(rule.Effect, call); {
	case !covered && r.Agent != "" && !approval.Glob(r.Agent, call.Agent):
		c.Why = "the agent is not " + r.Agent
	case !covered:
		c.Why = "the name is not " + r.glob()
	case r.Inactive != "":
		c.Outcome, c.Why = tools.Unfit, r.Inactive
	default:
		c.Outcome = tools.Decides
	}
	return c
}

func (r Rule) glob() string {
	if r.Connector == "" {
		return r.Tool
	}
	if r.Tool == "" {
		return r.Connector + "/*"
	}
	return r.Connector + "/" + r.Tool
}

// Find gives the rule that decisions call label.
func (b *Book) Find(label string) (Rule, bool) {
	for _, r := range b.Rules() {
		if r.Label() == label {
			return r, true
		}
	}
	return Rule{}, false
}

// Configured are the shell rules of the configuration, and Default what happens
// to a command that no rule matches.
func (b *Book) Configured() ([]shell.Rule, tools.Effect) {
	return b.bounds.Shell, b.bounds.Default.Effect()
}

// Removable reports whether Remove takes the rule away.
func (r Rule) Removable() bool { return r.Tier == config.TierUser }
