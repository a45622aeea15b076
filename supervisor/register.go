package supervisor

import (
	"context"
	"errors"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/failure"
)

// A call is registered with its session from its arrival to its end, so that both can be
// ended, and an operator is told what waits.

// join makes a context that ends with the call's own, with the session, and when an
// operator ends the call.
func (c *call) join(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	closed := context.AfterFunc(c.session.ctx, func() { cancel(context.Cause(c.session.ctx)) })
	killed := context.AfterFunc(c.ended, func() { cancel(context.Cause(c.ended)) })
	return ctx, func() { closed(); killed(); cancel(nil) }
}

// count adds one call that ended with err.
func (x *session) count(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case err == nil:
		x.counts.Completed++
	case failure.IsRefusal(err):
		x.counts.Refused++
	default:
		x.counts.Failed++
	}
}

func unknownSession(id protocol.SessionID) error {
	return &protocol.Error{Code: protocol.CodeUnknownSession, Message: "no such session: " + string(id), HintText: "open one with session.open"}
}

// register ties a call to its session, unless either is ending.
func (s *Supervisor) register(c *call) error {
	c.ended, c.kill = context.WithCancelCause(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.sessions[c.req.SessionID]
	switch {
	case s.closed:
		return &protocol.Error{Code: protocol.CodeShuttingDown, Message: failure.ErrShuttingDown.Error()}
	case !ok:
		return unknownSession(c.req.SessionID)
	case !x.named.begin(c.req.CallID):
		return protocol.Errorf(protocol.CodeDuplicateCall, "the call %q is not over yet", c.req.CallID).WithHint("give every call an id of its own")
	}
	c.session = x
	s.running.Add(1)
	x.calls.Add(1)
	c.number = s.total.Add(1)
	s.calls[c.number] = c
	x.mu.Lock()
	x.running++
	x.counts.Calls++
	x.mu.Unlock()
	return nil
}

func (s *Supervisor) release(c *call) {
	s.frozen.Leave(c)
	for _, thaw := range c.thaw {
		thaw()
	}
	if n := c.session.named; n != nil {
		s.mu.Lock()
		delete(n.active, c.req.CallID)
		s.mu.Unlock()
	}
	s.mu.Lock()
	delete(s.calls, c.number)
	s.mu.Unlock()
	c.kill(nil)
	c.session.mu.Lock()
	c.session.running--
	c.session.mu.Unlock()
	c.session.calls.Done()
	s.running.Done()
}

func isDeferred(err error) bool {
	var later *approval.DeferredError
	return errors.As(err, &later)
}

// tellPending tells the agent that its call now waits for a person.
func (c *call) tellPending(requestID string) {
	c.place.WasAsked()
	c.notify(protocol.MethodToolState, protocol.ToolState{
		CallID: c.req.CallID, State: protocol.Pending, ApprovalID: protocol.ApprovalID(requestID),
	})
}

// endDeferred records the answer to a call that does not wait for it. A run that
// comes of it has a decision entry of its own.
func (s *Supervisor) endDeferred(e approval.Event) {
	if e.Kind != approval.Resolved || !e.Pending.Deferred {
		return
	}
	if s.logAnswer(e.Pending.Description, nil, *e.Decision) == nil {
		_ = s.cfg.Approvals.Recorded(e.Pending.ID) // or the next start finds it, and its answer in the log
	}
}

// refuseUnconfined answers for a host that cannot confine.
func (s *Supervisor) refuseUnconfined() error {
	if s.cfg.Confiner != nil {
		return nil
	}
	err := s.cfg.Unconfined
	if err == nil {
		err = errors.New("this supervisor has no sandbox")
	}
	return err
}
