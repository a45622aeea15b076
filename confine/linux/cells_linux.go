package linux

import (
	"bytes"
	"container/list"
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/tripwire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// cellIdle is how long a cell waits for its next call. It is long enough for a
// model to think, and short enough that a forgotten session costs nothing.
const cellIdle = 10 * time.Minute

// maxIdleCells bounds the cells of one session that wait. More calls than this
// at once get cells of their own, which go when they are done.
const maxIdleCells = 4

// Cells is a Confiner for one session that keeps its sandboxes standing between
// calls: a call then pays for one fork and exec, and not for building a sandbox.
// A cell serves one profile shape (Profile.Key) and one call at a time. It is
// thrown away when a call left something in it that the next could see, when its
// mounts no longer fit the host, after any failure, and when it has been idle.
type Cells struct {
	inner *Bwrap

	mu     sync.Mutex
	idle   map[string][]*cell       // by key, the last used at the end
	ahead  map[string]chan struct{} // by key: closed when the cell that is built ahead waits, or failed
	closed bool

	building sync.WaitGroup // what is built ahead, and what of it ends
	stop     context.CancelFunc
	ctx      context.Context
}

// A cell is a standing sandbox that waits.
type cell struct {
	end   func() // ends it, unless a call has taken it meanwhile
	key   string
	box   *bwrapSandbox
	timer *time.Timer
	place *list.Element // in the room's list of those that rest
}

// NewCells makes the cells of one session. b outlives them.
func NewCells(b *Bwrap) *Cells {
	c := &Cells{inner: b, idle: map[string][]*cell{}, ahead: map[string]chan struct{}{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Name implements Confiner.
func (c *Cells) Name() string { return c.inner.Name() }

// Ahead begins to build a cell for one call that is expected, as p has it. Nothing runs
// in it: it waits like one that a call has left, and is held against the host like that
// before a call gets it. What Prepare would refuse is Prepare's to say. When its call is
// done it ends, and nobody waits for that but Close. It is for a call that comes at once:
// trees that no tool may write to are looked at once for both.
func (c *Cells) Ahead(p sandboxprofile.Profile) {
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
		seen, err := c.inner.guard.Survey(p)
		if err != nil {
			return
		}
		leave, ok := c.inner.room.tryEnter(c)
		if !ok {
			return // the call itself waits
		}
		box, err := c.inner.build(c.ctx, p, seen, leave)
		if err != nil {
			return
		}
		box.once = true
		c.inner.guard.HandOver(p)
		if !c.keep(seen.Key, box) {
			box.Close()
		}
	})
}

// await waits for a cell that is built ahead.
func (c *Cells) await(ctx context.Context, p sandboxprofile.Profile) {
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

// Prepare implements Confiner: with a cell that stands if there is one, and else
// with one that is built now.
func (c *Cells) Prepare(ctx context.Context, p sandboxprofile.Profile) (confine.Sandbox, error) {
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
			return &lease{cells: c, key: key, box: box, profile: p}, nil
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
	box, err := c.inner.build(ctx, p, seen, leave)
	if box, err = c.inner.again(ctx, p, c, box, err); err != nil {
		return nil, err
	}
	return &lease{cells: c, key: key, box: box, profile: p}, nil
}

// builtOn reports whether the host is as it was when s was built.
func (s *bwrapSandbox) builtOn(now tripwire.Survey) bool {
	same := s.kinds == now.Kinds || maps.Equal(s.facts.Kinds, now.Facts.Kinds) && maps.Equal(s.facts.Links, now.Facts.Links)
	return same && slices.Equal(s.facts.Masks, now.Facts.Masks)
}

// take removes the cell that was used last.
func (c *Cells) take(key string) *bwrapSandbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := c.idle[key]
	if len(waiting) == 0 {
		return nil
	}
	last := waiting[len(waiting)-1]
	c.idle[key] = waiting[:len(waiting)-1]
	last.timer.Stop()
	c.inner.room.wake(last)
	return last.box
}

// give lets a cell wait for its next call, or ends it.
func (c *Cells) give(key string, box *bwrapSandbox) {
	if !c.keep(key, box) {
		go box.Close()
	}
}

// end ends a cell without making its call wait.
func (c *Cells) end(box *bwrapSandbox) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		go box.Close()
		return
	}
	c.building.Go(func() { box.Close() })
}

// keep lets a cell wait for its next call, if there is room.
func (c *Cells) keep(key string, box *bwrapSandbox) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.waiting() >= maxIdleCells {
		return false
	}
	x := &cell{key: key, box: box}
	x.end = func() { c.expire(x) }
	x.timer = time.AfterFunc(cellIdle, x.end)
	c.idle[key] = append(c.idle[key], x)
	c.inner.room.rest(x)
	return true
}

func (c *Cells) waiting() int {
	n := 0
	for _, list := range c.idle {
		n += len(list)
	}
	return n
}

// expire ends a cell that waits, if it still does.
func (c *Cells) expire(x *cell) {
	c.mu.Lock()
	i := slices.Index(c.idle[x.key], x)
	if i >= 0 {
		c.idle[x.key] = slices.Delete(c.idle[x.key], i, i+1)
		x.timer.Stop()
		c.inner.room.wake(x)
	}
	c.mu.Unlock()
	if i >= 0 {
		x.box.Close()
	}
}

// Close ends every cell that waits; those in use end with their call.
func (c *Cells) Close() error {
	c.mu.Lock()
	c.closed = true
	idle := c.idle
	c.idle = map[string][]*cell{}
	c.mu.Unlock()
	c.stop()
	c.building.Wait()
	for _, list := range idle {
		for _, x := range list {
			x.timer.Stop()
			c.inner.room.wake(x)
			x.box.Close()
		}
	}
	return nil
}

// A lease is one call's use of a cell.
type lease struct {
	cells   *Cells
	key     string
	box     *bwrapSandbox
	profile sandboxprofile.Profile // of this call: limits and environment may differ
	once    sync.Once
}

// Run implements Sandbox.
func (l *lease) Run(ctx context.Context, a sandboxprofile.Action, s confine.Stdio) (confine.Result, error) {
	return l.box.run(ctx, l.profile, a, s)
}

// Warnings implements Warned.
func (l *lease) Warnings() []string { return l.box.warnings }

// Keep implements Freezer.
func (l *lease) Keep(files []string) (func(), error) { return l.box.Keep(files) }

// Egress implements Proxied.
func (l *lease) Egress() (net.Listener, error) { return l.box.Egress() }

// Entrance implements Exposed.
func (l *lease) Entrance() (confine.Entrance, error) { return l.box.Entrance() }

// Carry implements Proxied.
func (l *lease) Carry(a confine.Addresses) (confine.Carried, error) { return l.box.Carry(a) }

// Enforced implements Sandbox.
func (l *lease) Enforced() confine.Enforced { return l.box.enforced }

// Close gives the cell back, or ends it if it is not as it was.
func (l *lease) Close() error {
	l.once.Do(func() {
		if l.box.spoiled.Load() {
			l.box.Close()
			return
		}
		if l.box.once {
			l.cells.end(l.box)
			return
		}
		l.cells.give(l.key, l.box)
	})
	return nil
}
