package confine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
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

// IsShortage reports whether err is about something of the host's that is used up and
// comes back.
func IsShortage(err error) bool {
	var s *Shortage
	if errors.As(err, &s) {
		return true
	}
	return slices.ContainsFunc(scarce, func(errno syscall.Errno) bool { return errors.Is(err, errno) })
}

// noThread is what the Go runtime of a first process dies with when the host has no process
// left for another thread of it.
const noThread = "failed to create new OS thread"

// noNamespace is how bubblewrap calls ENOSPC for a namespace.
const noNamespace = "_namespaces exceeded (enospc)"

// hadNamespaces says that this process has built a sandbox with namespaces: before, a host that
// has none left says the same as one that lets nobody have any (user.max_user_namespaces=0).
var hadNamespaces atomic.Bool

// shortageIn is the shortage that the last line of text, which another program wrote,
// ends with; nil if it is about something else. A program that says so for another
// reason is asked again, and nothing runs meanwhile.
func shortageIn(op, text string) error {
	line := strings.ToLower(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]))
	for _, errno := range scarce {
		if strings.HasSuffix(line, errno.Error()) || errno == syscall.ENOSPC && strings.HasSuffix(line, noNamespace) && hadNamespaces.Load() {
			return &Shortage{op, fmt.Errorf("%s: %w", text, errno)}
		}
	}
	if strings.Contains(text, noThread) {
		return &Shortage{op, errors.New("no process is left for its threads")}
	}
	return nil
}
