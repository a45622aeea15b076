package serve

import (
	"context"
	"testing"
	"time"
)

// TestWhenIdle: once at the start, and then once after calls have come and ceased.
func TestWhenIdle(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	tick := make(chan time.Time)
	asked, answer := make(chan struct{}), make(chan int64)
	rested, ended := make(chan struct{}, 10), make(chan struct{})
	go func() {
		defer close(ended)
		whenIdle(ctx, tick, func() int64 { asked <- struct{}{}; return <-answer }, func() { rested <- struct{}{} })
	}()
	reply := func(calls int64) { <-asked; answer <- calls }
	reply(0)
	reply(0)
	<-rested
	for i, step := range []struct {
		calls int64
		rests int
	}{{0, 0}, {3, 0}, {5, 0}, {5, 1}, {5, 0}, {6, 0}, {6, 1}, {6, 0}} {
		tick <- time.Time{}
		reply(step.calls)
		if step.rests == 1 {
			<-rested
		}
		// The next tick is taken when the one before is done with.
		if len(rested) > 0 {
			t.Errorf("step %d: a rest too many", i)
		}
	}
	cancel()
	<-ended
	if len(rested) > 0 {
		t.Error("a rest too many")
	}
}
