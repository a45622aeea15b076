package shell

import (
	"cmp"
	"slices"
	"strings"
)

// findRuns are the actions that run a command, up to ";" or "{} +".
const findRuns = "-exec -execdir -ok -okdir"

// A findCommand is a find command line taken apart.
type findCommand struct {
	paths    []word   // where it begins, and files that tests read
	commands [][]word // what -exec and the like run
	runs     string   // that it does
	reason   string   // why it does more than search and run them
}

// parseFind reads a find command line.
func parseFind(words []word) findCommand {
	var f findCommand
	i := f.parseStarts(words)
	for i < len(words) {
		w := words[i]
		switch {
		case !w.fixed():
			f.fault("find: a word of the expression is not known before it runs")
			i++
		case hasField(findRuns, w.text):
			i += f.parseCommand(words[i:])
		case known().in("find-tests", w.text), hasField("! ( ) ,", w.text):
			i++
		case known().in("find-values", w.text), known().in("find-files", w.text), f.newerXY(w.text):
			i += f.parseTest(words[i:])
		default:
			f.fault("find " + w.text + " does more than search")
			i++
		}
	}
	return f
}

// onlyTests reports whether no word could be an action, however the others are read.
func onlyTests(words []word) bool {
	return !slices.ContainsFunc(words, func(w word) bool {
		tests := known().in("find-tests", w.text) || known().in("find-values", w.text) || known().in("find-files", w.text)
		return !w.fixed() || !tests && len(w.text) > 1 && w.text[0] == '-' && (w.text[1] < '0' || w.text[1] > '9')
	})
}

// parseStarts reads the options and starting points, which end where the
// expression begins.
func (f *findCommand) parseStarts(words []word) int {
	for i, w := range words {
		if w.fixed() && hasField("-H -L -P -O1 -O2 -O3 --", w.text) {
			continue
		}
		if w.mayBeOption() || w.fixed() && hasField("! ( ) ,", w.text) {
			return i
		}
		f.paths = append(f.paths, w)
	}
	return len(words)
}

func (f *findCommand) fault(reason string) { f.reason = cmp.Or(f.reason, reason) }

func (f *findCommand) newerXY(s string) bool {
	return len(s) == len("-newerXY") && strings.HasPrefix(s, "-newer") && strings.Trim(s[6:], "aBcmt") == ""
}

// parseTest reads a test with a value.
func (f *findCommand) parseTest(words []word) int {
	if len(words) == 1 {
		f.fault("find: " + words[0].text + " lacks its value")
		return 1
	}
	if words[1].split || words[1].glob {
		f.fault("find: a value that could become several words")
	}
	if known().in("find-files", words[0].text) || f.newerXY(words[0].text) && !strings.HasSuffix(words[0].text, "t") {
		f.paths = append(f.paths, words[1])
	}
	return 2
}

func (f *findCommand) parseCommand(words []word) int {
	f.runs = "find " + words[0].text + " runs a program"
	end := 1
	for ; end < len(words) && (!words[end].fixed() || words[end].text != ";"); end++ {
		if words[end].fixed() && words[end].text == "+" && words[end-1].fixed() && words[end-1].text == "{}" {
			break
		}
	}
	f.commands = append(f.commands, replaced(words[1:end], "{}"))
	return min(end+1, len(words))
}

// findCommands judges what find runs, each as a command of its own. The
// directory is that of the file found, with -execdir.
func (a *analysis) findCommands(cmd simpleCommand) {
	for _, words := range parseFind(cmd.words[1:]).commands {
		if len(words) == 0 {
			a.ask("the command for find is missing", "give the command")
			continue
		}
		dirs := a.dirs
		a.dirs = dirSet{anywhere: true}
		a.simple(simpleCommand{words: words, env: cmd.env})
		a.dirs = dirs
	}
}
