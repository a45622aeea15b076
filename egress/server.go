package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// A Resolver finds the addresses of a name. *net.Resolver is one. It is called
// with network "ip" and the name with its final dot, so that no search domain of
// the host is appended.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// A Dialer connects to an address, which is never a name. *net.Dialer is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// An Identity says whose connections these are.
type Identity struct {
	Session string
	Call    string
}

// A Request asks the operator whether a connection is allowed. The name has not been resolved,
// because a lookup already sends the name to its name servers.
type Request struct {
	Identity
	Target   Target
	Protocol Protocol
	Service  string // of this machine, if the target is the name of one
}

// Config says what a Server lets through. The zero Config lets nothing through.
type Config struct {
	// Allow holds rules (see Rule). A target must match one of every inner list,
	// as in sandboxprofile.Network.Allow. No list at all allows nothing.
	Allow [][]string
	// Deny holds rules that win over Allow and over what the operator answers.
	Deny []string
	// AllowPrivate lets names lead to private addresses (RFC 1918, RFC 4193, RFC
	// 6598). Loopback, link-local, metadata and this machine's own addresses stay
	// refused: they have to be listed as addresses.
	AllowPrivate bool
	// AllowECH lets TLS connections with an encrypted ClientHello through, held to
	// its outer name alone. Servers that host many sites then choose among them
	// by a name that cannot be seen.
	AllowECH bool

	// Credentials are secrets that are used and not seen.
	Credentials []Credential
	// Authority signs for the hosts that have a credential, where TLS ends here.
	// Without one of these hosts it may be nil.
	Authority *Authority
	// RootCAs are the authorities by which such a host is checked; nil: the machine's.
	RootCAs *x509.CertPool

	// Ask is called for a target that is on no list; nil denies it. It must end
	// when ctx does, which is at the latest after Limits.Ask. What it answers
	// holds for the connections that are waiting for it: remembering is its own
	// matter.
	Ask func(ctx context.Context, r Request) (bool, error)
	// Use is called before secrets are put into a request to t, and its error refuses that. It must end when ctx
	// does, which is at the latest after Limits.Ask. With nil each is used.
	Use func(ctx context.Context, t Target, names []string) error
	// Audit is called when a connection has ended, from many goroutines. Required.
	Audit func(Event)
	// Identity is called when a connection is accepted. It may be nil.
	Identity func() Identity

	// Hostname is the sandbox's own name, which leads to its loopback.
	Hostname string

	// Own answers connections to services of the supervisor's own, each in a goroutine; it
	// must end when the connection does.
	Own map[string]func(net.Conn)

	// Upstream is the way to hosts that are not services; the zero value is the direct
	// way.
	Upstream Upstream

	Resolver  Resolver                     // nil: the host's
	Dialer    Dialer                       // nil: plain TCP
	HostAddrs func() ([]netip.Addr, error) // this machine's addresses; nil: asks the kernel
	Limits    Limits
}

// Limits bound what clients can use up. A zero field is its default.
type Limits struct {
	Connections int           // open at once; 1024. One more is closed at once
	Total       int           // over the life of the Server, each request of a connection being one; no limit. The first one more is recorded, and at the end their number
	Questions   int           // targets being asked about at once; 16
	HeaderBytes int           // request line and header, response header; 64 KiB
	ConnBytes   int64         // both directions of one connection; no limit
	Bytes       int64         // both directions of all connections together; no limit
	Header      time.Duration // from connecting to a complete request; 10 s
	Idle        time.Duration // without a byte in either direction; 5 min
	Dial        time.Duration // resolving and connecting; 30 s
	Ask         time.Duration // waiting for the operator; 2 min
}

func orDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

func (l *Limits) setDefaults() {
	orDefault(&l.Connections, 1024)
	orDefault(&l.Total, math.MaxInt)
	orDefault(&l.Questions, 16)
	orDefault(&l.HeaderBytes, 64<<10)
	orDefault(&l.ConnBytes, math.MaxInt64)
	orDefault(&l.Bytes, math.MaxInt64)
	orDefault(&l.Header, 10*time.Second)
	orDefault(&l.Idle, 5*time.Minute)
	orDefault(&l.Dial, 30*time.Second)
	orDefault(&l.Ask, 2*time.Minute)
}

// A Server is the filtering proxy of one sandbox. It is safe for concurrent use.
type Server struct {
	cfg         Config
	policy      policy
	credentials credentials
	standIns    *standIns
	answering   sync.WaitGroup // of Config.Own
	asking      questions
	asked       asked
	taken       atomic.Int64 // connections, of Limits.Total
	slots       chan struct{}
	splices     chan struct{} // directions of connections whose bytes stay in the kernel
	spent       atomic.Int64  // of Limits.Bytes
	silences    atomic.Int64  // how many of
	silent      sync.Map      // names that have no address here, and the upstream can look up
	direction   Direction     // of every connection
	ending      ending
	buffers     sync.Pool              // of *[]byte, for copying
	sessions    tls.ClientSessionCache // with hosts where TLS ends here
}

// New checks the rules. Every rule that is wrong is in the error.
func New(cfg Config) (*Server, error) {
	if cfg.Audit == nil {
		return nil, errors.New("egress: Config.Audit is missing: every connection must be recorded")
	}
	p, err := newPolicy(cfg.Allow, cfg.Deny)
	if err != nil {
		return nil, err
	}
	credentials, err := newCredentials(cfg.Credentials, cfg.Authority)
	if err != nil {
		return nil, err
	}
	cfg.Limits.setDefaults()
	if cfg.Identity == nil {
		cfg.Identity = func() Identity { return Identity{} }
	}
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if cfg.Dialer == nil {
		cfg.Dialer = &net.Dialer{}
	}
	if cfg.HostAddrs == nil {
		cfg.HostAddrs = hostAddrs
	}
	s := &Server{cfg: cfg, policy: p, credentials: credentials, slots: make(chan struct{}, cfg.Limits.Connections), splices: make(chan struct{}, maxSplices), sessions: tls.NewLRUClientSessionCache(0)}
	s.standIns = newStandIns(p)
	s.ending.begun, s.ending.begin = context.WithCancel(context.Background())
	s.ending.atMost = finishTime
	s.asking.open = map[Target]*question{}
	s.asked.refused = map[Host]struct{}{}
	s.buffers.New = func() any { b := make([]byte, largeBuffer); return &b }
	return s, nil
}

// Serve is ServeWays for a proxy alone.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return s.ServeWays(ctx, Ways{Proxy: l})
}

// ServeWays accepts connections until ctx is done or a socket fails, and returns when
// the last of them has ended, which ctx brings about. It closes the sockets. The error
// is nil if ctx ended it.
func (s *Server) ServeWays(ctx context.Context, w Ways) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.recordRest()
	defer s.recordFurther()
	errs := make(chan error, len(w.Streams)+2)
	var serving sync.WaitGroup
	start := func(serve func() error) {
		serving.Go(func() { errs <- serve(); cancel() })
	}
	if w.Proxy != nil {
		start(func() error { return s.acceptAll(ctx, w.Proxy, (*client).serve) })
	}
	for _, l := range w.Streams {
		start(func() error { return s.acceptAll(ctx, l, (*client).serveDirect) })
	}
	if w.Names != nil {
		start(func() error { return s.serveNames(ctx, w.Names) })
	}
	serving.Wait()
	s.answering.Wait() // their connections are closed
	select {
	case err := <-errs: // the first, which ended the others
		return err
	default:
		return nil // there was nothing to serve
	}
}

// acceptAll has serve serve each connection of l.
func (s *Server) acceptAll(ctx context.Context, l net.Listener, serve func(*client, context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	var conns sync.WaitGroup
	defer conns.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	for pause := time.Duration(0); ; {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				conn.Close()
			}
			return nil
		case err != nil && isTemporary(err):
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			wait(ctx, pause)
			continue
		case err != nil:
			return fmt.Errorf("egress: accept: %w", err)
		}
		pause = 0
		s.accept(ctx, &conns, conn, serve)
	}
}

// isTemporary recognises errors such as EMFILE and ECONNABORTED, after which a
// listener goes on. The method is deprecated for its vagueness elsewhere; for
// accept(2) it is the list that net/http uses too.
func isTemporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// accept starts a connection, or closes it if there are too many.
func (s *Server) accept(ctx context.Context, conns *sync.WaitGroup, conn net.Conn, serve func(*client, context.Context)) {
	if s.exhausted() {
		conn.Close()
		return
	}
	c := s.newClient(conn)
	c.ctx = ctx
	select {
	case s.slots <- struct{}{}:
	default:
		a := c.attempt("")
		a.finish(refuse(ReasonLimit, Target{}, "more than %d connections at once", s.cfg.Limits.Connections))
		conn.Close()
		return
	}
	conns.Go(func() {
		defer func() { <-s.slots }()
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		if err := guarded(func() error { serve(c, ctx); return nil }); err != nil {
			c.attempt("").finish(err)
		}
	})
}

// exhausted counts a connection against Limits.Total. Past it only the first is
// recorded by itself: a program that connects in a loop must not fill the log.
func (s *Server) exhausted() bool {
	over := s.taken.Add(1) - int64(s.cfg.Limits.Total)
	if over == 1 {
		s.recordLimit("more than %d connections in all", s.cfg.Limits.Total)
	}
	return over > 0
}

// recordRest says how many connections were closed without an entry of their own.
func (s *Server) recordRest() {
	if rest := s.taken.Load() - int64(s.cfg.Limits.Total) - 1; rest > 0 {
		s.recordLimit("%d further connections past the limit of %d", rest, s.cfg.Limits.Total)
	}
}

func (s *Server) recordLimit(format string, args ...any) {
	c := &client{Server: s, who: s.cfg.Identity()}
	c.attempt("").finish(refuse(ReasonLimit, Target{}, format, args...))
}

// A client is one connection from inside the sandbox.
type client struct {
	*Server
	who  Identity
	conn *stream
	r    *bufio.Reader   // of conn
	ctx  context.Context // ends with the server

	sealed   bool // this is what a host with a credential is sent inside TLS
	answered bool // a response to the present request has begun
}

func (s *Server) newClient(conn net.Conn) *client {
	c := &client{Server: s, who: s.cfg.Identity(), conn: newStream(conn, s.cfg.Limits.Idle, &activity{})}
	c.r = bufio.NewReader(c.conn)
	return c
}

// serve tells the protocols apart by their first byte: SOCKS begins with its
// version, an HTTP method with a letter.
func (c *client) serve(ctx context.Context) {
	c.conn.limitReads(c.cfg.Limits.Header)
	first, err := c.r.Peek(1)
	if err != nil {
		c.attempt("").finish(fmt.Errorf("connected and sent nothing: %w", err))
		return
	}
	switch first[0] {
	case socksVersion:
		c.serveSOCKS(ctx)
	case 4:
		a := c.attempt("")
		c.conn.Write([]byte{0, 0x5b, 0, 0, 0, 0, 0, 0}) // "request rejected" of SOCKS 4
		a.finish(refuse(ReasonUnsupported, Target{}, "SOCKS 4 is not supported; use SOCKS 5"))
	case recordHandshake:
		c.conn.Write(alert(alertUnexpected))
		c.attempt("").finish(refuse(ReasonUnsupported, Target{}, "TLS to the proxy itself is not supported; its URL begins with http://"))
	default:
		c.serveHTTP(ctx)
	}
}

// guarded calls f and turns a panic into an error: a mistake in the handling of one
// connection must not end the supervisor and with it every other call.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Refusal{Reason: ReasonInternal, Err: fmt.Errorf("bug in egress: %v\n%s", p, debug.Stack())}
		}
	}()
	return f()
}

// An attempt is one requested connection, whose Event is not complete yet.
type attempt struct {
	c     *client
	event Event
	meter *meter // set once dialled
	done  bool
}

func (c *client) attempt(p Protocol) *attempt {
	return &attempt{c: c, event: Event{
		Session: c.who.Session, Call: c.who.Call, Direction: c.direction, Protocol: p, Start: time.Now(),
	}}
}

// maxDetail bounds what a client can make the log grow by.
const maxDetail = 1024

// finish records the attempt. An error after the connection was allowed is how it
// ended, unless it is a refusal of what went on inside. Only the first call counts.
func (a *attempt) finish(err error) {
	if a.done {
		return
	}
	a.done = true
	e := &a.event
	e.Duration = time.Since(e.Start)
	if a.meter != nil {
		e.Up, e.Down = a.meter.up.Load(), a.meter.down.Load()
	}
	if err != nil {
		r := asRefusal(err)
		e.Refused = r.Addresses
		e.Reason, e.Detail = r.Reason, a.c.credentials.blot(r.Err.Error()) // a service's words may be in it
		e.Detail = e.Detail[:min(len(e.Detail), maxDetail)]
		if r.Reason != ReasonBroken && r.Reason != ReasonTimeout && r.Reason != ReasonLimit && r.Reason != ReasonUnreachable {
			e.Decision = Deny
		}
	}
	a.c.cfg.Audit(*e)
}
