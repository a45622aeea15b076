package shell

import (
	"slices"

	"github.com/sandgate/sandgate/tools"
)

// byTier gives the policy of each tier by itself. Where a tier says nothing it
// allows: it is there to be held against the others. Nothing is gained by the only
// tier there is, unless its rules cannot allow.
func (p *Policy) byTier(list []compiledRule) []*Policy {
	names, narrows := slices.Clone(p.closed), false
	for i := range list {
		narrows = narrows || list[i].Narrows
		if t := list[i].Tier; t != "" && !slices.Contains(names, t) {
			names = append(names, t)
		}
	}
	if len(names) < 2 && !narrows {
		return nil
	}
	var tiers []*Policy
	for _, name := range names {
		own := func(r *compiledRule) bool { return r.Tier == name }
		q := p.copied()
		q.rules, q.tiers, q.fallback = newRuleSet(list, own), nil, tools.Allow
		if slices.Contains(p.closed, name) {
			q.fallback = tools.Deny
		}
		q.guarded = slices.ContainsFunc(list, func(r compiledRule) bool { return own(&r) && r.effect < q.fallback })
		tiers = append(tiers, q)
	}
	return tiers
}

// copied is p to be changed.
func (p *Policy) copied() *Policy {
	q := *p
	q.tiers = nil
	for _, t := range p.tiers {
		q.tiers = append(q.tiers, t.copied())
	}
	return &q
}

// each changes p, and what it is of each tier.
func (p *Policy) each(change func(*Policy)) {
	change(p)
	for _, t := range p.tiers {
		change(t)
	}
}
