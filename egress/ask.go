package egress

import (
	"context"
	"errors"
	"sync"
)

// questions are those that are open, one for each target: fifty connections to a
// host without an answer make one prompt.
type questions struct {
	mu   sync.Mutex
	open map[Target]*question
}

// A question is one call of Config.Ask and those who wait for it.
type question struct {
	done    chan struct{} // closed when the answer is there
	ctx     context.Context
	cancel  context.CancelFunc
	waiters int // guarded by questions.mu
	yes     bool
	err     error
}

// ask returns nil if the operator says yes, within Limits.Ask of the question.
func (s *Server) ask(ctx context.Context, r Request) error {
	q, err := s.join(ctx, r)
	if err != nil {
		return err
	}
	defer s.leave(r.Target, q)
	select {
	case <-q.done:
	case <-q.ctx.Done():
	case <-ctx.Done():
	}
	return s.answer(ctx, r.Target, q)
}

// answer reads the outcome. An answer that came after its time does not count,
// whichever of the channels was seen first.
func (s *Server) answer(ctx context.Context, t Target, q *question) error {
	select {
	case <-q.done:
	default:
		if ctx.Err() != nil {
			return refuse(ReasonUnanswered, t, "not on the list of allowed hosts; the call ended before an answer came")
		}
		return s.withHint(refuse(ReasonUnanswered, t, "not on the list of allowed hosts, and no answer came within %v", s.cfg.Limits.Ask))
	}
	switch {
	case errors.Is(q.err, context.DeadlineExceeded):
		return s.withHint(refuse(ReasonUnanswered, t, "not on the list of allowed hosts, and no answer came within %v", s.cfg.Limits.Ask))
	case q.err != nil:
		return s.withHint(refuse(ReasonUnanswered, t, "not on the list of allowed hosts, and the operator could not be asked: %w", q.err))
	case !q.yes:
		return s.withHint(refuse(ReasonDenied, t, "the operator said no"))
	}
	return nil
}

// join finds the open question about a target, or asks it.
func (s *Server) join(ctx context.Context, r Request) (*question, error) {
	s.asking.mu.Lock()
	defer s.asking.mu.Unlock()
	if q, ok := s.asking.open[r.Target]; ok {
		q.waiters++
		return q, nil
	}
	if len(s.asking.open) >= s.cfg.Limits.Questions {
		return nil, refuse(ReasonLimit, r.Target, "not on the list of allowed hosts, and %d other questions are open already", len(s.asking.open))
	}
	q := &question{done: make(chan struct{}), waiters: 1}
	// The question belongs to all who wait, not to the first of them.
	q.ctx, q.cancel = context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Limits.Ask)
	s.asking.open[r.Target] = q
	go s.put(q, r)
	return q, nil
}

func (s *Server) put(q *question, r Request) {
	yes, err := s.cfg.Ask(q.ctx, r)
	if q.ctx.Err() != nil {
		yes, err = false, q.ctx.Err()
	}
	q.yes, q.err = yes && err == nil, err
	close(q.done)
	s.forget(r.Target, q)
}

// leave withdraws a question that no connection waits for any more.
func (s *Server) leave(t Target, q *question) {
	s.asking.mu.Lock()
	defer s.asking.mu.Unlock()
	q.waiters--
	if q.waiters > 0 {
		return
	}
	q.cancel()
	if s.asking.open[t] == q {
		delete(s.asking.open, t)
	}
}

// forget makes the next connection to a target ask anew.
func (s *Server) forget(t Target, q *question) {
	s.asking.mu.Lock()
	defer s.asking.mu.Unlock()
	if s.asking.open[t] == q {
		delete(s.asking.open, t)
	}
}
