package approval

import (
	"cmp"
	"fmt"
)

// A NotPendingError says that no request waits under this ID: it never existed,
// or it ended long ago.
type NotPendingError struct{ ID string }

func (e *NotPendingError) Error() string {
	return fmt.Sprintf("approval: no request %q is pending", e.ID)
}

// An AnsweredError tells a late answer how the request ended, and by whom.
type AnsweredError struct {
	ID       string
	Decision Decision
}

func (e *AnsweredError) Error() string {
	return fmt.Sprintf("approval: request %q is decided already: %s", e.ID, e.Decision.Reason)
}

// An InvalidAnswerError says what is wrong with an answer. The request waits on.
type InvalidAnswerError struct {
	ID     string
	Field  string // of Answer, as on the wire: scope, mode, approver
	Reason string
}

func (e *InvalidAnswerError) Error() string {
	return fmt.Sprintf("approval: answer to %q: %s: %s", e.ID, e.Field, e.Reason)
}

// Answer decides a waiting request. The first answer wins: a later one gets an
// *AnsweredError, and one for a request that is not there a *NotPendingError.
// An answer that cannot be remembered as it asks to be is an error, and the
// request waits on for another.
//
// An allow does not erase a deny that has come up while the request was
// waiting: the deny then decides, and the answer is told so.
func (c *Controller) Answer(id string, a Answer) (Decision, error) {
	p, err := c.find(id)
	if err != nil {
		return Decision{}, err
	}
	if a, err = checkAnswer(a, p); err != nil {
		return Decision{}, err
	}
	d, err := c.answer(p, a)
	if err != nil {
		return Decision{}, err
	}
	if !a.Allow || a.Scope != Once {
		c.settle(p.affects)
	}
	return d, nil
}

// affects reports whether an answer to p may decide other as well.
func (p *pending) affects(other *pending) bool {
	batch := p.q.call.BatchID
	return other.q.fingerprint == p.q.fingerprint ||
		batch != "" && other.q.call.BatchID == batch && other.q.session == p.q.session
}

func (c *Controller) answer(p *pending, a Answer) (Decision, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outcome != nil {
		return Decision{}, &AnsweredError{ID: p.id, Decision: p.outcome.decision}
	}
	if a.Allow {
		if v := c.evaluate(p.q); v != nil && v.effect == Deny {
			d := c.decision(p.q, v, p.id)
			c.complete(p, outcome{d, v})
			return Decision{}, &AnsweredError{ID: p.id, Decision: d}
		}
	}
	v := verdictAnswer(a)
	d := c.decision(p.q, v, p.id)
	if err := c.remember(p.q, a, d); err != nil {
		return Decision{}, fmt.Errorf("approval: answer to %q: remember at scope %s: %w", p.id, a.Scope, err)
	}
	if !a.Allow {
		c.mu.Lock()
		p.q.session.noteDenial(p.q, d, c.opts.DenyCache)
		c.mu.Unlock()
	}
	c.complete(p, outcome{d, v})
	return d, nil
}

func (c *Controller) remember(q *question, a Answer, d Decision) error {
	if a.Scope == Once {
		return nil
	}
	effect := Deny
	if a.Allow {
		effect = Allow
	}
	return c.storeOf(q, a.Scope).Remember(Memory{
		ID:        d.ID,
		Key:       q.key(a.Scope, effect),
		ToolName:  q.call.ToolName,
		Connector: q.call.Connector,
		Payload:   q.payload,
		Approver:  a.Approver,
		Feedback:  a.Feedback,
		Created:   d.Time,
	})
}

// checkAnswer fills in what an answer leaves out, and checks the rest.
func checkAnswer(a Answer, p *pending) (Answer, error) {
	a.Scope = cmp.Or(a.Scope, Once)
	invalid := func(field, reason string, args ...any) (Answer, error) {
		return Answer{}, &InvalidAnswerError{p.id, field, fmt.Sprintf(reason, args...)}
	}
	switch a.Scope {
	case Once, Session, Global:
	case Agent:
		if p.q.call.Agent == "" {
			return invalid("scope", "the call names no agent to remember this for")
		}
	default:
		return invalid("scope", "%q is none of once, session, agent, global", a.Scope)
	}
	if a.Approver == "" {
		return invalid("approver", "an answer must say who gives it")
	}
	if a.Allow {
		if a.Reject != "" {
			return invalid("mode", "%q contradicts allowing", a.Reject)
		}
		return a, nil
	}
	a.Reject = cmp.Or(a.Reject, RejectHard)
	switch a.Reject {
	case RejectSoft, RejectHard:
	case RejectExplain:
		if a.Scope != Once {
			return invalid("scope", "reject_explain asks for the call again, so it cannot be remembered")
		}
	default:
		return invalid("mode", "%q is none of reject_soft, reject_hard, reject_explain", a.Reject)
	}
	return a, nil
}

// Dismiss ends a waiting request without deciding it: this call is refused,
// and nothing is remembered or cached.
func (c *Controller) Dismiss(id, approver string) (Decision, error) {
	p, err := c.find(id)
	if err != nil {
		return Decision{}, err
	}
	if approver == "" {
		return Decision{}, &InvalidAnswerError{id, "approver", "a dismissal must say who gives it"}
	}
	d, first := c.resolve(p, verdictDismissed(approver))
	if !first {
		return Decision{}, &AnsweredError{ID: id, Decision: d}
	}
	return d, nil
}
