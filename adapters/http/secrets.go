package httpgate

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"sync"
	"time"
)

// digest is stored instead of a secret, and compared: hashes have one length, and the
// time of a comparison reveals nothing.
func digest(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

func equal(a, b [sha256.Size]byte) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

const (
	// TicketTime is how long an unused link to the page works.
	TicketTime = 5 * time.Minute
	// loginTime is how long a browser stays known.
	loginTime = 12 * time.Hour
)

// A ticket is the digest of what opens the page once, and its end.
type ticket struct {
	digest [sha256.Size]byte
	end    time.Time
}

// A login is the browser that is signed in: digests of its cookie and of its page's key,
// and its end. over is done when it has ended, earlier than that or not.
type login struct {
	cookie, key [sha256.Size]byte
	proof       string
	end         time.Time
	over        context.Context
	drop        context.CancelFunc
}

// secrets are the credentials that a browser presents. They are in memory only, and end
// with the server. There is one link and one login at a time: a new link ends the one
// before, and a browser that signs in ends the login of another. To make sure that nobody
// else is signed in, open a new link.
type secrets struct {
	now func() time.Time

	mu     sync.Mutex
	ticket ticket
	login  *login // nil: no browser is signed in
}

func newSecrets(now func() time.Time) *secrets { return &secrets{now: now} }

// newTicket makes what opens the page once.
func (s *secrets) newTicket() string {
	t := newWord()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticket = ticket{digest(t), s.now().Add(TicketTime)}
	return t
}

// A signedIn is what a browser gets for a ticket.
type signedIn struct{ cookie, key, proof string }

// redeem takes the ticket and signs a browser in. It is gone then.
func (s *secrets) redeem(shown string) (signedIn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !equal(digest(shown), s.ticket.digest) || !s.now().Before(s.ticket.end) {
		return signedIn{}, false
	}
	s.ticket = ticket{}
	s.forget()
	in := signedIn{newSecret(), newSecret(), newSecret()}
	l := &login{cookie: digest(in.cookie), key: digest(in.key), proof: in.proof, end: s.now().Add(loginTime)}
	l.over, l.drop = context.WithDeadline(context.Background(), l.end)
	s.login = l
	return in, true
}

// known is the login that one of the cookies and a key belong to, or nil.
func (s *secrets) known(cookies []string, key string) *login {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.login
	if l == nil || !s.now().Before(l.end) || !equal(l.key, digest(key)) {
		return nil
	}
	for _, c := range cookies {
		if equal(l.cookie, digest(c)) {
			return l
		}
	}
	return nil
}

// signOut ends the login.
func (s *secrets) signOut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
}

// forget is signOut under the lock.
func (s *secrets) forget() {
	if s.login != nil {
		s.login.drop()
		s.login = nil
	}
}

// lasting makes a context that ends with the login, too.
func (l *login) lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.over, cancel)
	return ctx, func() { stop(); cancel() }
}

// A bucket counts failures: some at once, then so many a second. It never delays a
// client with the right secret; otherwise failed attempts would be a way to lock people
// out.
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
