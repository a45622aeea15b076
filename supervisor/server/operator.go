package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// operatorMethods is everything that an operator can ask for. An operator need
// not say initialize: what it may do does not depend on it.
var operatorMethods = narrowed(table[*operatorConn]{
	protocol.MethodInitialize:          {handle: with((*operatorConn).initialize), when: anyTime, once: protocol.CodeAlreadyInitialized},
	protocol.MethodApprovalsSubscribe:  {handle: with((*operatorConn).subscribe), when: anyTime, once: protocol.CodeInvalidRequest},
	protocol.MethodApprovalsList:       {handle: with((*operatorConn).list), when: anyTime},
	protocol.MethodApprovalsShow:       {handle: with((*operatorConn).show), when: anyTime, long: true},
	protocol.MethodApprovalsDecide:     {handle: with((*operatorConn).decide), when: anyTime, long: true},
	protocol.MethodApprovalsPreview:    {handle: with((*operatorConn).preview), when: anyTime, long: true},
	protocol.MethodApprovalsRemembered: {handle: with((*operatorConn).remembered), when: anyTime},
	protocol.MethodApprovalsForget:     {handle: with((*operatorConn).forget), when: anyTime, long: true},
	protocol.MethodStatus:              {handle: with((*operatorConn).status), when: anyTime},
	protocol.MethodSessionsList:        {handle: with((*operatorConn).listSessions), when: anyTime},
	protocol.MethodSessionsClose:       {handle: with((*operatorConn).closeSession), when: anyTime, long: true},
	protocol.MethodCallsList:           {handle: with((*operatorConn).calls), when: anyTime},
	protocol.MethodCallsKill:           {handle: with((*operatorConn).kill), when: anyTime},
	protocol.MethodAuditQuery:          {handle: with((*operatorConn).audit), when: anyTime, long: true},
	protocol.MethodRulesList:           {handle: with((*operatorConn).rulesList), when: anyTime},
	protocol.MethodRulesAdd:            {handle: with((*operatorConn).rulesAdd), when: anyTime, long: true},
	protocol.MethodRulesRemove:         {handle: with((*operatorConn).rulesRemove), when: anyTime, long: true},
	protocol.MethodRulesReplace:        {handle: with((*operatorConn).rulesReplace), when: anyTime, long: true},
	protocol.MethodRulesTry:            {handle: with((*operatorConn).rulesTry), when: anyTime, long: true},
	protocol.MethodRulesTest:           {handle: with((*operatorConn).rulesTest), when: anyTime, long: true},
	protocol.MethodRulesSuggest:        {handle: with((*operatorConn).rulesSuggest), when: anyTime, long: true},
	protocol.MethodReload:              {handle: with((*operatorConn).reload), when: anyTime, long: true},
})

// An operatorConn is a connection of an operator. It reaches the approvals and
// what the supervisor tells about itself; of a process or file of a call it reaches nothing
// but its end.
type operatorConn struct {
	*conn
	leave []func()                           // undoes subscribe
	only  atomic.Pointer[protocol.SessionID] // see narrow; nil: every session
}

func newOperatorConn(c *conn) *operatorConn { return &operatorConn{conn: c} }

// serve returns when the operator is gone. What it was asked stays pending.
func (o *operatorConn) serve(ctx context.Context) {
	serveConn(ctx, o.conn, o, operatorMethods)
	for _, f := range o.leave {
		f()
	}
}

func (o *operatorConn) initialize(_ context.Context, p *protocol.InitializeParams) (protocol.Initialized, error) {
	if err := checkVersion(p.ProtocolVersion); err != nil {
		return protocol.Initialized{}, err
	}
	return o.server.initialized(), nil
}

// subscribe counts this connection as an approver. Its events come on a
// goroutine of their own, so a slow operator delays no call.
func (o *operatorConn) subscribe(_ context.Context, p *protocol.ApprovalsSubscribe) (protocol.ApprovalsList, error) {
	if p.SessionID != "" {
		if err := o.narrow(p.SessionID); err != nil {
			return protocol.ApprovalsList{}, err
		}
	}
	approvals := o.server.supervisor.Approvals()
	detach := approvals.AttachTo(string(p.SessionID))
	unsubscribe := approvals.Follow(o.event)
	o.leave = append(o.leave, unsubscribe, detach)
	return o.pending(), nil
}

func (o *operatorConn) event(e approval.Event) {
	if !o.sees(e.Pending.SessionID) {
		return
	}
	var name protocol.Method
	switch e.Kind {
	case approval.Requested:
		name = protocol.MethodApprovalRequested
	case approval.Updated:
		name = protocol.MethodApprovalUpdated
	case approval.Resolved:
		name = protocol.MethodApprovalResolved
	default:
		return
	}
	a, _ := listed(protocol.ApprovalOf(e.Pending))
	o.notify(name, protocol.ApprovalEvent{Approval: a, Decision: e.Decision})
}

func (o *operatorConn) list(context.Context, *protocol.Empty) (protocol.ApprovalsList, error) {
	return o.pending(), nil
}

func (o *operatorConn) pending() protocol.ApprovalsList {
	list := protocol.ApprovalsList{Approvals: []protocol.Approval{}}
	all := 0
	for _, p := range o.server.supervisor.Approvals().Pending() { // their number is bounded too
		if !o.sees(p.SessionID) {
			continue
		}
		p.Presentation = nil // a list of many must stay short
		a, n := listed(protocol.ApprovalOf(p))
		if all+n > maxList {
			a, n = barely(a)
		}
		all += n
		list.Approvals = append(list.Approvals, a)
	}
	return list
}

func (o *operatorConn) show(ctx context.Context, p *protocol.ApprovalsShowParams) (protocol.Approval, error) {
	if err := o.mayName(p.ID); err != nil {
		return protocol.Approval{}, err
	}
	one, err := o.server.supervisor.Approvals().Show(ctx, string(p.ID))
	if err != nil {
		return protocol.Approval{}, approvalError(err)
	}
	return shown(protocol.ApprovalOf(one)), nil
}

// preview shows what a request would be with other arguments or a pattern.
func (o *operatorConn) preview(ctx context.Context, p *protocol.ApprovalsPreview) (protocol.ApprovalsPreviewed, error) {
	one, offer, err := o.server.supervisor.Approvals().Preview(ctx, string(p.ID), p.Args, p.Pattern)
	if err != nil {
		return protocol.ApprovalsPreviewed{}, approvalError(err)
	}
	return protocol.ApprovalsPreviewed{Approval: shown(protocol.ApprovalOf(one)), Pattern: offer}, nil
}

func (o *operatorConn) remembered(context.Context, *protocol.Empty) (protocol.Remembered, error) {
	list, err := o.server.supervisor.Approvals().Remembered()
	if err != nil {
		return protocol.Remembered{}, err
	}
	answers := make([]protocol.RememberedAnswer, len(list))
	for i, m := range list {
		answers[i] = protocol.RememberedOf(m)
	}
	answers, more := shortened(answers, func(a *protocol.RememberedAnswer) int {
		if weight(a.Payload) > maxListed {
			a.Payload = ""
		}
		return 1024 + weight(a.Payload) + weight(a.Description) + weight(a.Text) + weight(a.Feedback) + weight(a.Holder) + weight(a.Connector)
	}, func(a *protocol.RememberedAnswer) {
		a.Payload, a.Description, a.Feedback = "", short(a.Description), short(a.Feedback)
	})
	return protocol.Remembered{Answers: answers, More: more}, nil
}

func (o *operatorConn) forget(_ context.Context, p *protocol.ApprovalsForget) (protocol.Empty, error) {
	err := o.server.supervisor.Approvals().Forget(p.ID)
	if errors.Is(err, approval.ErrNotRemembered) {
		return protocol.Empty{}, protocol.Errorf(protocol.CodeUnknownApproval, "nothing is remembered as %q", p.ID).
			WithHint("approvals.remembered has what is")
	}
	return protocol.Empty{}, err
}

func (o *operatorConn) decide(_ context.Context, p *protocol.ApprovalsDecide) (protocol.ApprovalsDecided, error) {
	if err := o.mayAnswer(p); err != nil {
		return protocol.ApprovalsDecided{}, err
	}
	answer := o.answer(p)
	decided := protocol.ApprovalsDecided{Results: []protocol.Decided{}}
	for _, id := range o.targets(p) {
		d, err := o.decideOne(string(id), p.Decision, answer)
		one := protocol.Decided{ID: id}
		if err == nil {
			one.Decision = &d
		} else if one.Error = o.wire(protocol.MethodApprovalsDecide, approvalError(err)); p.ID != "" {
			return protocol.ApprovalsDecided{}, one.Error
		}
		decided.Results = append(decided.Results, one)
	}
	if len(decided.Results) == 0 {
		return decided, protocol.Errorf(protocol.CodeUnknownApproval, "no request of group %q is pending", p.Group)
	}
	return decided, nil
}

// answer carries out a message in the name of the peer: the name that the kernel gives,
// and no other.
func (o *operatorConn) answer(p *protocol.ApprovalsDecide) approval.Answer {
	a := approval.Answer{
		Allow: p.Decision == protocol.Allow, Scope: p.Scope, Reject: p.Mode, Feedback: p.Feedback, Approver: o.peer.String(),
		Interrupt: p.Interrupt, Args: p.Args, Digest: p.PlanDigest, Pattern: p.Pattern,
	}
	if e := p.Expires; e != nil {
		a.ExpiresAfter, a.Uses = time.Duration(e.AfterMS)*time.Millisecond, e.Uses
	}
	if o.only.Load() != nil {
		a.Approver += ", for its own session"
	}
	return a
}

func (o *operatorConn) decideOne(id string, v protocol.Verdict, a approval.Answer) (approval.Decision, error) {
	if v == protocol.Dismiss {
		return o.server.supervisor.Approvals().Dismiss(id, a.Approver)
	}
	d, err := o.server.supervisor.Approvals().Answer(id, a)
	if ended := byOwnRejection(err, a); ended != nil {
		return *ended, nil
	}
	return d, err
}

// byOwnRejection is the decision about a request that this answer was for as well:
// denying a whole group, hard, ends its other requests with the first.
func byOwnRejection(err error, a approval.Answer) *approval.Decision {
	var answered *approval.AnsweredError
	if a.Allow || !errors.As(err, &answered) {
		return nil
	}
	if d := answered.Decision; d.Source == approval.SourceBatch && d.Approver == a.Approver {
		return &d
	}
	return nil
}

// targets are the requests that an answer is for.
func (o *operatorConn) targets(p *protocol.ApprovalsDecide) []protocol.ApprovalID {
	switch {
	case p.ID != "":
		return []protocol.ApprovalID{p.ID}
	case len(p.IDs) > 0:
		return p.IDs
	}
	var ids []protocol.ApprovalID
	for _, w := range o.server.supervisor.Approvals().Pending() {
		if protocol.GroupOf(w) == p.Group {
			ids = append(ids, protocol.ApprovalID(w.ID))
		}
	}
	return ids
}

func (o *operatorConn) status(context.Context, *protocol.Empty) (protocol.Status, error) {
	st := o.server.supervisor.Status()
	st.ProtocolVersion = protocol.Version
	st.Approvers = o.server.supervisor.Approvals().Approvers("")
	return st, nil
}

func (o *operatorConn) listSessions(context.Context, *protocol.Empty) (protocol.SessionsList, error) {
	var list protocol.SessionsList
	list.Sessions, list.More = shortened(o.server.supervisor.Sessions(), func(s *protocol.SessionInfo) int {
		return 256 + weight(string(s.ID)) + weight(s.Agent) + weight(s.Name) + weight(s.Metadata)
	}, func(s *protocol.SessionInfo) { s.Metadata, s.Name = nil, short(s.Name) })
	if list.Sessions == nil {
		list.Sessions = []protocol.SessionInfo{}
	}
	return list, nil
}

func (o *operatorConn) closeSession(_ context.Context, p *protocol.SessionsClose) (protocol.SessionClosed, error) {
	return o.server.supervisor.EndSession(p.SessionID, o.peer)
}

func (o *operatorConn) calls(context.Context, *protocol.Empty) (protocol.CallsList, error) {
	var list protocol.CallsList
	list.Calls, list.More = shortened(o.server.supervisor.CallsUnderWay(), func(c *protocol.CallInfo) int {
		return 256 + weight(string(c.SessionID)) + weight(string(c.CallID)) + weight(c.Agent) + weight(string(c.Tool)) + weight(c.Args)
	}, func(c *protocol.CallInfo) { c.Args = nil })
	if list.Calls == nil {
		list.Calls = []protocol.CallInfo{}
	}
	return list, nil
}

func (o *operatorConn) kill(_ context.Context, p *protocol.CallsKill) (protocol.Empty, error) {
	return protocol.Empty{}, o.server.supervisor.Kill(p.ID, o.peer)
}

func (o *operatorConn) audit(_ context.Context, p *protocol.AuditQuery) (protocol.AuditEntries, error) {
	return o.server.supervisor.Audit(*p)
}

func (c *conn) wire(name protocol.Method, err error) *protocol.Error {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e
	}
	return c.server.internalError(name, err)
}

// approvalError gives what an answer can run into its code.
func approvalError(err error) error {
	var (
		unknown  *approval.NotPendingError
		answered *approval.AnsweredError
		invalid  *approval.InvalidAnswerError
	)
	switch {
	case errors.As(err, &unknown):
		return protocol.Errorf(protocol.CodeUnknownApproval, "no request %q is pending", unknown.ID).
			WithHint("approvals.list has the requests that are")
	case errors.As(err, &answered):
		return alreadyDecided(answered)
	case errors.As(err, &invalid):
		e := protocol.Errorf(protocol.CodeInvalidParams, "params.%s: %s", invalid.Field, invalid.Reason)
		e.Field = "params." + invalid.Field
		return e
	}
	return err
}

// alreadyDecided tells a late answer who was first.
func alreadyDecided(err *approval.AnsweredError) error {
	d := err.Decision
	e := protocol.Errorf(protocol.CodeAlreadyDecided, "%q is decided already: %s", err.ID, d.Reason)
	wire := protocol.DecisionOf(d)
	e.Decision = &wire
	return e
}
