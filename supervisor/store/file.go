package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/ownfile"
)

// lockWait bounds how long a read or a write waits for another process. Each
// holds the lock for some milliseconds.
const lockWait = 5 * time.Second

// withDB opens the database, runs do, and closes it again. A page that is not
// what bbolt wrote can make it panic, and one beyond the end of a truncated file
// faults in its memory map; both are a damaged file, and not the end of the
// supervisor.
func withDB(path string, readOnly bool, do func(*bbolt.DB) error) (err error) {
	var file *os.File // on its own, since a panic takes the DB with it
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, p)
			release(file)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: lockWait, ReadOnly: readOnly, NoStatistics: true,
		OpenFile: func(name string, flag int, _ os.FileMode) (*os.File, error) {
			var err error
			file, err = openChecked(name, flag)
			return file, err
		},
	})
	if err != nil {
		return explain(err)
	}
	return errors.Join(do(db), db.Close())
}

// release lets go of a file whose DB is lost. Closing alone would not unlock it:
// the memory map, which stays, keeps the open file alive.
func release(f *os.File) {
	if f != nil {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		_ = f.Close()
	}
}

// explain gives bbolt's errors their meaning here.
func explain(err error) error {
	for _, damage := range []error{berrors.ErrInvalid, berrors.ErrChecksum, berrors.ErrVersionMismatch, berrors.ErrInvalidMapping} {
		if errors.Is(err, damage) {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
	if errors.Is(err, berrors.ErrTimeout) {
		return ErrInUse
	}
	return err
}

// openChecked opens a file that no other user can have written. It never makes
// one: prepare does, under the name of a finished file.
func openChecked(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag&^os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%w: a symbolic link", errUnsafe)
	}
	if err != nil {
		return nil, err
	}
	if err := checkFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func checkFile(f *os.File) error {
	if err := ownfile.Check(f, 0o077); err != nil {
		return fmt.Errorf("%w: %w", errUnsafe, err)
	}
	st, err := f.Stat()
	if err == nil && st.Size() == 0 { // bbolt would take it for a new one
		err = fmt.Errorf("%w: it is empty", ErrCorrupt)
	}
	return err
}

// prepare makes the directory and an empty store, unless they are there.
func prepare(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := ownfile.CheckDir(dir); err != nil {
		return fmt.Errorf("%w: %w", errUnsafe, err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return create(path)
}

// create makes an empty store under another name, and then gives it its own, so
// that no crash leaves half a file at path. The directory's lock keeps a second
// process from replacing what a first has just put there.
func create(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close() // and unlock
	if err := lockExclusive(dir); err != nil {
		return err
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	made := path + ".new"
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // what a crash has left
	}
	db, err := bbolt.Open(made, 0o600, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(makeTable), db.Close()); err != nil {
		return err
	}
	if err := os.Rename(made, path); err != nil {
		return err
	}
	return atomicfile.SyncDir(dir.Name())
}

func lockExclusive(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
	}
}

// A stamp tells one state of the file from another.
type stamp struct {
	dev, ino    uint64
	size        int64
	mtim, ctime unix.Timespec
}

func stampOf(path string) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return stamp{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return stamp{uint64(st.Dev), st.Ino, st.Size, st.Mtim, st.Ctim}, nil
}

// tick is longer than the grain of the times that a file system keeps, which is
// that of the kernel's clock interrupt: at most 10 ms.
const tick = 50 * time.Millisecond

// fresh reports whether the file may have changed again without its times
// showing it. A time in the future counts as fresh.
func (s stamp) fresh(now time.Time) bool {
	return now.Sub(time.Unix(s.ctime.Unix())) < tick
}
