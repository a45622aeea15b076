package approval

import "slices"

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
	latest   *Unread[Event] // in place of queue
	busy     bool
	departed bool
}

// Subscribe has f called for every event until cancel is called, one event at
// a time. It begins with a Requested event for each request that waits already,
// so that an approver who comes back misses none. When cancel returns, f may
// still be at work on one last event. Subscribing does not count as an approver: see Attach.
func (c *Controller) Subscribe(f func(Event)) (cancel func()) {
	return c.subscribe(&listener{f: f})
}

// Follow is Subscribe for a screen, which may stand still while agents go on: of what it has not
// read it gets no more than Unread keeps.
func (c *Controller) Follow(f func(Event)) (cancel func()) {
	return c.subscribe(&listener{f: f, latest: new(Unread[Event])})
}

func (c *Controller) subscribe(l *listener) (cancel func()) {
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
	l.departed, l.queue, l.latest = true, nil, nil
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
	if l.latest != nil {
		l.latest.Add(e.Pending.ID, e.Kind, e)
	} else {
		l.queue = append(l.queue, e)
	}
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
	switch {
	case l.departed:
	case l.latest != nil:
		if e, ok := l.latest.Next(); ok {
			return e, true
		}
	case len(l.queue) > 0:
		e := l.queue[0]
		l.queue = l.queue[1:]
		return e, true
	}
	l.busy, l.queue = false, nil
	return Event{}, false
}

// Unread are events about requests that a screen has not read, in order. Agents decide how many there
// are: one that makes requests and withdraws them, while an approver's terminal is stopped, would have all of them kept. So of
// each request there is one event at most: the latest, or that it waits. One that has ended before
// anybody read of it is left out. The zero value is empty.
type Unread[E any] struct {
	order  []string // of ids; those without an event are left out
	events map[string]unread[E]
	read   map[string]bool // those that are known to wait
}

type unread[E any] struct {
	kind  EventKind
	event E
}

// Add adds an event about the request id.
func (u *Unread[E]) Add(id string, kind EventKind, e E) {
	before, known := u.events[id]
	switch {
	case !known:
		if u.events == nil {
			u.events, u.read = map[string]unread[E]{}, map[string]bool{}
		}
		u.order = append(u.order, id)
	case before.kind != Requested, kind == Resolved && u.read[id]:
	case kind == Resolved:
		delete(u.events, id)
		if len(u.order) > 2*len(u.events)+64 {
			u.order = slices.DeleteFunc(u.order, func(id string) bool { _, ok := u.events[id]; return !ok })
		}
		return
	default: // whoever reads of it looks at it as it is by then
		return
	}
	u.events[id] = unread[E]{kind, e}
}

// Next takes the first event; it reports false if there is none.
func (u *Unread[E]) Next() (e E, ok bool) {
	for len(u.order) > 0 {
		id := u.order[0]
		u.order = u.order[1:]
		if one, ok := u.events[id]; ok {
			delete(u.events, id)
			if u.read[id] = true; one.kind == Resolved {
				delete(u.read, id)
			}
			return one.event, true
		}
	}
	return e, false
}
