package sandboxprofile

import "slices"

// systemTrees belong to the operating system and have no data of the user's.
// Protect and Hide speak of the user's files, so they do not apply below these:
// finding every match in /usr would cost more than most calls.
var systemTrees = []string{"/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/sys", "/usr"}

// SystemTrees lists the directories of the operating system, where patterns do
// not apply.
func SystemTrees() []string { return slices.Clone(systemTrees) }

// IsSystemTree reports whether name lies at or below a directory of the
// operating system, where patterns do not apply.
func IsSystemTree(name string) bool {
	return slices.ContainsFunc(systemTrees, func(tree string) bool { return Contains(tree, name) })
}
