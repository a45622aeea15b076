package audit

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrUnavailable is in every error of Open, Append and Close: the log cannot
// hold what it was asked to hold.
var ErrUnavailable = errors.New("audit log unavailable")

// ErrCorrupt is in the error of a log that is not what it was when it was
// written, in a way that no crash explains. There is a *ChainError beside it.
var ErrCorrupt = errors.New("audit log corrupt")

// ErrClosed is in the error of an Append after Close.
var ErrClosed = errors.New("audit log closed")

// An Error says what the log was doing, to which file, and why it failed.
type Error struct {
	Op   string // "open", "append", "close"
	Path string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("audit: %s %q: %v", e.Op, e.Path, e.Err) }

// Unwrap makes every Error an ErrUnavailable.
func (e *Error) Unwrap() []error { return []error{ErrUnavailable, e.Err} }

// Hint says what a person can do about e.
func (e *Error) Hint() string {
	is := func(target error) bool { return errors.Is(e.Err, target) }
	switch {
	case is(syscall.ENOSPC), is(syscall.EDQUOT):
		return "free some space there, or set XDG_STATE_HOME to a directory on another disk (audit.path, if a file names it)"
	case is(syscall.EROFS), is(syscall.EACCES), is(syscall.EPERM):
		return "set XDG_STATE_HOME to a place that you can write to (audit.path, if a file names it)"
	case is(ErrCorrupt):
		return "look at it with `sandgate audit verify`, keep the log and its .checkpoint elsewhere as evidence, and a new log begins"
	case is(errUnsafe):
		return "the log must be a regular file of your own with mode 0600, in a directory that only you can write to"
	case is(errReplaced):
		return "put it back, and calls go on; to begin a new log, move its .checkpoint too, and start sandgate again"
	case is(errSync):
		return "the disk did not keep what was written: see the kernel log, then start sandgate again"
	}
	return ""
}

var (
	// errReplaced: entries would go to a file that is no longer at its path.
	errReplaced = errors.New("the file was moved, removed or replaced")
	// errSync: the kernel reports a failed write-back once and then forgets the
	// pages, so a later sync that succeeds proves nothing (fsync(2), NOTES).
	errSync = errors.New("sync failed")
)
