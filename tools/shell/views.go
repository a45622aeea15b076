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
	globals, ok := globalOptions[a.anyBase(cmd.words[0])]
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
// perhaps with the reason for the doubt.
func (a *analysis) denies(r *compiledRule, cmd simpleCommand, views []view) (verdict, string) {
	v, _ := a.matchViews(r, views)
	if v == yes {
		return yes, ""
	}
	if a.programMatch(r, cmd.words[0]) == yes {
		v = max(v, a.deniesReordered(r, views))
	} else if v == no && sameEffect(r.words, a.anyBase(cmd.words[0]), cmd.words) {
		return perhaps, fmt.Sprintf("does what the rule %q denies, in another way", r.Pattern)
	}
	if v == no && a.handsOn(r, cmd) {
		return perhaps, fmt.Sprintf("%s may run what the rule %q denies", cmd.words[0], r.Pattern)
	}
	return v, fmt.Sprintf("may be what the rule %q denies", r.Pattern)
}

// handsOn reports whether a program that no table knows is given the words of a
// denied command: it may be one of the many that run their words.
func (a *analysis) handsOn(r *compiledRule, cmd simpleCommand) bool {
	if known(a.anyBase(cmd.words[0])) {
		return false
	}
	for i := 1; i < len(cmd.words); i++ {
		if w := cmd.words[i]; w.fixed() && r.match(a.programMatch(r, w), cmd.words[i:]) != no {
			return true
		}
	}
	return false
}

// known reports whether a table says what a program does with its words.
func known(base string) bool {
	_, guarded := guards[base]
	_, reads := readForms[base]
	_, wraps := wrappers[base]
	return guarded || reads || wraps || inert[base] || interpreters[base] || shells[base] || specialBuiltins[base] || builtin(base) != nil
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
	found := hasLetters(letters, o.letters)
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

// hasLetters reports whether every letter is there in either case: "rm -R" is
// "rm -r".
func hasLetters(have, want string) bool {
	have = strings.ToLower(have)
	for _, c := range strings.ToLower(want) {
		if !strings.ContainsRune(have, c) {
			return false
		}
	}
	return true
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

// families groups programs by what can be done with them, so that a rule against
// one raises a doubt about the others.
var families = [][]string{
	{"rm", "unlink", "shred", "rmdir", "mv", "truncate", "srm", "trash", "gio", "find -delete", "git clean", "git rm", "rsync --delete"},
	{"curl", "wget", "aria2c", "http", "https", "nc", "ncat", "netcat", "socat", "telnet", "lynx", "w3m", "ftp", "tftp"},
	{"kill", "pkill", "killall", "skill", "fuser", "xkill"},
	{"sudo", "doas", "su", "pkexec", "runuser", "setpriv", "gosu"},
	{"chmod", "chown", "chgrp", "setfacl", "chattr", "install"},
	{"ssh", "scp", "sftp", "rsync", "mosh", "rsh"},
	{"shutdown", "reboot", "halt", "poweroff", "systemctl", "init", "telinit"},
	{"npm", "npx", "pnpm", "yarn", "bun", "bunx", "corepack"},
	{"pip", "pip3", "pipx", "uv", "easy_install", "conda"},
}

// sameEffect reports whether a command is of the family of the program that a
// pattern denies. Only a pattern of the program alone, or with options, names
// the family.
func sameEffect(pattern []string, base string, words []word) bool {
	if len(splitOptions(pattern[1:]).names) > 0 {
		return false
	}
	for _, family := range families {
		if slices.Contains(family, pattern[0]) && inFamily(family, base, words) {
			return true
		}
	}
	return false
}

func inFamily(family []string, base string, words []word) bool {
	for _, member := range family {
		program, arg, two := strings.Cut(member, " ")
		if program != base {
			continue
		}
		if !two || slices.ContainsFunc(words[1:], func(w word) bool { return matchWord(arg, w) != no }) {
			return true
		}
	}
	return false
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

var globalOptions = map[string]globalGrammar{
	"git": {
		harmless:  "--no-pager -P --no-optional-locks --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --no-replace-objects --no-lazy-fetch --no-advice",
		flags:     "-p --paginate --bare",
		values:    "-C -c --git-dir --work-tree --namespace --exec-path --super-prefix --config-env --attr-source --list-cmds",
		relocates: "-C",
		settings:  "-c",
	},
	"npm":       {harmless: "--silent -s --no-color --quiet -q --loglevel=error --loglevel=silent", flags: "--global -g --verbose -d -dd -ddd", values: "--prefix -C --workspace -w --userconfig --globalconfig --registry --loglevel --cache"},
	"docker":    {flags: "-D --debug --tls --tlsverify", values: "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey"},
	"kubectl":   {values: "-n --namespace --context --cluster --kubeconfig -s --server --user --token --as -v"},
	"systemctl": {harmless: "--no-pager --quiet -q", flags: "--user --system --now --force -f --no-block", values: "-H --host -M --machine -t --type --root"},
	"cargo":     {harmless: "-q --quiet -v --verbose --locked --offline --frozen", values: "--color -Z -C --config"},
	"go":        {values: "-C"},
	"make":      {harmless: "-s --silent -k --keep-going"},
}

// skip removes the options at the start of words. harmless is false if one of
// them was more than that; ok is false where an option is not known.
func (g globalGrammar) skip(a *analysis, words []word) (rest []word, harmless, ok bool) {
	harmless = true
	for len(words) > 0 && words[0].mayBeOption() {
		name, value, attached := strings.Cut(words[0].text, "=")
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
		_ = value
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
	return reason == "" && !w.glob && here != "" && absolute(name, here) == here
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
	for len(s) > 0 {
		i := strings.Index(list, s)
		if i < 0 {
			return false
		}
		end := i + len(s)
		if (i == 0 || list[i-1] <= ' ') && (end == len(list) || list[end] <= ' ') {
			return true
		}
		list = list[end:]
	}
	return false
}
