package shell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/tools"
)

// A builtinFunc judges a command that bash runs itself. It reports false if the
// rules are to speak about the command as about any other.
type builtinFunc func(a *analysis, cmd simpleCommand) (done bool)

// builtin gives the judge of a built-in, nil for any other command. These
// change the shell and nothing else, so no rule is needed for what is known of
// them.
func builtin(name string) builtinFunc {
	switch name {
	case "true", "false", ":", "exit", "return", "break", "continue", "shift", "times", "type":
		return (*analysis).free
	case "test", "[":
		return (*analysis).testCommand
	case "cd":
		return (*analysis).cd
	case "set":
		return (*analysis).set
	case "read":
		return namesOnly("rse", "pdntuNi", "a")
	case "mapfile", "readarray":
		return namesOnly("t", "dnOsu", "")
	case "unset":
		return namesOnly("v", "", "")
	case "wait":
		return (*analysis).wait
	case "printf":
		return (*analysis).printf
	case "eval":
		return (*analysis).eval
	case "trap":
		return (*analysis).trap
	case "exec":
		return func(a *analysis, cmd simpleCommand) bool {
			return len(cmd.words) == 1 && (a.fed && a.doubt(cmd, "exec gives later commands their input") || a.free(cmd)) // it keeps its redirections
		}
	}
	return nil
}

// free notes a command that needs no rule; those that deny or ask still count.
func (a *analysis) free(cmd simpleCommand) bool {
	cmd.free = true
	a.judge(cmd)
	return true
}

// doubt asks about a built-in whose words may do more than they show.
func (a *analysis) doubt(cmd simpleCommand, reason string) bool {
	a.ask(reason+": "+cmd.text(), "simplify it")
	return a.free(cmd)
}

// namesOnly judges a built-in that sets variables by name. Bash evaluates a subscript in such
// a name, quoted or not, and what some variables of its own are set to.
func namesOnly(flags, values, names string) builtinFunc {
	g := grammar{flags: flags, data: values + names}
	return func(a *analysis, cmd simpleCommand) bool {
		p, reason := g.parse(cmd.words[1:])
		if reason != "" {
			return a.doubt(cmd, cmd.words[0].text+": "+reason)
		}
		for _, o := range p.options {
			if strings.Contains(names, o.name[1:]) && o.has {
				p.operands = append(p.operands, o.value)
			}
		}
		for _, w := range p.operands {
			if !w.fixed() || !ofTheLine(w.text) {
				return a.doubt(cmd, fmt.Sprintf("%s sets %s, whose name is not in lower case", cmd.words[0].text, w))
			}
		}
		return a.free(cmd)
	}
}

func (a *analysis) wait(cmd simpleCommand) bool {
	sets := func(w word) bool { return w.mayBeOption() && !w.dynamic && w.text != "-n" && w.text != "-f" || w.split }
	if slices.ContainsFunc(cmd.words[1:], sets) {
		return a.doubt(cmd, "wait with an option that sets a variable")
	}
	return a.free(cmd)
}

// prints matches the formats of printf(1) that only print: "%n" sets the variable that its argument
// names. A backslash is a character like others, since bash takes "\%n" for a conversion.
var prints = lazily(`^([^%]|%%|%[-+ #0]*[0-9]*(\.[0-9]+)?[sbqcdiouxXeEfFgGaA])*$`)

// printf must not set a variable, by an option or by its format; the rules speak about the rest.
func (a *analysis) printf(cmd simpleCommand) bool {
	words := cmd.words[1:]
	dashes := len(words) > 0 && words[0] == fixedWord("--")
	if dashes {
		words = words[1:]
	}
	if len(words) > 0 && (!words[0].fixed() || !prints().MatchString(words[0].text) || !dashes && strings.HasPrefix(words[0].text, "-")) {
		a.ask("printf with an option or a format that may set a variable", "write the format literally, with %s for unknown parts")
	}
	return false
}

// eval walks what it is given, so that rules that deny see it, and always asks.
func (a *analysis) eval(cmd simpleCommand) bool {
	a.ask("eval runs text as a command", "write the command itself")
	a.nested(cmd.words[1:])
	return a.free(cmd)
}

// nested walks words that are joined to a script and run in this shell.
func (a *analysis) nested(words []word) {
	script, ok := joinFixed(words, " ")
	if !ok {
		a.unsure("it runs a script that is not known in advance")
		a.ask("runs a script that is not known in advance", "write the command itself")
		return
	}
	a.repeated(func() { a.script(script, bash) })
}

func joinFixed(words []word, between string) (string, bool) {
	var parts []string
	ok := true
	for _, w := range words {
		parts, ok = append(parts, w.text), ok && w.fixed()
	}
	return strings.Join(parts, between), ok
}

// trap walks the action, which runs later.
func (a *analysis) trap(cmd simpleCommand) bool {
	args := cmd.words[1:]
	if len(args) > 0 && args[0].fixed() && args[0].text == "--" {
		args = args[1:]
	}
	if len(args) == 0 || args[0] == fixedWord("") || hasField("- -p -l", args[0].text) && args[0].fixed() {
		return a.free(cmd)
	}
	a.nested(args[:1])
	return a.doubt(cmd, "trap runs a command at a later time")
}

// set judges the options of the shell. Those that are harmless stop it at errors
// or print what it does.
func (a *analysis) set(cmd simpleCommand) bool {
	for i := 1; i < len(cmd.words); i++ {
		w := cmd.words[i]
		if !w.fixed() || len(w.text) < 2 || w.text[0] != '-' && w.text[0] != '+' || strings.Trim(w.text[1:], "euxCEo") != "" {
			return a.doubt(cmd, "set changes how the shell reads commands")
		}
		if !strings.HasSuffix(w.text, "o") {
			continue
		}
		if i++; i == len(cmd.words) || !cmd.words[i].fixed() || !hasField("pipefail errexit nounset xtrace noclobber errtrace", cmd.words[i].text) {
			return a.doubt(cmd, "set changes how the shell reads commands")
		}
	}
	return a.free(cmd)
}

// cd follows a change of directory. It may fail, so the shell can be in the old
// directory as well as in the new one.
func (a *analysis) cd(cmd simpleCommand) bool {
	args := cmd.words[1:]
	for len(args) > 0 && args[0].fixed() && hasField("-L -e --", args[0].text) {
		args = args[1:]
	}
	target := word{text: "~", literal: 1, tilde: true}
	if len(args) > 0 {
		target = args[0]
	}
	name, reason := a.pathOf(target)
	if len(args) > 1 || reason != "" || target.mayBeOption() || target.text == "-" {
		a.dirs, a.arrived = dirSet{anywhere: true}, dirSet{anywhere: true}
		return a.doubt(cmd, "cd to a directory that is not known")
	}
	effect, why, _ := a.checkPath(target, false)
	if effect != tools.Allow {
		a.beyond = true
		a.add(Part{Text: cmd.text(), Effect: min(tools.Ask, a.p.fallback), Rule: rulePaths, RuleIndex: -1, Reason: "cd: " + why,
			Hint: "stay inside the workspace"})
	}
	a.arrived = dirSet{anywhere: a.dirs.anywhere && !strings.HasPrefix(name, "/")}
	for _, dir := range a.knownDirs(name) {
		a.arrived = a.arrived.with(absolute(name, dir))
	}
	a.dirs = a.dirs.or(a.arrived)
	return a.free(cmd)
}

// testCommand judges test and [. Their -v and -R evaluate a subscript in the
// name that follows, so a word that could be one of them must not be unknown.
func (a *analysis) testCommand(cmd simpleCommand) bool {
	args := cmd.words[1:]
	if cmd.words[0].text == "[" && len(args) > 0 {
		args = args[:len(args)-1]
	}
	if !safeTest(args) {
		return a.doubt(cmd, "a test that may evaluate a subscript")
	}
	return a.free(cmd)
}

const (
	unaryTests  = "-a -b -c -d -e -f -g -h -k -p -r -s -t -u -w -x -G -L -N -O -S -z -n -o"
	binaryTests = "= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef"
)

// safeTest reads a test by its grammar (test(1), POSIX): terms joined by -a and -o,
// each a word, an operator and a word, or two words around an operator. Where there are
// several, a value that looks like an operator or a parenthesis shifts them.
func safeTest(args []word) bool {
	terms := 0
	for len(args) > 0 {
		for len(args) > 1 && args[0].fixed() && args[0].text == "!" {
			args = args[1:]
		}
		n := testTerm(args)
		if terms++; n == 0 || (terms > 1 || n < len(args)) && slices.ContainsFunc(args, func(w word) bool { return !w.fixed() }) {
			return false
		}
		if args = args[n:]; len(args) == 0 {
			return true
		}
		if !args[0].fixed() || !hasField("-a -o", args[0].text) || len(args) == 1 {
			return false
		}
		args = args[1:]
	}
	return true
}

// testTerm gives the length of the term at the start of args, 0 if it is not
// surely harmless.
func testTerm(args []word) int {
	switch {
	case slices.ContainsFunc(args[:min(3, len(args))], func(w word) bool { return w.split }):
		return 0
	case len(args) >= 3 && args[1].fixed() && hasField(binaryTests, args[1].text):
		return 3
	case len(args) >= 2 && args[0].fixed() && hasField(unaryTests, args[0].text):
		return 2
	case len(args) >= 2 && args[0].fixed() && hasField("-v -R", args[0].text) && args[1].fixed() && isName(args[1].text):
		return 2
	case len(args) == 1 || len(args) >= 1 && args[0].fixed() && !strings.HasPrefix(args[0].text, "-"):
		return 1
	}
	return 0
}
