// Package sandboxprofile computes what a sandboxed process may reach. It is pure:
// it opens no file and asks the host nothing, so a profile means the same on
// every operating system and every answer can be tested without a sandbox.
//
// A [Profile] is a map from host paths to [Rights], in which the longest path that
// contains the path asked about wins, plus the other axes of confinement: patterns that
// take rights away at any depth, network, Unix sockets, devices, system call groups,
// environment and limits. [Profile.Rights] is the one place that decides what a path
// may be used for. The zero Profile grants nothing.
//
// [Derive] turns what a tool needs into a profile, and [Intersect] is the only way
// in which two profiles combine. It is the exact meet: for every path,
//
//	Intersect(a, b).Rights(path) == a.Rights(path) & b.Rights(path)
//
// and every other axis is the stricter of the two. An operator's profile is
// therefore a ceiling, in whatever order profiles are combined. [Top] restricts
// nothing and is the neutral element.
//
// The subpackages compile a profile for one enforcing mechanism each, from the
// profile and the [Facts] of a host: bwrap (mounts and namespaces), landlock and
// seccomp for Linux, sbpl for macOS. What a mechanism cannot keep is an error of its compiler that names the
// part; nothing is left out silently.
//
// [Warnings] has a sentence for everything in which a profile is looser than the
// default, and [Profile.Digest] and [Profile.Key] name profiles by content: the
// first binds an approval, the second says which calls can share a sandbox.
//
// This package does not know tools, rules or approvals, and it applies nothing.
package sandboxprofile
