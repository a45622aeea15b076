package sandboxinit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/broker"
	"github.com/sandgate/sandgate/confine/wire"
)

// controlFD is where the confiner's socket is: bubblewrap's first extra descriptor.
const controlFD = 3

// thriftyGC is the pace of collections of a warm sandbox that waits, in debug.SetGCPercent's
// words: what it keeps for the next action is to be little.
const thriftyGC = 20

// Main serves the confiner until it hangs up. Its result is the exit status.
func Main() int {
	// One thread does all of the work.
	runtime.GOMAXPROCS(1)
	if len(os.Args) == 3 && os.Args[2] == KeeperArg {
		return keep()
	}
	if len(os.Args) == 3 && os.Args[2] == wire.Warden {
		return runWarden()
	}
	ctl := &control{fd: controlFD, keeper: -1}
	if err := serve(ctl); err != nil && !errors.Is(err, io.EOF) {
		return 1
	}
	return 0
}

// serve restricts the process and then performs one action after another, all
// from this one thread. Credentials are a thread's: the new session keyring is
// this one's and so every program's that it forks, and before ABI 8 each thread
// has a Landlock domain of its own, which may signal only what was forked in it.
// And handing an action on to another thread would cost more than the rest of what
// init does for it: nothing else runs in this process.
func serve(ctl *control) error {
	runtime.LockOSThread()
	f, err := wire.Decode(ctl)
	if err != nil {
		return err
	}
	if f.Setup == nil {
		return errors.New("init: expected setup")
	}
	queue, err := queueOf(f.Setup, ctl.takeFDs())
	if err != nil {
		return err
	}
	var q *queues
	reset, err := ignoreSignals()
	step := "take signals"
	if err == nil {
		step, err = restrict(f.Setup, queue, &q)
	}
	if err == nil && f.Setup.Shared != nil {
		step = "watch the keeper"
		if ctl.keeper = parent(); ctl.keeper < 0 {
			err = errors.New("it has ended")
		}
	}
	var exit []int
	if err == nil {
		step, err = "check the mounts", checkMounts(f.Setup.Mounts)
	}
	if err == nil {
		step = "listen for the egress proxy"
		exit, err = listen(f.Setup.EgressPort)
	}
	if err == nil {
		step = "make sockets for programs without a proxy"
		exit, err = unbound(exit, f.Setup.Unbound)
	}
	if err == nil && f.Setup.Loopback {
		step = "make sockets for the addresses of the loopback device"
		exit, err = forLoopback(exit)
	}
	if err == nil && f.Setup.First {
		var first int
		step = "open process 1"
		if first, err = unix.PidfdOpen(os.Getpid(), 0); err == nil {
			exit = append(exit, first)
		}
	}
	if err != nil {
		return ctl.send(wire.Frame{Failed: &wire.Failed{Step: step, Error: err.Error()}})
	}
	w, err := newWorker(ctl, f.Setup, reset, queue, q)
	if err != nil {
		return ctl.send(wire.Frame{Failed: &wire.Failed{Step: "prepare for programs", Error: err.Error()}})
	}
	err = ctl.sendWith(wire.Frame{Ready: &wire.Ready{}}, exit)
	closeAll(exit) // the confiner's from here on: no tool could reach it, and we need it no more
	if err != nil {
		return err
	}
	debug.SetGCPercent(thriftyGC) // not before: what waits for us is ready
	return errors.Join(w.serve(), w.leave())
}

// queueOf is the queue whose file travels with the setup of a broker.
func queueOf(s *wire.Setup, fds []int) (*broker.Queue, error) {
	if s.Shared == nil || s.Shared.Broker == nil || len(s.Shared.Broker.Queue) == 0 {
		closeAll(fds)
		if len(fds) > 0 {
			return nil, errOrder
		}
		return nil, nil
	}
	if len(fds) != 1 {
		closeAll(fds)
		return nil, errOrder
	}
	q := &broker.Queue{File: fds[0]}
	for _, r := range s.Shared.Broker.Queue {
		q.Ranges = append(q.Ranges, broker.Range(r))
	}
	return q, nil
}

// ignoreSignals ignores those that a tool can send us. The Go runtime handles nearly all,
// and ends the process on them; each that package signal takes over costs two switches to
// a thread of its own, and a sandbox's start waits for them. So process 1 takes the
// runtime's handlers away, but for those of its own mistakes, which it has to be able to
// report. Without a namespace of our own package signal takes all.
//
// Ignored, and not left to their default, which the kernel drops for a process 1
// (pid_namespaces(7)) only where no thread blocks the signal: while one does, as Go's
// does during a fork, a signal that the others do not block ends the process
// (complete_signal in the kernel's signal.c). A program that was just started could so
// end its sandbox.
//
// An ignored signal stays ignored across execve. The runtime resets those in a child
// that it once handled; the result is the others.
//
// The runtime ignores SIGCHLD and SIGURG itself, and Notify would have it wake a thread
// for each child; the signal before the real-time ones is for its threads.
func ignoreSignals() ([]unix.Signal, error) {
	first := os.Getpid() == 1
	var taken []os.Signal
	var reset []unix.Signal
	for n := unix.Signal(1); n < 65; n++ {
		switch n {
		case unix.SIGCHLD, unix.SIGURG, 33:
			continue
		case unix.SIGKILL, unix.SIGSTOP:
			continue // nobody handles these
		case unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGPIPE:
		default:
			if !first {
				break
			}
			handled, err := ignore(n)
			if err != nil {
				return nil, fmt.Errorf("%v: %w", n, err)
			}
			if !handled {
				reset = append(reset, n)
			}
			continue
		}
		taken = append(taken, n)
	}
	signal.Notify(make(chan os.Signal, 1), taken...)
	return reset, nil
}

// sigaction is the kernel's struct: handler, flags, restorer, mask.
type sigaction [4]uint64

const (
	sigIgnore = 1 // SIG_IGN
	maskSize  = 8
)

// ignore is sigaction(2) with SIG_IGN. It reports whether there was a handler.
func ignore(n unix.Signal) (handled bool, err error) {
	action, old := sigaction{sigIgnore}, sigaction{}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(&action)), uintptr(unsafe.Pointer(&old)), maskSize, 0, 0)
	if errno != 0 {
		return false, errno
	}
	return old[0] > sigIgnore, nil
}

// serve performs actions until the confiner hangs up, or says something that has no
// place here. Either way the process ends, and with it the namespace.
func (w *worker) serve() error {
	for {
		f, err := wire.Decode(w.ctl)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case f.Run == nil:
			if _, err := w.heed(f); err != nil { // a signal is for an action that has just ended
				return err
			}
			continue
		}
		start := time.Now()
		done, err := w.perform(*f.Run, w.ctl.takeFDs())
		if err != nil {
			return err
		}
		done.Duration = time.Since(start)
		if err := w.ctl.send(wire.Frame{Done: &done}); err != nil {
			return err
		}
	}
}

// heed does what a frame says that may come at any time, and gives the signal that it
// asks to have passed on, 0 for none.
func (w *worker) heed(f wire.Frame) (unix.Signal, error) {
	switch {
	case f.Signal != nil:
		return unix.Signal(f.Signal.Number), nil
	case f.Socket != nil && w.exposes:
		return 0, w.ctl.sendSocket(*f.Socket)
	case f.Answer != nil && w.shared != nil && w.shared.broker != nil:
		fd := -1
		if fds := w.ctl.takeFDs(); len(fds) == 1 {
			fd = fds[0]
		} else {
			closeAll(fds)
		}
		w.shared.broker.Hear(f.Answer.ID, f.Answer.Allow, fd)
		return 0, nil
	case f.Keep != nil && w.shared != nil && w.shared.broker != nil:
		w.shared.keep(*f.Keep)
		return 0, w.ctl.send(wire.Frame{Kept: &wire.Kept{}})
	}
	return 0, errOrder
}

var errOrder = errors.New("init: unexpected frame")

// control is the socket to the confiner. It collects the descriptors that
// arrive beside the bytes (unix(7), SCM_RIGHTS).
type control struct {
	fd int
	// keeper is readable when our keeper has died, which is the end: -1 without one.
	keeper int
	lost   bool
	fds    []int
	buf    [4 << 10]byte
	// unread is the content of buf.
	unread []byte
	oob    [64 + 4*wire.MaxFiles]byte // CMSG_SPACE of so many
}

// Read implements io.Reader. It takes as much at once as there is, so that a frame is
// one system call.
func (c *control) Read(p []byte) (int, error) {
	if len(c.unread) == 0 && len(p) >= len(c.buf) {
		return c.receive(p)
	}
	if len(c.unread) == 0 {
		n, err := c.receive(c.buf[:])
		if err != nil {
			return 0, err
		}
		c.unread = c.buf[:n]
	}
	n := copy(p, c.unread)
	c.unread = c.unread[n:]
	return n, nil
}

func (c *control) receive(p []byte) (int, error) {
	for {
		if c.lost = c.lost || !c.waitForWord(); c.lost {
			return 0, io.EOF
		}
		n, oobn, flags, _, err := unix.Recvmsg(c.fd, p, c.oob[:], unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		if flags&unix.MSG_CTRUNC != 0 {
			return 0, errors.New("init: descriptors cut off")
		}
		if err := c.collect(c.oob[:oobn]); err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
}

// waitForWord waits until there is something to read, and reports whether our keeper
// lives. One without a keeper is process 1.
func (c *control) waitForWord() bool {
	for c.keeper >= 0 {
		fds := [2]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}, {Fd: int32(c.keeper), Events: unix.POLLIN}}
		if n, _ := unix.Poll(fds[:], -1); n > 0 {
			return fds[1].Revents == 0
		}
	}
	return true
}

// ready reports whether there is something to read, or whether the other end is gone.
func (c *control) ready() bool {
	if len(c.unread) > 0 {
		return true
	}
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}, {Fd: int32(c.keeper), Events: unix.POLLIN}}, 0)
	return n > 0
}

// wait is ready for something that is about to be, or until p has ended, a child has,
// or the time is over. It tells too whether the broker's listener has something to
// answer, if it is not -1, whether there are questions, and whether the listener never will
// have anything: the last process that it heard is on its way out, which takes a while, and
// poll(2) says so again each time.
func (c *control) wait(p process, listener, questions int, timeout time.Duration) (said, asked, questioned, silent bool) {
	if len(c.unread) > 0 {
		return true, false, false, false
	}
	fds := [5]unix.PollFd{
		{Fd: int32(c.fd), Events: unix.POLLIN}, {Fd: int32(p.pidfd), Events: unix.POLLIN}, {Fd: int32(listener), Events: unix.POLLIN}, {Fd: int32(c.keeper), Events: unix.POLLIN},
		{Fd: int32(questions), Events: unix.POLLIN},
	}
	ts := unix.NsecToTimespec(max(timeout, 0).Nanoseconds())
	n, err := unix.Ppoll(fds[:], &ts, nil)
	if err != nil || n == 0 {
		return false, false, false, false
	}
	asked = fds[2].Revents&unix.POLLIN != 0
	return fds[0].Revents != 0 || fds[3].Revents != 0, asked, fds[4].Revents != 0, fds[2].Revents != 0 && !asked
}

func (c *control) collect(oob []byte) error {
	if len(oob) == 0 {
		return nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("init: control message: %w", err)
	}
	for i := range msgs {
		fds, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			return fmt.Errorf("init: descriptors: %w", err)
		}
		c.fds = append(c.fds, fds...)
	}
	return nil
}

func (c *control) takeFDs() []int {
	fds := c.fds
	c.fds = nil
	return fds
}

func (c *control) send(f wire.Frame) error { return c.sendWith(f, nil) }

// sendWith sends descriptors beside the frame's first byte.
func (c *control) sendWith(f wire.Frame, fds []int) error {
	b, err := wire.Encode(f)
	if err != nil {
		return err
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	for len(b) > 0 {
		n, err := unix.SendmsgN(c.fd, b, oob, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b, oob = b[n:], nil
	}
	return nil
}
