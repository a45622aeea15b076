// Package quarantine keeps what was taken out of a workspace: files and
// directories that a tool left where a program of the user's would run them.
//
// What is kept is moved, not copied, where it lies on the same file system:
// nothing is lost, whatever its size, and the name is gone at once. It is never
// executed, followed or read as anything but bytes. The directory belongs to the
// user alone (0700); whatever lies in it is still a stranger's.
//
//	DIR/items/ID/manifest.jsonl   what was taken, one line before and one after each move
//	DIR/items/ID/0, 1, ...        the files and directories themselves
//	DIR/running/                  journals of the sandboxes that run now (package confine)
package quarantine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/internal/statedir"
)

// maxItems bounds how many items are kept. A full quarantine takes nothing more,
// so that what cannot be undone is said instead of what was kept being dropped.
const maxItems = 1000

// ErrFull means that the quarantine holds as many items as it may.
var ErrFull = errors.New("the quarantine is full: look at `sandgate quarantine list` and drop what is not needed")

// ErrNotFound means that no item or entry has that name.
var ErrNotFound = errors.New("no such item in the quarantine")

// A Store is the quarantine of one user. Several processes may use it at once:
// each makes items of its own.
type Store struct {
	dir string
}

// Open makes the directory if it is not there. It refuses one that others could
// read or change.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir}
	for _, d := range []string{dir, s.items(), s.Running()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("quarantine: %w", err)
		}
		info, err := os.Lstat(d)
		if err != nil {
			return nil, fmt.Errorf("quarantine: %w", err)
		}
		if !info.IsDir() || info.Mode().Perm()&0o077 != 0 {
			return nil, fmt.Errorf("quarantine: %q is %v; it must be a directory that only its owner can use (0700)", d, info.Mode())
		}
	}
	return s, nil
}

// DefaultDir is where the quarantine is: in the state directory of the XDG Base
// Directory Specification. It fails if neither XDG_STATE_HOME nor HOME is set.
func DefaultDir() (string, error) {
	path, err := statedir.Path("quarantine")
	if err != nil {
		return "", fmt.Errorf("quarantine: %w", err)
	}
	return path, nil
}

// Dir is the directory of the store.
func (s *Store) Dir() string { return s.dir }

// Running is the directory of the journals.
func (s *Store) Running() string { return filepath.Join(s.dir, "running") }

func (s *Store) items() string { return filepath.Join(s.dir, "items") }

// An Entry is one file or directory that was taken.
type Entry struct {
	N      int       `json:"n"`
	Path   string    `json:"path"`           // where it was, absolute
	Root   string    `json:"root"`           // the writable tree around it
	Reason string    `json:"reason"`         // why it was taken
	Call   string    `json:"call,omitempty"` // SESSION/CALL
	Taken  time.Time `json:"taken"`

	Kind   string `json:"kind,omitempty"` // file, dir, symlink, other; "" if the move was never finished
	Mode   string `json:"mode,omitempty"` // as ls prints it
	Size   int64  `json:"size"`           // bytes, of a directory those of the files in it
	Files  int    `json:"files"`          // how many files and directories it is
	Target string `json:"target,omitempty"`
	// SHA256 is that of a file's content, or of a directory's listing with the
	// digests of its files; "" if it is too large to be read whole.
	SHA256   string    `json:"sha256,omitempty"`
	Restored time.Time `json:"restored,omitzero"`
}

// Kept reports whether the entry's bytes are in the quarantine.
func (e Entry) Kept() bool { return e.Kind != "" && e.Restored.IsZero() }

// An Item is what was taken at the end of one call.
type Item struct {
	ID      string  `json:"id"`
	Dir     string  `json:"dir"`
	Entries []Entry `json:"entries"`
}

// List gives every item, the oldest first.
func (s *Store) List() ([]Item, error) {
	names, err := s.ids()
	if err != nil {
		return nil, err
	}
	items := make([]Item, 0, len(names))
	for _, id := range names {
		x, err := s.Get(id)
		if err != nil {
			return nil, err
		}
		items = append(items, x)
	}
	return items, nil
}

func (s *Store) ids() ([]string, error) {
	dirs, err := os.ReadDir(s.items())
	if err != nil {
		return nil, fmt.Errorf("quarantine: list: %w", err)
	}
	var names []string
	for _, d := range dirs {
		if validID(d.Name()) {
			names = append(names, d.Name())
		}
	}
	slices.Sort(names) // an id begins with its time
	return names, nil
}

// Get gives one item.
func (s *Store) Get(id string) (Item, error) {
	x := Item{ID: id, Dir: filepath.Join(s.items(), id)}
	if !validID(id) {
		return x, fmt.Errorf("quarantine: %q: %w", id, ErrNotFound)
	}
	b, err := os.ReadFile(filepath.Join(x.Dir, manifest))
	if errors.Is(err, fs.ErrNotExist) {
		if _, statErr := os.Lstat(x.Dir); statErr == nil {
			return x, nil // it was made, and the process died before it took anything
		}
		return x, fmt.Errorf("quarantine: %q: %w", id, ErrNotFound)
	}
	if err != nil {
		return x, fmt.Errorf("quarantine: read: %w", err)
	}
	x.Entries, err = parseManifest(b)
	if err != nil {
		return x, fmt.Errorf("quarantine: %s: %w", filepath.Join(x.Dir, manifest), err)
	}
	return x, nil
}

// validID keeps an id from being a path.
func validID(id string) bool {
	return id != "" && id != "." && id != ".." && !strings.ContainsAny(id, "/\x00")
}

const manifest = "manifest.jsonl"

// parseManifest reads the lines of a manifest. A later line about an entry
// replaces the earlier one; a last line that was not finished is left out, since
// the one before its move is there.
func parseManifest(b []byte) ([]Entry, error) {
	var entries []Entry
	for i, line := range bytes.SplitAfter(b, []byte("\n")) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		switch {
		case e.N >= 0 && e.N < len(entries):
			entries[e.N] = e
		case e.N == len(entries):
			entries = append(entries, e)
		default:
			return nil, fmt.Errorf("line %d: entry %d comes after %d", i+1, e.N, len(entries))
		}
	}
	return entries, nil
}

// Content is where the bytes of an entry are.
func (x Item) Content(n int) string { return filepath.Join(x.Dir, strconv.Itoa(n)) }

// Drop deletes one item with everything in it.
func (s *Store) Drop(id string) error {
	x, err := s.Get(id)
	if errors.Is(err, ErrNotFound) {
		return err
	}
	if err := os.RemoveAll(x.Dir); err != nil {
		return fmt.Errorf("quarantine: drop: %w", err)
	}
	return nil
}

// note appends one line to the manifest of the item in dir.
func note(dir string, e Entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("quarantine: bug: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, manifest), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	return nil
}
