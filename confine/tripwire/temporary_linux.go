package tripwire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A file is replaced by a new one that is renamed over it (rename(2)), and for a moment
// the new one has a name of its own beside it: the kernel cannot put a file without a
// name in another's place. The name is written into the journal before, so that the next
// start can remove what a supervisor that was killed in that moment has left, and
// nothing else.

// A temporary is the second part of a journal.
type temporary struct {
	Path string `json:"temporary"`
}

// WillMake notes that init may make a file at path and leave it, if it is killed.
func (w *Baseline) WillMake(path string) error { return w.Journal.note(temporary{path}) }

// note writes t behind the body, in place of the last one.
func (j *journal) note(t temporary) error {
	if j == nil {
		return nil
	}
	b, err := json.Marshal(t)
	if err == nil {
		err = j.File.Truncate(j.size)
	}
	if err == nil {
		_, err = j.File.WriteAt(b, j.size)
	}
	if err != nil {
		return fmt.Errorf("confine: %w: %w", confine.ErrJournal, err)
	}
	return nil
}

// notesIn gives the name in what follows a journal's body, and when the sandbox had ended, 0 if
// nobody noted that. Half a name was written by a supervisor that was killed before it had the
// file made.
func notesIn(rest []byte) (left string, ended int64) {
	for notes := json.NewDecoder(bytes.NewReader(rest)); ; {
		var n struct {
			temporary
			wire.Ended
		}
		if notes.Decode(&n) != nil {
			return left, ended
		}
		left, ended = cmp.Or(n.Path, left), cmp.Or(n.Ended.Ended, ended)
	}
}

// clearTemporary removes a file that a killed supervisor's init had made at path, if it
// lies where a tool under p may write. No link is followed on the way: the tool could have
// made one since.
func clearTemporary(p sandboxprofile.Profile, path string) error {
	if path == "" || !mayWrite(p, path) {
		return nil
	}
	dir, err := unix.Openat2(unix.AT_FDCWD, filepath.Dir(path), &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil // the directory is not there any more, and the file is not in it
	}
	defer unix.Close(dir)
	err = unix.Unlinkat(dir, filepath.Base(path), 0)
	if err != nil && err != unix.ENOENT && err != unix.EISDIR {
		return fmt.Errorf("confine: remove %q, which a killed supervisor left: %w", path, err)
	}
	return nil
}
