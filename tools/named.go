package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Argument gives the path that an agent means by a path argument of a tool, still
// relative if it was. A path that begins with the name of a rule, such as
// "notes/today.txt", means what is below that rule's root, unless the working directory
// has an entry of that name. Where it has one, both readings are possible and neither
// is taken: the error shows both. Only of the rule whose root is the working directory
// the name is then that of an entry like any other.
//
// Words of a command line have no such reading: a program knows no names of rules, and
// to judge another file than the one that it opens would be a hole.
func (p Paths) Argument(path string) (string, error) {
	name, rest, _ := strings.Cut(path, "/")
	i := slices.IndexFunc(p.Rules, func(r PathRule) bool { return r.Name == name })
	if i < 0 {
		return path, nil
	}
	rule := &p.Rules[i]
	means := rule.Root
	if rest != "" { // not joined: "link/.." is resolved, not cleaned away
		means = strings.TrimSuffix(rule.Root, "/") + "/" + rest
	}
	entry, err := p.resolve(name)
	switch {
	case err != nil || !p.shows(entry) || !exists(filepath.Join(p.Start(), name)):
		return means, nil
	case entry == rule.Root, rule.Root == p.Start():
		return path, nil
	}
	return "", &ArgumentError{Field: "path",
		Reason: fmt.Sprintf("could mean %s, or %s of %s", filepath.Join(p.Start(), path), means, rule.Label()),
		Hint:   fmt.Sprintf("write %q for the first, or the whole path of the other", "./"+path)}
}

// DecideArgument is Decide for a path argument of a tool.
func (p Paths) DecideArgument(path string, write bool) (PathDecision, error) {
	means, err := p.Argument(path)
	if err != nil {
		return PathDecision{}, err
	}
	return p.Decide(means, write)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
