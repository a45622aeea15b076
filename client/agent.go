package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
)

// An Agent is a connection to the agent socket. Its sessions end with it.
type Agent struct {
	link   *link
	server protocol.Initialized

	mu    sync.Mutex
	calls map[protocol.CallID]*callOptions
}

// DialAgent connects to the agent socket at path; "" is the user's own
// supervisor. Its errors are a *DialError or a *protocol.Error.
func DialAgent(ctx context.Context, path string, opts ...Option) (*Agent, error) {
	a := &Agent{calls: map[protocol.CallID]*callOptions{}}
	l, hello, err := dial(ctx, path, unixsock.AgentSocket, receiver{a.notification, a.output}, opts)
	if err != nil {
		return nil, err
	}
	a.link, a.server = l, hello
	return a, nil
}

// Server is the supervisor's description of itself.
func (a *Agent) Server() protocol.Initialized { return a.server }

// Close ends the connection: calls that run are killed, sessions closed.
func (a *Agent) Close() error { return a.link.close() }

// OpenSession opens a session.
func (a *Agent) OpenSession(ctx context.Context, p protocol.SessionOpen) (*Session, error) {
	var opened protocol.SessionOpened
	if err := a.link.request(ctx, protocol.MethodSessionOpen, p, &opened); err != nil {
		return nil, err
	}
	return &Session{agent: a, SessionOpened: opened}, nil
}

// Cancel stops a call of this connection. Call returns with the code cancelled.
func (a *Agent) Cancel(ctx context.Context, id protocol.CallID) error {
	return a.link.request(ctx, protocol.MethodToolsCancel, protocol.ToolsCancel{CallID: id}, &protocol.Empty{})
}

// A Session is where calls are made.
type Session struct {
	protocol.SessionOpened
	agent *Agent
}

// Close ends the session and says what happened in it.
func (s *Session) Close(ctx context.Context) (protocol.SessionClosed, error) {
	var counts protocol.SessionClosed
	err := s.agent.link.request(ctx, protocol.MethodSessionClose, protocol.SessionClose{SessionID: s.SessionID}, &counts)
	return counts, err
}

// Tools lists what can be called.
func (s *Session) Tools(ctx context.Context) ([]protocol.Tool, error) {
	list, err := s.List(ctx)
	return list.Tools, err
}

// List is Tools with what there is to say about the list.
func (s *Session) List(ctx context.Context) (protocol.ToolsList, error) {
	var list protocol.ToolsList
	err := s.agent.link.request(ctx, protocol.MethodToolsList, protocol.ToolsListParams{SessionID: s.SessionID}, &list)
	return list, err
}

// A CallOption changes one call.
type CallOption func(*callOptions)

type callOptions struct {
	request  protocol.ToolsCall
	onOutput func(protocol.RawOutput)
	onState  func(protocol.ToolState)
}

// OnOutput is called with each piece of output as it comes.
func OnOutput(f func(protocol.ToolOutput)) CallOption {
	return OnRawOutput(func(o protocol.RawOutput) { f(o.ToolOutput()) })
}

// OnRawOutput is OnOutput without a copy of each piece: its Data is good until f returns.
func OnRawOutput(f func(protocol.RawOutput)) CallOption {
	return func(o *callOptions) { o.onOutput = f }
}

// OnState is called when the call waits for an approver, runs, and is done.
func OnState(f func(protocol.ToolState)) CallOption { return func(o *callOptions) { o.onState = f } }

// WithCallID names the call; without it, the client chooses a name.
func WithCallID(id protocol.CallID) CallOption { return func(o *callOptions) { o.request.CallID = id } }

// WithTimeout shortens the tool's time limit. It is rounded up to a millisecond.
func WithTimeout(d time.Duration) CallOption {
	return func(o *callOptions) {
		o.request.TimeoutMS = int64((d + time.Millisecond - 1) / time.Millisecond)
	}
}

// WithGroup marks calls that the model made in one turn, and says what comes after this one.
func WithGroup(id string, remaining ...protocol.BatchItem) CallOption {
	return func(o *callOptions) { o.request.GroupID, o.request.BatchRemaining = id, remaining }
}

// OneStream keeps the order in which the program writes to its two streams: all output is stdout.
func OneStream() CallOption { return func(o *callOptions) { o.request.OneStream = true } }

// WithMetadata is recorded with the call.
func WithMetadata(m map[string]any) CallOption {
	return func(o *callOptions) { o.request.Metadata = m }
}

// Deferred makes a call that needs an approver return approval_required at once.
// After the decision, make it again with the approval id of that error.
func Deferred(id protocol.ApprovalID) CallOption {
	return func(o *callOptions) { o.request.Defer, o.request.ApprovalID = true, id }
}

// cancelWait bounds how long a cancelled call waits for the supervisor to have
// killed what it had started.
const cancelWait = 10 * time.Second

// Call calls a tool; args marshals to a JSON object, or is nil. When ctx ends,
// the call is cancelled, and Call returns once it is over; the error is then
// both the context's and the supervisor's.
func (s *Session) Call(ctx context.Context, tool protocol.ToolName, args any, opts ...CallOption) (protocol.CallResult, error) {
	o, err := s.prepare(tool, args, opts)
	if err != nil {
		return protocol.CallResult{}, err
	}
	return s.call(ctx, o)
}

// Forward makes a call in this session exactly as another client requested it.
func (s *Session) Forward(ctx context.Context, req protocol.ToolsCall, opts ...CallOption) (protocol.CallResult, error) {
	o := &callOptions{}
	for _, opt := range opts {
		opt(o)
	}
	o.request = req
	o.request.SessionID = s.SessionID
	return s.call(ctx, o)
}

func (s *Session) call(ctx context.Context, o *callOptions) (r protocol.CallResult, err error) {
	done, err := s.agent.listen(o)
	if err != nil {
		return r, err
	}
	defer done()
	answer, forget, err := s.agent.link.send(protocol.MethodToolsCall, o.request)
	if err != nil {
		return r, err
	}
	defer forget()
	select {
	case m, ok := <-answer:
		return r, s.agent.link.decode(m, ok, &r)
	case <-ctx.Done():
	}
	return r, s.abandon(ctx, o.request.CallID, answer, &r)
}

// Batch makes the calls of one turn: see protocol.ToolsBatch. A call without an
// id gets one. When ctx ends, Batch returns; the calls go on until they are
// cancelled by their ids, or the session is closed.
func (s *Session) Batch(ctx context.Context, group string, calls ...protocol.BatchCall) ([]protocol.BatchOutcome, error) {
	calls = slices.Clone(calls)
	for i := range calls {
		if calls[i].CallID == "" {
			calls[i].CallID = s.agent.link.newCallID()
		}
	}
	var r protocol.BatchResult
	err := s.agent.link.request(ctx, protocol.MethodToolsBatch, protocol.ToolsBatch{SessionID: s.SessionID, GroupID: group, Calls: calls}, &r)
	return r.Results, err
}

// abandon cancels a call whose context has ended, and waits for its end.
func (s *Session) abandon(ctx context.Context, id protocol.CallID, answer <-chan protocol.Message, r *protocol.CallResult) error {
	cause := context.Cause(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelWait)
	defer cancel()
	// unknown_call: it has ended by itself in this moment, and its answer is on the way.
	var e *protocol.Error
	if err := s.agent.Cancel(ctx, id); err != nil && !errors.As(err, &e) {
		return errors.Join(cause, err)
	}
	select {
	case m, ok := <-answer:
		if err := s.agent.link.decode(m, ok, r); err != nil {
			return errors.Join(cause, err)
		}
		return nil // it was faster
	case <-ctx.Done():
		return fmt.Errorf("%w; the supervisor has not confirmed that call %s is over", cause, id)
	}
}

// Check reports what a call would do, without running it or asking anyone.
func (s *Session) Check(ctx context.Context, tool protocol.ToolName, args any, opts ...CallOption) (protocol.CheckResult, error) {
	var r protocol.CheckResult
	o, err := s.prepare(tool, args, opts)
	if err != nil {
		return r, err
	}
	return r, s.agent.link.request(ctx, protocol.MethodToolsCheck, o.request, &r)
}

// Decide has a call decided and recorded that the caller carries out itself, outside any
// sandbox of the supervisor's. A call without an id gets one. A refusal is an error; so is
// approval_required, which with AgentAsks means that the caller has to ask a person.
func (s *Session) Decide(ctx context.Context, d protocol.ToolsDecide) (protocol.ToolsDecided, error) {
	var r protocol.ToolsDecided
	d.SessionID = s.SessionID
	if d.CallID == "" {
		d.CallID = s.agent.link.newCallID()
	}
	return r, s.agent.link.request(ctx, protocol.MethodToolsDecide, d, &r)
}

func (s *Session) prepare(tool protocol.ToolName, args any, opts []CallOption) (*callOptions, error) {
	o := &callOptions{}
	for _, opt := range opts {
		opt(o)
	}
	o.request.SessionID, o.request.Tool = s.SessionID, tool
	if o.request.CallID == "" {
		o.request.CallID = s.agent.link.newCallID()
	}
	if args == nil {
		return o, nil
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", tool, err)
	}
	o.request.Args = raw
	return o, nil
}

// listen routes a call's notifications to its options until done.
func (a *Agent) listen(o *callOptions) (done func(), err error) {
	id := o.request.CallID
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.calls[id]; ok {
		return nil, protocol.Errorf(protocol.CodeDuplicateCall, "the call %q is not over yet", id)
	}
	a.calls[id] = o
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.calls, id)
	}, nil
}

func (a *Agent) notification(m protocol.Message) {
	switch m.Method {
	case protocol.MethodToolOutput:
		var p protocol.ToolOutput
		if json.Unmarshal(m.Params, &p) == nil {
			a.output(protocol.RawOutput{CallID: p.CallID, Stream: p.Stream, Data: p.Bytes(), Omitted: p.Omitted})
		}
	case protocol.MethodToolState:
		var p protocol.ToolState
		if json.Unmarshal(m.Params, &p) != nil {
			return
		}
		if o := a.callFor(p.CallID); o != nil && o.onState != nil {
			o.onState(p)
		}
	}
}

func (a *Agent) output(p protocol.RawOutput) {
	if o := a.callFor(p.CallID); o != nil && o.onOutput != nil {
		o.onOutput(p)
	}
}

func (a *Agent) callFor(id protocol.CallID) *callOptions {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[id]
}
