package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

const workdirKey = "sandbox.workdir"

// StartDir returns the directory in which programs and relative paths of file tools start: the
// configured one, else the first of `sandbox.paths` that programs see and may write, else the
// first that they see, else "/", which exists in every sandbox.
func (c *Config) StartDir() string {
	if c.Sandbox.Workdir != "" && c.ProgramsSee(c.Sandbox.Workdir) {
		return c.Sandbox.Workdir
	}
	start := "/"
	for i := range c.Sandbox.Paths {
		p := &c.Sandbox.Paths[i]
		switch {
		case !p.SeenByPrograms(), p.IsFile:
		case p.Mode == ReadWrite:
			return p.Root
		case start == "/":
			start = p.Root
		}
	}
	return start
}

// Vouched returns the configuration without the workspace's file if that file is not trusted,
// else c. It resolves the relative names in a person's rules and tools, so that a repository
// that removes directories cannot make them mean its own files.
func (c *Config) Vouched() *Config {
	if slices.ContainsFunc(c.Sources, func(s Source) bool { return s.Tier == TierWorkspace && !s.Trusted }) {
		return c.Above
	}
	return c
}

// SeenByPrograms reports whether programs have the directory in their sandbox. A mount
// cannot keep them to the names with some suffixes, so they do not see one that is
// limited to such; the file tools do.
func (p *Path) SeenByPrograms() bool { return len(p.Suffixes) == 0 }

// ProgramsSee reports whether a directory is in one of `sandbox.paths` that programs see.
func (c *Config) ProgramsSee(dir string) bool {
	p := longest(c.Sandbox.Paths, dir)
	return p != nil && p.SeenByPrograms()
}

// workdir makes the named directory absolute and free of links. One that programs do
// not see would let none of them start.
func (k *checker) workdir() {
	s := &k.c.Sandbox
	if s.Workdir == "" || k.unusable(workdirKey) {
		return
	}
	given := s.Workdir
	path, err := expand(given, k.base, k.env.Home)
	if err != nil {
		k.problem(workdirKey, err.Error(), "")
		return
	}
	if s.Workdir, err = filepath.EvalSymlinks(path); err != nil {
		k.problem(workdirKey, fmt.Sprintf("%s: %s", quote(path), cause(err)), k.missingHint(given, path))
		return
	}
	if info, err := os.Stat(s.Workdir); err != nil || !info.IsDir() {
		k.problem(workdirKey, quote(s.Workdir)+" is not a directory", "")
		return
	}
	if k.unusable(pathsKey) {
		return
	}
	switch p := longest(s.Paths, s.Workdir); {
	case p == nil:
		k.problem(workdirKey, quote(s.Workdir)+" is not in sandbox.paths: programs cannot see it",
			"add it to sandbox.paths, or use a directory inside one of them")
	case !p.SeenByPrograms():
		k.problem(workdirKey, fmt.Sprintf("%s is in sandbox.paths.%s, which is limited to %v: only file tools can see it", quote(s.Workdir), p.Name, p.Suffixes),
			"use a directory in a path without suffixes")
	}
}

// settleWorkdir tells of a start directory that programs no longer see, because another
// file has taken its path away or limited it.
func (m *merger) settleWorkdir() {
	c := m.c
	if c.Sandbox.Workdir == "" || c.ProgramsSee(c.Sandbox.Workdir) {
		return
	}
	c.Notices = append(c.Notices, Notice{positionIn(c, workdirKey), workdirKey,
		fmt.Sprintf("programs can no longer see %s; they start in %s", quote(c.Sandbox.Workdir), quote(c.StartDir()))})
}
