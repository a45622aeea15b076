package supervisor

import (
	"context"
	"errors"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// operatorMethods is everything that an operator can ask for. An operator need
// not say initialize: what it may do does not depend on it.
var operatorMethods = table[*operatorConn]{
	protocol.MethodInitialize:         {handle: with((*operatorConn).initialize), when: anyTime, once: protocol.CodeAlreadyInitialized},
	protocol.MethodApprovalsSubscribe: {handle: with((*operatorConn).subscribe), when: anyTime, once: protocol.CodeInvalidRequest},
	protocol.MethodApprovalsList:      {handle: with((*operatorConn).list), when: anyTime},
	protocol.MethodApprovalsShow:      {handle: with((*operatorConn).show), when: anyTime, long: true},
	protocol.MethodApprovalsDecide:    {handle: with((*operatorConn).decide), when: anyTime, long: true},
	protocol.MethodStatus:             {handle: with((*operatorConn).status), when: anyTime},
	protocol.MethodSessionsList:       {handle: with((*operatorConn).listSessions), when: anyTime},
}

// An operatorConn is a connection of an operator. It reaches the approvals and
// what the gate tells about itself, and no process or file of a call.
type operatorConn struct {
	*conn
	leave []func() // undoes subscribe
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
func (o *operatorConn) subscribe(context.Context, *protocol.Empty) (protocol.ApprovalsList, error) {
	approvals := o.server.gate.Approvals()
	detach := approvals.Attach()
	unsubscribe := approvals.Subscribe(o.event)
	o.leave = append(o.leave, unsubscribe, detach)
	return o.pending(), nil
}

func (o *operatorConn) event(e approval.Event) {
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
	o.notify(name, protocol.ApprovalEvent{Approval: wireApproval(e.Pending), Decision: e.Decision})
}

func (o *operatorConn) list(context.Context, *protocol.Empty) (protocol.ApprovalsList, error) {
	return o.pending(), nil
}

func (o *operatorConn) pending() protocol.ApprovalsList {
	list := protocol.ApprovalsList{Approvals: []protocol.Approval{}}
	for _, p := range o.server.gate.Approvals().Pending() {
		p.Presentation = nil // a list of many must stay short
		list.Approvals = append(list.Approvals, wireApproval(p))
	}
	return list
}

func (o *operatorConn) show(ctx context.Context, p *protocol.ApprovalsShowParams) (protocol.Approval, error) {
	shown, err := o.server.gate.Approvals().Show(ctx, string(p.ID))
	if err != nil {
		return protocol.Approval{}, approvalError(err)
	}
	return wireApproval(shown), nil
}

func (o *operatorConn) decide(_ context.Context, p *protocol.ApprovalsDecide) (protocol.ApprovalsDecided, error) {
	answer := approval.Answer{
		Allow: p.Decision == protocol.Allow, Scope: p.Scope, Reject: p.Mode, Feedback: p.Feedback,
		Approver: o.peer.String(), // the kernel's word, and no one else's
	}
	decided := protocol.ApprovalsDecided{Results: []protocol.Decided{}}
	for _, id := range o.targets(p) {
		d, err := o.server.gate.Approvals().Answer(string(id), answer)
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

// targets are the requests that an answer is for.
func (o *operatorConn) targets(p *protocol.ApprovalsDecide) []protocol.ApprovalID {
	switch {
	case p.ID != "":
		return []protocol.ApprovalID{p.ID}
	case len(p.IDs) > 0:
		return p.IDs
	}
	var ids []protocol.ApprovalID
	for _, w := range o.server.gate.Approvals().Pending() {
		if wireGroup(w) == p.Group {
			ids = append(ids, protocol.ApprovalID(w.ID))
		}
	}
	return ids
}

func (o *operatorConn) status(context.Context, *protocol.Empty) (protocol.Status, error) {
	st := o.server.gate.Status()
	st.ProtocolVersion = protocol.Version
	st.Approvers = o.server.gate.Approvals().Approvers()
	return st, nil
}

func (o *operatorConn) listSessions(context.Context, *protocol.Empty) (protocol.SessionsList, error) {
	list := protocol.SessionsList{Sessions: o.server.gate.Sessions()}
	if list.Sessions == nil {
		list.Sessions = []protocol.SessionInfo{}
	}
	return list, nil
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
	e.Decision = &protocol.Decision{
		Action: d.Action, Source: string(d.Source), Scope: d.Scope, Reason: d.Reason,
		Approver: d.Approver, Feedback: d.Feedback, Rule: d.Rule,
	}
	return e
}

// wireApproval is a pending request as it goes out. Its text is raw: whoever
// shows it escapes it for the place where it is shown.
func wireApproval(p approval.Pending) protocol.Approval {
	return protocol.Approval{
		ID: protocol.ApprovalID(p.ID), SessionID: protocol.SessionID(p.SessionID), Agent: p.Agent,
		CallID: protocol.CallID(p.CallID), Tool: protocol.ToolName(p.ToolName),
		Description: p.Description, Payload: p.Payload, Presentation: p.Presentation, Details: p.Details,
		GroupID: wireGroup(p), BatchRemaining: p.BatchRemaining, PlanDigest: p.Digest,
		Created: p.Requested, Expires: p.Expires,
	}
}

// wireGroup is the group of a request: the agent's, else the tool's own.
func wireGroup(p approval.Pending) string {
	if p.BatchID != "" {
		return p.BatchID
	}
	return p.GroupID
}
