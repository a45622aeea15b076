package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
)

// Config is the configuration of a Server. A field left at zero has the default that
// stands beside it.
type Config struct {
	Version string
	Log     *slog.Logger // nil: nothing is logged

	// Limits of one connection.
	MaxCalls    int // requests that wait at once; 1024
	MaxSessions int // open sessions; 16384
	// QueueBytes bounds what is waiting to be read by a client; 32 MiB. Beyond it, only
	// the calls of that client wait.
	QueueBytes int
	// RequestBytes bounds the requests under way, in bytes of JSON; 64 MiB.
	RequestBytes int
	// MaxConnections bounds the connections of one socket; 1024, or an eighth of the
	// descriptors that this process may have, if that is less.
	MaxConnections int
	// StallTimeout is how long a client may leave everything unread before it is
	// dropped; 30 s. It also bounds the wait for initialize.
	StallTimeout time.Duration

	// Elicitation lets a process answer for the sessions that it has opened: see narrow.
	Elicitation bool

	// AllowDescendants lets processes connect that this one started. It is meant
	// for tests: outside them, a descendant is a tool in a sandbox.
	AllowDescendants bool
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *int
		value int
	}{
		{&c.MaxCalls, 1024}, {&c.MaxSessions, 1 << 14}, {&c.MaxConnections, maxConnections()},
		{&c.QueueBytes, 2 * protocol.MaxMessage}, {&c.RequestBytes, 4 * protocol.MaxMessage},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.StallTimeout <= 0 {
		c.StallTimeout = 30 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// maxConnections leaves descriptors for sandboxes, and for telling further clients that
// there are no more connections.
func maxConnections() int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return 64
	}
	return int(max(min(files.Cur/8, 1024), 1))
}

// A Server answers on the two sockets. Nothing that a peer sends can end it, or
// hold up another peer.
type Server struct {
	supervisor Supervisor
	cfg        Config
	leaving    chan struct{} // see turnAway
}

// New makes a server for g, which is a *Supervisor.
func New(g Supervisor, cfg Config) *Server {
	return &Server{supervisor: g, cfg: cfg.withDefaults(), leaving: make(chan struct{}, farewells)}
}

// ServeAgent answers agents on l until ctx ends, which is not an error. When it
// returns, l is closed and every call and session of its connections is over.
func (s *Server) ServeAgent(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, l, func(ctx context.Context, c *conn) {
		newAgentConn(c).serve(ctx)
	})
}

// ServeOperator is ServeAgent for operators.
func (s *Server) ServeOperator(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, l, func(ctx context.Context, c *conn) {
		newOperatorConn(c).serve(ctx)
	})
}

func (s *Server) serve(ctx context.Context, l net.Listener, handle func(context.Context, *conn)) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { l.Close() })
	var wg sync.WaitGroup
	defer func() {
		cancel()
		stop()
		l.Close()
		wg.Wait()
	}()
	slots := make(chan struct{}, s.cfg.MaxConnections)
	for {
		nc, err := accept(ctx, l)
		if ctx.Err() != nil {
			if nc != nil {
				nc.Close()
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept on %s: %w", l.Addr(), err)
		}
		select {
		case slots <- struct{}{}:
		default:
			s.turnAway(nc, protocol.Errorf(protocol.CodeTooManyRequests, "the server has as many connections as it allows"))
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			s.connection(ctx, nc, handle)
		})
	}
}

// accept waits out shortages, such as of descriptors: they pass, and a server
// that gives up would not.
func accept(ctx context.Context, l net.Listener) (net.Conn, error) {
	for {
		c, err := l.Accept()
		var ne net.Error
		if err == nil || errors.Is(err, net.ErrClosed) || !errors.As(err, &ne) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// farewell is how long a client that is turned away may take to read the reason, and
// farewells how many there are at once. Beyond that number, a further client is not
// waited for.
const (
	farewell  = time.Second
	farewells = 16
)

// turnAway says why, and closes. It does not close before the peer does if it can: a
// request that the peer is about to send would fail, and our word not be read.
func (s *Server) turnAway(nc net.Conn, e *protocol.Error) {
	_ = nc.SetDeadline(time.Now().Add(farewell)) // a peer that does not read must not hold us up
	line, err := protocol.EncodeError(protocol.RequestID{}, e)
	if err != nil {
		nc.Close()
		return
	}
	say := func() {
		defer nc.Close()
		if protocol.WriteMessage(nc, line) != nil {
			return
		}
		if half, ok := nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, io.LimitReader(nc, protocol.MaxMessage)) // until it has heard, or its time is over
		}
	}
	select {
	case s.leaving <- struct{}{}:
		go func() {
			defer func() { <-s.leaving }()
			say()
		}()
	default:
		_ = nc.SetReadDeadline(time.Now())
		say()
	}
}

func (s *Server) connection(ctx context.Context, nc net.Conn, handle func(context.Context, *conn)) {
	peer, err := unixsock.PeerOf(nc)
	if err == nil {
		err = s.admit(peer)
	}
	if confine.IsShortage(err) {
		s.turnAway(nc, protocol.Errorf(protocol.CodeTooManyRequests, "the server cannot open another file to check who connects").WithHint("connect again in a moment"))
		return
	}
	if err != nil {
		s.cfg.Log.Warn("connection refused", "peer", peer.String(), "error", err)
		s.turnAway(nc, protocol.Errorf(protocol.CodeDenied, "this process may not connect"))
		return
	}
	c := newConn(s, nc, peer)
	defer c.close()
	handle(ctx, c)
}

// admit turns away what runs in a sandbox of ours, should it ever reach the
// socket: a tool must not be able to ask for, or approve, its own next call.
func (s *Server) admit(p unixsock.Peer) error {
	if s.cfg.AllowDescendants || p.PID == os.Getpid() {
		return nil
	}
	inside, err := unixsock.IsDescendant(p.PID, os.Getpid())
	if err != nil {
		return fmt.Errorf("who is process %d: %w", p.PID, err)
	}
	if inside {
		return errors.New("it was started by this server, so it is a tool in a sandbox")
	}
	return nil
}

// internalError hides what a peer has no business with, and keeps it for the log.
func (s *Server) internalError(name protocol.Method, err any) *protocol.Error {
	s.cfg.Log.Error("request failed", "method", string(name), "error", err)
	return protocol.Errorf(protocol.CodeInternal, "internal error of sandgate; the server's log has the details").
		WithHint("nothing is known to be wrong with the request")
}
