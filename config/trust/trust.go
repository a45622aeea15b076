// Package trust records the workspaces' configuration files that a person has vouched
// for. The record lies in the state directory of the user, which no sandbox shows. A
// record that another user could have written is an error and gives no trust.
package trust

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/ownfile"
	"github.com/sandgate/sandgate/internal/statedir"
)

// FileName is the name of the record in the state directory.
const FileName = "trusted.json"

// maxFile bounds the record: more files than anyone has read.
const maxFile = 1 << 20

// DefaultPath is where the record of this user lies.
func DefaultPath() (string, error) {
	path, err := statedir.Path(FileName)
	if err != nil {
		return "", fmt.Errorf("trust: %w", err)
	}
	return path, nil
}

// An Entry is one file that is trusted.
type Entry struct {
	File   string    `json:"file"`   // absolute, the links in its directory resolved
	Digest string    `json:"digest"` // config.Config.TrustDigest
	Since  time.Time `json:"since"`
}

// A Store is the record in a file.
type Store struct{ path string }

// At is the record in the file at path, which need not be there.
func At(path string) *Store { return &Store{path} }

// Path is the file of the record.
func (s *Store) Path() string { return s.path }

// An Error says what was done to the record, and why it failed.
type Error struct {
	Op, Path string
	Err      error
}

func (e *Error) Error() string { return fmt.Sprintf("trust: %s %q: %v", e.Op, e.Path, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Hint says what a person can do about the error.
func (e *Error) Hint() string {
	if e.Op == "read" {
		return "inspect and remove the file, then run `sandgate config trust` again for the files that you have read"
	}
	return ""
}

// Trusts reports whether the file is trusted as it is.
func (s *Store) Trusts(file, digest string) (bool, error) {
	list, err := s.List()
	return slices.ContainsFunc(list, func(e Entry) bool { return e.File == file && e.Digest == digest }), err
}

// List gives the files that are trusted, by name.
func (s *Store) List() ([]Entry, error) {
	list, err := s.read()
	if err != nil {
		return nil, &Error{"read", s.path, err}
	}
	return list, nil
}

// Add vouches for a file, in place of what was said of it before.
func (s *Store) Add(e Entry) error {
	return s.edit(func(list []Entry) []Entry {
		list = slices.DeleteFunc(list, func(have Entry) bool { return have.File == e.File })
		list = append(list, e)
		slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.File, b.File) })
		return list
	})
}

// Revoke forgets a file, and reports whether it was trusted.
func (s *Store) Revoke(file string) (was bool, err error) {
	err = s.edit(func(list []Entry) []Entry {
		n := len(list)
		list = slices.DeleteFunc(list, func(have Entry) bool { return have.File == file })
		was = len(list) < n
		return list
	})
	return was && err == nil, err
}

// record is the content of the file.
type record struct {
	Version int     `json:"version"`
	Files   []Entry `json:"files"`
}

func (s *Store) read() ([]Entry, error) {
	f, err := os.OpenFile(s.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := errors.Join(ownfile.Check(f, 0o077), ownfile.CheckDir(filepath.Dir(s.path))); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	return parse(data)
}

// parse is strict: a record that can be read in two ways vouches for nothing.
func parse(data []byte) ([]Entry, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	var r record
	if err := jsonv2.Unmarshal(data, &r, jsonv2.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if r.Version != 1 {
		return nil, fmt.Errorf("unknown version %d", r.Version)
	}
	for i, e := range r.Files {
		if !filepath.IsAbs(e.File) || filepath.Clean(e.File) != e.File || !strings.HasPrefix(e.Digest, "sha256:") {
			return nil, fmt.Errorf("entry %d is not valid", i)
		}
		if slices.ContainsFunc(r.Files[:i], func(before Entry) bool { return before.File == e.File }) {
			return nil, fmt.Errorf("%q appears twice", e.File)
		}
	}
	return r.Files, nil
}

func (s *Store) edit(change func([]Entry) []Entry) error {
	unlock, err := atomicfile.LockDir(filepath.Dir(s.path))
	if err != nil {
		return &Error{"write", s.path, err}
	}
	defer unlock()
	list, err := s.List()
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(record{1, append([]Entry{}, change(list)...)}, "", "  ")
	if err != nil {
		return &Error{"write", s.path, err}
	}
	if err := atomicfile.WriteFile(s.path, append(data, '\n'), 0o600); err != nil {
		return &Error{"write", s.path, err}
	}
	return nil
}
