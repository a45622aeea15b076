package store

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/sandgate/sandgate/approval"
)

// A Journal is an approval.Journal in a file of its own, which is made with the
// first request and removed with the last. The file's lock is held for as long as
// the process lives, and by that another process knows that its requests still
// wait. It is safe for concurrent use.
type Journal struct {
	dir string

	mu   sync.Mutex
	db   *bbolt.DB // nil until there is a request
	path string
}

var _ approval.Journal = (*Journal)(nil)

var requestsBucket = []byte("requests")

const journalGlob = "pending-*.db"

// NewJournal makes a journal in dir, the directory of the store. Nothing is
// written before the first request.
func NewJournal(dir string) *Journal { return &Journal{dir: dir} }

// Add implements approval.Journal. Requests that are added at the same time share
// one write to the disk.
func (j *Journal) Add(p approval.Pending) error {
	row, err := json.Marshal(p)
	if err != nil {
		return j.error("note in", err)
	}
	db, err := j.open()
	if err != nil {
		return j.error("note in", err)
	}
	err = db.Batch(func(tx *bbolt.Tx) error { return tx.Bucket(requestsBucket).Put([]byte(p.ID), row) })
	if err != nil {
		return j.error("note in", err)
	}
	return nil
}

// Remove implements approval.Journal.
func (j *Journal) Remove(id string) error {
	j.mu.Lock()
	db := j.db
	j.mu.Unlock()
	if db == nil {
		return nil
	}
	err := db.Batch(func(tx *bbolt.Tx) error { return tx.Bucket(requestsBucket).Delete([]byte(id)) })
	if err != nil {
		return j.error("take from", err)
	}
	return nil
}

// Close removes the file, unless a request is left in it.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.db == nil {
		return nil
	}
	left := 0
	err := j.db.View(func(tx *bbolt.Tx) error {
		left = tx.Bucket(requestsBucket).Stats().KeyN
		return nil
	})
	if err == nil && left == 0 {
		err = os.Remove(j.path) // still locked: nobody takes it for one that was left behind
	}
	err = errors.Join(err, j.db.Close())
	j.db = nil
	if err != nil {
		return j.error("close", err)
	}
	return nil
}

func (j *Journal) error(op string, err error) error {
	path := j.path
	if path == "" {
		path = j.dir
	}
	return &Error{op, path, err}
}

// open makes the file with the first request. It does so under the directory's
// lock, as Orphans looks under it: a file without its lock is a dead one's.
func (j *Journal) open() (*bbolt.DB, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.db != nil {
		return j.db, nil
	}
	unlock, err := lockDir(j.dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	path := filepath.Join(j.dir, "pending-"+rand.Text()[:12]+".db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait, NoStatistics: true})
	if err != nil {
		return nil, explain(err)
	}
	db.MaxBatchDelay = time.Millisecond // people are slower than that, and disks are not
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(requestsBucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close(), os.Remove(path))
	}
	j.db, j.path = db, path
	return db, nil
}

func lockDir(name string) (unlock func(), err error) {
	dir, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if err := lockExclusive(dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return func() { _ = dir.Close() }, nil
}

// Orphans are requests of processes that ended before anybody had recorded
// what became of them.
type Orphans struct {
	requests []approval.Pending // oldest first
	files    []*bbolt.DB
}

// Waiting lists the requests, the oldest first.
func (l *Orphans) Waiting() []approval.Pending { return l.requests }

// FindOrphans collects them from dir. They stay there, and are kept from other
// processes, until Discard or Close.
func FindOrphans(dir string) (*Orphans, error) {
	l := &Orphans{}
	names, err := filepath.Glob(filepath.Join(dir, journalGlob))
	if err != nil || len(names) == 0 {
		return l, err
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return nil, &Error{"look for requests in", dir, err}
	}
	defer unlock()
	for _, name := range names {
		if err := l.take(name); err != nil {
			return nil, errors.Join(&Error{"read", name, err}, l.Close())
		}
	}
	slices.SortFunc(l.requests, func(a, b approval.Pending) int { return a.Requested.Compare(b.Requested) })
	return l, nil
}

// take reads one file, unless its process lives.
func (l *Orphans) take(name string) error {
	if empty, err := madeButNotFilled(name); empty || err != nil {
		return err
	}
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{Timeout: time.Nanosecond, NoStatistics: true, OpenFile: func(name string, flag int, _ os.FileMode) (*os.File, error) {
		return openChecked(name, flag)
	}})
	switch {
	case errors.Is(err, berrors.ErrTimeout), errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return explain(err)
	}
	l.files = append(l.files, db)
	return db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(requestsBucket)
		if b == nil {
			return nil // it died before its first request
		}
		return b.ForEach(func(id, row []byte) error {
			var p approval.Pending
			if err := json.Unmarshal(row, &p); err != nil || p.ID != string(id) {
				return fmt.Errorf("%w: request %q", ErrCorrupt, id)
			}
			l.requests = append(l.requests, p)
			return nil
		})
	})
}

// madeButNotFilled removes what a process has left that died between making its
// file and writing to it. The directory is locked, so nothing else uses it now.
func madeButNotFilled(name string) (bool, error) {
	st, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err != nil || !st.Mode().IsRegular() || st.Size() > 0:
		return false, err
	}
	return true, os.Remove(name)
}

// Discard forgets the requests, once what became of them is recorded elsewhere.
func (l *Orphans) Discard() error {
	var errs []error
	for _, db := range l.files {
		errs = append(errs, os.Remove(db.Path()), db.Close())
	}
	l.files, l.requests = nil, nil
	return errors.Join(errs...)
}

// Close leaves them to the next process.
func (l *Orphans) Close() error {
	var errs []error
	for _, db := range l.files {
		errs = append(errs, db.Close())
	}
	l.files = nil
	return errors.Join(errs...)
}
