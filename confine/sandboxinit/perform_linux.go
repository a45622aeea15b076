package sandboxinit

import (
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A worker performs actions, one at a time.
type worker struct {
	signals <-chan unix.Signal // to pass on to the action that runs
	clean   cleanliness
}

// perform does one action and returns when no other process is left.
func (w worker) perform(r wire.Run, fds []int) wire.Done {
	defer closeAll(fds)
	switch {
	case r.Action.Kind == sandboxprofile.Exec && r.Action.Exec != nil && len(fds) == 3:
		return w.runProgram(*r.Action.Exec, r.Limits, fds)
	case r.Action.Kind != sandboxprofile.Exec && r.Action.File != nil:
		return performFile(r.Action.Kind, *r.Action.File, w.signals)
	default:
		return wire.Done{Op: "action", Errno: int(unix.EINVAL)}
	}
}

func (w worker) runProgram(p sandboxprofile.Program, l wire.Rlimits, fds []int) wire.Done {
	pid, op, errno := start(p, l, [3]int(fds))
	if errno != 0 {
		killAll()
		return wire.Done{Op: op, Errno: int(errno), Spoiled: w.clean.spoiled()}
	}
	closeAll(fds) // so that the confiner reads end of file when the last writer dies
	ended := make(chan unix.WaitStatus, 1)
	go func() { ended <- reapUntil(pid) }()
	census := time.NewTicker(censusInterval)
	defer census.Stop()
	tooMany := false
	for {
		select {
		case n := <-w.signals:
			// -1 is every process that we may signal except ourselves, kill(2).
			_ = unix.Kill(-1, n)
		case <-census.C:
			if int64(processes()) > l.Processes {
				tooMany = true
				_ = unix.Kill(-1, unix.SIGKILL)
			}
		case status := <-ended:
			killAll()
			return wire.Done{Status: int(status), TooMany: tooMany, Spoiled: w.clean.spoiled()}
		}
	}
}

// censusInterval is how often the processes are counted. RLIMIT_NPROC stops a
// fork bomb at its limit, but the kernel does not hold uid 0 to it (fork(2),
// EAGAIN), and a supervisor that root started has only this.
const censusInterval = 50 * time.Millisecond

// processes counts those of the sandbox but init.
func processes() int {
	dir, err := os.Open("/proc")
	if err != nil {
		return math.MaxInt // we are what must count; not to be able to is no reason to go on
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return math.MaxInt
	}
	n := -1
	for _, name := range names {
		if name[0] >= '1' && name[0] <= '9' {
			n++
		}
	}
	return n
}

// reapUntil reaps every child until pid has ended, and returns its status. As
// process 1 we inherit the orphans of the whole namespace.
func reapUntil(pid int) unix.WaitStatus {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return unix.WaitStatus(unix.SIGKILL) // ECHILD: cannot happen while pid lives
		case got == pid:
			return status
		}
	}
}

// killAll ends every other process of the namespace and reaps them all. One
// kill(-1) reaches daemons that forked twice and processes that left the
// session; a fork in flight is restarted by the kernel after its parent's
// pending signal, which is SIGKILL. The loop is for what was born between the
// kernel's walk of the list and now, which should be nothing.
func killAll() {
	for {
		err := unix.Kill(-1, unix.SIGKILL)
		for {
			if _, werr := unix.Wait4(-1, nil, unix.WALL, nil); werr == unix.ECHILD {
				break
			}
		}
		if err == unix.ESRCH {
			return
		}
	}
}

// closeAll closes descriptors and marks them closed: a number that is closed twice
// may by then be somebody else's.
func closeAll(fds []int) {
	for i, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
			fds[i] = -1
		}
	}
}
