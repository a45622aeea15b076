package changes

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A writer is an undo as far as its unfinished files go: their names have its random letters in them.
// What another gives such a name is recorded and stays, like any other file. A writer that was killed
// has left its file in the state directory, without a lock, and with the time of its last sign of
// life: who has read the letters since can rename a file to them, but no file gets an earlier change
// time.
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

// lives renews the sign of life. It does nothing for nil.
func (x *writer) lives() {
	if x != nil {
		_ = os.Chtimes(x.file.Name(), time.Time{}, time.Now())
	}
}

// end is for a writer that was not killed: leftovers are visible from now on. It does nothing for
// nil.
func (x *writer) end() error {
	if x == nil {
		return nil
	}
	return errors.Join(os.Remove(x.file.Name()), x.file.Close())
}

// writing are the letters of the undos that are under way, and left those of the killed ones, with
// when they lived at the latest, ns.
func (w *Workspace) writing() (living []string, left map[string]int64) {
	left = map[string]int64{}
	names, _ := os.ReadDir(w.writers())
	for _, n := range names {
		f, err := os.Open(filepath.Join(w.writers(), n.Name()))
		switch {
		case err != nil: // it has ended
		case unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil:
			if info, err := f.Stat(); err == nil {
				left[n.Name()] = info.ModTime().Add(2 * beatEvery).UnixNano()
			}
		default:
			living = append(living, n.Name())
		}
		if err == nil {
			f.Close()
		}
	}
	return living, left
}

// lettersIn are those of the writer whose unfinished file has this name, or "".
func lettersIn(base string) string {
	if !isUnfinished(base) {
		return ""
	}
	return base[len(unfinished):][:writingLetters]
}
