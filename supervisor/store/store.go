package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/internal/statedir"
)

// FileName is the database's name in the state directory.
const FileName = "approvals.db"

// DefaultPath is where the store is: in the state directory of the XDG Base
// Directory Specification. It fails if neither XDG_STATE_HOME nor HOME is set.
func DefaultPath() (string, error) {
	path, err := statedir.Path(FileName)
	if err != nil {
		return "", fmt.Errorf("store: %w", err)
	}
	return path, nil
}

// A Store is an approval.Store in a file. It is safe for concurrent use, also by
// several processes.
type Store struct {
	path string

	mu     sync.Mutex
	seen   stamp // of the file when answers was read from it
	known  answers
	uses   map[approval.Key]use // not written yet
	closed bool
}

var _ approval.Store = (*Store)(nil)

// answers are all that is remembered.
type answers map[approval.Key]approval.Memory

// A use counts what Touch reported since the file was last written.
type use struct {
	hits int
	last time.Time
}

// Open opens the store at path, and makes it, and its directory, if it is not
// there. Its error is an *Error.
func Open(path string) (*Store, error) {
	s := &Store{path: path, uses: map[approval.Key]use{}}
	if err := prepare(path); err != nil {
		return nil, s.error("open", err)
	}
	if err := s.reload(); err != nil {
		return nil, s.error("open", err)
	}
	return s, nil
}

// Path is the file's.
func (s *Store) Path() string { return s.path }

func (s *Store) error(op string, err error) error { return &Error{op, s.path, err} }

// Lookup implements approval.Store.
func (s *Store) Lookup(keys ...approval.Key) ([]approval.Memory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(); err != nil {
		return nil, s.error("read", err)
	}
	var found []approval.Memory
	for _, k := range keys {
		if m, ok := s.known[k]; ok {
			found = append(found, s.uses[k].add(m))
		}
	}
	return found, nil
}

// List implements approval.Store. The oldest comes first.
func (s *Store) List() ([]approval.Memory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(); err != nil {
		return nil, s.error("read", err)
	}
	list := make([]approval.Memory, 0, len(s.known))
	for k, m := range s.known {
		list = append(list, s.uses[k].add(m))
	}
	slices.SortFunc(list, func(a, b approval.Memory) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// Remember implements approval.Store. When it returns nil, m is on disk. Only
// the scopes agent and global outlive a session, so only they are kept.
func (s *Store) Remember(m approval.Memory) error {
	if err := checkKey(m.Key); err != nil {
		return s.error("remember in", err)
	}
	return s.change("remember in", func(t *table) error { return t.put(m) })
}

// Forget implements approval.Store.
func (s *Store) Forget(id string) (found bool, err error) {
	err = s.change("forget in", func(t *table) error {
		for k, m := range t.answers {
			if m.ID == id {
				found = true
				return t.remove(k)
			}
		}
		return nil
	})
	return found && err == nil, err
}

// Touch implements approval.Store.
func (s *Store) Touch(k approval.Key, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uses[k]
	s.uses[k] = use{u.hits + 1, at}
}

// Spend implements approval.Store. Of all processes that try at once, no more
// succeed than there are uses left.
func (s *Store) Spend(k approval.Key, id string, at time.Time) (spent bool, err error) {
	err = s.change("count a use in", func(t *table) error {
		m, ok := t.answers[k]
		if !ok || m.ID != id || m.Hits >= m.Uses {
			return nil
		}
		spent = true
		return t.put(use{1, at}.add(m))
	})
	return spent && err == nil, err
}

// Close writes the counts of uses. Everything else has been on disk before.
func (s *Store) Close() error {
	s.mu.Lock()
	unwritten, closed := len(s.uses) > 0, s.closed
	s.mu.Unlock()
	if closed {
		return nil
	}
	var err error
	if unwritten {
		err = s.change("close", func(*table) error { return nil })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.known = true, nil
	return err
}

func (u use) add(m approval.Memory) approval.Memory {
	m.Hits += u.hits
	if u.last.After(m.LastUsed) {
		m.LastUsed = u.last
	}
	return m
}

// change makes one change and the counts of uses durable, under the file's
// exclusive lock, or leaves everything as it was.
func (s *Store) change(op string, do func(*table) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.error(op, ErrClosed)
	}
	var changed answers
	err := withDB(s.path, false, func(db *bbolt.DB) (err error) {
		changed, err = s.write(db, do)
		return err
	})
	if err != nil {
		s.seen = stamp{} // it may be written all the same: look before the next answer
		return s.error(op, err)
	}
	s.known, s.uses, s.seen = changed, map[approval.Key]use{}, stamp{}
	return nil
}

// write commits twice. bbolt keeps two head pages and falls back to the older one
// when the newer is damaged; after the second commit both know the change.
func (s *Store) write(db *bbolt.DB, do func(*table) error) (changed answers, err error) {
	err = db.Update(func(tx *bbolt.Tx) error {
		t, err := openTable(tx)
		if err != nil {
			return err
		}
		changed = t.answers
		if err := t.count(s.uses); err != nil { // before do: they are of what was there until now
			return err
		}
		if err := do(t); err != nil {
			return err
		}
		return t.seal()
	})
	if err != nil {
		return nil, err
	}
	return changed, db.Update(func(*bbolt.Tx) error { return nil })
}

// refresh reads the file again if it is not what it was.
func (s *Store) refresh() error {
	if s.closed {
		return ErrClosed
	}
	now, err := stampOf(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return errRemoved
	}
	if err != nil {
		return err
	}
	if now == s.seen {
		return nil
	}
	return s.reload()
}

// reload reads the file. The stamp is taken first: a change that comes between
// the two is read twice and not missed. That of a file which has just been
// written is not kept, since the next change may leave it the same.
func (s *Store) reload() error {
	before, err := stampOf(s.path)
	if err != nil {
		return err
	}
	if before.fresh(time.Now()) {
		before = stamp{}
	}
	var read answers
	err = withDB(s.path, true, func(db *bbolt.DB) error {
		return db.View(func(tx *bbolt.Tx) error {
			t, err := openTable(tx)
			if err == nil {
				read = maps.Clone(t.answers)
			}
			return err
		})
	})
	if err == nil {
		s.known, s.seen = read, before
	}
	return err
}
