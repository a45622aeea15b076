package sandboxinit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
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

func serve(ctl *control) error {
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
	if step, err := restrict(f.Setup); err != nil {
		return ctl.send(wire.Frame{Failed: &wire.Failed{Step: step, Error: err.Error()}})
	}
	if err := ctl.send(wire.Frame{Ready: &wire.Ready{}}); err != nil {
		return err
	}
	s := server{ctl: ctl}
	for {
		if err := s.next(); err != nil {
			return err
		}
	}
}

// A server runs one action at a time; only a Signal may arrive in between.
type server struct {
	ctl  *control
	mu   sync.Mutex
	busy bool
}

func (s *server) next() error {
	f, err := wire.Decode(s.ctl)
	if err != nil {
		return err
	}
	fds := s.ctl.takeFDs()
	switch {
	case f.Signal != nil:
		// -1 is every process that we may signal except ourselves, kill(2).
		_ = unix.Kill(-1, unix.Signal(f.Signal.Number))
		return nil
	case f.Run != nil && s.begin():
		go s.run(*f.Run, fds)
		return nil
	default:
		return errors.New("init: unexpected frame")
	}
}

func (s *server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return false
	}
	s.busy = true
	return true
}

func (s *server) run(r wire.Run, fds []int) {
	start := time.Now()
	done := perform(r, fds)
	done.Duration = time.Since(start)
	s.mu.Lock()
	s.busy = false
	s.mu.Unlock()
	if err := s.ctl.send(wire.Frame{Done: &done}); err != nil {
		os.Exit(1) // nobody listens: end, and the namespace ends with us
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

func (c *control) send(f wire.Frame) error {
	b, err := wire.Encode(f)
	if err != nil {
		return err
	}
	for len(b) > 0 {
		n, err := unix.SendmsgN(c.fd, b, nil, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
