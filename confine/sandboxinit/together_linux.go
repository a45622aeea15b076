package sandboxinit

import (
	"slices"

	"golang.org/x/sys/unix"
)

// A thread can have a table of descriptors of its own, which /proc/PID/fd does not show: its
// descriptors would not be counted. Reading the table of every thread would cost more than
// all the rest of a count. So a thread is made with its process's table, or not at all, and
// none parts with it: close_range(2) answers as a kernel that does not know the flag. (Of
// clone3(2) and unshare(2) there is nothing to fear: other filters bar them.)
//
// Nor does a program turn huge pages on again, of which it could keep more than is counted. Nor
// does it set the size of its table of futexes, a GiB of the kernel's memory in one call, or what
// later kernels add to prctl(2): they answer as a kernel that does not know it.
//
// Our own child parts with ours before it becomes the program, and enters its domains, so that
// this is the last filter that is laid on.
//
// Nor does it make Landlock rulesets. One holds megabytes in the kernel, a domain more, and no
// figure of a process shows that: only a cgroup counts it. Without one, programs see a kernel
// without Landlock, for which those that confine themselves are made too.
var (
	together  = assembled(slices.Concat(loadCall, noRulesets, sharedTables))
	inACgroup = assembled(slices.Concat(loadCall, sharedTables))
)

var loadCall = []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callNumber}}

var noRulesets = []unix.SockFilter{
	{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jf: 2},
	{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: unix.SYS_LANDLOCK_RESTRICT_SELF, Jt: 1}, // landlock_add_rule(2) is between
	{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
}

var sharedTables = []unix.SockFilter{
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLOSE_RANGE, Jf: 2},
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callArgument + 2*8}, // flags
	{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLOSE_RANGE_UNSHARE, Jt: 10, Jf: 11},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CLONE, Jf: 3},
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callArgument}, // flags
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: unix.CLONE_THREAD | unix.CLONE_FILES},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.CLONE_THREAD, Jt: 6, Jf: 7},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PRCTL, Jf: 6},
	{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callArgument}, // what to set
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PR_SET_THP_DISABLE, Jt: 3},
	{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: prFutexHash, Jf: 3},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PR_SET_VMA, Jt: 2},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PR_SET_PTRACER, Jt: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)},
	{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
}

// Where struct seccomp_data has the number of a call, and its arguments, of which a filter
// reads the low halves first on all architectures here (seccomp(2)).
const (
	callNumber   = 0
	callArgument = 16
)

// prFutexHash is PR_FUTEX_HASH of linux/prctl.h (Linux 6.16), the first of the options that no
// program needs. Those beyond have large numbers.
const prFutexHash = 78

func assembled(f []unix.SockFilter) *unix.SockFprog {
	return &unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
}
