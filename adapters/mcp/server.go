package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/protocol"
)

// A Backend is one session of a supervisor. Its methods are used by several
// goroutines at once.
type Backend interface {
	Tools(ctx context.Context) ([]protocol.Tool, error)
	// Call returns when the call is over, which is soon after ctx ends.
	// SessionID is that of the session, which is another one after a restart of the supervisor.
	SessionID(ctx context.Context) (protocol.SessionID, error)
	Call(ctx context.Context, tool protocol.ToolName, args json.RawMessage, watch Watch) (protocol.CallResult, error)
	// Close ends the session.
	Close() error
}

// A Watch hears of the progress of a call. Its functions may be nil.
type Watch struct {
	Call   protocol.CallID // what the call is to be named; "" is anything
	Output func(protocol.ToolOutput)
	State  func(protocol.ToolState)
}

// Config is the configuration of a server.
type Config struct {
	Version string
	// Agent is the agent's name; if it is "", the client's own name is used.
	Agent string
	// Open makes the session of one client when it first asks for something. The
	// name is a label for the approver and the log, and no proof of anything.
	Open func(agent string) Backend
	// Operator connects to the operator socket, so that clients' people can be asked where
	// the supervisor lets them; nil: clients are asked nothing.
	Operator func(ctx context.Context) (*client.Approver, error)
	Log      *slog.Logger // nil: nothing is logged

	last *lately // of all sessions; set by ServeHTTP and ServeStdio
}

// versions are the revisions of the protocol that have sessions: what a person
// allowed "for this session", the background tasks and the sandboxes hang on one.
func versions() []string { return []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"} }

const instructions = "sandgate checks every call: some run at once, some wait for a person's decision, which can take minutes, " +
	"and some are refused. A refusal says what is allowed instead; do that, or ask the user. Do not work around it."

// A conversation is the state that is kept for one client.
type conversation struct {
	cfg Config

	mu      sync.Mutex
	backend Backend
	closed  bool
	calls   int
	// asking is how the client's person is asked about the calls of askingFor, nil if not.
	asking    *elicitation
	askingFor protocol.SessionID
}

func (c Config) log() *slog.Logger { return cmp.Or(c.Log, slog.New(slog.DiscardHandler)) }

// server makes the MCP server of one client, and what it keeps.
func (c Config) server() (*mcp.Server, *conversation) {
	v := &conversation{cfg: c}
	s := mcp.NewServer(&mcp.Implementation{Name: "sandgate", Title: "sandgate", Version: c.Version}, &mcp.ServerOptions{
		Instructions:              instructions,
		Logger:                    c.log(),
		Capabilities:              &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		SupportedProtocolVersions: versions(),
	})
	s.AddReceivingMiddleware(v.receive)
	return s, v
}

// receive answers what is about tools; of the rest, the library knows what a
// server without resources and prompts says.
func (v *conversation) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		switch r := r.(type) {
		case *mcp.ListToolsRequest:
			return v.list(ctx, r)
		case *mcp.CallToolRequest:
			return v.call(ctx, r)
		}
		return next(ctx, method, r)
	}
}

func (v *conversation) list(ctx context.Context, r *mcp.ListToolsRequest) (mcp.Result, error) {
	b, err := v.open(r.Session)
	if err != nil {
		return nil, err
	}
	list, err := b.Tools(ctx)
	if err != nil {
		return nil, unreachable(err)
	}
	out := &mcp.ListToolsResult{Tools: []*mcp.Tool{}}
	for _, t := range list {
		if t.Unavailable == "" {
			out.Tools = append(out.Tools, tool(t))
		}
	}
	return out, nil
}

func (v *conversation) call(ctx context.Context, r *mcp.CallToolRequest) (mcp.Result, error) {
	b, err := v.open(r.Session)
	if err != nil {
		return nil, err
	}
	args := r.Params.Arguments
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	watch := progress(ctx, r)
	if e := v.asks(ctx, b, r.Session); e != nil {
		watch.Call = v.newCall()
		defer e.call(ctx, watch.Call)()
	}
	result, err := b.Call(ctx, protocol.ToolName(r.Params.Name), args, watch)
	if err == nil {
		return resultOf(protocol.ToolName(r.Params.Name), result), nil
	}
	var e *protocol.Error
	switch {
	case !errors.As(err, &e):
		return nil, unreachable(err)
	case e.Code == protocol.CodeUnknownTool:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: withHint(e)}
	}
	return refusalOf(e), nil
}

// open gives the client's session, made at its first request.
func (v *conversation) open(s *mcp.ServerSession) (Backend, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, errors.New("the session is over")
	}
	if v.backend == nil {
		v.backend = v.cfg.Open(cmp.Or(v.cfg.Agent, clientName(s)))
	}
	return v.backend, nil
}

// asks gives what asks the client's person about the calls of a session, nil if nothing
// does. Where it may not be, that is found out once for each session.
func (v *conversation) asks(ctx context.Context, b Backend, s *mcp.ServerSession) *elicitation {
	if v.cfg.Operator == nil || !elicits(s) {
		return nil
	}
	id, err := b.SessionID(ctx)
	if err != nil {
		return nil // the call will say so
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed || id == v.askingFor && (v.asking == nil || !v.asking.over()) {
		return v.asking
	}
	v.asking.close()
	v.asking, err = elicit(ctx, v.cfg.Operator, id, s, v.cfg.last)
	if v.askingFor = id; err != nil {
		v.cfg.log().Info("the client's user is not asked", "error", err)
	}
	return v.asking
}

func (v *conversation) newCall() protocol.CallID {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls++
	return protocol.CallID(fmt.Sprint("asked-", v.calls))
}

func (v *conversation) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.closed = true
	v.asking.close()
	if v.backend == nil {
		return nil
	}
	return v.backend.Close()
}

// clientName is the client's own name, as a label that the supervisor accepts.
func clientName(s *mcp.ServerSession) string {
	own := ""
	if p := s.InitializeParams(); p != nil && p.ClientInfo != nil {
		own = p.ClientInfo.Name
	}
	return protocol.AgentName("mcp", own)
}

// unreachable is a failure to reach the supervisor, not an answer from it.
func unreachable(err error) error {
	text := "sandgate: " + err.Error()
	var h interface{ Hint() string }
	if errors.As(err, &h) && h.Hint() != "" {
		text += "; " + h.Hint()
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text}
}

// ServeStdio serves one client on two streams until the first ends, or ctx does.
// The end of the input is the end of the client: what it has called is cancelled.
func ServeStdio(ctx context.Context, c Config, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.last = new(lately)
	s, v := c.server()
	s.AddReceivingMiddleware(endingWith(ctx))
	lines := &sharedWriter{Writer: out}
	messages := messagesOf(in, lines, protocol.MaxMessage)
	defer messages.Close()
	session, err := s.Connect(ctx, &mcp.IOTransport{
		Reader: io.NopCloser(watched{messages, cancel}), Writer: writeCloser{lines}, MaxLineLength: protocol.MaxMessage + 1, // and the end of the line
	}, nil)
	if err != nil {
		return fmt.Errorf("mcp: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		// What was called hears of it by endingWith, and its answer is still sent.
		err = session.Close()
		<-ended
	}
	return errors.Join(ignoreEnd(err), v.close())
}

// endingWith cancels what is under way when ctx ends. The library leaves the
// requests of a client that is gone to their own end.
func endingWith(ctx context.Context) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(own context.Context, method string, r mcp.Request) (mcp.Result, error) {
			own, cancel := context.WithCancelCause(own)
			defer cancel(nil)
			defer context.AfterFunc(ctx, func() { cancel(errGone) })()
			return next(own, method, r)
		}
	}
}

var errGone = errors.New("the client disconnected")

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed) {
		return nil
	}
	return err
}

// watched calls end when nothing more will come.
type watched struct {
	io.Reader
	end func()
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil {
		w.end()
	}
	return n, err
}

type writeCloser struct{ io.Writer }

func (writeCloser) Close() error { return nil }
