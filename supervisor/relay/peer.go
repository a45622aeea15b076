package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"
)

// A frame is a request, the answer to one, or the end of one.
type frame struct {
	ID     uint64          `json:"id"` // of the request, as who made it counts
	Method string          `json:"method,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// The reply to a frame whose method is not a request.
const (
	isAnswer = ""
	isCancel = "cancel"
)

// patience is how long an answer may take that is computed and waits for no
// person.
const patience = 30 * time.Second

var errEnded = errors.New("the other supervisor has ended")

// A handler answers the requests of the other side, several at a time.
type handler func(ctx context.Context, method string, body json.RawMessage) (any, error)

// A peer is one end of the socket. Both ends may ask.
type peer struct {
	conn   io.ReadWriteCloser
	handle handler
	ctx    context.Context // ends with the connection
	end    context.CancelFunc

	writing sync.Mutex

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan frame
	serving map[uint64]context.CancelFunc
}

func newPeer(conn io.ReadWriteCloser, h handler) *peer {
	p := &peer{conn: conn, handle: h, waiting: map[uint64]chan frame{}, serving: map[uint64]context.CancelFunc{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	return p
}

// read takes what comes until the connection ends.
func (p *peer) read() {
	defer p.end()
	defer p.conn.Close()
	frames := json.NewDecoder(p.conn)
	for {
		var f frame
		if frames.Decode(&f) != nil {
			return
		}
		switch f.Method {
		case isAnswer:
			p.mu.Lock()
			answer := p.waiting[f.ID]
			delete(p.waiting, f.ID)
			p.mu.Unlock()
			if answer != nil {
				answer <- f
			}
		case isCancel:
			p.mu.Lock()
			cancel := p.serving[f.ID]
			p.mu.Unlock()
			if cancel != nil {
				cancel()
			}
		default:
			ctx, cancel := context.WithCancel(p.ctx)
			p.mu.Lock()
			p.serving[f.ID] = cancel
			p.mu.Unlock()
			go p.answer(ctx, f)
		}
	}
}

func (p *peer) answer(ctx context.Context, f frame) {
	answer := frame{ID: f.ID}
	result, err := p.handle(ctx, f.Method, f.Body)
	if err == nil {
		answer.Body, err = json.Marshal(result)
	}
	if err != nil {
		answer.Error = err.Error()
	}
	p.mu.Lock()
	p.serving[f.ID]()
	delete(p.serving, f.ID)
	p.mu.Unlock()
	_ = p.write(answer) // else nobody waits for it any more
}

func (p *peer) write(f frame) error {
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err = p.conn.Write(append(line, '\n'))
	return err
}

// ask sends a request and waits for its answer.
func (p *peer) ask(ctx context.Context, method string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answer := make(chan frame, 1)
	p.mu.Lock()
	p.last++
	id := p.last
	p.waiting[id] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waiting, id)
		p.mu.Unlock()
	}()
	if err := p.write(frame{ID: id, Method: method, Body: raw}); err != nil {
		return errEnded
	}
	select {
	case f := <-answer:
		if f.Error != "" {
			return errors.New(f.Error)
		}
		return decode(f.Body, into)
	case <-p.ctx.Done():
		return errEnded
	case <-ctx.Done():
		_ = p.write(frame{ID: id, Method: isCancel})
		return context.Cause(ctx)
	}
}

// compute is ask for an answer that waits for no person.
func (p *peer) compute(method string, body, into any) error {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return p.ask(ctx, method, body, into)
}

// decode keeps numbers as they were written: payloads are compared by them.
func decode(raw json.RawMessage, into any) error {
	if into == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(into)
}
