package shell

import (
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/tools"
)

// Offer gives the rules that are worth adding so that a command runs unasked: one
// for each simple command in it that a rule could allow and that only the default
// asks about. It gives none if that would not do: if another part of the command
// asks, or a rule would have to name too much. An interpreter, a shell, a program
// that runs other programs, or one that acts by its sub-command, is never offered
// alone. Every rule is held against the command before it is given.
func (p *Policy) Offer(command string) []Rule {
	d := p.Decide(command, "bash")
	if d.Effect != tools.Ask {
		return nil
	}
	with := p
	var rules []Rule
	for _, part := range d.Parts {
		if part.Effect != tools.Ask || with.Decide(part.Text, "bash").Effect == tools.Allow {
			continue
		}
		pattern, exact := narrow(part)
		if pattern == "" {
			return nil
		}
		approval := false
		r := Rule{Pattern: pattern, Exact: exact, Approval: &approval}
		next, err := with.With(r)
		if err != nil {
			return nil
		}
		with, rules = next, append(rules, r)
	}
	if with.Decide(command, "bash").Effect != tools.Allow {
		return nil
	}
	return rules
}

// narrow is the pattern that is offered for a part, or "".
func narrow(part Part) (pattern string, exact bool) {
	if part.Rule != ruleDefault || len(part.Words) == 0 || neverOffered(part.Words[0]) || !plainWord().MatchString(part.Words[0]) {
		return "", false
	}
	words, exact := approval.StandingPrefix(part.Words)
	plain := plainWord
	if exact {
		plain = plainArgument
	}
	if slices.ContainsFunc(words, func(w string) bool { return !plain().MatchString(w) }) { // it would not be read back as it is
		return "", false
	}
	return strings.Join(words, " "), exact
}

var (
	plainWord     = lazily(`^[A-Za-z0-9][A-Za-z0-9_.:+-]*$`)
	plainArgument = lazily(`^[A-Za-z0-9_./:=+,@-]+$`)
)

// neverOffered are the programs that the analysis knows to run others, or code.
func neverOffered(base string) bool {
	return known().coded[likeness(base)] != "" || known().in("shells", base) || wrapperFor(likeness(base)) != nil || known().in("special-builtins", base)
}
