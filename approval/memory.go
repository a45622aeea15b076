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

func fingerprint(connector, tool string, payload map[string]any) (Fingerprint, string, error) {
	canonical, err := Canonical(payload)
	if err != nil {
		return Fingerprint{}, "", fmt.Errorf("payload: %w", err)
	}
	whole, err := Canonical([]any{connector, tool})
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

// A Memory is a remembered answer, where it came from, and how long it holds. Its tags are
// those of files that it is kept in.
type Memory struct {
	ID          string    `json:"id"` // of the decision that it was
	Key         Key       `json:"-"`
	ToolName    string    `json:"tool"`
	Connector   string    `json:"connector,omitempty"`
	Description string    `json:"description,omitempty"` // of the request that was answered
	Payload     string    `json:"payload"`               // canonical JSON
	Pattern     *Pattern  `json:"pattern,omitempty"`     // what is covered, if it is not the payload
	Boundaries  []string  `json:"boundaries,omitempty"`  // what the calls that it allows could reach when it was given: Call.Boundary
	Approver    string    `json:"approver"`
	Feedback    string    `json:"feedback,omitempty"`
	SessionID   string    `json:"session,omitempty"` // where it was given
	Created     time.Time `json:"created"`
	Expires     time.Time `json:"expires,omitzero"`   // zero: not by time
	Uses        int       `json:"uses,omitempty"`     // it holds for so many; 0: for any number
	LastUsed    time.Time `json:"last_used,omitzero"` // zero if it was never used
	Hits        int       `json:"hits,omitempty"`
}

// clockTolerance is how far clocks may disagree before a time in the future
// counts as a clock that was set back.
const clockTolerance = time.Minute

// live reports whether m still holds. If the clock was set back to before m was made or last
// used, its remaining time is unknown: an allow then ends, and a denial stays.
func (m Memory) live(now time.Time) bool {
	if m.over(now) {
		return false
	}
	if m.Expires.IsZero() {
		return true
	}
	setBack := now.Before(m.Created.Add(-clockTolerance)) || now.Before(m.LastUsed.Add(-clockTolerance))
	return m.Key.Effect == Deny || !setBack
}

// keptFor is how long an answer is kept after its time. A clock that was set forward
// by mistake, and back, then takes no denial with it.
const keptFor = 24 * time.Hour

// over reports whether the uses of m, or its time, have run out.
func (m Memory) over(now time.Time) bool {
	return m.Uses > 0 && m.Hits >= m.Uses || !m.Expires.IsZero() && !now.Before(m.Expires)
}

// maxBoundaries is for how many boundaries one answer is kept, the latest: a pattern is answered
// once in each place where more can be reached.
const maxBoundaries = 8

// holds reports whether what m was given for is all that the call can reach.
func (m Memory) holds(call Call) bool {
	return call.Within == nil || slices.ContainsFunc(m.Boundaries, call.Within)
}

// outlives reports whether m holds at least as long as other.
func (m Memory) outlives(other Memory) bool {
	return (m.Uses == 0 || other.Uses > 0 && m.Uses-m.Hits >= other.Uses-other.Hits) &&
		(m.Expires.IsZero() || !other.Expires.IsZero() && !m.Expires.Before(other.Expires))
}

// A Store keeps answers at the scopes Agent and Global. It is safe for
// concurrent use. A call whose memory cannot be read is refused, because a
// denial might be among what could not be read. A Store keeps what has expired
// until it is forgotten or replaced; the Controller knows the time, and forgets it.
type Store interface {
	// Lookup returns what is kept under the keys, in their order.
	Lookup(keys ...Key) ([]Memory, error)
	// Remember returns when the memory is as durable as the store makes it.
	Remember(Memory) error
	Forget(id string) (found bool, err error)
	List() ([]Memory, error)
	// Touch counts one use, as far as that can be done without waiting.
	Touch(Key, time.Time)
	// Spend counts one use of a memory with limited uses, and returns once the count is as durable
	// as the store makes it. It reports false if no use is left or the memory no longer exists.
	Spend(k Key, id string, at time.Time) (bool, error)
}

// A MemoryStore is a Store that lasts as long as the process.
type MemoryStore struct {
	mu sync.Mutex
	m  map[Key]*Memory
}

// NewMemoryStore makes an empty MemoryStore.
func NewMemoryStore() *MemoryStore { return &MemoryStore{m: map[Key]*Memory{}} }

// Lookup implements Store.
func (s *MemoryStore) Lookup(keys ...Key) ([]Memory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.m) == 0 {
		return nil, nil
	}
	var found []Memory
	for _, k := range keys {
		if m, ok := s.m[k]; ok {
			found = append(found, *m)
		}
	}
	return found, nil
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

// Spend implements Store.
func (s *MemoryStore) Spend(k Key, id string, at time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.m[k]
	if !ok || m.ID != id || m.Hits >= m.Uses {
		return false, nil
	}
	m.Hits++
	m.LastUsed = at
	return true, nil
}

func sortMemories(list []Memory) {
	slices.SortFunc(list, func(a, b Memory) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
}
