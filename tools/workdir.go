package tools

import (
	"fmt"
	"slices"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// WorkingDir resolves the argument dir of a tool that runs programs, and checks
// that a sandbox under profile has the directory: a host path that it may read,
// or one in a directory of its own, where nothing is found but nothing is
// refused. "" is where relative paths start.
func WorkingDir(paths Paths, profile sandboxprofile.Profile, given string) (string, error) {
	if given == "" {
		given = "."
	}
	dir, err := paths.Resolve(given)
	if err != nil {
		return "", InField(err, "dir")
	}
	scratch := func(s string) bool { return sandboxprofile.Contains(s, dir) }
	if profile.Rights(dir)&sandboxprofile.Read == 0 && !slices.ContainsFunc(profile.Scratch, scratch) {
		return "", &approval.Blocked{
			Reason: fmt.Sprintf("the directory %q is outside the sandbox", given),
			Rule:   "sandbox.paths",
			Hint:   "leave out dir to run in the workspace",
		}
	}
	return dir, nil
}
