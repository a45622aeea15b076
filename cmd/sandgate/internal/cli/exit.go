package cli

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/protocol"
)

// Exit statuses of sandgate itself. 120 to 125 lie below the range that shells
// use for signals (128+N) and for commands that cannot be run (126, 127), so a
// script can tell sandgate's refusal from the tool's own failure.
const (
	ExitOK          = 0
	ExitFound       = 1   // the command worked and found something wrong: a broken chain, a bad rule
	ExitUsage       = 120 // bad usage or configuration
	ExitDenied      = 121 // refused by a rule, a mode, or an approver
	ExitUnavailable = 122 // this host cannot enforce what the profile asks
	ExitSandbox     = 123 // the sandbox itself failed
	ExitTimeout     = 124 // a limit was used up: time, memory, processes, output, ...
	ExitInternal    = 125 // anything else: no audit log, no supervisor, a bug
)

const ExitCodeHelp = `  0    success, or the command's status   122  this host cannot enforce the profile
  1    a check found a problem            123  the sandbox itself failed
  120  bad usage or configuration         124  a limit was reached (time, memory, ...)
  121  refused by a rule, mode or person  125  other: no audit log, no supervisor, a bug`

// A StatusError carries an exit status. With a nil err nothing more is printed.
type StatusError struct {
	Code int
	Err  error
}

func (e *StatusError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *StatusError) Unwrap() error { return e.Err }

func UsageError(err error) error { return &StatusError{ExitUsage, err} }

// WithStatus gives err an exit status.
func WithStatus(code int, err error) error { return &StatusError{code, err} }

// ExitOf is the exit status for err, which is not nil.
func ExitOf(err error) int {
	if status := (*StatusError)(nil); errors.As(err, &status) {
		return status.Code
	}
	if e := (*assemble.Error)(nil); errors.As(err, &e) {
		return map[assemble.Kind]int{
			assemble.Internal: ExitInternal, assemble.Configuration: ExitUsage, assemble.Unavailable: ExitUnavailable,
		}[e.Kind]
	}
	return ExitUsage // what cobra itself rejects: unknown commands and arguments
}

type hintError struct {
	error
	hint string
}

func (e *hintError) Hint() string  { return e.hint }
func (e *hintError) Unwrap() error { return e.error }

// WithHint attaches what a person can do about err.
func WithHint(err error, hint string) error { return &hintError{err, hint} }

// InUTF8 refuses words that a call cannot carry: a call is JSON (RFC 8259, 8.1), and bytes that are
// not UTF-8 would come out as others there, which can be the name of another file.
func InUTF8(words []string) error {
	for i, word := range words {
		if !utf8.ValidString(word) {
			return WithHint(UsageError(fmt.Errorf("argument %d is not UTF-8: %q", i+1, word)),
				"let the program find the file itself, for example with a pattern: sandgate run -- sh -c 'rm x*'")
		}
	}
	return nil
}

// ExitNotFound is the status that shells give if there is no such command.
const ExitNotFound = 127

// WireStatus gives an error of the supervisor its exit status.
func WireStatus(err error) error {
	var e *protocol.Error
	if !errors.As(err, &e) {
		return WithStatus(ExitInternal, err)
	}
	code := ExitInternal
	switch e.Code {
	case protocol.CodeDenied, protocol.CodeBlocked, protocol.CodeApprovalTimeout, protocol.CodeNoApprover:
		code = ExitDenied
	case protocol.CodeInvalidArguments, protocol.CodeUnknownTool, protocol.CodeInvalidParams:
		code = ExitUsage
	case protocol.CodeSandboxUnavailable:
		code = ExitUnavailable
	case protocol.CodeSandboxFailed, protocol.CodeTooManyRequests:
		code = ExitSandbox
	case protocol.CodeTimedOut, protocol.CodeLimitExceeded:
		code = ExitTimeout
	}
	return WithStatus(code, err)
}
