// Package mcphost has the MCP servers of a session: it starts each when it is first needed,
// asks what tools it offers, and calls them.
//
// It starts no process by itself. The process of a server is a call like any other, which
// the supervisor carries out (Launch); its streams are the conversation.
package mcphost

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
	"github.com/sandgate/sandgate/supervisor/background"
	"github.com/sandgate/sandgate/supervisor/mcpconn"
	"github.com/sandgate/sandgate/tools"
	"github.com/sandgate/sandgate/tools/mcp"
)

// Config is about third-party MCP servers. Its zero value has none.
type Config struct {
	Servers []*mcp.Server
	// Greeting is how long a server may take from its start until it has listed its
	// tools; 0 is 30 seconds.
	Greeting time.Duration
	// Approved keeps which definition a tool had when a call of it was last let
	// through; nil keeps it in memory.
	Approved Definitions
	// Version is our version, as servers see it.
	Version string
	// Cancelled reports whether an error is the agent's, the session's or the supervisor's
	// word that a call is no longer wanted.
	Cancelled func(error) bool
}

// Launch carries out the call that a server's process is, and returns when it is over. n
// counts how often the session has started the server.
type Launch func(ctx context.Context, p *Process, n int) (confine.Result, error)

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

// WithDefaults fills in what is left out, but for Cancelled.
func (c Config) WithDefaults() Config {
	c.Greeting = cmp.Or(c.Greeting, defaultGreeting)
	if c.Approved == nil {
		c.Approved = &memoryDefinitions{known: map[[2]string]string{}}
	}
	return c
}

// Server is the one that a tool's name belongs to, nil if none is configured.
func (c Config) Server(tool string) *mcp.Server {
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

// A Process is an MCP server that runs for one session. It takes the same path as any other
// call, decided by the configuration alone.
type Process struct {
	cfg    *Config
	server *mcp.Server
	input  *background.Input
	out    *io.PipeReader
	in     *io.PipeWriter // what the process writes to
	said   *tail          // standard error
	stop   context.CancelCauseFunc
	// running is closed when the program is started, and over when its call is.
	running, over chan struct{}

	// These are set before running is closed.
	digest   string     // of the plan of the start
	plan     tools.Plan // the same
	enforced confine.Enforced
	look     func(begins bool) ([]confine.Planted, error) // confine.Watched; nil where there is nothing to look for

	conn  *mcpconn.Conn // set by the greeting
	about mcpconn.Server

	mu    sync.Mutex
	calls int // that are under way
	told  int // how much of what the process has left Left has given
	// unsaid are the previous process's findings that no call's result had.
	unsaid []confine.Planted

	tools []*mcp.Tool
	byKey map[string]*mcp.Tool // by the server's own names
	named *tools.Registry

	// These are set before over is closed.
	ended confine.Result
	err   error
}

// Processes are the servers of one session. The zero Processes has none, and starts none.
type Processes struct {
	cfg    *Config
	launch Launch

	mu    sync.Mutex
	slots map[string]*slot
}

// New makes the servers of a session; cfg is the same for all.
func New(cfg *Config, launch Launch) *Processes {
	return &Processes{cfg: cfg, launch: launch, slots: map[string]*slot{}}
}

// A slot is where a session keeps one of its servers. Only one at a time starts or looks
// at it.
type slot struct {
	turn    chan struct{}
	process *Process
	starts  int
}

var (
	errNotGreeted  = errors.New("it did not answer in time when it was started")
	errEndedAtOnce = errors.New("it ended before it was greeted")
	errCallWall    = errors.New("the call's time is used up")
)

// slot is where the session keeps a server.
func (l *Processes) slot(name string) *slot {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.slots[name]
	if !ok {
		p = &slot{turn: make(chan struct{}, 1)}
		l.slots[name] = p
	}
	return p
}

// Running gives a session's server if it runs; else nil.
func (l *Processes) Running(name string) *Process {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, ok := l.slots[name]; ok && p.process != nil && p.process.alive() {
		return p.process
	}
	return nil
}

func (p *Process) alive() bool { return !isClosed(p.over) && p.conn.Err() == nil }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Ready gives a server of the session that runs and has listed its tools. It starts
// one that does not run, or no more, or is not held to its profile any more.
func (l *Processes) Ready(ctx context.Context, server *mcp.Server) (*Process, error) {
	slot := l.slot(server.Name)
	select {
	case slot.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-slot.turn }()
	if p := l.Running(server.Name); p != nil {
		switch err := p.lookBetween(true); {
		case err != nil:
			_ = p.End(err)
		case p.Changed():
			return p, p.list(ctx)
		default:
			return p, nil
		}
	}
	slot.starts++
	var unsaid []confine.Planted
	if slot.process != nil {
		_ = slot.process.End(nil) // or it is about to end by itself
		unsaid, _ = slot.process.Left()
	}
	p, err := l.start(ctx, server, slot.starts, unsaid)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	slot.process = p
	l.mu.Unlock()
	return p, nil
}

func (l *Processes) start(ctx context.Context, server *mcp.Server, n int, unsaid []confine.Planted) (*Process, error) {
	out, in := io.Pipe()
	p := &Process{
		cfg: l.cfg, server: server, input: background.NewInput(maxServerInput), out: out, in: in, said: &tail{},
		running: make(chan struct{}), over: make(chan struct{}), unsaid: unsaid,
	}
	var own context.Context
	own, p.stop = context.WithCancelCause(context.WithoutCancel(ctx)) // it ends with the session
	context.AfterFunc(own, func() { out.Close() })                    // nobody reads, and the process must not wait for it
	go func() { p.finish(l.launch(own, p, n)) }()
	greeting, cancel := context.WithTimeoutCause(ctx, l.cfg.Greeting, errNotGreeted)
	defer cancel()
	if err := p.greet(greeting); err != nil {
		return nil, p.End(err)
	}
	return p, nil
}

// Changed reports whether the server has said since it was last asked that its tools are others.
func (p *Process) Changed() bool { return p.conn.Changed() }

// Server is the program of the process.
func (p *Process) Server() *mcp.Server { return p.server }

// Input is the process's standard input, and Output and Errors are its output streams.
func (p *Process) Input() io.Reader  { return p.input }
func (p *Process) Output() io.Writer { return p.in }
func (p *Process) Errors() io.Writer { return p.said }

// Planned gets the plan of the start, once it has been checked.
func (p *Process) Planned(plan tools.Plan, digest string) { p.plan, p.digest = plan, digest }

// Held learns, before the process starts, how it is confined.
func (p *Process) Held(e confine.Enforced, look func(begins bool) ([]confine.Planted, error)) {
	p.enforced, p.look = e, look
}

// Started is called when the program runs.
func (p *Process) Started() { close(p.running) }

// greet waits until the server runs, and asks it who it is and what it offers.
func (p *Process) greet(ctx context.Context) (err error) {
	select {
	case <-p.running:
	case <-p.over:
		return cmp.Or(p.err, errEndedAtOnce)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.look != nil {
		go p.watch()
	}
	p.conn = mcpconn.New(p.send, p.out, mcpconn.Limits{}, nil)
	go func() { // what is no conversation any more is no use, and may flood
		<-p.conn.Done()
		p.stop(p.conn.Err())
	}()
	if p.about, err = p.conn.Initialize(ctx, p.cfg.Version); err != nil {
		return err
	}
	return p.list(ctx)
}

// list asks the server for its tools.
func (p *Process) list(ctx context.Context) error {
	raw, err := p.conn.Tools(ctx)
	if err != nil {
		return p.explain(err)
	}
	offered := p.server.Offered(mcp.Process{
		Plan: p.plan, Digest: p.digest,
		Approved: func(tool string) string { return p.cfg.Approved.Get(p.known(), tool) },
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

// known is the name under which definitions of a server's tools are kept. Another program may be called
// the same: every `mcp wrap` calls its server by its command's name. What a call could change is no part of it.
func (p *Process) known() string {
	return fmt.Sprintf("%s %q", p.server.Name, p.plan.Action.Exec.Argv)
}

func (p *Process) tool(own string) *mcp.Tool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byKey[own]
}

func (p *Process) send(line []byte) error {
	if err := p.input.Put(string(line), false); err != nil {
		return fmt.Errorf("it reads nothing: %w", err)
	}
	return nil
}

func (p *Process) finish(r confine.Result, err error) {
	p.ended, p.err = r, err
	p.input.End()
	p.in.Close()
	p.stop(nil)
	close(p.over)
}

// End kills the process, and says what became of it.
func (p *Process) End(cause error) error {
	p.stop(cause)
	<-p.over
	if p.conn != nil {
		<-p.conn.Done()
	}
	return p.explain(cause)
}

// explain is an error about the server for the agent, with what the process has said
// about it.
func (p *Process) explain(err error) error {
	var wire *protocol.Error
	if errors.As(err, &wire) {
		return wire
	}
	if p.cfg.Cancelled(err) {
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
func (p *Process) result() string {
	var parts []string
	if isClosed(p.over) {
		switch r := p.ended; {
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

// A tail keeps the end of what is written to it, for an error to repeat.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const keep = 16 * maxServerWords
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p[max(0, len(p)-keep):]...)
	t.b = append(t.b[:0], t.b[max(0, len(t.b)-keep):]...)
	return len(p), nil
}

// last gives the end of the text, whole lines if there are any.
func (t *tail) last(n int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(t.b), "?"))
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	if _, rest, ok := strings.Cut(text, "\n"); ok && rest != "" {
		return rest
	}
	return strings.ToValidUTF8(text, "")
}
