package rulebook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/shell"
)

// A Rule is a standing rule as it was found.
type Rule struct {
	config.StandingRule
	Tier config.Tier
	// Inactive says why the rule has no effect under this configuration; "" if it has.
	Inactive string
}

// Label is the rule's name in decisions and in the log.
func (r Rule) Label() string { return "rules." + r.ID }

func (r Rule) effect() tools.Effect {
	switch r.Effect {
	case config.Allow:
		return tools.Allow
	case config.Ask:
		return tools.Ask
	}
	return tools.Deny
}

// command is r as the tool shell has it.
func (r Rule) command() shell.Rule {
	e := r.effect()
	allowed, ask := e != tools.Deny, e == tools.Ask
	return shell.Rule{
		Pattern: r.Shell, Exact: r.Exact, ReadOnly: r.ReadOnly, Allowed: &allowed, Approval: &ask, Reason: r.Reason,
		Match: r.Match, NoMatch: r.NoMatch, Name: r.Label(), Position: r.Position.String(),
	}
}

// standing is r as package approval has it.
func (r Rule) standing() approval.Rule {
	e := approval.Deny
	if r.effect() == tools.Allow {
		e = approval.Allow
	}
	return approval.Rule{ID: r.Label(), Effect: e, Tool: r.Tool, Connector: r.Connector, Agent: r.Agent, Reason: r.Reason}
}

// Bounds cannot be loosened by standing rules.
type Bounds struct {
	Default shell.Default
	Shell   []shell.Rule // the configuration's, with their positions
	// Dangerous are the tools that no standing rule allows.
	Dangerous []string
}

// loosens names what r would loosen that is not its to loosen; "" if nothing.
func (b Bounds) loosens(r Rule) string {
	switch {
	case r.effect() == tools.Deny:
		return ""
	case r.Shell != "" && b.Default.Effect() == tools.Deny:
		return "shell.default denies every command that no rule of the configuration names"
	case r.Shell != "":
		return b.shadowed(r)
	}
	for _, name := range b.Dangerous {
		rule := r.standing()
		rule.Agent = "" // whoever asks may call itself so
		list, err := approval.NewRules(rule)
		if err != nil {
			return err.Error()
		}
		if _, covered := list.Match(approval.Allow, approval.Call{ToolName: name}); covered {
			return fmt.Sprintf("approval.dangerous_tools names %q or a tool that does the same, and the rule covers it", name)
		}
	}
	return ""
}

// shadowed names a rule of the configuration that decides before r whatever r
// would allow.
func (b Bounds) shadowed(r Rule) string {
	if r.effect() != tools.Allow {
		return ""
	}
	for _, c := range b.Shell {
		if c.Effect() == tools.Allow || c.ReadOnly || c.Exact || len(c.SandboxPaths) > 0 || !prefix(c.Pattern, r.Shell) {
			continue
		}
		verb := "asks about"
		if c.Effect() == tools.Deny {
			verb = "denies"
		}
		return fmt.Sprintf("%s: the rule %q of the configuration %s it", c.Position, c.Pattern, verb)
	}
	return ""
}

// prefix reports whether pattern's words begin other's. Both have loaded, so
// their words are theirs; a quoted pattern is compared as it is spelled.
func prefix(pattern, other string) bool {
	p, o := strings.Fields(pattern), strings.Fields(other)
	return len(p) <= len(o) && slices.Equal(p, o[:len(p)])
}

// A Set is every standing rule, the administrator's first.
type Set []Rule

// bounded marks what has no effect under b.
func (s Set) bounded(b Bounds) Set {
	for i := range s {
		s[i].Inactive = b.loosens(s[i])
	}
	return s
}

// Shell are the rules for the tool shell.
func (s Set) Shell() shell.Standing {
	var out shell.Standing
	for _, r := range s {
		if r.Shell != "" && r.Inactive == "" {
			out.Add(r.command())
		}
	}
	return out
}

// Approval are the rules for package approval.
func (s Set) Approval() (*approval.RuleList, error) {
	var list []approval.Rule
	for _, r := range s {
		if r.Shell == "" && r.Inactive == "" {
			list = append(list, r.standing())
		}
	}
	return approval.NewRules(list...)
}

func (s Set) find(id string) (Rule, bool) {
	i := slices.IndexFunc(s, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return Rule{}, false
	}
	return s[i], true
}
