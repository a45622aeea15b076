package approval

import (
	"fmt"
	"slices"
	"time"
)

// A session is the controller's memory for one run of one agent. Its maps are
// guarded by Controller.mu; memory guards itself.
type session struct {
	id     string
	memory *MemoryStore
	// denied is the denial cache: what a person denied a moment ago.
	denied map[Fingerprint]cachedDenial
	// rejected holds the batches that a hard rejection ended.
	rejected map[string]Decision
	prompts  bucket
	// deferred holds the requests that were made with Defer, by their ids.
	deferred map[string]*deferred
	history  []past // a ring of maxHistory
	noted    int
}

type cachedDenial struct {
	decision Decision
	until    time.Time
}

func newSession(id string, rate PromptRate, now time.Time) *session {
	return &session{
		id:       id,
		memory:   NewMemoryStore(),
		denied:   map[Fingerprint]cachedDenial{},
		rejected: map[string]Decision{},
		deferred: map[string]*deferred{},
		prompts:  newBucket(rate, now),
	}
}

// noteDenial keeps what a person's denial means for later calls of the session.
func (s *session) noteDenial(q *question, d Decision, cacheFor time.Duration) {
	if (d.Reject == RejectHard || d.Interrupt) && q.call.BatchID != "" {
		s.rejected[q.call.BatchID] = d
	}
	if cacheFor <= 0 || d.Reject == RejectExplain { // after an explanation the call comes again
		return
	}
	for f, c := range s.denied {
		if !d.Time.Before(c.until) {
			delete(s.denied, f)
		}
	}
	s.denied[q.fingerprint] = cachedDenial{decision: d, until: d.Time.Add(cacheFor)}
}

// OpenSession starts a session. Its id must not be open already.
func (c *Controller) OpenSession(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.sessions[id]; open {
		return fmt.Errorf("approval: open session %q: it is already open", id)
	}
	c.sessions[id] = newSession(id, c.opts.PromptRate, c.opts.Now())
	return nil
}

// CloseSession ends a session: its waiting requests are answered as cancelled,
// and what was remembered for it is forgotten. It returns how many requests it
// cancelled.
func (c *Controller) CloseSession(id string) (cancelled int) {
	c.mu.Lock()
	if s := c.sessions[id]; s != nil {
		for _, d := range s.deferred {
			c.letGo(d)
		}
	}
	delete(c.sessions, id)
	waiting := c.waiting(func(p *pending) bool { return p.q.call.SessionID == id })
	c.mu.Unlock()
	for _, p := range waiting {
		if _, first := c.resolve(p, verdictSessionClosed(id)); first {
			cancelled++
		}
	}
	return cancelled
}

// Remembered lists the answers that hold: those of the open sessions, then those of
// the store. What is over is forgotten on the way.
func (c *Controller) Remembered() ([]Memory, error) {
	var list []Memory
	now := c.opts.Now()
	for _, s := range c.openSessions() {
		own, _ := living(s.memory, now) // a MemoryStore does not fail
		list = append(list, own...)
	}
	sortMemories(list)
	stored, err := living(c.opts.Store, now)
	if err != nil {
		return nil, fmt.Errorf("approval: list remembered answers: %w", err)
	}
	return append(list, stored...), nil
}

// living lists what s keeps and is not over, and has s forget what never will again.
// What cannot be forgotten is tried again with the next list: it decides nothing.
func living(s Store, now time.Time) ([]Memory, error) {
	list, err := s.List()
	return slices.DeleteFunc(list, func(m Memory) bool {
		if m.over(now.Add(-keptFor)) {
			_, _ = s.Forget(m.ID)
		}
		return m.over(now)
	}), err
}

// Forget drops one remembered answer. Decisions that were made by it stand.
func (c *Controller) Forget(id string) error {
	for _, s := range c.openSessions() {
		if found, _ := s.memory.Forget(id); found {
			return nil
		}
	}
	found, err := c.opts.Store.Forget(id)
	if err == nil && !found {
		err = ErrNotRemembered
	}
	if err != nil {
		return fmt.Errorf("approval: forget %q: %w", id, err)
	}
	return nil
}

func (c *Controller) openSessions() []*session {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]*session, 0, len(c.sessions))
	for _, s := range c.sessions {
		all = append(all, s)
	}
	return all
}

// A PromptRate limits how often one session may have people asked: Burst
// requests at once, then one more per Every. The zero value sets no limit.
type PromptRate struct {
	Burst int
	Every time.Duration
}

// A bucket is a token bucket. Its tokens are counted in time: each prompt costs
// one Every, and at most Burst of them are saved up.
type bucket struct {
	rate  PromptRate
	saved time.Duration
	last  time.Time
}

func newBucket(r PromptRate, now time.Time) bucket {
	return bucket{rate: r, saved: time.Duration(r.Burst) * r.Every, last: now}
}

func (b *bucket) take(now time.Time) bool {
	if b.rate.Burst <= 0 || b.rate.Every <= 0 {
		return true
	}
	full := time.Duration(b.rate.Burst) * b.rate.Every
	passed := min(max(now.Sub(b.last), 0), full) // a clock set back earns nothing
	b.saved = min(b.saved+passed, full)
	b.last = now
	if b.saved < b.rate.Every {
		return false
	}
	b.saved -= b.rate.Every
	return true
}
