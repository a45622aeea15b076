package failure

import (
	"fmt"
	"sync"
	"time"

	"github.com/sandgate/sandgate/confine"
)

// shortageMemory is how long status speaks of a shortage after its last call.
const shortageMemory = 10 * time.Minute

// Shortages records what calls lacked on the host, for the operator: an agent that
// just calls again never reports it.
type Shortages struct {
	mu     sync.Mutex
	calls  int
	last   time.Time
	reason string
}

// Note takes err of a call, if it is about a shortage, and reports whether it is the
// first in a while.
func (s *Shortages) Note(err error, now time.Time) (news bool) {
	if err == nil || !confine.IsShortage(err) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if news = now.Sub(s.last) > shortageMemory; news {
		s.calls = 0
	}
	s.calls, s.last, s.reason = s.calls+1, now, err.Error()
	return news
}

// Warnings has the lines of status about it.
func (s *Shortages) Warnings(now time.Time) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == 0 || now.Sub(s.last) > shortageMemory {
		return nil
	}
	return []string{fmt.Sprintf("the host had no room for %d calls, which must be retried; the last at %s: %s",
		s.calls, s.last.UTC().Format(time.TimeOnly), s.reason)}
}
