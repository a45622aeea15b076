package linux

import (
	"bytes"
	"context"
	"reflect"
	"sync"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// hostAhead is a Confiner for one session without namespaces. A sandbox there serves one
// call, since what a call leaves could not be distinguished from what it found. So the next
// one is built in idle time: when a call has ended, for another of the same shape.
type hostAhead struct {
	*Landlock
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup // what is built

	mu       sync.Mutex
	closed   bool                     // nothing is built ahead any more
	building map[string]chan struct{} // by the profile's shape: closed when it waits, or failed
	waits    map[string]*expecting
}

// maxAhead bounds the sandboxes of one session that wait, each with a process and its keeper.
const maxAhead = 2

// expecting is a sandbox that waits for its call. Nothing has run in it.
type expecting struct {
	warm
	host *hostSandbox
	user *syscall.Credential
	// setup is what its init received, apart from its own directories: each rule with the
	// identity of its file, each hidden and protected one, the patterns, the filters.
	setup []byte
}

func newHostAhead(l *Landlock) *hostAhead {
	h := &hostAhead{Landlock: l, building: map[string]chan struct{}{}, waits: map[string]*expecting{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	return h
}

// encoded is a plan's setup before build adds to it, or nil if there is none to
// compare.
func (plan *hostPlan) encoded() []byte {
	b, err := wire.Encode(wire.Frame{Setup: &plan.setup})
	if err != nil {
		return nil
	}
	return b
}

// Ahead begins to build a sandbox for one call that is expected, as p has it. What Prepare
// would refuse is Prepare's to say.
func (h *hostAhead) Ahead(p sandboxprofile.Profile) {
	key, err := h.guard.KeyOf(p)
	if err != nil || p.Fresh || len(p.Network.Terminated) > 0 { // as with WarmPool
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.building[key] != nil || h.waits[key] != nil || len(h.building)+len(h.waits) >= maxAhead {
		return
	}
	done := make(chan struct{})
	h.building[key] = done
	h.tasks.Go(func() {
		x := h.expect(p)
		h.mu.Lock()
		delete(h.building, key)
		kept := x != nil && !h.closed
		if kept {
			x.key, h.waits[key] = key, x
			x.end = func() { h.expire(x) }
			x.timer = time.AfterFunc(warmIdle, x.end)
			h.room.rest(&x.resting)
		}
		h.mu.Unlock()
		if x != nil && !kept {
			x.host.Close()
		}
		close(done)
	})
}

// expect builds what waits, nil if that fails.
func (h *hostAhead) expect(p sandboxprofile.Profile) *expecting {
	leave, ok := h.room.tryEnter(nil)
	if !ok {
		return nil // the call itself waits
	}
	plan, err := h.plan(h.ctx, p)
	if err != nil {
		leave()
		return nil
	}
	plan.leave = leave
	x := &expecting{user: plan.user, setup: plan.encoded()}
	if x.host, err = h.build(h.ctx, plan); err != nil {
		leave()
		return nil
	}
	return x
}

// take gives what was built ahead for a shape, once.
func (h *hostAhead) take(ctx context.Context, key string) *expecting {
	h.mu.Lock()
	done := h.building[key]
	h.mu.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return nil
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.waits[key]
	h.forget(x)
	return x
}

// forget takes x out of those that wait. The lock is held.
func (h *hostAhead) forget(x *expecting) bool {
	if x == nil || h.waits[x.key] != x {
		return false
	}
	delete(h.waits, x.key)
	x.timer.Stop()
	h.room.wake(&x.resting)
	return true
}

// expire ends what waits, if it still does.
func (h *hostAhead) expire(x *expecting) {
	h.mu.Lock()
	waited := h.forget(x)
	h.mu.Unlock()
	if waited {
		x.host.Close()
	}
}

// Prepare implements Confiner. What was built ahead serves if what would be built now is the
// same to the last rule: the host is looked at anew for each call.
func (h *hostAhead) Prepare(ctx context.Context, p sandboxprofile.Profile) (confine.Sandbox, error) {
	key, _ := h.guard.KeyOf(p)
	if x := h.take(ctx, key); x != nil {
		if plan, err := h.plan(ctx, p); err == nil && x.serves(&plan) {
			x.host.profile, x.host.warnings = plan.profile, plan.seen.Warnings()
			return &hostLease{hostSandbox: x.host, next: func() { h.Ahead(p) }}, nil
		}
		x.host.Close()
	}
	box, err := h.Landlock.Prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	return &hostLease{hostSandbox: box.(*hostSandbox), next: func() { h.Ahead(p) }}, nil
}

func (x *expecting) serves(now *hostPlan) bool {
	return reflect.DeepEqual(x.user, now.user) && x.setup != nil && bytes.Equal(x.setup, now.encoded())
}

// hostLease is one call's use of a sandbox.
type hostLease struct {
	*hostSandbox
	next func()
	once sync.Once
}

// Close implements Sandbox.
func (l *hostLease) Close() error {
	err := l.hostSandbox.Close()
	l.once.Do(l.next)
	return err
}

// once says that no call follows the next one.
func (h *hostAhead) once() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
}

// Close ends what waits. The backend stays.
func (h *hostAhead) Close() error {
	h.once()
	h.stop()
	h.tasks.Wait()
	for {
		h.mu.Lock()
		var x *expecting
		for _, x = range h.waits {
			h.forget(x)
			break
		}
		h.mu.Unlock()
		if x == nil {
			return nil
		}
		x.host.Close()
	}
}
