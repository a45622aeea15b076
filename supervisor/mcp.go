package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/mcpconn"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/mcp"
)

// MCPConfig is about third-party MCP servers.
type MCPConfig struct {
	Servers []*mcp.Server
	// Greeting is how long a server may take from its start until it has listed its
	// tools; 0 is 30 seconds.
	Greeting time.Duration
	// Approved keeps which definition a tool had when a call of it was last let
	// through; nil keeps it in memory.
	Approved Definitions
}

// Definitions keep digests of what servers said about their tools. They are safe for
// concurrent use.
type Definitions interface {
	// Get gives the digest of a tool's definition, "" if none is known.
	Get(server, tool string) string
	Put(server, tool, digest string) error
}

const (
	defaultGreeting = 30 * time.Second
	// maxServerInput is how much a server may leave unread, in bytes: more than one
	// message of the greatest length.
	maxServerInput = 2 * protocol.MaxMessage
	// maxServerWords is how much of a server's standard error an error repeats.
	maxServerWords = 300
)

func (c MCPConfig) withDefaults() MCPConfig {
	c.Greeting = cmp.Or(c.Greeting, defaultGreeting)
	if c.Approved == nil {
		c.Approved = &memoryDefinitions{known: map[[2]string]string{}}
	}
	return c
}

// server is the one that a tool's name belongs to, nil if none is configured.
func (c MCPConfig) server(tool string) *mcp.Server {
	name := mcp.ServerOf(tool)
	i := slices.IndexFunc(c.Servers, func(s *mcp.Server) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return c.Servers[i]
}

type memoryDefinitions struct {
	mu    sync.Mutex
	known map[[2]string]string
}

func (m *memoryDefinitions) Get(server, tool string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[[2]string{server, tool}]
}

func (m *memoryDefinitions) Put(server, tool, digest string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known[[2]string{server, tool}] = digest
	return nil
}

// A serverProcess is an MCP server that runs for one session. Its process is a call
// that takes the same path as any other, decided by the configuration alone, and
// whose streams are the conversation.
type serverProcess struct {
	server *mcp.Server
	input  *taskInput
	out    *io.PipeReader
	in     *io.PipeWriter // what the process writes to
	said   *lockedTail    // standard error
	stop   context.CancelCauseFunc
	// running is closed when the program is started, and over when its call is.
	running, over chan struct{}

	call   *call         // before running is closed
	digest string        // of the plan of the start
	plan   tools.Plan    // the same
	conn   *mcpconn.Conn // set by the greeting
	about  mcpconn.Server

	mu    sync.Mutex
	tools []*mcp.Tool
	byKey map[string]*mcp.Tool // by the server's own names
	named *tools.Registry

	err error // before over is closed
}

// A serverPlace is where a session keeps one of its servers. Only one at a time
// starts or looks at it.
type serverPlace struct {
	turn    chan struct{}
	process *serverProcess
	starts  int
}

var (
	errNotGreeted  = errors.New("it did not answer in time when it was started")
	errEndedAtOnce = errors.New("it ended before it was greeted")
	errCallWall    = errors.New("the call's time is used up")
)

// place is where the session keeps a server.
func (x *session) place(name string) *serverPlace {
	x.mu.Lock()
	defer x.mu.Unlock()
	p, ok := x.servers[name]
	if !ok {
		p = &serverPlace{turn: make(chan struct{}, 1)}
		x.servers[name] = p
	}
	return p
}

// process gives a session's server if it runs.
func (x *session) process(name string) *serverProcess {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p, ok := x.servers[name]; ok && p.process != nil && p.process.alive() {
		return p.process
	}
	return nil
}

func (p *serverProcess) alive() bool { return !isClosed(p.over) && p.conn.Err() == nil }

// ready gives a server of the session that runs and has listed its tools. It starts
// one that does not run, or no more.
func (s *Supervisor) ready(ctx context.Context, x *session, server *mcp.Server) (*serverProcess, error) {
	place := x.place(server.Name)
	select {
	case place.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-place.turn }()
	if p := x.process(server.Name); p != nil {
		if !p.conn.Changed() {
			return p, nil
		}
		err := s.list(ctx, p)
		return p, err
	}
	place.starts++
	p, err := s.startServer(ctx, x, server, place.starts)
	if err != nil {
		return nil, err
	}
	x.mu.Lock()
	place.process = p
	x.mu.Unlock()
	return p, nil
}

// readyFor makes ready what a call needs before it can be planned.
func (s *Supervisor) readyFor(ctx context.Context, c *call) error {
	server := s.cfg.MCP.server(string(c.req.Tool))
	if server == nil || c.elsewhere != nil {
		return nil
	}
	_, err := s.ready(ctx, c.session, server)
	return err
}

func (s *Supervisor) startServer(ctx context.Context, x *session, server *mcp.Server, n int) (*serverProcess, error) {
	out, in := io.Pipe()
	p := &serverProcess{
		server: server, input: newTaskInput(maxServerInput), out: out, in: in, said: &lockedTail{},
		running: make(chan struct{}), over: make(chan struct{}),
	}
	var own context.Context
	own, p.stop = context.WithCancelCause(context.WithoutCancel(ctx)) // it ends with the session
	context.AfterFunc(own, func() { out.Close() })                    // nobody reads, and the process must not wait for it
	req := protocol.ToolsCall{
		SessionID: x.id, CallID: protocol.CallID(fmt.Sprintf("%s.%d", server.ProcessName(), n)), Tool: protocol.ToolName(server.ProcessName()),
	}
	go func() {
		r, err := s.carryOut(own, nil, func(c *call) { c.server = p }, x.peer, req, p.notice)
		if err == nil && !isClosed(p.running) && len(r.Content) > 0 {
			err = errors.New(strings.TrimPrefix(strings.TrimSpace(r.Content[0].Text), "sandgate: ")) // its program was not found
		}
		p.finish(err)
	}()
	greeting, cancel := context.WithTimeoutCause(ctx, s.cfg.MCP.Greeting, errNotGreeted)
	defer cancel()
	err := s.greet(greeting, p)
	if err != nil {
		return nil, p.end(err)
	}
	return p, nil
}

// greet waits until the server runs, and asks it who it is and what it offers.
func (s *Supervisor) greet(ctx context.Context, p *serverProcess) (err error) {
	select {
	case <-p.running:
	case <-p.over:
		return cmp.Or(p.err, errEndedAtOnce)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.conn = mcpconn.New(p.send, p.out, mcpconn.Limits{}, nil)
	go func() { // what is no conversation any more is no use, and may flood
		<-p.conn.Done()
		p.stop(p.conn.Err())
	}()
	if p.about, err = p.conn.Initialize(ctx, s.cfg.Version); err != nil {
		return err
	}
	return s.list(ctx, p)
}

// list asks the server for its tools.
func (s *Supervisor) list(ctx context.Context, p *serverProcess) error {
	raw, err := p.conn.Tools(ctx)
	if err != nil {
		return p.explain(err)
	}
	approved := s.cfg.MCP.Approved
	offered := p.server.Offered(mcp.Process{
		Plan: p.plan, Digest: p.digest,
		Approved: func(tool string) string { return approved.Get(p.server.Name, tool) },
	}, raw)
	list := make([]tools.Tool, len(offered))
	byKey := map[string]*mcp.Tool{}
	for i, t := range offered {
		list[i], byKey[t.Own()] = t, t
	}
	registry, err := tools.NewRegistry(list...)
	if err != nil {
		return p.explain(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tools, p.byKey, p.named = offered, byKey, registry
	return nil
}

// listed are the tools as the server last listed them.
func (p *serverProcess) listed() ([]*mcp.Tool, *tools.Registry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tools, p.named
}

func (p *serverProcess) tool(own string) *mcp.Tool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byKey[own]
}

// notice hears from the path of the call when the program is started.
func (p *serverProcess) notice(_ protocol.Method, params any) {
	if state, ok := params.(protocol.ToolState); ok && state.State == protocol.Running {
		close(p.running)
	}
}

// take is told the call that the process is, when it has been checked.
func (p *serverProcess) take(c *call) {
	p.call, p.plan, p.digest = c, c.proposal.Plan, c.digest
}

func (p *serverProcess) send(line []byte) error {
	if err := p.input.put(string(line), false); err != nil {
		return fmt.Errorf("it reads nothing: %w", err)
	}
	return nil
}

func (p *serverProcess) finish(err error) {
	p.err = err
	p.input.end()
	p.in.Close()
	p.stop(nil)
	close(p.over)
}

// end kills the process, and says what became of it.
func (p *serverProcess) end(cause error) error {
	p.stop(cause)
	<-p.over
	if p.conn != nil {
		<-p.conn.Done()
	}
	return p.explain(cause)
}

// explain is an error about the server for the agent, with what the process has said
// about it.
func (p *serverProcess) explain(err error) error {
	var wire *protocol.Error
	if errors.As(err, &wire) {
		return wire
	}
	if isCancelled(err) {
		return err
	}
	e := protocol.Errorf(protocol.CodeServerFailed, "MCP server %s: %v", p.server.Name, err).
		WithHint("the next call starts it again; if it fails each time, the user has to look at mcp.servers.%s", p.server.Name)
	if r := p.result(); r != "" {
		e.Message += "; " + r
	}
	return e
}

// result is how the process ended, and what it said then.
func (p *serverProcess) result() string {
	var parts []string
	if isClosed(p.over) && p.call != nil {
		switch r := p.call.result; {
		case r.Cause == confine.NotStarted:
			parts = append(parts, "it could not be started: "+r.Errno)
		case r.Signal != "" && r.Cause == confine.Exited:
			parts = append(parts, "it was ended by "+r.Signal)
		case r.Cause == confine.Exited:
			parts = append(parts, fmt.Sprintf("it ended with status %d", r.ExitCode))
		case r.Cause != confine.Cancelled && r.Cause != "":
			parts = append(parts, "it was ended: "+strings.ReplaceAll(string(r.Cause), "_", " "))
		}
	}
	if text := p.said.last(maxServerWords); text != "" {
		parts = append(parts, fmt.Sprintf("it wrote to its standard error: %q", text))
	}
	return strings.Join(parts, "; ")
}

// A lockedTail is a tail that is looked at while it is written to.
type lockedTail struct {
	mu sync.Mutex
	tail
}

func (t *lockedTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tail.Write(p)
}

// last gives the end of the text, whole lines if there are any.
func (t *lockedTail) last(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.bytes()), "?"))
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	if _, rest, ok := strings.Cut(text, "\n"); ok && rest != "" {
		return rest
	}
	return strings.ToValidUTF8(text, "")
}
