package approval

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestAScreenThatStandsStill: requests that come and go while a screen reads nothing are not kept for it, and it
// misses none that still waits, and no end of one that it has.
func TestAScreenThatStandsStill(t *testing.T) {
	t.Run("", bubble(func(t *testing.T) {
		c := NewController(Options{Timeout: time.Hour})
		still := make(chan struct{})
		var read []string
		follow := &listener{latest: new(Unread[Event]), f: func(e Event) {
			<-still
			read = append(read, string(e.Kind)+" "+e.Pending.CallID)
		}}
		defer c.subscribe(follow)()
		var every int
		defer c.Subscribe(func(Event) { every++ })()
		ask := func(id string) (withdraw func()) {
			ctx, cancel := context.WithCancel(t.Context())
			r := decideLater(ctx, c, writeCall().with(func(c *Call) { c.ID, c.Request.Payload = id, map[string]any{"n": id} }))
			return func() {
				cancel()
				<-r
				synctest.Wait()
			}
		}
		first := ask("first") // its event is being read
		second := ask("second")
		for range 1000 {
			ask("flood")()
		}
		waits := ask("waits")
		defer waits()
		if _, err := c.Show(t.Context(), onlyOf(t, c, "second").ID); err != nil { // an update
			t.Fatal(err)
		}
		first()
		second()
		if n := len(follow.latest.events); n != 2 {
			t.Errorf("%d events are kept for a screen that stands still", n)
		}
		if n := len(follow.latest.order); n > 200 {
			t.Errorf("%d ids are kept", n)
		}
		if every < 2000 {
			t.Errorf("%d events for who reads all", every)
		}
		close(still)
		synctest.Wait()
		if want := []string{"requested first", "requested waits", "resolved first"}; !slices.Equal(read, want) {
			t.Errorf("it reads %q", read)
		}
	}))
}

func onlyOf(t *testing.T, c *Controller, call string) Pending {
	t.Helper()
	list := slices.DeleteFunc(c.Pending(), func(p Pending) bool { return p.CallID != call })
	if len(list) != 1 {
		t.Fatalf("%d requests of %s", len(list), call)
	}
	return list[0]
}
