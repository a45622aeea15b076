package sandboxinit

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/proctree"
)

// KeeperArg, as the second argument, makes a process the keeper of an init that shares the host's namespaces.
//
// A pid namespace ends with its process 1. Here nothing does so: if init is killed (by
// hand, or because memory is short), its child dies by the parent-death signal, and what
// forked twice would run on. The keeper is init's parent, and inherits the orphans below
// it: when init has ended, by itself or not, it kills until no process is left. If the
// keeper is killed, init takes that for the end of its confiner, and kills in turn. So it
// takes two to die at one moment before anything gets away.
//
// It reads nothing that anybody inside says, and no program can signal it: it is not in
// their Landlock domain, and no descendant of the broker.
const KeeperArg = "keeper"

// patience is how long init has to end by itself.
const patience = 5 * time.Second

// keep starts init with the confiner's socket and stays until no process is left below.
func keep() int {
	proctree.KillFirst(os.Getpid())
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return failKeeper(err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return failKeeper(err)
	}
	// Where the confiner gives up on init, it says so with SIGTERM.
	given := make(chan os.Signal, 1)
	signal.Notify(given, unix.SIGTERM)
	confiner := parent()
	// Started with it, all threads of init have it, and it need not be set in each of them.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return failKeeper(err)
	}
	init, err := syscall.ForkExec("/proc/self/exe", os.Args[:2], &syscall.ProcAttr{
		Env: []string{"GOMAXPROCS=1"}, Files: []uintptr{0, 1, 2, controlFD},
	})
	if err != nil {
		return failKeeper(err)
	}
	go func() {
		<-given
		_ = unix.Kill(init, unix.SIGKILL) // it is not reaped yet, or the process ends anyway
	}()
	// When the confiner has died, init reads the end of its socket, and ends. One that
	// is held up is ended.
	if confiner < 0 {
		_ = unix.Kill(init, unix.SIGKILL)
	} else {
		go func() {
			for {
				if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(confiner), Events: unix.POLLIN}}, -1); n > 0 {
					break
				}
			}
			time.Sleep(patience)
			_ = unix.Kill(init, unix.SIGKILL)
		}()
	}
	if err := unix.CloseRange(controlFD, controlFD+1, 0); err != nil { // the socket and the program: init's alone
		_ = unix.Kill(init, unix.SIGKILL)
	}
	for ended := false; ; {
		var options int
		if ended {
			killChildren()
			options = unix.WNOHANG
		}
		pid, err := unix.Wait4(-1, nil, unix.WALL|options, nil)
		switch {
		case err == unix.ECHILD:
			return 0
		case err == nil && pid == init:
			ended = true
		case err == nil && pid == 0:
			time.Sleep(time.Millisecond) // the dying take a moment
		}
	}
}

// killChildren kills those that only we can reap: their numbers cannot be reused. What
// they leave behind is our child when they are gone.
func killChildren() {
	for _, pid := range proctree.Children(unix.Getpid()) {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

func failKeeper(err error) int {
	os.Stderr.WriteString("sandgate-init: keep the sandbox: " + err.Error() + "\n")
	return 1
}

// parent is a descriptor that becomes readable when our parent has ended, -1 if it has.
func parent() int {
	pid := unix.Getppid()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil || unix.Getppid() != pid {
		return -1
	}
	return fd
}
