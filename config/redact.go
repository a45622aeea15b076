package config

import (
	"fmt"
	"regexp"
	"slices"
)

// redact checks each of `audit.redact`, and its examples.
func (k *checker) redact() {
	rules := k.c.Audit.Redact
	for i := range rules {
		field := fieldIndex("audit.redact", i)
		if !plainKey(rules[i].Name) && !k.unusable(field+".name") {
			k.problem(field+".name", quote(rules[i].Name)+" is not a valid name", "use letters, digits, - and _")
		}
		if j := slices.IndexFunc(rules[:i], func(r RedactRule) bool { return r.Name == rules[i].Name }); j >= 0 {
			k.problem(field+".name", fmt.Sprintf("the name is used twice, first on line %d", rules[j].Position.Line), "choose another")
		}
		k.redactPattern(field, rules[i])
	}
}

func (k *checker) redactPattern(field string, r RedactRule) {
	k.examples(field+".match", r.Match)
	k.examples(field+".no_match", r.NoMatch)
	if k.unusable(field + ".pattern") {
		return
	}
	re, err := regexp.Compile(r.Pattern)
	switch {
	case err != nil:
		k.problem(field+".pattern", "not a regular expression: "+err.Error(), "use RE2 syntax, without look-around and back-references")
		return
	case re.MatchString(""):
		k.problem(field+".pattern", "the pattern matches the empty string", "match at least one character of the secret")
		return
	}
	for i, text := range r.Match {
		if !re.MatchString(text) {
			k.problem(fieldIndex(field+".match", i), "the rule finds nothing in its example "+quote(text), "")
		}
	}
	for i, text := range r.NoMatch {
		if re.MatchString(text) {
			k.problem(fieldIndex(field+".no_match", i), "the rule finds a secret in its counterexample "+quote(text), "")
		}
	}
}
