package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/internal/statedir"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/profiles"
	"github.com/sandgate/sandgate/profiles/repositories"
	"github.com/sandgate/sandgate/profiles/toolchains"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// hostOf is the machine as this person uses it, with the configured directories.
func hostOf(n sandboxprofile.Needs, program string) toolchains.Host {
	return toolchains.Host{
		Home: n.Home, Path: os.Getenv("PATH"), Env: os.Getenv, Roots: n.Roots, Program: program,
		Never: ownDirectories(), Secret: looksSecret,
		Hidden: func(path string) bool {
			for p := path; p != "/"; p = filepath.Dir(p) {
				if slices.ContainsFunc(n.Hide, func(pattern string) bool { return sandboxprofile.MatchPattern(pattern, p) }) {
					return true
				}
			}
			return false
		},
		Preset: func(name string) []sandboxprofile.Grant {
			p, err := profiles.Preset(name)
			if err != nil {
				return nil
			}
			return p.Grants
		},
	}
}

// ownDirectories are where sandgate keeps files of its own.
func ownDirectories() []string {
	var list []string
	if dir, err := statedir.Path(""); err == nil {
		list = append(list, filepath.Clean(dir))
	}
	if dir, err := os.UserConfigDir(); err == nil {
		list = append(list, filepath.Join(dir, "sandgate"))
	}
	if socket, err := unixsock.DefaultPath(unixsock.AgentSocket); err == nil {
		list = append(list, filepath.Dir(socket))
	}
	for i, dir := range list {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			list[i] = real
		}
	}
	return list
}

// looksSecret reports whether a text, of a file of settings or a variable, holds what the
// log would not keep, or gives a value to a name of a secret.
func looksSecret(text string) bool {
	r, err := secretRules()
	if err != nil {
		return true
	}
	low := strings.ToLower(text)
	named := slices.ContainsFunc(secretNames, func(name string) bool { return strings.Contains(low, name) })
	if !named && r.String(text) == text { // most files: a search for words costs a tenth of the expressions
		return false
	}
	text = comments().ReplaceAllString(text, "")
	return secretSetting().MatchString(text) || r.String(text) != text
}

// secretNames are the ends of names of secrets, in lower case. A text without any of them
// gives a value to none.
var secretNames = []string{"password", "passwd", "passphrase", "secret", "token", "apikey", "api_key", "_auth", "accesskey", "access_key"}

var (
	secretRules = sync.OnceValues(func() (*audit.Redactor, error) { return audit.DefaultRedactor(nil) })
	// comments hold examples of passwords.
	comments = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?ms)<!--.*?-->|^[ \t]*[#;][^\n]*$`) })
	// secretSetting is "password = x", "_authToken=x", "token: x", "<password>x</password>",
	// "machine a login b password c". A reference to a variable is no secret.
	secretSetting = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?im)(?:^|[\s"':;_.<-])[\w.-]*(?:` + strings.Join(secretNames, "|") + `)["']?(?:\s*[:=]\s*|>|[ \t]+)["']?[^\s"'$<>{}()\[\],;]{6,}`)
	})
)

// detect adds to needs what the programs on PATH need, if the configuration wants that.
func detect(cfg *config.Config, n *sandboxprofile.Needs, program string) toolchains.Found {
	if !slices.Contains(cfg.Sandbox.Presets, config.DetectPreset) {
		return toolchains.Found{Path: os.Getenv("PATH")}
	}
	found := toolchains.Find(hostOf(*n, program))
	n.Presets = append(n.Presets, sandboxprofile.Preset{
		Name: config.DetectPreset, Reason: "What the programs on PATH need.", Grants: found.Grants,
	})
	return found
}

// repository adds to needs what git needs of the repository that a workspace belongs to,
// where that is not a part of it. What is configured stays as it is configured.
func repository(n *sandboxprofile.Needs, found *toolchains.Found, workspace string) {
	git := repositories.Find(workspace, n.Home)
	found.Unfollowed = git.Notes
	configured := n.Roots
	for _, r := range git.Roots {
		if slices.ContainsFunc(configured, func(c sandboxprofile.Root) bool { return sandboxprofile.Contains(c.Path, r.Path) }) {
			continue
		}
		n.Roots = append(n.Roots, r)
		found.Repository = append(found.Repository, r)
	}
}

// hostEnv is the environment that programs may get variables of.
func hostEnv(found toolchains.Found) []string {
	env := os.Environ()
	for i, kv := range env {
		if strings.HasPrefix(kv, "PATH=") {
			env[i] = "PATH=" + found.Path
		}
	}
	return env
}

// allowedNames are the variables that programs get. Of those that nobody has named, it is
// the ones that are there and do not look like a secret; withheld are the others.
func allowedNames(cfg *config.Config) (names, withheld []string) {
	if cfg.Set("sandbox.env.allow") {
		return slices.Clone(cfg.Sandbox.Env.Allow), nil
	}
	shipped := config.Variables()
	for i, name := range cfg.Sandbox.Env.Allow {
		value, set := os.LookupEnv(name)
		switch {
		case i >= len(shipped) || name != shipped[i].Name: // of the command line
			names = append(names, name)
		case set && looksSecret(name+"="+value):
			withheld = append(withheld, name)
		case set:
			names = append(names, name)
		}
	}
	return names, withheld
}

// A namesake is a program that is another one inside than outside.
type namesake struct{ name, inside, outside string }

func (n namesake) String() string {
	return fmt.Sprintf("%s is %s inside, and %s outside, which is not shown", n.name, n.inside, n.outside)
}

// namesakes finds programs that run under a name inside and are not those that the person
// has under it: where another version runs without a word, results are wrong without one.
func namesakes(path string, p sandboxprofile.Profile, typed string) []namesake {
	sees := sandboxprofile.NewLookup(p)
	dir := "/"
	everything := func(string) bool { return true }
	var list []namesake
	for _, name := range append(toolchains.Named(), typed) {
		if name == "" || strings.Contains(name, "/") {
			continue
		}
		outside, err := tools.LookPath(name, os.Getenv("PATH"), dir, everything)
		if err != nil {
			continue
		}
		inside, err := tools.LookPath(name, path, dir, sees.Runnable)
		n := namesake{name, inside, outside}
		if err == nil && inside != outside && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// tellToolchains says on a terminal's error stream what programs see of the person's
// toolchains: everything with verbose, and else what is not as it is outside.
func (a *app) tellToolchains(d derived, verbose bool, typed string) {
	line := func(format string, args ...any) {
		fmt.Fprintf(a.err, "sandgate: %s\n", approval.EscapeLine(fmt.Sprintf(format, args...)))
	}
	if verbose {
		for _, g := range d.found.Grants {
			line("shown: %s (%s): %s", g.Path, g.Rights, g.Reason)
		}
		for _, r := range d.found.Repository {
			word := "read-only"
			if r.Write {
				word = "writable, but for hooks, settings and other work trees"
			}
			line("shown: %s (%s): the repository of the workspace", r.Path, word)
		}
		for _, s := range d.found.Secrets {
			line("hidden: %s: it holds a token or a password", s)
		}
		for _, n := range append(d.found.Notes, d.found.Unfollowed...) {
			line("note: %s", n)
		}
		for _, name := range d.withheld {
			line("left out: %s looks like a secret; to pass it: --env %s", name, name)
		}
	}
	for _, n := range namesakes(d.path, d.programs, typed) {
		line("warning: %s%s", n, remedy(d, n.outside))
	}
}

// tellLeftOut names variables that the person has set and that a program which failed has
// written about, but did not get: it may have looked for them.
func (a *app) tellLeftOut(d derived) {
	words := strings.FieldsFunc(d.said, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	const most = 4
	told := 0
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case told == most, !slices.Contains(words, name), slices.Contains(d.passed, name), madeInside(name, value):
			continue
		}
		told++
		but := ""
		if looksSecret(kv) {
			but = ", because it looks like a secret"
		}
		fmt.Fprintf(a.err, "sandgate: hint: %s\n", approval.EscapeLine(fmt.Sprintf("%s is set outside and was left out%s; to pass it: --env %s", name, but, name)))
	}
}

// tellUnfollowed says what of a repository is not shown, where git has failed.
func (a *app) tellUnfollowed(d derived) {
	if !strings.Contains(d.said, "fatal: ") {
		return
	}
	for _, n := range d.found.Unfollowed {
		fmt.Fprintf(a.err, "sandgate: hint: %s\n", approval.EscapeLine(n))
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
func remedy(d derived, program string) string {
	flags := flagsToShow(d, program)
	if len(flags) == 0 {
		return ""
	}
	return "; to show it: " + strings.Join(flags, " ")
}

func flagsToShow(d derived, program string) (flags []string) {
	for _, n := range needsToShow(d, program) {
		flags = append(flags, "--ro "+shellWord(n.Path))
	}
	return flags
}

// needsToShow are the paths that have to be shown for a program to run.
func needsToShow(d derived, program string) (needs []need) {
	h := hostOf(d.needs, "")
	h.Roots = d.needs.Roots
	for _, path := range toolchains.Needed(h, program) {
		needs = append(needs, need{Path: path})
	}
	return needs
}

// tellWhere says where a program is that was not found inside, and what would show it.
func (a *app) tellWhere(d derived, name string) {
	if named := programOutside(name); named != "" {
		fmt.Fprintf(a.err, "sandgate: hint: %s\n", approval.EscapeLine(fmt.Sprintf("outside the sandbox it is %s, which is not shown%s", named, remedy(d, named))))
	}
}

// programOutside is the path by which a person finds a program; "" if he does not.
func programOutside(name string) string {
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
