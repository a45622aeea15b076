package linux

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/tripwire"
)

// A spawner starts processes from one OS thread that lives as long as it does.
// A parent-death signal fires when the *thread* that forked ends, not the
// process (prctl(2), PR_SET_PDEATHSIG), and the Go runtime ends threads.
type spawner struct {
	work    chan func()
	ready   chan struct{} // closed once the first warden has been tried
	program *os.File      // our init, which is the warden too
	warden  *warden       // the thread's own
	mounts  *hostMounts   // the thread's own; nil if they could not be told
	// keyring says that what is started has an empty session keyring, one for all. It is
	// set before the first start has returned.
	keyring bool
}

func newSpawner(program *os.File) *spawner {
	s := &spawner{work: make(chan func()), ready: make(chan struct{}), program: program}
	go offMain(func() {
		// Package os learns from the first process that it starts whether the kernel
		// has pidfds, by forking one more. Nothing here waits for that.
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Release()
		}
		// Credentials are a thread's, and a child has those of the thread that forked it
		// (credentials(7)). How many keyrings a user may have is bounded, so one of its own
		// for each sandbox would let one agent take them all.
		_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
		s.keyring = err == nil // or each sandbox tries for itself
		s.mounts, _ = newHostMounts()
		_ = s.keep() // by the time that it is needed; whoever needs it hears why there is none
		close(s.ready)
		for f := range s.work {
			f()
		}
		s.warden.end()
		s.mounts.close()
		// Ending with the thread locked ends the thread, and with it every
		// sandbox that is left.
	})
	return s
}

// offMain does what changes its thread, locked to one that is not the process's first:
// what /proc/self tells of mounts is that one's.
func offMain(do func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		do()
		return
	}
	locked := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(locked)
		do()
	}()
	<-locked
	runtime.UnlockOSThread()
}

// keep sees that there is a warden.
func (s *spawner) keep() (err error) {
	if s.warden != nil && s.warden.alive() {
		return nil
	}
	s.warden.end() // somebody has killed it
	if s.warden, err = startWarden(s.program); err != nil {
		return fmt.Errorf("start the process that ends what a killed supervisor leaves: %w", err)
	}
	return nil
}

// start starts cmd, a bubblewrap. It ends with us, and so does what it has cloned.
func (s *spawner) start(cmd *exec.Cmd) error {
	errc := make(chan error, 1)
	s.work <- func() {
		err := s.keep()
		if err == nil && s.mounts != nil {
			err = s.mounts.enter()
		}
		if err == nil {
			err = s.warden.start(cmd)
		}
		errc <- err
	}
	return <-errc
}

// watch has the warden note in w's journal when the sandbox whose process 1 is first has
// ended, should we be killed. It closes first, which is nil without a journal. If it cannot be
// done, the next start takes more for a tool's than is.
func (s *spawner) watch(first *os.File, w *tripwire.Baseline) {
	if first == nil {
		return
	}
	defer first.Close()
	notes, err := w.Notes()
	if err != nil {
		return
	}
	defer notes.Close()
	done := make(chan struct{})
	s.work <- func() { s.warden.watch(first, notes); close(done) }
	<-done
}

// close ends the thread. From then on the program is not used.
func (s *spawner) close() {
	<-s.ready
	close(s.work)
}
