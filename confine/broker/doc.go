// Package broker makes the changes that a confined program asks for.
//
// Landlock adds rights up and cannot take one away below a directory that has it, so by
// itself it cannot keep a protected name inside a tree that may be written. The broker
// answers that: the programs' own Landlock domain lets them read and execute as the
// profile says, and change nothing. A seccomp filter notifies the broker of each call
// that would change a name, a file's length or its metadata
// (seccomp_unotify(2)). The broker reads the arguments once, finds out which name is
// meant, judges it, and makes the call itself. What must not exist is never made.
//
// It is part of a sandbox's init, which is the programs' ancestor and lies outside of
// their domain, under a domain and a filter of its own. A fault in it can reach the
// protected names of the trees that the profile lets be written, and nothing else.
//
// These rules hold everywhere in it:
//
//   - Arguments are copied once. Nothing is decided about memory that is read again.
//   - procfs is never resolved in the broker's own name: /proc/self is the program's.
//   - A call continues in the kernel only if no answer about memory was given: its
//     registers say all of it, or it opens for reading, which the programs' own
//     Landlock domain decides.
//   - Every failure is a refusal.
//   - Looking at a name and acting on it happen under one lock, which brokers of other
//     sandboxes take too.
package broker
