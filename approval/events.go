package approval

// EventKind says what happened to a request.
type EventKind string

const (
	Requested EventKind = "requested" // it waits for an answer
	Updated   EventKind = "updated"   // its presentation has been built
	Resolved  EventKind = "resolved"  // it has ended: take it off the screen
)

// An Event tells approvers about one request.
type Event struct {
	Kind     EventKind `json:"kind"`
	Pending  Pending   `json:"pending"`
	Decision *Decision `json:"decision,omitempty"` // with Resolved
}

// A listener gets its events in order, on a goroutine that exists while there
// are any, so a slow one delays neither calls nor other listeners. Its fields
// are guarded by Controller.mu.
type listener struct {
	f        func(Event)
	queue    []Event
	busy     bool
	departed bool
}

// Subscribe has f called for every event until cancel is called, one event at
// a time. It begins with a Requested event for each request that waits already,
// so that an approver who comes back misses none. When cancel returns, f may
// still be at work on one last event. Subscribing does not count as an approver: see Attach.
func (c *Controller) Subscribe(f func(Event)) (cancel func()) {
	l := &listener{f: f}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.waiting(func(*pending) bool { return true }) {
		c.deliver(l, Event{Kind: Requested, Pending: c.snapshot(p)})
	}
	c.listeners = append(c.listeners, l)
	return func() { c.unsubscribe(l) }
}

func (c *Controller) unsubscribe(l *listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.departed, l.queue = true, nil
	kept := make([]*listener, 0, len(c.listeners))
	for _, other := range c.listeners {
		if other != l {
			kept = append(kept, other)
		}
	}
	c.listeners = kept
}

// announce tells every listener. c.mu is held.
func (c *Controller) announce(e Event) {
	for _, l := range c.listeners {
		c.deliver(l, e)
	}
}

func (c *Controller) announceUpdate(p *pending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[p.id] == p { // nothing follows Resolved
		c.announce(Event{Kind: Updated, Pending: c.snapshot(p)})
	}
}

// deliver queues one event. c.mu is held.
func (c *Controller) deliver(l *listener, e Event) {
	l.queue = append(l.queue, e)
	if !l.busy {
		l.busy = true
		go c.drain(l)
	}
}

func (c *Controller) drain(l *listener) {
	for {
		e, ok := c.nextEvent(l)
		if !ok {
			return
		}
		l.f(e)
	}
}

func (c *Controller) nextEvent(l *listener) (Event, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.departed || len(l.queue) == 0 {
		l.busy, l.queue = false, nil
		return Event{}, false
	}
	e := l.queue[0]
	l.queue = l.queue[1:]
	return e, true
}
