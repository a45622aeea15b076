// Package landlock compiles a profile to Landlock rules, the second wall behind
// the mounts of a bubblewrap sandbox. [Compile] is pure; the sandbox's init opens
// the paths and restricts itself.
//
// Landlock adds rights up: what a rule grants at a directory holds for everything
// below, and no rule takes anything away. So the rules here keep read, write and
// execute apart, which mounts cannot, and leave what is taken away inside a granted
// directory (a read-only subdirectory, protected and hidden files) to the mounts.
// Where neither could keep it, Compile fails and names the path.
//
// The words are the kernel's (landlock(7), Documentation/userspace-api/landlock.rst).
package landlock
