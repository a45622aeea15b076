// Package atomicfile replaces small files so that a reader, and a machine that
// comes back after losing power, finds either the old content or the new one,
// whole, and nothing between the two.
//
// It is for files that one owner rewrites as a whole: a checkpoint, a token, a
// record of trust. WriteFile does not lock: of two writers at once the last one wins,
// unless both use LockDir.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNotRegular is in the error of a write whose target exists and is not a regular
// file. A rename over a symbolic link would replace the link, and over a socket or a
// device destroy it: such a file was not meant to be written this way.
var ErrNotRegular = errors.New("not a regular file")

// WriteFile replaces path with data. The file gets exactly the mode perm,
// whatever the umask. When WriteFile returns nil the content and the name are on
// disk. When it fails before the rename, path is as it was and nothing else is
// left in the directory; a failure after the rename is one of syncing the
// directory, and the new content may not survive a loss of power.
func WriteFile(path string, data []byte, perm fs.FileMode) error {
	if err := checkTarget(path); err != nil {
		return fmt.Errorf("atomicfile: write %q: %w", path, err)
	}
	tmp, err := writeTemp(path, data, perm)
	if err != nil {
		return fmt.Errorf("atomicfile: write %q: %w", path, err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("atomicfile: write %q: %w", path, errors.Join(err, os.Remove(tmp)))
	}
	if err := SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("atomicfile: write %q: %w", path, err)
	}
	return nil
}

func checkTarget(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%w: %s", ErrNotRegular, st.Mode().Type())
	}
	return nil
}

// writeTemp makes a synced file with data beside path, on the same file system
// (rename(2) does not cross file systems), and returns its name.
func writeTemp(path string, data []byte, perm fs.FileMode) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := fill(f, data, perm); err != nil {
		return "", errors.Join(err, f.Close())
	}
	return f.Name(), f.Close()
}

func fill(f *os.File, data []byte, perm fs.FileMode) error {
	if err := f.Chmod(perm); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

// SyncDir makes the names in dir durable: a file that was just created, renamed
// or removed there survives a loss of power (fsync(2), "Calling fsync() does not
// necessarily ensure that the entry in the directory ...").
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
