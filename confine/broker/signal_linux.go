package broker

import (
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Before ABI 6 Landlock does not keep signals in a domain. Then the broker sends them:
// to what descends from it, which every process of the sandbox does.

func (c *call) kill() reply {
	pid, signal := c.int(0), unix.Signal(c.int(1))
	switch {
	case pid == 0:
		return reply{native: true} // the thread's own process group, which is in a session of the sandbox's
	}
	own, ok := c.group()
	switch {
	case !ok:
		return fails(unix.ESRCH)
	case strconv.Itoa(int(pid)) == own:
		return reply{native: true} // the process itself
	case pid > 0:
		return c.signalProcess(int(pid), signal, nil)
	}
	group := int(-pid)
	errno := unix.Errno(unix.ESRCH)
	last := 0
	for _, p := range c.b.Processes() {
		if pid != -1 && processGroup(p) != group {
			continue
		}
		if strconv.Itoa(p) == own {
			if pid != -1 { // kill(2): -1 leaves out the process itself
				last = p
			}
			continue
		}
		if r := c.signalProcess(p, signal, nil); r.errno == 0 {
			errno = 0
		}
	}
	if last != 0 {
		return c.signalProcess(last, signal, nil)
	}
	return fails(errno)
}

// threadSignal is tgkill(2), or tkill(2) for group 0.
func (c *call) threadSignal(group, tid int, signal unix.Signal) reply {
	own, ok := c.group()
	switch {
	case !ok:
		return fails(unix.ESRCH)
	case strconv.Itoa(group) == own:
		return reply{native: true} // the registers say it all: a thread of the process itself
	case tid <= 0 || group < 0:
		return fails(unix.EINVAL)
	}
	if group == 0 {
		group = groupOf(tid)
		if strconv.Itoa(group) == own {
			return reply{native: true}
		}
	}
	if errno := c.b.mayReach(group); errno != 0 {
		return fails(errno)
	}
	return fails(c.acting(func() error { return unix.Tgkill(group, tid, signal) }))
}

// queueThread is rt_tgsigqueueinfo(2), which only C libraries call, about a thread of
// the process itself.
func (c *call) queueThread() reply {
	if own, ok := c.group(); !ok || own != strconv.Itoa(int(c.int(0))) {
		return fails(unix.EPERM)
	}
	return reply{native: true}
}

// queue is rt_sigqueueinfo(2).
func (c *call) queue() reply {
	const size = 128 // siginfo_t
	info := make([]byte, size)
	if c.read(c.args[2], info) != size {
		return fails(unix.EFAULT)
	}
	// Only the kernel may claim to be the source of some signals (rt_sigqueueinfo(2)).
	if code := *(*int32)(unsafe.Pointer(&info[8])); code >= 0 || code == -6 { // SI_TKILL
		return fails(unix.EPERM)
	}
	return c.signalProcess(int(c.int(0)), unix.Signal(c.int(1)), info)
}

// signalProcess signals by a descriptor that is opened before the process is judged: its
// number cannot become another's.
func (c *call) signalProcess(pid int, signal unix.Signal, info []byte) reply {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return fails(unix.ESRCH)
	}
	defer unix.Close(fd)
	if errno := c.b.mayReach(pid); errno != 0 {
		return fails(errno)
	}
	return fails(c.acting(func() error {
		var p *unix.Siginfo
		if info != nil {
			p = (*unix.Siginfo)(unsafe.Pointer(&info[0]))
		}
		return unix.PidfdSendSignal(fd, signal, p, 0)
	}))
}

// mayReach reports whether a process descends from the broker.
func (b *Broker) mayReach(pid int) unix.Errno {
	self := unix.Getpid()
	for range 1 << 16 {
		parent := parentOf(pid)
		switch {
		case parent == self && pid != self:
			return 0
		case parent <= 1 || pid == self:
			return unix.EPERM
		}
		pid = parent
	}
	return unix.EPERM
}

// statField is a field of /proc/PID/stat behind the name, 0 being the state.
func statField(pid, i int) int {
	fields := statFields("/proc/" + strconv.Itoa(pid) + "/stat")
	if i >= len(fields) {
		return 0
	}
	n, _ := strconv.Atoi(fields[i]) // 0 reaches nobody
	return n
}

func statFields(name string) []string {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var buf [1024]byte
	n, _ := unix.Read(fd, buf[:])
	text := string(buf[:max(n, 0)])
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // a program's name may hold a bracket
}

func parentOf(pid int) int     { return statField(pid, 1) }
func processGroup(pid int) int { return statField(pid, 2) }

// groupOf is the process that a thread belongs to, 0 if it has ended.
func groupOf(tid int) int {
	fd, err := unix.Open("/proc/"+strconv.Itoa(tid)+"/status", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	said, ok := fieldsOf(fd, "Tgid:")
	if !ok {
		return 0
	}
	group, _ := strconv.Atoi(said[0]) // 0 reaches nobody
	return group
}
