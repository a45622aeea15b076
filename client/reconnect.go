package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// The pause before another attempt to connect doubles from the first to the last.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// A Reconnecting is a session that outlives its connection: when the supervisor
// was restarted, the next call connects again and opens a new session. What was
// remembered for the old one is gone with it. A call that was under way when the
// connection broke is never repeated, since it may have run: its error is ErrClosed.
//
// The zero value is not usable; set Open.
type Reconnecting struct {
	Path string // of the agent socket; "" is the user's own supervisor
	Open protocol.SessionOpen
	// Wait is how long one call waits for a supervisor that is not there; 0 fails
	// at once.
	Wait    time.Duration
	Options []Option

	mu      sync.Mutex
	session *Session
}

// Call calls a tool, over a new connection if the last one is over.
func (r *Reconnecting) Call(ctx context.Context, tool protocol.ToolName, args any, opts ...CallOption) (protocol.CallResult, error) {
	s, err := r.Session(ctx)
	if err != nil {
		return protocol.CallResult{}, err
	}
	return s.Call(ctx, tool, args, opts...)
}

// Session is the session of the connection that is alive, or of a new one. Its
// errors are a *DialError, a *protocol.Error or the context's.
func (r *Reconnecting) Session(ctx context.Context) (*Session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session != nil && r.session.agent.link.alive() {
		return r.session, nil
	}
	if r.session != nil {
		r.session.agent.Close()
		r.session = nil
	}
	a, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	s, err := a.OpenSession(ctx, r.Open)
	if err != nil {
		a.Close()
		return nil, err
	}
	r.session = s
	return s, nil
}

func (r *Reconnecting) dial(ctx context.Context) (*Agent, error) {
	if r.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Wait)
		defer cancel()
	}
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		a, err := DialAgent(ctx, r.Path, r.Options...)
		var absent *DialError
		if err == nil || r.Wait == 0 || !errors.As(err, &absent) || !sleep(ctx, pause) {
			return a, err
		}
	}
}

// Close ends the connection, and with it the session. A later call opens another.
func (r *Reconnecting) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session == nil {
		return nil
	}
	err := r.session.agent.Close()
	r.session = nil
	return err
}

// alive reports whether the reader has not met the end yet.
func (l *link) alive() bool {
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

// sleep reports false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// An AnswerFunc answers a request for approval; the ID is filled in. false leaves
// the request to other approvers. It can ask p for more, such as p.Show for the
// presentation.
type AnswerFunc func(ctx context.Context, p *Approver, a protocol.Approval) (protocol.ApprovalsDecide, bool)

// Approve answers requests, one after another, until ctx ends, and returns its
// cause. When the connection is lost it connects again, for as long as it takes,
// and begins with the requests that wait then. The error is a *protocol.Error if
// the supervisor does not want this client. path is that of the operator socket;
// "" is the user's own supervisor.
func Approve(ctx context.Context, path string, answer AnswerFunc, opts ...Option) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		served, err := approveOnce(ctx, path, answer, opts)
		var refused *protocol.Error
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &refused) && !errors.Is(err, ErrClosed):
			return err
		case served:
			pause = firstPause
		}
		if !sleep(ctx, pause) {
			return context.Cause(ctx)
		}
	}
}

// approveOnce serves one connection; served reports whether there was one.
func approveOnce(ctx context.Context, path string, answer AnswerFunc, opts []Option) (served bool, err error) {
	p, err := DialApprover(ctx, path, opts...)
	if err != nil {
		return false, err
	}
	defer p.Close()
	stop := context.AfterFunc(ctx, func() { p.link.conn.Close() })
	defer stop()
	events, err := p.Subscribe(ctx)
	if err != nil {
		return true, err
	}
	for e := range events {
		if e.Kind != Requested {
			continue
		}
		d, ok := answer(ctx, p, e.Approval)
		if !ok {
			continue
		}
		d.ID = e.Approval.ID
		var taken *protocol.Error // another answer came first, or the request has ended
		if _, err := p.Decide(ctx, d); err != nil && !errors.As(err, &taken) {
			return true, err
		}
	}
	return true, nil
}
