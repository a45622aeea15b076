package approval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
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
	return fmt.Sprintf("approval: request %q is already decided: %s", e.ID, e.Decision.Reason)
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

// Answer decides a pending request. The first answer wins: a later one gets an *AnsweredError,
// and an answer to an unknown request gets a *NotPendingError. If the answer cannot be
// remembered as requested, or the tool rejects its edited arguments, Answer returns an error
// and the request stays pending.
//
// An allow does not erase a deny that has come up while the request was waiting. The
// deny then decides, and the answerer hears so.
func (c *Controller) Answer(id string, a Answer) (Decision, error) {
	p, err := c.find(id)
	if err != nil {
		return Decision{}, err
	}
	if a, err = checkAnswer(a, p); err != nil {
		return Decision{}, err
	}
	q, err := c.revised(p, a.Args)
	if err != nil {
		return Decision{}, err
	}
	if a.Digest != "" && a.Digest != q.call.Digest {
		return Decision{}, &InvalidAnswerError{id, "plan_digest", "the call's effect has changed since it was shown: review it again"}
	}
	if err := c.checkMemory(p.id, q, a); err != nil {
		return Decision{}, err
	}
	d, err := c.answer(p, q, a)
	if err != nil {
		return Decision{}, err
	}
	if !a.Allow || a.Scope != Once {
		c.settle(func(other *pending) bool { return p.affects(other) || q.reaches(a, other.q) })
	}
	return d, nil
}

// affects reports whether an answer to p may decide other as well.
func (p *pending) affects(other *pending) bool {
	batch := p.q.call.BatchID
	return batch != "" && other.q.call.BatchID == batch && other.q.session == p.q.session
}

// reaches reports whether what a says of q may be remembered for other.
func (q *question) reaches(a Answer, other *question) bool {
	if a.Pattern != nil {
		return other.call.Reach.touchedBy(*a.Pattern)
	}
	return other.fingerprint == q.fingerprint
}

// revised is the question as it is with other arguments: checked and planned by
// the tool, and held against everything that denies.
func (c *Controller) revised(p *pending, args json.RawMessage) (*question, error) {
	if args == nil {
		return p.q, nil
	}
	refused := func(reason string) (*question, error) {
		return nil, &InvalidAnswerError{p.id, "args", reason}
	}
	asked := p.q.call
	if asked.Revise == nil {
		return refused("the arguments of this call cannot be edited")
	}
	call, err := asked.Revise(args)
	if err == nil {
		err = call.Err
	}
	if err != nil {
		return refused(err.Error())
	}
	call.ID, call.SessionID, call.Agent, call.Peer, call.Mode = asked.ID, asked.SessionID, asked.Agent, asked.Peer, asked.Mode
	call.ToolName, call.Connector, call.Annotations = asked.ToolName, asked.Connector, asked.Annotations
	call.BatchID, call.BatchRemaining, call.Args = asked.BatchID, asked.BatchRemaining, args
	q, err := c.question(call)
	if err != nil {
		return refused(err.Error())
	}
	if v := c.evaluate(q); v != nil && v.effect == Deny && v.source.stands() {
		return refused(v.reason)
	}
	return q, nil
}

// stands reports whether a step denies whatever a person answers. The denial
// cache only spares people a question.
func (s Source) stands() bool { return s != SourceDenialCache }

// checkMemory says what of an answer cannot be remembered for q.
func (c *Controller) checkMemory(id string, q *question, a Answer) error {
	switch {
	case a.Scope == Once:
		return nil
	case a.Allow && q.call.ByItself != "":
		return &InvalidAnswerError{id, "scope", "it can only be allowed once: " + q.call.ByItself}
	case a.Pattern == nil && q.call.Request == nil:
		return &InvalidAnswerError{id, "scope", "with these arguments the call needs no approval, so there is nothing to remember"}
	case a.Pattern == nil && a.Allow && q.call.Request.Once != "":
		return &InvalidAnswerError{id, "scope", "it can only be allowed once: " + q.call.Request.Once}
	case a.Pattern == nil:
		return nil
	}
	effect := Deny
	if a.Allow {
		effect = Allow
	}
	if err := c.checkPattern(q, *a.Pattern, effect); err != nil {
		return &InvalidAnswerError{id, "pattern", err.Error()}
	}
	return nil
}

func (c *Controller) answer(p *pending, q *question, a Answer) (Decision, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outcome != nil {
		return Decision{}, &AnsweredError{ID: p.id, Decision: p.outcome.decision}
	}
	if a.Allow {
		if v := c.evaluate(q); v != nil && v.effect == Deny && (q == p.q || v.source.stands()) {
			d := c.decision(p.q, v, p.id)
			c.complete(p, outcome{d, v, p.q})
			return Decision{}, &AnsweredError{ID: p.id, Decision: d}
		}
	}
	covers := ""
	if q.call.Request != nil {
		covers = q.call.Request.Covers
	}
	v := verdictAnswer(a, covers)
	d := c.decision(q, v, p.id)
	if q != p.q {
		d.AskedDigest = p.q.call.Digest
	}
	if err := c.remember(q, a, d); err != nil {
		return Decision{}, fmt.Errorf("approval: answer to %q: remember at scope %s: %w", p.id, a.Scope, err)
	}
	if !a.Allow {
		c.mu.Lock()
		p.q.session.noteDenial(p.q, d, c.opts.DenyCache)
		c.mu.Unlock()
	}
	c.complete(p, outcome{d, v, q})
	return d, nil
}

func (c *Controller) remember(q *question, a Answer, d Decision) error {
	if a.Scope == Once {
		return nil
	}
	m := Memory{
		ID: d.ID, ToolName: q.call.ToolName, Connector: q.call.Connector, Approver: a.Approver, Feedback: a.Feedback,
		SessionID: q.call.SessionID, Created: d.Time, Uses: a.Uses, Pattern: a.Pattern,
	}
	if q.call.Request != nil {
		m.Description = q.call.Request.Description
		if covers := q.call.Request.Covers; covers != "" { // it is more than the call that was shown
			m.Description = covers + ": " + m.Description
		}
	}
	if a.ExpiresAfter > 0 {
		m.Expires = d.Time.Add(a.ExpiresAfter)
	}
	effect, f := Deny, q.fingerprint
	if a.Allow {
		effect = Allow
	}
	if a.Pattern != nil {
		f = a.Pattern.fingerprint(q.call.Connector, q.call.ToolName)
	} else {
		m.Payload = q.payload
		if same, ok := q.same(q.call.Connector, q.call.Reach.Same); ok && !a.Allow {
			f = same
		}
	}
	m.Key = q.key(a.Scope, effect, f)
	if a.Allow && q.call.Boundary != nil {
		m.Boundaries = []string{q.call.Boundary()}
	}
	return c.keep(c.storeOf(q, a.Scope), m)
}

// keep remembers m, unless it would put a denial in the place of one that holds for longer. An
// allow keeps the boundaries of one that holds for as long: it was asked for where more is reached.
func (c *Controller) keep(s Store, m Memory) error {
	there, err := s.Lookup(m.Key)
	if err != nil {
		return err
	}
	if len(there) > 0 && there[0].live(m.Created) && there[0].outlives(m) {
		if m.Key.Effect == Deny {
			return nil
		}
		for _, b := range there[0].Boundaries[:min(maxBoundaries-1, len(there[0].Boundaries))] {
			if !slices.Contains(m.Boundaries, b) {
				m.Boundaries = append(m.Boundaries, b)
			}
		}
	}
	return s.Remember(m)
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
		return invalid("scope", "%q: want once, session, agent or global", a.Scope)
	}
	switch {
	case a.Approver == "":
		return invalid("approver", "an answer must say who gives it")
	case a.Scope == Once && a.Pattern != nil:
		return invalid("pattern", "a pattern needs the scope session, agent or global")
	case a.Allow && a.Scope == Global && a.Pattern != nil && a.Pattern.Kind == WholeTool:
		return invalid("pattern", "a whole tool can be allowed for a session or an agent; for all agents, add a rule")
	case a.Scope == Once && (a.ExpiresAfter != 0 || a.Uses != 0):
		return invalid("expires", "only a remembered answer can expire: give a scope")
	case a.ExpiresAfter < 0 || a.Uses < 0:
		return invalid("expires", "must not be negative")
	case a.Allow && a.Interrupt:
		return invalid("interrupt", "only a denial can interrupt")
	case a.Allow && a.Reject != "":
		return invalid("mode", "%q cannot be used to allow", a.Reject)
	case !a.Allow && a.Args != nil:
		return invalid("args", "a denial cannot have arguments")
	case a.Allow:
		return a, nil
	}
	a.Reject = cmp.Or(a.Reject, RejectHard)
	switch a.Reject {
	case RejectSoft, RejectHard:
	case RejectExplain:
		if a.Scope != Once {
			return invalid("scope", "reject_explain cannot be remembered, because it invites the same call again")
		}
	default:
		return invalid("mode", "%q: want reject_soft, reject_hard or reject_explain", a.Reject)
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
