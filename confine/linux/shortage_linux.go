package linux

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/sandgate/sandgate/confine"
)

// noThread is the message with which the Go runtime of a first process dies when the host
// has no room for another thread.
const noThread = "failed to create new OS thread"

// noNamespace is how bubblewrap calls ENOSPC for a namespace.
const noNamespace = "_namespaces exceeded (enospc)"

// hadNamespaces says that this process has built a sandbox with namespaces. Before that, a host
// that has run out of them gives the same error as one that allows none
// (user.max_user_namespaces=0).
var hadNamespaces atomic.Bool

// shortageIn is the shortage that the last line of text, which another program wrote,
// ends with; nil if it is about something else. A program that says so for another
// reason is tried again, and nothing runs meanwhile.
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
