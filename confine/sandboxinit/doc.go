//go:build linux

// Package sandboxinit is process 1 of a sandbox: cmd/sandgate-init calls Main and
// does nothing else.
//
// bubblewrap has built the namespaces and mounts and dropped the capabilities
// before it executes us. We lay Landlock and the system call filter on ourselves,
// so that every process forked later has them from its first instruction, and
// then serve one action after another over descriptor 3 (see package wire). When
// an action ends we kill everything else in the pid namespace: no part of a call
// outlives it.
//
// We are the only trusted process in the sandbox. A tool runs as the same user,
// so we are not dumpable (no ptrace, no /proc/1/mem), hold no descriptor that a
// tool inherits, and, being process 1, get no signal that we do not handle.
// When the confiner goes away, descriptor 3 reads end of file and we exit, and
// the kernel kills the rest of the namespace; this holds also when a SIGKILL of
// the supervisor has left bubblewrap's middle process behind.
package sandboxinit
