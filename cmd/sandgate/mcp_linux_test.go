package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/protocol"
)

// An mcpBench is a directory with a configuration, a supervisor that runs with it,
// and an approver.
type mcpBench struct {
	t        *testing.T
	dir      string
	env      []string
	agent    string // sockets
	operator string

	mu     sync.Mutex
	answer func(protocol.Approval) (protocol.ApprovalsDecide, bool)
	asked  []protocol.Approval
}

// newMCPBench starts a supervisor with a configuration, in which WORK stands for
// the bench's directory. Whoever is asked allows, unless told otherwise.
func newMCPBench(t *testing.T, config string) *mcpBench {
	t.Helper()
	b := prepareMCPBench(t, config)
	b.start()
	b.approve()
	return b
}

// prepareMCPBench is newMCPBench without the supervisor.
func prepareMCPBench(t *testing.T, config string) *mcpBench {
	t.Helper()
	dir, err := os.MkdirTemp("", "mcp") // short: a socket path has at most 107 bytes, unix(7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &mcpBench{t: t, dir: dir, agent: filepath.Join(dir, "agent.sock"), operator: filepath.Join(dir, "operator.sock")}
	b.answer = func(protocol.Approval) (protocol.ApprovalsDecide, bool) {
		return protocol.ApprovalsDecide{Decision: "allow"}, true
	}
	b.env = append(os.Environ(), "HOME="+dir+"/home", "XDG_CONFIG_HOME="+dir+"/home/.config", "XDG_STATE_HOME="+dir+"/home/.state",
		"XDG_CACHE_HOME="+dir+"/home/.cache", "XDG_RUNTIME_DIR="+dir+"/rt", "NO_COLOR=1")
	for _, d := range []string{"home", "rt", "ws"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.write("sandgate.yaml", strings.ReplaceAll(config, "WORK", dir))
	return b
}

func (b *mcpBench) write(name, text string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// start runs the supervisor until the test is over.
func (b *mcpBench) start() {
	b.t.Helper()
	var said bytes.Buffer
	c := b.command("serve", "--config", filepath.Join(b.dir, "sandgate.yaml"), "--socket", b.agent, "--operator-socket", b.operator)
	c.Stderr = &said
	if err := c.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		if err := c.Wait(); err != nil {
			b.t.Errorf("serve: %v\n%s", err, &said)
		}
	})
}

// ready waits until the supervisor answers.
func (b *mcpBench) ready() {
	b.t.Helper()
	b.eventually("there is a supervisor", func() bool {
		p, err := client.DialApprover(b.t.Context(), b.operator)
		if err == nil {
			p.Close()
		}
		return err == nil
	})
}

// approve answers whoever listens on the operator socket until the test is over.
func (b *mcpBench) approve() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.ready()
	ended := make(chan error, 1)
	go func() { ended <- client.Approve(ctx, b.operator, b.decide) }()
	b.t.Cleanup(func() {
		cancel()
		<-ended
	})
}

func (b *mcpBench) decide(_ context.Context, _ *client.Approver, a protocol.Approval) (protocol.ApprovalsDecide, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, a)
	return b.answer(a)
}

// answers replaces what the approver says.
func (b *mcpBench) answers(f func(protocol.Approval) (protocol.ApprovalsDecide, bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = f
}

// questions are the approvals that were asked for since the last time.
func (b *mcpBench) questions() []protocol.Approval {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.asked
	b.asked = nil
	return list
}

func (b *mcpBench) command(args ...string) *exec.Cmd {
	c := exec.Command("sandgate", args...)
	c.Env, c.Dir = b.env, filepath.Join(b.dir, "ws")
	return c
}

// connect starts an MCP server command and is its client until the test is over.
func (b *mcpBench) connect(o *mcp.ClientOptions, args ...string) *mcp.ClientSession {
	b.t.Helper()
	c := b.command(args...)
	var said bytes.Buffer
	c.Stderr = &said
	s, err := mcp.NewClient(&mcp.Implementation{Name: "a client", Version: "1"}, o).Connect(b.t.Context(), &mcp.CommandTransport{Command: c}, nil)
	if err != nil {
		b.t.Fatalf("%v: %v\n%s", args, err, &said)
	}
	b.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.t.Errorf("%v: %v\n%s", args, err, &said)
		}
		if !c.ProcessState.Success() {
			b.t.Errorf("%v: %v\n%s", args, c.ProcessState, &said)
		}
	})
	return s
}

func (b *mcpBench) mcpServe(o *mcp.ClientOptions) *mcp.ClientSession {
	b.t.Helper()
	return b.connect(o, "mcp", "serve", "--socket", b.agent, "--operator-socket", b.operator)
}

// on is the bench for a part of its test.
func (b *mcpBench) on(t *testing.T) *mcpBench {
	return &mcpBench{t: t, dir: b.dir, env: b.env, agent: b.agent, operator: b.operator}
}

// log gives the entries of one kind in the audit log, as JSON lines.
func (b *mcpBench) log(kind string) []string {
	b.t.Helper()
	c := b.command("audit", "query", "--kind", kind, "--json")
	out, err := c.Output()
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// mustCall makes a call that the server answers, with whatever result.
func mustCall(t *testing.T, s *mcp.ClientSession, tool string, args map[string]any) *mcp.CallToolResult {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return r
}

// said is the text of a result.
func said(r *mcp.CallToolResult) string {
	var text []string
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text = append(text, t.Text)
		}
	}
	return strings.Join(text, "\n")
}

// codeOf is the stable code of a refusal, "" if r is none.
func codeOf(t *testing.T, r *mcp.CallToolResult) protocol.Code {
	t.Helper()
	raw, err := json.Marshal(r.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Error struct{ Code protocol.Code } }
	_ = json.Unmarshal(raw, &s) // a result that is no refusal has none
	if s.Error.Code != "" && !r.IsError {
		t.Errorf("a refusal that is no error: %s", raw)
	}
	return s.Error.Code
}

const mcpConfig = `version: 1
sandbox: {paths: {workspace: {root: WORK/ws, mode: rw, write_approval: true}}}
shell:
  rules:
    - {pattern: "echo", approval: false}
    - {pattern: "sleep", approval: false}
    - {pattern: "cat", approval: false}
    - {pattern: "false", approval: false}
    - {pattern: "rm", allowed: false, reason: "use the trash tool"}
`

// TestMCPServe is the way of a client that knows nothing of sandgate: its tools are
// the session's, its calls are decided, and a refusal says what would be allowed.
func TestMCPServe(t *testing.T) {
	b := newMCPBench(t, mcpConfig)
	s := b.mcpServe(nil)

	if i := s.InitializeResult(); i.ServerInfo.Name != "sandgate" || i.Capabilities.Tools == nil || i.Capabilities.Resources != nil {
		t.Errorf("the server says of itself %+v", i)
	}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list.Tools, func(x *mcp.Tool) bool { return x.Name == "write_file" })
	if at < 0 {
		t.Fatalf("no write_file among %d tools", len(list.Tools))
	}
	schema, _ := json.Marshal(list.Tools[at].InputSchema)
	if a := list.Tools[at].Annotations; a == nil || a.ReadOnlyHint || a.DestructiveHint == nil || !*a.DestructiveHint || !strings.Contains(string(schema), `"content"`) {
		t.Errorf("write_file is described as %+v, %s", list.Tools[at], schema)
	}

	r := mustCall(t, s, "shell", map[string]any{"command": "echo hello; echo there >&2"})
	if text := said(r); r.IsError || len(r.Content) != 1 || text != "hello\nthere\n" {
		t.Errorf("echo: %+v", r)
	}
	if r := mustCall(t, s, "shell", map[string]any{"command": "false"}); !r.IsError || codeOf(t, r) != "" || !strings.Contains(said(r), "exit status 1") {
		t.Errorf("a program that fails is no refusal: %+v", r)
	}
	if r := mustCall(t, s, "shell", map[string]any{"command": "rm x"}); codeOf(t, r) != protocol.CodeBlocked || !strings.Contains(said(r), "use the trash tool") {
		t.Errorf("rm: %s", said(r))
	}
	if r := mustCall(t, s, "shell", map[string]any{"comand": "true"}); codeOf(t, r) != protocol.CodeInvalidArguments {
		t.Errorf("a wrong argument: %s", said(r))
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "no_such_tool"}); err == nil || !strings.Contains(err.Error(), "unknown_tool") {
		t.Errorf("an unknown tool: %v", err)
	}
	if b.questions() != nil {
		t.Error("somebody was asked about what the rules decide")
	}

	file := map[string]any{"path": "a.txt", "content": "x"}
	b.answers(func(protocol.Approval) (protocol.ApprovalsDecide, bool) {
		return protocol.ApprovalsDecide{Decision: "deny", Mode: "reject_soft", Feedback: "not in this directory"}, true
	})
	if r := mustCall(t, s, "write_file", file); codeOf(t, r) != protocol.CodeDenied || !strings.Contains(said(r), "not in this directory") {
		t.Errorf("denied: %s", said(r))
	}
	if _, err := os.Stat(filepath.Join(b.dir, "ws", "a.txt")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was denied was written: %v", err)
	}
	b.answers(func(a protocol.Approval) (protocol.ApprovalsDecide, bool) {
		return protocol.ApprovalsDecide{Decision: "allow"}, true
	})
	file["path"] = "b.txt"
	if r := mustCall(t, s, "write_file", file); r.IsError {
		t.Errorf("allowed: %s", said(r))
	}
	if got, err := os.ReadFile(filepath.Join(b.dir, "ws", "b.txt")); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
	q := b.questions()
	if len(q) != 2 || q[0].Agent != "mcp/a-client" {
		t.Errorf("asked %+v", q)
	}
	if log := strings.Join(b.log("decision"), "\n"); !strings.Contains(log, "rm x") || !strings.Contains(log, "mcp/a-client") {
		t.Errorf("the log has %s", log)
	}
}

// TestMCPServeStreamsAndCancels: a client that asks for progress hears what the
// program writes while it runs, and what it cancels is dead.
func TestMCPServeStreamsAndCancels(t *testing.T) {
	b := newMCPBench(t, mcpConfig)
	heard := make(chan string, 100)
	s := b.mcpServe(&mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
		heard <- fmt.Sprint(r.Params.ProgressToken, " ", r.Params.Message)
	}})
	ctx, cancel := context.WithCancel(t.Context())
	p := &mcp.CallToolParams{Name: "shell", Arguments: map[string]any{"command": "echo first; sleep 61.25"}}
	p.SetProgressToken("tok")
	ended := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, p)
		ended <- err
	}()
	for m := range heard {
		if m == "tok first\n" {
			break
		}
	}
	b.eventually("the program runs", func() bool { return runs("sleep\x0061.25\x00") })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	b.eventually("sleep 61.25 is dead", func() bool { return !runs("sleep\x0061.25\x00") })
	b.eventually("the log says that it was cancelled", func() bool {
		return strings.Contains(strings.Join(b.log("end"), "\n"), `"code":"cancelled"`)
	})
	if r := mustCall(t, s, "shell", map[string]any{"command": "echo still here"}); r.IsError {
		t.Errorf("after it: %s", said(r))
	}
}

// TestMCPServeEndsWithItsClient: a client that goes away leaves nothing running.
func TestMCPServeEndsWithItsClient(t *testing.T) {
	b := newMCPBench(t, mcpConfig)
	c := b.command("mcp", "serve", "--socket", b.agent)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"shell","arguments":{"command":"sleep 61.75"}}}`,
	} {
		fmt.Fprintln(in, line)
	}
	b.eventually("the program runs", func() bool { return runs("sleep\x0061.75\x00") })
	in.Close()
	if err := c.Wait(); err != nil {
		t.Errorf("%v: %s", err, &errs)
	}
	b.eventually("the program is dead", func() bool { return !runs("sleep\x0061.75\x00") })
	for line := range strings.Lines(out.String()) { // and nothing on the output but the protocol
		var m struct{ JSONRPC string }
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.JSONRPC != "2.0" {
			t.Errorf("it wrote %q", line)
		}
	}
}

func (b *mcpBench) eventually(what string, holds func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(waitforLimit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("not so in time: %s", what)
		}
	}
}

// TestMCPServeIsItsOwnSupervisor: with --config there need not be another, and what
// has to be asked is asked on an operator socket of its own.
func TestMCPServeIsItsOwnSupervisor(t *testing.T) {
	b := prepareMCPBench(t, mcpConfig)
	s := b.connect(nil, "mcp", "serve", "--config", filepath.Join(b.dir, "sandgate.yaml"), "--socket", b.agent, "--operator-socket", b.operator)
	b.approve()
	if r := mustCall(t, s, "write_file", map[string]any{"path": "a.txt", "content": "x"}); r.IsError || len(b.questions()) != 1 {
		t.Errorf("allowed: %s", said(r))
	}
	if r := mustCall(t, s, "shell", map[string]any{"command": "rm x"}); codeOf(t, r) != protocol.CodeBlocked {
		t.Errorf("rm: %s", said(r))
	}
}

// TestMCPServeWithoutASupervisor says so at once, on standard error.
func TestMCPServeWithoutASupervisor(t *testing.T) {
	var out, errs bytes.Buffer
	status := execute(newApp(strings.NewReader(""), &out, &errs), []string{"mcp", "serve", "--socket", filepath.Join(t.TempDir(), "none.sock")})
	if status != cli.ExitInternal || out.Len() > 0 || !strings.Contains(errs.String(), "sandgate serve") {
		t.Errorf("status %d, %q, %q", status, &out, &errs)
	}
}

// testServerDir is where the program of mcpTestServer is.
func testServerDir(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("mcp-test-server")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(path)
}

// TestMCPGatewayFromEndToEnd: a client of the library, through two of ours, to a
// server of the library in a sandbox.
func TestMCPGatewayFromEndToEnd(t *testing.T) {
	bin := testServerDir(t)
	b := newMCPBench(t, strings.ReplaceAll(`version: 1
sandbox:
  paths:
    workspace: {root: WORK/ws, mode: rw}
    bin: {root: BIN, mode: ro}
mcp:
  servers:
    test: {command: [BIN/mcp-test-server], sandbox: {paths: {bin: ro}}, approval: {tools: {stat: allow}}}
    rw: {command: [BIN/mcp-test-server], sandbox: {paths: {bin: ro, workspace: rw}}, approval: {default: allow}}
    gone: {command: [no-such-program-anywhere]}
`, "BIN", bin))
	b.answers(func(a protocol.Approval) (protocol.ApprovalsDecide, bool) {
		return protocol.ApprovalsDecide{Decision: "deny", Mode: "reject_soft", Feedback: "no"}, true
	})
	s := b.mcpServe(nil)
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"test_stat", "test_write", "rw_write"} {
		if !slices.ContainsFunc(list.Tools, func(x *mcp.Tool) bool { return x.Name == name }) {
			t.Errorf("%s is not listed", name)
		}
	}
	file := filepath.Join(b.dir, "ws", "f")
	path := map[string]any{"path": file}
	if r := mustCall(t, s, "rw_write", path); r.IsError {
		t.Errorf("a server with the workspace: %s", said(r))
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("it was not written: %v", err)
	}
	if r := mustCall(t, s, "rw_stat", path); said(r) != "true" {
		t.Errorf("it is not seen: %s", said(r))
	}
	if r := mustCall(t, s, "test_stat", path); said(r) != "false" {
		t.Errorf("a server without paths sees the workspace: %s", said(r))
	}
	if r := mustCall(t, s, "test_write", path); codeOf(t, r) != protocol.CodeDenied {
		t.Errorf("denied: %s", said(r))
	}
	if q := b.questions(); len(q) != 1 || q[0].Connector != "test" || q[0].Tool != "test_write" {
		t.Errorf("asked %+v", q)
	}
	if r := mustCall(t, s, "gone_x", nil); codeOf(t, r) != protocol.CodeServerFailed || !strings.Contains(said(r), "no-such-program-anywhere") {
		t.Errorf("a server that is not there: %s", said(r))
	}
	why := b.command("why", "--operator-socket", b.operator, "test_stat", "path=/x")
	if out, err := why.CombinedOutput(); err != nil || !strings.Contains(string(out), "mcp.servers.test.approval.tools") {
		t.Errorf("why: %v, %s", err, out)
	}
}

// TestMCPWrap: a server in the place of its command has its own names, is confined, and
// is asked about; nothing else of the supervisor's is within its client's reach.
func TestMCPWrap(t *testing.T) {
	bin := testServerDir(t)
	b := prepareMCPBench(t, "version: 1\n")
	s := b.connect(nil, "mcp", "wrap", "--operator-socket", b.operator, "--ro", bin, "--allow", "st*", "--", filepath.Join(bin, "mcp-test-server"))
	b.approve()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, x := range list.Tools {
		names = append(names, x.Name)
	}
	if !slices.Equal(names, []string{"remove", "stat", "write"}) {
		t.Errorf("listed %v", names)
	}
	file := filepath.Join(b.dir, "ws", "f")
	b.write("ws/there", "x")
	if r := mustCall(t, s, "stat", map[string]any{"path": filepath.Join(b.dir, "ws", "there")}); said(r) != "false" {
		t.Errorf("the server sees what it was not given: %s", said(r))
	}
	if r := mustCall(t, s, "stat", map[string]any{"path": bin}); said(r) != "true" { // the twin
		t.Errorf("the server does not see what it was given: %s", said(r))
	}
	if b.questions() != nil {
		t.Error("asked about what is allowed")
	}
	if r := mustCall(t, s, "write", map[string]any{"path": file}); !r.IsError || codeOf(t, r) != "" {
		t.Errorf("written where it may not, or refused otherwise: %s", said(r))
	}
	if q := b.questions(); len(q) != 1 || q[0].Tool != "mcp-test-server_write" || q[0].Connector != "mcp-test-server" {
		t.Errorf("asked %+v", q)
	}
	b.answers(func(protocol.Approval) (protocol.ApprovalsDecide, bool) {
		return protocol.ApprovalsDecide{Decision: "deny"}, true
	})
	if r := mustCall(t, s, "write", map[string]any{"path": file + "2"}); codeOf(t, r) != protocol.CodeDenied {
		t.Errorf("denied: %s", said(r))
	}
	for _, tool := range []string{"shell", "read_file", "mcp-test-server_stat"} {
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"command": "true", "path": file}}); err == nil || !strings.Contains(err.Error(), "unknown_tool") {
			t.Errorf("%s: %v", tool, err)
		}
	}
	if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "note:1"}); err == nil {
		t.Error("a resource passed")
	}
	if log := strings.Join(b.log("decision"), "\n"); !strings.Contains(log, `"tool":"mcp-test-server_stat"`) {
		t.Errorf("the log has %s", log)
	}
}

// TestMCPWrapAllowsByName: a person who allows a tool by its own name is not asked about it
// again because its server hints that it destroys; a pattern does not mean it so.
func TestMCPWrapAllowsByName(t *testing.T) {
	bin := testServerDir(t)
	for allow, asked := range map[string]int{"remove": 0, "rem*": 1} {
		b := prepareMCPBench(t, "version: 1\n")
		s := b.connect(nil, "mcp", "wrap", "--operator-socket", b.operator, "--ro", bin, "--rw", filepath.Join(b.dir, "ws"),
			"--allow", allow, "--", filepath.Join(bin, "mcp-test-server"))
		b.approve()
		b.write("ws/f", "x")
		file := filepath.Join(b.dir, "ws", "f")
		if r := mustCall(t, s, "remove", map[string]any{"path": file}); r.IsError {
			t.Errorf("--allow %s: %s", allow, said(r))
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("--allow %s: it is still there: %v", allow, err)
		}
		if q := b.questions(); len(q) != asked {
			t.Errorf("--allow %s: asked %d times, want %d", allow, len(q), asked)
		}
	}
}

// TestMCPWrapWritesWhereItMay: the twin of what TestMCPWrap has refused.
func TestMCPWrapWritesWhereItMay(t *testing.T) {
	bin := testServerDir(t)
	b := prepareMCPBench(t, "version: 1\n")
	s := b.connect(nil, "mcp", "wrap", "--mode", "approve_all", "--operator-socket", b.operator, "--ro", bin, "--rw", filepath.Join(b.dir, "ws"),
		"--name", "x", "--deny", "stat", "--", filepath.Join(bin, "mcp-test-server"))
	file := filepath.Join(b.dir, "ws", "f")
	if r := mustCall(t, s, "write", map[string]any{"path": file}); r.IsError {
		t.Errorf("write: %s", said(r))
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if r := mustCall(t, s, "stat", map[string]any{"path": file}); codeOf(t, r) != protocol.CodeBlocked {
		t.Errorf("stat: %s", said(r))
	}
}

// TestMCPWrapOfWhatIsNoServer says what became of it.
func TestMCPWrapOfWhatIsNoServer(t *testing.T) {
	b := prepareMCPBench(t, "version: 1\n")
	s := b.connect(nil, "mcp", "wrap", "--operator-socket", b.operator, "--", "echo", "hello there")
	if _, err := s.ListTools(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "hello there") {
		t.Errorf("got %v", err)
	}
	for _, args := range [][]string{{"--default", "yes", "--", "true"}, {"--name", "a_b", "--", "true"}, {"--mode", "x", "--", "true"}} {
		var errs bytes.Buffer
		if status := execute(newApp(strings.NewReader(""), &errs, &errs), append([]string{"mcp", "wrap"}, args...)); status != cli.ExitUsage {
			t.Errorf("%v: status %d, %s", args, status, &errs)
		}
	}
}

// bearer shows a token with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// TestStrangersKeepNoAgentOut: a program of another user's holds more connections than there are places,
// and an agent with the token is answered at once. Only root can start one.
func TestStrangersKeepNoAgentOut(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start a program of another user's; TestOthersKeepNobodyOut has a twin for everybody")
	}
	b := newMCPBench(t, mcpConfig)
	c := b.command("mcp", "serve", "--socket", b.agent, "--http", "127.0.0.1:0", "--token-file", filepath.Join(b.dir, "token"))
	errs, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	said, err := bufio.NewReader(errs).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.Fields(said)[2]
	_, port, err := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	strangers := exec.Command("/usr/bin/python3", "-c", `
import socket, sys
held = []
for _ in range(256):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    try: s.send(b"GET / HTTP/1.1\r\nX: ")
    except OSError: pass
    held.append(s)
print("held", flush=True)
sys.stdin.read()`, port)
	strangers.Dir, strangers.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	in, err := strangers.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := strangers.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := strangers.Start(); err != nil {
		t.Fatal(err)
	}
	defer strangers.Wait()
	defer in.Close()
	if _, err := io.ReadFull(out, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: 3 * time.Second} // a head may take five
	answer, err := client.Get(url)
	if err != nil {
		t.Fatalf("an agent is kept out: %v", err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("%s for a request without the token", answer.Status)
	}
}

// TestMCPServeHTTP: whoever has the token is an agent, with a session for each MCP
// session; nobody else is answered, whatever name leads to loopback.
func TestMCPServeHTTP(t *testing.T) {
	b := newMCPBench(t, mcpConfig)
	c := b.command("mcp", "serve", "--socket", b.agent, "--http", "127.0.0.1:0", "--token-file", filepath.Join(b.dir, "token"))
	errs, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	})
	said1, err := bufio.NewReader(errs).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url := strings.Fields(said1)[2]
	token, err := os.ReadFile(filepath.Join(b.dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	right := bearer(strings.TrimSpace(string(token)))
	connect := func(by bearer) (*mcp.ClientSession, error) {
		return mcp.NewClient(&mcp.Implementation{Name: "over http", Version: "1"}, nil).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: by}, DisableStandaloneSSE: true, MaxRetries: -1}, nil)
	}
	if s, err := connect("0000"); err == nil {
		s.Close()
		t.Error("a wrong token is let in")
	}
	s, err := connect(right)
	if err != nil {
		t.Fatal(err)
	}
	if r := mustCall(t, s, "shell", map[string]any{"command": "echo hello"}); said(r) != "hello\n" {
		t.Errorf("echo: %s", said(r))
	}
	if r := mustCall(t, s, "shell", map[string]any{"command": "rm x"}); codeOf(t, r) != protocol.CodeBlocked {
		t.Errorf("rm: %s", said(r))
	}
	if r := mustCall(t, s, "run_background", map[string]any{"command": "sleep 62.25"}); r.IsError {
		t.Errorf("sleep: %s", said(r))
	}
	b.eventually("the task runs", func() bool { return runs("sleep\x0062.25\x00") })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	b.eventually("the task ended with the session", func() bool { return !runs("sleep\x0062.25\x00") })

	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	for name, x := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"no token":          {func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		"basic":             {func(r *http.Request) { r.Header.Set("Authorization", "Basic "+string(right)) }, http.StatusUnauthorized},
		"two tokens":        {func(r *http.Request) { r.Header.Add("Authorization", "Bearer x") }, http.StatusUnauthorized},
		"another host":      {func(r *http.Request) { r.Host = "evil.example" }, http.StatusMisdirectedRequest},
		"another origin":    {func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		"no origin":         {func(r *http.Request) { r.Header.Set("Origin", "null") }, http.StatusForbidden},
		"another site":      {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"another path":      {func(r *http.Request) { r.URL.Path = "/" }, http.StatusNotFound},
		"a query":           {func(r *http.Request) { r.URL.RawQuery = "token=" + string(right) }, http.StatusNotFound},
		"the twin":          {func(*http.Request) {}, http.StatusOK},
		"the twin by name":  {func(r *http.Request) { r.Host = strings.Replace(host, "127.0.0.1", "localhost", 1) }, http.StatusOK},
		"the same's origin": {func(r *http.Request) { r.Header.Set("Origin", "http://"+host) }, http.StatusOK},
	} {
		body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+string(right))
		x.change(r)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != x.want {
			t.Errorf("%s: %s, want %d", name, answer.Status, x.want)
		}
	}
	var out bytes.Buffer
	if status := execute(newApp(strings.NewReader(""), &out, &out), []string{"mcp", "serve", "--socket", b.agent, "--http", "0.0.0.0:0", "--token-file", filepath.Join(b.dir, "token")}); status != cli.ExitUsage {
		t.Errorf("an address that others reach: status %d, %s", status, &out)
	}
}

// TestMCPServeGoesOn: a line that is no message is answered, and the session lives.
func TestMCPServeGoesOn(t *testing.T) {
	h := newHost(t)
	h.start()
	cmd := h.command("mcp", "serve")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	for _, x := range []struct{ line, answer string }{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, `"id":1,"result"`},
		{`hello`, `"id":null,"error":{"code":-32700`},
		{`{"jsonrpc":"2.0","id":2,"method":7}`, `"id":2,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","id":3,"foo":1}`, `"id":3,"error":{"code":-32600`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, ""},
		{`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"note.txt"}}}`, `note\n`},
	} {
		if _, err := io.WriteString(in, x.line+"\n"); err != nil {
			t.Fatal(err)
		}
		if x.answer == "" {
			continue
		}
		if answer, err := answers.ReadString('\n'); err != nil || !strings.Contains(answer, x.answer) {
			t.Errorf("%s\nis answered %s, %v; want %s", x.line, answer, err, x.answer)
		}
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	h.interrupt()
	_ = h.serve.Wait()
}

// TestMCPServeSaysLongResultsTwice: some clients show their model only the content and some only the structured
// content. A result that was cut says the same in both: the text, and that it was cut.
func TestMCPServeSaysLongResultsTwice(t *testing.T) {
	b := newMCPBench(t, mcpConfig)
	s := b.mcpServe(nil)
	var long strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&long, "line %d of a long file\n", i)
	}
	b.write("ws/long", long.String())
	for name, c := range map[string]struct {
		tool string
		args map[string]any
		cut  bool
		has  string
	}{
		"whole":      {"read_file", map[string]any{"path": "long", "max_bytes": 1 << 20}, false, long.String()},
		"cut":        {"read_file", map[string]any{"path": "long", "max_bytes": 1000}, true, long.String()[:900]},
		"many lines": {"grep", map[string]any{"pattern": "long file", "path": "."}, true, "line 7 of a long file"},
	} {
		r := mustCall(t, s, c.tool, c.args)
		if r.IsError || !strings.Contains(said(r), c.has) {
			t.Fatalf("%s: content of %d bytes: %.300s", name, len(said(r)), said(r))
		}
		raw, err := json.Marshal(r.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		structured := map[string]any{}
		if err := json.Unmarshal(raw, &structured); err != nil {
			t.Fatalf("%s: no structured content: %s", name, raw)
		}
		if c.tool == "read_file" {
			text, _ := structured["text"].(string)
			for _, piece := range r.Content {
				if piece := piece.(*mcp.TextContent).Text; !strings.HasPrefix(piece, "{") && !strings.Contains(text, piece) {
					t.Errorf("%s: the structured text lacks %.100q", name, piece)
				}
			}
			if !strings.HasPrefix(text, c.has) {
				t.Errorf("%s: the structured text is %.100q", name, text)
			}
		} else if !strings.Contains(string(raw), c.has) {
			t.Errorf("%s: the structured content lacks %q", name, c.has)
		}
		for where, text := range map[string]string{"content": said(r), "structured content": string(raw)} {
			if told := strings.Contains(text, "sandgate: ") || strings.Contains(text, `"truncated":true`); told != c.cut {
				t.Errorf("%s: the %s says that it was cut: %v", name, where, told)
			}
		}
	}
}
