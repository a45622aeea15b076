package linux

import (
	"bytes"
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// warmIdle is how long a warm sandbox waits for its next call. It is long enough for a
// model to think, and short enough that a forgotten session costs nothing.
const warmIdle = 10 * time.Minute

// maxIdle bounds the warm sandboxes of one session that wait. Where another one comes, one goes.
const maxIdle = 4

// WarmPool is a Confiner for one session that keeps its sandboxes standing between
// calls: a call then pays for one fork and exec, and not for building a sandbox.
// A warm sandbox serves one profile shape (Profile.Key), calls that share their /tmp
// (confine.WithShares), and one of them at a time. It is
// thrown away when a call left something in it that the next could see, when its
// mounts no longer fit the host, after any failure, and when it has been idle.
type WarmPool struct {
	inner *Bwrap

	mu     sync.Mutex
	idle   map[string][]*warm       // by key, the last used at the end
	ahead  map[string]chan struct{} // by key: closed when the warm sandbox that is built ahead waits, or failed
	closed bool

	building sync.WaitGroup // what is built ahead, and what of it ends
	stop     context.CancelFunc
	ctx      context.Context
}

// A warm sandbox stands and waits for its next call.
type warm struct {
	resting
	key   string
	box   *bwrapSandbox
	since time.Time
	timer *time.Timer
}

// NewWarmPool makes the warm sandboxes of one session. b outlives them.
func NewWarmPool(b *Bwrap) *WarmPool {
	c := &WarmPool{inner: b, idle: map[string][]*warm{}, ahead: map[string]chan struct{}{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Name implements Confiner.
func (c *WarmPool) Name() string { return c.inner.Name() }

// Ahead begins to build a warm sandbox for one call that is expected, as p has it. Nothing runs
// in it: it waits like one that a call has left, and is held against the host like that before
// a call gets it. What Prepare would refuse is Prepare's to say. When its call is done it ends,
// and only Close waits for that. It is for a call that comes at once: trees that no tool may
// write to are looked at once for both, while the sandbox is built.
func (c *WarmPool) Ahead(p sandboxprofile.Profile) {
	key, err := c.inner.guard.KeyOf(p)
	if err != nil || p.Fresh || len(p.Network.Terminated) > 0 { // whose trust is a session's
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.ahead[key] != nil {
		return
	}
	done := make(chan struct{})
	c.ahead[key] = done
	c.building.Go(func() {
		defer close(done)
		seen, confirm, err := c.inner.guard.SurveyAhead(p)
		if err != nil {
			return
		}
		leave, ok := c.inner.room.tryEnter(c)
		if !ok {
			return // the call itself waits
		}
		confirmed := make(chan bool, 1)
		go func() { confirmed <- confirm() }()
		box, err := c.inner.build(c.ctx, p, seen, true, leave)
		same := <-confirmed
		if err != nil {
			return
		}
		box.once = true
		if !same {
			box.Close()
			return // the call itself looks at everything
		}
		c.inner.guard.HandOver(p)
		if !c.keep(seen.Key, box) {
			box.Close()
		}
	})
}

// await waits for a warm sandbox that is built ahead.
func (c *WarmPool) await(ctx context.Context, p sandboxprofile.Profile) {
	var done <-chan struct{}
	c.mu.Lock()
	if len(c.ahead) > 0 {
		key, _ := c.inner.guard.KeyOf(p)
		done = c.ahead[key]
	}
	c.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Prepare implements Confiner: with a warm sandbox if one waits, and else
// with one that is built now.
func (c *WarmPool) Prepare(ctx context.Context, p sandboxprofile.Profile) (confine.Sandbox, error) {
	if p.Fresh {
		box, err := c.inner.fresh(ctx, p, c)
		if err != nil {
			return nil, err
		}
		return box, nil
	}
	c.await(ctx, p)
	seen, err := c.inner.guard.Survey(p)
	if err != nil {
		return nil, err
	}
	key := seen.Key
	if words := confine.SharesOf(ctx); words != "" {
		key += apart + words
	}
	for {
		box := c.take(key)
		if box == nil {
			break
		}
		// The survey is made anew for each call: a file that has appeared and must
		// be hidden, or a repository with hooks, is not covered by the old mounts,
		// and neither is another file that has taken the name of one that was.
		if box.builtOn(freezing(seen, p, confine.FrozenOf(ctx))) && bytes.Equal(box.trust, confine.TrustOf(ctx)) && box.covered(freezing(seen, p, confine.FrozenOf(ctx)).Facts) && box.baseline.Intact() {
			box.baseline.Refresh(seen.Found)
			box.warnings = seen.Warnings()
			return &borrowed{pool: c, key: key, box: box, profile: p}, nil
		}
		box.Close()
	}
	leave, at := c.inner.room.tryEnter(c)
	if !at {
		if leave, err = c.inner.room.enter(ctx, c); err != nil {
			return nil, err
		}
		if seen, err = c.inner.guard.Survey(p); err != nil { // while others came first, the host may have changed
			leave()
			return nil, err
		}
	}
	box, err := c.inner.build(ctx, p, seen, false, leave)
	if box, err = c.inner.again(ctx, p, c, box, err); err != nil {
		return nil, err
	}
	return &borrowed{pool: c, key: key, box: box, profile: p}, nil
}

// builtOn reports whether the host is as it was when s was built.
func (s *bwrapSandbox) builtOn(now tripwire.Survey) bool {
	same := s.kinds == now.Kinds || maps.Equal(s.facts.Kinds, now.Facts.Kinds) && maps.Equal(s.facts.Links, now.Facts.Links)
	return same && slices.Equal(s.facts.Masks, now.Facts.Masks)
}

// take removes the warm sandbox that was used last.
func (c *WarmPool) take(key string) *bwrapSandbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := c.idle[key]
	if len(waiting) == 0 {
		return nil
	}
	last := waiting[len(waiting)-1]
	c.idle[key] = waiting[:len(waiting)-1]
	last.timer.Stop()
	c.inner.room.wake(&last.resting)
	return last.box
}

// give lets a warm sandbox wait for its next call, or ends it.
func (c *WarmPool) give(key string, box *bwrapSandbox) {
	if !c.keep(key, box) {
		go box.Close()
	}
}

// end ends a warm sandbox without making its call wait.
func (c *WarmPool) end(box *bwrapSandbox) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		go box.Close()
		return
	}
	c.building.Go(func() { box.Close() })
}

// keep lets a warm sandbox wait for its next call, if there is room.
func (c *WarmPool) keep(key string, box *bwrapSandbox) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	if c.waiting() >= maxIdle {
		old := c.longest()
		c.idle[old.key] = c.idle[old.key][1:]
		old.timer.Stop()
		c.inner.room.wake(&old.resting)
		c.building.Go(func() { old.box.Close() })
	}
	x := &warm{key: key, box: box, since: time.Now()}
	x.end = func() { c.expire(x) }
	x.timer = time.AfterFunc(warmIdle, x.end)
	c.idle[key] = append(c.idle[key], x)
	c.inner.room.rest(&x.resting)
	return true
}

// apart stands before the words of calls that do not share the session's /tmp (confine.WithShares).
const apart = "\n"

// longest is the warm sandbox that has waited longest, rather one that is apart: what the
// session's calls keep in /tmp does not go for it. The lock is held.
func (c *WarmPool) longest() (first *warm) {
	is := func(x *warm) bool { return strings.Contains(x.key, apart) }
	for _, list := range c.idle {
		if len(list) > 0 && (first == nil || is(list[0]) && !is(first) || is(list[0]) == is(first) && list[0].since.Before(first.since)) {
			first = list[0]
		}
	}
	return first
}

func (c *WarmPool) waiting() int {
	n := 0
	for _, list := range c.idle {
		n += len(list)
	}
	return n
}

// expire ends a warm sandbox that waits, if it still does.
func (c *WarmPool) expire(x *warm) {
	c.mu.Lock()
	i := slices.Index(c.idle[x.key], x)
	if i >= 0 {
		c.idle[x.key] = slices.Delete(c.idle[x.key], i, i+1)
		x.timer.Stop()
		c.inner.room.wake(&x.resting)
	}
	c.mu.Unlock()
	if i >= 0 {
		x.box.Close()
	}
}

// Close ends every warm sandbox that waits; those in use end with their call.
func (c *WarmPool) Close() error {
	c.mu.Lock()
	c.closed = true
	idle := c.idle
	c.idle = map[string][]*warm{}
	c.mu.Unlock()
	c.stop()
	c.building.Wait()
	for _, list := range idle {
		for _, x := range list {
			x.timer.Stop()
			c.inner.room.wake(&x.resting)
			x.box.Close()
		}
	}
	return nil
}

// A borrowed sandbox is one call's use of a warm sandbox.
type borrowed struct {
	pool    *WarmPool
	key     string
	box     *bwrapSandbox
	profile sandboxprofile.Profile // of this call: limits and environment may differ
	once    sync.Once
}

// Run implements Sandbox.
func (l *borrowed) Run(ctx context.Context, a sandboxprofile.Action, s confine.Stdio) (confine.Result, error) {
	return l.box.run(ctx, l.profile, a, s)
}

// Warnings implements Warned.
func (l *borrowed) Warnings() []string { return l.box.warnings }

// Look implements Watched.
func (l *borrowed) Look(begins bool) ([]confine.Planted, error) { return l.box.Look(begins) }

// Keep implements Freezer.
func (l *borrowed) Keep(files []string) (func(), error) { return l.box.Keep(files) }

// Egress implements Proxied.
func (l *borrowed) Egress() (net.Listener, error) { return l.box.Egress() }

// Entrance implements Exposed.
func (l *borrowed) Entrance() (confine.Entrance, error) { return l.box.Entrance() }

// Carry implements Proxied.
func (l *borrowed) Carry(a confine.Addresses) (confine.Carried, error) { return l.box.Carry(a) }

// Enforced implements Sandbox.
func (l *borrowed) Enforced() confine.Enforced { return l.box.enforced }

// Close gives the warm sandbox back, or ends it if it is not as it was.
func (l *borrowed) Close() error {
	l.once.Do(func() {
		if l.box.spoiled.Load() {
			l.box.Close()
			return
		}
		if l.box.once {
			l.pool.end(l.box)
			return
		}
		l.pool.give(l.key, l.box)
	})
	return nil
}
