package server

import (
	"context"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
)

// A Supervisor is the service behind the sockets: a *supervisor.Supervisor. Its errors
// are *protocol.Error; any other is answered as internal, and its text stays in the
// server's own log.
//
// The server promises that session ids come only from the connection that
// opened them, and that peers are the kernel's word. The supervisor promises that
// Call returns soon after its context ends.
type Supervisor interface {
	OpenSession(peer unixsock.Peer, p protocol.SessionOpen) (protocol.SessionOpened, error)
	CloseSession(id protocol.SessionID) (protocol.SessionClosed, error)
	// LeaveSession ends a session with its connection, unless it has a name.
	LeaveSession(id protocol.SessionID) error
	Tools(ctx context.Context, id protocol.SessionID) (protocol.ToolsList, error)
	Call(ctx context.Context, peer unixsock.Peer, p protocol.ToolsCall, notify func(protocol.Method, any)) (protocol.CallResult, error)
	// Batch has a context for each call of p.
	Batch(ctxs []context.Context, peer unixsock.Peer, p protocol.ToolsBatch, notify func(protocol.Method, any)) protocol.BatchResult
	Decide(ctx context.Context, peer unixsock.Peer, p protocol.ToolsDecide, notify func(protocol.Method, any)) (protocol.ToolsDecided, error)
	Check(ctx context.Context, peer unixsock.Peer, p protocol.ToolsCall) (protocol.CheckResult, error)
	Status() protocol.Status
	Sessions() []protocol.SessionInfo
	// EndSession is CloseSession for an operator.
	EndSession(id protocol.SessionID, by unixsock.Peer) (protocol.SessionClosed, error)
	CallsUnderWay() []protocol.CallInfo
	// Kill ends the call that CallsUnderWay gives this id.
	Kill(id string, by unixsock.Peer) error
	Audit(q protocol.AuditQuery) (protocol.AuditEntries, error)
	Approvals() *approval.Controller
	// RuleService is where standing rules are looked at and changed; nil if there are none.
	RuleService() RuleService
}

// A RuleService is where an operator looks at the rules, changes them, and asks what they make
// of a call.
type RuleService interface {
	List() protocol.RulesList
	Add(peer unixsock.Peer, p protocol.RuleSpec) (protocol.Rule, error)
	Replace(peer unixsock.Peer, p protocol.RulesReplace) (protocol.Rule, error)
	// Try says which decisions of the log a rule would have been about. It adds none.
	Try(p protocol.RulesTry) (protocol.RulesTried, error)
	Remove(peer unixsock.Peer, p protocol.RulesRemove) (protocol.Rule, error)
	Test(peer unixsock.Peer, p protocol.RulesTest) (protocol.RulesTested, error)
	Suggest(p protocol.RulesSuggest) (protocol.RulesSuggested, error)
	// Reload reads the files of standing rules again.
	Reload(peer unixsock.Peer) (protocol.Reloaded, error)
}
