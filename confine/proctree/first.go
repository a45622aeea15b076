package proctree

import (
	"os"
	"strconv"
)

// KillFirst has the kernel kill pid, and what it starts from now on, before anything else
// of its user when the host or the container runs out of memory
// (proc_pid_oom_score_adj(5)): of many small processes none is as large as the supervisor.
// Where the kernel takes no number it is as before.
func KillFirst(pid int) {
	if f, err := os.OpenFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", os.O_WRONLY, 0); err == nil {
		_, _ = f.WriteString("500") // a thousandth of all memory for each
		_ = f.Close()
	}
}
