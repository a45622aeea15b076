package atomicfile

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// LockDir makes dir if it does not exist, and keeps other processes that lock it out
// until unlock: a process that reads a file, changes it and writes it again loses no
// change of another.
func LockDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return Lock(dir)
}

// Lock is LockDir for a directory, or a file, that is there (flock(2)).
func Lock(path string) (unlock func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: path, Err: err}, f.Close())
	}
	return func() { _ = f.Close() }, nil // closing unlocks
}
