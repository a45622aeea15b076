package server

import (
	"bytes"
	"context"
	"errors"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
)

// A conn is shared by both kinds of connection: framing, the requests under way, and
// the queue of outgoing messages.
type conn struct {
	server *Server
	net    net.Conn
	peer   unixsock.Peer
	out    *queue
	raw    bool // it has asked for raw output, before anything could be called

	// Used by the reading goroutine only.
	initialized bool
	used        map[protocol.Method]bool

	mu       sync.Mutex
	inFlight map[protocol.RequestID]int // length of the request in bytes
	bytes    int
	running  sync.WaitGroup
}

func newConn(s *Server, nc net.Conn, peer unixsock.Peer) *conn {
	return &conn{
		server: s, net: nc, peer: peer,
		out:      newQueue(nc, s.cfg.QueueBytes, s.cfg.StallTimeout),
		used:     map[protocol.Method]bool{},
		inFlight: map[protocol.RequestID]int{},
	}
}

// close sends what can still be sent.
func (c *conn) close() {
	c.out.close()
	c.net.Close()
}

// serveConn reads requests until the client is gone or ctx ends. Then the
// requests that still run are cancelled, waited for, and answered if anybody
// still reads.
func serveConn[C any](ctx context.Context, c *conn, self C, methods table[C]) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(ctx, func() { // wakes the reader, from reading and from answering
		c.net.SetReadDeadline(time.Unix(1, 0))
		c.out.drain()
	})
	defer stop()
	defer c.running.Wait()
	defer c.out.drain() // what is cancelled must not wait for a client that does not read
	defer cancel(ErrDisconnected)
	r := protocol.NewReader(c.net)
	for {
		line, err := r.ReadMessage()
		var tooLarge *protocol.Error
		switch {
		case errors.As(err, &tooLarge):
			c.reply(protocol.RequestID{}, nil, tooLarge)
			continue
		case err != nil || c.out.broken() || ctx.Err() != nil:
			return
		}
		dispatch(ctx, c, self, methods, line)
	}
}

var ErrDisconnected = errors.New("the client disconnected")

// dispatch answers one message, or starts what will.
func dispatch[C any](ctx context.Context, c *conn, self C, methods table[C], line []byte) {
	m, perr := protocol.ParseRequest(line)
	if perr != nil {
		c.reply(m.ID, nil, perr)
		return
	}
	row, perr := methods.allowed(m.Method, c.initialized, c.used)
	if perr == nil {
		perr = c.begin(m.ID, len(line))
	}
	if perr != nil {
		c.reply(m.ID, nil, perr)
		return
	}
	if row.long {
		c.running.Go(func() { answer(ctx, c, self, row, m) })
		return
	}
	if answer(ctx, c, self, row, m) {
		c.used[m.Method] = true
		c.initialized = c.initialized || m.Method == protocol.MethodInitialize
	}
}

// begin notes a request under way.
func (c *conn) begin(id protocol.RequestID, size int) *protocol.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.inFlight[id]; ok {
		return protocol.Errorf(protocol.CodeDuplicateRequest, "the request with id %s is not answered yet", id)
	}
	if len(c.inFlight) >= c.server.cfg.MaxCalls || c.bytes+size > c.server.cfg.RequestBytes {
		return protocol.Errorf(protocol.CodeTooManyRequests, "%d requests of this connection are under way", len(c.inFlight)).
			WithHint("wait for some of them to be answered")
	}
	c.inFlight[id] = size
	c.bytes += size
	return nil
}

func (c *conn) end(id protocol.RequestID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= c.inFlight[id]
	delete(c.inFlight, id)
}

// answer runs a handler and replies, and reports whether it succeeded. A panic
// is a bug of ours; it costs the request, and not everybody else's calls.
func answer[C any](ctx context.Context, c *conn, self C, row method[C], m protocol.Message) (ok bool) {
	var result any
	var err error
	func() {
		defer func() {
			if p := recover(); p != nil {
				c.server.cfg.Log.Error("panic", "value", p, "stack", string(debug.Stack()))
				err = c.server.internalError(m.Method, p)
			}
		}()
		result, err = row.handle(self, ctx, m)
	}()
	c.end(m.ID)
	if err == nil {
		c.reply(m.ID, result, nil)
		return true
	}
	var wire *protocol.Error
	if !errors.As(err, &wire) {
		wire = c.server.internalError(m.Method, err)
	}
	c.reply(m.ID, nil, wire)
	return false
}

func (c *conn) reply(id protocol.RequestID, result any, e *protocol.Error) {
	line, err := encodeReply(id, result, e)
	if err != nil {
		line, _ = protocol.EncodeError(id, c.server.internalError("", err))
	}
	c.out.push(append(line, '\n'))
}

// encodeReply makes a response that fits into one message. callResult sees to that
// for what programs write; what else does not fit is left out of the result.
func encodeReply(id protocol.RequestID, result any, e *protocol.Error) ([]byte, error) {
	if e != nil {
		return encodeError(id, e)
	}
	if r, ok := result.(protocol.CallResult); ok && TooLong(r) {
		result = noContent(r)
	}
	line, err := protocol.EncodeResult(id, result)
	if err != nil || len(line) <= protocol.MaxMessage {
		return line, err
	}
	if r, ok := result.(protocol.CallResult); ok {
		return protocol.EncodeResult(id, noContent(r))
	}
	if b, ok := result.(protocol.BatchResult); ok && len(b.Results) > 0 {
		return encodeReply(id, withoutContents(b), nil)
	}
	return protocol.EncodeError(id, protocol.Errorf(protocol.CodeMessageTooLarge, "the result is longer than %d bytes", protocol.MaxMessage))
}

// encodeError leaves out of an error what the call had written before it was
// stopped, if that does not fit.
func encodeError(id protocol.RequestID, e *protocol.Error) ([]byte, error) {
	if e.Result != nil && TooLong(*e.Result) {
		short, r := *e, noContent(*e.Result)
		short.Result = &r
		e = &short
	}
	return protocol.EncodeError(id, e)
}

// fewPieces is a number of pieces of output whose names, together, do not matter.
const fewPieces = 4096

// TooLong reports whether what a call wrote would not fit into one message as JSON.
// It is asked before anything is encoded: a byte that has to be escaped takes six,
// and the encoder several copies of them all.
func TooLong(r protocol.CallResult) bool {
	const perPiece = 64 // the names around it
	n := len(r.Structured)
	if 6*size(r.Content) < protocol.MaxMessage/2 && len(r.Content) <= fewPieces && n < protocol.MaxMessage/4 {
		return false // however it is escaped
	}
	for _, c := range r.Content {
		n += perPiece + len(c.Text) + len(c.Blob)*4/3
		for i := range len(c.Text) {
			n += int(escaping[c.Text[i]])
		}
	}
	const rest = 1 << 20 // for everything else in the message
	return n > protocol.MaxMessage-rest
}

// escaping is how many more bytes each byte may take in a JSON string.
var escaping = func() (more [256]uint8) {
	for b := range ' ' {
		more[b] = 5
	}
	for _, b := range []byte("<>&") {
		more[b] = 5
	}
	for _, b := range []byte("\"\\\n\r\t") {
		more[b] = 1
	}
	return more
}()

func size(list []protocol.Content) (n int) {
	for _, c := range list {
		n += len(c.Text) + len(c.Blob)
	}
	return n
}

func noContent(r protocol.CallResult) protocol.CallResult {
	r.Content, r.Structured, r.Truncated = []protocol.Content{}, nil, true
	r.Warnings = append(r.Warnings[:len(r.Warnings):len(r.Warnings)],
		"the output does not fit into one message; it was sent piece by piece in tool.output")
	return r
}

// withoutContents leaves out of a batch's results what was sent as notifications.
// It has no results that could be left out again, if that is still too long.
func withoutContents(b protocol.BatchResult) any {
	short := struct {
		Results []protocol.BatchOutcome `json:"results"`
	}{slices.Clone(b.Results)}
	for i, o := range short.Results {
		if o.Result != nil {
			r := noContent(*o.Result)
			short.Results[i].Result = &r
		}
	}
	return short
}

// maxAhead is how much of a program's output waits for a client, in bytes. More would
// make nothing faster: the program waits all the same, and the bytes are no longer in
// the processor's cache when they are sent.
const maxAhead = 1 << 20

// notify sends a notification. It waits while the client's queue is full, so
// that a tool writes no faster than its client reads.
func (c *conn) notify(name protocol.Method, params any) {
	b := buffers.Get().(*bytes.Buffer)
	defer recycle(b)
	if o, is := params.(protocol.RawOutput); is && c.raw {
		if line, ok := protocol.AppendRawHeader(b.AvailableBuffer(), o); ok {
			c.out.pushWithin(min(c.out.max, maxAhead), line, o.Data)
			return
		}
	}
	line, err := protocol.AppendNotification(b.AvailableBuffer(), name, params)
	if err == nil && len(line) <= protocol.MaxMessage {
		b.Write(append(line, '\n'))
		most := c.out.max
		if name == protocol.MethodToolOutput {
			most = min(most, maxAhead)
		}
		c.out.pushWithin(most, b.Bytes())
		return
	}
	c.server.cfg.Log.Error("notification not sent", "method", string(name), "bytes", len(line), "error", err)
}

// A queue holds the lines that go out on one connection. It has a bound in
// bytes: push waits while it is full. When the peer reads nothing for a while,
// the queue breaks: what it holds is dropped, and push returns at once.
type queue struct {
	conn  net.Conn
	max   int
	stall time.Duration
	idle  chan struct{} // closed when the writer has ended

	mu       sync.Mutex
	change   *sync.Cond
	lines    *bytes.Buffer // or nil
	bytes    int           // in lines, and in what is being written
	dropping bool          // what does not fit is dropped, instead of waiting
	closed   bool
	end      time.Time // when closed: nothing is written after it
	err      error
}

// buffers hold lines on their way. A silent connection has none.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// recycle gives a buffer back, unless a long message has made it too large to be kept.
func recycle(b *bytes.Buffer) {
	const most = 1 << 20
	if b.Cap() <= most {
		b.Reset()
		buffers.Put(b)
	}
}

// closeWait is how long a connection that ends may take to read its last answers.
const closeWait = 2 * time.Second

func newQueue(nc net.Conn, limit int, stall time.Duration) *queue {
	q := &queue{conn: nc, max: limit, stall: stall, idle: make(chan struct{})}
	q.change = sync.NewCond(&q.mu)
	go q.write()
	return q
}

// push adds a copy of a line with its newline. A line that is longer than the bound
// goes in alone. Bytes that the socket takes at once are not queued: no goroutine has
// to be woken for them.
func (q *queue) push(line []byte) { q.pushWithin(q.max, line) }

// pushWithin is push with a lower bound, and what may follow the line.
func (q *queue) pushWithin(most int, parts ...[]byte) {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	fits := func() bool { return q.bytes == 0 || q.bytes+size <= most }
	for q.err == nil && !q.dropping && !fits() {
		q.change.Wait()
	}
	if q.err != nil || q.closed || !fits() {
		return
	}
	written := 0
	if q.bytes == 0 {
		if written = unixsock.WriteNow(q.conn, parts...); written == size {
			return
		}
	}
	if q.lines == nil {
		q.lines = buffers.Get().(*bytes.Buffer)
	}
	q.bytes += size - written
	for _, p := range parts {
		gone := min(written, len(p))
		written -= gone
		q.lines.Write(p[gone:])
	}
	q.change.Broadcast()
}

// drain ends all waiting in push, now and later.
func (q *queue) drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dropping = true
	q.change.Broadcast()
}

func (q *queue) broken() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err != nil
}

// close waits until everything is written or the queue is broken, and not for long.
func (q *queue) close() {
	q.mu.Lock()
	q.dropping, q.closed, q.end = true, true, time.Now().Add(closeWait)
	_ = q.conn.SetWriteDeadline(q.end) // for a write that waits already
	q.change.Broadcast()
	q.mu.Unlock()
	<-q.idle
}

// allowTime sets the time limit of the next write.
func (q *queue) allowTime() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return q.conn.SetWriteDeadline(q.end)
	}
	return q.conn.SetWriteDeadline(time.Now().Add(q.stall))
}

func (q *queue) write() {
	defer close(q.idle)
	for {
		lines, ok := q.take()
		if !ok {
			return
		}
		err := q.send(lines)
		recycle(lines)
		if err != nil {
			q.conn.Close() // the reader learns of it, and cancels the client's calls
			return
		}
	}
}

// take waits for lines; it fails when there are none left and none will come.
func (q *queue) take() (*bytes.Buffer, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.lines == nil && !q.closed {
		q.change.Wait()
	}
	lines := q.lines
	q.lines = nil
	return lines, lines != nil
}

// send writes lines, as many at once as there are. Each piece of them has the whole
// time limit: a peer that reads slowly has not stopped reading.
func (q *queue) send(lines *bytes.Buffer) error {
	const piece = 256 << 10
	for lines.Len() > 0 {
		err := q.allowTime()
		n := 0
		if err == nil {
			n, err = q.conn.Write(lines.Next(piece))
		}
		q.sent(n, err)
		if err != nil {
			return err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	return q.conn.SetWriteDeadline(time.Time{}) // a time limit that is over would bar WriteNow
}

func (q *queue) sent(n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= n
	if err != nil {
		q.err, q.lines = err, nil
	}
	q.change.Broadcast()
}
