package tools

import (
	"slices"
	"strings"
)

// BuildEnv makes the environment of a program in a sandbox, as NAME=value sorted
// by name. It holds the variables of host (NAME=value, as os.Environ gives them)
// whose names are in allow, then those of set, which win because the
// configuration spells them out. HOME, if allowed or set, is the private home
// and never the host's.
//
// A variable that makes the dynamic loader, libc or a shell run code of its own
// is never taken from the host, even when allow names it: the supervisor may
// have been started with one, and a program that a person approved by its path
// would then run something else. Setting it explicitly is a decision, and holds.
// An entry that execve(2) cannot carry is left out.
func BuildEnv(allow []string, set map[string]string, host []string, home string) []string {
	vars := map[string]string{}
	for _, entry := range host {
		name, value, ok := strings.Cut(entry, "=")
		if ok && validEnvName(name) && slices.Contains(allow, name) && !injectsCode(name) {
			vars[name] = value
		}
	}
	for name, value := range set {
		if validEnvName(name) && !strings.ContainsRune(value, 0) {
			vars[name] = value
		}
	}
	_, setHome := set["HOME"]
	if home != "" && (setHome || slices.Contains(allow, "HOME")) {
		vars["HOME"] = home
	}
	return WithEnv(nil, vars)
}

// WithEnv puts variables into an environment, sorted by name as plans have it.
func WithEnv(environ []string, set map[string]string) []string {
	env := slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		_, replaced := set[EnvName(kv)]
		return replaced
	})
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	slices.SortFunc(env, func(a, b string) int { return strings.Compare(EnvName(a), EnvName(b)) })
	return env
}

// LookupEnv finds name in env, a list of NAME=value.
func LookupEnv(env []string, name string) (value string, ok bool) {
	for _, entry := range env {
		if n, v, ok := strings.Cut(entry, "="); ok && n == name {
			return v, true
		}
	}
	return "", false
}

// EnvName is the name part of NAME=value.
func EnvName(entry string) string {
	name, _, _ := strings.Cut(entry, "=")
	return name
}

func validEnvName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "=\x00")
}

// injectsCode reports whether a variable changes which code a program runs
// before the program has a say: the dynamic loader's (ld.so(8), dyld(1)), those
// by which glibc loads conversion modules and tunes itself, and the shell's
// start-up files, options and exported functions (bash(1)).
func injectsCode(name string) bool {
	switch name {
	case "GCONV_PATH", "GLIBC_TUNABLES", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND":
		return true
	}
	for _, prefix := range []string{"LD_", "DYLD_", "BASH_FUNC_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
