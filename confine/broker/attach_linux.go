package broker

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Tools of Java (jcmd, a debugger, Mockito) talk to the Java process N by the socket /tmp/.java_pidN, which that
// process makes. They take whoever listens there for it. So a sandbox may have that name for a process of its own, as
// long as that lives: then nobody else has the number.

// An attachment is such a name, with a descriptor of the process that it is for (pidfd_open(2)).
type attachment struct {
	name    string
	process int
}

const (
	// maxAttachments bounds the descriptors.
	maxAttachments = 64
	// attachPoll is how often the broker looks whether a process has ended. Until its number is another's, as many
	// processes have to start as the kernel has numbers, and a Java process removes what it finds at its name.
	attachPoll = 50 * time.Millisecond
)

// attachedTo gives the number of the process that a name is for.
func attachedTo(name string) (pid int, ok bool) {
	digits, ok := strings.CutPrefix(path.Base(name), ".java_pid")
	digits = strings.TrimSuffix(digits, ".tmp") // until it listens
	pid, err := strconv.Atoi(digits)
	return pid, ok && err == nil && pid > 0 && strconv.Itoa(pid) == digits
}

// attaches reports whether a socket may have a name that is for a process of the sandbox's, and notes it.
func (b *Broker) attaches(name string) bool {
	pid, ok := attachedTo(name)
	if !ok || b.Processes == nil {
		return false
	}
	if slices.ContainsFunc(b.attachments, func(a attachment) bool { return a.name == name && !ended(a.process) }) {
		return true
	}
	if len(b.attachments) >= maxAttachments {
		return false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false
	}
	// In this order: what has not ended by now was the same process when it was listed.
	if !slices.Contains(b.Processes(), pid) || ended(fd) {
		unix.Close(fd)
		return false
	}
	b.attachments = append(b.attachments, attachment{name, fd})
	return true
}

// ended reports whether a process has ended. It keeps its number until its parent has asked for it.
func ended(pidfd int) bool {
	p := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err != nil || n > 0
}

// detach takes the names of processes away that have ended.
func (b *Broker) detach() {
	if !slices.ContainsFunc(b.attachments, func(a attachment) bool { return ended(a.process) }) {
		return
	}
	b.locked(func() reply {
		b.attachments = slices.DeleteFunc(b.attachments, func(a attachment) bool {
			if !ended(a.process) {
				return false
			}
			unix.Close(a.process)
			if p := b.poolEntry(a.name); p != nil && p.holds(path.Base(a.name)) {
				_ = p.remove(path.Base(a.name), 0)
			}
			return true
		})
		return reply{}
	})
}
