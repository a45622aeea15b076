package rulebook

import (
	"fmt"
	"iter"
	"slices"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/supervisor/history"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// A Trial lists the calls that a rule would have covered.
type Trial struct {
	Decisions, Skipped int
	Covered            []history.Decision // oldest first
}

// Try says which past decisions a rule covers by itself, whatever other rules say. The
// rule is added nowhere. Its error says why the rule does not load.
func (b *Book) Try(r config.StandingRule, past iter.Seq2[history.Decision, error]) (Trial, error) {
	covers, err := b.coverage(r)
	if err != nil {
		return Trial{}, err
	}
	var t Trial
	for d, err := range past {
		if err != nil {
			return t, err
		}
		t.Decisions++
		switch {
		case r.Shell != "" && d.Unfit != "":
			t.Skipped++
		case covers(d):
			t.Covered = append(t.Covered, d)
		}
	}
	return t, nil
}

// coverage checks the rule as its file would be, and gives what it covers.
func (b *Book) coverage(r config.StandingRule) (func(history.Decision) bool, error) {
	if r.ID == "" {
		r.ID = Set(nil).freeID(r)
	}
	data, err := config.AppendRule(nil, r)
	if err != nil {
		return nil, err
	}
	list, err := config.ParseRules(data, "the rule")
	if err != nil {
		return nil, &Error{Op: "try", ID: r.ID, Reason: err.Error()}
	}
	rule := Rule{StandingRule: list[0], Tier: config.TierUser}
	if rule.Shell == "" {
		return b.coversCall(rule)
	}
	policy, err := shell.NewPolicy(shell.Default{Allowed: true, Approval: true}, []shell.Rule{rule.command()}, nil, nil)
	if err != nil {
		return nil, &Error{Op: "try", ID: r.ID, Reason: err.Error()}
	}
	return func(d history.Decision) bool {
		command, ok := d.Args["command"].(string)
		if !ok || d.Entry.Tool != "shell" && d.Entry.Tool != "run_background" {
			return false
		}
		for _, part := range policy.Decide(command, "bash").Parts {
			if part.RuleIndex == 0 && part.Effect == rule.effect() {
				return true
			}
		}
		return false
	}, nil
}

// coversCall is for a rule about tools. It is refused as it would be when added, and covers
// as little: by a glob no call of a dangerous tool.
func (b *Book) coversCall(r Rule) (func(history.Decision) bool, error) {
	list, err := approval.NewRules(r.standing())
	if err != nil {
		return nil, &Error{Op: "try", ID: r.ID, Reason: err.Error()}
	}
	if r.effect() == tools.Ask {
		return nil, &Error{Op: "try", ID: r.ID, Reason: fmt.Sprintf("a rule about tools does not %s", r.Effect)}
	}
	if what := b.bounds.loosens(r); what != "" {
		return nil, b.refusal("try", r.ID, what)
	}
	return func(d history.Decision) bool {
		dangerous := slices.ContainsFunc(b.bounds.Dangerous, func(glob string) bool { return approval.Glob(glob, d.Entry.Tool) })
		_, covered := list.Match(r.standing().Effect, approval.Call{ToolName: d.Entry.Tool, Connector: d.Record.Connector, Agent: d.Entry.Agent, ByFullName: dangerous})
		return covered
	}, nil
}
