package egress

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/internal/hostrule"
)

// What rules are about, by the names that they have here.
type (
	Host   = hostrule.Host
	Target = hostrule.Target
	Rule   = hostrule.Rule
)

// A policy decides which targets may be reached: those that are not denied and
// that match at least one rule of every allow list. The zero policy, and one
// without any list, allows nothing.
type policy struct {
	allow [][]Rule
	deny  []Rule
}

func newPolicy(allow [][]string, deny []string) (policy, error) {
	var p policy
	var errs []error
	for _, texts := range allow {
		list, err := parseRules(texts, hostrule.Parse)
		errs = append(errs, err)
		p.allow = append(p.allow, list)
	}
	list, err := parseRules(deny, hostrule.ParseDeny)
	p.deny = list
	return p, errors.Join(append(errs, err)...)
}

func parseRules(texts []string, parse func(string) (Rule, error)) ([]Rule, error) {
	var rules []Rule
	var errs []error
	for _, text := range texts {
		r, err := parse(text)
		rules, errs = append(rules, r), append(errs, err)
	}
	return rules, errors.Join(errs...)
}

// A verdict is the lists' decision about a target.
type verdict uint8

const (
	denied  verdict = iota
	unknown         // nothing denies it, and some list does not have it
	allowed
)

// decide holds t against the lists. The text is the rules that decided.
func (p policy) decide(t Target) (verdict, string) {
	if r, ok := p.denies(t); ok {
		return denied, r.String()
	}
	if len(p.allow) == 0 {
		return unknown, ""
	}
	var by []string
	covers := p.covers(t)
	for _, list := range p.allow {
		i := slices.IndexFunc(list, covers)
		if i < 0 {
			return unknown, ""
		}
		by = append(by, list[i].String())
	}
	return allowed, strings.Join(slices.Compact(by), ", ")
}

// covers says which rules are for t. A name that any list gives to a service is
// that service in every list: a rule for a host of the same name, which was meant
// for DNS, does not open it.
func (p policy) covers(t Target) func(Rule) bool {
	if service, ok := p.service(t); ok {
		return func(r Rule) bool { return r == service }
	}
	return func(r Rule) bool { return r.Matches(t) }
}

// service finds the rule that makes t a service of this machine.
func (p policy) service(t Target) (Rule, bool) {
	for _, list := range p.allow {
		for _, r := range list {
			if r.Service != (hostrule.Service{}) && r.Matches(t) {
				return r, true
			}
		}
	}
	return Rule{}, false
}

func (p policy) denies(t Target) (Rule, bool) {
	i := slices.IndexFunc(p.deny, func(r Rule) bool { return r.Denies(t) })
	if i < 0 {
		return Rule{}, false
	}
	return p.deny[i], true
}

// leads reports whether every list has a network that names may lead to and a is in.
func (p policy) leads(a netip.Addr) bool {
	for _, list := range p.allow {
		if !slices.ContainsFunc(list, func(r Rule) bool { return r.Net.IsValid() && r.Net.Contains(a) }) {
			return false
		}
	}
	return len(p.allow) > 0
}

// shown is how many rules of a list a refusal repeats.
const shown = 12

// describe tells what would be allowed, for the text of a refusal.
func (p policy) describe() string {
	var lists []string
	for _, list := range p.allow {
		var texts []string
		for _, r := range list[:min(len(list), shown)] {
			texts = append(texts, r.Target())
		}
		if len(list) > shown {
			texts = append(texts, "...")
		}
		if len(texts) == 0 {
			texts = []string{"nothing"}
		}
		lists = append(lists, strings.Join(texts, ", "))
	}
	if len(lists) == 0 {
		return "nothing"
	}
	return strings.Join(slices.Compact(lists), "; of these only: ")
}
