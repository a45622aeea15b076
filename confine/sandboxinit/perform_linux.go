package sandboxinit

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A worker performs actions, one at a time.
type worker struct {
	ctl    *control
	shared *shared // nil in namespaces of our own
	modes  *modes  // nil where nobody serves the programs' modes
	clean  cleanliness
	homes  homeLook
	over   *ceilings
	tmpfs  []string // directories whose files lie in memory
	queues *queues  // of sockets
	most   hardLimits
	reset  []unix.Signal // what a program must not inherit as ignored
	// exposes says that the confiner may ask for sockets.
	exposes bool
}

func newWorker(ctl *control, s *wire.Setup, reset []unix.Signal, queue *broker.Queue, q *queues) (*worker, error) {
	w := &worker{ctl: ctl, tmpfs: s.Tmpfs, queues: q, most: ownLimits(), reset: reset, exposes: s.Exposes}
	if s.Shared == nil || !s.Shared.Unconfined {
		unix.Umask(unix.Umask(0o077) | 0o002) // nothing is for other users of the machine to write: see broker.Modes
	}
	w.homes = lookAtHomes(s.Fleeting)
	var err error
	if w.over, err = newCeilings(s); err != nil {
		return nil, fmt.Errorf("ceiling: %w", err)
	}
	if s.Shared == nil {
		if w.modes, err = newModes(s.Modes, s.Tmpfs); err != nil {
			return nil, fmt.Errorf("modes: %w", err)
		}
		w.clean = inspect(s.Fleeting, s.Tmpfs, s.Loopback)
		return w, nil
	}
	w.shared, err = newShared(ctl, s, queue, q.diag())
	return w, err
}

// perform does one action and returns when no other process is left. An error is the
// end of the conversation.
func (w *worker) perform(r wire.Run, fds []int) (wire.Done, error) {
	defer closeAll(fds)
	hold := open
	if r.Held {
		if len(fds) == 0 {
			return wire.Done{}, errOrder
		}
		hold, fds = startLatch(fds[len(fds)-1]), fds[:len(fds)-1]
		defer hold.close()
	}
	switch {
	case tooLow(r.Action):
		return failed("ceiling", unix.EACCES), nil
	case r.Action.Kind == sandboxprofile.Exec && r.Action.Exec != nil && len(fds) >= 3:
		return w.runProgram(*r.Action.Exec, r, fds, hold)
	case r.Action.File != nil && w.shared.bars(r.Action.Kind, r.Action.File.Path):
		return failed("open", unix.EACCES), nil
	case r.Action.Kind != sandboxprofile.Exec && r.Action.File != nil:
		if !hold.pass() {
			return failed("latch", unix.ECANCELED), nil
		}
		i := interruption{worker: w, next: time.Now().Add(stopInterval)}
		done := performFile(r.Action.Kind, *r.Action.File, r.Temporary, disk{w.shared}, i.stopped)
		w.shared.report(&done)
		done.Fault = w.fault()
		return done, i.err
	default:
		return wire.Done{Op: "action", Errno: int(unix.EINVAL)}, nil
	}
}

// stopInterval is how often a file operation looks whether it is to stop.
const stopInterval = 5 * time.Millisecond

// An interruption comes from the confiner during a file operation: a signal, or its
// end. Either way its time or its patience is over.
type interruption struct {
	*worker
	next time.Time
	hit  bool
	err  error // the end of the conversation
}

func (i *interruption) stopped() bool {
	now := time.Now()
	if i.hit || now.Before(i.next) {
		return i.hit
	}
	i.next = now.Add(stopInterval)
	if i.ctl.ready() {
		var signal unix.Signal
		signal, i.err = i.hear()
		i.hit = signal != 0 || i.err != nil
	}
	return i.hit
}

func (w *worker) runProgram(p sandboxprofile.Program, r wire.Run, fds []int, hold startLatch) (wire.Done, error) {
	if op, errno := w.openTerminal(p.Terminal, fds); errno != 0 {
		return wire.Done{Op: op, Errno: int(errno)}, nil
	}
	under, err := w.over.over(r.Action.Ceiling)
	if err != nil {
		return failed("ceiling", unix.EACCES), nil
	}
	if w.shared != nil {
		w.shared.broker.Want(broker.Asks{Changes: r.Changes, Refusals: r.Refusals})
	}
	count := newCensus(r.Totals, w.tmpfs, w.queues, w.shared)
	count.stops = p.Terminal == nil // a shell on one would tell of a stopped job
	started, op, errno := w.start(p, r.Limits, !r.Totals.Kernel, fds, hold, under)
	if errno != 0 {
		w.killAll()
		ours := op == "fork" || op == "setrlimit" // and not the program's path, directory or format
		return wire.Done{Op: op, Errno: int(errno), Spoiled: ours || w.spoiled()}, nil
	}
	defer started.close()
	closeAll(fds) // so that the confiner reads end of file when the last writer dies
	status, exceeded, err := w.watch(started, count)
	w.killAll()
	w.shared.rest()
	w.modes.rest()
	if err != nil {
		return wire.Done{}, err
	}
	if exceeded == "" && count.ranOut(status) {
		exceeded = wire.ExceededCPU
	}
	done := wire.Done{Status: int(status), Exceeded: exceeded, Fault: w.fault(), Spoiled: w.spoiled(), Gone: w.homes.gone()}
	w.shared.report(&done)
	return done, nil
}

// watch waits for a program to end, reaps what it leaves meanwhile, counts what it
// uses, and passes on signals.
func (w *worker) watch(p process, count *census) (unix.WaitStatus, wire.Exceeded, error) {
	due := time.Now().Add(censusInterval)
	var exceeded wire.Exceeded
	listener := w.listener()
	for {
		patience := time.Until(due)
		soon := w.shared.unsettled()
		if soon > 0 {
			patience = min(patience, soon)
		}
		said, asked, questioned, silent := w.ctl.wait(p, listener, w.shared.questions(), patience)
		if silent {
			listener = -1
		}
		if soon > 0 && !asked {
			w.shared.broker.Tend()
		}
		if questioned {
			w.shared.broker.Attend()
		}
		if asked {
			w.answer()
			if !said && time.Now().Before(due) && w.fault() == "" {
				continue
			}
		}
		if w.fault() != "" {
			w.signalAll(unix.SIGKILL)
		}
		if status, ended := reap(p.pid); ended {
			if exceeded == "" && status != 0 {
				exceeded = count.crowd()
			}
			return status, exceeded, nil
		}
		if said {
			n, err := w.hear()
			if err != nil {
				return 0, "", err
			}
			if n != 0 {
				w.signalAll(n)
			}
		}
		if time.Now().Before(due) {
			continue
		}
		over, pause := count.take()
		if exceeded == "" {
			exceeded = over // the first is the cause, whatever else the end brings
		}
		if exceeded != "" {
			w.signalAll(unix.SIGKILL)
		}
		due = time.Now().Add(pause)
	}
}

// hear takes one frame during an action, and gives the signal that it asks for, 0 for
// none.
func (w *worker) hear() (unix.Signal, error) {
	f, err := wire.Decode(w.ctl)
	if err != nil {
		return 0, err
	}
	return w.heed(f)
}

// spoiled: an init that shares the host's namespaces serves one call.
func (w *worker) spoiled() bool { return w.shared != nil || w.clean.spoiled() }

// signalAll signals every other process of the sandbox.
func (w *worker) signalAll(n unix.Signal) {
	if w.shared != nil {
		w.shared.signalAll(n)
		return
	}
	// -1 is every process that we may signal except ourselves, kill(2).
	_ = unix.Kill(-1, n)
}

func (w *worker) killAll() {
	if w.shared != nil {
		w.shared.killAll()
		return
	}
	killAll()
}

// reap reaps every child that has ended, and reports whether pid was one of them. As
// process 1 we inherit the orphans of the whole namespace. The end of one interrupts a
// wait; an interruption that comes between two waits is made up for at the next count.
func reap(pid int) (unix.WaitStatus, bool) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOHANG, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return unix.WaitStatus(unix.SIGKILL), true // ECHILD: cannot happen while pid lives
		case status.Stopped():
			// A child that asked to be traced by its parent (PTRACE_TRACEME), where a profile lets
			// it, cannot be continued: we are not a debugger. It would hang, and has not ended.
			_ = unix.Kill(got, unix.SIGKILL)
		case got == pid:
			return status, true
		case got == 0:
			return 0, false
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

// closeAll closes descriptors and marks them closed: a number that is closed twice may
// by then belong to another file.
func closeAll(fds []int) {
	for i, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
			fds[i] = -1
		}
	}
}
