package linux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// Options are the options of New. The zero value is the default.
type Options struct {
	// Backend is "auto" (or ""), "bwrap" or "landlock". auto prefers bwrap and
	// falls back to landlock.
	Backend string
	// Bwrap is an absolute path of bubblewrap, "" for the usual places.
	Bwrap    string
	Landlock LandlockOptions
	// Unconfined lets tools run with what is left where no backend works. It is
	// for development, and never reached but by the operator's own word.
	Unconfined bool
}

// A Backend is a chain of confiners: the first that this host can stand for a
// profile prepares it.
type Backend struct {
	bwrap    *Bwrap
	landlock *Landlock
	last     *Unconfined
	lacks    error // why an earlier one is missing

	// Which confiner it is, is found once, by trying. What fails later never changes it.
	choice sync.Mutex // held while it is found
	proven atomic.Bool
	barred atomic.Pointer[error] // why bwrap builds nothing on this host
}

// New makes the backend that o names. It fails with an *Unenforceable if this
// host lacks what every confiner of the chain stands on.
func New(o Options) (*Backend, error) {
	b := &Backend{}
	var errs []error
	if o.Backend != "landlock" {
		bwrap, err := NewBwrap(o.Bwrap)
		b.bwrap = bwrap
		errs = append(errs, err)
		if bwrap != nil { // the sandboxes of both take from the same descriptors and memory
			o.Landlock.room = bwrap.room
		}
	}
	if o.Backend != "bwrap" {
		landlock, err := NewLandlock(o.Landlock)
		b.landlock = landlock
		errs = append(errs, err)
	}
	b.lacks = both(errs...)
	if o.Unconfined {
		last, err := NewUnconfined(o.Landlock)
		if err != nil {
			return nil, errors.Join(err, b.Close())
		}
		b.last = last
	}
	if b.bwrap == nil && b.landlock == nil && b.last == nil {
		return nil, b.lacks
	}
	return b, nil
}

// both is the reasons of several confiners as one, each once, nil if one of them gave
// none.
func both(errs ...error) error {
	var all *confine.Unenforceable
	for _, err := range errs {
		var u *confine.Unenforceable
		switch {
		case err == nil:
			continue
		case !errors.As(err, &u):
			return err
		case all == nil:
			first := *u
			all = &first
		case strings.Contains(all.Reason, u.Reason):
			// the confiners stand on the same thing, and it is missing
		default:
			all.Reason += fmt.Sprintf("; and instead of it %s: %s", u.Part, u.Reason)
			all.Hint += "; or: " + u.Hint
		}
	}
	if all == nil {
		return nil
	}
	return all
}

// Name implements Confiner: the first confiner that has not been found barred.
func (b *Backend) Name() string {
	switch {
	case b.bwrap != nil && b.isBarred() == nil:
		return b.bwrap.Name()
	case b.landlock != nil:
		return b.landlock.Name()
	case b.last != nil:
		return b.last.Name()
	}
	return b.bwrap.Name()
}

// Close ends every sandbox that is left.
func (b *Backend) Close() error {
	var errs []error
	if b.bwrap != nil {
		errs = append(errs, b.bwrap.Close())
	}
	if b.landlock != nil {
		errs = append(errs, b.landlock.Close())
	}
	if b.last != nil {
		errs = append(errs, b.last.Close())
	}
	return errors.Join(errs...)
}

// Use makes g the guard of every sandbox that is built from now on.
func (b *Backend) Use(g *tripwire.Guard) {
	if b.bwrap != nil {
		b.bwrap.Use(g)
	}
	if b.landlock != nil {
		b.landlock.Use(g)
	}
	if b.last != nil {
		b.last.Use(g)
	}
}

// Prepare implements Confiner.
func (b *Backend) Prepare(ctx context.Context, p sandboxprofile.Profile) (confine.Sandbox, error) {
	return b.prepare(ctx, p, b.bwrap, b.landlock)
}

// first is bwrap, or the warm sandboxes of a session over it, and second Landlock, or what a session
// has of it ahead.
func (b *Backend) prepare(ctx context.Context, p sandboxprofile.Profile, first, second confine.Confiner) (confine.Sandbox, error) {
	if b.bwrap != nil && b.isBarred() == nil {
		box, err := first.Prepare(ctx, p)
		if err == nil {
			b.proven.Store(true)
			return box, nil
		}
		if b.choose(ctx, err) == nil {
			return nil, err // a profile that bwrap cannot keep is for nobody else to keep
		}
	}
	reason := b.isBarred()
	if b.landlock != nil {
		box, err := second.Prepare(ctx, p)
		var u *confine.Unenforceable
		switch {
		case err == nil:
			return box, nil
		case !errors.As(err, &u) || b.last == nil:
			return nil, both(reason, err)
		}
	}
	if b.last != nil {
		return b.last.Prepare(ctx, p)
	}
	return nil, both(reason, b.lacks)
}

// choose finds, after bwrap's first failure, whether this host bars it, and gives the
// reason then. Only a sandbox that enforces nothing can decide: a profile can fail for
// its own reasons, and a host that has built one sandbox, or only lacked room, is not
// barred.
func (b *Backend) choose(ctx context.Context, failure error) error {
	b.choice.Lock()
	defer b.choice.Unlock()
	if b.proven.Load() || !hostLacks(failure) {
		return b.isBarred()
	}
	box, err := b.bwrap.Prepare(ctx, probeProfile())
	switch {
	case err == nil:
		b.proven.Store(true)
		return box.Close()
	case hostLacks(err):
		b.barred.Store(&err)
		return err
	}
	return nil
}

// hostLacks reports whether err is about the host and not about a profile, nor about
// what is used up at the moment.
func hostLacks(err error) bool {
	var u *confine.Unenforceable
	return errors.As(err, &u) && slices.Contains(hostParts, u.Part)
}

func (b *Backend) isBarred() error {
	if err := b.barred.Load(); err != nil {
		return *err
	}
	return nil
}

// tryAgain is how long Try waits for room, and how often it looks.
const (
	tryAgain      = 10 * time.Second
	tryAgainEvery = 250 * time.Millisecond
)

// Try builds a sandbox that holds nothing, to learn at the start what the first
// call would: that user namespaces are barred, or that nothing works. Its error is
// that of Prepare. For a shortage that passes it waits a while.
func (b *Backend) Try(ctx context.Context) (confine.Enforced, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout+tryAgain)
	defer cancel()
	for end := time.Now().Add(tryAgain); ; time.Sleep(tryAgainEvery) {
		box, err := b.Prepare(ctx, probeProfile())
		if err == nil {
			return box.Enforced(), box.Close()
		}
		if !confine.IsShortage(err) || time.Now().After(end) || ctx.Err() != nil {
			return confine.Enforced{}, err
		}
	}
}

// Session is a Confiner for one session, which keeps warm sandboxes where the backend has
// them.
func (b *Backend) Session() SessionBackend {
	s := SessionBackend{Backend: b}
	if b.bwrap != nil {
		s.pool = NewWarmPool(b.bwrap)
	}
	if b.landlock != nil {
		s.host = newHostAhead(b.landlock)
	}
	return s
}

// SessionBackend is a Backend with the state of one session: the warm sandboxes of bwrap, and
// what is built ahead without it.
type SessionBackend struct {
	*Backend
	pool *WarmPool
	host *hostAhead
}

// Close ends what is kept for the session. The backend stays.
func (s SessionBackend) Close() error {
	var errs []error
	if s.pool != nil {
		errs = append(errs, s.pool.Close())
	}
	if s.host != nil {
		errs = append(errs, s.host.Close())
	}
	return errors.Join(errs...)
}

// Prepare implements Confiner.
func (s SessionBackend) Prepare(ctx context.Context, p sandboxprofile.Profile) (confine.Sandbox, error) {
	return s.prepare(ctx, p, s.pool, s.host)
}

// Ahead begins to build the sandbox of the one call that the session will have: see
// WarmPool.Ahead. Without namespaces it is built when the call comes, which takes as long.
func (s SessionBackend) Ahead(p sandboxprofile.Profile) {
	if s.host != nil {
		s.host.once()
	}
	if s.pool != nil && s.isBarred() == nil {
		s.pool.Ahead(p)
	}
}
