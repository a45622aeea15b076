package approval

// A Journal records pending requests, so that they are known after a crash. They can no longer
// be answered: a request ends with its process, because the call that it would have allowed is
// gone.
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
