package supervisor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/failure"
)

// A batch is calls of one turn. All are checked, and asked about, before the
// first has ended, so that an approver sees them together; each starts when those
// before it have ended.
type batch struct {
	places []*place
}

// A place is where a call stands in its batch.
type place struct {
	batch *batch
	at    int

	once  sync.Once
	asked chan struct{} // closed when the call waits for a person, or never will
	over  sync.Once
	ended chan struct{} // closed when it is over; then rejection is set
	// rejection is the denial that ends the rest of the batch, if there was one.
	rejection *approval.Decision
}

func (p *place) wasAsked() {
	if p != nil {
		p.once.Do(func() { close(p.asked) })
	}
}

// Batch implements gate. The contexts are those of the calls, one each.
func (s *Supervisor) Batch(ctxs []context.Context, peer unixsock.Peer, p protocol.ToolsBatch, notify func(protocol.Method, any)) protocol.BatchResult {
	b := &batch{}
	for i := range p.Calls {
		b.places = append(b.places, &place{batch: b, at: i, asked: make(chan struct{}), ended: make(chan struct{})})
	}
	outcomes := make([]protocol.BatchOutcome, len(p.Calls))
	var wg sync.WaitGroup
	var panicked atomic.Pointer[any]
	for i, req := range p.ToolsCalls(cmp.Or(p.GroupID, "g-"+rand.Text()[:16])) {
		wg.Go(func() {
			defer b.places[i].caught(&panicked)
			r, err := s.callAt(ctxs[i], b.places[i], peer, req, notify)
			outcomes[i] = outcomeOf(req.CallID, r, err)
		})
		<-b.places[i].asked // so that they are listed in their order
	}
	wg.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p) // in the goroutine of the request, whose server knows what to do
	}
	return protocol.BatchResult{Results: outcomes}
}

// caught keeps a bug in one call from ending the supervisor, or from keeping the
// rest of the batch waiting.
func (p *place) caught(into *atomic.Pointer[any]) {
	if v := recover(); v != nil {
		into.Store(&v)
		p.end(approval.Decision{}, nil)
	}
}

func outcomeOf(id protocol.CallID, r protocol.CallResult, err error) protocol.BatchOutcome {
	if err != nil {
		return protocol.BatchOutcome{CallID: id, Error: failure.Wire(err)}
	}
	if r.Content == nil {
		r.Content = []protocol.Content{}
	}
	return protocol.BatchOutcome{CallID: id, Result: &r}
}

// end says that the call is over, and what that means for those after it.
func (p *place) end(d approval.Decision, err error) {
	if p == nil {
		return
	}
	p.wasAsked()
	p.over.Do(func() { // a task is over for its batch once it has begun
		var denied *approval.DeniedError
		if errors.As(err, &denied) && failure.EndsBatch(d) {
			p.rejection = &d
		}
		close(p.ended)
	})
}

// denied says that the call, which was allowed, has been denied since: what it ran into
// was asked about, or what came before it.
func (c *call) denied(d approval.Decision) {
	c.decision.Action, c.decision.Source, c.decision.Scope, c.decision.Rule = approval.Denied, d.Source, "", ""
	c.decision.Approver, c.decision.Reason = d.Approver, d.Reason
	c.decision.Reject, c.decision.Interrupt, c.decision.Feedback = d.Reject, d.Interrupt, d.Feedback
}

// awaitTurn waits until the calls before this one have ended, and withdraws its
// approval if one of them was rejected for the whole batch meanwhile.
func (c *call) awaitTurn(ctx context.Context) error {
	if c.place == nil {
		return nil
	}
	for _, before := range c.place.batch.places[:c.place.at] {
		select {
		case <-before.ended:
		case <-ctx.Done():
			return &protocol.Error{Code: protocol.CodeCancelled, Message: context.Cause(ctx).Error()}
		}
		if r := before.rejection; r != nil {
			e := protocol.Errorf(protocol.CodeDenied, "the rest of the batch was rejected by %s", r.Approver).
				WithHint("The calls of the batch before it have ended; stop, and wait for the user.")
			d := *r
			d.Source, d.Reason = approval.SourceBatch, e.Message
			c.denied(d)
			return e
		}
	}
	return nil
}
