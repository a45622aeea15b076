package approval

// A Journal keeps the requests that wait for an answer, so that after a crash
// somebody can say which they were. Nothing in it is ever answered: a request
// that a process leaves behind is over, since what it would have allowed is gone.
type Journal interface {
	// Add returns when p is as durable as the journal makes it. Only then is
	// anybody asked. Its presentation is not set.
	Add(p Pending) error
	// Remove forgets a request, if it is there.
	Remove(id string) error
}

// Recorded says that the caller has its own durable record of how a request
// ended, so that the journal may forget it. Until then a crash leaves it to be
// found. id is Decision.RequestID; "" is nothing.
func (c *Controller) Recorded(id string) error {
	if c.opts.Outer != nil && id != "" {
		return c.opts.Outer.Recorded(id)
	}
	if c.opts.Journal == nil || id == "" {
		return nil
	}
	return c.opts.Journal.Remove(id)
}
