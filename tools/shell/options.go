package shell

import (
	"slices"
	"strings"
)

// A grammar is how a program reads its options, as getopt_long(3) would. Letters
// stand for short options and names between spaces for long ones. An option that
// is not listed is unknown, and so is an abbreviation: what it stands for may
// change with the version of the program.
type grammar struct {
	flags string // no value
	data  string // a value that is not a path
	paths string // a value that is a file to read
	// optional may have a value attached, as in -w5, and never as the next word.
	optional string

	long         string
	longData     string
	longPaths    string
	longOptional string // a value only after "="

	numbers bool // -5 is an option
	single  bool // long options begin with one dash
	// alone: short options are not clustered, and a word is known by how it begins,
	// as in xxd: -ps is no -p with -s behind it.
	alone bool
	// stop: the first operand ends the options.
	stop bool
	// lenient: no option of the program does harm, so a pattern that could
	// match a file named like one is an operand.
	lenient bool
}

// An option is one option of a command. Letter is set for a short one.
type option struct {
	name  string
	value word
	path  bool // the value is a file to read
	has   bool // there is a value
	apart bool // it is the next word
}

// A parsed command line is its options and operands.
type parsed struct {
	options  []option
	operands []word
	// dashes is set when "--" ended the options.
	dashes bool
}

func (p parsed) has(names ...string) bool {
	return slices.ContainsFunc(p.options, func(o option) bool { return slices.Contains(names, o.name) })
}

// parse reads words by the grammar. The reason is set if it cannot.
func (g *grammar) parse(words []word) (p parsed, reason string) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case w.fixed() && w.text == "--":
			p.operands = append(p.operands, words[i+1:]...)
			p.dashes = true
			return p, ""
		case !w.mayBeOption() || g.lenient && w.glob && w.prefix() == "" && !w.dynamic && !w.split:
			p.operands = append(p.operands, w)
			if g.stop {
				p.operands = append(p.operands, words[i+1:]...)
				return p, ""
			}
			continue
		}
		used, why := g.option(&p, words[i:])
		if why != "" {
			return p, why
		}
		i += used - 1
	}
	return p, ""
}

// option reads the option at the start of words, and gives how many words it
// takes.
func (g *grammar) option(p *parsed, words []word) (used int, reason string) {
	w := words[0]
	switch {
	case strings.HasPrefix(w.prefix(), "--") || g.single && len(w.prefix()) > 2:
		return g.longOption(p, words)
	case !w.fixed() && !g.attachedUnknown(w):
		return 0, "a word that could be an option is not known before it runs"
	case g.numbers && isDigits(w.text[1:]) && !strings.HasPrefix(w.text[1:], "-"):
		p.options = append(p.options, option{name: w.text})
		return 1, ""
	}
	return g.cluster(p, words)
}

// attachedUnknown reports whether only the attached value of an option is
// unknown, as in -n"$x".
func (g *grammar) attachedUnknown(w word) bool {
	p := w.prefix()
	return !w.split && !w.glob && len(p) >= 2 && strings.IndexByte(g.data, p[1]) >= 0
}

func (g *grammar) longOption(p *parsed, words []word) (int, string) {
	w := words[0]
	name, value, attached := strings.Cut(w.prefix(), "=")
	if !w.fixed() && (!attached || w.split || w.glob) {
		return 0, "a word that could be an option is not known before it runs"
	}
	bare := strings.TrimLeft(name, "-")
	o := option{name: name, has: attached, value: word{text: value, literal: len(value), dynamic: w.dynamic}}
	takesValue := hasField(g.longData, bare) || hasField(g.longPaths, bare)
	o.path = hasField(g.longPaths, bare)
	switch {
	case hasField(g.long, bare) && !attached, hasField(g.longOptional, bare):
	case takesValue && attached:
	case takesValue && len(words) > 1:
		o.value, o.has, o.apart = words[1], true, true
		p.options = append(p.options, o)
		return 2, valueKnown(o)
	default:
		return 0, "the option " + name + " is not known to be harmless"
	}
	p.options = append(p.options, o)
	return 1, ""
}

// valueKnown rejects a value that could be several words, of which the second
// would be an option.
func valueKnown(o option) string {
	if o.value.split || o.value.glob {
		return "the value of " + o.name + " could become several words"
	}
	return ""
}

// cluster reads a word of short options, of which the last may take a value.
func (g *grammar) cluster(p *parsed, words []word) (int, string) {
	text := words[0].prefix()
	if g.alone && len(text) > 2 && !isDigits(text[2:]) {
		return 0, "the option " + text + " is not known to be harmless"
	}
	for i := 1; i < len(text); i++ {
		c := text[i]
		o := option{name: "-" + string(c)}
		switch {
		case strings.IndexByte(g.flags, c) >= 0:
			p.options = append(p.options, o)
			continue
		case strings.IndexByte(g.optional, c) >= 0:
			o.value, o.has = fixedWord(text[i+1:]), i+1 < len(text)
			p.options = append(p.options, o)
			return 1, ""
		case strings.IndexByte(g.data, c) >= 0, strings.IndexByte(g.paths, c) >= 0:
			o.path = strings.IndexByte(g.paths, c) >= 0
			return g.shortValue(p, o, words, text[i+1:])
		}
		return 0, "the option " + o.name + " is not known to be harmless"
	}
	return 1, ""
}

func (g *grammar) shortValue(p *parsed, o option, words []word, attached string) (int, string) {
	used := 1
	switch {
	case attached != "" || words[0].dynamic:
		o.value = word{text: attached, literal: len(attached), dynamic: words[0].dynamic}
	case len(words) < 2:
		return 0, "the option " + o.name + " lacks its value"
	default:
		o.value, o.apart, used = words[1], true, 2
	}
	o.has = true
	p.options = append(p.options, o)
	return used, valueKnown(o)
}

// optionValue is the value of a word of the form --name=value, or the word.
func optionValue(w word) word {
	if _, v, ok := strings.Cut(w.text, "="); ok && w.fixed() && w.text[0] == '-' {
		return fixedWord(v)
	}
	return w
}
