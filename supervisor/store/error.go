package store

import (
	"errors"
	"fmt"
	"syscall"
)

var (
	// ErrCorrupt is in the error of a file that is not what was written.
	ErrCorrupt = errors.New("the file is damaged")
	// ErrInUse is in the error of a file that another process does not let go of.
	ErrInUse = errors.New("another process, most likely another supervisor, uses the file and does not let go of it")
	// ErrClosed is in the error of a use after Close.
	ErrClosed = errors.New("the store is closed")

	errNewer   = errors.New("a newer sandgate has written the file")
	errUnsafe  = errors.New("not safe for remembered answers")
	errRemoved = errors.New("the file was removed while it was in use")
)

// An Error says what the store was doing, to which file, and why it failed.
type Error struct {
	Op   string // "open", "read", "remember in", "forget in", "close"
	Path string
	Err  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("remembered answers: %s %q: %v", e.Op, e.Path, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Hint tells a person how to fix e.
func (e *Error) Hint() string {
	is := func(target error) bool { return errors.Is(e.Err, target) }
	switch {
	case is(ErrCorrupt):
		return "what was denied for good may be lost with it: move the file away, start again, and answer anew; or set approval.store to memory"
	case is(ErrInUse):
		return "find it with `fuser " + FileName + "`; a stopped process (state T) keeps the lock until it continues or ends"
	case is(errNewer):
		return "use that version, or set approval.store to memory"
	case is(errUnsafe):
		return "it must be a regular file of your own with mode 0600, in a directory that only you can write to"
	case is(errRemoved):
		return "start sandgate again: an empty store is made then"
	case is(syscall.ENOSPC), is(syscall.EDQUOT):
		return "free some space there"
	case is(syscall.EROFS), is(syscall.EACCES), is(syscall.EPERM):
		return "set XDG_STATE_HOME to a place that you can write to, or approval.store to memory"
	}
	return ""
}
