package gateway

import (
	"sync"
	"time"
)

// MaxQuestions is how many questions a program of one call may cause at once.
const MaxQuestions = 16

// Questions are those that the program of a call has caused.
type Questions struct {
	mu      sync.Mutex
	n       int       // lately
	since   time.Time // when the last of them was forgotten
	allowed map[string]bool
}

// Take reports whether there may be one more about a thing, or that was allowed. eachMinute of them are
// forgotten every minute.
func (q *Questions) Take(about string, now time.Time, eachMinute int) (may, allowed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if over := int(now.Sub(q.since) / time.Minute); over > 0 {
		q.n, q.since = max(q.n-min(over, MaxQuestions)*eachMinute, 0), now
	}
	if q.allowed[about] || q.n == MaxQuestions {
		return false, q.allowed[about]
	}
	q.n++
	return true, false
}

// Allow notes that about was allowed for the call.
func (q *Questions) Allow(about string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.allowed == nil {
		q.allowed = map[string]bool{}
	}
	q.allowed[about] = true
}
