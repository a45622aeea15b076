package sandboxprofile

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// maxMemo bounds how many profiles a Memo knows. A supervisor has one for each
// tool, and some more where calls set their own limits.
const maxMemo = 256

// A Memo keeps what was computed of a profile for the next time that the same
// profile comes: its content is compared, so that one which was changed is another
// profile. It is safe for concurrent use. What it gives is shared, and not to be
// changed.
type Memo[T any] struct {
	compute func(Profile) T
	seed    maphash.Seed

	// recent are those that were found last. Comparing with one costs less than the
	// hash, which reads all of a profile too.
	recent [maxRecent]atomic.Pointer[memoized[T]]

	mu    sync.RWMutex
	known map[uint64][]*memoized[T]
	n     int
}

// maxRecent is for the tools that a session uses in turn.
const maxRecent = 4

type memoized[T any] struct {
	profile Profile
	once    sync.Once
	value   T
}

// NewMemo returns a memo of compute, which gets an immutable copy of the profile.
func NewMemo[T any](compute func(Profile) T) *Memo[T] {
	return &Memo[T]{compute: compute, seed: maphash.MakeSeed(), known: map[uint64][]*memoized[T]{}}
}

// Of gives what compute gives for p.
func (m *Memo[T]) Of(p Profile) T {
	x := m.again(p)
	if x == nil {
		key := p.hash(m.seed)
		if x = m.find(key, p); x == nil {
			x = m.add(key, p)
		}
		m.recent[key%maxRecent].Store(x)
	}
	x.once.Do(func() { x.value = m.compute(x.profile) })
	return x.value
}

func (m *Memo[T]) again(p Profile) *memoized[T] {
	for i := range m.recent {
		if x := m.recent[i].Load(); x != nil && identical(x.profile, p) {
			return x
		}
	}
	return nil
}

func (m *Memo[T]) find(key uint64, p Profile) *memoized[T] {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return sameIn(m.known[key], p)
}

func sameIn[T any](list []*memoized[T], p Profile) *memoized[T] {
	for _, x := range list {
		if identical(x.profile, p) {
			return x
		}
	}
	return nil
}

func (m *Memo[T]) add(key uint64, p Profile) *memoized[T] {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x := sameIn(m.known[key], p); x != nil {
		return x
	}
	if m.n >= maxMemo {
		clear(m.known)
		m.n = 0
	}
	x := &memoized[T]{profile: p.clone()}
	m.known[key] = append(m.known[key], x)
	m.n++
	return x
}

// hash is equal for identical profiles.
func (p Profile) hash(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	paths := uint64(0)
	for name, r := range p.Paths { // in any order, so they are added up
		h.Reset()
		_, _ = h.WriteString(name)
		_ = h.WriteByte(byte(r))
		paths += h.Sum64()
	}
	h.Reset()
	var numbers [8]byte
	number := func(n uint64) {
		binary.LittleEndian.PutUint64(numbers[:], n)
		_, _ = h.Write(numbers[:])
	}
	number(paths)
	for _, list := range p.lists() {
		number(uint64(len(list)))
		for _, s := range list {
			_, _ = h.WriteString(s)
			_ = h.WriteByte(0)
		}
	}
	for _, l := range p.Limits.table() {
		number(uint64(l.value))
	}
	return h.Sum64()
}

// lists are the parts of p that are lists of names; identical compares the rest.
func (p Profile) lists() [9][]string {
	return [9][]string{p.Scratch, p.Protect, p.Hide, p.UnixSockets, p.Devices, p.Syscalls, p.Env.Names, p.Network.Expose, p.Network.Terminated}
}

// identical reports whether two profiles are the same word for word.
func identical(a, b Profile) bool {
	if a.Limits != b.Limits || a.Fresh != b.Fresh || a.Env.All != b.Env.All || a.Network.Mode != b.Network.Mode || a.Network.Ask != b.Network.Ask {
		return false
	}
	x, y := a.lists(), b.lists()
	return slices.EqualFunc(x[:], y[:], sameList) && slices.EqualFunc(a.Network.Allow, b.Network.Allow, sameList) &&
		(a.Paths == nil) == (b.Paths == nil) && maps.Equal(a.Paths, b.Paths) // last: it is most of the work
}

// sameList tells nil from an empty list, as JSON does.
func sameList(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

// clone shares no memory with p.
func (p Profile) clone() Profile {
	p.Paths = maps.Clone(p.Paths)
	for _, list := range []*[]string{&p.Scratch, &p.Protect, &p.Hide, &p.UnixSockets, &p.Devices, &p.Syscalls, &p.Env.Names, &p.Network.Expose, &p.Network.Terminated} {
		*list = slices.Clone(*list)
	}
	p.Network.Allow = slices.Clone(p.Network.Allow)
	for i, l := range p.Network.Allow {
		p.Network.Allow[i] = slices.Clone(l)
	}
	return p
}
