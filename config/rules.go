package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"
)

// rules checks each of `shell.rules`, and the rules against each other.
func (k *checker) rules() {
	for i := range k.c.Shell.Rules {
		k.rule(fieldIndex("shell.rules", i), &k.c.Shell.Rules[i])
	}
	rules := k.splitRules()
	for i := range rules {
		if j := shadow(rules, i); j >= 0 {
			k.problem(fieldIndex("shell.rules", i), fmt.Sprintf("the rule can never match: shell.rules[%d] %s on line %d decides everything that it covers",
				j, quote(rules[j].Pattern), rules[j].Position.Line), shadowHint(rules[j].Rule))
		}
	}
}

// A splitRule is a rule with the words of its pattern; without words nothing is
// known of what it matches.
type splitRule struct {
	*Rule
	words []string
}

func (k *checker) splitRules() []splitRule {
	rules := make([]splitRule, len(k.c.Shell.Rules))
	for i := range rules {
		rules[i].Rule = &k.c.Shell.Rules[i]
		if !k.unusable(fieldIndex("shell.rules", i) + ".pattern") {
			rules[i].words, _ = splitPattern(rules[i].Pattern)
		}
	}
	return rules
}

// shadow is the index of a rule that leaves nothing to rule i, or -1.
func shadow(rules []splitRule, i int) int {
	for j := range rules {
		first := j < i || j != i && !rules[j].Allowed && rules[i].Allowed
		if first && rules[j].shadows(rules[i]) {
			return j
		}
	}
	return -1
}

func shadowHint(by *Rule) string {
	if !by.Allowed {
		return "a rule with allowed: false always decides; remove one of the two"
	}
	return "put the longer pattern first, or remove it"
}

func (k *checker) rule(field string, r *Rule) {
	k.pattern(field+".pattern", r.Pattern)
	for _, name := range r.pointless() {
		if k.c.Set(field + "." + name) {
			k.problem(field+"."+name, "the rule contradicts itself: with allowed: false nothing runs", "remove "+name+" or allowed: false")
		}
	}
	k.ruleReach(field, r)
	k.examples(field+".match", r.Match)
	k.examples(field+".no_match", r.NoMatch)
	for i, m := range r.NoMatch {
		if slices.Contains(r.Match, m) {
			k.problem(fieldIndex(field+".no_match", i), quote(m)+" is in match too", "remove it from one of the two")
		}
	}
}

// pointless lists the keys that say nothing in r, because it allows nothing. A
// person who writes one of them expects a command to run, or to be asked.
func (r *Rule) pointless() []string {
	if r.Allowed {
		return nil
	}
	return []string{"approval", "read_only", "sandbox_paths", "network", "limits", "review"}
}

// ruleReach checks what a rule says about paths, network and limits: it may
// only narrow.
func (k *checker) ruleReach(field string, r *Rule) {
	if k.c.Set(field+".sandbox_paths") && len(r.SandboxPaths) == 0 && !k.unusable(field+".sandbox_paths") {
		k.problem(field+".sandbox_paths", "the list is empty", "name paths of sandbox.paths, or remove the key")
	}
	for i, name := range r.SandboxPaths {
		k.path(fieldIndex(field+".sandbox_paths", i), name)
	}
	k.unique(field+".sandbox_paths", r.SandboxPaths)
	if r.Network != nil {
		k.network(field+".network", *r.Network)
		if r.Network.rank() > k.c.Shell.Network.rank() && !k.unusable("shell.network") {
			k.problem(field+".network", "a rule cannot have more network than shell.network", "use the same or less")
		}
		if !k.c.Shell.Network.exposes(*r.Network) && !k.unusable("shell.network") && !k.unusable(field+".network.expose") {
			k.problem(field+".network.expose", "a rule cannot expose a port that shell.network does not", "use the same or less")
		}
	}
	if r.Limits != nil {
		k.narrower(field+".limits", "a rule", r.Limits)
	}
}

// narrower checks that no limit of who is greater than that of `sandbox.limits`.
func (k *checker) narrower(field, who string, l *Limits) {
	mine, whole := reflect.ValueOf(*l), reflect.ValueOf(k.c.Sandbox.Limits)
	for _, limit := range keysOf(mine.Type()) {
		if mine.FieldByIndex(limit.index).Int() > whole.FieldByIndex(limit.index).Int() && !k.unusable("sandbox.limits."+limit.key) {
			k.problem(fieldKey(field, limit.key), who+" cannot have a higher limit than sandbox.limits", "use the same or less")
		}
	}
}

func (k *checker) examples(field string, list []string) {
	for i, s := range list {
		if strings.TrimSpace(s) == "" {
			k.problem(fieldIndex(field, i), "the example is empty", "")
		}
	}
}

// pattern refuses patterns that look like another product's: words are matched
// literally, so a wildcard or an operator among them never matches.
func (k *checker) pattern(field, pattern string) {
	words, err := splitPattern(pattern)
	switch {
	case k.unusable(field):
	case strings.ContainsAny(pattern, "\n\r\x00"):
		k.problem(field, "the pattern has more than one line", "")
	case errors.Is(err, errOperator):
		k.problem(field, "the rule can never match: "+err.Error(),
			"each command of a list or pipeline is matched separately; write one rule for each")
	case err != nil:
		k.problem(field, quote(pattern)+" is not a valid command: "+err.Error(), "close quotes, and quote brackets")
	case len(words) == 0 || words[0] == "":
		k.problem(field, "the pattern is empty", "shell.default applies to commands that no rule matches")
	case strings.HasSuffix(pattern, ":*"):
		k.problem(field, "the rule can never match: words are literal", "a pattern is a prefix already; write "+quote(strings.TrimSuffix(pattern, ":*")))
	case words[len(words)-1] == "*":
		k.problem(field, "the rule can never match: words are literal", wildcardHint(words))
	}
}

var errOperator = errors.New("use the words of one command, without shell operators")

// splitPattern gives the words of a pattern, quoted as in a shell.
func splitPattern(pattern string) ([]string, error) {
	p := shellwords.NewParser()
	words, err := p.Parse(pattern)
	if err == nil && p.Position >= 0 {
		return nil, errOperator
	}
	return words, err
}

func wildcardHint(words []string) string {
	if len(words) == 1 {
		return "shell.default applies to commands that no rule matches"
	}
	return "a pattern is a prefix already; write " + quote(strings.Join(words[:len(words)-1], " "))
}

// shadows reports whether r, asked first, decides every command that other's
// pattern matches. A rule that denies is asked before all that do not. A rule
// with further conditions lets what does not meet them pass on to the next.
func (r splitRule) shadows(other splitRule) bool {
	switch {
	case r.Allowed && !other.Allowed:
		return false
	case !r.covers(other):
		return false
	case !r.Allowed || !r.ReadOnly && len(r.SandboxPaths) == 0:
		return true
	}
	return other.ReadOnly == r.ReadOnly && slices.Equal(r.SandboxPaths, other.SandboxPaths)
}

// covers reports whether r's pattern matches whatever other's does.
func (r splitRule) covers(other splitRule) bool {
	switch n := len(r.words); {
	case n == 0 || n > len(other.words):
		return false
	case r.Exact && (!other.Exact || n != len(other.words)):
		return false
	default:
		return slices.Equal(r.words, other.words[:n])
	}
}
