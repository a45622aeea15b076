package audit

import (
	"fmt"
	"strconv"
	"strings"
)

// A writer identifies a process for all time on one machine. A process id alone
// is used again; together with the start time it is not, until the next boot.
// Process ids mean nothing across pid namespaces, so the namespace is a part of it.
type writer struct {
	PID       int
	Start     uint64 // clock ticks after boot, proc_pid_stat(5) field 22
	Namespace uint64 // inode of /proc/self/ns/pid
	Boot      string // /proc/sys/kernel/random/boot_id, or unknownBoot
}

// unknownBoot is the boot where the kernel names none, as in gVisor. Two of them may differ.
const unknownBoot = "unknown"

// String is the form that entries carry: PID.START.NAMESPACE.BOOT.
func (w writer) String() string {
	return fmt.Sprintf("%d.%d.%d.%s", w.PID, w.Start, w.Namespace, w.Boot)
}

func parseWriter(s string) (writer, error) {
	var w writer
	f := strings.SplitN(s, ".", 4)
	if len(f) != 4 {
		return w, fmt.Errorf("writer %q: want PID.START.NAMESPACE.BOOT", s)
	}
	var err error
	if w.PID, err = strconv.Atoi(f[0]); err != nil || w.PID <= 0 {
		return w, fmt.Errorf("writer %q: bad process id", s)
	}
	if w.Start, err = strconv.ParseUint(f[1], 10, 64); err != nil {
		return w, fmt.Errorf("writer %q: bad start time", s)
	}
	if w.Namespace, err = strconv.ParseUint(f[2], 10, 64); err != nil {
		return w, fmt.Errorf("writer %q: bad namespace", s)
	}
	w.Boot = f[3]
	return w, nil
}

// seesDead reports whether w, which is this process, is certain that the writer named
// in an entry is dead. In doubt it is not: to call a running call interrupted is
// the worse error.
func (w writer) seesDead(name string) bool {
	other, err := parseWriter(name)
	switch {
	case err != nil, other == w, other.Boot == unknownBoot, w.Boot == unknownBoot:
		return false
	case other.Boot != w.Boot:
		return true
	case other.Namespace != w.Namespace:
		return false
	}
	return !running(other)
}
