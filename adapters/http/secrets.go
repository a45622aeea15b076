package httpgate

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"time"
)

// digest is what is kept of a secret, and compared: hashes are of one length, and a
// map of them tells nothing by the time it takes.
func digest(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

func equal(a, b [sha256.Size]byte) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

// Bounds on what is kept for browsers: of more, the oldest ends.
const (
	maxTickets = 16
	maxLogins  = 16
	// TicketTime is how long a link to the page works, if nobody uses it.
	TicketTime = 5 * time.Minute
	// loginTime is how long a browser stays known.
	loginTime = 12 * time.Hour
)

// A login is one browser: the digest of its page's key, and its end. over is done when
// it has ended, earlier than that or not.
type login struct {
	key  [sha256.Size]byte
	end  time.Time
	over context.Context
	drop context.CancelFunc
}

// secrets are what browsers show. They are in memory only, and end with the server.
type secrets struct {
	now func() time.Time

	mu      sync.Mutex
	tickets map[[sha256.Size]byte]time.Time // by when each ends
	logins  map[[sha256.Size]byte]login     // by the digest of the cookie
}

func newSecrets(now func() time.Time) *secrets {
	return &secrets{now: now, tickets: map[[sha256.Size]byte]time.Time{}, logins: map[[sha256.Size]byte]login{}}
}

// ticket makes what opens the page once.
func (s *secrets) ticket() string {
	t := newSecret()
	s.mu.Lock()
	defer s.mu.Unlock()
	room(s.tickets, maxTickets, s.now(), func(end time.Time) time.Time { return end }, func(time.Time) {})
	s.tickets[digest(t)] = s.now().Add(TicketTime)
	return t
}

// redeem takes a ticket and gives a browser its cookie and key. A ticket is gone after
// the first try, whatever comes of it.
func (s *secrets) redeem(ticket string) (cookie, key string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := digest(ticket)
	end, known := s.tickets[d]
	delete(s.tickets, d)
	if !known || !s.now().Before(end) {
		return "", "", false
	}
	room(s.logins, maxLogins, s.now(), func(l login) time.Time { return l.end }, func(l login) { l.drop() })
	cookie, key = newSecret(), newSecret()
	l := login{key: digest(key), end: s.now().Add(loginTime)}
	l.over, l.drop = context.WithDeadline(context.Background(), l.end)
	s.logins[digest(cookie)] = l
	return cookie, key, true
}

// known reports whether a cookie and a key are of one browser.
func (s *secrets) known(cookie, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.logins[digest(cookie)]
	return ok && s.now().Before(l.end) && equal(l.key, digest(key))
}

// forget ends a login.
func (s *secrets) forget(cookie string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.logins[digest(cookie)]; ok {
		l.drop()
		delete(s.logins, digest(cookie))
	}
}

// lasting makes a context that ends with a login, too.
func (s *secrets) lasting(ctx context.Context, cookie string) (context.Context, context.CancelFunc) {
	s.mu.Lock()
	l, ok := s.logins[digest(cookie)]
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	if !ok {
		cancel()
		return ctx, cancel
	}
	stop := context.AfterFunc(l.over, cancel)
	return ctx, func() { stop(); cancel() }
}

// room drops what has ended, and then the oldest, until one more fits.
func room[V any](m map[[sha256.Size]byte]V, limit int, now time.Time, end func(V) time.Time, drop func(V)) {
	for len(m) > 0 {
		var oldest [sha256.Size]byte
		var first time.Time
		for k, v := range m {
			if e := end(v); first.IsZero() || e.Before(first) {
				oldest, first = k, e
			}
		}
		if len(m) < limit && now.Before(first) {
			return
		}
		drop(m[oldest])
		delete(m, oldest)
	}
}

// A bucket counts failures: some at once, then so many a second. It holds up nobody
// who shows what is right, or failing would be a way to lock people out.
type bucket struct {
	now  func() time.Time
	size float64 // failures at once
	rate float64 // failures a second

	mu   sync.Mutex
	left float64
	last time.Time
}

func newBucket(now func() time.Time, size, rate float64) *bucket {
	return &bucket{now: now, size: size, rate: rate, left: size, last: now()}
}

// take reports whether one more failure is within the limit.
func (b *bucket) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.left = min(b.size, b.left+b.rate*now.Sub(b.last).Seconds())
	b.last = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
