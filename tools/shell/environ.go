package shell

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// envClass is what setting an environment variable can do to a program.
type envClass int8

const (
	envHarmless  envClass = iota
	envUnknown            // a variable that this package knows nothing about
	envDangerous          // known to choose what is run, loaded or read
)

// harmlessVars change how programs print, or how chatty they are.
var harmlessVars = map[string]bool{
	"LANG": true, "LANGUAGE": true, "TZ": true, "TERM": true, "COLUMNS": true, "LINES": true,
	"CI": true, "NO_COLOR": true, "FORCE_COLOR": true, "CLICOLOR": true, "CLICOLOR_FORCE": true, "COLORTERM": true,
	"NODE_ENV": true, "RAILS_ENV": true, "RACK_ENV": true, "APP_ENV": true, "GO111MODULE": true,
	"PYTHONUNBUFFERED": true, "PYTHONDONTWRITEBYTECODE": true, "PYTHONHASHSEED": true, "PYTHONIOENCODING": true, "PYTHONUTF8": true,
	"RUST_BACKTRACE": true, "RUST_LOG": true, "DEBIAN_FRONTEND": true, "CARGO_TERM_COLOR": true,
	"GOOS": true, "GOARCH": true, "GOMAXPROCS": true, "CGO_ENABLED": true, "OMP_NUM_THREADS": true, "SOURCE_DATE_EPOCH": true,
	"DEBUG": true, "VERBOSE": true, "LOG_LEVEL": true, "PY_COLORS": true,
}

// dangerousPrefixes and dangerousVars choose programs, libraries, start-up files
// or configuration. The list serves defaults that allow; where a rule is
// needed, a variable that is not harmless is already too much.
var dangerousPrefixes = []string{
	"LD_", "DYLD_", "BASH", "GIT_", "PYTHON", "PERL", "RUBY", "NODE_", "npm_", "NPM_", "JAVA_", "_JAVA", "JDK_", "LUA_",
	"LESS", "MAN", "XDG_", "CARGO_", "RUSTC", "RUSTUP_", "GEM_", "BUNDLE_", "PIP_", "DOCKER_", "SSH_", "GNUPG", "GTK_", "QT_",
	"GCONV", "GLIBC", "MALLOC_", "TERMINFO", "KUBE", "AWS_", "COMP_", "EPOCH", "POSIX", "DIRSTACK", "GROUPS", "PIPESTATUS", "FUNCNAME", "MAPFILE", "READLINE", "CMAKE_", "MAKE", "GO", "PYTEST_", "SUDO_",
}

var dangerousSuffixes = []string{
	"PATH", "PAGER", "EDITOR", "VISUAL", "BROWSER", "SHELL", "_COMMAND", "_CMD", "_WRAPPER", "OPTIONS", "OPTS", "FLAGS", "_OPT",
	"ASKPASS", "_RSH", "_HOME", "_CONFIG", "RC", "INIT", "_FILE", "_LIB", "_PRELOAD", "_proxy", "_PROXY", "PROG", "_DIR",
}

var dangerousVars = map[string]bool{
	"IFS": true, "PS0": true, "PS1": true, "PS2": true, "PS3": true, "PS4": true, "ENV": true, "HOME": true, "PWD": true, "OLDPWD": true,
	"SHELLOPTS": true, "PROMPT_COMMAND": true, "EDITOR": true, "CC": true, "CXX": true, "LOCALDOMAIN": true, "HOSTALIASES": true,
	"RES_OPTIONS": true, "TMPDIR": true, "TERMCAP": true, "TEXTDOMAIN": true, "TEXTDOMAINDIR": true, "FPATH": true, "GLOBIGNORE": true,
	"EXECIGNORE": true, "HISTFILE": true, "TMOUT": true, "COPROC": true, "OPTERR": true, "OPTIND": true, "HOSTFILE": true,
	"INPUTRC": true, "AR": true, "LD": true, "AS": true, "STRIP": true, "AWKLIBPATH": true, "FUNCNEST": true, "_": true,
}

// classify says what setting name to value could do.
func classify(name string, value word) envClass {
	if harmlessVars[name] || strings.HasPrefix(name, "LC_") {
		return classifyValue(name, value)
	}
	hasPrefix := func(p string) bool { return strings.HasPrefix(name, p) }
	hasSuffix := func(s string) bool { return strings.HasSuffix(name, s) }
	switch {
	case dangerousVars[name], slices.ContainsFunc(dangerousPrefixes, hasPrefix), slices.ContainsFunc(dangerousSuffixes, hasSuffix):
		return envDangerous
	}
	return envUnknown
}

// classifyValue looks at the value of a harmless variable: a locale or time zone
// may be the path of a file, which is parsed.
func classifyValue(name string, v word) envClass {
	locale := strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "LANG") || name == "TERM"
	switch {
	case !locale && name != "TZ":
		return envHarmless
	case !v.fixed():
		return envUnknown
	case strings.Contains(v.text, "..") || strings.HasPrefix(v.text, ":") || path.IsAbs(v.text):
		return envDangerous
	case locale && strings.Contains(v.text, "/"):
		return envDangerous
	}
	return envHarmless
}

// assignment judges NAME=value. A variable of the shell's own is nobody's concern, if
// it is none that decides what programs do.
func (a *analysis) assignment(as *syntax.Assign, forCommand bool) envClass {
	v := fixedWord("")
	if as.Value != nil {
		v = a.fold(as.Value)
	}
	a.inside(as)
	if as.Name == nil {
		return envHarmless
	}
	class := classify(as.Name.Value, v)
	if class == envDangerous {
		a.ask("sets "+as.Name.Value+", which decides what programs do", "run the command without it")
	}
	if !forCommand && class == envUnknown {
		return envHarmless
	}
	return class
}
