package client

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
)

// An Approver is a connection to the operator socket.
type Approver struct {
	link   *link
	server protocol.Initialized
	events *eventQueue
}

// DialApprover connects to the operator socket at path; "" is the user's own
// supervisor. Its errors are a *DialError or a *protocol.Error.
func DialApprover(ctx context.Context, path string, opts ...Option) (*Approver, error) {
	p := &Approver{events: newEventQueue()}
	l, hello, err := dial(ctx, path, unixsock.OperatorSocket, receiver{notify: p.notification}, opts)
	if err != nil {
		return nil, err
	}
	p.link, p.server = l, hello
	return p, nil
}

// Server is the supervisor's description of itself.
func (p *Approver) Server() protocol.Initialized { return p.server }

// Close ends the connection. Requests that wait for an answer go on waiting.
func (p *Approver) Close() error {
	err := p.link.close()
	p.events.close()
	return err
}

// EventKind says what has happened to a request.
type EventKind protocol.Method

// The kinds of events.
const (
	Requested = EventKind(protocol.MethodApprovalRequested) // it waits for an answer
	Updated   = EventKind(protocol.MethodApprovalUpdated)   // there is more to show
	Resolved  = EventKind(protocol.MethodApprovalResolved)  // it is over: take it off the screen
)

// An Event is about one request for approval.
type Event struct {
	Kind     EventKind
	Approval protocol.Approval
	Decision *approval.Decision // with Resolved
}

// Subscribe counts this connection as an approver, and returns what happens to
// requests, beginning with those that wait already. The channel is closed when
// the connection ends. Of events that are not read, as many are kept as approval.Unread
// keeps. It works once.
func (p *Approver) Subscribe(ctx context.Context) (<-chan Event, error) {
	return p.SubscribeTo(ctx, "")
}

// SubscribeTo is Subscribe for one session that this process has opened. From then on the
// connection is for its requests alone, and allows each of them once.
func (p *Approver) SubscribeTo(ctx context.Context, session protocol.SessionID) (<-chan Event, error) {
	var waiting protocol.ApprovalsList
	if err := p.link.request(ctx, protocol.MethodApprovalsSubscribe, protocol.ApprovalsSubscribe{SessionID: session}, &waiting); err != nil {
		return nil, err
	}
	// The server sends an event for each request in the list as well, so the
	// list itself is not needed.
	out := make(chan Event)
	go p.events.pump(out, p.link.done)
	return out, nil
}

// List lists the requests that wait for an answer, oldest first.
func (p *Approver) List(ctx context.Context) ([]protocol.Approval, error) {
	list, err := requestFor[protocol.ApprovalsList](ctx, p.link, protocol.MethodApprovalsList, protocol.Empty{})
	return list.Approvals, err
}

// Show returns one waiting request with its presentation.
func (p *Approver) Show(ctx context.Context, id protocol.ApprovalID) (protocol.Approval, error) {
	return requestFor[protocol.Approval](ctx, p.link, protocol.MethodApprovalsShow, protocol.ApprovalsShowParams{ID: id})
}

// Decide answers requests. With a single ID, a failure is the error; with
// several, see each result.
func (p *Approver) Decide(ctx context.Context, d protocol.ApprovalsDecide) ([]protocol.Decided, error) {
	decided, err := requestFor[protocol.ApprovalsDecided](ctx, p.link, protocol.MethodApprovalsDecide, d)
	return decided.Results, err
}

// Preview says what a waiting request would be with other arguments, and what a
// pattern would cover: both before they are sent with Decide.
func (p *Approver) Preview(ctx context.Context, preview protocol.ApprovalsPreview) (protocol.ApprovalsPreviewed, error) {
	return requestFor[protocol.ApprovalsPreviewed](ctx, p.link, protocol.MethodApprovalsPreview, preview)
}

// Remembered lists the answers that decide calls without asking.
func (p *Approver) Remembered(ctx context.Context) ([]protocol.RememberedAnswer, error) {
	list, err := requestFor[protocol.Remembered](ctx, p.link, protocol.MethodApprovalsRemembered, protocol.Empty{})
	return list.Answers, err
}

// Forget drops one remembered answer.
func (p *Approver) Forget(ctx context.Context, id string) error {
	return p.link.request(ctx, protocol.MethodApprovalsForget, protocol.ApprovalsForget{ID: id}, &protocol.Empty{})
}

// Status describes the supervisor.
func (p *Approver) Status(ctx context.Context) (protocol.Status, error) {
	return requestFor[protocol.Status](ctx, p.link, protocol.MethodStatus, protocol.Empty{})
}

// Sessions lists the open sessions of all agents.
func (p *Approver) Sessions(ctx context.Context) ([]protocol.SessionInfo, error) {
	list, err := requestFor[protocol.SessionsList](ctx, p.link, protocol.MethodSessionsList, protocol.Empty{})
	return list.Sessions, err
}

// CloseSession ends a session of any agent, and says what happened in it.
func (p *Approver) CloseSession(ctx context.Context, id protocol.SessionID) (protocol.SessionClosed, error) {
	return requestFor[protocol.SessionClosed](ctx, p.link, protocol.MethodSessionsClose, protocol.SessionsClose{SessionID: id})
}

// Calls lists the calls under way of all agents.
func (p *Approver) Calls(ctx context.Context) ([]protocol.CallInfo, error) {
	list, err := requestFor[protocol.CallsList](ctx, p.link, protocol.MethodCallsList, protocol.Empty{})
	return list.Calls, err
}

// Kill ends a call, by its id in Calls.
func (p *Approver) Kill(ctx context.Context, id string) error {
	return p.link.request(ctx, protocol.MethodCallsKill, protocol.CallsKill{ID: id}, &protocol.Empty{})
}

// Audit returns the last entries of the log that q chooses.
func (p *Approver) Audit(ctx context.Context, q protocol.AuditQuery) (protocol.AuditEntries, error) {
	return requestFor[protocol.AuditEntries](ctx, p.link, protocol.MethodAuditQuery, q)
}

// Rules lists the rules in force, and where each is written.
func (p *Approver) Rules(ctx context.Context) (protocol.RulesList, error) {
	return requestFor[protocol.RulesList](ctx, p.link, protocol.MethodRulesList, protocol.Empty{})
}

// AddRule puts a standing rule in force at once, and keeps it.
func (p *Approver) AddRule(ctx context.Context, r protocol.RuleSpec) (protocol.Rule, error) {
	changed, err := requestFor[protocol.RuleChanged](ctx, p.link, protocol.MethodRulesAdd, r)
	return changed.Rule, err
}

// ReplaceRule replaces the standing rule id in one step. It is refused if the present rule differs from seen,
// the rule that the person was shown; nil matches any rule.
func (p *Approver) ReplaceRule(ctx context.Context, id string, r protocol.RuleSpec, seen *protocol.RuleSpec) (protocol.Rule, error) {
	changed, err := requestFor[protocol.RuleChanged](ctx, p.link, protocol.MethodRulesReplace, protocol.RulesReplace{ID: id, Rule: r, Seen: seen})
	return changed.Rule, err
}

// TryRule says which decisions of the audit log a rule would have been about. It adds none.
func (p *Approver) TryRule(ctx context.Context, t protocol.RulesTry) (protocol.RulesTried, error) {
	return requestFor[protocol.RulesTried](ctx, p.link, protocol.MethodRulesTry, t)
}

// RemoveRule takes a standing rule out of force, and forgets it. It is refused if that is not seen, as for ReplaceRule.
func (p *Approver) RemoveRule(ctx context.Context, id string, seen *protocol.RuleSpec) (protocol.Rule, error) {
	changed, err := requestFor[protocol.RuleChanged](ctx, p.link, protocol.MethodRulesRemove, protocol.RulesRemove{ID: id, Seen: seen})
	return changed.Rule, err
}

// TestRules says what would become of a call, and which rules were considered.
func (p *Approver) TestRules(ctx context.Context, t protocol.RulesTest) (protocol.RulesTested, error) {
	return requestFor[protocol.RulesTested](ctx, p.link, protocol.MethodRulesTest, t)
}

// SuggestRules proposes rules from the audit log. It adds none.
func (p *Approver) SuggestRules(ctx context.Context, s protocol.RulesSuggest) (protocol.RulesSuggested, error) {
	return requestFor[protocol.RulesSuggested](ctx, p.link, protocol.MethodRulesSuggest, s)
}

// Reload has the supervisor read the files of standing rules again.
func (p *Approver) Reload(ctx context.Context) (protocol.Reloaded, error) {
	return requestFor[protocol.Reloaded](ctx, p.link, protocol.MethodReload, protocol.Empty{})
}

// requestFor makes a request whose result is an R.
func requestFor[R any](ctx context.Context, l *link, method protocol.Method, params any) (R, error) {
	var result R
	err := l.request(ctx, method, params, &result)
	return result, err
}

func (p *Approver) notification(m protocol.Message) {
	var e protocol.ApprovalEvent
	if json.Unmarshal(m.Params, &e) == nil {
		p.events.add(Event{EventKind(m.Method), e.Approval, e.Decision})
	}
}

// An eventQueue keeps events until they are read, but no more of them than there are requests: an
// approver that asks the server something while it has events to read must get its
// answer, which comes on the same connection behind them.
type eventQueue struct {
	mu     sync.Mutex
	events approval.Unread[Event]
	more   chan struct{} // holds a token while there may be events
	closed chan struct{}
	once   sync.Once
}

func newEventQueue() *eventQueue {
	return &eventQueue{more: make(chan struct{}, 1), closed: make(chan struct{})}
}

// kinds are those of the events by their methods.
var kinds = map[EventKind]approval.EventKind{Requested: approval.Requested, Updated: approval.Updated, Resolved: approval.Resolved}

func (q *eventQueue) add(e Event) {
	q.mu.Lock()
	q.events.Add(string(e.Approval.ID), kinds[e.Kind], e)
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *eventQueue) next() (Event, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.events.Next()
}

func (q *eventQueue) close() { q.once.Do(func() { close(q.closed) }) }

// pump hands events to out until the connection is over and they are all read,
// or the approver was closed.
func (q *eventQueue) pump(out chan<- Event, over <-chan struct{}) {
	defer close(out)
	for last := false; ; {
		for e, ok := q.next(); ok; e, ok = q.next() {
			select {
			case out <- e:
			case <-q.closed:
				return
			}
		}
		if last {
			return
		}
		select {
		case <-q.more:
		case <-over:
			last = true
		}
	}
}
