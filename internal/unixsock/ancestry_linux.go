package unixsock

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// IsDescendant reports whether process pid is a child of process ancestor, a
// child's child, and so on. What runs in a sandbox is a descendant of the
// supervisor, also after it has forked away: the first process of a PID
// namespace inherits its orphans.
func IsDescendant(pid, ancestor int) (bool, error) {
	const deepest = 1 << 16 // a cycle is impossible, but processes change while we look
	for range deepest {
		if pid == ancestor {
			return true, nil
		}
		if pid <= 1 {
			return false, nil
		}
		parent, err := parentOf(pid)
		if err != nil {
			return false, err
		}
		pid = parent
	}
	return false, errors.New("the chain of parents has no end")
}

// parentOf reads the fourth field of /proc/PID/stat: proc_pid_stat(5). The
// second is a name in parentheses that may itself hold any of ") (".
func parentOf(pid int) (int, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/stat: cannot be read", pid)
	}
	return strconv.Atoi(string(fields[1]))
}
