package shell

import (
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/sandgate/sandgate/tools"
)

// Most command lines are one program with literal arguments. For those bash would look
// the program up and execute it in its own place, so it is executed at once: what bash
// costs to start is as much again as a short program, and the file that runs is then
// the very one that was pinned.

// direct gives the program and the arguments of a command line that needs no shell, nil
// for any other. It is sure that bash would do nothing else: whatever has a meaning to
// the shell, or could have one, is left to bash.
func (t *Tool) direct(command, dir string) (path string, argv []string) {
	argv = literalWords(command)
	if argv == nil || ofTheShell(argv) || !t.plainEnvironment() {
		return "", nil
	}
	path, err := tools.LookPath(argv[0], t.searchPath(), dir, t.sees.Runnable)
	if err != nil || !tools.IsELF(path) { // bash has words for what is not there, and runs scripts without a "#!"
		return "", nil
	}
	return path, argv
}

// literalWords gives the words of a command line that is one simple command of words
// without a meaning of their own, nil for any other.
func literalWords(command string) []string {
	if strings.ContainsAny(command, "`$\\*?[]{}~()<>|&;#!^\n\r\t\x00") {
		return nil // without a look at what is quoted
	}
	f, err := parse(command, bash)
	if err != nil || len(f.Stmts) != 1 {
		return nil
	}
	s := f.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Negated || s.Background || s.Coprocess || s.Disown || len(s.Redirs) > 0 || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return nil
	}
	var argv []string
	for _, w := range call.Args {
		var text strings.Builder
		for _, part := range w.Parts {
			if !appendLiteral(&text, part) {
				return nil
			}
		}
		argv = append(argv, text.String())
	}
	return argv
}

// ofTheShell reports whether bash itself does what the words say. Without arguments,
// true and false are no other than the programs of that name; %1 is a job.
func ofTheShell(argv []string) bool {
	name := argv[0]
	if (name == "true" || name == "false") && len(argv) == 1 {
		return false
	}
	return name == "" || name[0] == '%' || known().in("builtins", name) || known().in("reserved", name)
}

// plainEnvironment reports whether bash takes names for what they are: nothing changes
// how it reads, and its search path is all absolute.
func (t *Tool) plainEnvironment() bool {
	dirs := filepath.SplitList(t.searchPath())
	return t.Profile.Env.Has("PATH") && t.altering() == "" && len(dirs) > 0 && !slices.ContainsFunc(dirs, func(dir string) bool { return !filepath.IsAbs(dir) })
}

// altering names a variable of the environment that changes what shells and programs
// make of a command line: a start-up file, options, exported functions.
func (t *Tool) altering() string {
	for _, entry := range t.Env {
		switch name := tools.EnvName(entry); {
		case strings.HasPrefix(name, "BASH"), hasField("ENV SHELLOPTS POSIXLY_CORRECT EXECIGNORE CDPATH GLOBIGNORE", name):
			return name
		}
	}
	return ""
}

// withDir tells the program where it is, as bash would.
func withDir(env []string, dir string) []string {
	return tools.WithEnv(env, map[string]string{"PWD": dir})
}
