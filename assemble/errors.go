package assemble

import "errors"

// A Kind says what failed while a configuration was turned into a supervisor.
type Kind int

const (
	// Internal is all that is neither of the others: a log that cannot be opened, a full
	// disk, a bug. It is the zero value.
	Internal Kind = iota
	// Configuration is something that the configuration says, or a command line.
	Configuration
	// Unavailable is a sandbox that this host cannot give, where the configuration wants one.
	Unavailable
)

// An Error says what failed, of which kind that is, and what a person can do about it.
// Every error of this package is or wraps one.
type Error struct {
	Kind   Kind
	Err    error
	Advice string // "" if there is none
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Hint says what a person can do about it, or "" if that is not known.
func (e *Error) Hint() string {
	var inner interface{ Hint() string }
	if e.Advice == "" && errors.As(e.Err, &inner) {
		return inner.Hint()
	}
	return e.Advice
}

func internalError(err error) *Error { return &Error{Kind: Internal, Err: err} }
func configError(err error) *Error   { return &Error{Kind: Configuration, Err: err} }
func unavailable(err error) *Error   { return &Error{Kind: Unavailable, Err: err} }

// hinted is e with what a person can do about it.
func hinted(e *Error, advice string) error {
	e.Advice = advice
	return e
}
