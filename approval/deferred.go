package approval

import (
	"context"
	"fmt"
	"time"
)

// A deferred is a request that no call waits for: the agent returns with its id after the
// decision. The permission can be used once. Its fields are guarded by Controller.mu.
type deferred struct {
	id      string
	p       *pending // nil once nothing can come of it
	asked   identity
	outcome *outcome // nil until it is decided
	until   time.Time
	used    bool
}

// An identity is the set of properties that a call must have for an approval to be for
// it.
type identity struct {
	agent, tool, connector, digest string
	fingerprint                    Fingerprint
}

func (q *question) identity() identity {
	return identity{q.call.Agent, q.call.ToolName, q.call.Connector, q.call.Digest, q.fingerprint}
}

// deferredFor is how long an approval waits to be taken.
const deferredFor = 5 * time.Minute

// A DeferredError is returned by Defer if a person must be asked. A later call with the same
// arguments and with ID in Call.ApprovalID gets the answer.
type DeferredError struct {
	ID      string    // of the request, as Pending.ID
	Expires time.Time // no answer by then is a denial
}

func (e *DeferredError) Error() string {
	return fmt.Sprintf("approval: request %q waits for an answer", e.ID)
}

// Defer is Decide for a caller that does not wait: when a person has to be asked,
// the request is made, and the error is a *DeferredError. An approval that comes
// of it is good for one call of the same session, agent, tool and digest, within
// five minutes of the answer, and not after the process has ended. Where an Outer decides it
// is Decide: the call that would come back is not the one that the Outer was shown.
func (c *Controller) Defer(ctx context.Context, call Call) (Grant, error) {
	if c.opts.Outer != nil {
		return c.decideOutside(ctx, call)
	}
	q, err := c.question(call)
	if err != nil {
		return c.conclude(&question{call: call}, verdictInvalid(err))
	}
	if p := c.waitingDeferred(q); p != nil {
		return Grant{}, &DeferredError{p.id, p.requested.Add(c.opts.Timeout)}
	}
	if v, done := c.settled(q); done {
		return c.conclude(q, v)
	}
	return c.askLater(ctx, q)
}

func (c *Controller) askLater(ctx context.Context, q *question) (Grant, error) {
	p, refused := c.register(q, true)
	if refused != nil {
		return c.conclude(q, refused)
	}
	c.settlePending(p)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := c.prompt(ctx, p)
	go func() {
		defer cancel()
		defer stop()
		c.wait(ctx, p)
	}()
	return Grant{}, &DeferredError{p.id, p.requested.Add(c.opts.Timeout)}
}

// keepDeferred notes a new deferred request. Controller.mu is held.
func (s *session) keepDeferred(p *pending) {
	s.deferred[p.id] = &deferred{id: p.id, p: p, asked: p.q.identity()}
}

// dropDeferred drops the deferred requests of s that are long over. What they held goes as
// soon as they cannot be taken any more. c.mu is held.
func (c *Controller) dropDeferred(s *session, now time.Time) {
	for id, d := range s.deferred {
		if d.outcome == nil || now.Before(d.until) {
			continue
		}
		c.letGo(d)
		if now.Sub(d.until) > deferredFor {
			delete(s.deferred, id)
		}
	}
}

// letGo drops the call of a request that can no longer run, and keeps its answer for anyone who
// asks again. The caller holds c.mu.
func (c *Controller) letGo(d *deferred) {
	if d.p == nil || d.outcome == nil {
		return
	}
	c.room.leave(d.p)
	d.p, d.outcome = nil, &outcome{decision: d.outcome.decision, verdict: d.outcome.verdict}
}

// waitingDeferred is the undecided request that a call names, if it is its own.
func (c *Controller) waitingDeferred(q *question) *pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := q.session.deferred[q.call.ApprovalID]
	if d == nil || d.outcome != nil || d.mismatch(q) != "" {
		return nil
	}
	return d.p
}

// awaitDeferred waits until the request that a call names is decided. The error
// is that of ctx.
func (c *Controller) awaitDeferred(ctx context.Context, q *question) error {
	p := c.waitingDeferred(q)
	if p == nil {
		return nil
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mismatch says in what a call is not the one that was asked about, or "".
func (d *deferred) mismatch(q *question) string {
	asked, call := d.asked, q.identity()
	switch {
	case asked.agent != call.agent:
		return "another agent's"
	case asked.tool != call.tool || asked.connector != call.connector:
		return fmt.Sprintf("for the tool %q", asked.tool)
	case asked.digest != call.digest || asked.fingerprint != call.fingerprint:
		return "for other arguments, or files have changed since"
	}
	return ""
}

// byDeferred decides every call that names an approval: by it, or not at all.
func (c *Controller) byDeferred(q *question) *verdict {
	id := q.call.ApprovalID
	if id == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d := q.session.deferred[id]
	if d == nil {
		return verdictNotDeferred(id, "does not belong to this session")
	}
	if why := d.mismatch(q); why != "" {
		return verdictNotDeferred(id, "is "+why)
	}
	switch {
	case d.outcome == nil:
		return &verdict{effect: Ask, reason: "a person has been asked"}
	case d.outcome.verdict.effect != Allow:
		v := *d.outcome.verdict
		v.memories = nil
		return &v
	case d.used:
		return verdictNotDeferred(id, "was already used")
	case !c.opts.Now().Before(d.until):
		return verdictNotDeferred(id, "has expired")
	}
	given := d.outcome.decision
	return &verdict{
		effect: Allow, action: Approved, scope: Once, approver: given.Approver, feedback: given.Feedback,
		rule: given.ID, reason: given.Reason, edited: given.Args, deferred: d, approved: d.outcome,
	}
}

// takeDeferred uses up an approval. It reports false if it was already used.
func (c *Controller) takeDeferred(d *deferred) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := d.used
	d.used = true
	return !taken
}

func verdictNotDeferred(id, why string) *verdict {
	return &verdict{
		action: Denied, code: CodeDenied, reason: fmt.Sprintf("the approval %q %s", id, why),
		hint: "Make the call again without an approval id; a person may be asked again.",
	}
}
