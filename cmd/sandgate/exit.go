package main

import (
	"errors"

	"github.com/sandgate/sandgate/assemble"
)

// Exit statuses of sandgate itself. 120 to 125 lie below the range that shells
// use for signals (128+N) and for commands that cannot be run (126, 127), so a
// script can tell sandgate's refusal from the tool's own failure.
const (
	exitOK          = 0
	exitFound       = 1   // the command worked and found something wrong: a broken chain, a bad rule
	exitUsage       = 120 // bad usage or configuration
	exitDenied      = 121 // refused by a rule, a mode, or an approver
	exitUnavailable = 122 // this host cannot enforce what the profile asks
	exitSandbox     = 123 // the sandbox itself failed
	exitTimeout     = 124 // a limit was used up: time, memory, processes, output, ...
	exitInternal    = 125 // anything else: no audit log, no supervisor, a bug
)

const exitCodeHelp = `  0    success, or the exit status of the command that was run
  1    the check found something wrong
  120  bad usage or configuration
  121  refused by a rule, a mode or an approver
  122  this host cannot enforce what the profile asks
  123  the sandbox itself failed
  124  a limit was used up: time, memory, processes, output, ...
  125  anything else: no audit log, no supervisor, a bug`

// A statusError carries an exit status. With a nil err nothing more is printed.
type statusError struct {
	code int
	err  error
}

func (e *statusError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

func usageError(err error) error { return &statusError{exitUsage, err} }

// withStatus gives err an exit status.
func withStatus(code int, err error) error { return &statusError{code, err} }

// exitOf is the exit status for err, which is not nil.
func exitOf(err error) int {
	if status := (*statusError)(nil); errors.As(err, &status) {
		return status.code
	}
	if e := (*assemble.Error)(nil); errors.As(err, &e) {
		return map[assemble.Kind]int{
			assemble.Internal: exitInternal, assemble.Configuration: exitUsage, assemble.Unavailable: exitUnavailable,
		}[e.Kind]
	}
	return exitUsage // what cobra itself rejects: unknown commands and arguments
}

type hintError struct {
	error
	hint string
}

func (e *hintError) Hint() string  { return e.hint }
func (e *hintError) Unwrap() error { return e.error }

// withHint attaches what a person can do about err.
func withHint(err error, hint string) error { return &hintError{err, hint} }
