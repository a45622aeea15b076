package explain

import (
	"cmp"

	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/history"
)

// suggestFrom is how often, by default, a person must have said yes.
const suggestFrom = 3

// Suggest reads the audit log and proposes narrow rules. It adds none.
func (d *RuleService) Suggest(p protocol.RulesSuggest) (protocol.RulesSuggested, error) {
	entries := d.cfg.Entries(audit.Filter{Since: p.Since, Kinds: []audit.Kind{audit.KindDecision}})
	survey, err := d.cfg.Rules.Suggest(history.Decisions(entries), cmp.Or(p.Min, suggestFrom))
	if err != nil {
		return protocol.RulesSuggested{}, protocol.Errorf(protocol.CodeInternal, "rules.suggest: %v", err)
	}
	out := protocol.RulesSuggested{Suggestions: []protocol.Suggestion{}, Decisions: survey.Decisions, Skipped: survey.Skipped}
	for _, s := range survey.Suggestions {
		out.Suggestions = append(out.Suggestions, protocol.Suggestion{
			Rule:  protocol.RuleSpec{Effect: protocol.CheckAllow, Shell: s.Rule.Pattern, Exact: s.Rule.Exact},
			Saved: s.Saved, Examples: s.Examples, Also: s.Also, Last: s.Last,
		})
	}
	return out, nil
}
