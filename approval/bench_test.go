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
		other := q.key(Session, Allow, q.fingerprint)
		other.Fingerprint[0], other.Fingerprint[1] = byte(i), byte(i>>8)
		if err := q.session.memory.Remember(Memory{Key: other}); err != nil {
			b.Fatal(err)
		}
	}
	if err := q.session.memory.Remember(Memory{Key: q.key(Session, Allow, q.fingerprint)}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Decide(b.Context(), writeCall()); err != nil {
			b.Fatal(err)
		}
	}
}

// The cost of a decision by patterns, for a command of several parts, beside
// 100,000 other answers and while 1,000 requests wait.
func BenchmarkDecideByPattern(b *testing.B) {
	c := NewController(Options{})
	q, err := c.question(shellCall("go test"))
	if err != nil {
		b.Fatal(err)
	}
	for i := range 100_000 {
		p := Pattern{ArgvPrefix, fmt.Sprint("tool", i, " run")}
		m := Memory{Key: q.key(Agent, Allow, p.fingerprint("", "shell")), Pattern: &p}
		if err := c.opts.Store.Remember(m); err != nil {
			b.Fatal(err)
		}
	}
	p := Pattern{ArgvPrefix, "go test"}
	if err := c.opts.Store.Remember(Memory{Key: q.key(Agent, Allow, p.fingerprint("", "shell")), Pattern: &p}); err != nil {
		b.Fatal(err)
	}
	defer wait(b, c, 1000)()
	call := shellCall("go test -v -run TestX ./a/b", "go test ./c")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Decide(b.Context(), call); err != nil {
			b.Fatal(err)
		}
	}
}

// wait has n requests wait until it is undone.
func wait(b *testing.B, c *Controller, n int) (undo func()) {
	ctx, cancel := context.WithCancel(b.Context())
	asked := make(chan struct{}, n)
	stop := c.Subscribe(func(e Event) {
		if e.Kind == Requested {
			asked <- struct{}{}
		}
	})
	for i := range n {
		call := writeCall().with(func(c *Call) { c.Request.Payload = map[string]any{"n": i} })
		go func() { _, _ = c.Decide(ctx, call) }()
		<-asked
	}
	return func() { stop(); cancel() }
}

// The cost of a call that needs nothing while many others wait.
func BenchmarkDecideWhileOthersWait(b *testing.B) {
	for _, waiting := range []int{0, 1000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			c := NewController(Options{})
			defer wait(b, c, waiting)()
			free := writeCall().with(func(c *Call) { c.Request = nil })
			for b.Loop() {
				if _, err := c.Decide(b.Context(), free); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
