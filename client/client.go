// Package client talks to a sandgate supervisor: as an agent that calls tools,
// or as an approver that answers for them.
//
//	a, err := client.DialAgent(ctx, "")          // "" is the user's own supervisor
//	s, err := a.OpenSession(ctx, protocol.SessionOpen{Agent: "my-agent"})
//	r, err := s.Call(ctx, "shell", map[string]any{"command": "go test ./..."})
//
// A refusal is an error: *protocol.Error, with a code, a message for people and
// a hint for the model. A program that ran and failed is a result with its exit
// code, and no error.
//
// All methods may be used by several goroutines at once. The functions given to
// OnOutput and OnState run on the connection's reading goroutine: they must not
// call the client, and while one does not return, nothing else arrives.
package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/go-json-experiment/json"

	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
)

// ErrClosed is the error of requests on a connection that is over.
var ErrClosed = errors.New("the connection to the supervisor is closed")

// A DialError says that no supervisor could be reached.
type DialError struct {
	Path string
	Err  error
}

func (e *DialError) Error() string {
	return fmt.Sprintf("connect to the supervisor at %q: %v", e.Path, e.Err)
}
func (e *DialError) Unwrap() error { return e.Err }

// Hint says what a person can do about the error.
func (e *DialError) Hint() string {
	return "is it running? start one with `sandgate serve`, or name its socket"
}

// An Option changes how a connection is made.
type Option func(*options)

type options struct{ program protocol.Program }

// WithProgram names the connecting program in the supervisor's log.
func WithProgram(name, version string) Option {
	return func(o *options) { o.program = protocol.Program{Name: name, Version: version} }
}

// dial connects and says initialize.
func dial(ctx context.Context, path, name string, to receiver, opts []Option) (*link, protocol.Initialized, error) {
	o := options{program: protocol.Program{Name: "sandgate-client"}}
	for _, opt := range opts {
		opt(&o)
	}
	var hello protocol.Initialized
	if path == "" {
		var err error
		if path, err = unixsock.DefaultPath(name); err != nil {
			return nil, hello, &DialError{name, err}
		}
	}
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, hello, &DialError{path, err}
	}
	l := newLink(nc, to)
	about := protocol.InitializeParams{ProtocolVersion: protocol.Version, Client: o.program, RawOutput: to.output != nil}
	err = l.request(ctx, protocol.MethodInitialize, about, &hello)
	var refused *protocol.Error
	if errors.As(err, &refused) && refused.Field == "params.raw_output" { // an older supervisor
		about.RawOutput = false
		err = l.request(ctx, protocol.MethodInitialize, about, &hello)
	}
	if err != nil {
		l.close()
		return nil, hello, fmt.Errorf("initialize: %w", err)
	}
	return l, hello, nil
}

// A link is one connection: requests go out, and answers find their way back.
type link struct {
	conn net.Conn
	to   receiver
	name string        // random: what tells its calls from those of other connections
	done chan struct{} // closed when the reader has ended

	write sync.Mutex

	mu      sync.Mutex
	last    int64
	waiting map[protocol.RequestID]chan protocol.Message
	err     error // why the connection is over
}

// A receiver gets messages that do not belong to a request. One with output asks for raw output
// and gets it by that, and the rest by notify.
type receiver struct {
	notify func(protocol.Message)
	output func(protocol.RawOutput)
}

func newLink(nc net.Conn, to receiver) *link {
	l := &link{conn: nc, to: to, name: strings.ToLower(rand.Text()[:10]), done: make(chan struct{}), waiting: map[protocol.RequestID]chan protocol.Message{}}
	go l.read()
	return l
}

func (l *link) close() error {
	err := l.conn.Close()
	<-l.done
	return err
}

// request sends one request and waits for its answer or the end of ctx. It does
// not tell the server when ctx ends.
func (l *link) request(ctx context.Context, method protocol.Method, params, result any) error {
	answer, forget, err := l.send(method, params)
	if err != nil {
		return err
	}
	defer forget()
	select {
	case m, ok := <-answer:
		return l.decode(m, ok, result)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// send starts a request. The channel gets its answer, or is closed without one
// when the connection ends.
func (l *link) send(method protocol.Method, params any) (answer <-chan protocol.Message, forget func(), err error) {
	id, ch, err := l.expect()
	if err != nil {
		return nil, nil, err
	}
	forget = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.waiting, id)
	}
	line, err := protocol.EncodeRequest(id, method, params)
	if err == nil {
		l.write.Lock()
		err = protocol.WriteMessage(l.conn, line)
		l.write.Unlock()
	}
	if err != nil {
		forget()
		return nil, nil, fmt.Errorf("%s: %w", method, l.unsent(err))
	}
	return ch, forget, nil
}

// unsent is why a request could not be written. A server that turns a connection away
// says why and hangs up: what it said may wait to be read when we write.
func (l *link) unsent(err error) error {
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, net.ErrClosed) {
		return err
	}
	<-l.done // what was said is read to its end, which is there
	return l.failure()
}

func (l *link) expect() (protocol.RequestID, chan protocol.Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return protocol.RequestID{}, nil, l.err
	}
	l.last++
	id := protocol.NumberID(l.last)
	ch := make(chan protocol.Message, 1)
	l.waiting[id] = ch
	return id, ch, nil
}

func (l *link) decode(m protocol.Message, ok bool, result any) error {
	if !ok {
		return l.failure()
	}
	if m.Error != nil {
		return m.Error
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("the supervisor's answer: %w", err)
	}
	return nil
}

func (l *link) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// read delivers what arrives until the connection ends.
func (l *link) read() {
	defer close(l.done)
	r := protocol.NewReader(l.conn)
	for {
		line, err := r.Next()
		if err == nil {
			err = l.deliver(r, line)
		}
		if err != nil {
			l.fail(err)
			return
		}
	}
}

func (l *link) deliver(r *protocol.Reader, line []byte) error {
	if l.to.output != nil {
		if o, ok := protocol.ParseRawHeader(line); ok {
			return l.deliverRaw(r, o)
		}
	}
	m, err := protocol.ParseFromServer(line)
	if err != nil {
		return err
	}
	if m.Method != "" {
		l.to.notify(m)
		return nil
	}
	if m.ID.IsZero() { // an error that belongs to no request: the connection is of no use
		return m.Error
	}
	l.mu.Lock()
	ch := l.waiting[m.ID]
	delete(l.waiting, m.ID)
	l.mu.Unlock()
	if ch != nil {
		ch <- m
	}
	return nil
}

// deliverRaw hands on the bytes behind a line as they come.
func (l *link) deliverRaw(r *protocol.Reader, o protocol.ToolOutput) error {
	for left := o.RawBytes; left > 0; {
		b, err := r.NextRaw(left)
		if err != nil {
			return err
		}
		left -= int64(len(b))
		l.to.output(protocol.RawOutput{CallID: o.CallID, Stream: o.Stream, Data: b})
	}
	return nil
}

// fail ends every request that waits.
func (l *link) fail(err error) {
	l.conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = ErrClosed
	var e *protocol.Error
	if errors.As(err, &e) {
		l.err = fmt.Errorf("%w: %w", ErrClosed, e)
	}
	for id, ch := range l.waiting {
		delete(l.waiting, id)
		close(ch)
	}
}

// newCallID makes call ids that are unique in a session, whatever connections are in it.
func (l *link) newCallID() protocol.CallID {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	return protocol.CallID("call-" + l.name + "-" + strconv.FormatInt(l.last, 10))
}
