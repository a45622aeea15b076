package approval

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestTurns: whoever asks for much stands before nobody else's first request, by one session or by many, and a request
// that has its place in the list keeps it.
func TestTurns(t *testing.T) {
	c := NewController(Options{Timeout: time.Hour})
	n := 0
	ask := func(peer, session string) string {
		t.Helper()
		n++
		_, err := c.Defer(t.Context(), writeCall().with(func(c *Call) {
			c.Peer, c.SessionID, c.Request.Payload = peer, session, map[string]any{"n": fmt.Sprint(n)}
		}))
		later, ok := err.(*DeferredError)
		if !ok {
			t.Fatal(err)
		}
		return later.ID
	}
	place := func(id string) int {
		return slices.IndexFunc(c.Pending(), func(p Pending) bool { return p.ID == id })
	}
	order := func() (ids []string) {
		for _, p := range c.Pending() {
			ids = append(ids, p.ID)
		}
		return ids
	}
	for _, s := range []string{"flood", "quiet", "honest"} {
		mustOpen(t, c, s)
	}
	for range 2000 {
		ask("a", "flood")
	}
	before := order()
	if at := place(ask("b", "honest")); at != 1 {
		t.Errorf("the first of another client is number %d", at)
	}
	if at := place(ask("a", "quiet")); at > 3 {
		t.Errorf("the first of another session of the client is number %d", at)
	}
	second := ask("b", "honest")
	if at := place(second); at > 5 {
		t.Errorf("the second of another client is number %d", at)
	}
	if now := slices.DeleteFunc(order(), func(id string) bool { return !slices.Contains(before, id) }); !slices.Equal(now, before) {
		t.Error("requests that were there have other places among themselves")
	}
	for i := range 300 { // a session for each
		s := fmt.Sprint("many", i)
		mustOpen(t, c, s)
		ask("a", s)
	}
	mustOpen(t, c, "late")
	if at := place(ask("c", "late")); at > 3 {
		t.Errorf("behind a client with many sessions the first of another is number %d", at)
	}
	for _, p := range c.Pending() { // the list goes on, and forgets nobody's turn
		mustAnswer(t, c, p.ID, Answer{})
	}
	if c.turns.all != 0 || len(c.turns.waiting) != 0 || len(c.turns.clients) != 0 {
		t.Errorf("turns are left of nobody: %+v", c.turns)
	}
	ask("a", "flood")
	if at := place(ask("b", "honest")); at != 1 {
		t.Errorf("number %d", at)
	}
}
