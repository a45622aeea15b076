package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fake is a supervisor that answers as a test says. It handles one connection.
type fake struct {
	t    *testing.T
	path string
	conn net.Conn
	// asksRaw is whether the client has asked for raw output.
	asksRaw bool
}

// serve starts a fake. answer gets each request but initialize, and writes what
// the test wants by way of the fake.
func serve(t *testing.T, answer func(*fake, protocol.Message), hello ...func(*fake, protocol.Message)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "client")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{t: t, path: filepath.Join(dir, "s")}
	l, err := net.Listen("unix", f.path)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if f.conn, err = l.Accept(); err != nil {
			return
		}
		defer f.conn.Close()
		f.loop(answer, append(hello, greet)[0])
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		os.RemoveAll(dir)
	})
	return f.path
}

// greet answers initialize.
func greet(f *fake, m protocol.Message) {
	f.asksRaw = params[protocol.InitializeParams](f, m).RawOutput
	f.result(m.ID, protocol.Initialized{ProtocolVersion: protocol.Version, Server: protocol.Program{Name: "fake"}})
}

func (f *fake) loop(answer, hello func(*fake, protocol.Message)) {
	r := protocol.NewReader(f.conn)
	for {
		line, err := r.ReadMessage()
		if err != nil {
			return
		}
		m, perr := protocol.ParseRequest(line)
		if perr != nil {
			f.t.Errorf("the client sent %s: %v", line, perr)
			return
		}
		if m.Method == protocol.MethodInitialize {
			hello(f, m)
			continue
		}
		answer(f, m)
	}
}

func (f *fake) write(line []byte, err error) {
	if err == nil {
		err = protocol.WriteMessage(f.conn, line)
	}
	if err != nil && !errors.Is(err, net.ErrClosed) && f.t != nil {
		f.t.Logf("fake: %v", err) // the client may be gone already
	}
}

func (f *fake) result(id protocol.RequestID, v any)           { f.write(protocol.EncodeResult(id, v)) }
func (f *fake) fail(id protocol.RequestID, e *protocol.Error) { f.write(protocol.EncodeError(id, e)) }
func (f *fake) notify(m protocol.Method, v any)               { f.write(protocol.EncodeNotification(m, v)) }

func params[P any](f *fake, m protocol.Message) P {
	var p P
	if err := protocol.UnmarshalParams(m, &p); err != nil {
		f.t.Errorf("%s: %v", m.Method, err)
	}
	return p
}

// session answers session.open, and leaves the rest to answer.
func session(answer func(*fake, protocol.Message)) func(*fake, protocol.Message) {
	return func(f *fake, m protocol.Message) {
		if m.Method == protocol.MethodSessionOpen {
			p := params[protocol.SessionOpen](f, m)
			f.result(m.ID, protocol.SessionOpened{SessionID: "s-" + protocol.SessionID(p.Agent), Mode: p.Mode})
			return
		}
		answer(f, m)
	}
}

func open(t *testing.T, answer func(*fake, protocol.Message)) *Session {
	t.Helper()
	ctx := t.Context()
	a, err := DialAgent(ctx, serve(t, session(answer)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	if a.Server().Server.Name != "fake" {
		t.Errorf("server %+v", a.Server())
	}
	s, err := a.OpenSession(ctx, protocol.SessionOpen{Agent: "me", Mode: approval.Strict})
	if err != nil {
		t.Fatal(err)
	}
	if s.SessionID != "s-me" || s.Mode != approval.Strict {
		t.Errorf("session %+v", s)
	}
	return s
}

func TestCallStreamsThenReturns(t *testing.T) {
	s := open(t, func(f *fake, m protocol.Message) {
		p := params[protocol.ToolsCall](f, m)
		if p.Tool != "shell" || p.GroupID != "g" || p.TimeoutMS != 2 || string(p.Args) != `{"command":"a; b"}` || p.SessionID != "s-me" {
			f.t.Errorf("got %+v", p)
		}
		f.notify(protocol.MethodToolState, protocol.ToolState{CallID: p.CallID, State: protocol.Running})
		f.notify(protocol.MethodToolOutput, protocol.NewToolOutput("another", protocol.Stdout, []byte("not mine")))
		f.notify("tool.novelty", map[string]int{"x": 1})
		for _, piece := range []string{"a", "\xff", "b"} {
			f.notify(protocol.MethodToolOutput, protocol.NewToolOutput(p.CallID, protocol.Stdout, []byte(piece)))
		}
		f.result(m.ID, protocol.CallResult{ExitCode: 3})
	})
	var out strings.Builder
	var states []protocol.State
	r, err := s.Call(t.Context(), "shell", map[string]string{"command": "a; b"},
		OnOutput(func(o protocol.ToolOutput) { out.Write(o.Bytes()) }),
		OnState(func(st protocol.ToolState) { states = append(states, st.State) }),
		WithGroup("g"), WithTimeout(1500*time.Microsecond))
	if err != nil || r.ExitCode != 3 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if out.String() != "a\xffb" || len(states) != 1 {
		t.Errorf("output %q, states %v", &out, states)
	}
}

// TestRawOutput: the client asks for raw output. A piece of it comes as it is, however it is cut, to
// its own call, and what follows it is a message again.
func TestRawOutput(t *testing.T) {
	data := strings.Repeat("\n{}\xff", 100_000)
	s := open(t, func(f *fake, m protocol.Message) {
		if !f.asksRaw {
			f.t.Error("raw output is not asked for")
		}
		p := params[protocol.ToolsCall](f, m)
		for _, id := range []protocol.CallID{"another", p.CallID} {
			line, _ := protocol.AppendRawHeader(nil, protocol.RawOutput{CallID: id, Stream: protocol.Stderr, Data: []byte(data)})
			for part := range slices.Chunk(append(line, data...), 90_001) {
				if _, err := f.conn.Write(part); err != nil {
					f.t.Error(err)
				}
			}
		}
		f.notify(protocol.MethodToolOutput, protocol.ToolOutput{CallID: p.CallID, Stream: protocol.Stderr, Omitted: 5})
		f.notify(protocol.MethodToolOutput, protocol.NewToolOutput(p.CallID, protocol.Stderr, []byte("end")))
		f.result(m.ID, protocol.CallResult{ExitCode: 3})
	})
	var raw, copied strings.Builder
	var kept [][]byte
	omitted := int64(0)
	for _, how := range []CallOption{
		OnRawOutput(func(o protocol.RawOutput) {
			omitted += o.Omitted
			raw.WriteString(string(o.Stream[:3]))
			raw.Write(o.Data)
		}),
		OnOutput(func(o protocol.ToolOutput) {
			omitted += o.Omitted
			kept = append(kept, o.Bytes())
		}),
	} {
		if r, err := s.Call(t.Context(), "shell", nil, how); err != nil || r.ExitCode != 3 {
			t.Fatalf("got %+v, %v", r, err)
		}
	}
	for _, b := range kept { // a piece given to OnOutput is the caller's
		copied.Write(b)
	}
	if got := strings.ReplaceAll(raw.String(), "std", ""); got != data+"end" || copied.String() != data+"end" || omitted != 10 {
		t.Errorf("%d and %d bytes of %d, %d omitted", len(got), copied.Len(), len(data), omitted)
	}
}

// TestOlderSupervisor: one that does not know raw output is asked again without it.
func TestOlderSupervisor(t *testing.T) {
	var asked []bool
	path := serve(t, func(f *fake, m protocol.Message) {}, func(f *fake, m protocol.Message) {
		p := params[protocol.InitializeParams](f, m)
		if asked = append(asked, p.RawOutput); p.RawOutput {
			f.fail(m.ID, &protocol.Error{Code: protocol.CodeInvalidParams, Message: "params.raw_output: unknown member", Field: "params.raw_output"})
			return
		}
		f.result(m.ID, protocol.Initialized{ProtocolVersion: protocol.Version})
	})
	a, err := DialAgent(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if !slices.Equal(asked, []bool{true, false}) {
		t.Errorf("asked for raw output: %v", asked)
	}
}

func TestRefusalIsAnError(t *testing.T) {
	s := open(t, func(f *fake, m protocol.Message) {
		f.fail(m.ID, protocol.Errorf(protocol.CodeDenied, "no").WithHint("ask nicely"))
	})
	_, err := s.Call(t.Context(), "shell", nil)
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != protocol.CodeDenied || e.Hint() != "ask nicely" {
		t.Errorf("got %v", err)
	}
}

// TestDeferred: a call that somebody has to approve comes back at once, with the id under
// which it is made again; that one runs.
func TestDeferred(t *testing.T) {
	s := open(t, session(func(f *fake, m protocol.Message) {
		p := params[protocol.ToolsCall](f, m)
		switch {
		case !p.Defer:
			f.fail(m.ID, protocol.Errorf(protocol.CodeInvalidParams, "not deferred"))
		case p.ApprovalID == "":
			f.fail(m.ID, &protocol.Error{Code: protocol.CodeApprovalRequired, Message: "somebody has to approve this call", ApprovalID: "req-7"})
		default:
			f.result(m.ID, protocol.CallResult{Content: []protocol.Content{{Text: string(p.ApprovalID)}}})
		}
	}))
	args := map[string]string{"command": "rm x"}
	_, err := s.Call(t.Context(), "shell", args, Deferred(""))
	var wire *protocol.Error
	if !errors.As(err, &wire) || wire.Code != protocol.CodeApprovalRequired || wire.ApprovalID != "req-7" {
		t.Fatalf("the first call: %v", err)
	}
	r, err := s.Call(t.Context(), "shell", args, Deferred(wire.ApprovalID))
	if err != nil || len(r.Content) != 1 || r.Content[0].Text != "req-7" {
		t.Errorf("the second call: %+v, %v", r, err)
	}
}

func TestContextCancelsTheCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running protocol.RequestID
	s := open(t, func(f *fake, m protocol.Message) {
		switch m.Method {
		case protocol.MethodToolsCall:
			running = m.ID
			cancel()
		case protocol.MethodToolsCancel:
			if p := params[protocol.ToolsCancel](f, m); p.CallID != "mine" {
				f.t.Errorf("cancel of %q", p.CallID)
			}
			f.result(m.ID, protocol.Empty{})
			f.fail(running, protocol.Errorf(protocol.CodeCancelled, "killed"))
		}
	})
	_, err := s.Call(ctx, "shell", nil, WithCallID("mine"))
	var e *protocol.Error
	if !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Code != protocol.CodeCancelled {
		t.Errorf("got %v", err)
	}
}

// The call may be over at the moment it is cancelled; then it succeeded.
func TestCancelTooLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running protocol.RequestID
	s := open(t, func(f *fake, m protocol.Message) {
		if m.Method == protocol.MethodToolsCall {
			running = m.ID
			cancel()
			return
		}
		f.result(running, protocol.CallResult{ExitCode: 7})
		f.fail(m.ID, protocol.Errorf(protocol.CodeUnknownCall, "over"))
	})
	if r, err := s.Call(ctx, "shell", nil); err != nil || r.ExitCode != 7 {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestLostConnectionEndsEveryRequest(t *testing.T) {
	n := 0
	s := open(t, func(f *fake, m protocol.Message) {
		if n++; n == 2 {
			f.conn.Close()
		}
	})
	errs := make(chan error)
	for range 2 {
		go func() {
			_, err := s.Call(t.Context(), "shell", nil)
			errs <- err
		}()
	}
	for range 2 {
		if err := <-errs; !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := s.Tools(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestCallIDInUse(t *testing.T) {
	started := make(chan struct{})
	var running protocol.RequestID
	s := open(t, func(f *fake, m protocol.Message) {
		if m.Method == protocol.MethodToolsCall {
			running = m.ID
			close(started)
			return
		}
		f.result(m.ID, protocol.Empty{})
		f.fail(running, protocol.Errorf(protocol.CodeCancelled, "killed"))
	})
	first := make(chan error)
	go func() {
		_, err := s.Call(t.Context(), "shell", nil, WithCallID("x"))
		first <- err
	}()
	<-started
	var e *protocol.Error
	if _, err := s.Call(t.Context(), "shell", nil, WithCallID("x")); !errors.As(err, &e) || e.Code != protocol.CodeDuplicateCall {
		t.Errorf("got %v", err)
	}
	if err := s.agent.Cancel(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	if err := <-first; !errors.As(err, &e) || e.Code != protocol.CodeCancelled {
		t.Errorf("got %v", err)
	}
}

func TestSessionRequests(t *testing.T) {
	s := open(t, func(f *fake, m protocol.Message) {
		switch m.Method {
		case protocol.MethodToolsList:
			f.result(m.ID, protocol.ToolsList{Tools: []protocol.Tool{{Name: "shell", InputSchema: json.RawMessage("{}")}}})
		case protocol.MethodToolsDecide:
			if p := params[protocol.ToolsDecide](f, m); p.SessionID == "" || p.CallID == "" || p.Ask != protocol.AgentAsks {
				f.t.Errorf("got %+v", p)
			}
			f.result(m.ID, protocol.ToolsDecided{PlanDigest: "d"})
		case protocol.MethodToolsCheck:
			f.result(m.ID, protocol.CheckResult{Decision: protocol.CheckAsk})
		case protocol.MethodToolsBatch:
			var r protocol.BatchResult
			for _, c := range params[protocol.ToolsBatch](f, m).Calls {
				r.Results = append(r.Results, protocol.BatchOutcome{CallID: c.CallID, Error: protocol.Errorf(protocol.CodeDenied, "no")})
			}
			f.result(m.ID, r)
		case protocol.MethodSessionClose:
			f.result(m.ID, protocol.SessionClosed{Calls: 4})
		}
	})
	if tools, err := s.Tools(t.Context()); err != nil || len(tools) != 1 {
		t.Errorf("got %v, %v", tools, err)
	}
	if r, err := s.Check(t.Context(), "shell", nil); err != nil || r.Decision != protocol.CheckAsk {
		t.Errorf("got %+v, %v", r, err)
	}
	if r, err := s.Decide(t.Context(), protocol.ToolsDecide{Tool: "shell", Ask: protocol.AgentAsks}); err != nil || r.PlanDigest != "d" {
		t.Errorf("got %+v, %v", r, err)
	}
	outcomes, err := s.Batch(t.Context(), "turn", protocol.BatchCall{Tool: "a"}, protocol.BatchCall{Tool: "b", CallID: "mine"})
	if err != nil || len(outcomes) != 2 || outcomes[0].CallID == "" || outcomes[1].CallID != "mine" || outcomes[1].Error.Code != protocol.CodeDenied {
		t.Errorf("got %+v, %v", outcomes, err)
	}
	if counts, err := s.Close(t.Context()); err != nil || counts.Calls != 4 {
		t.Errorf("got %+v, %v", counts, err)
	}
	if _, err := s.Call(t.Context(), "shell", func() {}); err == nil {
		t.Error("a function as arguments")
	}
}

func TestDialErrors(t *testing.T) {
	_, err := DialAgent(t.Context(), filepath.Join(t.TempDir(), "nothing"))
	var d *DialError
	if !errors.As(err, &d) || d.Hint() == "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	// A default directory that somebody else could have made is not used.
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	os.Mkdir(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "sandgate"), 0o777)
	os.Chmod(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "sandgate"), 0o777)
	if _, err := DialApprover(t.Context(), ""); !errors.As(err, &d) || !strings.Contains(err.Error(), "0777") {
		t.Errorf("got %v", err)
	}
}

// An approver can ask for more while events are waiting to be read.
func TestApprover(t *testing.T) {
	const events = 100
	request := func(i int) protocol.ApprovalID { return protocol.ApprovalID(fmt.Sprint("r", i+1)) }
	path := serve(t, func(f *fake, m protocol.Message) {
		switch m.Method {
		case protocol.MethodApprovalsSubscribe:
			for i := range events {
				f.notify(protocol.MethodApprovalRequested, protocol.ApprovalEvent{Approval: protocol.Approval{ID: request(i)}})
			}
			f.result(m.ID, protocol.ApprovalsList{})
		case protocol.MethodApprovalsList:
			f.result(m.ID, protocol.ApprovalsList{Approvals: []protocol.Approval{{ID: "r1"}}})
		case protocol.MethodApprovalsShow:
			f.result(m.ID, protocol.Approval{ID: params[protocol.ApprovalsShowParams](f, m).ID, Description: "d"})
		case protocol.MethodApprovalsDecide:
			p := params[protocol.ApprovalsDecide](f, m)
			f.notify(protocol.MethodApprovalResolved, protocol.ApprovalEvent{
				Approval: protocol.Approval{ID: p.ID}, Decision: &approval.Decision{Action: approval.Approved}})
			f.result(m.ID, protocol.ApprovalsDecided{Results: []protocol.Decided{{ID: p.ID}}})
		case protocol.MethodStatus:
			f.result(m.ID, protocol.Status{Version: "v"})
		case protocol.MethodApprovalsPreview:
			ask := params[protocol.ApprovalsPreview](f, m)
			f.result(m.ID, protocol.ApprovalsPreviewed{Approval: protocol.Approval{ID: ask.ID, Args: ask.Args}, Pattern: &approval.Offer{Value: ask.Pattern.Value}})
		case protocol.MethodApprovalsRemembered:
			f.result(m.ID, protocol.Remembered{Answers: []protocol.RememberedAnswer{{ID: "dec-1"}}})
		case protocol.MethodApprovalsForget:
			if params[protocol.ApprovalsForget](f, m).ID == "dec-1" {
				f.result(m.ID, protocol.Empty{})
				return
			}
			f.fail(m.ID, protocol.Errorf(protocol.CodeUnknownApproval, "nothing is remembered"))
		case protocol.MethodSessionsList:
			f.result(m.ID, protocol.SessionsList{Sessions: []protocol.SessionInfo{{ID: "s"}}})
		}
	})
	ctx := t.Context()
	p, err := DialApprover(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ch, err := p.Subscribe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := p.List(ctx); err != nil || len(list) != 1 {
		t.Errorf("got %v, %v", list, err)
	}
	if one, err := p.Show(ctx, "r1"); err != nil || one.Description != "d" {
		t.Errorf("got %+v, %v", one, err)
	}
	ask := protocol.ApprovalsPreview{ID: "r1", Args: json.RawMessage(`{"a":1}`), Pattern: &approval.Pattern{Kind: approval.ArgvPrefix, Value: "go test"}}
	if shown, err := p.Preview(ctx, ask); err != nil || shown.Pattern.Value != "go test" || string(shown.Approval.Args) != `{"a":1}` {
		t.Errorf("got %+v, %v", shown, err)
	}
	if list, err := p.Remembered(ctx); err != nil || len(list) != 1 || list[0].ID != "dec-1" {
		t.Errorf("got %+v, %v", list, err)
	}
	var e *protocol.Error
	if err := p.Forget(ctx, "dec-1"); err != nil {
		t.Error(err)
	}
	if err := p.Forget(ctx, "dec-2"); !errors.As(err, &e) || e.Code != protocol.CodeUnknownApproval {
		t.Errorf("got %v", err)
	}
	if st, err := p.Status(ctx); err != nil || st.Version != "v" {
		t.Errorf("got %+v, %v", st, err)
	}
	if list, err := p.Sessions(ctx); err != nil || len(list) != 1 {
		t.Errorf("got %+v, %v", list, err)
	}
	if d, err := p.Decide(ctx, protocol.ApprovalsDecide{ID: "r1", Decision: protocol.Allow}); err != nil || len(d) != 1 {
		t.Errorf("got %+v, %v", d, err)
	}
	for i := range events + 1 {
		want, id := Requested, request(i)
		if i == events {
			want, id = Resolved, request(0)
		}
		if e := <-ch; e.Kind != want || e.Approval.ID != id {
			t.Fatalf("event %d: %+v", i, e)
		}
	}
	p.Close()
	if e, ok := <-ch; ok {
		t.Errorf("after the end: %+v", e)
	}
}

// TestTurnedAwayIsSaid: a server that has no room says so and hangs up before it has read
// a word; whoever writes too late hears why all the same.
func TestTurnedAwayIsSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			line, err := protocol.EncodeError(protocol.RequestID{}, protocol.Errorf(protocol.CodeTooManyRequests, "full"))
			(&fake{conn: c}).write(line, err)
			c.Close()
		}
	}()
	for range 200 {
		_, err := DialAgent(context.Background(), path)
		var e *protocol.Error
		if !errors.As(err, &e) || e.Code != protocol.CodeTooManyRequests {
			t.Fatalf("%v", err)
		}
	}
}
