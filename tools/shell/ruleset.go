package shell

import (
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/tools"
)

// A ruleSet is compiled rules in the order in which they are tried. It does not change.
type ruleSet struct {
	list []compiledRule
	// denies and others find the rules that deny, and those that ask or allow.
	denies, others index
	// bounds are the rules whose Bound can hold.
	bounds []int
	// denying gives the rules that deny alone.
	denying func() *ruleSet
}

// newRuleSet tries those rules of list that are chosen.
func newRuleSet(list []compiledRule, chosen func(*compiledRule) bool) *ruleSet {
	s := &ruleSet{list: list}
	for i := range list {
		r := &list[i]
		if r.Bound != nil && r.effect != tools.Deny {
			s.bounds = append(s.bounds, i)
		}
		if !chosen(r) {
			continue
		}
		if r.effect == tools.Deny {
			s.denies.all = append(s.denies.all, i)
			continue
		}
		s.others.all = append(s.others.all, i)
	}
	s.denies.byStem(list)
	s.others.build(list)
	s.denying = sync.OnceValue(func() *ruleSet {
		var denies []compiledRule
		for _, i := range s.denies.all {
			denies = append(denies, list[i])
		}
		return newRuleSet(denies, everyRule)
	})
	return s
}

func everyRule(*compiledRule) bool { return true }

// An index finds the rules that could match a command by its words. It leaves out
// only rules that these rule out: whether a rule that it gives matches is for the
// rule to say. What it gives are places in the list, in order.
type index struct {
	all   []int
	heads map[string]*branch // by the program of the pattern; nil gives all
	stems map[string][]int   // by how that begins, for rules that deny
}

// A branch is the rules whose patterns begin with the same words.
type branch struct {
	ends  []int // those that have no further words
	below []int // all of them
	next  map[string]*branch
}

func (x *index) build(list []compiledRule) {
	x.heads = map[string]*branch{}
	for _, i := range x.all {
		r := &list[i]
		b := grow(&x.heads, headOf(r.words[0]))
		b.below = append(b.below, i)
		for _, word := range r.words[1:] {
			b = grow(&b.next, word)
			b.below = append(b.below, i)
		}
		b.ends = append(b.ends, i)
	}
}

func (x *index) byStem(list []compiledRule) {
	x.stems = map[string][]int{}
	for _, i := range x.all {
		name := stem(list[i].words[0])
		x.stems[name] = append(x.stems[name], i)
	}
}

func grow(m *map[string]*branch, word string) *branch {
	if *m == nil {
		*m = map[string]*branch{}
	}
	b := (*m)[word]
	if b == nil {
		b = &branch{}
		(*m)[word] = b
	}
	return b
}

// headOf is what programMatch compares of a program that a pattern names: a name, or
// a path however it is spelled.
func headOf(name string) string {
	if strings.Contains(name, "/") {
		return path.Clean(name)
	}
	return name
}

// at adds the rules whose words may be those of the command that begins with words.
func (x *index) at(found []int, words []word) []int {
	name := words[0].text
	if !strings.Contains(name, "/") {
		return x.heads[name].along(found, words[1:])
	}
	clean := path.Clean(name)
	found = x.heads[clean].along(found, words[1:])
	return x.heads[path.Base(clean)].along(found, words[1:])
}

// along adds the rules that match may match, as far as it is known what the words are.
func (b *branch) along(found []int, words []word) []int {
	for ; b != nil; words = words[1:] {
		switch {
		case len(words) == 0:
			return append(found, b.ends...)
		case !words[0].fixed():
			return append(found, b.below...)
		}
		found = append(found, b.ends...)
		b = b.next[words[0].text]
	}
	return found
}

// inOrder leaves each place out but once.
func inOrder(found []int) []int {
	slices.Sort(found)
	return slices.Compact(found)
}

// opening finds the rules that ask or allow and of which matchViews may say more
// than no.
func (a *analysis) opening(found []int, cmd simpleCommand, views []view) []int {
	x := &a.p.rules.others
	if x.heads == nil || !cmd.words[0].fixed() {
		return x.all
	}
	name := cmd.words[0].text
	base := a.baseName(name)
	for _, v := range views {
		found = x.at(found, v.words)
		if base != name {
			found = x.heads[base].along(found, v.words[1:])
		}
	}
	return inOrder(found)
}

// denying finds the rules that deny and of which denies may say more than no.
func (a *analysis) denying(found []int, cmd simpleCommand) []int {
	x := &a.p.rules.denies
	if len(x.all) == 0 || x.stems == nil || !cmd.words[0].fixed() {
		return x.all
	}
	note := func(name string) { found = append(found, x.stems[stem(name)]...) }
	name := cmd.words[0].text
	note(name)
	for _, member := range relatives(path.Base(path.Clean(name))) { // sameEffect
		note(member)
	}
	for _, w := range cmd.words[1:] { // unread
		if w.fixed() {
			for _, piece := range appendPieces(nil, w.text) {
				note(piece.text)
			}
		}
	}
	return inOrder(found)
}

// stem is what the names by which a program is called begin with: that of pip3.12 is pip,
// that of docker-compose docker.
func stem(name string) string {
	base := path.Base(path.Clean(name))
	if i := strings.IndexAny(base, "0123456789.-"); i >= 0 {
		return base[:i]
	}
	return base
}

// relatives are the members of the families of a program, it itself included.
func relatives(base string) []string {
	var list []string
	for _, family := range known().families {
		if slices.ContainsFunc(family, func(m string) bool { program, _, _ := strings.Cut(m, "/"); return program == base }) {
			list = append(list, family...)
		}
	}
	return list
}
