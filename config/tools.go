package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/tools/manifest"
)

// Spec is the tool in the words of package manifest.
func (t *Tool) Spec() manifest.Spec {
	s := manifest.Spec{
		Name: t.Name, Description: t.Description, Command: t.Command, OptionsAllowed: t.OptionsAllowed,
		InputSchema: t.InputSchema, Stdin: t.Stdin, JSONOutput: t.Stdout == StdoutJSON,
		Approval: manifest.Approval(t.Approval),
	}
	if t.Sandbox.Env != nil {
		s.Env = t.Sandbox.Env.Set
	}
	for _, secret := range t.Secrets {
		s.Secrets = append(s.Secrets, manifest.Secret{Name: secret.Name, File: secret.File, Env: secret.As == SecretEnv})
	}
	return s
}

// tool checks one custom tool: its name, what package manifest finds in its
// definition, and that its sandbox only narrows.
func (k *checker) tool(t *Tool) {
	field := fieldKey("tools", t.Name)
	k.name(field, t.Name)
	if slices.Contains(k.env.ReservedTools, t.Name) {
		k.problem(field, quote(t.Name)+" is the name of a built-in tool", "choose another name")
	}
	k.toolSandbox(field+".sandbox", &t.Sandbox)
	k.network(field+".sandbox.network", t.Sandbox.Network)
	k.toolTimeout(field, t)
	k.secrets(field+".secrets", t)
	k.credentials(field+".credentials", t.Credentials, field+".sandbox.network", t.Sandbox.Network)
	k.oneValue(field+".credentials", t)
	if k.unusable(field+".command") || k.unusable(field+".input_schema") {
		return
	}
	k.faults(field, t.Spec().Check())
}

func (k *checker) faults(field string, faults []manifest.Fault) {
	for _, f := range faults {
		k.problem(field+"."+f.Field, f.Text, f.Hint)
	}
}

func (k *checker) toolSandbox(field string, s *ToolSandbox) {
	for _, name := range slices.Sorted(maps.Keys(s.Paths)) {
		at := fieldKey(field+".paths", name)
		p := k.path(at, name)
		if p != nil && s.Paths[name] == ReadWrite && p.Mode == ReadOnly {
			k.problem(at, quote(name)+" is read-only in sandbox.paths", "write ro, or give the path mode: rw")
		}
	}
	k.among(field+".presets", "sandbox.presets", s.Presets, k.c.Sandbox.Presets)
	if s.Env != nil {
		k.among(field+".env.allow", "sandbox.env.allow", s.Env.Allow, k.c.Sandbox.Env.Allow)
		k.variables(field+".env.set", s.Env.Set)
	}
	if s.Limits != nil {
		k.narrower(field+".limits", "a tool", s.Limits)
	}
}

// among checks that a list takes its items from another one.
func (k *checker) among(field, whole string, names, known []string) {
	for i, name := range names {
		if !slices.Contains(known, name) && !k.unusable(whole) {
			k.problem(fieldIndex(field, i), quote(name)+" is not in "+whole, didYouMean(name, known))
		}
	}
	k.unique(field, names)
}

func (k *checker) variables(field string, set map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		at := fieldKey(field, name)
		if !envName().MatchString(name) {
			k.problem(at, quote(name)+" is not the name of an environment variable", "")
		}
		if strings.ContainsRune(set[name], 0) {
			k.problem(at, "the value contains a zero byte", "")
		}
	}
}

func (k *checker) toolTimeout(field string, t *Tool) {
	if t.Timeout == nil {
		return
	}
	switch {
	case *t.Timeout > k.c.Sandbox.Limits.Timeout && !k.unusable("sandbox.limits.timeout"):
		k.problem(field+".timeout", "a tool cannot have a higher limit than sandbox.limits", "use the same or less")
	case t.Sandbox.Limits != nil && t.Sandbox.Limits.Timeout > 0:
		k.problem(field+".timeout", "the tool has two time limits", "remove it, or sandbox.limits.timeout of the tool")
	}
}

func (k *checker) secrets(field string, t *Tool) {
	for i := range t.Secrets {
		s := &t.Secrets[i]
		at := fieldKey(field, s.Name)
		switch {
		case !envName().MatchString(s.Name):
			k.problem(at, quote(s.Name)+" is not the name of an environment variable", "")
		case t.Sandbox.Env != nil && t.Sandbox.Env.Set[s.Name] != "":
			k.problem(at, quote(s.Name)+" has a fixed value in sandbox.env.set too", "remove one of the two")
		}
		if !k.unusable(at + ".file") {
			s.File = k.secretFile(at+".file", s.File)
		}
	}
}

// oneValue reports a credential whose variable has another value of the tool's.
func (k *checker) oneValue(field string, t *Tool) {
	for _, c := range t.Credentials {
		at := fieldKey(field, c.Name)
		set := t.Sandbox.Env != nil && t.Sandbox.Env.Set[c.Name] != ""
		if set || slices.ContainsFunc(t.Secrets, func(s ToolSecret) bool { return s.Name == c.Name }) {
			k.problem(at, quote(c.Name)+" has a value from the tool's sandbox.env or secrets too", "remove one of the two")
		}
	}
}

// secretFile makes the path of a secret absolute and free of links, so that the
// file which is kept from the tools is the one that is read.
func (k *checker) secretFile(field, given string) string {
	path := k.file(field, given)
	if k.unusable(field) {
		return path
	}
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		k.problem(field, fmt.Sprintf("%s: %s", quote(path), cause(err)), "")
		return path
	}
	if info, err := os.Stat(resolved); err == nil && info.Mode().Perm()&0o077 != 0 {
		k.notice(field, fmt.Sprintf("other users can access %s (mode %04o); run chmod 600 on it", quote(given), info.Mode().Perm()))
	}
	return resolved
}
