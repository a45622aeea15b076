package shell

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/tools"
)

// This file finds the files that a command line starts: programs by a path, scripts,
// what it sources or hands to an interpreter, and what the table says a program carries
// out. A mistake here costs a file that is not held while the call runs, and nothing of
// what the sandbox holds.

// maxStarts bounds what is held of one command line, and maxLeads the directories that its
// words are followed into. A line with more says so, and no answer to it is remembered.
const (
	maxStarts = 2048
	maxLeads  = 64
)

// A startWalk collects what a command line starts.
type startWalk struct {
	list []tools.Started
	// inputs are files that commands of the line read, which a program that takes its
	// code from its standard input may run.
	inputs  []tools.Started
	outputs map[tools.Started]bool
	stdin   bool
	// code: a program surely runs its standard input; unread: not all that the line reads
	// is among the inputs.
	code, unread bool
	unsure       string // why there may be more
}

// StartsOf are the files that a program starts or carries out which is run with the words
// argv in the directory dir, without a shell.
func (t *Tool) StartsOf(argv []string, dir string) []tools.Started {
	return t.Policy().In(dir).starts(tools.QuoteCommand(argv))
}

// starts are those of a command line, as its text says.
func (p *Policy) starts(command string) (list []tools.Started) {
	defer takePlace()()
	s := &startWalk{outputs: map[tools.Started]bool{}}
	defer func() { // as in decide
		if r := recover(); r != nil {
			list = append(wordsOf(command, p.files.Start()), tools.Started{Unsure: "it was not analysed"})
		}
	}()
	a := &analysis{p: p, starts: s, done: p.done, dirs: dirSet{known: []string{p.files.Start()}}}
	a.script(command, p.dialectOf("bash"))
	if s.code && s.unread {
		s.unsure = "it runs commands from its standard input, which are not known"
	}
	for _, in := range s.inputs {
		in.Optional, in.Doubtful, in.Written = true, !s.stdin, s.outputs[in]
		s.list = append(s.list, in)
	}
	dir := p.files.Start()
	words := wordsOf(command, dir)
	// Any of what is not analysed may be a script, and what comes after the name of an
	// interpreter, wherever that stands. None is frozen, as any may be written to.
	unread, after := slices.ContainsFunc(a.parts, func(part Part) bool { return part.Rule == ruleSyntax }), false
	for i, w := range words {
		if (unread || after) && !s.outputs[tools.Started{Name: w.Name, Dir: dir}] {
			words[i].Doubtful, words[i].Optional, words[i].Written = false, true, true
		}
		base := path.Base(w.Name)
		after = after && strings.HasPrefix(w.Name, "-") || known().in("shells", base) || known().interps[likeness(base)] != nil
	}
	s.list = elsewhere(append(s.list, words...), s.leads(words, dir))
	if len(s.list) > maxStarts {
		s.list, s.unsure = s.list[:maxStarts], "it names more files than can be pinned"
	}
	if s.unsure != "" {
		s.list = append(s.list, tools.Started{Unsure: s.unsure})
	}
	return s.list
}

// elsewhere adds what relative names stand for in other directories. How a line comes into
// one (pushd, env -C, find -execdir, a variable) need not be known for that.
func elsewhere(list []tools.Started, dirs []string) []tools.Started {
	seen := map[tools.Started]bool{}
	var all []tools.Started
	add := func(s tools.Started) {
		if !seen[s] && len(all) <= maxStarts {
			seen[s] = true
			all = append(all, s)
		}
	}
	for _, s := range list {
		add(s)
	}
	for _, s := range list {
		if path.IsAbs(s.Name) || strings.HasPrefix(s.Name, "..") || s.Name == "" {
			continue
		}
		for _, dir := range dirs {
			s.Dir, s.Optional, s.Sought = dir, true, false
			add(s)
		}
	}
	return all
}

// leads are the directories that pieces of the line name, patterns followed.
func (s *startWalk) leads(words []tools.Started, start string) (dirs []string) {
	add := func(dir string) {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || dir == start || slices.Contains(dirs, dir) {
			return
		}
		if len(dirs) == maxLeads {
			s.unsure = "it names more directories than can be searched"
			return
		}
		dirs = append(dirs, dir)
	}
	for _, w := range words {
		for _, name := range []string{w.Name, w.Name[min(2, len(w.Name)):]} { // as in -Cdir
			found, _ := filepath.Glob(absolute(name, start))
			for _, dir := range found {
				add(dir)
			}
		}
	}
	return dirs
}

// wordsOf takes every piece of a text for a file that may be started.
func wordsOf(text, dir string) (list []tools.Started) {
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n;|&<>()$`\"'{}=,:\\!", r) }) {
		list = append(list, tools.Started{Name: w, Dir: dir, Doubtful: true})
	}
	return list
}

// at gives a word as files, from every directory that the shell can be in.
func (a *analysis) at(w word, s tools.Started) (list []tools.Started) {
	if !w.fixed() || w.stream || w.text == "" || w.text == "-" || len(a.starts.list) > 2*maxStarts {
		return nil
	}
	name, reason := a.pathOf(w)
	if reason != "" {
		return nil
	}
	if a.dirs.anywhere && !path.IsAbs(name) && !s.Doubtful {
		a.starts.unsure = "the directory in which it starts " + name + " is not known"
	}
	for _, dir := range a.knownDirs(name) {
		s.Name, s.Dir = name, dir
		list = append(list, s)
	}
	return list
}

func (a *analysis) starting(w word, s tools.Started) {
	list := a.at(w, s)
	if len(list) == 0 && !s.Doubtful && !s.Optional {
		a.unsure("the word " + w.String() + " is not known before it runs")
	}
	a.starts.list = append(a.starts.list, list...)
}

func (a *analysis) startingText(name string, s tools.Started) { a.starting(fixedWord(name), s) }

// noteStarts notes what a simple command starts.
func (a *analysis) noteStarts(cmd simpleCommand) {
	if a.starts == nil {
		return
	}
	name := cmd.words[0]
	base := path.Base(a.baseName(name.text))
	like, words := likeness(base), cmd.words[1:]
	if strings.Contains(name.text, "/") {
		if _, trusted := a.p.programs.Identify(name.text, a.dirs.one()); !trusted {
			a.starting(name, tools.Started{})
		}
	} else if found := a.p.programs.Locate(name.text, a.dirs.one()); found != "" {
		a.startingText(found, tools.Started{})
	}
	a.noteCarried(base, words)
	told := a.startsNothing(a.baseName(name.text), cmd)
	switch interp := known().interps[like]; {
	case name.text == "." || name.text == "source":
		told = true
		if len(words) > 0 {
			a.starting(words[0], tools.Started{})
		}
	case known().in("shells", base) || interp != nil && known().in("shells", like):
		told = a.noteInterpreted(keyed{"inline": "-c", "values": "-o -O +o +O", "files": "--rcfile --init-file"}, words, true)
	case interp != nil:
		told = a.noteInterpreted(interp, words, false) && interp["alone"] != ""
	case (known().coded[like] != "" || !tabled(base)) && known().reads[base] == nil && base != "find" && !strings.HasSuffix(like, "awk"):
		a.starts.stdin, a.starts.unread = true, true
		a.doubtfulWords(words)
	default: // its operands are data
		a.noteInputs(words)
		a.starts.unread = a.starts.unread || !told || known().in("repositories", base)
	}
	if !told {
		a.starting(fixedWord("."), tools.Started{Optional: true, Anything: true, Doubtful: !tabled(like)})
	}
}

// startsNothing reports whether a program is known to start and load nothing of where it
// is, beside its words. What no table says that of may start anything.
func (a *analysis) startsNothing(base string, cmd simpleCommand) bool {
	name, _, _ := a.subcommand(base, cmd.words[1:])
	wrapper := wrapperFor(base) // what it runs is noted by itself
	return known().inert[base] || known().in("builtins", base) || known().in("starts-nothing", base) || known().in("starts-nothing", name) ||
		wrapper != nil && !wrapper.own || a.onlyReads(base, cmd) == ""
}

func (a *analysis) noteInputs(words []word) {
	for _, w := range words {
		_, value, _ := strings.Cut(w.text, "=")
		if strings.HasPrefix(w.text, "-") {
			w = fixedWord("")
		}
		a.starts.unread = a.starts.unread || !w.fixed()
		a.starts.inputs = append(append(a.starts.inputs, a.at(w, tools.Started{})...), a.at(fixedWord(value), tools.Started{})...)
	}
}

// doubtfulWords takes each word, and what follows a "=" in it, for a file that may be
// started.
func (a *analysis) doubtfulWords(words []word) {
	for _, w := range words {
		a.starting(w, tools.Started{Doubtful: true})
		if _, value, ok := strings.Cut(w.text, "="); ok {
			a.startingText(value, tools.Started{Doubtful: true})
		}
	}
}

// noteVariable notes a variable that may say where programs find what they load: in a directory that is any file.
func (a *analysis) noteVariable(name string, v word) {
	if a.starts == nil || ofTheLine(name) || harmless(name, v) {
		return
	}
	if !v.fixed() {
		a.unsure("the value of the variable " + name + " is not known before it runs")
	}
	for _, s := range wordsOf(v.text, a.p.files.Start()) {
		a.starts.list = append(a.starts.list, tools.Started{Name: s.Name, Dir: s.Dir, Loads: true})
	}
}

// A keyed line of the table: what stands behind each key, with blanks between.
type keyed map[string]string

func (k keyed) set(key, _, list string) bool {
	k[key] = list + " "
	return hasField("values files flags inline modules skips clusters alone tries names options dirs parents writes operands", key)
}

// has reports whether name stands behind key.
func (k keyed) has(key, name string) bool { return name != "" && hasField(k[key], name) }

// unsure notes that the line may start files that are not in the list.
func (a *analysis) unsure(why string) {
	if a.starts != nil {
		a.starts.unsure = why
	}
}

// noteInterpreted finds the script among the words of an interpreter; shell says that it
// reads its options as bash does. It reports whether the words tell all the code that runs.
// An option that the table does not list may take the next word for its value: where the
// script stands is not known then.
func (a *analysis) noteInterpreted(in keyed, words []word, shell bool) (told bool) {
	for i := 0; i < len(words) && words[i] != fixedWord("-"); i++ {
		w := words[i]
		name, value, attached := strings.Cut(w.text, "=")
		rest := words[i+1:]
		if in["clusters"] != "" && w.fixed() {
			var more []word
			name, value, more = in.cluster(w.text)
			rest, attached = append(more, rest...), attached && more == nil
		}
		next := slices.Concat(rest, []word{fixedWord("")})[0]
		switch option := strings.HasPrefix(w.text, "-") || shell && strings.HasPrefix(w.text, "+"); {
		case !w.fixed(), in.has("modules", name) && !next.fixed():
			a.unsure("the word " + w.String() + " or the next is not known before it runs")
			a.doubtfulWords(words[i:])
			return false
		case w.text == "--" || in.has("skips", w.text):
		case !option:
			a.starting(w, tools.Started{})
			for ending := range strings.FieldsSeq(in["tries"] + " /__main__.py /index.js /package.json") { // or of a directory
				a.startingText(w.text+ending, tools.Started{Optional: true})
			}
			a.doubtfulWords(words[i+1:])
			return true
		case in.has("modules", name):
			module := strings.ReplaceAll(next.text, ".", "/")
			for _, ending := range []string{".py", ".pyc", "/__main__.py", "/__init__.py"} {
				a.startingText(module+ending, tools.Started{Optional: true, Sought: true})
			}
			a.doubtfulWords(rest)
			return false
		case in.has("inline", name), shell && !strings.HasPrefix(w.text, "--") && strings.Contains(w.text, "c"):
			a.doubtfulWords(rest)
			return shell
		case in.has("files", name) && !attached:
			i++
			a.loaded(in, next)
		case in.has("files", name):
			a.loaded(in, fixedWord(value))
		case in.has("values", name) && !attached:
			i += 1 - (len(rest) - len(words[i+1:])) // the next word, unless it is attached
		case shell && !strings.HasPrefix(w.text, "--") && strings.ContainsAny(w.text, "oO"): // of a cluster: -euo pipefail
			i++
		case len(w.text) > 2 && in.has("files", w.text[:2]):
			a.loaded(in, fixedWord(w.text[2:]))
		case len(w.text) > 2 && in.has("values", w.text[:2]), in.has("flags", name), shell, attached:
		default:
			a.unsure("what follows " + w.text + " may be its value, or the script")
		}
	}
	a.starts.stdin, a.starts.code = true, true
	return false
}

// loaded notes a file that an option loads. A name without a directory may be one of a
// module that is installed.
func (a *analysis) loaded(in keyed, w word) {
	a.starting(w, tools.Started{Optional: w.fixed() && !strings.HasPrefix(w.text, ".")})
	for ending := range strings.FieldsSeq(in["tries"]) {
		a.startingText(w.text+ending, tools.Started{Optional: true})
	}
}

// cluster reads a word of short options up to the first that has a value, which what is
// left of the word gives: -um is -u -m, and -mx is -m x.
func (k keyed) cluster(text string) (name, value string, attached []word) {
	if len(text) < 2 || text[0] != '-' || text[1] == '-' {
		name, value, _ = strings.Cut(text, "=")
		return name, value, nil
	}
	for i := 1; i < len(text); i++ {
		name = "-" + text[i:i+1]
		if k.has("modules", name) || k.has("inline", name) || k.has("values", name) || !k.has("flags", name) {
			if i+1 < len(text) {
				attached = []word{fixedWord(text[i+1:])}
			}
			break
		}
	}
	return name, text, attached
}

// maxParents is how far up a carrier is taken to look.
const maxParents = 12

// noteCarried notes the files that the table says a program carries out.
func (a *analysis) noteCarried(base string, words []word) {
	c := known().carriers[base]
	for i := 0; c == nil && i < len(words) && i < 8; i++ { // the sub-command may stand behind options
		if words[i].fixed() {
			if c = known().carriers[base+"/"+words[i].text]; c != nil {
				words = words[i+1:]
			}
		}
	}
	if c == nil {
		return
	}
	from, found := []string{""}, tools.Started{Optional: true, Sought: true}
	for i, w := range words {
		name, value, attached := strings.Cut(w.text, "=")
		if !attached && i+1 < len(words) {
			value = words[i+1].text
		}
		switch {
		case !w.fixed():
		case c.has("writes", w.text):
			found.Written = true
		case c.has("options", name):
			a.startingText(value, tools.Started{Optional: true})
		case c.has("dirs", name):
			from = append(from, value+"/")
		case len(w.text) > 2 && c.has("options", w.text[:2]):
			a.startingText(w.text[2:], tools.Started{Optional: true})
		case len(w.text) > 2 && c.has("dirs", w.text[:2]):
			from = append(from, w.text[2:]+"/")
		case c["operands"] != "" && !strings.HasPrefix(w.text, "-"):
			a.starting(w, tools.Started{})
		}
	}
	up := 1
	if c["parents"] != "" {
		up = maxParents
	}
	for _, dir := range from {
		for n := range up {
			for name := range strings.FieldsSeq(c["names"]) {
				a.startingText(dir+strings.Repeat("../", n)+name, found)
			}
		}
	}
}
