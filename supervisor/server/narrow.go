package server

import (
	"context"
	"maps"
	"reflect"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// A process may be agent and approver at once: `sandgate mcp serve` has its client's person
// asked. What it answers for is then its own session and nothing else, and it is this side
// that sees to it, so that no mistake over there gives an agent more.

// narrow makes of a connection one for a session. It cannot be widened again.
func (o *operatorConn) narrow(id protocol.SessionID) error {
	if !o.server.cfg.Elicitation {
		return protocol.Errorf(protocol.CodeDenied, "no session is answered for by the process that has opened it").
			WithHint("the operator can set approval.elicitation: true; otherwise use `sandgate approve`")
	}
	for _, s := range o.server.supervisor.Sessions() {
		if s.ID == id && o.peer.PID != 0 && s.Peer == (protocol.Peer{UID: o.peer.UID, GID: o.peer.GID, PID: o.peer.PID}) {
			o.only.Store(&id)
			return nil
		}
	}
	return protocol.Errorf(protocol.CodeUnknownSession, "this process has no session %q", id)
}

// narrowed takes the other methods from a connection that is narrowed.
func narrowed(t table[*operatorConn]) table[*operatorConn] {
	within := map[protocol.Method]bool{
		protocol.MethodInitialize: true, protocol.MethodApprovalsSubscribe: true, protocol.MethodApprovalsList: true,
		protocol.MethodApprovalsShow: true, protocol.MethodApprovalsDecide: true, protocol.MethodStatus: true,
	}
	t = maps.Clone(t)
	for name, row := range t {
		if within[name] {
			continue
		}
		handle := row.handle
		row.handle = func(o *operatorConn, ctx context.Context, m protocol.Message) (any, error) {
			if o.only.Load() != nil {
				return nil, protocol.Errorf(protocol.CodeUnknownMethod, "a connection for one session has no %s", name)
			}
			return handle(o, ctx, m)
		}
		t[name] = row
	}
	return t
}

// sees reports whether a session's requests are for this connection.
func (o *operatorConn) sees(session string) bool {
	only := o.only.Load()
	return only == nil || string(*only) == session
}

// mayName fails for a request that is not for this connection, as if there were none.
func (o *operatorConn) mayName(id protocol.ApprovalID) error {
	if o.only.Load() == nil {
		return nil
	}
	for _, p := range o.server.supervisor.Approvals().Pending() {
		if p.ID == string(id) && o.sees(p.SessionID) {
			return nil
		}
	}
	return approvalError(&approval.NotPendingError{ID: string(id)})
}

// mayAnswer fails for all but an answer to one request, once, as it is.
func (o *operatorConn) mayAnswer(p *protocol.ApprovalsDecide) error {
	if o.only.Load() == nil {
		return nil
	}
	plain := protocol.ApprovalsDecide{ID: p.ID, Decision: p.Decision, Mode: p.Mode, PlanDigest: p.PlanDigest}
	if p.Scope == approval.Once {
		plain.Scope = p.Scope
	}
	switch {
	case !reflect.DeepEqual(*p, plain) || p.ID == "":
		return protocol.Errorf(protocol.CodeInvalidParams, "a connection for one session answers one request, once, as it is")
	case p.Decision == protocol.Allow && p.PlanDigest == "":
		return protocol.Errorf(protocol.CodeInvalidParams, "name what was shown, by its plan_digest")
	}
	return o.mayName(p.ID)
}
