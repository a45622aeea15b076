package egress

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// finishTime is how long the last bytes of programs that have ended may take.
const finishTime = 2 * time.Second

// Finish is for when no program is left in the sandbox. What they sent last is passed on,
// as the kernel would for a program that ends, for two seconds at most: the answer of a server that
// answers and ends, and a report that needs no answer. Nothing else is carried for it: a
// connection whose inner end is closed ends once its bytes are on their way. The context of Serve
// ends the rest.
func (s *Server) Finish() {
	s.ending.mu.Lock()
	s.ending.begin()
	s.ending.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.ending.carried.Wait()
	}()
	t := time.NewTimer(s.ending.atMost)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// Finish is that of a Server.
func (e *Entrance) Finish() { e.server.Finish() }

// An ending is a server's last moments.
type ending struct {
	mu      sync.Mutex      // held from looking whether it has begun to adding to carried
	begun   context.Context // is done when it has begun
	begin   func()
	carried sync.WaitGroup
	atMost  time.Duration
}

// holds has Finish wait from the moment that a program can take its connection for made: it may send and
// end before that is carried.
func (e *ending) holds() (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.begun.Err() != nil {
		return func() {}
	}
	e.carried.Add(1)
	return e.carried.Done
}

// carries is called for each connection that Finish waits for.
func (e *ending) carries(outer *stream) *lastWords {
	w := &lastWords{begun: e.begun, outer: outer, done: e.holds()}
	w.forget = context.AfterFunc(e.begun, w.stop)
	return w
}

// lastWords end a connection when its inner end has closed and the ending has begun.
type lastWords struct {
	begun  context.Context
	outer  *stream
	said   atomic.Bool
	forget func() bool
	done   func()
}

// saidAll is called when all that the inner end sent has been passed on.
func (w *lastWords) saidAll() {
	w.said.Store(true)
	if w.begun.Err() != nil {
		w.stop()
	}
}

func (w *lastWords) stop() {
	if w.said.Load() {
		w.outer.stopReads()
	}
}

// unlessStopped is the error of a direction, or nil if only the ending stopped it.
func (w *lastWords) unlessStopped(err error) error {
	if w.said.Load() && w.begun.Err() != nil && errors.Is(err, errStopped) {
		return nil
	}
	return err
}

func (w *lastWords) over() {
	w.forget()
	w.done()
}
