package approval

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Controller. The zero value asks, waits five minutes, and
// remembers for as long as the process lives.
type Options struct {
	Mode Mode // "" means Interactive; an unknown word means Strict
	// Timeout is how long a request waits for an answer; no answer is a denial.
	// 0 is five minutes.
	Timeout time.Duration
	// NoApprover says what happens to a request while no approver is attached: NoApproverWait (also
	// "") or deny.
	NoApprover NoApprover
	// DenyCache is how long a session is not asked again about what a person
	// denied it once. 0 asks again each time.
	DenyCache time.Duration
	// PromptRate limits the requests of one session.
	PromptRate PromptRate
	// Prompter, if not nil, is an approver inside this process.
	Prompter Prompter
	// Store keeps the answers at the scopes Agent and Global; nil is a MemoryStore.
	Store Store
	// Journal keeps what waits for an answer, so that a crash loses none of it; nil
	// keeps it in memory.
	Journal Journal
	// Tools says which tools are known; nil knows all.
	Tools *ToolPolicy
	// Rules are the operator's standing rules; SetRules replaces them.
	Rules Rules
	// Outer, if not nil, decides about every call, and everything above but Now is its own.
	Outer Outer
	// Now is the clock of records, the denial cache and the rate limit; nil is time.Now.
	Now func() time.Time
}

// NoApprover says what happens to a request that no one can answer. An unknown word counts
// as NoApproverDeny.
type NoApprover string

const (
	NoApproverWait NoApprover = "wait"
	NoApproverDeny NoApprover = "deny"
)

const defaultTimeout = 5 * time.Minute

// A Prompter asks a person. Prompt is called once for each request, on its own
// goroutine, with the presentation built, and must return when ctx ends, which
// it does as soon as the request is decided in any way. An error means that
// this prompter cannot answer; others still may.
type Prompter interface {
	Prompt(ctx context.Context, p Pending) (Answer, error)
}

// A Controller decides on calls. It is safe for concurrent use.
type Controller struct {
	opts       Options
	ids        ids
	rulesInUse atomic.Pointer[Rules]

	mu        sync.Mutex
	sessions  map[string]*session
	pending   map[string]*pending
	recent    recentDecisions
	approvers map[string]int // by the session that they answer for; "" is every one
	listeners []*listener
	room      room
	turns     turns
	lastSeq   uint64
}

// NewController makes a Controller with one open session, whose id is "".
func NewController(o Options) *Controller {
	o.Mode = cmp.Or(o.Mode, Interactive)
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	o.NoApprover = cmp.Or(o.NoApprover, NoApproverWait)
	if o.Store == nil {
		o.Store = NewMemoryStore()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Controller{
		opts:      o,
		ids:       ids{prefix: strings.ToLower(rand.Text()[:8])},
		sessions:  map[string]*session{"": newSession("", o.PromptRate, o.Now())},
		pending:   map[string]*pending{},
		approvers: map[string]int{},
	}
	c.SetRules(o.Rules)
	return c
}

// SetRules replaces the standing rules. Requests that wait are judged again, so
// that a new deny also ends what is on an approver's screen.
func (c *Controller) SetRules(r Rules) {
	if r == nil {
		r = &RuleList{}
	}
	c.rulesInUse.Store(&r)
	c.settle(func(*pending) bool { return true })
}

func (c *Controller) rules() Rules { return *c.rulesInUse.Load() }

// Decide returns the grant for a call, or a *DeniedError. It waits for a person
// where the order of a decision (see the package comment) ends in asking.
func (c *Controller) Decide(ctx context.Context, call Call) (Grant, error) {
	if c.opts.Outer != nil {
		return c.decideOutside(ctx, call)
	}
	q, err := c.question(call)
	if err != nil {
		return c.conclude(&question{call: call}, verdictInvalid(err))
	}
	if err := c.awaitDeferred(ctx, q); err != nil {
		return c.conclude(q, verdictCancelled(err))
	}
	if v, done := c.settled(q); done {
		return c.conclude(q, v)
	}
	if q.call.CallerAsks {
		return c.conclude(q, verdictLeft(q))
	}
	return c.ask(ctx, q)
}

// settled decides without a person, if it can, and uses up what a verdict rests
// on. When a memory's last use has just gone to another call, it looks again.
func (c *Controller) settled(q *question) (*verdict, bool) {
	for {
		v := c.evaluate(q)
		if v == nil {
			return nil, false
		}
		ok, err := c.use(q, v)
		if err != nil {
			v = verdictStore(err)
			v.source = SourceRememberedAllow
		}
		if ok || err != nil {
			return v, true
		}
	}
}

// use counts one use of what a verdict rests on, and reports false if it is used
// up. A use of several that are limited may be counted for nothing; none counts twice.
func (c *Controller) use(q *question, v *verdict) (bool, error) {
	if v.deferred != nil && !c.takeDeferred(v.deferred) {
		return false, nil
	}
	now := c.opts.Now()
	for _, m := range v.memories {
		store := c.storeOf(q, m.Key.Scope)
		if m.Uses == 0 {
			store.Touch(m.Key, now)
			continue
		}
		ok, err := store.Spend(m.Key, m.ID, now)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// A Verdict is the result of Check: what Decide would do with a call.
type Verdict struct {
	Effect Effect
	Source Source
	Scope  Scope
	Rule   string
	Reason string
	Hint   string
}

// Check says what Decide would do, without asking anybody or leaving a trace.
func (c *Controller) Check(call Call) Verdict {
	if c.opts.Outer != nil {
		return c.checkOutside(call)
	}
	q, err := c.question(call)
	var v *verdict
	if err != nil {
		v = verdictInvalid(err)
	} else if v = c.evaluate(q); v == nil {
		return Verdict{Effect: Ask, Source: SourceAsk, Reason: "a person is asked"}
	}
	return Verdict{v.effect, v.source, v.scope, v.rule, v.reason, v.hint}
}

// ErrNotRemembered is in the error of Forget for an id that is not there.
var ErrNotRemembered = errors.New("no remembered answer has this id")

var errSessionClosed = errors.New("session is not open")

// question prepares a call. Its error is a bug of the caller or of the tool.
func (c *Controller) question(call Call) (*question, error) {
	q := &question{call: call, mode: c.opts.Mode.tighten(call.Mode)}
	c.mu.Lock()
	q.session = c.sessions[call.SessionID]
	c.mu.Unlock()
	if q.session == nil {
		return nil, fmt.Errorf("session %q: %w", call.SessionID, errSessionClosed)
	}
	if call.Request != nil {
		q.call.ToolName = cmp.Or(call.ToolName, call.Request.ToolName)
	}
	c.opts.Tools.raise(q)
	switch reach := &q.call.Reach; {
	case c.opts.Tools.dangerous(q.call.ToolName):
		reach.NotWhole = "the configuration lists the tool as dangerous"
	case q.call.Changed:
		reach.NotWhole = "the tool has changed"
	case cmp.Or(reach.Exact, reach.Single) != "":
		reach.NotWhole = cmp.Or(reach.Exact, reach.Single)
	}
	q.call.Reach = q.call.Reach.ofTool(&q.call)
	q.findPatterns()
	for _, connector := range append([]string{q.call.Connector}, q.call.DenialsOf...) {
		for _, same := range append([]string{q.call.Reach.Same}, q.call.Reach.Inside...) {
			if f, ok := q.same(connector, same); ok {
				q.denials = append(q.denials, f)
			}
		}
	}
	r := q.call.Request
	if r == nil {
		return q, nil
	}
	if r.ToolName != q.call.ToolName {
		return nil, fmt.Errorf("the call is for tool %q, but its request is for %q", call.ToolName, r.ToolName)
	}
	for _, connector := range q.call.DenialsOf {
		f, _, err := fingerprint(connector, r.ToolName, r.Payload)
		if err != nil {
			return q, err
		}
		q.denials = append(q.denials, f)
	}
	var err error
	q.fingerprint, q.payload, err = fingerprint(call.Connector, r.ToolName, r.Payload)
	return q, err
}

// conclude turns a verdict that needed no prompt into Decide's result.
func (c *Controller) conclude(q *question, v *verdict) (Grant, error) {
	c.mu.Lock()
	if q.session != nil {
		q.session.note(q)
	}
	c.mu.Unlock()
	if v.deferred != nil { // what was approved may have been edited
		approved := v.approved
		d := c.decision(approved.q, v, v.deferred.id)
		d.CallID, d.AskedDigest = q.call.ID, approved.decision.AskedDigest
		c.mu.Lock()
		c.letGo(v.deferred)
		c.mu.Unlock()
		return outcome{d, v, approved.q}.result()
	}
	return outcome{c.decision(q, v, ""), v, q}.result()
}

// permits gives what a verdict permits, and its digest: what was shown, or what the call may
// be without having been.
func (q *question) permits(v *verdict) (any, string) {
	if v.approved != nil {
		return v.approved.q.permits(v.approved.verdict)
	}
	unseen := v.source == SourceAllowRule || v.source == SourceRememberedAllow && v.pattern != nil
	if unseen && v.effect == Allow && q.call.Unseen != nil {
		return q.call.Unseen()
	}
	return q.call.Subject, q.call.Digest
}

func (c *Controller) decision(q *question, v *verdict, requestID string) Decision {
	_, digest := q.permits(v)
	return Decision{
		ID:        c.ids.next("dec"),
		RequestID: cmp.Or(requestID, v.requestID),
		CallID:    q.call.ID,
		SessionID: q.call.SessionID,
		Agent:     q.call.Agent,
		ToolName:  q.call.ToolName,
		Connector: q.call.Connector,
		Action:    v.action,
		Scope:     v.scope,
		Reject:    v.reject,
		Source:    v.source,
		Rule:      v.rule,
		Reason:    v.reason,
		Approver:  v.approver,
		Feedback:  v.feedback,
		Interrupt: v.interrupt,
		Digest:    digest,
		Args:      v.edited,
		Pattern:   v.pattern,
		Time:      c.opts.Now(),
	}
}

// An outcome is a verdict that has become a record.
type outcome struct {
	decision Decision
	verdict  *verdict
	q        *question // what was decided on: as asked, or as the approver edited it
}

// result is the only place that makes a Grant of what is decided here.
func (o outcome) result() (Grant, error) {
	if o.verdict.effect != Allow {
		return Grant{}, &DeniedError{o.decision, o.verdict.code, o.verdict.hint, o.verdict.cause}
	}
	subject, digest := o.q.permits(o.verdict)
	return Grant{subject: subject, digest: digest, decision: o.decision}, nil
}

// ids makes names that no other controller's will be taken for, in this process
// or in one that ran before: an answer to a dead request must find nothing.
type ids struct {
	prefix string
	n      atomic.Uint64
}

func (i *ids) next(kind string) string {
	return kind + "-" + i.prefix + "-" + strconv.FormatUint(i.n.Add(1), 10)
}
