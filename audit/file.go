package audit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/ownfile"
	"github.com/sandgate/sandgate/internal/statedir"
)

// DefaultPath returns the default path of the log, in the state directory of the XDG Base
// Directory Specification. It fails if neither XDG_STATE_HOME nor HOME is set.
func DefaultPath() (string, error) {
	path, err := statedir.Path("audit.jsonl")
	if err != nil {
		return "", fmt.Errorf("audit: %w", err)
	}
	return path, nil
}

// disk has the file operations of the log. Tests put faults in between.
type disk interface {
	io.ReaderAt
	io.Writer
	Truncate(size int64) error
	Stat() (fs.FileInfo, error)
	SyncData() error
	Lock() (unlock func(), err error)
	Close() error
}

type osFile struct{ *os.File }

// SyncData makes what was written durable, with the metadata that is needed to
// read it back.
func (f osFile) SyncData() error { return syncData(f.File) }

func (f osFile) Lock() (func(), error) { return lock(f.File, unix.LOCK_EX) }

// lock takes an advisory lock, flock(2), of every process that uses the file.
// The kernel lets go of it when its holder dies.
func lock(f *os.File, how int) (unlock func(), err error) {
	fd := int(f.Fd())
	for {
		err := unix.Flock(fd, how)
		if err == nil {
			return func() { _ = unix.Flock(fd, unix.LOCK_UN) }, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return nil, &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

func lockShared(f *os.File) (unlock func(), err error) { return lock(f, unix.LOCK_SH) }

// openFile opens or creates the log. It refuses a file that another user could have created or
// can write: a log that others may change proves nothing.
func openFile(path string) (*os.File, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := ownfile.CheckDir(dir); err != nil {
		return nil, notSafe(err)
	}
	// O_NONBLOCK: a fifo at the name must be refused, not waited for.
	const flags = os.O_RDWR | os.O_APPEND | unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(path, flags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = createFile(path, flags)
	}
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%w: a symbolic link", errUnsafe)
	}
	if err != nil {
		return nil, err
	}
	if err := ownfile.Check(f, 0o022); err != nil {
		return nil, errors.Join(notSafe(err), f.Close())
	}
	return f, nil
}

func createFile(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := atomicfile.SyncDir(filepath.Dir(path)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// errUnsafe is in the error of a file or directory that others may have made or
// may change.
var errUnsafe = errors.New("not safe for an audit log")

// notSafe gives a reason of package ownfile its meaning here.
func notSafe(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errUnsafe, err)
}
