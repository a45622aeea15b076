package confine

import (
	"os"
	"os/exec"
	"runtime"
)

// A spawner starts processes from one OS thread that lives as long as it does.
// A parent-death signal fires when the *thread* that forked ends, not the
// process (prctl(2), PR_SET_PDEATHSIG), and the Go runtime ends threads.
type spawner struct {
	work chan func()
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func())}
	go func() {
		// Package os learns from the first process that it starts whether the kernel
		// has pidfds, by forking one more. Here nobody waits for that.
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Release()
		}
		runtime.LockOSThread()
		for f := range s.work {
			f()
		}
		// Ending with the thread locked ends the thread, and with it every
		// sandbox that is left.
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	errc := make(chan error, 1)
	s.work <- func() { errc <- cmd.Start() }
	return <-errc
}

func (s *spawner) close() { close(s.work) }
