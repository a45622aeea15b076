package confine

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
)

// A Shortage says that the host had no room for a sandbox just now: no process,
// descriptor, memory, namespace or key was left. It passes. Nothing has run, and the
// same call can be made again.
//
// It says nothing about what the host can keep, so no weaker backend takes over.
type Shortage struct {
	Op  string // "start bubblewrap"
	Err error
}

func (e *Shortage) Error() string {
	return fmt.Sprintf("confine: the host has no room for a sandbox now: %s: %v", e.Op, e.Err)
}

func (e *Shortage) Unwrap() error { return e.Err }

// scarce are the errors of the kernel for what is used up (errno(3)).
var scarce = []syscall.Errno{
	syscall.EAGAIN, syscall.ENOMEM, syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE, syscall.EDQUOT, syscall.EUSERS, syscall.ENOBUFS,
}

// Scarce gives those errors.
func Scarce() []syscall.Errno { return slices.Clone(scarce) }

// IsShortage reports whether err is about something of the host's that is used up and
// comes back.
func IsShortage(err error) bool {
	var s *Shortage
	if errors.As(err, &s) {
		return true
	}
	return slices.ContainsFunc(scarce, func(errno syscall.Errno) bool { return errors.Is(err, errno) })
}
