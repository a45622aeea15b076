package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// smallestChange finds the smallest change that would alter a decision, or nil. What it
// says about rules for commands has been tried on the call.
func (d *RuleService) smallestChange(f forecast, t protocol.RulesTested) *protocol.RuleChange {
	if d.cfg.Rules == nil {
		return nil
	}
	if _, standing := d.cfg.Rules.Find(t.Rule); standing {
		return d.changeStanding(f, t)
	}
	switch f.Source {
	case approval.SourceRememberedDeny, approval.SourceRememberedAllow:
		return &protocol.RuleChange{To: protocol.CheckAsk, How: fmt.Sprintf("forget the remembered answer %s", t.Rule)}
	case approval.SourceMode:
		return changeMode(f.Effect)
	case approval.SourceBlocked:
		return changeBlocked(t)
	case approval.SourceAsk:
		return d.changeAsk(f, t)
	case approval.SourceNotNeeded:
		return d.changeFree(f, t)
	}
	return nil
}

// changeStanding is about a standing rule, and every other of its effect that would
// take its place.
func (d *RuleService) changeStanding(f forecast, t protocol.RulesTested) *protocol.RuleChange {
	c := &protocol.RuleChange{To: d.without(f, t), Origin: t.Origin}
	if c.To == t.Decision {
		return nil
	}
	var how []string
	for _, one := range t.Considered {
		r, ok := d.cfg.Rules.Find(one.Rule)
		switch {
		case !ok || one.Effect != protocol.CheckDecision(f.standing(t)) || one.Outcome != string(tools.Decides) && one.Outcome != string(tools.Matches):
		case !r.Removable():
			c.How, c.Origin = "only the administrator can change "+one.Origin, one.Origin
			return c
		default:
			how = append(how, "`sandgate rules remove "+r.ID+"`")
		}
	}
	slices.Sort(how)
	c.How = strings.Join(slices.Compact(how), " and ")
	return c
}

// standing is the effect of the rule that decides.
func (f forecast) standing(t protocol.RulesTested) string {
	for _, c := range t.Considered {
		if c.Rule == t.Rule {
			return string(c.Effect)
		}
	}
	return string(t.Decision)
}

// without is the decision if the standing rule that makes it were not there.
func (d *RuleService) without(f forecast, t protocol.RulesTested) protocol.CheckDecision {
	p := d.policy(f)
	if p == nil {
		return protocol.CheckAsk // a tool's name alone: what the tool itself says comes next
	}
	for _, c := range t.Considered {
		if c.Rule != t.Rule && (c.Effect != protocol.CheckDecision(f.standing(t)) || c.Outcome != string(tools.Matches)) {
			continue
		}
		if _, ok := d.cfg.Rules.Find(c.Rule); ok {
			if q, err := p.Without(c.Rule); err == nil {
				p = q
			}
		}
	}
	return wireEffect(p.Decide(tools.Call{Args: f.args}.String("command"), "bash").Effect)
}

func changeMode(e approval.Effect) *protocol.RuleChange {
	if e == approval.Allow {
		return &protocol.RuleChange{To: protocol.CheckAsk, How: "run serve without --approve-all and with approval.mode: interactive"}
	}
	return &protocol.RuleChange{To: protocol.CheckAsk, How: "run serve without --strict and with approval.mode: interactive"}
}

// changeBlocked is about what a tool never allows.
func changeBlocked(t protocol.RulesTested) *protocol.RuleChange {
	c := &protocol.RuleChange{To: protocol.CheckAsk, Origin: t.Origin}
	switch {
	case t.Rule == "shell.default":
		c.How = "a rule in shell.rules that names the command, or shell.default: {allowed: true, approval: true}"
	case strings.HasPrefix(t.Rule, "shell.rules"):
		c.How = "remove or narrow the rule at " + t.Origin
	case strings.HasPrefix(t.Rule, "sandbox.paths."):
		c.How = "change the entry at " + t.Origin
	case t.Rule == "sandbox.paths":
		c.How = "an entry in sandbox.paths whose root contains the path, unless the path is hidden"
	default:
		return nil
	}
	return c
}

// changeAsk is about what a person would be asked.
func (d *RuleService) changeAsk(f forecast, t protocol.RulesTested) *protocol.RuleChange {
	if specs := d.offer(f); len(specs) > 0 {
		var how []string
		for _, s := range specs {
			how = append(how, "`"+addCommand(s)+"`")
		}
		return &protocol.RuleChange{To: protocol.CheckAllow, Add: specs, How: strings.Join(how, " and ")}
	}
	c := &protocol.RuleChange{To: protocol.CheckAllow, Origin: t.Origin}
	switch {
	case len(f.proposal.Changeable) > 0 && f.proposal.Plan.Class == sandboxprofile.ClassBeyond:
		c.How = "move what it starts to where calls cannot write, below an entry of sandbox.paths with mode: ro; " + tools.Beyond(f.proposal.Changeable)
	case t.Origin != "" && strings.HasPrefix(t.Rule, "shell.rules"):
		c.How = "approval: false in the rule at " + t.Origin
	case t.Origin != "" && strings.HasPrefix(t.Rule, "sandbox.paths."):
		c.How = "read_approval: false in the entry at " + t.Origin
		if k := f.proposal.Plan.Action.Kind; k == sandboxprofile.WriteFile || k == sandboxprofile.EditFile {
			c.How = "write_approval: false in the entry at " + t.Origin
		}
	default:
		c.How = "answer for the session when asked; no rule is offered, because a rule would allow too much"
	}
	return c
}

// changeFree is about what runs unasked: a rule that asks, if one can.
func (d *RuleService) changeFree(f forecast, t protocol.RulesTested) *protocol.RuleChange {
	if f.tool != shellTool {
		spec := protocol.RuleSpec{Effect: protocol.CheckDeny, Tool: string(f.tool)}
		return &protocol.RuleChange{To: protocol.CheckDeny, Add: []protocol.RuleSpec{spec}, How: "`" + addCommand(spec) + "`"}
	}
	command := tools.Call{Args: f.args}.String("command")
	policy := d.policy(f)
	if policy == nil {
		return nil
	}
	for _, part := range policy.Decide(command, "bash").Parts {
		if len(part.Words) == 0 || !plain(part.Words[0]) {
			continue
		}
		pattern := part.Words[0]
		if part.RuleIndex >= 0 {
			pattern = part.Rule // no more than what allows it now
		}
		ask := true
		with, err := policy.With(shell.Rule{Pattern: pattern, Approval: &ask})
		if err == nil && with.Decide(command, "bash").Effect == tools.Ask {
			spec := protocol.RuleSpec{Effect: protocol.CheckAsk, Shell: pattern}
			return &protocol.RuleChange{To: protocol.CheckAsk, Add: []protocol.RuleSpec{spec}, How: "`" + addCommand(spec) + "`"}
		}
	}
	return nil
}

// shellTool is the tool whose rules are about commands.
const shellTool = "shell"

// policy decides on the call's command line; it is nil if there is no command line.
func (d *RuleService) policy(f forecast) *shell.Policy {
	if f.tool != shellTool || d.cfg.Rules == nil {
		return nil
	}
	p := d.cfg.Rules.Policy()
	if e := f.proposal.Plan.Action.Exec; e != nil {
		p = p.In(e.Dir)
	}
	return p
}

// offer gives the standing rules that would allow the call, narrow enough to be
// offered, and tried.
func (d *RuleService) offer(f forecast) []protocol.RuleSpec {
	policies := []*shell.Policy{d.policy(f)}
	if policies[0] == nil {
		return nil
	}
	if q := d.cfg.Rules.Without(); q != nil && f.proposal.Plan.Action.Exec != nil {
		policies = append(policies, q.In(f.proposal.Plan.Action.Exec.Dir))
	}
	command := tools.Call{Args: f.args}.String("command")
	var specs []protocol.RuleSpec
	for i := range policies {
		for _, r := range policies[i].Offer(command) {
			for k := range policies {
				with, err := policies[k].With(r)
				if err != nil {
					return nil
				}
				policies[k] = with
			}
			specs = append(specs, protocol.RuleSpec{Effect: protocol.CheckAllow, Shell: r.Pattern, Exact: r.Exact})
		}
	}
	if slices.ContainsFunc(policies, func(p *shell.Policy) bool { return p.Decide(command, "bash").Effect < tools.Allow }) {
		return nil
	}
	return specs
}

// addCommand is the command that adds a rule.
func addCommand(s protocol.RuleSpec) string {
	words := []string{"sandgate rules add --" + string(s.Effect)}
	if s.Shell == "" {
		return words[0] + " '" + s.Tool + "'"
	}
	if s.Exact {
		words = append(words, "--exact")
	}
	return strings.Join(append(words, "--shell '"+s.Shell+"'"), " ")
}

// plain reports whether a word can stand in quotes on a command line as it is.
func plain(w string) bool { return w != "" && !strings.ContainsAny(w, "'\"\\$`\n*?[{ ") }
