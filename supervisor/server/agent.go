package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// agentMethods is everything that an agent can ask for. No method here decides.
var agentMethods = table[*agentConn]{
	protocol.MethodInitialize:   {handle: with((*agentConn).initialize), when: beforeInitialize, once: protocol.CodeAlreadyInitialized},
	protocol.MethodSessionOpen:  {handle: with((*agentConn).openSession)},
	protocol.MethodSessionClose: {handle: with((*agentConn).closeSession), long: true},
	protocol.MethodToolsList:    {handle: with((*agentConn).listTools), long: true},
	protocol.MethodToolsCall:    {handle: with((*agentConn).call), long: true},
	protocol.MethodToolsBatch:   {handle: with((*agentConn).batch), long: true},
	protocol.MethodTaskStart:    {handle: taskCall(protocol.MethodTaskStart), long: true},
	protocol.MethodTaskOutput:   {handle: taskCall(protocol.MethodTaskOutput), long: true},
	protocol.MethodTaskInput:    {handle: taskCall(protocol.MethodTaskInput), long: true},
	protocol.MethodTaskKill:     {handle: taskCall(protocol.MethodTaskKill), long: true},
	protocol.MethodTaskList:     {handle: taskCall(protocol.MethodTaskList), long: true},
	protocol.MethodToolsCheck:   {handle: with((*agentConn).check), long: true},
	protocol.MethodToolsDecide:  {handle: with((*agentConn).decide), long: true},
	protocol.MethodToolsCancel:  {handle: with((*agentConn).cancel)},
}

// An agentConn is a connection of an agent. Its sessions are its own: no other
// connection can name them, and they end with it.
type agentConn struct {
	*conn

	mu       sync.Mutex
	sessions map[protocol.SessionID]bool
	calls    map[protocol.CallID]runningCall
}

type runningCall struct {
	session protocol.SessionID
	cancel  context.CancelCauseFunc
}

var (
	ErrCancelled     = errors.New("the client cancelled it")
	ErrSessionEnding = errors.New("its session was closed")
)

func newAgentConn(c *conn) *agentConn {
	return &agentConn{conn: c, sessions: map[protocol.SessionID]bool{}, calls: map[protocol.CallID]runningCall{}}
}

// serve returns when the client is gone, its calls are over and its sessions closed.
func (a *agentConn) serve(ctx context.Context) {
	// A silent peer must not hold its place forever.
	a.net.SetReadDeadline(time.Now().Add(a.server.cfg.StallTimeout))
	serveConn(ctx, a.conn, a, agentMethods)
	for id := range a.sessions {
		if err := a.server.supervisor.LeaveSession(id); err != nil {
			a.server.cfg.Log.Error("session not closed", "session", string(id), "error", err)
		}
	}
}

func (a *agentConn) initialize(ctx context.Context, p *protocol.InitializeParams) (protocol.Initialized, error) {
	if err := checkVersion(p.ProtocolVersion); err != nil {
		return protocol.Initialized{}, err
	}
	a.raw = p.RawOutput
	a.net.SetReadDeadline(time.Time{})
	if ctx.Err() != nil { // the deadline that wakes the reader may just have been overwritten
		a.net.SetReadDeadline(time.Unix(1, 0))
	}
	return a.server.initialized(), nil
}

func checkVersion(v int) error {
	if v == protocol.Version {
		return nil
	}
	return protocol.Errorf(protocol.CodeUnsupportedVersion, "protocol version %d is not supported", v).
		WithHint("use protocol_version %d", protocol.Version)
}

func (s *Server) initialized() protocol.Initialized {
	return protocol.Initialized{
		ProtocolVersion: protocol.Version,
		Server:          protocol.Program{Name: "sandgate", Version: s.cfg.Version},
		Limits:          protocol.Limits{MessageBytes: protocol.MaxMessage, Calls: s.cfg.MaxCalls, Sessions: s.cfg.MaxSessions},
		ToolsDigest:     s.supervisor.Status().ToolsDigest,
	}
}

func (a *agentConn) openSession(_ context.Context, p *protocol.SessionOpen) (protocol.SessionOpened, error) {
	a.mu.Lock()
	full := len(a.sessions) >= a.server.cfg.MaxSessions
	a.mu.Unlock()
	if full { // only this goroutine opens sessions, so there is still room afterwards
		return protocol.SessionOpened{}, protocol.Errorf(protocol.CodeTooManyRequests, "this connection has %d open sessions", a.server.cfg.MaxSessions).
			WithHint("close one with session.close")
	}
	opened, err := a.server.supervisor.OpenSession(a.peer, *p)
	if err != nil {
		return opened, err
	}
	a.mu.Lock()
	twice := a.sessions[opened.SessionID]
	a.sessions[opened.SessionID] = true
	a.mu.Unlock()
	if twice { // a connection is in a session once
		err = a.server.supervisor.LeaveSession(opened.SessionID)
	}
	return opened, err
}

// own fails unless this connection opened the session. A session of another
// connection looks like one that never was.
func (a *agentConn) own(id protocol.SessionID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.sessions[id] {
		return unknownOnConnection(id)
	}
	return nil
}

func unknownOnConnection(id protocol.SessionID) error {
	return protocol.Errorf(protocol.CodeUnknownSession, "this connection has no session %q", id).WithHint("open one with session.open")
}

func (a *agentConn) closeSession(_ context.Context, p *protocol.SessionClose) (protocol.SessionClosed, error) {
	a.mu.Lock()
	known := a.sessions[p.SessionID]
	delete(a.sessions, p.SessionID)
	for _, r := range a.calls {
		if r.session == p.SessionID {
			r.cancel(ErrSessionEnding)
		}
	}
	a.mu.Unlock()
	if !known {
		return protocol.SessionClosed{}, unknownOnConnection(p.SessionID)
	}
	return a.server.supervisor.CloseSession(p.SessionID)
}

func (a *agentConn) listTools(ctx context.Context, p *protocol.ToolsListParams) (protocol.ToolsList, error) {
	if err := a.own(p.SessionID); err != nil {
		return protocol.ToolsList{}, err
	}
	list, err := a.server.supervisor.Tools(ctx, p.SessionID)
	if list.Tools == nil {
		list.Tools = []protocol.Tool{} // [] on the wire, not null
	}
	return list, err
}

func (a *agentConn) call(ctx context.Context, p *protocol.ToolsCall) (protocol.CallResult, error) {
	ctx, done, err := a.startCall(ctx, p)
	if err != nil {
		return protocol.CallResult{}, err
	}
	defer done()
	r, err := a.server.supervisor.Call(ctx, a.peer, *p, a.notify)
	if r.Content == nil {
		r.Content = []protocol.Content{}
	}
	return r, err
}

// taskCall is the handler of a method that is a call by another name.
func taskCall(m protocol.Method) func(*agentConn, context.Context, protocol.Message) (any, error) {
	return with(func(a *agentConn, ctx context.Context, p *protocol.TaskCall) (protocol.CallResult, error) {
		c := p.ToolsCall(m)
		return a.call(ctx, &c)
	})
}

func (a *agentConn) batch(ctx context.Context, p *protocol.ToolsBatch) (protocol.BatchResult, error) {
	ctxs := make([]context.Context, len(p.Calls))
	for i, c := range p.ToolsCalls(p.GroupID) {
		ctx, done, err := a.startCall(ctx, &c)
		if err != nil {
			return protocol.BatchResult{}, err // nothing has started
		}
		defer done()
		ctxs[i] = ctx
	}
	return a.server.supervisor.Batch(ctxs, a.peer, *p, a.notify), nil
}

func (a *agentConn) check(ctx context.Context, p *protocol.ToolsCall) (protocol.CheckResult, error) {
	ctx, done, err := a.startCall(ctx, p)
	if err != nil {
		return protocol.CheckResult{}, err
	}
	defer done()
	return a.server.supervisor.Check(ctx, a.peer, *p)
}

func (a *agentConn) decide(ctx context.Context, p *protocol.ToolsDecide) (protocol.ToolsDecided, error) {
	call := p.ToolsCall()
	ctx, done, err := a.startCall(ctx, &call)
	if err != nil {
		return protocol.ToolsDecided{}, err
	}
	defer done()
	return a.server.supervisor.Decide(ctx, a.peer, *p, a.notify)
}

// startCall reserves the call's id until done.
func (a *agentConn) startCall(ctx context.Context, p *protocol.ToolsCall) (_ context.Context, done func(), err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.sessions[p.SessionID] {
		return nil, nil, unknownOnConnection(p.SessionID)
	}
	if _, ok := a.calls[p.CallID]; ok {
		return nil, nil, protocol.Errorf(protocol.CodeDuplicateCall, "the call %q is not over yet", p.CallID).
			WithHint("give each call its own id")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	a.calls[p.CallID] = runningCall{p.SessionID, cancel}
	return ctx, func() {
		a.mu.Lock()
		delete(a.calls, p.CallID)
		a.mu.Unlock()
		cancel(nil)
	}, nil
}

func (a *agentConn) cancel(_ context.Context, p *protocol.ToolsCancel) (protocol.Empty, error) {
	a.mu.Lock()
	r, ok := a.calls[p.CallID]
	a.mu.Unlock()
	if !ok {
		return protocol.Empty{}, protocol.Errorf(protocol.CodeUnknownCall, "this connection has no running call %q", p.CallID)
	}
	r.cancel(ErrCancelled)
	return protocol.Empty{}, nil
}
