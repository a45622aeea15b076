package tools

import (
	"fmt"
	"slices"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// WorkingDir resolves the argument dir of a tool that runs programs, and checks
// that its sandbox has the directory: a host path that may be read there, or one in
// a directory of its own (scratch), where nothing is found but nothing is refused. ""
// is where relative paths start: the configuration has seen to it that programs are
// shown that one.
func WorkingDir(paths Paths, sees *sandboxprofile.Lookup, scratch []string, given string) (string, error) {
	if given == "" {
		return paths.Resolve(".")
	}
	named, err := paths.Argument(given)
	if err != nil {
		return "", InField(err, "dir")
	}
	dir, err := paths.Resolve(named)
	if err != nil {
		return "", InField(err, "dir")
	}
	around := func(s string) bool { return sandboxprofile.Contains(s, dir) }
	if sees.Rights(dir)&sandboxprofile.Read == 0 && !slices.ContainsFunc(scratch, around) {
		return "", &approval.Blocked{
			Reason: fmt.Sprintf("the directory %q is outside the sandbox", given),
			Rule:   "sandbox.paths",
			Hint:   "remove dir to run in " + paths.Start(),
		}
	}
	return dir, nil
}
