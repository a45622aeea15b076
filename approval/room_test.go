package approval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// large is a call that takes size bytes of the room, of one peer, and like no other.
func large(peer string, n, size int) Call {
	return writeCall().with(func(c *Call) {
		c.Peer, c.Request.Payload = peer, map[string]any{"n": fmt.Sprint(n), "text": strings.Repeat("x", size-askedOverhead-100)}
	})
}

// refusedForRoom reports whether a call was refused for its size or that of all that waits.
func refusedForRoom(t *testing.T, err error) bool {
	t.Helper()
	var denied *DeniedError
	if !errors.As(err, &denied) {
		return false
	}
	if denied.Code != CodeLimit || denied.Hint == "" {
		t.Fatalf("refused with %q: %v", denied.Code, err)
	}
	return true
}

// taken is what waits, all in all.
func taken(c *Controller) use {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.room.total
}

// TestWhatWaitsIsBounded: an agent cannot fill the supervisor's memory, or the lists of
// approvers, with requests that wait, whether it waits for the answers or not.
func TestWhatWaitsIsBounded(t *testing.T) {
	const mib = 1 << 20
	later := func(t *testing.T, c *Controller, call Call) error {
		_, err := c.Defer(t.Context(), call)
		if err == nil {
			t.Fatal("it was not asked about")
		}
		return err
	}
	now := func(t *testing.T, c *Controller, call Call) error {
		r := decideLater(t.Context(), c, call)
		select {
		case d := <-r:
			return d.err
		default:
			return nil
		}
	}
	for name, ask := range map[string]func(*testing.T, *Controller, Call) error{"deferred": later, "waited for": now} {
		t.Run(name, bubble(func(t *testing.T) {
			c := NewController(Options{Timeout: time.Hour})
			if !refusedForRoom(t, ask(t, c, large("a", 0, maxAsked+mib))) {
				t.Error("one request may be of any size")
			}
			fill := func(peer string) (n int) {
				for ; n < 100; n++ {
					if refusedForRoom(t, ask(t, c, large(peer, n, 4*mib))) {
						return n
					}
				}
				t.Fatal("there is no end")
				return 0
			}
			if n := fill("a"); n != maxPeerBytes/(4*mib) {
				t.Errorf("%d requests of one peer", n)
			}
			if n := fill("b"); n != (maxBytes-maxPeerBytes)/(4*mib) {
				t.Errorf("%d requests of another peer", n)
			}
			if n := fill("c"); n != 0 {
				t.Errorf("%d requests beyond the total", n)
			}
			for _, p := range c.Pending() {
				mustAnswer(t, c, p.ID, Answer{Reject: RejectSoft})
			}
			if n := fill("a"); n != maxPeerBytes/(4*mib) {
				t.Errorf("%d requests once all are answered", n)
			}
			c.CloseSession("")
			if taken(c) != (use{}) || len(c.room.peers) != 0 {
				t.Errorf("left after all: %+v", c.room)
			}
		}))
	}
	t.Run("the number", bubble(func(t *testing.T) {
		c := NewController(Options{Timeout: time.Hour})
		asked := 0
		for n := range maxPeerAsked + 1 {
			if !refusedForRoom(t, later(t, c, large("a", n, askedOverhead+200))) {
				asked++
			}
		}
		if asked != maxPeerAsked {
			t.Errorf("%d requests of one peer", asked)
		}
		c.CloseSession("")
	}))
}

// TestApprovalsHoldTheirRoomUntilTaken: an approval that waits to be taken is kept whole,
// and counts; taken, or too late to be, it is only its answer.
func TestApprovalsHoldTheirRoomUntilTaken(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Controller, string){
		"taken": func(t *testing.T, c *Controller, id string) {
			decide(t, c, writeCall().with(withApproval(id))).granted(t)
		},
		"expired": func(t *testing.T, c *Controller, id string) {
			time.Sleep(deferredFor)
			if v := c.Check(writeCall().with(withApproval(id))); v.Effect != Deny {
				t.Errorf("%+v", v)
			}
			c.mu.Lock()
			c.dropDeferred(c.sessions[""], time.Now())
			c.mu.Unlock()
		},
		"closed": func(_ *testing.T, c *Controller, _ string) { c.CloseSession("") },
	} {
		t.Run(name, bubble(func(t *testing.T) {
			c := NewController(Options{})
			id := deferCall(t, c, writeCall())
			mustAnswer(t, c, id, Answer{Allow: true})
			if taken(c).requests != 1 {
				t.Errorf("what was approved counts as %+v", taken(c))
			}
			end(t, c, id)
			if taken(c) != (use{}) {
				t.Errorf("left: %+v", taken(c))
			}
		}))
	}
}

// TestRoomIsGivenBack: however a request ends, nothing of it is counted afterwards.
func TestRoomIsGivenBack(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *Controller, context.CancelFunc){
		"answered": func(t *testing.T, c *Controller, _ context.CancelFunc) {
			mustAnswer(t, c, onlyPending(t, c).ID, Answer{Allow: true})
		},
		"cancelled": func(_ *testing.T, _ *Controller, cancel context.CancelFunc) { cancel() },
		"timed out": func(*testing.T, *Controller, context.CancelFunc) { time.Sleep(defaultTimeout) },
		"closed":    func(_ *testing.T, c *Controller, _ context.CancelFunc) { c.CloseSession("") },
	} {
		t.Run(name, bubble(func(t *testing.T) {
			c := NewController(Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := decideLater(ctx, c, writeCall())
			if taken(c).requests != 1 {
				t.Fatalf("while it waits: %+v", taken(c))
			}
			end(t, c, cancel)
			<-r
			synctest.Wait()
			if taken(c) != (use{}) {
				t.Errorf("left: %+v", taken(c))
			}
		}))
	}
}
