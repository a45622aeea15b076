// Package seccomp compiles the system call filter: a BPF program for seccomp(2).
//
// The filter is an allow-list with a deny-list in front. A call that a rule of a
// [Group] matches gets the group's errno; otherwise a call on the allow-list runs;
// everything else gets ENOSYS. A C library takes that for a kernel that is too old, and
// falls back. Calls that are newer than this package are thus refused. A call made
// under another architecture than the machine's own (i386, x32) kills the process: its
// numbers mean other calls.
//
// A profile lifts groups by name. A lifted group's rules turn from deny to allow.
//
// [Groups] is the data with one reason each, [Listing] shows it as text, and
// [Filter] makes the program on Linux: with libseccomp in a build with cgo, with an assembler of our own
// in one without. Tests evaluate the groups in plain Go, run the programs in an interpreter, and compare
// libseccomp's with the groups and the assembler's with libseccomp's. The program that lifts nothing was made
// before, and lies in shipped/ with the numbers of the calls; libseccomp made both.
//
// A filter sees registers, never memory. That is why clone3 and openat2, whose
// flags lie in a struct, are refused: C libraries fall back to clone and openat.
package seccomp
