package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/server"
	"github.com/sandgate/sandgate/tools"
)

// stubGate is what the sockets lead to in these tests: its tools print, fail and
// ask, and nothing is confined or run.
type stubGate struct {
	approvals *approval.Controller
	sessions  atomic.Int64
}

func (g *stubGate) OpenSession(_ unixsock.Peer, p protocol.SessionOpen) (protocol.SessionOpened, error) {
	// An id is never used twice: the last session of this name may still be closing.
	id := fmt.Sprintf("s-%s-%d", strings.ReplaceAll(p.Agent, " ", "-"), g.sessions.Add(1))
	return protocol.SessionOpened{SessionID: protocol.SessionID(id)}, g.approvals.OpenSession(id)
}

func (g *stubGate) CloseSession(id protocol.SessionID) (protocol.SessionClosed, error) {
	g.approvals.CloseSession(string(id))
	return protocol.SessionClosed{}, nil
}

func (g *stubGate) LeaveSession(id protocol.SessionID) error {
	_, err := g.CloseSession(id)
	return err
}

func (g *stubGate) Decide(context.Context, unixsock.Peer, protocol.ToolsDecide, func(protocol.Method, any)) (protocol.ToolsDecided, error) {
	return protocol.ToolsDecided{}, protocol.Errorf(protocol.CodeDenied, "it is denied")
}

func (g *stubGate) Tools(context.Context, protocol.SessionID) (protocol.ToolsList, error) {
	return protocol.ToolsList{}, nil
}
func (g *stubGate) Status() protocol.Status          { return protocol.Status{} }
func (g *stubGate) Sessions() []protocol.SessionInfo { return nil }
func (g *stubGate) Approvals() *approval.Controller  { return g.approvals }
func (g *stubGate) EndSession(id protocol.SessionID, _ unixsock.Peer) (protocol.SessionClosed, error) {
	return g.CloseSession(id)
}
func (g *stubGate) CallsUnderWay() []protocol.CallInfo { return nil }
func (g *stubGate) Kill(string, unixsock.Peer) error   { return nil }
func (g *stubGate) Audit(protocol.AuditQuery) (protocol.AuditEntries, error) {
	return protocol.AuditEntries{}, nil
}
func (g *stubGate) RuleService() server.RuleService { return nil }

func (g *stubGate) Batch([]context.Context, unixsock.Peer, protocol.ToolsBatch, func(protocol.Method, any)) protocol.BatchResult {
	return protocol.BatchResult{}
}

func (g *stubGate) Check(_ context.Context, _ unixsock.Peer, p protocol.ToolsCall) (protocol.CheckResult, error) {
	if p.Tool == "denied" {
		return protocol.CheckResult{Decision: protocol.CheckDeny, Rule: "shell.rules[0]"}, nil
	}
	return protocol.CheckResult{Decision: protocol.CheckAsk, Rule: "default"}, nil
}

func (g *stubGate) Call(ctx context.Context, _ unixsock.Peer, p protocol.ToolsCall, notify func(protocol.Method, any)) (protocol.CallResult, error) {
	switch p.Tool {
	case "print":
		notify(protocol.MethodToolOutput, protocol.NewToolOutput(p.CallID, protocol.Stdout, []byte("out\n")))
		notify(protocol.MethodToolOutput, protocol.NewToolOutput(p.CallID, protocol.Stderr, []byte("err\n")))
		return protocol.CallResult{ExitCode: 3, Warnings: []string{"w\x1b[2J"}, Content: []protocol.Content{
			protocol.NewContent(protocol.Stdout, []byte("out\n")), protocol.NewContent(protocol.Stderr, []byte("err\n"))}}, nil
	case "args":
		return protocol.CallResult{Content: []protocol.Content{protocol.NewContent("", p.Args)}}, nil
	case "ask":
		return g.ask(ctx, p)
	}
	codes := map[protocol.ToolName]protocol.Code{"denied": protocol.CodeDenied, "slow": protocol.CodeTimedOut, "broken": protocol.CodeSandboxFailed}
	if code, ok := codes[p.Tool]; ok {
		return protocol.CallResult{}, protocol.Errorf(code, "it is %s", p.Tool).WithHint("try another")
	}
	return protocol.CallResult{}, protocol.Errorf(protocol.CodeUnknownTool, "no tool %q", p.Tool)
}

func (g *stubGate) ask(ctx context.Context, p protocol.ToolsCall) (protocol.CallResult, error) {
	question, err := askQuestion(p, p.Args)
	if err != nil {
		return protocol.CallResult{}, err
	}
	grant, err := g.approvals.Decide(ctx, question)
	if err != nil {
		return protocol.CallResult{}, protocol.Errorf(protocol.CodeDenied, "%v", err)
	}
	granted, err := approval.Granted[string](grant)
	return protocol.CallResult{Content: []protocol.Content{protocol.NewContent("", fmt.Appendf(nil, "done %v\n", granted))}}, err
}

// askQuestion is about a command of the words in argument "words", and its subject
// are the arguments.
func askQuestion(p protocol.ToolsCall, raw json.RawMessage) (approval.Call, error) {
	p.Args = raw
	args, err := p.DecodeArgs()
	if err != nil {
		return approval.Call{}, err
	}
	if args["bad"] != nil {
		return approval.Call{}, protocol.Errorf(protocol.CodeInvalidArguments, "bad is not allowed: %v", args["bad"])
	}
	words, _ := args["words"].(string)
	return approval.Call{
		ID: string(p.CallID), SessionID: string(p.SessionID), Agent: "ag\x1b[2Jent", ToolName: "ask",
		Details: func() map[string]string { return map[string]string{"directory": "/w\u202e"} },
		Request: &approval.Request{ToolName: "ask", Description: "do\nit", Payload: args},
		Subject: string(raw), Digest: string(raw), Args: raw,
		Revise: func(edited json.RawMessage) (approval.Call, error) { return askQuestion(p, edited) },
		Reach: approval.Reach{
			Elements: []approval.Element{{Kind: approval.ArgvPrefix, Words: strings.Fields(words)}},
			Offers: func() []approval.Pattern {
				return []approval.Pattern{{Kind: approval.ArgvPrefix, Value: words}}
			},
		},
	}, nil
}

// A bench is a running supervisor and a way to run sandgate against it.
type cliBench struct {
	t               *testing.T
	gate            *stubGate
	agent, operator string
}

func newCLIBench(t *testing.T) *cliBench {
	t.Helper()
	dir, err := os.MkdirTemp("", "cli") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	b := &cliBench{t: t, gate: &stubGate{approvals: approval.NewController(approval.Options{Timeout: time.Minute})},
		agent: filepath.Join(dir, "a"), operator: filepath.Join(dir, "o")}
	server := server.New(b.gate, server.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	agents, err := unixsock.Listen(b.agent, unixsock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	operators, err := unixsock.Listen(b.operator, unixsock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { server.ServeAgent(ctx, agents) })
	wg.Go(func() { server.ServeOperator(ctx, operators) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		os.RemoveAll(dir)
	})
	return b
}

func (b *cliBench) run(stdin string, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = execute(newApp(strings.NewReader(stdin), &out, &errs), args)
	return status, out.String(), errs.String()
}

func (b *cliBench) call(args ...string) (status int, stdout, stderr string) {
	return b.run("", append([]string{"call", "--socket", b.agent}, args...)...)
}

func TestCallPassesOutputAndStatusThrough(t *testing.T) {
	b := newCLIBench(t)
	for _, tt := range []struct {
		args           []string
		status         int
		stdout, stderr string
	}{
		{[]string{"print"}, 3, "out\n", "err\nsandgate: warning: w<U+001B>[2J\n"},
		{[]string{"args", "a=1", "b:=2", "c:=[\"x\"]", "d=x=y"}, 0, `{"a":"1","b":2,"c":["x"],"d":"x=y"}`, ""},
		{[]string{"args", "--json", `{"n":12345678901234567890}`, "a="}, 0, `{"a":"","n":12345678901234567890}`, ""},
		{[]string{"denied"}, cli.ExitDenied, "", "sandgate: error: denied: it is denied\nsandgate: hint: try another\n"},
		{[]string{"slow"}, cli.ExitTimeout, "", "sandgate: error: timed_out: it is slow\nsandgate: hint: try another\n"},
		{[]string{"broken"}, cli.ExitSandbox, "", "sandgate: error: sandbox_failed: it is broken\nsandgate: hint: try another\n"},
		{[]string{"nothing"}, cli.ExitUsage, "", "sandgate: error: unknown_tool: no tool \"nothing\"\n"},
	} {
		status, out, errs := b.call(tt.args...)
		if status != tt.status || out != tt.stdout || errs != tt.stderr {
			t.Errorf("%q: status %d, stdout %q, stderr %q, want %d, %q, %q", tt.args, status, out, errs, tt.status, tt.stdout, tt.stderr)
		}
	}
}

func TestCallCheck(t *testing.T) {
	b := newCLIBench(t)
	for tool, want := range map[string]int{"ask": cli.ExitOK, "denied": cli.ExitDenied} {
		status, out, errs := b.call("--check", tool)
		var r protocol.CheckResult
		if err := json.Unmarshal([]byte(out), &r); err != nil || status != want || r.Rule == "" || errs != "" {
			t.Errorf("%s: status %d, stdout %q, stderr %q, %v", tool, status, out, errs, err)
		}
	}
}

func TestCallArguments(t *testing.T) {
	for _, tt := range []struct {
		object, stdin string
		pairs         []string       // those from "--" on are a command
		want          map[string]any // nil: refused
	}{
		{"", "", []string{"--", "go", "test", "./..."}, map[string]any{"command": "go test ./..."}},
		{"", "", []string{"dir=/w", "--", "echo", "a  b", "*.go", "$HOME", "it's"}, map[string]any{"dir": "/w", "command": `echo 'a  b' '*.go' '$HOME' 'it'\''s'`}},
		{"", "", []string{"--", "go vet && go test"}, map[string]any{"command": "go vet && go test"}},
		{"", "", []string{"--"}, nil},
		{"", "", []string{"command=a", "--", "b"}, nil},
		{"", "", nil, map[string]any{}},
		{"-", `{"a":true}`, []string{"b=c"}, map[string]any{"a": true, "b": "c"}},
		{"", "", []string{"a:=1.50"}, map[string]any{"a": json.Number("1.50")}},
		{"", "", []string{"a"}, nil},
		{"", "", []string{"=a"}, nil},
		{"", "", []string{":=1"}, nil},
		{"", "", []string{"a:=x"}, nil},
		{"", "", []string{"a:=1 2"}, nil},
		{"", "", []string{`a:={"b":1,"b":2}`}, nil},
		{"", "", []string{"a=1", "a=2"}, nil},
		{`{"a":1}`, "", []string{"a=2"}, nil},
		{`[1]`, "", nil, nil},
		{`null`, "", nil, nil},
		{`{"a":1}{}`, "", nil, nil},
	} {
		dash := slices.Index(tt.pairs, "--")
		words := slices.DeleteFunc(slices.Clone(tt.pairs), func(w string) bool { return w == "--" })
		got, err := cli.CallArguments("shell", tt.object, strings.NewReader(tt.stdin), words, dash, tools.QuoteCommand)
		if (err == nil) != (tt.want != nil) || err == nil && !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q %q: got %v, %v", tt.object, tt.pairs, got, err)
		}
	}
	if got, err := cli.CallArguments("read_file", "", nil, []string{"x"}, 0, tools.QuoteCommand); err == nil {
		t.Errorf("a command for another tool: %v", got)
	}
}

func TestNoSupervisor(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "s")
	for _, args := range [][]string{
		{"call", "--socket", missing, "x"}, {"approve", "--operator-socket", missing}, {"approvals", "list", "--operator-socket", missing},
	} {
		status, _, errs := (&cliBench{}).run("", args...)
		if status != cli.ExitInternal || !strings.Contains(errs, "sandgate serve") {
			t.Errorf("%q: status %d, %q", args, status, errs)
		}
	}
}

// asks makes n calls that wait for an answer, and returns their ids, oldest first.
// nextRequest gives the id of the next request that waits.
func (b *cliBench) nextRequest() <-chan string {
	seen := make(chan string, 1)
	stop := b.gate.approvals.Subscribe(func(e approval.Event) {
		if e.Kind == approval.Requested {
			select {
			case seen <- e.Pending.ID:
			default:
			}
		}
	})
	b.t.Cleanup(stop)
	return seen
}

func (b *cliBench) asks(n int) (ids []string, results <-chan int) {
	b.t.Helper()
	seen := make(chan string, n)
	stop := b.gate.approvals.Subscribe(func(e approval.Event) {
		if e.Kind == approval.Requested {
			seen <- e.Pending.ID
		}
	})
	defer stop()
	done := make(chan int, n)
	for i := range n {
		go func() {
			status, _, _ := b.call("--agent", fmt.Sprintf("a%d", i), "ask", fmt.Sprintf("n:=%d", i), "words=go test ./x")
			done <- status
		}()
		ids = append(ids, <-seen)
	}
	return ids, done
}

func (b *cliBench) approvals(args ...string) (int, string, string) {
	return b.run("", append([]string{"approvals", "--operator-socket", b.operator}, args...)...)
}

func TestApprovals(t *testing.T) {
	b := newCLIBench(t)
	if status, out, _ := b.approvals("list"); status != 0 || out != "no pending requests\n" {
		t.Errorf("empty list: %d %q", status, out)
	}
	if status, out, _ := b.approvals("list", "--json"); status != 0 || out != "[]\n" {
		t.Errorf("empty list: %d %q", status, out)
	}
	ids, results := b.asks(3)
	status, out, _ := b.approvals("list")
	if status != 0 || strings.Count(out, "\n") != 4 || !strings.Contains(out, ids[0]) || strings.ContainsRune(out, '\x1b') {
		t.Errorf("list: %d %q", status, out)
	}
	status, out, _ = b.approvals("show", ids[0])
	for _, want := range []string{"ask: do<U+000A>it\n", ids[0], "<U+202E>", "ag<U+001B>", "  | "} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("show: %d %q lacks %q", status, out, want)
		}
	}
	if status, out, errs := b.approvals("allow", ids[0]); status != 0 || !strings.Contains(out, "approved ask (once)") {
		t.Errorf("allow: %d %q %q", status, out, errs)
	}
	if got := <-results; got != cli.ExitOK {
		t.Errorf("an allowed call: status %d", got)
	}
	if status, out, errs := b.approvals("deny", ids[1], ids[0], "--soft", "--feedback", "no"); status != cli.ExitInternal ||
		!strings.Contains(out, ids[1]+" denied") || !strings.Contains(errs, "already_decided") {
		t.Errorf("deny: %d %q %q", status, out, errs)
	}
	if got := <-results; got != cli.ExitDenied {
		t.Errorf("a denied call: status %d", got)
	}
	if status, _, errs := b.approvals("allow", ids[2], "--scope", "forever"); status != cli.ExitUsage || !strings.Contains(errs, "once, session, agent, global") {
		t.Errorf("bad scope: %d %q", status, errs)
	}
	if status, out, _ := b.approvals("allow", ids[2], "--scope", "session", "--json"); status != 0 || !json.Valid([]byte(out)) {
		t.Errorf("allow: %d %q", status, out)
	}
	<-results
	if status, _, errs := b.approvals("show", "none"); status != cli.ExitInternal || !strings.Contains(errs, "unknown_approval") {
		t.Errorf("show nothing: %d %q", status, errs)
	}
}

func TestApprovePrompt(t *testing.T) {
	for input, want := range map[string]struct {
		status int
		action string
	}{
		"y\n": {cli.ExitOK, "approved (once)"}, "yes\n": {cli.ExitOK, "approved (once)"}, "S\n": {cli.ExitOK, "approved (session)"},
		"n\n": {cli.ExitDenied, "denied (once)"}, "\n": {cli.ExitDenied, "denied (once)"}, "maybe y\n": {cli.ExitDenied, "denied (once)"},
	} {
		t.Run(strings.TrimSpace(input), func(t *testing.T) {
			b := newCLIBench(t)
			ids, results := b.asks(1)
			status, out, errs := b.run(input, "approve", "--operator-socket", b.operator)
			if status != cli.ExitOK || !strings.Contains(out, ids[0]+": "+want.action) || errs != "" {
				t.Errorf("status %d, stdout %q, stderr %q", status, out, errs)
			}
			if got := <-results; got != want.status {
				t.Errorf("the call: status %d, want %d", got, want.status)
			}
		})
	}
}

// What is not answered goes on waiting, and is answered elsewhere.
func TestApproveEndsWithItsInput(t *testing.T) {
	b := newCLIBench(t)
	ids, results := b.asks(2)
	if status, out, _ := b.run("y\n", "approve", "--operator-socket", b.operator); status != cli.ExitOK || !strings.Contains(out, ids[0]) {
		t.Errorf("status %d, %q", status, out)
	}
	if got := <-results; got != cli.ExitOK {
		t.Errorf("the first call: status %d", got)
	}
	if p := b.gate.approvals.Pending(); len(p) != 1 || p[0].ID != ids[1] {
		t.Errorf("waiting: %+v", p)
	}
	b.approvals("deny", ids[1])
	<-results
}

// A request that is answered elsewhere leaves the screen, and the answer that
// comes for it then goes to nothing.
func TestApproveAnsweredElsewhere(t *testing.T) {
	b := newCLIBench(t)
	ids, results := b.asks(2)
	in, typing := io.Pipe()
	screen := &watchedBuffer{want: "(an empty line denies)", seen: make(chan struct{}, 9)}
	ended := make(chan int)
	go func() {
		ended <- execute(newApp(in, screen, io.Discard), []string{"approve", "--operator-socket", b.operator})
	}()
	<-screen.seen
	b.approvals("deny", ids[0], "--soft")
	<-results
	<-screen.seen // the second request is shown
	io.WriteString(typing, "y\n")
	if got := <-results; got != cli.ExitOK {
		t.Errorf("the second call: status %d", got)
	}
	typing.Close()
	if status := <-ended; status != cli.ExitOK {
		t.Errorf("status %d", status)
	}
}

// A watchedBuffer tells when a text is written.
type watchedBuffer struct {
	want string
	seen chan struct{}
}

func (w *watchedBuffer) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.want) {
		w.seen <- struct{}{}
	}
	return len(p), nil
}
