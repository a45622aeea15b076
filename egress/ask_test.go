package egress

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAsk(t *testing.T) {
	for _, c := range []struct {
		name string
		ask  func(context.Context, Request) (bool, error)
		want Reason
	}{
		{"yes", func(context.Context, Request) (bool, error) { return true, nil }, ""},
		{"no", func(context.Context, Request) (bool, error) { return false, nil }, ReasonDenied},
		{"error", func(context.Context, Request) (bool, error) { return false, errors.New("no socket") }, ReasonUnanswered},
		{"yes with an error", func(context.Context, Request) (bool, error) { return true, errors.New("no socket") }, ReasonUnanswered},
		{"too late", func(ctx context.Context, _ Request) (bool, error) { <-ctx.Done(); return true, nil }, ReasonUnanswered},
		{"nobody", nil, ReasonUnlisted},
	} {
		w := newWorld()
		w.site("new.example.org", "93.184.216.34", 443, serveTCP(t, echo))
		w.site("inside.example.org", "10.0.0.5", 443, serveTCP(t, echo))
		p := startProxy(t, w, func(cfg *Config) {
			cfg.Allow, cfg.Ask, cfg.Limits.Ask = [][]string{{"other.example.org"}}, c.ask, 50*time.Millisecond
		})
		conn, r, resp := connectTo(t, p, "new.example.org:443")
		if got := Reason(resp.Header.Get("Sandgate-Reason")); got != c.want {
			body, _ := io.ReadAll(r)
			t.Errorf("%s: %s %s, want %q", c.name, resp.Status, body, c.want)
		}
		if looked := len(w.lookups()) > 0; looked != (c.want == "") {
			t.Errorf("%s: looked up %q", c.name, w.lookups())
		}
		conn.Close()
		if e := p.event(t); (e.Decision == Allow) != (c.want == "") || e.Rule != "asked" && c.ask != nil {
			t.Errorf("%s: event %+v", c.name, e)
		}
		if _, _, resp := connectTo(t, p, "inside.example.org:443"); c.name == "yes" && resp.Header.Get("Sandgate-Reason") != string(ReasonAddress) {
			t.Errorf("an answer opens a private address: %s", resp.Status)
		}
	}
}

// TestWhatIsNotAskedAbout: what no answer could allow makes no prompt.
func TestWhatIsNotAskedAbout(t *testing.T) {
	p := startProxy(t, newWorld(), func(c *Config) {
		c.Deny = []string{"*.evil.com"}
		c.Ask = func(_ context.Context, r Request) (bool, error) {
			t.Errorf("asked about %v", r.Target)
			return true, nil
		}
	})
	for target, want := range map[string]Reason{
		"x.evil.com:443": ReasonDenied, "127.0.0.1:443": ReasonAddress, "169.254.169.254:80": ReasonAddress, "10.0.0.1:80": ReasonAddress,
	} {
		if _, _, resp := connectTo(t, p, target); resp.Header.Get("Sandgate-Reason") != string(want) {
			t.Errorf("%s: %s", target, resp.Status)
		}
	}
}

// TestFiftyConnectionsMakeOneQuestion: also the answer is one.
func TestFiftyConnectionsMakeOneQuestion(t *testing.T) {
	var asked, reached atomic.Int32
	var got Request
	w := newWorld()
	w.site("new.example.org", "93.184.216.34", 443, serveTCP(t, echo))
	answer := make(chan bool)
	p := startProxy(t, w, func(c *Config) {
		c.Ask = func(_ context.Context, r Request) (bool, error) {
			asked.Add(1)
			got = r
			return <-answer, nil
		}
	})
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			if _, _, resp := connectTo(t, p, "new.example.org:443"); resp.StatusCode == 200 {
				reached.Add(1)
			}
		})
	}
	new := target(t, "new.example.org:443")
	for p.server.waiters(new) < 50 {
		runtime.Gosched()
	}
	answer <- true
	clients.Wait()
	if asked.Load() != 1 || reached.Load() != 50 {
		t.Errorf("%d questions, %d connections", asked.Load(), reached.Load())
	}
	if want := (Request{Identity{"s-1", "c-1"}, new, ProtocolConnect, ""}); got != want {
		t.Errorf("asked %+v, want %+v", got, want)
	}
}

func (s *Server) waiters(t Target) int {
	s.asking.mu.Lock()
	defer s.asking.mu.Unlock()
	if q := s.asking.open[t]; q != nil {
		return q.waiters
	}
	return 0
}

func asking(ask func(context.Context, Request) (bool, error)) *Server {
	s, err := New(Config{Audit: func(Event) {}, Ask: ask})
	if err != nil {
		panic(err)
	}
	return s
}

// TestQuestionTimes runs the rules of waiting on a clock of its own.
func TestQuestionTimes(t *testing.T) {
	r := Request{Target: Target{Host: hostOf("a"), Port: 1}}
	synctest.Test(t, func(t *testing.T) {
		s := asking(func(ctx context.Context, _ Request) (bool, error) { <-ctx.Done(); return true, nil })
		start := time.Now()
		if err := s.ask(t.Context(), r); asRefusal(err).Reason != ReasonUnanswered {
			t.Errorf("no answer: %v", err)
		}
		if d := time.Since(start); d != 2*time.Minute {
			t.Errorf("waited %v", d)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a question that ignores its time holds nobody
		block := make(chan struct{})
		s := asking(func(context.Context, Request) (bool, error) { <-block; return true, nil })
		if err := s.ask(t.Context(), r); asRefusal(err).Reason != ReasonUnanswered {
			t.Errorf("late answer: %v", err)
		}
		close(block)
	})
	synctest.Test(t, func(t *testing.T) { // it is withdrawn when the last who wait have gone, not before
		withdrawn := false
		s := asking(func(ctx context.Context, _ Request) (bool, error) {
			<-ctx.Done()
			withdrawn = true
			return true, nil
		})
		ctx1, leave1 := context.WithCancel(t.Context())
		ctx2, leave2 := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for _, ctx := range []context.Context{ctx1, ctx2} {
			waiting.Go(func() {
				if err := s.ask(ctx, r); asRefusal(err).Reason != ReasonUnanswered {
					t.Errorf("left: %v", err)
				}
			})
		}
		synctest.Wait()
		leave1()
		synctest.Wait()
		if withdrawn {
			t.Error("the question is withdrawn while somebody waits")
		}
		leave2()
		waiting.Wait()
		synctest.Wait()
		if !withdrawn || len(s.asking.open) != 0 {
			t.Error("the question stays open")
		}
	})
	synctest.Test(t, func(t *testing.T) { // an answer is not remembered here
		asked := 0
		s := asking(func(context.Context, Request) (bool, error) { asked++; return asked == 1, nil })
		if err := s.ask(t.Context(), r); err != nil {
			t.Errorf("yes: %v", err)
		}
		synctest.Wait()
		if err := s.ask(t.Context(), r); asRefusal(err).Reason != ReasonDenied {
			t.Errorf("no: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the bound is on targets
		s := asking(func(ctx context.Context, _ Request) (bool, error) { <-ctx.Done(); return false, ctx.Err() })
		ctx, leave := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for i := range s.cfg.Limits.Questions {
			waiting.Go(func() { s.ask(ctx, Request{Target: Target{Host: hostOf("a"), Port: uint16(i + 1)}}) })
		}
		synctest.Wait()
		if err := s.ask(ctx, Request{Target: Target{Host: hostOf("b"), Port: 1}}); asRefusal(err).Reason != ReasonLimit {
			t.Errorf("one too many: %v", err)
		}
		leave()
		waiting.Wait()
	})
}
