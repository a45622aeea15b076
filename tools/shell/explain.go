package shell

import (
	"fmt"

	"github.com/sandgate/sandgate/tools"
)

// Explain is Decide, and says of every simple command which rules it was held
// against and what became of each.
func (p *Policy) Explain(command, shell string) (Decision, []tools.Considered) {
	list := []tools.Considered{}
	d := p.decide(command, shell, &list)
	return d, list
}

// Explain implements tools.Explainer.
func (t *Tool) Explain(c tools.Call) ([]tools.Considered, error) {
	command := c.String("command")
	if err := checkCommand(command); err != nil {
		return nil, err
	}
	dir, err := tools.WorkingDir(t.Paths, t.sees, t.Profile.Scratch, c.String("dir"))
	if err != nil {
		return nil, err
	}
	d, list := t.Policy().In(dir).Explain(command, "bash")
	after, _ := t.settled(d)
	if asked := t.readsAsked(after, dir); asked.Effect != after.Effect {
		return append(list, tools.Considered{Subject: command, Rule: asked.Label(), Effect: tools.Ask, Outcome: tools.Decides, Why: asked.Reason}), nil
	}
	if d.Effect == tools.Allow || after.Effect != tools.Allow {
		return list, nil
	}
	for i := range list { // the default was not asked in the end
		if list[i].Outcome == tools.Decides && list[i].Effect < tools.Allow {
			list[i].Outcome, list[i].Why = tools.Matches, "what the line can do is decided first"
		}
	}
	return append(list, tools.Considered{
		Subject: command, Rule: after.Label(), Effect: tools.Allow, Outcome: tools.Decides, Why: classReasons[after.Rule],
	}), nil
}

// classReasons say why a class lets a line run.
var classReasons = map[string]string{
	ruleReads:    "it only reads, and the kernel enforces that",
	ruleConfined: "the sandbox confines it to the workspace and the listed hosts",
}

// consider notes what became of every rule for a command that part decided.
func (a *analysis) consider(cmd simpleCommand, part Part) {
	views := a.views(cmd)
	for i := range a.p.rules.list {
		r := &a.p.rules.list[i]
		c := tools.Considered{Subject: part.Text, Rule: r.Name, Position: r.Position, Effect: r.effect}
		c.Outcome, c.Why = a.outcome(r, cmd, views)
		switch {
		case part.RuleIndex == r.index:
			c.Outcome, c.Why = tools.Decides, part.Reason
		case c.Outcome == tools.Matches && r.Narrows && r.effect == tools.Allow:
			c.Outcome, c.Why = tools.Unfit, "its file is not trusted, so it can only narrow permissions"
		case c.Outcome == tools.Matches:
			c.Why = "another rule comes before it, or is stricter"
		}
		*a.explain = append(*a.explain, c)
	}
	if part.RuleIndex < 0 {
		*a.explain = append(*a.explain, tools.Considered{
			Subject: part.Text, Rule: "shell." + part.Rule, Effect: a.p.fallback, Outcome: tools.Decides, Why: part.Reason,
		})
	}
}

// overruled notes that the default decides what a rule seemed to.
func (a *analysis) overruled(p Part) {
	for i, c := range *a.explain {
		if c.Subject == p.Text && c.Outcome == tools.Decides {
			(*a.explain)[i].Outcome, (*a.explain)[i].Why = tools.Unfit, p.Reason
		}
	}
	*a.explain = append(*a.explain, tools.Considered{Subject: p.Text, Rule: "shell." + p.Rule, Effect: p.Effect, Outcome: tools.Decides, Why: p.Reason})
}

// outcome is what one rule says about a command, whatever the others say. It
// asks the same questions as denied and firstMatch.
func (a *analysis) outcome(r *compiledRule, cmd simpleCommand, views []view) (tools.Outcome, string) {
	if r.effect == tools.Deny {
		switch v, why := a.denies(r, cmd, views, func() []word { return a.unread(cmd) }); v {
		case yes:
			return tools.Matches, ""
		case perhaps:
			return tools.MayMatch, why
		}
		return tools.NoMatch, mismatch(r, cmd)
	}
	v, rest := a.matchViews(r, views)
	if v == no {
		return tools.NoMatch, mismatch(r, cmd)
	}
	reason := a.outsideRoots(r, cmd)
	if r.effect == tools.Allow {
		reason = a.unfit(r, v, cmd, rest)
	}
	if reason != "" {
		return tools.Unfit, reason
	}
	return tools.Matches, ""
}

// mismatch names the first word in which a command differs from a pattern.
func mismatch(r *compiledRule, cmd simpleCommand) string {
	for i, want := range r.words {
		switch {
		case i >= len(cmd.words):
			return fmt.Sprintf("the command has no word %q", want)
		case cmd.words[i].text != want:
			return fmt.Sprintf("%q is not %q", cmd.words[i].text, want)
		}
	}
	if r.Exact && len(cmd.words) > len(r.words) {
		return fmt.Sprintf("the pattern is exact, but the command continues with %q", cmd.words[len(r.words)].text)
	}
	return fmt.Sprintf("%q is not the program that PATH finds in a directory no tool can write to", cmd.words[0].text)
}
