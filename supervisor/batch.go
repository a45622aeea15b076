package supervisor

import (
	"cmp"
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"

	"github.com/sandgate/sandgate/internal/unixsock"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/batch"
	"github.com/sandgate/sandgate/supervisor/failure"
)

// Batch implements server.Supervisor. The contexts are those of the calls, one each.
func (s *Supervisor) Batch(ctxs []context.Context, peer unixsock.Peer, p protocol.ToolsBatch, notify func(protocol.Method, any)) protocol.BatchResult {
	places := batch.New(len(p.Calls))
	outcomes := make([]protocol.BatchOutcome, len(p.Calls))
	var wg sync.WaitGroup
	var panicked atomic.Pointer[any]
	for i, req := range p.ToolsCalls(cmp.Or(p.GroupID, "g-"+rand.Text()[:16])) {
		wg.Go(func() {
			defer places[i].Caught(&panicked)
			r, err := s.callAt(ctxs[i], places[i], peer, req, notify)
			outcomes[i] = outcomeOf(req.CallID, r, err)
		})
		places[i].AwaitAsked() // so that they are listed in their order
	}
	wg.Wait()
	if p := panicked.Load(); p != nil {
		panic(*p) // in the goroutine of the request, whose server knows what to do
	}
	return protocol.BatchResult{Results: outcomes}
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
