package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
)

// fakeGate is a gate whose tools do what the tests need.
type fakeGate struct {
	approvals *approval.Controller
	started   chan protocol.CallID // gets the id of each call of "wait" and "ask"
	ended     chan error           // gets the cause when a call of "wait" or "flood" is cancelled

	mu       sync.Mutex
	sessions map[protocol.SessionID]unixsock.Peer
	lists    bool // Sessions lists them
	opened   int
}

func newFakeGate() *fakeGate {
	return &fakeGate{
		approvals: approval.NewController(approval.Options{Timeout: time.Minute}),
		started:   make(chan protocol.CallID, 100),
		ended:     make(chan error, 100),
		sessions:  map[protocol.SessionID]unixsock.Peer{},
	}
}

func (g *fakeGate) OpenSession(peer unixsock.Peer, p protocol.SessionOpen) (protocol.SessionOpened, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened++
	id := protocol.SessionID(fmt.Sprintf("s-%d", g.opened))
	g.sessions[id] = peer
	return protocol.SessionOpened{SessionID: id, Mode: p.Mode}, g.approvals.OpenSession(string(id))
}

func (g *fakeGate) CloseSession(id protocol.SessionID) (protocol.SessionClosed, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.sessions, id)
	g.approvals.CloseSession(string(id))
	return protocol.SessionClosed{Calls: 1}, nil
}

func (g *fakeGate) LeaveSession(id protocol.SessionID) error {
	_, err := g.CloseSession(id)
	return err
}

func (g *fakeGate) Tools(context.Context, protocol.SessionID) (protocol.ToolsList, error) {
	return protocol.ToolsList{Tools: []protocol.Tool{{Name: "echo", InputSchema: json.RawMessage(`{}`)}}}, nil
}

func (g *fakeGate) Decide(_ context.Context, _ unixsock.Peer, p protocol.ToolsDecide, _ func(protocol.Method, any)) (protocol.ToolsDecided, error) {
	if p.Tool != "echo" {
		return protocol.ToolsDecided{}, protocol.Errorf(protocol.CodeApprovalRequired, "a person must approve this: %s", p.Tool)
	}
	return protocol.ToolsDecided{Decision: protocol.Decision{Action: approval.NotNeeded}, PlanDigest: "d"}, nil
}

func (g *fakeGate) Check(context.Context, unixsock.Peer, protocol.ToolsCall) (protocol.CheckResult, error) {
	return protocol.CheckResult{Decision: protocol.CheckAsk, Rule: "r"}, nil
}

func (g *fakeGate) Batch(ctxs []context.Context, peer unixsock.Peer, p protocol.ToolsBatch, notify func(protocol.Method, any)) protocol.BatchResult {
	var b protocol.BatchResult
	for i, req := range p.ToolsCalls("g-1") {
		r, err := g.Call(ctxs[i], peer, req, notify)
		one := protocol.BatchOutcome{CallID: req.CallID}
		if !errors.As(err, &one.Error) {
			one.Result = &r
		}
		b.Results = append(b.Results, one)
	}
	return b
}

func (g *fakeGate) Status() protocol.Status {
	return protocol.Status{Version: "test", ToolsDigest: "d"}
}
func (g *fakeGate) Sessions() (list []protocol.SessionInfo) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, p := range g.sessions {
		if !g.lists {
			break
		}
		list = append(list, protocol.SessionInfo{ID: id, Peer: protocol.Peer{UID: p.UID, GID: p.GID, PID: p.PID}})
	}
	return list
}
func (g *fakeGate) Approvals() *approval.Controller { return g.approvals }
func (g *fakeGate) EndSession(id protocol.SessionID, _ unixsock.Peer) (protocol.SessionClosed, error) {
	return g.CloseSession(id)
}
func (g *fakeGate) CallsUnderWay() []protocol.CallInfo { return nil }
func (g *fakeGate) Kill(string, unixsock.Peer) error   { return nil }
func (g *fakeGate) Audit(protocol.AuditQuery) (protocol.AuditEntries, error) {
	return protocol.AuditEntries{}, nil
}
func (g *fakeGate) RuleService() RuleService { return nil }

func (g *fakeGate) Call(ctx context.Context, peer unixsock.Peer, p protocol.ToolsCall, notify func(protocol.Method, any)) (protocol.CallResult, error) {
	switch p.Tool {
	case "echo":
		notify(protocol.MethodToolOutput, protocol.NewToolOutput(p.CallID, protocol.Stdout, p.Args))
		return protocol.CallResult{Content: []protocol.Content{protocol.NewContent(protocol.Stdout, p.Args)}}, nil
	case "wait":
		g.started <- p.CallID
		<-ctx.Done()
		g.ended <- context.Cause(ctx)
		return protocol.CallResult{}, protocol.Errorf(protocol.CodeCancelled, "cancelled: %v", context.Cause(ctx))
	case "pause": // "wait" that says when it runs
		notify(protocol.MethodToolState, protocol.ToolState{CallID: p.CallID, State: protocol.Running})
		<-ctx.Done()
		return protocol.CallResult{}, protocol.Errorf(protocol.CodeCancelled, "cancelled: %v", context.Cause(ctx))
	case "serve":
		ports := []protocol.ExposedPort{{Port: 8000, Address: "127.0.0.1:3000"}}
		notify(protocol.MethodToolState, protocol.ToolState{CallID: p.CallID, State: protocol.Running, Exposed: ports})
		return protocol.CallResult{Content: []protocol.Content{}, Exposed: ports}, nil
	case "flood":
		chunk := []byte(strings.Repeat("x", 1<<20))
		for ctx.Err() == nil {
			notify(protocol.MethodToolOutput, protocol.NewToolOutput(p.CallID, protocol.Stdout, chunk))
		}
		g.ended <- context.Cause(ctx)
		return protocol.CallResult{}, protocol.Errorf(protocol.CodeCancelled, "cancelled")
	case "ask":
		return g.ask(ctx, p)
	case "big":
		return protocol.CallResult{Content: []protocol.Content{protocol.NewContent("", make([]byte, protocol.MaxMessage))}}, nil
	case "fail":
		return protocol.CallResult{}, errors.New("the secret path /root/.hidden")
	case "panic":
		panic("the secret path /root/.hidden")
	}
	return protocol.CallResult{}, protocol.Errorf(protocol.CodeUnknownTool, "no tool %q", p.Tool)
}

func (g *fakeGate) ask(ctx context.Context, p protocol.ToolsCall) (protocol.CallResult, error) {
	g.started <- p.CallID
	args, err := p.DecodeArgs()
	if err != nil {
		return protocol.CallResult{}, err
	}
	grant, err := g.approvals.Decide(ctx, approval.Call{
		ID: string(p.CallID), SessionID: string(p.SessionID), ToolName: string(p.Tool), Agent: "test", BatchID: p.GroupID,
		Request: &approval.Request{ToolName: string(p.Tool), Description: "ask \x1b[2J", Payload: args},
	})
	if err != nil {
		return protocol.CallResult{}, protocol.Errorf(protocol.CodeDenied, "%v", err)
	}
	return protocol.CallResult{Decision: protocol.Decision{Action: grant.Decision().Action, Approver: grant.Decision().Approver}}, nil
}

// testServer is a server with both sockets. It checks that nothing is left when
// the test ends: goroutines, descriptors, sessions, socket files.
type testServer struct {
	t               testing.TB
	gate            *fakeGate
	agent, operator string
}

func startServer(t testing.TB, cfg Config) *testServer {
	t.Helper()
	before := runtime.NumGoroutine()
	ignore := goleak.IgnoreCurrent()
	descriptors := countDescriptors(t)
	dir, err := os.MkdirTemp("", "sandgate") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	cfg.AllowDescendants = true
	g := newFakeGate()
	s := New(g, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ts := &testServer{t: t, gate: g, agent: filepath.Join(dir, "agent.sock"), operator: filepath.Join(dir, "operator.sock")}
	var wg sync.WaitGroup
	for path, serve := range map[string]func(context.Context, net.Listener) error{ts.agent: s.ServeAgent, ts.operator: s.ServeOperator} {
		l, err := unixsock.Listen(path, unixsock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := serve(ctx, l); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("left in the directory: %v", left)
		}
		os.RemoveAll(dir)
		if len(g.sessions) > 0 {
			t.Errorf("sessions left open: %v", g.sessions)
		}
		if err := goleak.Find(ignore); err != nil {
			t.Errorf("%d goroutines before: %v", before, err)
		}
		if now := countDescriptors(t); now > descriptors {
			t.Errorf("%d descriptors before, %d after", descriptors, now)
		}
	})
	return ts
}

func countDescriptors(t testing.TB) int {
	t.Helper()
	r, w, err := os.Pipe() // the runtime keeps two descriptors from the first one on that it waits for
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// A wire is a client that sends what it is told.
type wire struct {
	t     testing.TB
	conn  net.Conn
	read  *protocol.Reader
	notes []protocol.Message // notifications that came while waiting for a reply
}

func (ts *testServer) dial(path string) *wire {
	ts.t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		ts.t.Fatal(err)
	}
	ts.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(30 * time.Second)) // a test that hangs should say where
	return &wire{t: ts.t, conn: c, read: protocol.NewReader(c)}
}

// dialAgent connects, initializes and opens a session.
func (ts *testServer) dialAgent() (*wire, protocol.SessionID) {
	ts.t.Helper()
	w := ts.dial(ts.agent)
	w.must(protocol.MethodInitialize, `{"protocol_version":1,"client":{"name":"test"}}`, &protocol.Initialized{})
	var s protocol.SessionOpened
	w.must(protocol.MethodSessionOpen, `{"agent":"test"}`, &s)
	return w, s.SessionID
}

func (w *wire) send(line string) {
	w.t.Helper()
	if _, err := w.conn.Write([]byte(line + "\n")); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) next() protocol.Message {
	w.t.Helper()
	line, err := w.read.ReadMessage()
	if err != nil {
		w.t.Fatalf("read: %v", err)
	}
	m, err := protocol.ParseFromServer(line)
	if err != nil {
		w.t.Fatalf("%.200s: %v", line, err)
	}
	return m
}

// reply returns the next response, and keeps notifications.
func (w *wire) reply() protocol.Message {
	w.t.Helper()
	for {
		m := w.next()
		if m.Method == "" {
			return m
		}
		w.notes = append(w.notes, m)
	}
}

func request(id, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
}

func (w *wire) ask(method protocol.Method, params string) protocol.Message {
	w.t.Helper()
	w.send(request(`"ask"`, string(method), params))
	return w.reply()
}

func (w *wire) must(method protocol.Method, params string, result any) {
	w.t.Helper()
	m := w.ask(method, params)
	if m.Error != nil {
		w.t.Fatalf("%s: %v", method, m.Error)
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) fails(code protocol.Code, method protocol.Method, params string) {
	w.t.Helper()
	if m := w.ask(method, params); m.Error == nil || m.Error.Code != code {
		w.t.Errorf("%s %s: got %v, want %s", method, params, m.Error, code)
	}
}

func callParams(s protocol.SessionID, call, tool string) string {
	return fmt.Sprintf(`{"session_id":%q,"call_id":%q,"tool":%q,"args":{"n":1}}`, s, call, tool)
}

// works makes a call that must succeed.
func (w *wire) works(s protocol.SessionID) {
	w.t.Helper()
	var r protocol.CallResult
	w.must(protocol.MethodToolsCall, callParams(s, "works", "echo"), &r)
	if len(r.Content) != 1 || r.Content[0].Text != `{"n":1}` {
		w.t.Fatalf("got %+v", r)
	}
}

func TestAgentConversation(t *testing.T) {
	ts := startServer(t, Config{Version: "v9"})
	w := ts.dial(ts.agent)
	var hello protocol.Initialized
	w.must(protocol.MethodInitialize, `{"protocol_version":1,"client":{"name":"test"}}`, &hello)
	if hello.Server.Version != "v9" || hello.ToolsDigest != "d" || hello.Limits.MessageBytes != protocol.MaxMessage {
		t.Errorf("got %+v", hello)
	}
	var s protocol.SessionOpened
	w.must(protocol.MethodSessionOpen, `{"agent":"test","mode":"strict","metadata":[1]}`, &s)
	if s.Mode != approval.Strict {
		t.Errorf("got %+v", s)
	}
	var list protocol.ToolsList
	w.must(protocol.MethodToolsList, fmt.Sprintf(`{"session_id":%q}`, s.SessionID), &list)
	if len(list.Tools) != 1 || list.Tools[0].Name != "echo" {
		t.Errorf("got %+v", list)
	}
	var check protocol.CheckResult
	w.must(protocol.MethodToolsCheck, callParams(s.SessionID, "c", "echo"), &check)
	if check.Decision != protocol.CheckAsk {
		t.Errorf("got %+v", check)
	}
	w.works(s.SessionID)
	if len(w.notes) != 1 || w.notes[0].Method != protocol.MethodToolOutput {
		t.Errorf("notifications: %+v", w.notes)
	}
	var counts protocol.SessionClosed
	w.must(protocol.MethodSessionClose, fmt.Sprintf(`{"session_id":%q}`, s.SessionID), &counts)
	if counts.Calls != 1 {
		t.Errorf("got %+v", counts)
	}
	w.fails(protocol.CodeUnknownSession, protocol.MethodToolsCall, callParams(s.SessionID, "c", "echo"))
}

func TestOrderOfMessages(t *testing.T) {
	ts := startServer(t, Config{})
	w := ts.dial(ts.agent)
	w.fails(protocol.CodeNotInitialized, protocol.MethodSessionOpen, `{"agent":"a"}`)
	w.fails(protocol.CodeNotInitialized, protocol.MethodToolsCall, callParams("s-1", "c", "echo"))
	w.fails(protocol.CodeUnsupportedVersion, protocol.MethodInitialize, `{"protocol_version":2,"client":{"name":"test"}}`)
	w.fails(protocol.CodeInvalidParams, protocol.MethodInitialize, `{"protocol_version":1,"client":{"name":"test"},"x":1}`)
	w.fails(protocol.CodeNotInitialized, protocol.MethodSessionOpen, `{"agent":"a"}`)
	w.must(protocol.MethodInitialize, `{"protocol_version":1,"client":{"name":"test"}}`, &protocol.Initialized{})
	w.fails(protocol.CodeAlreadyInitialized, protocol.MethodInitialize, `{"protocol_version":1,"client":{"name":"test"}}`)
	w.must(protocol.MethodSessionOpen, `{"agent":"a"}`, &protocol.SessionOpened{})
	w.works("s-1")
}

// Every method of the other socket is unknown here, as is one that never was.
func TestTablesAreSeparate(t *testing.T) {
	ts := startServer(t, Config{})
	agent, session := ts.dialAgent()
	operator := ts.dial(ts.operator)
	for name := range operatorMethods {
		if name != protocol.MethodInitialize {
			agent.fails(protocol.CodeUnknownMethod, name, `{}`)
		}
	}
	for name := range agentMethods {
		if name != protocol.MethodInitialize {
			operator.fails(protocol.CodeUnknownMethod, name, `{}`)
		}
	}
	agent.fails(protocol.CodeUnknownMethod, "no.such", `{}`)
	agent.works(session)
	var st protocol.Status
	operator.must(protocol.MethodStatus, `{}`, &st)
	if st.Version != "test" || st.ProtocolVersion != protocol.Version {
		t.Errorf("got %+v", st)
	}
	var list protocol.SessionsList
	operator.must(protocol.MethodSessionsList, `{}`, &list)
	if list.Sessions == nil {
		t.Error("no sessions must be [], not null")
	}
}

func TestSessionsBelongToTheirConnection(t *testing.T) {
	ts := startServer(t, Config{})
	owner, session := ts.dialAgent()
	thief, _ := ts.dialAgent()
	thief.fails(protocol.CodeUnknownSession, protocol.MethodToolsCall, callParams(session, "c", "echo"))
	thief.fails(protocol.CodeUnknownSession, protocol.MethodToolsCheck, callParams(session, "c", "echo"))
	thief.fails(protocol.CodeUnknownSession, protocol.MethodToolsList, fmt.Sprintf(`{"session_id":%q}`, session))
	thief.fails(protocol.CodeUnknownSession, protocol.MethodSessionClose, fmt.Sprintf(`{"session_id":%q}`, session))

	owner.send(request("1", "tools.call", callParams(session, "mine", "wait")))
	<-ts.gate.started
	thief.fails(protocol.CodeUnknownCall, protocol.MethodToolsCancel, `{"call_id":"mine"}`)
	owner.must(protocol.MethodToolsCancel, `{"call_id":"mine"}`, &protocol.Empty{})
	if cause := <-ts.gate.ended; !errors.Is(cause, ErrCancelled) {
		t.Errorf("cause %v", cause)
	}
	if m := owner.reply(); m.ID != protocol.NumberID(1) || m.Error == nil || m.Error.Code != protocol.CodeCancelled {
		t.Errorf("got %+v", m)
	}
	owner.fails(protocol.CodeUnknownCall, protocol.MethodToolsCancel, `{"call_id":"mine"}`)
	owner.works(session)
}

func TestDuplicates(t *testing.T) {
	ts := startServer(t, Config{})
	w, session := ts.dialAgent()
	w.send(request("7", "tools.call", callParams(session, "a", "wait")))
	<-ts.gate.started
	w.send(request("7", "tools.call", callParams(session, "b", "echo")))
	if m := w.reply(); m.Error == nil || m.Error.Code != protocol.CodeDuplicateRequest || m.ID != protocol.NumberID(7) {
		t.Errorf("got %+v", m)
	}
	w.send(request(`"7"`, "tools.call", callParams(session, "b", "echo"))) // a string is another id
	if m := w.reply(); m.Error != nil || m.ID != protocol.StringID("7") {
		t.Errorf("got %+v", m)
	}
	w.fails(protocol.CodeDuplicateCall, protocol.MethodToolsCall, callParams(session, "a", "echo"))
	w.must(protocol.MethodToolsCancel, `{"call_id":"a"}`, &protocol.Empty{})
	w.reply()
	var r protocol.CallResult
	w.must(protocol.MethodToolsCall, callParams(session, "a", "echo"), &r) // over, so the id is free again
}

func TestClosingASessionCancelsItsCalls(t *testing.T) {
	ts := startServer(t, Config{})
	w, session := ts.dialAgent()
	w.send(request("1", "tools.call", callParams(session, "a", "wait")))
	<-ts.gate.started
	w.send(request("2", "session.close", fmt.Sprintf(`{"session_id":%q}`, session)))
	if cause := <-ts.gate.ended; !errors.Is(cause, ErrSessionEnding) {
		t.Errorf("cause %v", cause)
	}
	got := map[protocol.RequestID]bool{w.reply().ID: true, w.reply().ID: true}
	if !got[protocol.NumberID(1)] || !got[protocol.NumberID(2)] {
		t.Errorf("replies %v", got)
	}
}

func TestDisconnectCancelsCallsAndClosesSessions(t *testing.T) {
	ts := startServer(t, Config{})
	w, session := ts.dialAgent()
	w.send(request("1", "tools.call", callParams(session, "a", "wait")))
	w.send(request("2", "tools.call", callParams(session, "b", "wait")))
	<-ts.gate.started
	<-ts.gate.started
	w.conn.Close()
	for range 2 {
		if cause := <-ts.gate.ended; !errors.Is(cause, ErrDisconnected) {
			t.Errorf("cause %v", cause)
		}
	}
	// startServer's cleanup finds a session that was left open.
}

func TestShutdownAnswersWhatRuns(t *testing.T) {
	dir := t.TempDir()
	g := newFakeGate()
	l, err := unixsock.Listen(filepath.Join(dir, "s"), unixsock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan error)
	go func() { served <- New(g, Config{}).ServeAgent(ctx, l) }()
	w, session := (&testServer{t: t, agent: filepath.Join(dir, "s")}).dialAgent()
	w.send(request("1", "tools.call", callParams(session, "a", "wait")))
	<-g.started
	cancel()
	if m := w.reply(); m.Error == nil || m.Error.Code != protocol.CodeCancelled {
		t.Errorf("got %+v", m)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("unix", filepath.Join(dir, "s")); err == nil {
		t.Error("still listening")
	}
}

// A client that reads nothing cannot hold up the end of the server.
func TestShutdownDoesNotWaitForSlowReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	g := newFakeGate()
	l, err := unixsock.Listen(path, unixsock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan error)
	s := New(g, Config{StallTimeout: time.Hour, QueueBytes: 4 << 20})
	go func() { served <- s.ServeAgent(ctx, l) }()
	w, session := (&testServer{t: t, agent: path}).dialAgent()
	w.send(request("1", "tools.call", callParams(session, "a", "flood")))
	w.next() // the flood has begun, and is not read any further
	cancel()
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the server still waits for a client that does not read")
	}
}

func TestFailuresAreNotTold(t *testing.T) {
	ts := startServer(t, Config{})
	w, session := ts.dialAgent()
	for _, tool := range []string{"fail", "panic"} {
		m := w.ask(protocol.MethodToolsCall, callParams(session, "c", tool))
		if m.Error == nil || m.Error.Code != protocol.CodeInternal || strings.Contains(m.Error.Message, "secret") {
			t.Errorf("%s: got %+v", tool, m.Error)
		}
	}
	w.fails(protocol.CodeUnknownTool, protocol.MethodToolsCall, callParams(session, "c", "nothing"))
	w.works(session)
}

func TestResultThatDoesNotFit(t *testing.T) {
	ts := startServer(t, Config{})
	w, session := ts.dialAgent()
	var r protocol.CallResult
	w.must(protocol.MethodToolsCall, callParams(session, "c", "big"), &r)
	if !r.Truncated || len(r.Content) != 0 || len(r.Warnings) != 1 {
		t.Errorf("got %d pieces, truncated %v, %q", len(r.Content), r.Truncated, r.Warnings)
	}
}

func TestOversizedMessage(t *testing.T) {
	ts := startServer(t, Config{})
	w, session := ts.dialAgent()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		w.send(strings.Repeat("a", protocol.MaxMessage+1))
	}()
	if m := w.reply(); m.Error == nil || m.Error.Code != protocol.CodeMessageTooLarge || !m.ID.IsZero() {
		t.Errorf("got %+v", m)
	}
	<-sent
	w.works(session)
}

func TestTooMuchAtOnce(t *testing.T) {
	ts := startServer(t, Config{MaxCalls: 2, MaxSessions: 1, MaxConnections: 2})
	w, session := ts.dialAgent()
	w.fails(protocol.CodeTooManyRequests, protocol.MethodSessionOpen, `{"agent":"b"}`)
	w.send(request("1", "tools.call", callParams(session, "a", "wait")))
	w.send(request("2", "tools.call", callParams(session, "b", "wait")))
	<-ts.gate.started
	<-ts.gate.started
	w.fails(protocol.CodeTooManyRequests, protocol.MethodToolsCall, callParams(session, "c", "echo"))

	second, own := ts.dialAgent()
	third := ts.dial(ts.agent)
	if m := third.next(); m.Error == nil || m.Error.Code != protocol.CodeTooManyRequests {
		t.Errorf("got %+v", m)
	}
	second.works(own)
}

// A client that reads nothing is dropped; until then it holds up only itself.
func TestSlowReader(t *testing.T) {
	ts := startServer(t, Config{StallTimeout: 300 * time.Millisecond, QueueBytes: 4 << 20})
	slow, session := ts.dialAgent()
	slow.send(request("1", "tools.call", callParams(session, "a", "flood")))
	other, own := ts.dialAgent()
	for range 20 {
		other.works(own)
	}
	if cause := <-ts.gate.ended; !errors.Is(cause, ErrDisconnected) {
		t.Errorf("cause %v", cause)
	}
	other.works(own)
}

func TestSilentPeerIsDropped(t *testing.T) {
	ts := startServer(t, Config{StallTimeout: 50 * time.Millisecond})
	w := ts.dial(ts.agent)
	if line, err := w.read.ReadMessage(); err == nil {
		t.Errorf("got %s", line)
	}
}

func TestDescendantsAreTurnedAway(t *testing.T) {
	s := New(newFakeGate(), Config{})
	if err := s.admit(unixsock.Peer{PID: os.Getppid()}); err != nil {
		t.Errorf("the parent: %v", err)
	}
	if err := s.admit(unixsock.Peer{PID: 1<<22 + 1}); err == nil {
		t.Error("a process that does not exist")
	}
}

func TestOperatorAnswers(t *testing.T) {
	ts := startServer(t, Config{})
	agent, session := ts.dialAgent()
	op := ts.dial(ts.operator)
	op.must(protocol.MethodApprovalsSubscribe, `{}`, &protocol.ApprovalsList{})
	op.fails(protocol.CodeInvalidRequest, protocol.MethodApprovalsSubscribe, `{}`)
	var st protocol.Status
	op.must(protocol.MethodStatus, `{}`, &st)
	if st.Approvers != 1 {
		t.Errorf("%d approvers", st.Approvers)
	}

	agent.send(request("1", "tools.call", callParams(session, "a", "ask")))
	var e protocol.ApprovalEvent
	m := op.next()
	if err := json.Unmarshal(m.Params, &e); err != nil || m.Method != protocol.MethodApprovalRequested {
		t.Fatalf("got %+v, %v", m, err)
	}
	if e.Approval.CallID != "a" || e.Approval.SessionID != session || e.Approval.Tool != "ask" {
		t.Errorf("got %+v", e.Approval)
	}
	var list protocol.ApprovalsList
	op.must(protocol.MethodApprovalsList, `{}`, &list)
	if len(list.Approvals) != 1 || list.Approvals[0].ID != e.Approval.ID || list.Approvals[0].Presentation != nil {
		t.Errorf("got %+v", list)
	}
	id := fmt.Sprintf(`{"id":%q}`, e.Approval.ID)
	var shown protocol.Approval
	op.must(protocol.MethodApprovalsShow, id, &shown)
	if shown.Presentation == nil {
		t.Errorf("got %+v", shown)
	}
	decide := fmt.Sprintf(`{"id":%q,"decision":"allow","scope":"session"}`, e.Approval.ID)
	var decided protocol.ApprovalsDecided
	op.must(protocol.MethodApprovalsDecide, decide, &decided)
	want := unixsock.Peer{UID: os.Getuid(), GID: os.Getgid(), PID: os.Getpid()}.String()
	if len(decided.Results) != 1 || decided.Results[0].Decision.Approver != want {
		t.Errorf("got %+v, want approver %s", decided, want)
	}
	var r protocol.CallResult
	if m := agent.reply(); m.Error != nil || json.Unmarshal(m.Result, &r) != nil || r.Decision.Approver != want {
		t.Errorf("got %+v", m)
	}
	late := op.ask(protocol.MethodApprovalsDecide, decide)
	if late.Error == nil || late.Error.Code != protocol.CodeAlreadyDecided || !strings.Contains(late.Error.Message, want) {
		t.Errorf("got %+v", late.Error)
	}
	op.fails(protocol.CodeUnknownApproval, protocol.MethodApprovalsDecide, `{"id":"none","decision":"allow"}`)
	op.fails(protocol.CodeUnknownApproval, protocol.MethodApprovalsDecide, `{"group":"none","decision":"deny"}`)
	op.fails(protocol.CodeUnknownApproval, protocol.MethodApprovalsShow, `{"id":"none"}`)
	op.fails(protocol.CodeInvalidParams, protocol.MethodApprovalsDecide, `{"id":"none","decision":"allow","approver":"root"}`)
	op.must(protocol.MethodApprovalsDecide, `{"ids":["none"],"decision":"deny"}`, &decided)
	if e := decided.Results[0].Error; e == nil || e.Code != protocol.CodeUnknownApproval {
		t.Errorf("got %+v", decided)
	}
}

// waitingIDs are all that wait, for approvals.decide.
func (w *wire) waitingIDs() string {
	var list protocol.ApprovalsList
	w.must(protocol.MethodApprovalsList, `{}`, &list)
	var ids []protocol.ApprovalID
	for _, a := range list.Approvals {
		ids = append(ids, a.ID)
	}
	raw, err := json.Marshal(ids)
	if err != nil {
		w.t.Fatal(err)
	}
	return `"ids":` + string(raw)
}

func TestGroupIsAnsweredAtOnce(t *testing.T) {
	for _, verdict := range []protocol.Verdict{protocol.Allow, protocol.Deny, protocol.Dismiss} {
		t.Run(string(verdict), func(t *testing.T) {
			ts := startServer(t, Config{})
			agent, session := ts.dialAgent()
			op := ts.dial(ts.operator)
			op.must(protocol.MethodApprovalsSubscribe, `{}`, &protocol.ApprovalsList{})
			for i := range 3 {
				agent.send(request(fmt.Sprint(i), "tools.call",
					fmt.Sprintf(`{"session_id":%q,"call_id":"c%d","tool":"ask","args":{"n":%d},"group_id":"turn"}`, session, i, i)))
				op.next()
			}
			target := `"group":"turn"`
			if verdict == protocol.Allow { // which names the requests that were looked at
				op.fails(protocol.CodeInvalidParams, protocol.MethodApprovalsDecide, `{"group":"turn","decision":"allow"}`)
				target = op.waitingIDs()
			}
			var decided protocol.ApprovalsDecided
			op.must(protocol.MethodApprovalsDecide, fmt.Sprintf(`{%s,"decision":%q}`, target, verdict), &decided)
			if len(decided.Results) != 3 {
				t.Fatalf("got %+v", decided)
			}
			for _, r := range decided.Results {
				if r.Decision == nil || (r.Decision.Action == approval.Approved) != (verdict == protocol.Allow) ||
					(r.Decision.Action == approval.Dismissed) != (verdict == protocol.Dismiss) {
					t.Errorf("%s: %+v, %v", r.ID, r.Decision, r.Error)
				}
			}
			for range 3 {
				if m := agent.reply(); (m.Error == nil) != (verdict == protocol.Allow) {
					t.Error(m.Error)
				}
			}
		})
	}
}

// TestGroupIsAllowedForTheSession: one answer to a group, with a scope, is remembered for
// each call of it, and for no other call.
func TestGroupIsAllowedForTheSession(t *testing.T) {
	ts := startServer(t, Config{})
	agent, session := ts.dialAgent()
	op := ts.dial(ts.operator)
	op.must(protocol.MethodApprovalsSubscribe, `{}`, &protocol.ApprovalsList{})
	call := func(id string, n int) {
		agent.send(request(strconv.Quote(id), "tools.call", fmt.Sprintf(`{"session_id":%q,"call_id":%q,"tool":"ask","args":{"n":%d},"group_id":"turn"}`, session, id, n)))
	}
	for i := range 2 {
		call(fmt.Sprint("first-", i), i)
		op.next()
	}
	var decided protocol.ApprovalsDecided
	op.must(protocol.MethodApprovalsDecide, fmt.Sprintf(`{%s,"decision":"allow","scope":"session"}`, op.waitingIDs()), &decided)
	for range 2 {
		if m := agent.reply(); m.Error != nil {
			t.Error(m.Error)
		}
	}
	for i := range 2 {
		call(fmt.Sprint("again-", i), i)
		if m := agent.reply(); m.Error != nil {
			t.Errorf("call %d is not remembered: %v", i, m.Error)
		}
	}
	call("other", 7)
	var list protocol.ApprovalsList
	for deadline := time.Now().Add(30 * time.Second); len(list.Approvals) != 1; {
		op.must(protocol.MethodApprovalsList, `{}`, &list)
		if time.Now().After(deadline) {
			t.Fatal("a call that nobody has answered is not asked about")
		}
	}
	op.must(protocol.MethodApprovalsDecide, fmt.Sprintf(`{"id":%q,"decision":"deny"}`, list.Approvals[0].ID), &decided)
	if m := agent.reply(); m.Error == nil {
		t.Error("it ran")
	}
}

// An approver that leaves is no approver any more; what it was asked waits for
// the next one.
func TestOperatorComesAndGoes(t *testing.T) {
	ts := startServer(t, Config{})
	agent, session := ts.dialAgent()
	first := ts.dial(ts.operator)
	first.must(protocol.MethodApprovalsSubscribe, `{}`, &protocol.ApprovalsList{})
	agent.send(request("1", "tools.call", callParams(session, "a", "ask")))
	first.next()
	first.conn.Close()

	second := ts.dial(ts.operator)
	var list protocol.ApprovalsList
	second.must(protocol.MethodApprovalsSubscribe, `{}`, &list)
	if len(list.Approvals) != 1 {
		t.Fatalf("got %+v", list)
	}
	m := second.ask(protocol.MethodApprovalsDecide, fmt.Sprintf(`{"id":%q,"decision":"deny"}`, list.Approvals[0].ID))
	if m.Error != nil {
		t.Fatal(m.Error)
	}
	if m := agent.reply(); m.Error == nil || m.Error.Code != protocol.CodeDenied {
		t.Errorf("got %+v", m)
	}
}

// seeds are well-formed requests; noise makes others of them.
func seeds(s protocol.SessionID) []string {
	return []string{
		request("1", "initialize", `{"protocol_version":1,"client":{"name":"x"}}`),
		request("2", "session.open", `{"agent":"x"}`),
		request("3", "session.close", `{"session_id":"s-0"}`),
		request("4", "tools.list", fmt.Sprintf(`{"session_id":%q}`, s)),
		request("5", "tools.call", callParams(s, "c", "echo")),
		request("6", "tools.check", callParams(s, "d", "echo")),
		request("7", "tools.cancel", `{"call_id":"c"}`),
		request("8", "approvals.list", `{}`),
		request("9", "approvals.decide", `{"id":"x","decision":"deny"}`),
		request("10", "status", `{}`),
		request("11", "sessions.list", `{}`),
		request("12", "approvals.show", `{"id":"x"}`),
	}
}

// noise is a random line: one of the seeds changed in a few places, or bytes.
func noise(r *rand.Rand, seeds []string) []byte {
	if r.IntN(10) == 0 {
		b := make([]byte, r.IntN(200))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	b := []byte(seeds[r.IntN(len(seeds))])
	for range r.IntN(4) {
		at := r.IntN(len(b))
		switch r.IntN(4) {
		case 0:
			b[at] = byte(r.Uint32())
		case 1:
			b = append(b[:at], b[min(len(b), at+1+r.IntN(8)):]...)
		case 2:
			other := seeds[r.IntN(len(seeds))]
			b = append(b[:at:at], other[r.IntN(len(other)):]...)
		case 3:
			const tokens = `{}[]":,\0123456789truefalsnu`
			b = append(b[:at:at], append([]byte{tokens[r.IntN(len(tokens))]}, b[at:]...)...)
		}
		if len(b) == 0 {
			break
		}
	}
	return b
}

func TestNoiseDoesNotTakeTheServerDown(t *testing.T) {
	const messages, connections = 10_000, 10
	ts := startServer(t, Config{})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, path := range []string{ts.agent, ts.operator} {
		var wg sync.WaitGroup
		for i := range connections {
			wg.Go(func() { sendNoise(ts, path, rand.New(rand.NewPCG(seed, uint64(i))), messages/connections/2) })
		}
		wg.Wait()
	}
	w, session := ts.dialAgent()
	w.works(session)
	var st protocol.Status
	ts.dial(ts.operator).must(protocol.MethodStatus, `{}`, &st)
}

// sendNoise sends n lines and reads the answers, each of which must be one.
func sendNoise(ts *testServer, path string, r *rand.Rand, n int) {
	w := ts.dial(path)
	session := protocol.SessionID("s-0")
	if path == ts.agent {
		w, session = ts.dialAgent()
	}
	lines := seeds(session)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			line, err := w.read.ReadMessage()
			if err != nil {
				return
			}
			m, err := protocol.ParseFromServer(line)
			if err != nil {
				ts.t.Errorf("the server said %.200q: %v", line, err)
			}
			if m.Error != nil && m.Error.Code == protocol.CodeInternal {
				ts.t.Errorf("an internal error: %.200q", line)
			}
		}
	}()
	for range n {
		if _, err := w.conn.Write(append(noise(r, lines), '\n')); err != nil {
			ts.t.Error(err)
			break
		}
	}
	w.conn.(*net.UnixConn).CloseWrite()
	<-done
}

// FuzzAgentConnection: whatever bytes a peer sends, every line that it gets back
// is a message of the protocol, and the server answers the next peer.
func FuzzAgentConnection(f *testing.F) {
	ts := startServer(f, Config{})
	for _, s := range seeds("s-1") {
		f.Add([]byte(s))
	}
	f.Add([]byte(strings.Join(seeds("s-1"), "\n")))
	f.Add([]byte("\n\n{}\n[]\nnull\n\xff\n{\"jsonrpc\":\"2.0\""))
	f.Fuzz(func(t *testing.T, data []byte) {
		here := &testServer{t: t, agent: ts.agent}
		w, _ := here.dialAgent()
		go func() {
			w.conn.Write(append(data, '\n'))
			w.conn.(*net.UnixConn).CloseWrite()
		}()
		for {
			line, err := w.read.ReadMessage()
			if err != nil {
				break
			}
			if _, err := protocol.ParseFromServer(line); err != nil {
				t.Fatalf("the server said %.200q: %v", line, err)
			}
		}
		w.conn.Close()
		other, session := here.dialAgent()
		other.works(session)
		other.conn.Close()
	})
}
