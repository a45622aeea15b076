package linux

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// A startLatch keeps an action from beginning: the process behind it waits for a byte in a
// pipe. When the pipe is closed without one, also because this process was killed, the action
// never begins. A nil latch is open.
type startLatch struct {
	hold          func() error
	inside, write *os.File
}

// newStartLatch makes one that opens as hold says; nil for none.
func newStartLatch(hold func() error) (*startLatch, error) {
	if hold == nil {
		return nil, nil
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("confine: latch: %w", os.NewSyscallError("pipe2", err))
	}
	return &startLatch{hold, os.NewFile(uintptr(fds[0]), "latch"), os.NewFile(uintptr(fds[1]), "latch")}, nil
}

// behind adds the descriptor that is waited on to those of an action.
func (g *startLatch) behind(files []*os.File) []*os.File {
	if g == nil {
		return files
	}
	return append(slices.Clip(files), g.inside)
}

// open asks, and opens the latch or shuts it permanently.
func (g *startLatch) open() error {
	if g == nil {
		return nil
	}
	defer g.close()
	if err := g.hold(); err != nil {
		return err
	}
	// If no one waits any more (EPIPE) the action has failed, and says so itself.
	_, _ = g.write.Write([]byte{1})
	return nil
}

func (g *startLatch) close() {
	if g != nil {
		closeFiles([]*os.File{g.inside, g.write})
	}
}
