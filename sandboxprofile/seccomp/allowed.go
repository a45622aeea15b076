package seccomp

import "strings"

// allowed is the allow-list: what bash, coreutils, git, C compilers, Python, Go,
// Node, Java and Rust call, together with the calls of the same kind. A name
// that is not here is ENOSYS.
func allowed() []Rule {
	rules := calls(strings.Fields(allowedCalls)...)
	rules = append(rules,
		Rule{"personality", equal32(0, 0)},
		Rule{"personality", equal32(0, low32)},
		Rule{"socket", equal32(0, afUnix)},
		Rule{"socketpair", equal32(0, afUnix)},
		Rule{"socket", []Condition{{0, low32, afNetlink}, {2, low32, 0}}},
	)
	for _, family := range []uint64{afInet, afInet6} {
		for _, kind := range []uint64{sockStream, sockDgram} {
			for _, protocol := range inetProtocols {
				rules = append(rules, Rule{"socket", []Condition{{0, low32, family}, {1, sockTypeMask, kind}, {2, low32, protocol}}})
			}
		}
	}
	return rules
}

// inetProtocols are the default one, ICMP (ping sockets), TCP, UDP, ICMPv6 and
// MPTCP. The others (SCTP, DCCP, ...) are modules that a mere socket call loads.
var inetProtocols = []uint64{0, 1, 6, 17, 58, 262}

const allowedCalls = `
	read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 sendfile splice tee copy_file_range
	open openat creat close close_range lseek dup dup2 dup3 fcntl ioctl flock pipe pipe2
	stat fstat lstat newfstatat statx access faccessat faccessat2 statfs fstatfs ustat
	getdents getdents64 getcwd chdir fchdir
	rename renameat renameat2 link linkat unlink unlinkat symlink symlinkat readlink readlinkat mkdir mkdirat rmdir mknod mknodat
	chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat umask utime utimes futimesat utimensat
	truncate ftruncate fallocate fadvise64 readahead sync fsync fdatasync syncfs sync_file_range
	getxattr lgetxattr fgetxattr setxattr lsetxattr fsetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr
	inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
	select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_wait epoll_wait_old epoll_pwait epoll_pwait2
	eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime
	io_setup io_destroy io_submit io_getevents io_pgetevents io_cancel
	brk mmap munmap mprotect mremap madvise mincore msync mlock mlock2 munlock mlockall munlockall membarrier remap_file_pages
	pkey_alloc pkey_free pkey_mprotect memfd_create mseal map_shadow_stack get_mempolicy set_mempolicy mbind set_mempolicy_home_node
	clone fork vfork execve execveat exit exit_group wait4 waitid kill tkill tgkill
	pidfd_open pidfd_send_signal
	getpid getppid gettid getpgid getpgrp setpgid getsid setsid
	getuid geteuid getresuid setuid setreuid setresuid getgid getegid getresgid setgid setregid setresgid setfsuid setfsgid getgroups setgroups
	capget capset prctl arch_prctl seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self
	set_tid_address set_robust_list get_robust_list futex futex_waitv futex_wake futex_wait futex_requeue rseq set_thread_area get_thread_area
	rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo sigaltstack pause restart_syscall
	alarm getitimer setitimer nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time times
	timer_create timer_settime timer_gettime timer_getoverrun timer_delete
	getrlimit setrlimit prlimit64 getrusage getpriority setpriority ioprio_get ioprio_set
	sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam sched_getscheduler sched_setscheduler sched_getattr sched_setattr
	sched_get_priority_max sched_get_priority_min sched_rr_get_interval getcpu
	uname sysinfo getrandom
	connect accept accept4 bind listen getsockname getpeername getsockopt setsockopt shutdown
	sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg
	shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
	cachestat
`
