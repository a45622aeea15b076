package needs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/profiles/toolchains"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// A Namesake is a program that is another one inside than outside.
type Namesake struct{ Name, Inside, Outside string }

func (n Namesake) String() string {
	return fmt.Sprintf("%s is %s inside the sandbox; outside it is %s, which is not shown", n.Name, n.Inside, n.Outside)
}

// Namesakes finds programs that run under a name inside and are not those that the person
// has under it: where another version runs without a word, results are wrong without one.
func Namesakes(path string, p sandboxprofile.Profile, typed string) []Namesake {
	sees := sandboxprofile.NewLookup(p)
	dir := "/"
	own := os.Getenv("PATH")
	var list []Namesake
	for _, name := range append(toolchains.Named(), typed) {
		if name == "" || strings.Contains(name, "/") {
			continue
		}
		same := path == own // and all that was looked at is seen inside: then the answer is the same there
		outside, err := tools.LookPath(name, own, dir, func(at string) bool { same = same && sees.Runnable(at); return true })
		if err != nil || same {
			continue
		}
		inside, err := tools.LookPath(name, path, dir, sees.Runnable)
		n := Namesake{name, inside, outside}
		if err == nil && inside != outside && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// PrintToolchains prints, on a terminal's error stream, what programs see of the
// person's toolchains: everything with verbose, otherwise only what differs from
// outside.
func PrintToolchains(a *cli.App, d assemble.Derived, verbose bool, typed string) {
	line := func(format string, args ...any) {
		fmt.Fprintf(a.Err, "sandgate: %s\n", approval.EscapeLine(fmt.Sprintf(format, args...)))
	}
	if verbose {
		for _, g := range d.Found.Grants {
			line("shown: %s (%s): %s", g.Path, g.Rights, g.Reason)
		}
		for _, r := range d.Found.Repository {
			word := "read-only"
			if r.Write {
				word = "writable, except hooks, settings and other work trees"
			}
			line("shown: %s (%s): the repository of the workspace", r.Path, word)
		}
		for _, s := range d.Found.Secrets {
			line("hidden: %s: it contains a token or a password", s)
		}
		for _, n := range slices.Concat(d.Found.Tokens, d.Found.Readable, d.Found.Notes, d.Found.Unfollowed) {
			line("note: %s", n)
		}
		for _, name := range d.Withheld {
			line("left out: %s looks like a secret; to pass it: --env %s", name, name)
		}
	}
	for _, n := range Namesakes(d.Path, d.Programs, typed) {
		line("warning: %s%s", n, remedy(d, n.Outside))
	}
}

// PrintLeftOut names variables that the person has set and that a program which failed has
// written about, but did not get: it may have looked for them.
func PrintLeftOut(a *cli.App, d assemble.Derived) {
	words := strings.FieldsFunc(d.Said, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	const most = 4
	told := 0
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case told == most, !slices.Contains(words, name), slices.Contains(d.Passed, name), madeInside(name, value):
			continue
		}
		told++
		but := ""
		if assemble.LooksSecret(kv) {
			but = ", because it looks like a secret"
		}
		fmt.Fprintf(a.Err, "sandgate: hint: %s\n", approval.EscapeLine(fmt.Sprintf("%s is set outside but was not passed%s; to pass it: --env %s", name, but, name)))
	}
}

// PrintUnread names the directories that a typed command which failed did not have.
func PrintUnread(a *cli.App, d assemble.Derived) {
	for _, dir := range d.Unread {
		fmt.Fprintf(a.Err, "sandgate: hint: %s\n", approval.EscapeLine(fmt.Sprintf("the command does not see %s, which has read_approval: true and which it does not name; to show it: --mode approve_all", dir)))
	}
}

// PrintUnfollowed says what of a repository, and of git's settings, is not shown, where git has failed.
func PrintUnfollowed(a *cli.App, d assemble.Derived) {
	if !strings.Contains(d.Said, "fatal: ") {
		return
	}
	for _, n := range slices.Concat(d.Found.Tokens, d.Found.Unfollowed) {
		fmt.Fprintf(a.Err, "sandgate: hint: %s\n", approval.EscapeLine(n))
	}
}

// madeInside reports whether a variable would be of no use in a sandbox: it has one of its
// own, or it names a socket, which is not to be had there.
func madeInside(name, value string) bool {
	info, err := os.Stat(value)
	return strings.HasSuffix(strings.ToUpper(name), "_PROXY") || strings.HasPrefix(name, "XDG_") || strings.HasPrefix(value, "unix:") ||
		slices.Contains([]string{"TMPDIR", "PWD", "OLDPWD", "SHLVL"}, name) || err == nil && info.Mode().Type() == os.ModeSocket
}

// remedy is the flags that show a program, as an end of a sentence; "" if none would.
func remedy(d assemble.Derived, program string) string {
	flags := flagsToShow(d, program)
	if len(flags) == 0 {
		return ""
	}
	return "; to show it: " + strings.Join(flags, " ")
}

func flagsToShow(d assemble.Derived, program string) (flags []string) {
	for _, n := range ToShow(d, program) {
		flags = append(flags, "--ro "+tools.QuoteWord(n.Path))
	}
	return flags
}

// ToShow are the paths that have to be shown for a program to run.
func ToShow(d assemble.Derived, program string) (needs []Need) {
	h := assemble.Host(d.Needs, "")
	h.Roots = d.Needs.Roots
	for _, path := range toolchains.Needed(h, program) {
		if !d.CanBeGranted(path, false) {
			return nil
		}
		needs = append(needs, Need{Path: path})
	}
	return needs
}

// PrintWhere says where a program is that was not found inside, and what would show it.
func PrintWhere(a *cli.App, d assemble.Derived, name string) {
	if named := ProgramOutside(name); named != "" {
		fmt.Fprintf(a.Err, "sandgate: hint: %s\n", approval.EscapeLine(fmt.Sprintf("outside the sandbox, it is %s, which is not shown%s", named, remedy(d, named))))
	}
}

// ProgramOutside is the path by which a person finds a program; "" if he does not.
func ProgramOutside(name string) string {
	cwd, err := os.Getwd()
	if err != nil {
		return ""
	}
	path, err := tools.LookPath(name, os.Getenv("PATH"), cwd, func(string) bool { return true })
	if err != nil {
		return ""
	}
	if strings.Contains(name, "/") {
		if abs, err := filepath.Abs(name); err == nil {
			return abs
		}
		return path
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if real, err := tools.LookPath(filepath.Join(dir, name), "", cwd, func(string) bool { return true }); err == nil && real == path {
			return filepath.Join(dir, name)
		}
	}
	return path
}
