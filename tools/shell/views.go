package shell

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/tools"
)

// A view is one way to read the words of a command when rules are matched: as
// they stand, or without the options before a sub-command, which a rule for
// "git push" does not spell.
type view struct {
	words []word
	// loose views leave out what changes the meaning of the rest. They are for
	// rules that ask or deny.
	loose bool
}

func (a *analysis) views(cmd simpleCommand) []view {
	views := []view{{words: cmd.words}}
	globals, ok := known().globals[a.anyBase(cmd.words[0])]
	if !ok || len(cmd.words) < 2 || !cmd.words[1].mayBeOption() {
		return views
	}
	rest, harmless, ok := globals.skip(a, cmd.words[1:])
	if !ok {
		return views
	}
	stripped := append([]word{cmd.words[0]}, rest...)
	return append(views, view{words: stripped, loose: !harmless})
}

// anyBase is the last component of a program's name, trusted or not.
func (a *analysis) anyBase(w word) string { return path.Base(path.Clean(w.text)) }

// matchViews gives the best match of a rule, and the words that its pattern
// leaves open.
func (a *analysis) matchViews(r *compiledRule, views []view) (best verdict, rest []word) {
	for _, v := range views {
		if v.loose && r.effect == tools.Allow {
			continue
		}
		m := r.match(a.programMatch(r, v.words[0]), v.words)
		if m > best {
			best, rest = m, v.words[min(len(r.words), len(v.words)):]
		}
	}
	return best, rest
}

// denies says whether a rule that denies speaks about the command: surely, or
// perhaps with the reason for the doubt. unread are those of its words that nobody reads.
func (a *analysis) denies(r *compiledRule, cmd simpleCommand, views []view, unread func() []word) (verdict, string) {
	v, _ := a.matchViews(r, views)
	if v == yes {
		return yes, ""
	}
	named := a.programMatch(r, cmd.words[0]) == yes
	if named {
		v = max(v, a.deniesReordered(r, views))
	}
	switch {
	case v != no:
	case named && otherSubcommand(r, views), !named && a.calls(r, cmd.words):
		return perhaps, fmt.Sprintf("may be another name for what the rule %q denies, or may do the same", r.Pattern)
	case !named && sameEffect(r.words, a.anyBase(cmd.words[0]), cmd.words):
		return perhaps, fmt.Sprintf("does what the rule %q denies, in another way", r.Pattern)
	default:
		words := unread()
		for i := range words {
			if a.calls(r, words[i:]) {
				return perhaps, fmt.Sprintf("%s may run what the rule %q denies", cmd.words[0], r.Pattern)
			}
		}
	}
	return v, fmt.Sprintf("may be what the rule %q denies", r.Pattern)
}

// otherSubcommand reports whether a command may have, for the sub-command that a pattern
// names, another name: one of the table, the beginning of it, one that a configuration
// gives, or a word before it that no table knows, such as a group of sub-commands.
func otherSubcommand(r *compiledRule, views []view) bool {
	if len(r.words) < 2 || r.words[1] == "" || r.words[1][0] == '-' {
		return false
	}
	program, want := path.Base(r.words[0]), r.words[1]
	return slices.ContainsFunc(views, func(v view) bool {
		if len(v.words) < 2 || !v.words[1].fixed() || v.words[1].text == "" || v.words[1].text[0] == '-' {
			return false
		}
		have := v.words[1].text
		name := program + "/" + have
		unknown := known().rules[name] == nil && known().coded[name] == ""
		switch {
		case have == want:
			return false
		case slices.ContainsFunc(known().same, func(same []string) bool {
			return slices.Contains(same, name) && slices.Contains(same, program+"/"+want)
		}):
			return true
		case strings.HasPrefix(want, have) && (unknown || len(have) < 3): // even cargo t
			return true
		}
		return unknown && (known().in("aliases", program) || slices.ContainsFunc(v.words[2:], func(w word) bool { return matchWord(want, w) != no }))
	})
}

// calls reports whether words may be a command that a rule denies: they begin with the name
// of its program, of a version of it, or of it and its sub-command in one.
func (a *analysis) calls(r *compiledRule, words []word) bool {
	name, base := path.Base(r.words[0]), a.anyBase(words[0])
	long, short := base, name
	if len(long) < len(short) {
		long, short = short, long
	}
	suffix, begins := strings.CutPrefix(long, short)
	switch {
	case begins && (strings.Trim(suffix, "0123456789.-") == "" || base == long && suffix[0] == '.'):
		words = append([]word{fixedWord(r.words[0])}, words[1:]...)
	case len(r.words) > 1 && base == name+"-"+r.words[1]:
		words = append([]word{fixedWord(r.words[0]), fixedWord(r.words[1])}, words[1:]...)
	case len(words) > 1 && name == base+"-"+words[1].text:
		words = append([]word{fixedWord(r.words[0])}, words[2:]...)
	default:
		return false
	}
	views := a.views(simpleCommand{words: words})
	v, _ := a.matchViews(r, views)
	return v != no || a.deniesReordered(r, views) != no || otherSubcommand(r, views)
}

// unread gives the words, and what stands in them, of a command of which no table says what
// it does with all of them: they may be what it runs, whatever tables say of programs of
// its name or of its options.
func (a *analysis) unread(cmd simpleCommand) []word {
	if tabled(a.baseName(cmd.words[0].text)) && a.opaque(cmd) == "" {
		return nil
	}
	var list []word
	for _, w := range cmd.words[1:] {
		if w.fixed() {
			list = appendPieces(list, w.text)
		}
	}
	return list
}

// appendPieces adds the parts of a word that may be words of a command, in their order.
func appendPieces(list []word, text string) []word {
	for _, piece := range strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune("'\"`;|&()<>{}[]=,$!@", r) }) {
		list = append(list, fixedWord(piece))
		if len(piece) > 2 && piece[0] == '-' && piece[1] != '-' { // -mpip, -Impip
			list = append(list, fixedWord(piece[2:]))
			if _, module, ok := strings.Cut(piece[2:], "m"); ok && module != "" {
				list = append(list, fixedWord(module))
			}
		}
	}
	return list
}

// tabled reports whether it is known what a program does with its words.
func tabled(base string) bool {
	return known().about(likeness(base)) || known().in("shells", base) || known().in("special-builtins", base) || builtin(base) != nil
}

// deniesReordered compares a pattern that holds options with a command that
// spells them otherwise: "rm -rf" denies "rm -f -r" too, and long options, whose
// meaning is not looked up, raise a doubt. So does an option before the
// sub-command, which could take the next word as its value.
func (a *analysis) deniesReordered(r *compiledRule, views []view) verdict {
	want := splitOptions(r.words[1:])
	best := no
	for _, v := range views {
		switch {
		case r.Exact:
		case want.letters != "" || want.long != nil:
			best = max(best, want.in(v.words[1:]))
		case len(want.names) > 0 && hiddenSubcommand(want.names[0], v.words[1:]):
			best = max(best, perhaps)
		}
	}
	return best
}

// patternOptions is a pattern after its program, in parts.
type patternOptions struct {
	letters string   // of short options
	long    []string // long options
	names   []string // everything else
}

func splitOptions(words []string) (o patternOptions) {
	for _, w := range words {
		switch {
		case strings.HasPrefix(w, "--"):
			o.long = append(o.long, w)
		case len(w) > 1 && w[0] == '-':
			o.letters += w[1:]
		default:
			o.names = append(o.names, w)
		}
	}
	return o
}

// in reports whether the words hold all the options, wherever they stand, and
// the names in order. An option that is spelled with another dash, or not known,
// leaves a doubt.
func (o patternOptions) in(words []word) verdict {
	letters, long, names := "", map[string]bool{}, o.names
	doubt := false
	for _, w := range words {
		switch {
		case !w.fixed():
			doubt = doubt || w.mayBeOption()
		case strings.HasPrefix(w.text, "--"):
			name, _, _ := strings.Cut(w.text, "=")
			long[name] = true
		case strings.HasPrefix(w.text, "-"):
			letters += w.text[1:]
		}
		if len(names) > 0 && matchWord(names[0], w) == yes {
			names = names[1:]
		}
	}
	found := strings.Trim(strings.ToLower(o.letters), strings.ToLower(letters)) == "" // "rm -R" is "rm -r"
	for _, l := range o.long {
		found = found && long[l]
		doubt = doubt || strings.Contains(letters, l[2:3])
	}
	switch {
	case len(names) > 0:
		return no
	case found:
		return yes
	case doubt || len(long) > 0:
		return perhaps
	}
	return no
}

// hiddenSubcommand reports whether name stands where an option before it makes
// it unclear what is the sub-command.
func hiddenSubcommand(name string, words []word) bool {
	for i, w := range words {
		if !w.mayBeOption() {
			break
		}
		for _, next := range words[i+1 : min(i+3, len(words))] {
			if matchWord(name, next) != no {
				return true
			}
		}
	}
	return false
}

// sameEffect reports whether a command is of the family of the program that a
// pattern denies. Only a pattern of the program alone, or with options, names
// the family.
func sameEffect(pattern []string, base string, words []word) bool {
	if len(splitOptions(pattern[1:]).names) > 0 {
		return false
	}
	return slices.ContainsFunc(known().families, func(family []string) bool {
		return slices.Contains(family, pattern[0]) && slices.ContainsFunc(family, func(member string) bool {
			program, arg, two := strings.Cut(member, "/")
			return program == base && (!two || slices.ContainsFunc(words[1:], func(w word) bool { return matchWord(arg, w) != no }))
		})
	})
}

// A globalGrammar is the options that a program takes before its sub-command.
type globalGrammar struct {
	// harmless ones do not change what the sub-command does.
	harmless string
	flags    string // without a value
	values   string // with a value: the next word, or after "="
	// relocates lists those of values that name a directory, harmless if it is
	// the one that the command is in.
	relocates string
	// settings lists those that set NAME=VALUE of the configuration.
	settings string
}

// skip removes the options at the start of words. harmless is false if one of
// them was more than that; ok is false where an option is not known.
func (g globalGrammar) skip(a *analysis, words []word) (rest []word, harmless, ok bool) {
	harmless = true
	for len(words) > 0 && words[0].mayBeOption() {
		name, _, attached := strings.Cut(words[0].text, "=")
		switch {
		case !words[0].fixed() && !attached:
			return nil, false, false
		case hasField(g.harmless, words[0].text):
		case hasField(g.flags, name):
			harmless = false
		case !hasField(g.values, name):
			return nil, false, false
		case attached:
			harmless = false
		case len(words) < 2:
			return nil, false, false
		default:
			harmless = harmless && g.harmlessValue(a, name, words[1])
			words = words[1:]
		}
		words = words[1:]
	}
	return words, harmless, true
}

func (g globalGrammar) harmlessValue(a *analysis, name string, value word) bool {
	switch {
	case hasField(g.relocates, name):
		return a.isHere(value)
	case hasField(g.settings, name):
		return value.fixed() && harmlessSetting(value.text)
	}
	return false
}

// isHere reports whether a path is the directory that the command is in.
func (a *analysis) isHere(w word) bool {
	name, reason := a.pathOf(w)
	here := a.dirs.one()
	return reason == "" && here != "" && absolute(name, here) == here
}

// harmlessSetting knows git settings that only change how things are printed.
func harmlessSetting(s string) bool {
	key, value, _ := strings.Cut(strings.ToLower(s), "=")
	section, _, _ := strings.Cut(key, ".")
	switch {
	case section == "color", section == "advice", key == "core.quotepath", key == "log.date", key == "log.decorate",
		key == "diff.renames", key == "core.abbrev", key == "log.showsignature" && value == "false":
		return true
	case key == "core.pager", section == "pager":
		return value == "cat" || value == ""
	}
	return false
}

// hasField reports whether list, words between white space, holds s.
func hasField(list, s string) bool {
	for field := range strings.FieldsSeq(list) {
		if field == s {
			return true
		}
	}
	return false
}
