package approval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Pending is a request that waits for an answer, as approvers see it. Its maps
// and slices are shared: do not change them. Its text comes from tools and
// agents: print it through Escape or EscapeLine. Only the presentation has been
// through that already.
type Pending struct {
	ID           string            `json:"id"` // what Answer refers to; never used twice
	CallID       string            `json:"call_id,omitempty"`
	SessionID    string            `json:"session_id"`
	Agent        string            `json:"agent,omitempty"`
	SessionName  string            `json:"session_name,omitempty"`
	ToolName     string            `json:"tool_name"`
	Connector    string            `json:"connector,omitempty"`
	BatchID      string            `json:"batch_id,omitempty"`
	GroupID      string            `json:"group_id,omitempty"`
	Description  string            `json:"description"`
	Payload      map[string]any    `json:"payload"`
	Covers       string            `json:"covers,omitempty"`       // by a remembered answer: Request.Covers
	Once         string            `json:"once,omitempty"`         // why allowing it is not remembered: Request.Once
	Presentation *Presentation     `json:"presentation,omitempty"` // nil until an approver opens the request
	Args         json.RawMessage   `json:"args,omitempty"`         // as the agent gave them; set by Show
	Editable     bool              `json:"editable,omitempty"`     // an answer may have other arguments
	Offers       []Offer           `json:"offers,omitempty"`       // patterns to remember; set by Show
	Rule         string            `json:"rule,omitempty"`         // what in the configuration asks
	Cause        string            `json:"cause,omitempty"`        // why a person is asked, if the tool does not ask
	Deferred     bool              `json:"deferred,omitempty"`     // the caller does not wait
	Digest       string            `json:"digest,omitempty"`
	Details      map[string]string `json:"details,omitempty"`
	// SessionMetadata and Metadata are the caller's, as in Call.
	SessionMetadata json.RawMessage `json:"session_metadata,omitempty"`
	Metadata        json.RawMessage `json:"metadata,omitempty"`
	BatchRemaining  []string        `json:"batch_remaining,omitempty"`
	// Turn is its place among those that wait: lists have the lowest first, and of the same turn the
	// one that came first.
	Turn      uint64    `json:"turn"`
	Requested time.Time `json:"requested"`
	Expires   time.Time `json:"expires"`
}

// UnmarshalJSON implements json.Unmarshaler: numbers stay as they were written.
func (p *Pending) UnmarshalJSON(text []byte) error {
	type plain Pending
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode((*plain)(p))
}

// pending is one waiting request.
type pending struct {
	id        string
	seq       uint64 // age order
	turn      uint64 // order in lists
	q         *question
	details   map[string]string
	requested time.Time
	deferred  bool
	held      int           // of the room, in bytes; guarded by Controller.mu
	done      chan struct{} // closed once outcome is set

	// mu is held while an answer is being stored and taken, so that of two
	// answers, a timeout and a cancellation exactly one becomes the outcome.
	// It is taken before Controller.mu, never after.
	mu      sync.Mutex
	outcome *outcome

	building     chan struct{} // holds one token while the presentation is built
	presentation atomic.Pointer[Presentation]
	problem      error // why the Prompter could not answer; guarded by Controller.mu
}

func (c *Controller) snapshot(p *pending) Pending {
	s := c.describe(p, p.q)
	s.Presentation = p.presentation.Load()
	return s
}

// describe is p as it would be for q: its own question, or an edited one.
func (c *Controller) describe(p *pending, q *question) Pending {
	call, details := &q.call, p.details
	if q != p.q {
		details = q.details()
	}
	return Pending{
		ID:             p.id,
		CallID:         call.ID,
		SessionID:      call.SessionID,
		Agent:          call.Agent,
		SessionName:    p.q.call.SessionName,
		ToolName:       call.ToolName,
		Connector:      call.Connector,
		BatchID:        call.BatchID,
		GroupID:        p.q.call.Request.GroupID,
		Description:    cmp.Or(call.Request, p.q.call.Request).Description,
		Payload:        cmp.Or(call.Request, p.q.call.Request).Payload,
		Covers:         cmp.Or(call.Request, p.q.call.Request).Covers,
		Once:           cmp.Or(call.Request, p.q.call.Request).Once,
		Editable:       call.Revise != nil,
		Rule:           call.Rule,
		Cause:          q.cause,
		Deferred:       p.deferred,
		Digest:         call.Digest,
		Details:        details,
		BatchRemaining: call.BatchRemaining,

		SessionMetadata: p.q.call.SessionMetadata,
		Metadata:        p.q.call.Metadata,
		Turn:            p.turn,
		Requested:       p.requested,
		Expires:         p.requested.Add(c.opts.Timeout),
	}
}

// details has what a remembered answer covers from the request that is answered: a question about a host
// or a signature has the details of the call that it comes from, whose answers are others.
func (q *question) details() (all map[string]string) {
	if q.call.Details != nil {
		all = q.call.Details()
	}
	if r := q.call.Request; r != nil && r.Covers != "" {
		if all = maps.Clone(all); all == nil {
			all = map[string]string{}
		}
		all["remembered"] = "a remembered answer covers " + r.Covers
	}
	return all
}

// ask waits for a person, and for whatever else may end the request.
func (c *Controller) ask(ctx context.Context, q *question) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return c.conclude(q, verdictCancelled(err))
	}
	p, refused := c.register(q, false)
	if refused != nil {
		return c.conclude(q, refused)
	}
	if q.call.Asked != nil {
		q.call.Asked(p.id)
	}
	// An answer that covers this call may have been stored between the last look
	// and the registration, too late for the one and too early for the other.
	c.settlePending(p)
	stop := c.prompt(ctx, p)
	defer stop()
	c.wait(ctx, p)
	return p.outcome.result()
}

// register makes a request pending after the journal has recorded it: no one is asked a
// question that a crash could lose.
func (c *Controller) register(q *question, deferred bool) (*pending, *verdict) {
	p := &pending{
		id:        c.ids.next("req"),
		q:         q,
		requested: c.opts.Now(),
		deferred:  deferred,
		done:      make(chan struct{}),
		building:  make(chan struct{}, 1),
	}
	if refused := c.mayAsk(p); refused != nil {
		return nil, refused
	}
	p.details = q.details()
	if c.opts.Journal != nil {
		if err := c.opts.Journal.Add(c.snapshot(p)); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.room.leave(p)
			return nil, verdictJournal(err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sessions[q.call.SessionID] != q.session { // closed while the journal was written
		c.room.leave(p)
		v := verdictSessionClosed(q.call.SessionID)
		v.requestID = p.id
		return nil, v
	}
	c.lastSeq++
	p.seq = c.lastSeq
	c.turns.take(p)
	c.pending[p.id] = p
	if deferred {
		q.session.keepDeferred(p)
	}
	c.announce(Event{Kind: Requested, Pending: c.snapshot(p)})
	return p, nil
}

// mayAsk makes room for p, or returns an error if no question is allowed now.
func (c *Controller) mayAsk(p *pending) *verdict {
	q := p.q
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.sessions[q.call.SessionID] != q.session:
		return verdictSessionClosed(q.call.SessionID)
	case c.deserted(q.call.SessionID):
		return verdictNoApprover(nil)
	case !q.session.prompts.take(p.requested):
		return verdictRateLimit(c.opts.PromptRate)
	}
	c.dropDeferred(q.session, p.requested)
	if c.room.take(p) == nil {
		return nil
	}
	for _, s := range c.sessions {
		c.dropDeferred(s, p.requested)
	}
	return c.room.take(p)
}

// deserted reports whether a session's request must be refused for want of an approver.
// c.mu is held.
func (c *Controller) deserted(session string) bool {
	return c.opts.NoApprover != NoApproverWait && c.attached(session) == 0 && c.opts.Prompter == nil
}

// wait returns when p has an outcome.
func (c *Controller) wait(ctx context.Context, p *pending) {
	timer := time.NewTimer(c.opts.Timeout)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		c.resolve(p, verdictTimeout(c.opts.Timeout, c.problem(p)))
	case <-ctx.Done():
		c.resolve(p, verdictCancelled(ctx.Err()))
	}
	<-p.done
}

func (c *Controller) problem(p *pending) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return p.problem
}

// resolve gives p an outcome unless it has one, and says whether it did.
func (c *Controller) resolve(p *pending, v *verdict) (Decision, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outcome != nil {
		return p.outcome.decision, false
	}
	d := c.decision(p.q, v, p.id)
	c.complete(p, outcome{d, v, p.q})
	return d, true
}

// complete ends p, on every screen. p.mu is held, and p has no outcome yet.
func (c *Controller) complete(p *pending, o outcome) {
	p.outcome = &o
	c.mu.Lock()
	delete(c.pending, p.id)
	c.turns.leave(p)
	p.q.session.note(p.q)
	d := p.q.session.deferred[p.id]
	if d != nil {
		d.outcome, d.until = &o, o.decision.Time.Add(deferredFor)
	}
	switch {
	case d == nil:
		c.room.leave(p)
	case o.verdict.effect != Allow, c.sessions[p.q.call.SessionID] != p.q.session:
		c.letGo(d)
	}
	c.recent.add(p.id, o.decision)
	c.announce(Event{Kind: Resolved, Pending: c.snapshot(p), Decision: &o.decision})
	c.mu.Unlock()
	close(p.done)
}

// settle walks the order again for waiting requests, after something has been
// learnt that may decide them.
func (c *Controller) settle(which func(*pending) bool) {
	c.mu.Lock()
	waiting := c.waiting(which)
	c.mu.Unlock()
	for _, p := range waiting {
		c.settlePending(p)
	}
}

// settlePending decides a waiting request without a person, if that can be done. A
// request that has its outcome uses nothing up: the answer that it was given may be
// what is remembered.
func (c *Controller) settlePending(p *pending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outcome != nil {
		return
	}
	if v, done := c.settled(p.q); done {
		c.complete(p, outcome{c.decision(p.q, v, p.id), v, p.q})
	}
}

// waiting lists requests in their turns. c.mu is held.
func (c *Controller) waiting(which func(*pending) bool) []*pending {
	var list []*pending
	for _, p := range c.pending {
		if which(p) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *pending) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.seq, b.seq))
	})
	return list
}

// Pending lists the requests that wait for an answer in their turns: see Pending.Turn.
func (c *Controller) Pending() []Pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := c.waiting(func(*pending) bool { return true })
	list := make([]Pending, len(waiting))
	for i, p := range waiting {
		list[i] = c.snapshot(p)
	}
	return list
}

// find returns a waiting request, or says what has become of it.
func (c *Controller) find(id string) (*pending, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.pending[id]; ok {
		return p, nil
	}
	if d, ok := c.recent.byID[id]; ok {
		return nil, &AnsweredError{ID: id, Decision: d}
	}
	return nil, &NotPendingError{ID: id}
}

// Show returns a waiting request with its presentation, which is built on the
// first call and safe to print, its arguments, and the patterns that may be
// remembered. It fails with a *NotPendingError or an
// *AnsweredError, or with the error of ctx. A presentation that cannot be built
// is replaced by the payload, with the cause in its metadata as "error".
func (c *Controller) Show(ctx context.Context, id string) (Pending, error) {
	p, err := c.find(id)
	if err != nil {
		return Pending{}, err
	}
	select {
	case p.building <- struct{}{}:
		defer func() { <-p.building }()
	case <-ctx.Done():
		return Pending{}, fmt.Errorf("approval: show %q: %w", id, ctx.Err())
	}
	if p.presentation.Load() == nil {
		shown, err := present(ctx, &p.q.call)
		if err != nil {
			return Pending{}, fmt.Errorf("approval: show %q: %w", id, err)
		}
		p.presentation.Store(shown)
		c.announceUpdate(p)
	}
	s := c.snapshot(p)
	s.Args, s.Offers = p.q.call.Args, c.offers(p.q)
	return s, nil
}

// Preview is Show for other arguments, and says what a pattern would cover with
// them; without args or a pattern, that part is left out. What the tool, a rule
// or the limits of patterns refuse is an *InvalidAnswerError.
func (c *Controller) Preview(ctx context.Context, id string, args json.RawMessage, pattern *Pattern) (Pending, *Offer, error) {
	p, err := c.find(id)
	if err != nil {
		return Pending{}, nil, err
	}
	q, err := c.revised(p, args)
	if err != nil {
		return Pending{}, nil, err
	}
	shown, err := present(ctx, &q.call)
	if err != nil {
		return Pending{}, nil, fmt.Errorf("approval: preview %q: %w", id, err)
	}
	s := c.describe(p, q)
	s.Presentation, s.Args, s.Offers = shown, q.call.Args, c.offers(q)
	if pattern == nil {
		return s, nil, nil
	}
	if err := c.checkPattern(q, *pattern, Allow); err != nil {
		return Pending{}, nil, &InvalidAnswerError{id, "pattern", err.Error()}
	}
	o := c.offer(q, *pattern)
	return s, &o, nil
}

// present builds what is shown. Its error is that of ctx.
func present(ctx context.Context, call *Call) (*Presentation, error) {
	var raw *Presentation
	var problem error
	if call.Present != nil {
		raw, problem = call.Present(ctx)
	}
	if problem != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	request := call.Request
	if request == nil { // an edit that needs no approval of its own
		request = &Request{ToolName: call.ToolName}
	}
	if raw == nil || problem != nil {
		raw = request.Presentation
	}
	if raw == nil {
		d := defaultPresentation(*request)
		raw = &d
	}
	safe := safePresentation(*raw)
	if problem != nil {
		if safe.Metadata == nil {
			safe.Metadata = map[string]any{}
		}
		safe.Metadata["error"] = Escape(problem.Error())
	}
	return safe, nil
}

// prompt has the Prompter ask, if there is one, until stop is called.
func (c *Controller) prompt(ctx context.Context, p *pending) (stop func()) {
	if c.opts.Prompter == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		if err := c.promptOnce(ctx, p.id); err != nil && ctx.Err() == nil {
			c.prompterFailed(p, err)
		}
	}()
	return cancel
}

func (c *Controller) promptOnce(ctx context.Context, id string) error {
	shown, err := c.Show(ctx, id)
	if err != nil {
		return err
	}
	a, err := c.opts.Prompter.Prompt(ctx, shown)
	if err != nil {
		return err
	}
	a.Approver = cmp.Or(a.Approver, "prompter")
	_, err = c.Answer(id, a)
	return err
}

// prompterFailed leaves p to the other approvers, if there are any.
func (c *Controller) prompterFailed(p *pending, err error) {
	c.mu.Lock()
	p.problem = err
	alone := c.opts.NoApprover != NoApproverWait && c.attached(p.q.call.SessionID) == 0
	c.mu.Unlock()
	if alone {
		c.resolve(p, verdictNoApprover(err))
	}
}

// Attach says that an approver has come who can answer requests, until detach
// is called. Requests wait on when the last one leaves; what Options.NoApprover
// says is asked when a request is new.
func (c *Controller) Attach() (detach func()) { return c.AttachTo("") }

// AttachTo is Attach for an approver who answers for one session alone.
func (c *Controller) AttachTo(session string) (detach func()) {
	c.addApprovers(session, 1)
	return sync.OnceFunc(func() { c.addApprovers(session, -1) })
}

func (c *Controller) addApprovers(session string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.approvers[session] += n; c.approvers[session] == 0 {
		delete(c.approvers, session)
	}
}

// Approvers is how many approvers are attached who can answer a session's requests; of ""
// it is those who answer every one's. The Prompter is not counted.
func (c *Controller) Approvers(session string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attached(session)
}

func (c *Controller) attached(session string) int {
	n := c.approvers[""]
	if session != "" {
		n += c.approvers[session]
	}
	return n
}

// recentDecisions remembers how the latest requests ended, so that a late answer learns who
// answered first.
type recentDecisions struct {
	byID map[string]Decision
	ring []string
	next int
}

const maxRecent = 1024

func (r *recentDecisions) add(id string, d Decision) {
	if r.byID == nil {
		r.byID, r.ring = map[string]Decision{}, make([]string, maxRecent)
	}
	delete(r.byID, r.ring[r.next])
	r.ring[r.next], r.byID[id] = id, d
	r.next = (r.next + 1) % maxRecent
}
