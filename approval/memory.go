package approval

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Fingerprint identifies "the same again": the connector, the tool and the
// payload, deeply equal as canonical JSON. It is their SHA-256.
type Fingerprint [sha256.Size]byte

func fingerprint(connector, tool string, payload map[string]any, normalize func(string) string) (Fingerprint, string, error) {
	canonical, err := Canonical(payload, normalize)
	if err != nil {
		return Fingerprint{}, "", fmt.Errorf("payload: %w", err)
	}
	whole, err := Canonical([]any{connector, tool}, nil)
	if err != nil {
		return Fingerprint{}, "", fmt.Errorf("tool name: %w", err)
	}
	return sha256.Sum256(append(whole, canonical...)), string(canonical), nil
}

// A Key says for whom, for what and which way an answer is remembered. An
// allow and a deny for the same thing have different keys, so that remembering
// one never erases the other.
type Key struct {
	Scope       Scope
	Holder      string // the session's id or the agent's name; "" at Global
	Effect      Effect // Allow or Deny
	Fingerprint Fingerprint
}

// A Memory is a remembered answer and where it came from.
type Memory struct {
	ID        string // of the decision that it was
	Key       Key
	ToolName  string
	Connector string
	Payload   string // canonical JSON
	Approver  string
	Feedback  string
	Created   time.Time
	LastUsed  time.Time // zero if it was never used
	Hits      int
}

// A Store keeps answers at the scopes Agent and Global. It is safe for
// concurrent use. A call whose memory cannot be read is refused, because a
// denial might be among what could not be read.
type Store interface {
	Lookup(Key) (Memory, bool, error)
	// Remember returns when the memory is as durable as the store makes it.
	Remember(Memory) error
	Forget(id string) (found bool, err error)
	List() ([]Memory, error)
	// Touch counts one use, as far as that can be done without waiting.
	Touch(Key, time.Time)
}

// A MemoryStore is a Store that lasts as long as the process.
type MemoryStore struct {
	mu sync.Mutex
	m  map[Key]*Memory
}

// NewMemoryStore makes an empty MemoryStore.
func NewMemoryStore() *MemoryStore { return &MemoryStore{m: map[Key]*Memory{}} }

// Lookup implements Store.
func (s *MemoryStore) Lookup(k Key) (Memory, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.m[k]; ok {
		return *m, true, nil
	}
	return Memory{}, false, nil
}

// Remember implements Store.
func (s *MemoryStore) Remember(m Memory) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m[m.Key] = &m
	return nil
}

// Forget implements Store.
func (s *MemoryStore) Forget(id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, m := range s.m {
		if m.ID == id {
			delete(s.m, k)
			return true, nil
		}
	}
	return false, nil
}

// List implements Store. The oldest comes first.
func (s *MemoryStore) List() ([]Memory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Memory, 0, len(s.m))
	for _, m := range s.m {
		list = append(list, *m)
	}
	sortMemories(list)
	return list, nil
}

// Touch implements Store.
func (s *MemoryStore) Touch(k Key, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m, ok := s.m[k]; ok {
		m.Hits++
		m.LastUsed = at
	}
}

func sortMemories(list []Memory) {
	slices.SortFunc(list, func(a, b Memory) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
}
