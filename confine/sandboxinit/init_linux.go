package sandboxinit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/wire"
)

// controlFD is where the confiner's socket is: bubblewrap's first extra descriptor.
const controlFD = 3

// Main serves the confiner until it hangs up. Its result is the exit status.
func Main() int {
	ctl := &control{fd: controlFD}
	if err := serve(ctl); err != nil && !errors.Is(err, io.EOF) {
		return 1
	}
	return 0
}

// serve restricts the process and then performs one action after another, all
// from this one thread. Credentials are a thread's: the new session keyring is
// this one's and so every program's that it forks, and before ABI 8 each thread
// has a Landlock domain of its own, which may signal only what was forked in it.
// Other goroutines read the socket and wait for children.
func serve(ctl *control) error {
	runtime.LockOSThread()
	f, err := wire.Decode(ctl)
	if err != nil {
		return err
	}
	if f.Setup == nil {
		return errors.New("init: expected setup")
	}
	// A tool may send us any signal. Those we do not handle the kernel drops for
	// process 1, but the Go runtime handles some, and ends the process on them.
	// Notify, and not Ignore: an ignored signal stays ignored across execve.
	signal.Notify(make(chan os.Signal, 1))
	step, err := restrict(f.Setup)
	var exit []int
	if err == nil {
		step, err = "check the mounts", checkMounts(f.Setup.Mounts)
	}
	if err == nil {
		step = "listen for the egress proxy"
		exit, err = listen(f.Setup.EgressPort)
	}
	if err != nil {
		return ctl.send(wire.Frame{Failed: &wire.Failed{Step: step, Error: err.Error()}})
	}
	in := incoming{requests: make(chan request), signals: make(chan unix.Signal)}
	w := worker{signals: in.signals, clean: inspect(f.Setup.Unshared)}
	err = ctl.sendWith(wire.Frame{Ready: &wire.Ready{}}, exit)
	closeAll(exit) // the confiner's from here on: no tool could reach it, and we need it no more
	if err != nil {
		return err
	}
	go in.read(ctl)
	for {
		select {
		case r := <-in.requests:
			start := time.Now()
			done := w.perform(r.run, r.fds)
			done.Duration = time.Since(start)
			if err := ctl.send(wire.Frame{Done: &done}); err != nil {
				return err
			}
		case <-in.signals: // for an action that has just ended
		}
	}
}

// incoming is what the confiner sends after the setup.
type incoming struct {
	requests chan request
	signals  chan unix.Signal
}

type request struct {
	run wire.Run
	fds []int
}

// read takes frames until the confiner hangs up or says something that has no
// place here; either way the process ends, and with it the namespace.
func (in incoming) read(ctl *control) {
	for {
		f, err := wire.Decode(ctl)
		switch {
		case err != nil:
			os.Exit(0)
		case f.Signal != nil:
			in.signals <- unix.Signal(f.Signal.Number)
		case f.Run != nil:
			in.requests <- request{*f.Run, ctl.takeFDs()}
		default:
			os.Exit(1)
		}
	}
}

// control is the socket to the confiner. It collects the descriptors that
// arrive beside the bytes (unix(7), SCM_RIGHTS).
type control struct {
	fd  int
	fds []int
}

func (c *control) Read(p []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(3*4))
	for {
		n, oobn, flags, _, err := unix.Recvmsg(c.fd, p, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		if flags&unix.MSG_CTRUNC != 0 {
			return 0, errors.New("init: descriptors cut off")
		}
		if err := c.collect(oob[:oobn]); err != nil {
			return 0, err
		}
		if n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
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
