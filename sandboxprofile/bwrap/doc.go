// Package bwrap compiles a profile to the command line of bubblewrap(1), version
// 0.8.0 or newer: namespaces and mounts. [Compile] is pure.
//
// The sandbox starts from an empty root; every granted path is bind-mounted to
// where it lies on the host. What the profile takes away inside a granted
// directory is mounted over: protected files with themselves, read-only; hidden
// files with a device node that cannot be opened; hidden directories with an
// empty directory that cannot be entered.
//
// What mounts cannot say is left to the other mechanisms, which must be applied
// inside: read or execute withheld where the other one is granted, and system
// calls (packages landlock and seccomp); environment and limits (the launcher).
// What none of them could keep is an error that names it.
//
// A mount cannot cover a symbolic link, nor a file that does not exist yet. A link
// that a pattern names can be replaced from inside if its directory is writable,
// and a file can be created under a protected name; the caller that runs the
// sandbox has to look for both afterwards.
package bwrap
