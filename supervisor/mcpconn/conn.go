// Package mcpconn speaks the Model Context Protocol with a server that is treated
// as an attacker's: it runs in a sandbox, and whatever it writes comes through
// here.
//
// Everything that a server could do without end has a bound: the length of a message,
// how much it sends unasked, how much it leaves unread, the pages of a list. Beyond
// one the conversation is over, and the error says which. No message starts a
// goroutine. What servers may ask of clients (sampling, elicitation, roots) is
// answered with an error, and offered to none.
package mcpconn

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/sandgate/sandgate/approval"
)

// Limits bound a conversation. The zero value of each is its default.
type Limits struct {
	// Message is how long a message may be, in bytes; 16 MiB.
	Message int
	// Unasked and UnaskedBytes bound what the server says between two of our requests
	// without being an answer; 10,000 messages, 64 MiB.
	Unasked, UnaskedBytes int
	// List bounds what the server lists, in bytes; 8 MiB.
	List int
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		field *int
		value int
	}{{&l.Message, 16 << 20}, {&l.Unasked, 10_000}, {&l.UnaskedBytes, 64 << 20}, {&l.List, 8 << 20}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return l
}

// A Conn is one conversation. Its methods are safe for concurrent use.
type Conn struct {
	send   func(line []byte) error
	limits Limits
	notify func(method string, params json.RawMessage)

	done    chan struct{} // closed when the reader has ended
	changed atomic.Bool   // the list of tools

	mu      sync.Mutex
	last    int64
	waiting map[int64]chan response
	unasked int
	bytes   int
	err     error
}

type response struct {
	result json.RawMessage
	err    error
}

// New begins a conversation. send queues a line for the server, and fails when the
// server leaves too much unread; what the server writes is read from out, until its
// end. notify, which may be nil, is given the notifications of the server, on the
// reading goroutine.
func New(send func([]byte) error, out io.Reader, l Limits, notify func(method string, params json.RawMessage)) *Conn {
	c := &Conn{send: send, limits: l.withDefaults(), notify: notify, done: make(chan struct{}), waiting: map[int64]chan response{}}
	go c.read(out)
	return c
}

// Done is closed when the conversation is over; Err then says why.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is why the conversation is over; nil while it is not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Changed reports whether the server has said, since it was last asked, that its list
// of tools is another.
func (c *Conn) Changed() bool { return c.changed.Load() }

// A FaultError says what a server did that no server may do.
type FaultError struct{ Reason string }

func (e *FaultError) Error() string { return "it " + e.Reason }

func fault(format string, args ...any) error { return &FaultError{fmt.Sprintf(format, args...)} }

// A ServerError is an error that a server answers with.
type ServerError struct {
	Code    int64
	Message string // the server's own words
	Data    json.RawMessage
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("error %d: %s", e.Code, approval.EscapeLine(cut(e.Message)))
}

// cut bounds the words of a server in a message of ours.
func cut(s string) string {
	const limit = 300
	if len(s) <= limit {
		return s
	}
	return string(bytes.ToValidUTF8([]byte(s[:limit]), nil)) + "..."
}

var errEnded = errors.New("it closed its output")

func (c *Conn) read(out io.Reader) {
	defer close(c.done)
	r := bufio.NewReaderSize(out, 32<<10)
	for {
		line, err := c.line(r)
		if err == nil {
			err = c.take(line)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// line gives the next line that is not empty.
func (c *Conn) line(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > c.limits.Message {
			return nil, fault("wrote a message of more than %d bytes", c.limits.Message)
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, errEnded // what was cut off is no message
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

// A message is any of the four kinds.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *wireError      `json:"error,omitempty"`
}

type wireError struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func parse(line []byte) (message, error) {
	var m message
	if !utf8.Valid(line) || json.Unmarshal(line, &m) != nil || m.JSONRPC != "2.0" {
		return m, fault("wrote something other than a message to its standard output: %s", approval.EscapeLine(cut(string(line))))
	}
	return m, nil
}

// take acts on one message. Its error ends the conversation.
func (c *Conn) take(line []byte) error {
	m, err := parse(line)
	if err != nil {
		return err
	}
	if m.Method == "" {
		if c.answered(m) {
			return nil
		}
		return c.count(len(line)) // to what was cancelled, or to nothing
	}
	if err := c.count(len(line)); err != nil {
		return err
	}
	switch {
	case len(m.ID) > 0:
		return c.reply(m)
	case m.Method == "notifications/tools/list_changed":
		c.changed.Store(true)
	}
	if c.notify != nil {
		c.notify(m.Method, m.Params)
	}
	return nil
}

// answered hands an answer to the call that waits for it.
func (c *Conn) answered(m message) bool {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil {
		return false
	}
	c.mu.Lock()
	ch, ok := c.waiting[id]
	delete(c.waiting, id)
	c.mu.Unlock()
	if !ok {
		return false
	}
	r := response{result: m.Result}
	switch {
	case m.Error != nil:
		r.err = &ServerError{m.Error.Code, m.Error.Message, m.Error.Data}
	case len(m.Result) == 0:
		r.err = fault("answers with neither a result nor an error")
	}
	ch <- r
	return true
}

// count bounds messages that nothing asked for.
func (c *Conn) count(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unasked++
	c.bytes += n
	if c.unasked > c.limits.Unasked || c.bytes > c.limits.UnaskedBytes {
		return fault("wrote %d messages, %d bytes, without a request", c.unasked, c.bytes)
	}
	return nil
}

// methodNotFound is JSON-RPC's number for a method that is not offered.
const methodNotFound = -32601

// reply answers a request of the server's: there is one that it may make.
func (c *Conn) reply(m message) error {
	out := message{JSONRPC: "2.0", ID: m.ID, Result: json.RawMessage("{}")}
	if m.Method != "ping" {
		out.Result, out.Error = nil, &wireError{Code: methodNotFound, Message: "this client offers nothing to its servers"}
	}
	return c.write(out)
}

func (c *Conn) write(m message) error {
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("mcp: %w", err)
	}
	return c.send(append(line, '\n'))
}

// fail ends every request that waits.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for id, ch := range c.waiting {
		delete(c.waiting, id)
		ch <- response{err: err}
	}
}

// Request makes a request and waits for its answer. When ctx ends first the server
// gets a cancellation, and its later answer is dropped. The error is a *ServerError,
// a *FaultError, that of ctx, or says that the server is gone.
func (c *Conn) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	id, answer, err := c.expect()
	if err != nil {
		return nil, err
	}
	if err := c.write(message{JSONRPC: "2.0", ID: strconv.AppendInt(nil, id, 10), Method: method, Params: raw}); err != nil {
		c.forget(id)
		return nil, err
	}
	select {
	case r := <-answer:
		return r.result, r.err
	case <-ctx.Done():
	}
	c.forget(id)
	_ = c.Notify("notifications/cancelled", map[string]any{"requestId": id, "reason": "cancelled"}) // or it reads nothing any more
	return nil, context.Cause(ctx)
}

// Notify tells the server something.
func (c *Conn) Notify(method string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return c.write(message{JSONRPC: "2.0", Method: method, Params: raw})
}

func (c *Conn) expect() (int64, chan response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, nil, c.err
	}
	c.last++
	c.unasked, c.bytes = 0, 0
	ch := make(chan response, 1)
	c.waiting[c.last] = ch
	return c.last, ch, nil
}

func (c *Conn) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}
