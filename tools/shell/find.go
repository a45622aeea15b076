package shell

import "strings"

// findTests gives the number of words that each harmless part of a find
// expression takes (find(1)); paths counts as one that names a file.
var findTests = map[string]int{
	"-name": 1, "-iname": 1, "-path": 1, "-ipath": 1, "-wholename": 1, "-iwholename": 1, "-regex": 1, "-iregex": 1, "-regextype": 1,
	"-type": 1, "-xtype": 1, "-size": 1, "-empty": 0, "-mtime": 1, "-mmin": 1, "-atime": 1, "-amin": 1, "-ctime": 1, "-cmin": 1,
	"-newer": 1, "-anewer": 1, "-cnewer": 1, "-samefile": 1, "-perm": 1, "-user": 1, "-group": 1, "-uid": 1, "-gid": 1, "-links": 1,
	"-inum": 1, "-maxdepth": 1, "-mindepth": 1, "-depth": 0, "-d": 0, "-mount": 0, "-xdev": 0, "-daystart": 0, "-follow": 0, "-noleaf": 0,
	"-not": 0, "!": 0, "-a": 0, "-and": 0, "-o": 0, "-or": 0, ",": 0, "(": 0, ")": 0, "-print": 0, "-print0": 0, "-printf": 1, "-ls": 0,
	"-prune": 0, "-quit": 0, "-true": 0, "-false": 0, "-readable": 0, "-writable": 0, "-executable": 0, "-nouser": 0, "-nogroup": 0,
	"-warn": 0, "-nowarn": 0, "-ignore_readdir_race": 0, "-noignore_readdir_race": 0, "-fstype": 1, "-lname": 1, "-ilname": 1, "-used": 1,
	"-context": 1, "-help": 0, "--help": 0, "-version": 0, "--version": 0,
}

var findReads = fieldSet("-newer -anewer -cnewer -samefile")

// findRuns are the actions that run a command, up to ";" or "{} +".
var findRuns = fieldSet("-exec -execdir -ok -okdir")

// A findCommand is a find command line taken apart.
type findCommand struct {
	starts   []word   // where it begins
	files    []word   // files that tests read
	commands [][]word // what -exec and the like run
	reason   string   // why it is more than a search
}

// parseFind reads a find command line.
func parseFind(words []word) findCommand {
	var f findCommand
	i := f.parseStarts(words)
	for i < len(words) {
		w := words[i]
		n, known := findTests[w.text]
		switch {
		case !w.fixed():
			f.fault("find: a word of the expression is not known before it runs")
			i++
		case findRuns[w.text]:
			i += f.parseCommand(words[i:])
		case !known && !f.newerXY(w.text):
			f.fault("find " + w.text + " does more than search")
			i++
		default:
			if f.newerXY(w.text) {
				n = 1
			}
			i += f.parseTest(words[i:], n)
		}
	}
	return f
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
		f.starts = append(f.starts, w)
	}
	return len(words)
}

func (f *findCommand) fault(reason string) {
	if f.reason == "" {
		f.reason = reason
	}
}

func (f *findCommand) newerXY(s string) bool {
	return len(s) == len("-newerXY") && strings.HasPrefix(s, "-newer") && strings.Trim(s[6:], "aBcmt") == ""
}

func (f *findCommand) parseTest(words []word, n int) int {
	if len(words) <= n {
		f.fault("find: " + words[0].text + " lacks its value")
		return len(words)
	}
	for _, v := range words[1 : 1+n] {
		if v.split || v.glob {
			f.fault("find: a value that could become several words")
		}
		if findReads[words[0].text] || f.newerXY(words[0].text) && !strings.HasSuffix(words[0].text, "t") {
			f.files = append(f.files, v)
		}
	}
	return 1 + n
}

func (f *findCommand) parseCommand(words []word) int {
	f.fault("find " + words[0].text + " runs a program")
	for i := 1; i < len(words); i++ {
		plus := words[i].fixed() && words[i].text == "+" && words[i-1].fixed() && words[i-1].text == "{}"
		if plus || words[i].fixed() && words[i].text == ";" {
			f.commands = append(f.commands, replaced(words[1:i], "{}"))
			return i + 1
		}
	}
	f.commands = append(f.commands, replaced(words[1:], "{}"))
	return len(words)
}

// findCommands judges what find runs, each as a command of its own. The
// directory is that of the file found, with -execdir.
func (a *analysis) findCommands(cmd simpleCommand) {
	for _, words := range parseFind(cmd.words[1:]).commands {
		if len(words) == 0 {
			a.ask("find runs a command that is not there", "name the command")
			continue
		}
		dirs := a.dirs
		a.dirs = dirSet{anywhere: true}
		a.simple(simpleCommand{words: words, env: cmd.env})
		a.dirs = dirs
	}
}

// guardFind lets a rule for find cover -exec, whose command was judged on its
// own, and nothing else that does more than search.
func (a *analysis) guardFind(cmd simpleCommand, _ []word) string {
	f := parseFind(cmd.words[1:])
	if strings.HasSuffix(f.reason, " runs a program") && len(f.commands) > 0 && !f.otherFault(cmd.words[1:]) {
		return ""
	}
	return f.reason
}

// otherFault reports whether the expression without its commands is more than a
// search.
func (f *findCommand) otherFault(words []word) bool {
	var rest []word
	for i := 0; i < len(words); i++ {
		if words[i].fixed() && findRuns[words[i].text] {
			var skip findCommand
			i += skip.parseCommand(words[i:]) - 1
			continue
		}
		rest = append(rest, words[i])
	}
	return parseFind(rest).reason != ""
}
