package config

import (
	"fmt"
	"slices"
	"strings"
)

// rules checks each of `shell.rules`, and the rules against each other.
func (k *checker) rules() {
	rules := k.c.Shell.Rules
	for i := range rules {
		field := fieldIndex("shell.rules", i)
		k.rule(field, &rules[i])
		if k.unusable(field + ".pattern") {
			continue
		}
		for j := range rules[:i] {
			if !k.unusable(fieldIndex("shell.rules", j)+".pattern") && rules[j].shadows(&rules[i]) {
				k.problem(field, fmt.Sprintf("the rule can never match: rule %d, %s on line %d, already matches all that it does",
					j, quote(rules[j].Pattern), rules[j].Position.Line), "put the longer pattern first, or remove it")
				break
			}
		}
	}
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

// pointless lists the keys that say nothing in r, because it allows nothing.
// Whoever writes one of them expects a command to run, or to be asked about.
func (r *Rule) pointless() []string {
	if r.Allowed {
		return nil
	}
	return []string{"approval", "read_only", "sandbox_paths", "network", "limits"}
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
			k.problem(field+".network", "a rule cannot have more network than shell.network", "rules only narrow")
		}
	}
	if r.Limits != nil {
		k.limits(field+".limits", r.Limits)
		k.narrower(field+".limits", r.Limits)
	}
}

func (k *checker) narrower(field string, l *Limits) {
	whole := k.c.Sandbox.Limits
	for name, pair := range map[string][2]int64{
		"timeout":    {int64(l.Timeout), int64(whole.Timeout)},
		"cpu":        {int64(l.CPU), int64(whole.CPU)},
		"memory":     {int64(l.Memory), int64(whole.Memory)},
		"pids":       {l.Pids, whole.Pids},
		"file_size":  {int64(l.FileSize), int64(whole.FileSize)},
		"output":     {int64(l.Output), int64(whole.Output)},
		"open_files": {l.OpenFiles, whole.OpenFiles},
	} {
		if pair[0] > pair[1] && !k.unusable("sandbox.limits."+name) {
			k.problem(fieldKey(field, name), "a rule cannot have a greater limit than sandbox.limits", "rules only narrow")
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
	words := strings.Fields(pattern)
	switch {
	case k.unusable(field):
		return
	case len(words) == 0:
		k.problem(field, "the pattern is empty", "shell.default applies to commands that no rule matches")
		return
	case strings.ContainsAny(pattern, "\n\r\x00"):
		k.problem(field, "the pattern has more than one line", "")
		return
	}
	last := words[len(words)-1]
	if prefix, ok := strings.CutSuffix(pattern, ":*"); ok {
		k.problem(field, "the rule can never match: words are literal", "a pattern is a prefix already; write "+quote(prefix))
	} else if last == "*" {
		k.problem(field, "the rule can never match: words are literal", wildcardHint(words))
	} else if op := slices.IndexFunc(words, isOperator); op >= 0 {
		k.problem(field, fmt.Sprintf("the rule can never match: %s is a shell operator", quote(words[op])),
			"each command of a list or pipeline is matched by itself; write one rule for each")
	}
}

func wildcardHint(words []string) string {
	if len(words) == 1 {
		return "shell.default applies to commands that no rule matches"
	}
	return "a pattern is a prefix already; write " + quote(strings.Join(words[:len(words)-1], " "))
}

func isOperator(word string) bool {
	switch strings.TrimLeft(word, "0123456789") {
	case "|", "||", "&", "&&", ";", "|&", ">", ">>", "<", "<<", "<<<", ">|", "&>":
		return true
	}
	return false
}

// shadows reports whether r, which stands before other, decides every command
// that other's pattern matches. A rule with further conditions lets what does
// not meet them pass on to the next.
func (r *Rule) shadows(other *Rule) bool {
	if len(r.SandboxPaths) > 0 || r.ReadOnly && r.Allowed {
		return r.sameConditions(other)
	}
	return r.covers(other)
}

// covers is shadows for the patterns alone.
func (r *Rule) covers(other *Rule) bool {
	mine, its := strings.Fields(r.Pattern), strings.Fields(other.Pattern)
	if r.Exact {
		return other.Exact && slices.Equal(mine, its)
	}
	return len(mine) <= len(its) && slices.Equal(mine, its[:len(mine)])
}

func (r *Rule) sameConditions(other *Rule) bool {
	return r.covers(other) && other.ReadOnly == r.ReadOnly && slices.Equal(r.SandboxPaths, other.SandboxPaths)
}
