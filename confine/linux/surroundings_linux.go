package linux

import (
	"bufio"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// surroundings says, in short, what around this process bars it from building a sandbox
// out of namespaces, or takes something from it. What can be tried is tried, with
// arguments that the kernel refuses for another reason than a filter.
func surroundings() []string {
	var found []string
	add := func(text string, is bool) {
		if is {
			found = append(found, text)
		}
	}
	// The kernel has EINVAL for a process with several threads, as every Go program is.
	namespaces := refusedByFilter(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	keys := refusedByFilter(unix.SYS_KEYCTL, ^uintptr(0))
	switch {
	case namespaces && keys:
		add("a container's system call filter refuses user namespaces, and the use of keys", true)
	default:
		add("a system call filter refuses user namespaces", namespaces)
		add("a system call filter refuses the use of keys", keys)
	}
	add("user namespaces are switched off", sysctl("user/max_user_namespaces") == "0" || sysctl("kernel/unprivileged_userns_clone") == "0")
	add("AppArmor leaves user namespaces without rights", sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1")
	add("/proc is masked", procIsMasked())
	return found
}

func refusedByFilter(call, arg uintptr) bool {
	_, _, errno := unix.RawSyscall(call, arg, 0, 0)
	return errno == unix.EPERM || errno == unix.ENOSYS
}

// procIsMasked reports whether something is mounted over parts of /proc, which bars an
// unprivileged user namespace from mounting one of its own.
func procIsMasked() bool {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return true
	}
	defer f.Close()
	own := []string{"binfmt_misc", "autofs"} // the kernel's own places for them lie there
	for lines := bufio.NewScanner(f); lines.Scan(); {
		mount, fs, _ := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(mount)
		if len(fields) > 4 && strings.HasPrefix(fields[4], "/proc/") && !slices.Contains(own, strings.Fields(fs + " ?")[0]) {
			return true
		}
	}
	return false
}
