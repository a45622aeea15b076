package proctree

import (
	"bytes"
	"os"
)

// Shown is the directory of procfs that shows what a process holds: /proc/PID, or
// /proc/PID/task/TID of a thread that lives where the first one has ended. Then the
// process goes on, and its own directory shows no memory and no descriptors
// (proc_pid_task(5)): who looked there alone would find nothing.
//
// All threads have the same memory, and the same descriptors where a filter keeps them
// from having tables of their own.
func Shown(pid string) string {
	own := "/proc/" + pid
	if !ended(own) {
		return own
	}
	dir, err := os.Open(own + "/task")
	if err != nil {
		return own
	}
	defer dir.Close()
	threads, _ := dir.Readdirnames(-1)
	for _, tid := range threads {
		if thread := own + "/task/" + tid; !ended(thread) {
			return thread
		}
	}
	return own
}

// ended reports whether a thread has ended, or is a remnant (proc_pid_stat(5)).
func ended(dir string) bool {
	line, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return true
	}
	i := bytes.LastIndexByte(line, ')') // a name may hold brackets
	return i < 0 || i+2 >= len(line) || line[i+2] == 'Z' || line[i+2] == 'X'
}
