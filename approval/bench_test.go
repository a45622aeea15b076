package approval

import (
	"context"
	"fmt"
	"testing"
)

// The cost of a decision that nobody is asked for, with much remembered.
func BenchmarkDecideRemembered(b *testing.B) {
	c := NewController(Options{})
	q, err := c.question(writeCall())
	if err != nil {
		b.Fatal(err)
	}
	for i := range 10_000 {
		other := q.key(Session, Allow)
		other.Fingerprint[0], other.Fingerprint[1] = byte(i), byte(i>>8)
		if err := q.session.memory.Remember(Memory{Key: other}); err != nil {
			b.Fatal(err)
		}
	}
	if err := q.session.memory.Remember(Memory{Key: q.key(Session, Allow)}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Decide(b.Context(), writeCall()); err != nil {
			b.Fatal(err)
		}
	}
}

// The cost of a call that needs nothing while many others wait.
func BenchmarkDecideWhileOthersWait(b *testing.B) {
	for _, waiting := range []int{0, 1000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			c := NewController(Options{})
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			asked := make(chan struct{}, waiting)
			defer c.Subscribe(func(e Event) {
				if e.Kind == Requested {
					asked <- struct{}{}
				}
			})()
			for i := range waiting {
				call := writeCall().with(func(c *Call) { c.Request.Payload = map[string]any{"n": i} })
				go func() { _, _ = c.Decide(ctx, call) }()
				<-asked
			}
			free := writeCall().with(func(c *Call) { c.Request = nil })
			for b.Loop() {
				if _, err := c.Decide(ctx, free); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
