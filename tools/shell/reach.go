package shell

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// reach is a command line as patterns see it. Each simple command is an element
// in every spelling that a rule would know it by, so that a deny finds it. An
// allow is held against the line like a rule of the configuration: the same
// analysis, with the patterns as rules that allow, has the last word, and what it
// does not let a rule allow (an option that runs a program, a variable that
// changes one, a redirection to a file) no pattern allows either.
func (t *Tool) reach(p *Policy, command, dir string, d Decision) approval.Reach {
	same, inside := forms(command, d.Parts, p.files.Start())
	r := approval.Reach{
		NotWhole: "the tool runs any program",
		Tools:    []string{"shell", "run"}, // each of them starts what the other would
		Same:     same,
		Inside:   inside,
		Elements: elements(d.Parts),
		Left: func(patterns []approval.Pattern) int {
			return asks(t.readsAsked(p.with(patterns).Decide(command, "bash"), dir))
		},
		Offers: func() []approval.Pattern { return offers(d.Parts) },
	}
	if len(command) > maxReach {
		r.Left, r.Offers = func([]approval.Pattern) int { return maxSteps + 1 }, nil
	}
	return r
}

// forms are a line in the words by which a denial of it is known, and whatever stands in it in
// the words by which that would be: each command, and each few side by side. Neither what does
// nothing nor how they are joined makes it another line.
func forms(command string, parts []Part, dir string) (same string, inside []string) {
	const most = 8 // side by side
	same = command + "\x00" + dir
	var texts []string
	for _, p := range parts {
		switch text := tools.QuoteCommand(p.Words); {
		case p.Text == "": // not all of it is understood
			return same, nil
		case text == "true" || text == ":":
		default:
			texts = append(texts, cmp.Or(text, p.Text))
		}
	}
	for i := range texts {
		for n := i + 1; n <= min(len(texts), i+most); n++ {
			inside = append(inside, strings.Join(texts[i:n], "\n")+"\x00"+dir)
		}
	}
	if len(texts) == 0 || strings.Contains(command, "=") && literalWords(command) == nil { // with a variable set it is another
		return same, inside
	}
	return strings.Join(texts, "\n") + "\x00" + dir, append(inside, same)
}

// Reach is what a program touches that is started without a shell, for patterns:
// that of the same words on a command line, of which rules only deny. A pattern
// that would not allow the line does not allow the program.
func (t *Tool) Reach(argv []string, dir string) approval.Reach {
	p := t.Policy().denying().In(dir)
	command := tools.QuoteCommand(argv)
	return t.reach(p, command, dir, p.Decide(command, "bash"))
}

// Ruled holds a program that is started without a shell against the rules, as the same words on a
// command line: its error is what denies them, a rule or the default. What rules allow of a line is not
// asked here, nor where it may redirect to: that is the sandbox's to say.
func (t *Tool) Ruled(argv []string, dir string) (bounds []sandboxprofile.Profile, review bool, err error) {
	p := t.Policy().In(dir)
	d := p.Decide(tools.QuoteCommand(argv), "bash")
	if d := decide(slices.DeleteFunc(slices.Clone(d.Parts), func(q Part) bool { return q.RuleIndex < 0 && q.Rule == rulePaths })); d.Effect == tools.Deny {
		return nil, false, t.blocked(d)
	}
	return p.bounds(d), p.reviewed(d), nil
}

// denying is the policy that asks about everything that no rule denies.
func (p *Policy) denying() *Policy {
	denies := p.rules.denying()
	q := p.copied()
	q.rules, q.tiers, q.answers, q.fallback, q.guarded = denies, nil, nil, tools.Ask, len(denies.list) > 0
	return q
}

// maxReach is the longest command, in bytes, that patterns may allow. A session
// keeps its latest commands for what a pattern would have matched.
const maxReach = 4 << 10

// asks counts what a person would be asked about. What is denied no answer
// allows, so it counts as more than there can be.
func asks(d Decision) int {
	if d.Effect == tools.Deny {
		return maxSteps + 1
	}
	n := 0
	for _, p := range d.Parts {
		if p.Effect == tools.Ask {
			n++
		}
	}
	return max(n, int(tools.Allow-d.Effect)) // what asks about the line is no part of it
}

// with is the policy under which patterns allow what they match. They come before
// the rules that ask, since they are the answer to those; rules that deny, and the
// doubts that such rules raise, come before any that allows.
func (p *Policy) with(patterns []approval.Pattern) *Policy {
	if len(patterns) == 0 {
		return p
	}
	var answers []compiledRule
	for _, a := range patterns {
		if a.Kind == approval.ArgvPrefix {
			answers = append(answers, compiledRule{
				Rule: Rule{Pattern: a.Value}, index: -1, effect: tools.Allow, words: strings.Split(a.Value, " "),
			})
		}
	}
	answered := p.copied()
	answered.each(func(q *Policy) { q.answers = answers })
	return answered
}

func elements(parts []Part) []approval.Element {
	var list []approval.Element
	for _, p := range parts {
		for _, words := range p.readings {
			list = append(list, approval.Element{Kind: approval.ArgvPrefix, Words: words})
		}
	}
	return list
}

// maxOffers bounds how many commands of a line get an offer of their own.
const maxOffers = 5

// offers are, for each command that is asked about, the shortest beginning that
// may be remembered, and the whole command.
func offers(parts []Part) []approval.Pattern {
	var list []approval.Pattern
	n := 0
	for _, p := range parts {
		if p.Effect != tools.Ask || len(p.readings) == 0 || n == maxOffers {
			continue
		}
		n++
		words := p.readings[0]
		for _, prefix := range [][]string{approval.NarrowPrefix(words), words} {
			a := approval.Pattern{Kind: approval.ArgvPrefix, Value: strings.Join(prefix, " ")}
			if len(prefix) > 0 && !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	return list
}

// readings are the words of a command that are known, as they stand and in every
// other way in which a rule would read them: without options before the
// sub-command, and without the directory of the program.
func readings(views []view) [][]string {
	var list [][]string
	for _, v := range views {
		var words []string
		for i := 0; i < len(v.words) && v.words[i].fixed(); i++ {
			words = append(words, v.words[i].text)
		}
		if len(words) == 0 {
			continue
		}
		list = append(list, words)
		if base := path.Base(words[0]); base != words[0] {
			list = append(list, slices.Concat([]string{base}, words[1:]))
		}
	}
	return list
}
