package shell

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/tools"
)

// guard says why words that a pattern leaves open, the last ones of a command, make it
// more than what a rule for it can mean: an option that no table lists, a word that
// names what is run, a sub-command that nobody knows.
func (a *analysis) guard(cmd simpleCommand, open int) string {
	base := a.baseName(cmd.words[0].text)
	like := likeness(base)
	all := cmd.words[1:]
	rest := all[len(all)-min(open, len(all)):]
	if reason := otherTask(path.Base(base), all[:len(all)-len(rest)], rest); reason != "" {
		return reason
	}
	switch {
	case wrapperFor(base) != nil || known().in("shells", base) && len(rest) == 0 && len(all) > 0:
		return "" // its options were read where it was looked through
	case known().coded[like] != "":
		return a.guardCode(like, all, len(rest))
	case base == "find":
		return parseFind(all).reason // what it runs is judged as a command of its own
	case strings.HasSuffix(like, "awk"):
		return a.guardScript("awk", all)
	case base == "sed" || base == "gsed":
		return a.guardScript(base, all)
	case base == "echo" || base == "printf": // they print whatever they are given
		return ""
	case !known().subs[base]:
		return a.guardOptions(base, base, all, rest)
	}
	name, words, reason := a.subcommand(base, all)
	switch {
	case reason != "":
		return reason
	case known().coded[name] != "":
		return a.guardCode(name, words, min(open, len(words)))
	case name != base && known().rules[name] == nil && open > len(words):
		return "no table describes what " + strings.Replace(name, "/", " ", 1) + " does"
	}
	return a.guardOptions(base, name, words, words[len(words)-min(open, len(words)):])
}

// guardScript holds a program whose script a rule cannot name against the options with
// which it only prints.
func (a *analysis) guardScript(name string, words []word) string {
	form := known().reads[name]
	p, reason := form.parse(words)
	if reason = cmp.Or(reason, form.holdScript(p)); reason != "" {
		reason = name + ": " + reason
	}
	return reason
}

// Caution says why a rule that allows covers less than its pattern seems to: it names a
// program that runs what other words say. "" if there is nothing to say.
func (r Rule) Caution() string {
	c, err := compileRule(0, r)
	if err != nil || c.effect != tools.Allow || r.Exact || r.ReadOnly {
		return ""
	}
	called := path.Base(c.words[0])
	name, words := likeness(called), c.words[1:]
	if known().subs[name] && len(words) > 0 {
		if sub := name + "/" + words[0]; known().coded[sub] != "" {
			name, called, words = sub, called+" "+words[0], words[1:]
		}
	}
	named := slices.ContainsFunc(words, func(w string) bool { return !strings.HasPrefix(w, "-") })
	switch kind := known().coded[name]; {
	case wrapperFor(name) != nil:
		return called + " runs another program, which needs its own rule"
	case kind == "script" && !named:
		return called + " runs the code that its other words name: the rule has no effect until its pattern names the script or module"
	case known().in("hosts", name) && !named:
		return called + " reaches any host: to allow one host, put its address into the pattern"
	case kind == "words":
		return called + " runs what its other words say: the rule allows only the words of its pattern"
	}
	return ""
}

// subcommand gives PROGRAM/NAME and the words after it. Options before it have to be
// ones that do not change what it does.
func (a *analysis) subcommand(base string, words []word) (name string, rest []word, reason string) {
	rest, harmless, ok := cmp.Or(known().globals[base], &globalGrammar{}).skip(a, words)
	switch {
	case !ok || !harmless:
		return "", nil, base + ": options before the sub-command that may change what it does"
	case len(rest) == 0:
		return base, nil, ""
	case !rest[0].fixed():
		return "", nil, base + ": the sub-command is not known before it runs"
	}
	return base + "/" + rest[0].text, rest[1:], ""
}

// guardCode wants the pattern to name what is run, and to leave no word open that could
// be code.
func (a *analysis) guardCode(name string, words []word, open int) string {
	covered, rest := words[:len(words)-open], words[len(words)-open:]
	operand := slices.IndexFunc(covered, func(w word) bool { return w.fixed() && !strings.HasPrefix(w.text, "-") })
	switch {
	case a.fed && known().coded[name] == "words" && (operand < 0 && !strings.Contains(name, "/") || !known().in("input-is-data", name)):
		return name + " may read commands from its input, which the rule does not name"
	case len(rest) == 1 && rest[0].fixed() && hasField("--version -V --help version", rest[0].text):
		return ""
	case len(rest) == 0 && (len(words) > 0 || strings.Contains(name, "/")): // all of it is named
		return ""
	case operand < 0:
		return strings.Replace(name, "/", " ", 1) + " runs code that the rule does not name"
	case known().coded[name] == "words":
		return name + " " + joinWords(rest) + ": any word of it may be code: name it in the rule"
	case operand > 0 && covered[operand-1].text == "-m": // python3 -m pytest ...
		module, after := covered[operand].text, words[operand+1:]
		return cmp.Or(otherTask(module, after[:len(after)-open], rest), a.guardOptions(module, module, after, rest))
	}
	return cmp.Or(otherTask(path.Base(covered[operand].text), covered[operand+1:], rest), plainWords(name, rest)) // python3 setup.py build
}

// guardOptions holds the open words of a command against the options that a table lists.
func (a *analysis) guardOptions(base, name string, words, rest []word) string {
	g := known().rules[name]
	if len(rest) == 0 {
		return ""
	}
	elsewhere := known().in("hosts", base) && len(operandsOf(cmp.Or(g, &grammar{}), words[:len(words)-len(rest)])) > 0
	if g == nil && elsewhere {
		return base + otherPlace
	} else if g == nil {
		return plainWords(base, rest)
	}
	if at := len(words) - len(rest) - 1; at >= 0 && words[at].mayBeOption() { // the first of rest may be its value
		rest = words[at:]
	}
	if known().inert[base] {
		rest = slices.Clone(rest)
		for i, w := range rest {
			if !w.fixed() {
				rest[i] = fixedWord("…")
			}
		}
	}
	form := known().reads[name]
	if form != nil {
		var reason string
		if rest, reason = a.takePairs(form, base, rest); reason != "" {
			return reason
		}
	}
	p, reason := g.parse(dashless(base, words, rest))
	switch {
	case reason != "":
		return base + ": " + reason
	case elsewhere && (len(p.operands) > 0 || slices.ContainsFunc(p.options, func(o option) bool { return o.has })):
		return base + otherPlace
	case p.hidesOption(name):
		return base + ": the word after an option could be an option: write it with =, or name it in the rule"
	case form != nil && form.operands == oneFile && len(operandsOf(g, words)) > 1:
		return base + " writes its second operand"
	case known().reads[name] == nil && slices.ContainsFunc(p.operands, word.mayBeOption):
		return base + " may read a word after -- as an option: name it in the rule"
	case known().carriers[base] != nil: // its operands are another program's words
		scoped := hasField("npm pnpm yarn bun", base)
		for _, w := range p.operands {
			if w.dynamic && !strings.Contains(w.prefix(), "/") || strings.HasPrefix(w.text, "-") || strings.Contains(w.text, "=") || strings.HasPrefix(w.text, "@") && !scoped {
				return base + " hands " + w.String() + " on to what it runs: name it in the rule"
			}
		}
	case known().reads[name] == nil && base != "git" && slices.ContainsFunc(p.operands, func(w word) bool { return strings.HasPrefix(w.text, "@") }):
		return base + " may read its options from a file that begins with @"
	case base == "git" && slices.ContainsFunc(rest, remoteHelper):
		return "git: a remote helper runs a program"
	case known().in("git-remotes", name) && len(p.operands) > 0 && !remote(name, p.operands[0]):
		if named, _ := g.parse(words[:len(words)-len(rest)]); len(named.operands) == 0 {
			return "git: the other repository may be a directory, whose hooks run here: name it in the rule"
		}
	}
	return ""
}

const otherPlace = ": the rule names a destination, so it covers only that destination and only the data that it names"

// hidesOption reports whether what was taken for an option's value could be an option: a
// table that is wrong about who takes a value must not hide one behind another.
func (p parsed) hidesOption(name string) bool {
	return slices.ContainsFunc(p.options, func(o option) bool {
		number := o.value.fixed() && len(o.value.text) > 0 && isDigits(o.value.text[1:])
		return o.apart && o.value.mayBeOption() && !number && (o.value.fixed() || !known().in("takes-next", name+":"+o.name))
	})
}

// remote reports whether git surely takes w for a repository that is not a directory a
// hostile workspace brings along. Git takes a name for one where no remote is called so;
// origin is what a clone calls where it is from.
func remote(name string, w word) bool {
	scheme, _, url := strings.Cut(w.text, "://")
	host, _, scp := strings.Cut(w.text, ":")
	return w.fixed() && (url && hasField("https http ssh git", scheme) || !url && scp && !strings.Contains(host, "/") || w.text == "origin" && name != "git/clone")
}

// operandsOf are the operands of all words; more than there are if that is not known.
func operandsOf(g *grammar, words []word) []word {
	p, reason := g.parse(words)
	if reason != "" || slices.ContainsFunc(p.operands, func(w word) bool { return w.split || w.glob }) {
		return words[:min(2, len(words)):len(words)]
	}
	return p.operands
}

func remoteHelper(w word) bool {
	return strings.Contains(w.text, "::") && !strings.HasPrefix(w.text, "-") || strings.HasPrefix(w.text, "ext:")
}

// dashless reads the first word of tar as tar does, as letters without a dash.
func dashless(base string, words, rest []word) []word {
	if (base != "tar" && base != "bsdtar") || len(rest) != len(words) || !rest[0].fixed() || rest[0].text == "" || rest[0].text[0] == '-' {
		return rest
	}
	letters := "-" + strings.Map(func(r rune) rune { // its values are words of their own
		if strings.ContainsRune(known().rules["tar"].data, r) {
			return -1
		}
		return r
	}, rest[0].text)
	return slices.Concat([]word{fixedWord(letters)}, rest[1:])
}

// plainWords accepts words of a program whose options no table lists: operands that are
// known, and do not look like more.
func plainWords(name string, rest []word) string {
	for _, w := range rest {
		switch {
		case w.stream:
		case !w.fixed():
			return name + ": a word that is not known before it runs"
		case w.text != "-" && strings.ContainsAny(w.text[:min(1, len(w.text))], "-+@") || strings.Contains(w.text, "="):
			return name + " " + w.text + " is not known to be harmless: name it in the rule"
		}
	}
	return ""
}

// opaque says what in a command could run things that rules do not see.
func (a *analysis) opaque(cmd simpleCommand) string {
	if strings.Contains(a.baseName(cmd.words[0].text), "/") {
		return "runs a program of the workspace, whose commands the rules cannot see"
	}
	return a.guard(cmd, len(cmd.words)-1)
}

// otherTask says which operand of a program, each of which is a task that it does, is one
// that a rule for others of its tasks does not name. A rule for the program alone names all
// of them, or those that a table knows.
func otherTask(base string, named, rest []word) string {
	first := 0 // the words of a rule that are no task
	if known().in("tasks-behind", base) {
		first = 1
	} else if !known().in("tasks", base) {
		return ""
	}
	operands := slices.DeleteFunc(slices.Clone(rest), func(w word) bool { return w.fixed() && w.mayBeOption() })
	if g := known().rules[base]; g != nil {
		if p, reason := g.parse(rest); reason == "" {
			operands = p.operands
		}
	}
	if len(named) < first {
		operands = operands[min(first-len(named), len(operands)):]
	}
	for _, w := range operands {
		task := func(n word) bool { return n.fixed() && n.text == w.text }
		switch {
		case !w.fixed():
			return base + ": a word that is not known before it runs"
		case isDigits(w.text), slices.ContainsFunc(named, task): // make -j 4
		case len(named) > first, known().subs[base] && known().rules[base+"/"+w.text] == nil:
			return base + ": the task " + w.text + " is not in the rule"
		}
	}
	return ""
}
