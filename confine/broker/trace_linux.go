package broker

import (
	"bytes"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// traceExits lets a process be stopped at its exit (PTRACE_O_TRACEEXIT), but only by one of its
// ancestors. A process that is killed waits there for its tracer, so that two which trace each
// other would wait for ever, and neither SIGKILL nor the end of their namespace would take them
// away. A descendant is younger, and what the kernel attaches by itself is younger yet: the
// oldest of all that wait for each other waits for none of them.
//
// The call has no argument in memory, and goes on in the kernel. Should the number mean
// another process by then, that one is younger too.
func (c *call) traceExits() reply {
	tracer, _ := c.b.parentage(c.tid)
	target, parent := c.b.parentage(int(c.args[1]))
	for depth := 0; tracer > 0 && target > 0 && parent > 0 && depth < maxLineage; depth++ {
		if parent == tracer {
			return reply{native: true}
		}
		_, parent = c.b.parentage(parent)
	}
	return fails(unix.EPERM)
}

// maxLineage bounds how far up a process is looked for.
const maxLineage = 1 << 10

// parentage is the process that a thread is of, and its parent; 0 where it is gone.
func (b *Broker) parentage(tid int) (process, parent int) {
	fd, err := unix.Openat(b.procFD, strconv.Itoa(tid)+"/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, 0
	}
	f := os.NewFile(uintptr(fd), "status")
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 8<<10))
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		n, _ := strconv.Atoi(string(bytes.TrimSpace(value)))
		switch string(name) {
		case "Tgid":
			process = n
		case "PPid":
			return process, n
		}
	}
	return 0, 0
}
