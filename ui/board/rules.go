package board

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/ui/present"
)

const (
	ruleHint = "EFFECT KIND WORDS # REASON, such as `allow shell git log # only reads`, `deny tool github_* # we push by hand` or `allow tool WebSearch of agent researcher`; effects: allow, ask, deny; kinds: shell, exact, read-only, tool, connector"
	testHint = "TOOL and its arguments, such as `shell git push` or `write_file {\"path\":\"x\",\"content\":\"\"}`"
)

func (s *Source) rules(ctx context.Context) ([]Section, error) {
	list, err := s.approver.Rules(ctx)
	if err != nil {
		return nil, err
	}
	suggested, err := s.approver.SuggestRules(ctx, protocol.RulesSuggest{})
	if err != nil {
		return nil, err
	}
	force := Section{Heading: "In effect, in the order in which they are tried", Empty: "There are no rules: a tool's own questions are asked.",
		Actions: []Action{s.newRule("Add a rule", ""), s.try("Try a rule on the log", ""), {Do: "rule.test", Words: "Try a call", Label: "The call", Hint: testHint, reads: true, do: s.testRules},
			{Do: "rules.reload", Words: "Reload the files", asks: sure("Read the rule files again? Changes in them then take effect."), do: s.reload}}}
	for _, r := range list.Rules {
		reason := r.Reason
		if r.Shell == "" && r.Tool == "" && r.Connector == "" { // it is the sentence
			reason = ""
		}
		item := Item{ID: cmp.Or(r.ID, r.Name), Text: ruleSentence(r, present.Name), whole: ruleSentence(r, present.Whole), Under: present.Several(some(reason, r.Origin, r.ID), 3)}
		switch {
		case r.Inactive != "":
			item.Careful, item.Under = true, present.Say("without effect: %s, %s", r.Inactive, item.Under)
		case r.Caution != "":
			item.Careful, item.Under = true, present.Say("caution: %s, %s", r.Caution, item.Under)
		}
		if r.Tier == "user" {
			if text, whole := editable(r.RuleSpec); whole {
				item.Actions = append(item.Actions, s.editRule(r.RuleSpec, text), s.try("On the log", text))
			}
			item.Actions = append(item.Actions, Action{Do: "rule.remove", Words: "Remove", asks: sure("Remove this rule?"), state: r.RuleSpec, do: func(ctx context.Context, _ string) (present.Sentence, error) {
				removed, err := s.approver.RemoveRule(ctx, r.ID, &r.RuleSpec)
				return present.Say("Removed: %s", ruleSentence(removed, present.Whole)), err
			}})
		}
		force.Items = append(force.Items, item)
	}
	proposed := Section{Heading: "Rules that your answers suggest", Empty: present.Say("Nothing yet, after %d decisions in the log.", suggested.Decisions)}
	for _, x := range suggested.Suggestions {
		under := present.Say("would have saved %d questions", x.Saved)
		if len(x.Also) > 0 {
			under += "; it would also have allowed " + present.Several(x.Also, triedCalls)
		}
		text, whole := editable(x.Rule)
		item := Item{ID: text, Text: ruleSentence(protocol.Rule{RuleSpec: x.Rule}, present.Name), Under: under}
		if whole {
			item.Actions = []Action{s.newRule("Add", text)}
		}
		proposed.Items = append(proposed.Items, item)
	}
	return []Section{force, proposed}, nil
}

func some(parts ...string) (list []string) {
	for _, p := range parts {
		if p != "" {
			list = append(list, p)
		}
	}
	return list
}

// ruleSentence is a rule in words, with its texts as show has them. Our words come first.
func ruleSentence(r protocol.Rule, show func(string) present.Sentence) present.Sentence {
	text := map[protocol.CheckDecision]present.Sentence{
		protocol.CheckAllow: "Run without asking", protocol.CheckAsk: "Ask about", protocol.CheckDeny: "Refuse"}[r.Effect]
	if r.Agent != "" {
		text += present.Say(", if the agent %s asks,", show(r.Agent))
	}
	if r.ReadOnly {
		text += " what only reads, of"
	}
	switch {
	case r.Shell != "" && r.Exact:
		return text + " commands that are exactly " + show(r.Shell)
	case r.Shell != "":
		return text + " commands that begin with " + show(r.Shell)
	case r.Connector != "":
		tool := present.Sentence("any tool")
		if r.Tool != "" {
			tool = show(r.Tool)
		}
		return text + present.Say(" calls of %s from %s", tool, show(r.Connector))
	case r.Tool != "":
		return text + " calls of " + show(r.Tool)
	case r.Name == "shell.default" && r.Tier == "config": // sandgate's own words, and the only rule of its own
		return text + " commands that no rule matches"
	}
	return text + " what this covers: " + show(cmp.Or(r.Reason, r.Name, r.ID))
}

// ofAgent stands between what a rule is about and the agents that it is for.
const ofAgent = " of agent "

// editable is a rule as a person writes it, and whether that is all of it: what would be
// read as another rule is not offered as a text. Examples are no part of the text; an edit
// keeps them.
func editable(r protocol.RuleSpec) (text string, whole bool) {
	text = ruleText(r)
	back, err := parseRule(text)
	r.ID, r.Match, r.NoMatch = "", nil, nil
	return text, err == nil && reflect.DeepEqual(back, r)
}

// ruleText is a rule as a person writes it: what parseRule reads.
func ruleText(r protocol.RuleSpec) string {
	kind, words := "tool", r.Tool
	switch {
	case r.Shell != "" && r.Exact:
		kind, words = "exact", r.Shell
	case r.Shell != "":
		kind, words = "shell", r.Shell
	case r.Connector != "":
		kind, words = "connector", strings.TrimSpace(r.Connector+" "+r.Tool)
	}
	text := string(r.Effect) + " " + kind + " " + words
	if r.ReadOnly {
		text = string(r.Effect) + " read-only " + words
	}
	if r.Agent != "" {
		text += ofAgent + r.Agent
	}
	if r.Reason != "" {
		text += " # " + r.Reason
	}
	return text
}

// parseRule reads one.
func parseRule(text string) (protocol.RuleSpec, error) {
	text, reason, _ := strings.Cut(text, " # ")
	effect, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	kind, words, _ := strings.Cut(strings.TrimSpace(rest), " ")
	words = strings.TrimSpace(words)
	r := protocol.RuleSpec{Effect: protocol.CheckDecision(effect), Reason: strings.TrimSpace(reason)}
	if err := r.Validate(); err != nil || words == "" {
		return r, errors.New("not a valid rule: write " + ruleHint)
	}
	if kind == "tool" || kind == "connector" { // a command may have these words in it
		words, r.Agent, _ = strings.Cut(words, ofAgent)
		r.Agent = strings.TrimSpace(r.Agent)
	}
	switch kind {
	case "shell":
		r.Shell = words
	case "exact":
		r.Shell, r.Exact = words, true
	case "read-only":
		r.Shell, r.ReadOnly = words, true
	case "tool":
		r.Tool = words
	case "connector":
		r.Connector, r.Tool, _ = strings.Cut(words, " ")
	default:
		return r, fmt.Errorf("%q is not a kind of rule: write %s", kind, ruleHint)
	}
	return r, nil
}

// lasting says for whom a rule will hold, and how long, and then all of it.
func lasting(r protocol.RuleSpec) present.Sentence {
	whom := present.Sentence(" and for every agent")
	if r.Agent != "" { // the rule's own sentence names it
		whom = ""
	}
	return "in every session" + whom + ", until you remove it? " + ruleSentence(protocol.Rule{RuleSpec: r}, present.Whole)
}

// AddRule is the action that adds a rule.
const AddRule = "rule.add"

func (s *Source) newRule(words, text string) Action {
	return Action{Do: AddRule, Words: words, Label: "The rule", Hint: ruleHint, Text: text,
		asks: func(text string) ([]present.Sentence, error) {
			r, err := parseRule(text)
			return []present.Sentence{"Add this rule, " + lasting(r)}, err
		},
		do: func(ctx context.Context, text string) (present.Sentence, error) {
			r, err := parseRule(text)
			if err != nil {
				return "", err
			}
			added, err := s.approver.AddRule(ctx, r)
			return present.Say("Added: %s", ruleSentence(added, present.Whole)) + careful(added.Caution), err
		}}
}

// editRule puts the new rule in the place of the old one in one step, with the old one's
// examples: a rule that no longer covers what it was made for is refused.
func (s *Source) editRule(old protocol.RuleSpec, text string) Action {
	return Action{Do: "rule.edit", Words: "Edit", Label: "The rule", Hint: ruleHint, Text: text, state: old,
		asks: func(text string) ([]present.Sentence, error) {
			r, err := parseRule(text)
			return []present.Sentence{present.Say("Replace the rule %s with this, ", present.Whole(old.ID)) + lasting(r)}, err
		},
		do: func(ctx context.Context, text string) (present.Sentence, error) {
			r, err := parseRule(text)
			if err != nil {
				return "", err
			}
			r.Match, r.NoMatch = old.Match, old.NoMatch
			changed, err := s.approver.ReplaceRule(ctx, old.ID, r, &old)
			return present.Say("Changed: %s", ruleSentence(changed, present.Whole)) + careful(changed.Caution), err
		}}
}

// careful is what a person should know of a rule that covers less than it seems to.
func careful(caution string) present.Sentence {
	if caution == "" {
		return ""
	}
	return ". Caution: " + present.WholeEnd(caution)
}

// try holds a rule against the log. It adds none.
func (s *Source) try(words, text string) Action {
	return Action{Do: "rule.try", Words: words, Label: "The rule", Hint: ruleHint, Text: text, reads: true, do: s.tryRule}
}

func (s *Source) tryRule(ctx context.Context, text string) (present.Sentence, error) {
	r, err := parseRule(text)
	if err != nil {
		return "", err
	}
	tried, err := s.approver.TryRule(ctx, protocol.RulesTry{Rule: r, Limit: triedCalls})
	if err != nil {
		return "", err
	}
	said := present.Say("It covers %d of %d decisions in the log", tried.Matches, tried.Decisions)
	if tried.Skipped > 0 {
		said += present.Say(" (%d could not be checked: their arguments were redacted or truncated)", tried.Skipped)
	}
	for i, c := range tried.Covered {
		said += map[bool]present.Sentence{true: ", latest first: ", false: "; "}[i == 0] +
			present.Say("%s: %s %s (%s)", named(c.Agent), c.Tool, c.Subject, c.Action)
	}
	said += ". Nothing was added"
	if tried.Caution == "" {
		return said + ".", nil
	}
	return said + careful(tried.Caution), nil
}

// triedCalls is how many of the calls that a rule covers are told.
const triedCalls = 5

func (s *Source) testRules(ctx context.Context, call string) (present.Sentence, error) {
	tool, rest, _ := strings.Cut(strings.TrimSpace(call), " ")
	args := json.RawMessage(strings.TrimSpace(rest))
	if tool == "shell" && !strings.HasPrefix(rest, "{") {
		args, _ = json.Marshal(map[string]string{"command": rest}) // a string always is JSON
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if !json.Valid(args) {
		return "", errors.New("the arguments are not JSON: write " + testHint)
	}
	t, err := s.approver.TestRules(ctx, protocol.RulesTest{Tool: protocol.ToolName(tool), Args: args})
	if err != nil {
		return "", err
	}
	text := map[protocol.CheckDecision]present.Sentence{protocol.CheckAllow: "It would run", protocol.CheckAsk: "It would be asked about", protocol.CheckDeny: "It would be refused"}[t.Decision]
	if t.Rule != "" {
		text += present.Say(", by %s", t.Rule)
	}
	if t.Reason != "" {
		text += present.Say(": %s", t.Reason)
	}
	if t.Decision == protocol.CheckAllow && t.Ceiling != "" {
		text += present.Say(". The kernel confines it to: %s", t.Ceiling)
	}
	if t.Change != nil {
		text += ". To change that: " + present.WholeEnd(t.Change.How)
	}
	return text, nil
}

func (s *Source) reload(ctx context.Context, _ string) (present.Sentence, error) {
	n, err := s.approver.Reload(ctx)
	return present.Say("Reloaded %d standing rules, %d of them without effect.", n.Rules, n.Inactive), err
}

func (s *Source) remembered(ctx context.Context) ([]Section, error) {
	list, err := s.approver.Remembered(ctx)
	if err != nil {
		return nil, err
	}
	section := Section{Heading: "From now on", Empty: "No remembered answers: every question is asked."}
	for _, r := range list {
		now := present.Say("used %d times", r.Hits)
		if r.Expires != nil {
			now += present.Say(", ends in %s", present.Span(r.Expires.Sub(s.now())))
		}
		if r.UsesLeft != nil {
			now += present.Say(", %d uses left", *r.UsesLeft)
		}
		section.Items = append(section.Items, Item{ID: r.ID, Text: present.AnswerSentence(r), Under: present.Say("given by %s", present.Approver(r.Approver)), Now: now, Careful: r.Scope == "global" && r.Decision == protocol.Allow,
			Actions: []Action{{Do: "answer.forget", Words: "Forget", asks: sure("Forget this, and ask again?"),
				do: done("Forgotten: the next such call asks again.", func(ctx context.Context) error { return s.approver.Forget(ctx, r.ID) })}}})
	}
	return []Section{section}, nil
}

// RuleFor is the rule, as a person writes it, that would allow a request: a start to edit.
// It is "" where the line would be read as another rule, or does not look like what it
// says: a request is an agent's text, and with " # " in it the rule was wider than its line
// showed.
func RuleFor(a *protocol.Approval) string {
	r := protocol.RuleSpec{Effect: protocol.CheckAllow}
	command, isCommand := a.Payload["command"].(string)
	switch {
	case a.Tool != "shell":
		r.Tool = string(a.Tool)
	case isCommand && !strings.Contains(command, "\n"):
		r.Shell = strings.TrimSpace(command)
	}
	text, whole := editable(r)
	if !whole || approval.EscapeLine(text) != text || strings.Contains(r.Tool, "*") {
		return ""
	}
	return text
}
