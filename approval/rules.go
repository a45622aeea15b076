package approval

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Rules answers for the operator's standing rules. Match returns the first rule
// of the effect, Deny or Allow, that covers the call. It is asked for denies
// before anything else is considered, so the order of rules between the two
// effects does not matter. It is safe for concurrent use and does no I/O.
type Rules interface {
	Match(effect Effect, call Call) (Rule, bool)
}

// A Rule allows or denies tools by name. Tool and Connector are globs: * stands
// for any run of characters and ? for one. An empty glob matches anything, but
// not both may be empty. An allow rule covers a dangerous tool (see ToolPolicy)
// only if it names it in full.
type Rule struct {
	ID        string `json:"id,omitempty"`
	Effect    Effect `json:"-"`
	Tool      string `json:"tool,omitempty"`
	Connector string `json:"connector,omitempty"`
	// Agent, a glob too, limits the rule to the calls of agents that call themselves
	// so: a label and no proof. Empty is every agent.
	Agent  string `json:"agent,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// String names the rule for people: its ID, or else what it says.
func (r Rule) String() string {
	if r.ID != "" {
		return r.ID
	}
	s := r.Effect.String()
	if r.Tool != "" {
		s += " tool " + r.Tool
	}
	if r.Connector != "" {
		s += " connector " + r.Connector
	}
	if r.Agent != "" {
		s += " agent " + r.Agent
	}
	return s
}

func (r *Rule) covers(call Call) bool {
	if call.ByFullName && r.Effect == Allow && r.Tool != call.ToolName {
		return false
	}
	return (r.Tool == "" || Glob(r.Tool, call.ToolName)) &&
		(r.Connector == "" || Glob(r.Connector, call.Connector)) &&
		(r.Agent == "" || Glob(r.Agent, call.Agent))
}

// A RuleList is a fixed list of rules.
type RuleList struct {
	rules []Rule
	// Which rules to ask about a call, in order: those that name its tool, those that
	// name its connector and no tool, and those that name neither without wildcards.
	byTool, byConnector map[string][]int
	wild                []int
}

// NewRules makes a RuleList. It refuses a rule that would match every call
// because it names nothing, and one that neither allows nor denies.
func NewRules(rules ...Rule) (*RuleList, error) {
	for i, r := range rules {
		switch {
		case r.Effect != Deny && r.Effect != Allow:
			return nil, fmt.Errorf("approval: rule %d %q: effect %s: want allow or deny", i, r, r.Effect)
		case r.Tool == "" && r.Connector == "":
			return nil, fmt.Errorf("approval: rule %d %q: needs a tool or a connector", i, r)
		}
	}
	l := &RuleList{rules: append([]Rule(nil), rules...), byTool: map[string][]int{}, byConnector: map[string][]int{}}
	for i, r := range l.rules {
		switch {
		case literal(r.Tool):
			l.byTool[r.Tool] = append(l.byTool[r.Tool], i)
		case literal(r.Connector):
			l.byConnector[r.Connector] = append(l.byConnector[r.Connector], i)
		default:
			l.wild = append(l.wild, i)
		}
	}
	return l, nil
}

// literal reports whether a glob matches itself and nothing else.
func literal(glob string) bool { return glob != "" && !strings.ContainsAny(glob, "*?") }

// Match implements Rules. A nil list has no rules.
func (l *RuleList) Match(effect Effect, call Call) (Rule, bool) {
	if l == nil {
		return Rule{}, false
	}
	first := len(l.rules)
	for _, list := range [...][]int{l.byTool[call.ToolName], l.byConnector[call.Connector], l.wild} {
		for _, i := range list {
			if r := &l.rules[i]; i < first && r.Effect == effect && r.covers(call) {
				first = i
				break
			}
		}
	}
	if first == len(l.rules) {
		return Rule{}, false
	}
	return l.rules[first], true
}

// Glob matches all of name: * stands for any run of characters, ? for one. It
// backtracks only to the last *, so that no
// pattern takes more than len(pattern)*len(name) steps.
func Glob(pattern, name string) bool {
	star, retry := -1, 0
	p, n := 0, 0
	for n < len(name) {
		_, size := utf8.DecodeRuneInString(name[n:])
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, retry = p, n
			p++
		case p < len(pattern) && pattern[p] == '?':
			p, n = p+1, n+size
		case p < len(pattern) && pattern[p] == name[n]:
			p, n = p+1, n+1
		case star >= 0:
			_, skipped := utf8.DecodeRuneInString(name[retry:])
			retry += skipped
			p, n = star+1, retry
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
