package linux

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/sandgate/sandgate/confine"
)

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
	for _, errno := range confine.Scarce() {
		if strings.HasSuffix(line, errno.Error()) || errno == syscall.ENOSPC && strings.HasSuffix(line, noNamespace) && hadNamespaces.Load() {
			return &confine.Shortage{Op: op, Err: fmt.Errorf("%s: %w", text, errno)}
		}
	}
	if strings.Contains(text, noThread) {
		return &confine.Shortage{Op: op, Err: errors.New("no process is left for its threads")}
	}
	return nil
}
