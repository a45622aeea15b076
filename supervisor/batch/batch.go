package batch

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/failure"
)

// A batch is calls of one turn. All are checked, and asked about, before the
// first has ended, so that an approver sees them together; each starts when those
// before it have ended.
type batch struct {
	places []*Place
}

// A Place is where a call stands in its batch.
type Place struct {
	batch *batch
	at    int

	once  sync.Once
	asked chan struct{} // closed when the call waits for a person, or never will
	over  sync.Once
	ended chan struct{} // closed when it is over; then rejection is set
	// rejection is the denial that ends the rest of the batch, if there was one.
	rejection *approval.Decision
}

func (p *Place) WasAsked() {
	if p != nil {
		p.once.Do(func() { close(p.asked) })
	}
}

// New are those of n calls of one batch.
func New(n int) []*Place {
	b := &batch{}
	for i := range n {
		b.places = append(b.places, &Place{batch: b, at: i, asked: make(chan struct{}), ended: make(chan struct{})})
	}
	return b.places
}

// AwaitAsked waits until the call waits for a person, or never will.
func (p *Place) AwaitAsked() { <-p.asked }

// Caught keeps a bug in one call from ending the supervisor, or from keeping the
// rest of the batch waiting.
func (p *Place) Caught(into *atomic.Pointer[any]) {
	if v := recover(); v != nil {
		into.Store(&v)
		p.End(approval.Decision{}, nil)
	}
}

// End says that the call is over, and what that means for those after it.
func (p *Place) End(d approval.Decision, err error) {
	if p == nil {
		return
	}
	p.WasAsked()
	p.over.Do(func() { // a task is over for its batch once it has begun
		var denied *approval.DeniedError
		if errors.As(err, &denied) && failure.EndsBatch(d) {
			p.rejection = &d
		}
		close(p.ended)
	})
}

// Await waits until the calls before this one have ended. If one of them was rejected for the
// whole batch, it gives what that decides about this one, and its error.
func (p *Place) Await(ctx context.Context) (*approval.Decision, error) {
	if p == nil {
		return nil, nil
	}
	for _, before := range p.batch.places[:p.at] {
		select {
		case <-before.ended:
		case <-ctx.Done():
			return nil, &protocol.Error{Code: protocol.CodeCancelled, Message: context.Cause(ctx).Error()}
		}
		if r := before.rejection; r != nil {
			e := protocol.Errorf(protocol.CodeDenied, "the rest of the batch was rejected by %s", r.Approver).
				WithHint("The calls of the batch before it have ended; stop, and wait for the user.")
			d := *r
			d.Source, d.Reason = approval.SourceBatch, e.Message
			return &d, e
		}
	}
	return nil, nil
}
