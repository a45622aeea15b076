// Package proctree finds the processes below one, for what has no pid namespace
// to ask. What it gives may have changed when it returns.
package proctree

import (
	"os"
	"strconv"
	"strings"
)

// Children are the processes whose parent pid is, by /proc/PID/task/TID/children
// (proc(5), CONFIG_PROC_CHILDREN).
func Children(pid int) []int {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task/"
	dir, err := os.Open(tasks)
	if err != nil {
		return nil // it has ended
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []int
	for _, name := range names {
		b, err := os.ReadFile(tasks + name + "/children")
		if err != nil {
			continue // it has ended
		}
		for _, word := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// Descendants are the processes below pid, parents first.
func Descendants(pid int) []int {
	var all []int
	for _, child := range Children(pid) {
		all = append(append(all, child), Descendants(child)...)
	}
	return all
}
