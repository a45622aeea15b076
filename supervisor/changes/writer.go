package changes

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A writer is an undo as far as its unfinished files go: their names have its letters in them, which
// nobody knows in advance. What another gives such a name is recorded and stays, like any other
// file. A writer that was killed has left its file in the state directory, without a lock.
type writer struct {
	letters string
	file    *os.File
}

func (w *Workspace) writers() string { return filepath.Join(w.dir, "writers") }

func (w *Workspace) newWriter() (*writer, error) {
	letters := rand.Text()[:writingLetters]
	f, err := os.OpenFile(filepath.Join(w.writers(), letters), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()), f.Close())
	}
	return &writer{letters, f}, nil
}

// end is for a writer that has none of its files left, unless it failed. nil has none.
func (x *writer) end(failed error) error {
	if x == nil {
		return nil
	}
	if failed != nil {
		return x.file.Close()
	}
	return errors.Join(os.Remove(x.file.Name()), x.file.Close())
}

// writing are the letters of the undos that are under way, and left those of the killed ones.
func (w *Workspace) writing() (living, left []string) {
	names, _ := os.ReadDir(w.writers())
	for _, n := range names {
		f, err := os.Open(filepath.Join(w.writers(), n.Name()))
		switch {
		case err != nil: // it has ended
		case unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil:
			left = append(left, n.Name())
		default:
			living = append(living, n.Name())
		}
		if err == nil {
			f.Close()
		}
	}
	return living, left
}

// isOf reports whether base is the name of an unfinished file of one of these writers.
func isOf(letters []string, base string) bool {
	for _, l := range letters {
		if isUnfinished(base) && strings.HasPrefix(base, unfinished+l) {
			return true
		}
	}
	return false
}
