package shell

import (
	"cmp"
	"strings"

	"github.com/sandgate/sandgate/tools"
)

// A wrapper is a program that runs another one, named by its words. The table is
// closed: a wrapper with an option that is not listed is asked about.
type wrapper struct {
	grammar
	// skip is how many operands come before the command.
	skip int
	// assigns: NAME=VALUE words come before the command.
	assigns bool
	// own: the wrapper does something of its own, so it needs a rule besides the
	// one for its command: another user, another root, a file written.
	own bool
	// script names the options whose value is run by a shell.
	script string
	// joined: the operands are joined and run by a shell.
	joined bool
	// appends: words that are not known are added to the command (xargs).
	appends bool
	// lookup names the options that turn it into a query that runs nothing.
	lookup string
	// environ names the options that change the environment, beyond assigns.
	environ string
	// alone: without a command it runs a shell, or what standard input says.
	alone bool
}

func wrapperFor(name string) *wrapper {
	if dynamicLoader(name) {
		return &wrapper{grammar: grammar{stop: true}, own: true}
	}
	return known().wrappers[name]
}

// dynamicLoader knows the names of ld.so(8), which runs the program that it is
// given.
func dynamicLoader(name string) bool {
	return name == "ld.so" || strings.HasPrefix(name, "ld-linux") || strings.HasPrefix(name, "ld-musl-") || strings.HasPrefix(name, "ld64.so")
}

// wrapped looks through a wrapper at the command it runs, and judges both.
func (a *analysis) wrapped(w *wrapper, cmd simpleCommand) {
	outer := cmd
	outer.free = !w.own
	p, reason := w.parse(cmd.words[1:])
	if reason == "" && p.hidesOption(a.baseName(cmd.words[0].text)) {
		reason = "the word after an option could be an option: write it with ="
	}
	if reason != "" {
		a.doubtful(outer, cmd.words[0].text+": "+reason)
		return
	}
	for _, o := range p.options {
		if o.path && o.has {
			a.file(o.value, false)
		}
	}
	if lookups := strings.Fields(w.lookup); len(lookups) > 0 && p.has(lookups...) {
		a.free(outer)
		return
	}
	if environ := strings.Fields(w.environ); len(environ) > 0 && p.has(environ...) {
		outer.env = true
	}
	a.judge(outer)
	for i := 1; i < len(cmd.words)-len(p.operands)+w.skip && i < len(cmd.words); i++ {
		a.deniedInside(cmd.words[i:], tools.Ask) // a table that is wrong about them must not hide the command
	}
	a.wrappedCommand(w, cmd, p)
}

// doubtful judges a wrapper that is not understood: its words may hold any
// command.
func (a *analysis) doubtful(cmd simpleCommand, reason string) {
	a.ask(reason, "run the command without the wrapper")
	a.judge(cmd)
	for i := 1; i < len(cmd.words); i++ { // a rule that denies sees any command in it
		if cmd.words[i].fixed() {
			a.deniedInside(cmd.words[i:], tools.Deny)
		}
	}
}

// deniedInside notes the rules that deny the command that words would be, with an effect
// that is no stricter than least.
func (a *analysis) deniedInside(words []word, least tools.Effect) {
	if len(words) == 0 || !words[0].fixed() || !a.charge(workOf(words)) {
		return
	}
	inner := simpleCommand{words: words, free: true}
	if part, ok := a.denied(inner, a.views(inner)); ok {
		part.Text, part.Effect = inner.text(), max(part.Effect, min(least, a.p.fallback))
		a.add(part)
	}
}

// wrappedCommand judges what the wrapper runs.
func (a *analysis) wrappedCommand(w *wrapper, cmd simpleCommand, p parsed) {
	inner := simpleCommand{env: cmd.env, words: p.operands}
	if w.skip > 0 {
		inner.words = inner.words[min(w.skip, len(inner.words)):]
	}
	for _, o := range p.options {
		if hasField(w.script, o.name) && w.script != "" {
			a.shellScript([]word{o.value}, a.p.dialectOf("sh"))
			return
		}
		if hasField(w.environ, o.name) && w.environ != "" {
			inner.env = true
		}
	}
	if w.assigns {
		inner.words = a.assignmentWords(&inner)
	}
	if len(inner.words) == 0 {
		if w.alone {
			a.unsure("it runs what it reads from its input")
			a.ask(cmd.words[0].text+" without a command runs a shell", "give the command")
		}
		return
	}
	if w.skip > 0 && inner.words[0].fixed() && hasField("-c --command", inner.words[0].text) && w.script != "" {
		a.shellScript(inner.words[1:], a.p.dialectOf("sh"))
		return
	}
	if w.appends {
		inner.words = appended(inner.words, p)
	}
	if w.joined {
		a.shellScript(inner.words, a.p.dialectOf("sh"))
		return
	}
	a.simple(inner)
}

// assignmentWords takes NAME=VALUE words from the front of a command, as env and
// sudo do, and judges them as assignments.
func (a *analysis) assignmentWords(cmd *simpleCommand) []word {
	for i, w := range cmd.words {
		name, value, ok := strings.Cut(w.prefix(), "=")
		if !ok {
			cmd.env = cmd.env || !w.fixed() // it may expand to an assignment
			return cmd.words[i:]
		}
		v := word{text: value, literal: len(value), dynamic: !w.fixed()}
		plain := harmless(name, v)
		a.noteVariable(name, v)
		if !plain && !ofTheLine(name) {
			a.ask(notOfTheLine+": "+name, "run the command without it")
		}
		cmd.env = cmd.env || !plain
	}
	return nil
}

// appended is the command that xargs runs: its words and those of its input, or
// with a replacement string, its words with that replaced.
func appended(words []word, p parsed) []word {
	replace := ""
	for _, o := range p.options {
		switch {
		case hasField("-I -i --replace", o.name):
			replace = cmp.Or(o.value.text, "{}")
		case hasField("-L -l -n --max-lines --max-args", o.name): // of these and -I the last one counts
			return append(words[:len(words):len(words)], unknownWords())
		}
	}
	if replace == "" {
		return append(words[:len(words):len(words)], unknownWords())
	}
	return replaced(words, replace)
}

// replaced marks each word that holds what will be replaced as known up to there.
func replaced(words []word, what string) []word {
	out := make([]word, len(words))
	for i, w := range words {
		if at := strings.Index(w.text, what); at >= 0 {
			w = word{text: w.text[:at], literal: min(at, w.literal), dynamic: true}
		}
		out[i] = w
	}
	return out
}

// shellScript walks a script that another shell runs.
func (a *analysis) shellScript(words []word, lang dialect) {
	script, ok := joinFixed(words, " ")
	if !ok {
		a.unsure("it runs a script that is not known in advance")
		a.ask("runs a script that is not known in advance", "write the command itself")
		a.deniedInside(words, tools.Deny)
		return
	}
	defer a.fork()()
	a.script(script, lang)
}

// shellGrammar is the options of bash(1) and dash(1) that leave it to its script: none
// that reads a start-up file, or changes how the script is read.
var shellGrammar = grammar{stop: true, flags: "ceux"}

// shell judges a shell that is run as a command. One that is given no script as an
// argument runs what it finds in a file, or on its standard input, of which a command
// that it runs may take a part.
func (a *analysis) shell(base string, cmd simpleCommand) {
	p, reason := shellGrammar.parse(cmd.words[1:])
	switch {
	case len(cmd.words) == 2 && cmd.words[1].fixed() && cmd.words[1].text == "--version":
		a.free(cmd)
	case reason != "":
		a.doubtful(cmd, base+": "+reason)
		a.guessScript(cmd.words)
	case p.has("-c") && len(p.operands) > 0:
		if cmd.env {
			a.ask("a variable is set for a script, which may evaluate its value", "run the script without it")
		}
		a.free(cmd)
		a.shellScript(p.operands[:1], a.p.dialectOf(base))
	default:
		a.judge(cmd)
	}
}

// guessScript shows rules that deny the script of a shell whose options are not
// understood, such as bash -lc.
func (a *analysis) guessScript(words []word) {
	for i, w := range words[1:] {
		if w.fixed() && strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.Contains(w.text, "c") && i+2 < len(words) {
			a.shellScript(words[i+2:i+3], bash)
			return
		}
	}
}
