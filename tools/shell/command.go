package shell

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandgate/sandgate/tools"
)

// A simpleCommand is one program or built-in with its words.
type simpleCommand struct {
	words []word
	env   bool // it is given a variable that may change what it does
	// free is set for what needs no rule of its own: a wrapper whose command is
	// judged in its place. Rules that ask or deny still speak about it.
	free bool
}

func (c simpleCommand) text() string { return joinWords(c.words) }

// known is the words of the command, or nil if one of them is not known yet.
func (c simpleCommand) known() []string {
	words := make([]string, len(c.words))
	for i, w := range c.words {
		if !w.fixed() || w.tilde {
			return nil
		}
		words[i] = w.text
	}
	return words
}

// call walks a simple command of the script.
func (a *analysis) call(c *syntax.CallExpr) {
	var cmd simpleCommand
	for _, as := range c.Assigns {
		cmd.env = a.assignment(as) || cmd.env
	}
	if len(c.Args) == 0 {
		return
	}
	cmd.words = a.words(c.Args)
	a.simple(cmd)
}

// simple judges a simple command, whoever gives it: the script or a wrapper.
func (a *analysis) simple(cmd simpleCommand) {
	if len(cmd.words) == 0 || !a.step() || !a.charge(workOf(cmd.words)) {
		return
	}
	cmd.env = cmd.env || a.env
	name := cmd.words[0]
	if !name.fixed() || name.text == "" {
		a.unnamed(cmd)
		return
	}
	a.noteStarts(cmd)
	base := a.baseName(name.text)
	if b := builtin(name.text); b != nil && b(a, cmd) {
		return
	}
	if w := wrapperFor(base); w != nil {
		a.wrapped(w, cmd)
		return
	}
	if known().in("shells", base) {
		a.shell(base, cmd)
		return
	}
	if like := likeness(base); wrapperFor(like) != nil || known().in("shells", like) {
		a.doubtful(cmd, base+" may be a "+like+", which runs other programs")
		a.guessScript(cmd.words)
		return
	}
	if base == "find" {
		a.findCommands(cmd)
	}
	if known().in("special-builtins", name.text) {
		a.ask(name.text+" changes what later commands mean, or runs commands that are not on the command line", "write the command itself")
	}
	a.judge(cmd)
}

// unnamed judges a command whose name is computed. It could be anything that a
// rule speaks about.
func (a *analysis) unnamed(cmd simpleCommand) {
	a.bound(a.p.rules.bounds, func(*compiledRule) bool { return true })
	a.unsure("the name of a command is not known before it runs")
	a.ask("the name of the command is not known before it runs: "+cmd.text(), "write the name literally")
}

// judge lets the rules speak about a simple command.
func (a *analysis) judge(cmd simpleCommand) {
	views := a.views(cmd)
	part := a.verdict(cmd, views)
	part.Text, part.Words, part.readings = cmd.text(), cmd.known(), readings(views)
	part.reads, part.protocols = a.noteClass(cmd), protocols(views)
	if a.explain != nil {
		a.consider(cmd, part)
	}
	a.add(part)
}

// verdict is the strictest of what all rules together say, and those of each tier. Of two
// that are as strict it is the one of a rule: what only the default asks about may yet run.
func (a *analysis) verdict(cmd simpleCommand, views []view) Part {
	all := a.p
	defer func() { a.p = all }()
	part := a.ruling(cmd, views)
	for _, tier := range all.tiers {
		a.p = tier
		if q := a.ruling(cmd, views); q.Effect < part.Effect || q.Effect == part.Effect && q.Effect < tools.Allow && part.RuleIndex < 0 && q.RuleIndex >= 0 {
			part = q
		}
	}
	return part
}

// ruling finds the rule that decides: any that denies, else the first that
// matches, else the default.
func (a *analysis) ruling(cmd simpleCommand, views []view) Part {
	var some [16]int
	open := a.opening(some[:0], cmd, views)
	a.bound(open, func(r *compiledRule) bool { v, _ := a.matchViews(r, views); return v != no })
	part, decided := a.denied(cmd, views)
	if decided {
		return part
	}
	return a.stricter(part, a.firstMatch(open, cmd, views))
}

// bound notes those of the rules with a bound that match. All of a command line
// runs in one sandbox, so each holds for the whole of it.
func (a *analysis) bound(rules []int, matches func(*compiledRule) bool) {
	for _, i := range rules {
		r := &a.p.rules.list[i]
		if r.Bound != nil && !slices.Contains(a.bounds, i) && matches(r) {
			a.bounds = append(a.bounds, i)
		}
	}
}

func (a *analysis) stricter(p, q Part) Part {
	if p.Reason != "" && p.Effect <= q.Effect {
		return p
	}
	return q
}

// denied finds a rule that denies the command. What only may be meant by such a
// rule, or does the same as what it denies, is asked about.
func (a *analysis) denied(cmd simpleCommand, views []view) (Part, bool) {
	var doubt Part
	var some [16]int
	unread := sync.OnceValue(func() []word { return a.unread(cmd) })
	for _, i := range a.denying(some[:0], cmd) {
		r := &a.p.rules.list[i]
		v, why := a.denies(r, cmd, views, unread)
		if v == yes {
			return rulePart(r, tools.Deny, cmp.Or(r.Reason, fmt.Sprintf("%q is not allowed here", r.Pattern))), true
		}
		if v == perhaps && doubt.Reason == "" {
			doubt = rulePart(r, min(tools.Ask, a.p.fallback), why)
		}
	}
	return doubt, false
}

func rulePart(r *compiledRule, e tools.Effect, reason string) Part {
	return Part{Effect: e, Rule: r.Pattern, RuleName: r.Name, RuleIndex: r.index, Reason: reason, roots: r.SandboxPaths}
}

// firstMatch finds the first that matches, of the answers and of the rules, which ask
// or allow.
func (a *analysis) firstMatch(rules []int, cmd simpleCommand, views []view) Part {
	why := ""
	for i := range a.p.answers {
		if part, decided := a.applies(&a.p.answers[i], cmd, views, &why); decided {
			return part
		}
	}
	for _, i := range rules {
		if part, decided := a.applies(&a.p.rules.list[i], cmd, views, &why); decided {
			return part
		}
	}
	return a.byDefault(cmd, why)
}

// applies reports whether a rule that asks or allows decides, and notes what keeps one
// that allows from it.
func (a *analysis) applies(r *compiledRule, cmd simpleCommand, views []view, why *string) (Part, bool) {
	v, rest := a.matchViews(r, views)
	if v == no {
		return Part{}, false
	}
	if r.effect == tools.Ask {
		return rulePart(r, tools.Ask, cmp.Or(r.Reason, fmt.Sprintf("the rule %q asks first", r.Pattern))), a.outsideRoots(r, cmd) == ""
	}
	if reason := a.unfit(r, v, cmd, rest); reason != "" {
		*why = reason
		return Part{}, false
	}
	part, base := rulePart(r, tools.Allow, ""), a.baseName(cmd.words[0].text)
	form := known().reads[base]
	part.tabled = len(rest) > 0 && (r.ReadOnly || form != nil && form.pure != nil) && !known().in("sure", base) && (base != "find" || !onlyTests(cmd.words[1:]))
	return part, true
}

// byDefault judges what no rule matches; why says what kept one from it.
func (a *analysis) byDefault(cmd simpleCommand, why string) Part {
	p := Part{Effect: a.p.fallback, Rule: ruleDefault, RuleIndex: -1}
	switch {
	case cmd.free:
		p.Effect, p.free = tools.Allow, true
	case p.Effect == tools.Allow && a.p.guarded:
		if p.Reason = a.opaque(cmd); p.Reason != "" {
			p.Effect = tools.Ask
		}
	case p.Effect < tools.Allow:
		p.Reason = cmp.Or(why, fmt.Sprintf("no rule allows %q", cmd.words[0]))
	}
	return p
}

// unfit says why a rule that allows does not reach this command, although the
// words match. rest are the words that the pattern leaves open.
func (a *analysis) unfit(r *compiledRule, v verdict, cmd simpleCommand, rest []word) string {
	switch {
	case v != yes:
		return "a word of the command is not known before it runs"
	case cmd.env:
		return "a variable is set that may change what the command does"
	}
	if reason := a.outsideRoots(r, cmd); reason != "" {
		return reason
	}
	base := a.baseName(cmd.words[0].text)
	if a.dirs.moved(a.p.origin) && known().in("repositories", base) {
		return base + " acts on the configuration of the directory it is in, and the command changes directory"
	}
	if r.ReadOnly {
		return a.notReadOnly(cmd)
	}
	if reason := a.elsewhere(cmd, base, rest); reason != "" {
		return reason
	}
	return a.guard(cmd, len(rest))
}

// elsewhere says why a rule that allows what a project says does not speak about other
// files: those in a directory that calls write to without a question, and for code that the
// rule names, those of the same name in another directory. Programs that take data run no file.
func (a *analysis) elsewhere(cmd simpleCommand, base string, open []word) string {
	if like := likeness(base); a.dirs.moved(a.p.origin) && (known().in("shells", base) || known().coded[like] != "" || known().interps[like] != nil) {
		return base + " runs the files of the directory it is in, and the command changes directory"
	}
	if known().reads[base] != nil || known().inert[base] || known().in("sure", base) || known().in("brings-nothing", base) {
		return ""
	}
	if a.dirs.anywhere {
		return "the directory in which it runs is not known"
	}
	ofOthers := func(dir string) bool { return known().in("others-code", dir) }
	for _, dir := range a.dirs.known {
		within := strings.TrimPrefix(dir, a.p.origin) + strings.TrimPrefix(a.p.files.Real(dir), a.p.origin)
		switch {
		case a.p.files.Free(".", dir):
			return "it runs in a directory that calls may write without asking"
		case dir != a.p.origin && slices.ContainsFunc(strings.Split(within, "/"), ofOthers):
			return "it runs in a directory with other people's code"
		}
		for i, w := range open {
			if a.astray(cmd, len(open)-i, func(name string) bool { return name != "" && a.p.files.Free(name, dir) }) {
				return fmt.Sprintf("%s is or may be in a directory that calls may write without asking", w)
			}
		}
	}
	return ""
}

// astray reports whether a word, counted from the end, may name a free file. A word that is not
// known may, where it is not surely data, or stands behind a fixed beginning that is.
func (a *analysis) astray(cmd simpleCommand, fromEnd int, free func(name string) bool) bool {
	at := max(1, len(cmd.words)-fromEnd)
	w, option, value := cmd.words[at], cmd.words[at-1].text, cmd.words[at].prefix()
	if name, attached, ok := strings.Cut(value, "="); strings.HasPrefix(value, "-") && ok {
		option, value = name, attached
	} else if strings.HasPrefix(value, "-") {
		option, value = value[:min(2, len(value))], value[min(2, len(value)):]
	}
	if _, reason := a.pathOf(w); reason != "" {
		base := a.baseName(cmd.words[0].text)
		sub, _, _ := a.subcommand(base, cmd.words[1:])
		pattern := w.glob && !w.dynamic && !w.split
		dir, leaves := globDir(w, w.text)
		surelyData := known().in("takes-next", base+":"+option) || known().in("takes-next", sub+":"+option)
		return !surelyData && (w.tilde || !pattern && (a.fed || value == "") || pattern && (leaves != "" || path.IsAbs(value) || free(dir)))
	}
	return free(w.text) || free(value) || free(w.text[max(0, strings.IndexByte(w.text, '/')):])
}

// outsideRoots says which word names a path outside the roots that the rule is limited
// to. The directory that the call starts in is no path that the line names; one that the
// line changes to is.
func (a *analysis) outsideRoots(r *compiledRule, cmd simpleCommand) string {
	if len(r.SandboxPaths) == 0 {
		return ""
	}
	elsewhere := func(dir string) bool { return !a.p.files.Within(".", dir, r.SandboxPaths) }
	if a.dirs.moved(a.p.files.Start()) && (a.dirs.anywhere || slices.ContainsFunc(a.dirs.known, elsewhere)) {
		return fmt.Sprintf("the line changes to a directory outside %v, the paths of the rule %q", r.SandboxPaths, r.Pattern)
	}
	for _, w := range cmd.words[1:] {
		if why := a.leaves(w, r.SandboxPaths); why != "" {
			return fmt.Sprintf("%s %s %v, the paths of the rule %q", w, why, r.SandboxPaths, r.Pattern)
		}
	}
	return ""
}

// leaves says how a word leaves the roots, "" if it does not. Every word may name a path,
// and is taken for one, except an option: that names one in what follows its "=". Of other
// options only -x and --words are certain to name none; in -xfile the file may stand for
// itself.
func (a *analysis) leaves(w word, roots []string) string {
	option := w.fixed() && strings.HasPrefix(w.text, "-") && len(w.text) > 1
	switch value := optionValue(w); {
	case !option, strings.Contains(w.text, "="):
		if !a.within(value, roots) {
			return "is not in"
		}
	case strings.ContainsAny(w.text, "/~"):
		return "may name a path outside of"
	case len(w.text) > 2 && w.text[1] != '-' && !a.within(fixedWord("."), roots):
		return "may name a file of the working directory, which is not in"
	}
	return ""
}

func (a *analysis) within(w word, roots []string) bool {
	if w.stream {
		return true
	}
	name, reason := a.pathOf(w)
	if reason != "" || a.dirs.anywhere && !strings.HasPrefix(name, "/") {
		return false
	}
	dirs := a.knownDirs(name)
	return len(dirs) > 0 && !slices.ContainsFunc(dirs, func(dir string) bool { return !a.p.files.Within(name, dir, roots) })
}

// baseName is the program's name without the directory, if that is a trusted
// one or the name has none.
func (a *analysis) baseName(name string) string {
	if !strings.Contains(name, "/") {
		return name
	}
	if base, ok := a.p.programs.Identify(name, a.dirs.one()); ok {
		return base
	}
	return name
}
