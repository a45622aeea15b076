package approval

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// bubble runs f in a synctest bubble: time is simulated, and a goroutine that
// is still blocked when f returns fails the test.
func bubble(f func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { t.Helper(); synctest.Test(t, f) }
}

func TestAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		answer Answer
		action Action
		scope  Scope
		hint   string
	}{
		"once":    {Answer{Allow: true}, Approved, Once, ""},
		"session": {Answer{Allow: true, Scope: Session}, Approved, Session, ""},
		"hard":    {Answer{Feedback: "use yarn"}, Denied, Once, "the rest of its batch. Stop, and wait for the user. Feedback: use yarn"},
		"soft":    {Answer{Reject: RejectSoft}, Denied, Once, "Go on without it"},
		"explain": {Answer{Reject: RejectExplain}, Denied, Once, "Explain to the user"},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			c := NewController(Options{})
			tt.answer.Approver = "uid 1000, pid 4242"
			got := askAndAnswer(t, c, writeCall(), tt.answer)
			var d Decision
			if tt.answer.Allow {
				d = got.granted(t)
			} else {
				denied := got.denied(t)
				d = denied.Decision
				if denied.Code != CodeDenied || !strings.Contains(denied.Hint, tt.hint) {
					t.Errorf("code %s, hint %q, want it to contain %q", denied.Code, denied.Hint, tt.hint)
				}
			}
			if d.Action != tt.action || d.Scope != tt.scope || d.Approver != tt.answer.Approver ||
				d.Source != SourceAsk || d.Digest != "sha256:1" || d.RequestID == "" || d.ID == "" {
				t.Errorf("decision %+v", d)
			}
		}))
	}
}

func TestTimeoutDeniesAndTakesThePromptAway(t *testing.T) {
	t.Run("default", bubble(func(t *testing.T) {
		c := NewController(Options{})
		var kinds []EventKind
		defer c.Subscribe(func(e Event) { kinds = append(kinds, e.Kind) })()
		start := time.Now()
		result := decideLater(t.Context(), c, writeCall())
		id := onlyPending(t, c).ID
		denied := (<-result).denied(t)
		synctest.Wait()
		if waited := time.Since(start); waited != 5*time.Minute {
			t.Errorf("waited %s, want 5m", waited)
		}
		if denied.Code != CodeTimeout || denied.Decision.Action != TimedOut || denied.Decision.Reason != "no answer within 5m0s" {
			t.Errorf("%+v", denied)
		}
		if len(c.Pending()) != 0 || fmt.Sprint(kinds) != "[requested resolved]" {
			t.Errorf("pending %v, events %v", c.Pending(), kinds)
		}
		var late *AnsweredError
		if _, err := c.Answer(id, Answer{Allow: true, Approver: "late"}); !errors.As(err, &late) || late.Decision.Action != TimedOut {
			t.Errorf("a late answer got %v, want an AnsweredError that says timed out", err)
		}
		// A timeout is nobody's denial: the next call asks again.
		askAndAnswer(t, c, writeCall(), Answer{Allow: true}).granted(t)
	}))
	t.Run("an answer just in time", bubble(func(t *testing.T) {
		c := NewController(Options{Timeout: time.Minute})
		result := decideLater(t.Context(), c, writeCall())
		time.Sleep(time.Minute - time.Nanosecond)
		mustAnswer(t, c, onlyPending(t, c).ID, Answer{Allow: true})
		(<-result).granted(t)
	}))
}

func TestCancellation(t *testing.T) {
	t.Run("while waiting", bubble(func(t *testing.T) {
		c := NewController(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		result := decideLater(ctx, c, writeCall())
		cancel()
		denied := (<-result).denied(t)
		if denied.Code != CodeCancelled || !errors.Is(denied, context.Canceled) || len(c.Pending()) != 0 {
			t.Errorf("%+v, pending %v", denied, c.Pending())
		}
	}))
	t.Run("before asking", bubble(func(t *testing.T) {
		c := NewController(Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if denied := (<-decideLater(ctx, c, writeCall())).denied(t); denied.Code != CodeCancelled {
			t.Errorf("%+v", denied)
		}
	}))
	t.Run("session closed", bubble(func(t *testing.T) {
		c := NewController(Options{})
		mustOpen(t, c, "s1")
		mustOpen(t, c, "s2")
		in := func(s string) Call { return writeCall().with(func(c *Call) { c.SessionID = s }) }
		closing, other := decideLater(t.Context(), c, in("s1")), decideLater(t.Context(), c, in("s2"))
		if n := c.CloseSession("s1"); n != 1 {
			t.Errorf("%d requests cancelled, want 1", n)
		}
		if denied := (<-closing).denied(t); denied.Code != CodeCancelled || denied.Decision.Action != Dismissed {
			t.Errorf("%+v", denied)
		}
		mustAnswer(t, c, onlyPending(t, c).ID, Answer{Allow: true})
		(<-other).granted(t)
		if denied := decide(t, c, in("s1")).denied(t); denied.Code != CodeCancelled {
			t.Errorf("a call of a closed session: %+v", denied)
		}
	}))
}

func mustOpen(t *testing.T, c *Controller, id string) {
	t.Helper()
	if err := c.OpenSession(id); err != nil {
		t.Fatal(err)
	}
}

func TestSessionMemory(t *testing.T) {
	in := func(s string) func(*Call) { return func(c *Call) { c.SessionID = s } }
	t.Run("allow", bubble(func(t *testing.T) {
		c := NewController(Options{})
		mustOpen(t, c, "s1")
		mustOpen(t, c, "s2")
		askAndAnswer(t, c, writeCall().with(in("s1")), Answer{Allow: true, Scope: Session}).granted(t)
		d := decide(t, c, writeCall().with(in("s1"))).granted(t)
		if d.Action != SessionApproved || d.Source != SourceRememberedAllow || d.Scope != Session || d.RequestID != "" {
			t.Errorf("%+v", d)
		}
		for name, other := range map[string]Call{
			"session": writeCall().with(in("s2")),
			"payload": writeCall().with(func(c *Call) { in("s1")(c); c.Request.Payload = map[string]any{"path": "b"} }),
			"tool": writeCall().with(func(c *Call) {
				in("s1")(c)
				c.ToolName, c.Request.ToolName = "edit_file", "edit_file"
			}),
			"connector": writeCall().with(func(c *Call) { in("s1")(c); c.Connector = "elsewhere" }),
		} {
			if v := c.Check(other); v.Effect != Ask {
				t.Errorf("another %s: %s by %s, want ask", name, v.Effect, v.Source)
			}
		}
		c.CloseSession("s1")
		mustOpen(t, c, "s1")
		if v := c.Check(writeCall().with(in("s1"))); v.Effect != Ask {
			t.Errorf("a new session of the same name remembers: %+v", v)
		}
	}))
	t.Run("deny", bubble(func(t *testing.T) {
		c := NewController(Options{})
		askAndAnswer(t, c, writeCall(), Answer{Scope: Session, Feedback: "never"}).denied(t)
		denied := decide(t, c, writeCall()).denied(t)
		if denied.Decision.Source != SourceRememberedDeny || denied.Decision.Feedback != "never" || !strings.Contains(denied.Hint, "never") {
			t.Errorf("%+v", denied)
		}
	}))
	t.Run("not from a rejected call", bubble(func(t *testing.T) {
		c := NewController(Options{})
		askAndAnswer(t, c, writeCall(), Answer{Allow: true}).granted(t)
		if v := c.Check(writeCall()); v.Effect != Ask {
			t.Errorf("an answer for once was remembered: %+v", v)
		}
	}))
}

func TestAgentAndGlobalMemory(t *testing.T) {
	agent := func(name string) func(*Call) {
		return func(c *Call) { c.Agent, c.SessionID = name, "other session" }
	}
	for _, tt := range []struct {
		scope          Scope
		same, stranger Effect // in another session, of the same agent and of another
	}{
		{Once, Ask, Ask},
		{Session, Ask, Ask},
		{Agent, Allow, Ask},
		{Global, Allow, Allow},
	} {
		t.Run(string(tt.scope), bubble(func(t *testing.T) {
			c := NewController(Options{})
			mustOpen(t, c, "other session")
			d := askAndAnswer(t, c, writeCall(), Answer{Allow: true, Scope: tt.scope}).granted(t)
			if v := c.Check(writeCall().with(agent("helper"))); v.Effect != tt.same {
				t.Errorf("same agent: %+v", v)
			}
			if v := c.Check(writeCall().with(agent("stranger"))); v.Effect != tt.stranger {
				t.Errorf("other agent: %+v", v)
			}
			checkForget(t, c, d, tt.scope)
		}))
	}
}

func checkForget(t *testing.T, c *Controller, d Decision, scope Scope) {
	t.Helper()
	list, err := c.Remembered()
	if err != nil {
		t.Fatal(err)
	}
	if scope == Once {
		if len(list) != 0 {
			t.Errorf("remembered %+v", list)
		}
		return
	}
	if len(list) != 1 || list[0].ID != d.ID || list[0].Approver != "uid 1000" || list[0].Payload != `{"path":"notes/a.txt"}` {
		t.Fatalf("remembered %+v, want the answer with its provenance", list)
	}
	decide(t, c, writeCall()).granted(t)
	if list, _ = c.Remembered(); list[0].Hits != 1 || list[0].LastUsed.IsZero() {
		t.Errorf("after one use: %+v", list[0])
	}
	if err := c.Forget(d.ID); err != nil {
		t.Error(err)
	}
	if err := c.Forget(d.ID); !errors.Is(err, ErrNotRemembered) {
		t.Errorf("forgetting twice: %v", err)
	}
	if v := c.Check(writeCall()); v.Effect != Ask {
		t.Errorf("after forgetting: %+v", v)
	}
}

func TestDenyBeatsAllowAtEveryScope(t *testing.T) {
	scopes := []Scope{Session, Agent, Global}
	for _, allow := range scopes {
		for _, deny := range scopes {
			c := NewController(Options{})
			q, err := c.question(writeCall())
			if err != nil {
				t.Fatal(err)
			}
			for effect, scope := range map[Effect]Scope{Allow: allow, Deny: deny} {
				if err := c.storeOf(q, scope).Remember(Memory{Key: q.key(scope, effect, q.fingerprint)}); err != nil {
					t.Fatal(err)
				}
			}
			if v := c.Check(writeCall()); v.Effect != Deny || v.Scope != deny {
				t.Errorf("allowed at %s, denied at %s: %s at %s", allow, deny, v.Effect, v.Scope)
			}
		}
	}
}

func TestNarrowerScopeIsNamedFirst(t *testing.T) {
	for _, effect := range []Effect{Allow, Deny} {
		c := NewController(Options{})
		q, err := c.question(writeCall())
		if err != nil {
			t.Fatal(err)
		}
		for _, scope := range []Scope{Global, Agent, Session} {
			if err := c.storeOf(q, scope).Remember(Memory{Key: q.key(scope, effect, q.fingerprint)}); err != nil {
				t.Fatal(err)
			}
			if v := c.Check(writeCall()); v.Effect != effect || v.Scope != scope {
				t.Errorf("%s down to %s: %s at %s", effect, scope, v.Effect, v.Scope)
			}
		}
	}
}

// brokenStore fails where it is told to.
type brokenStore struct {
	*MemoryStore
	lookup, remember error
}

func (b brokenStore) Lookup(keys ...Key) ([]Memory, error) {
	if b.lookup != nil {
		return nil, b.lookup
	}
	return b.MemoryStore.Lookup(keys...)
}

func (b brokenStore) Remember(m Memory) error {
	if b.remember != nil {
		return b.remember
	}
	return b.MemoryStore.Remember(m)
}

func TestStoreFailures(t *testing.T) {
	broken := errors.New("input/output error")
	t.Run("unreadable memory denies in every mode", func(t *testing.T) {
		c := NewController(Options{Mode: ApproveAll, Store: brokenStore{NewMemoryStore(), broken, nil}})
		denied := decide(t, c, writeCall()).denied(t)
		if !errors.Is(denied, broken) || denied.Decision.Source != SourceRememberedDeny {
			t.Errorf("%+v", denied)
		}
	})
	t.Run("an answer that cannot be kept leaves the request", bubble(func(t *testing.T) {
		c := NewController(Options{Store: brokenStore{NewMemoryStore(), nil, broken}})
		result := decideLater(t.Context(), c, writeCall())
		id := onlyPending(t, c).ID
		if _, err := c.Answer(id, Answer{Allow: true, Scope: Global, Approver: "uid 1000"}); !errors.Is(err, broken) {
			t.Errorf("Answer: %v, want %v", err, broken)
		}
		mustAnswer(t, c, onlyPending(t, c).ID, Answer{Allow: true})
		(<-result).granted(t)
	}))
}

func TestHardRejectionEndsTheBatch(t *testing.T) {
	call := func(batch, path string) Call {
		return writeCall().with(func(c *Call) {
			c.BatchID, c.Request.Payload = batch, map[string]any{"path": path}
		})
	}
	for mode, want := range map[RejectMode]Effect{RejectHard: Deny, RejectSoft: Ask, RejectExplain: Ask, "": Deny} {
		t.Run("mode "+string(mode), bubble(func(t *testing.T) {
			c := NewController(Options{})
			mustOpen(t, c, "s2")
			waiting := decideLater(t.Context(), c, call("b1", "second"))
			second := onlyPending(t, c).ID
			first := decideLater(t.Context(), c, call("b1", "first"))
			mustAnswer(t, c, c.Pending()[1].ID, Answer{Reject: mode, Feedback: "wrong approach"})
			(<-first).denied(t)
			if want == Ask {
				mustAnswer(t, c, second, Answer{Allow: true})
				(<-waiting).granted(t)
			} else if denied := (<-waiting).denied(t); denied.Decision.Source != SourceBatch || !strings.Contains(denied.Hint, "wrong approach") {
				t.Errorf("the waiting rest of the batch: %+v", denied)
			}
			if v := c.Check(call("b1", "third")); v.Effect != want {
				t.Errorf("the next call of the batch: %+v", v)
			}
			free := call("b1", "third").with(func(c *Call) { c.Request = nil })
			if v := c.Check(free); (v.Effect == Deny) != (want == Deny) {
				t.Errorf("a call of the batch that needs no approval: %+v", v)
			}
			for name, other := range map[string]Call{
				"batch": call("b2", "third"), "no batch": call("", "third"),
				"session": call("b1", "third").with(func(c *Call) { c.SessionID = "s2" }),
			} {
				if v := c.Check(other); v.Effect != Ask {
					t.Errorf("another %s: %+v", name, v)
				}
			}
		}))
	}
}

func TestDenialCache(t *testing.T) {
	for mode, cached := range map[RejectMode]bool{RejectHard: true, RejectSoft: true, RejectExplain: false} {
		t.Run(string(mode), bubble(func(t *testing.T) {
			c := NewController(Options{DenyCache: 5 * time.Minute})
			mustOpen(t, c, "s2")
			askAndAnswer(t, c, writeCall(), Answer{Reject: mode}).denied(t)
			want := Ask
			if cached {
				want = Deny
			}
			if v := c.Check(writeCall()); v.Effect != want {
				t.Errorf("right after: %+v, want %s", v, want)
			}
			if v := c.Check(writeCall().with(func(c *Call) { c.SessionID = "s2" })); v.Effect != Ask {
				t.Errorf("another session: %+v", v)
			}
			time.Sleep(5*time.Minute - time.Nanosecond)
			if v := c.Check(writeCall()); v.Effect != want {
				t.Errorf("just before the end: %+v, want %s", v, want)
			}
			time.Sleep(time.Nanosecond)
			if v := c.Check(writeCall()); v.Effect != Ask {
				t.Errorf("after five minutes: %+v", v)
			}
		}))
	}
	t.Run("off", bubble(func(t *testing.T) {
		c := NewController(Options{})
		askAndAnswer(t, c, writeCall(), Answer{}).denied(t)
		if v := c.Check(writeCall()); v.Effect != Ask {
			t.Errorf("%+v", v)
		}
	}))
}

func TestAnswerForTheSessionDecidesTheSameWaitingCalls(t *testing.T) {
	for _, allow := range []bool{true, false} {
		t.Run(fmt.Sprintf("allow=%v", allow), bubble(func(t *testing.T) {
			c := NewController(Options{})
			one, same := decideLater(t.Context(), c, writeCall()), decideLater(t.Context(), c, writeCall())
			other := decideLater(t.Context(), c, writeCall().with(func(c *Call) { c.Request.Payload = nil }))
			mustAnswer(t, c, c.Pending()[0].ID, Answer{Allow: allow, Scope: Session})
			if allow {
				(<-one).granted(t)
				(<-same).granted(t)
			} else {
				(<-one).denied(t)
				(<-same).denied(t)
			}
			mustAnswer(t, c, onlyPending(t, c).ID, Answer{Allow: true})
			(<-other).granted(t)
		}))
	}
}

func TestInvalidAnswersLeaveTheRequest(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{})
		result := decideLater(t.Context(), c, writeCall().with(func(c *Call) { c.Agent = "" }))
		id := onlyPending(t, c).ID
		for _, tt := range []struct {
			field  string
			answer Answer
		}{
			{"scope", Answer{Allow: true, Scope: "forever", Approver: "a"}},
			{"scope", Answer{Allow: true, Scope: Agent, Approver: "a"}},
			{"scope", Answer{Reject: RejectExplain, Scope: Session, Approver: "a"}},
			{"mode", Answer{Reject: "gently", Approver: "a"}},
			{"mode", Answer{Allow: true, Reject: RejectSoft, Approver: "a"}},
			{"approver", Answer{Allow: true}},
			{"approver", Answer{}},
		} {
			var invalid *InvalidAnswerError
			if _, err := c.Answer(id, tt.answer); !errors.As(err, &invalid) || invalid.Field != tt.field {
				t.Errorf("%+v: %v, want an InvalidAnswerError for %s", tt.answer, err, tt.field)
			}
		}
		for _, dead := range []string{"", "call-1", "req-1", id + "0"} {
			var none *NotPendingError
			if _, err := c.Answer(dead, Answer{Allow: true, Approver: "a"}); !errors.As(err, &none) || none.ID != dead {
				t.Errorf("answer to %q: %v, want a NotPendingError with its name", dead, err)
			}
			if _, err := c.Show(t.Context(), dead); !errors.As(err, &none) {
				t.Errorf("show %q: %v", dead, err)
			}
			if _, err := c.Dismiss(dead, "a"); !errors.As(err, &none) {
				t.Errorf("dismiss %q: %v", dead, err)
			}
		}
		mustAnswer(t, c, id, Answer{Allow: true})
		(<-result).granted(t)
	})(t)
}

func TestDismiss(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{DenyCache: time.Hour})
		result := decideLater(t.Context(), c, writeCall().with(func(c *Call) { c.BatchID = "b" }))
		id := onlyPending(t, c).ID
		if _, err := c.Dismiss(id, ""); err == nil {
			t.Error("a dismissal by nobody was taken")
		}
		d, err := c.Dismiss(id, "uid 1000")
		if err != nil || d.Action.State() != StateDismissed {
			t.Errorf("Dismiss: %+v, %v", d, err)
		}
		if denied := (<-result).denied(t); denied.Code != CodeDenied || denied.Decision.Action != Dismissed {
			t.Errorf("%+v", denied)
		}
		var late *AnsweredError
		if _, err := c.Dismiss(id, "uid 1000"); !errors.As(err, &late) {
			t.Errorf("dismissing twice: %v", err)
		}
		if v := c.Check(writeCall().with(func(c *Call) { c.BatchID = "b" })); v.Effect != Ask {
			t.Errorf("a dismissal was remembered: %+v", v)
		}
	})(t)
}

func TestFirstAnswerWins(t *testing.T) {
	for range 100 {
		c := NewController(Options{})
		type reply struct {
			approver string
			d        Decision
			err      error
		}
		const approvers = 32
		replies := make(chan reply, approvers)
		asked := make(chan string, 1)
		defer c.Subscribe(func(e Event) {
			if e.Kind == Requested {
				asked <- e.Pending.ID
			}
		})()
		result := make(chan decided, 1)
		go func() {
			g, err := c.Decide(t.Context(), writeCall())
			result <- decided{g, err}
		}()
		id := <-asked
		for i := range approvers {
			go func() {
				who := fmt.Sprintf("approver %d", i)
				d, err := c.Answer(id, Answer{Allow: i%2 == 0, Approver: who})
				replies <- reply{who, d, err}
			}()
		}
		var winners []reply
		told := map[string]int{}
		for range approvers {
			r := <-replies
			var late *AnsweredError
			switch {
			case r.err == nil:
				winners = append(winners, r)
			case errors.As(r.err, &late):
				told[late.Decision.Approver]++
			default:
				t.Fatal(r.err)
			}
		}
		got := <-result
		if len(winners) != 1 || told[winners[0].approver] != approvers-1 {
			t.Fatalf("winners %+v, the others were told %v", winners, told)
		}
		if allowed := winners[0].d.Action == Approved; allowed != (got.err == nil) {
			t.Fatalf("the winner said %s, Decide %v", winners[0].d.Action, got.err)
		}
	}
}

func TestApproversComeAndGo(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{NoApprover: NoApproverDeny})
		if denied := decide(t, c, writeCall()).denied(t); denied.Code != CodeNoApprover {
			t.Errorf("with nobody there: %+v", denied)
		}
		detach := c.Attach()
		var seen []string
		leave := c.Subscribe(func(e Event) { seen = append(seen, string(e.Kind)) })
		result := decideLater(t.Context(), c, writeCall())
		leave()
		detach()
		detach() // twice counts once
		if c.Approvers("") != 0 || len(c.Pending()) != 1 {
			t.Fatalf("%d approvers, pending %v: the request must wait on", c.Approvers(""), c.Pending())
		}
		defer c.Attach()()
		defer c.Subscribe(func(e Event) { seen = append(seen, "again "+string(e.Kind)+" "+e.Pending.CallID) })()
		synctest.Wait()
		mustAnswer(t, c, onlyPending(t, c).ID, Answer{Allow: true})
		(<-result).granted(t)
		synctest.Wait()
		if got := strings.Join(seen, ", "); got != "requested, again requested call-1, again resolved call-1" {
			t.Errorf("approvers saw %s", got)
		}
	})(t)
}

func TestWaitsWithoutApprover(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{NoApprover: NoApproverWait})
		askAndAnswer(t, c, writeCall(), Answer{Allow: true}).granted(t)
		odd := NewController(Options{NoApprover: "hope"})
		if denied := decide(t, odd, writeCall()).denied(t); denied.Code != CodeNoApprover {
			t.Errorf("an unknown word must deny: %+v", denied)
		}
	})(t)
}

func TestPresentationIsBuiltOnlyWhenShown(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{})
		built, detailed := 0, 0
		call := writeCall().with(func(c *Call) {
			c.Details = func() map[string]string {
				detailed++
				return map[string]string{"rule": "r"}
			}
			c.Present = func(context.Context) (*Presentation, error) {
				built++
				return &Presentation{Type: Diff, Content: "+hello\x1b[2J\n"}, nil
			}
		})
		result := decideLater(t.Context(), c, call)
		if c.Pending(); built != 0 {
			t.Error("listing built the presentation")
		}
		var updates int
		defer c.Subscribe(func(e Event) {
			if e.Kind == Updated {
				updates++
			}
		})()
		id := onlyPending(t, c).ID
		for range 3 {
			p, err := c.Show(t.Context(), id)
			if err != nil || p.Presentation.Type != Diff || p.Presentation.Content != "+hello<U+001B>[2J\n" || p.Details["rule"] != "r" {
				t.Fatalf("%+v, %v", p.Presentation, err)
			}
		}
		synctest.Wait()
		if built != 1 || updates != 1 {
			t.Errorf("built %d times, %d updates, want one each", built, updates)
		}
		mustAnswer(t, c, id, Answer{Allow: true, Scope: Session})
		(<-result).granted(t)
		for range 3 {
			decide(t, c, call).granted(t)
		}
		c.Check(call)
		if built != 1 || detailed != 1 {
			t.Errorf("built %d times, details %d times, want once each: memory answers", built, detailed)
		}
		var late *AnsweredError
		if _, err := c.Show(t.Context(), id); !errors.As(err, &late) {
			t.Errorf("showing an answered request: %v", err)
		}
	})(t)
}

func TestShowFallsBack(t *testing.T) {
	cannot := func(context.Context) (*Presentation, error) { return nil, errors.New("file is \x1bgone") }
	for name, tt := range map[string]struct {
		change  func(*Call)
		content string
		problem any
	}{
		"payload":      {func(*Call) {}, "{\n  \"path\": \"notes/a.txt\"\n}", nil},
		"tool's own":   {func(c *Call) { c.Request.Presentation = &Presentation{Type: Text, Content: "own"} }, "own", nil},
		"build failed": {func(c *Call) { c.Present = cannot }, "{\n  \"path\": \"notes/a.txt\"\n}", "file is <U+001B>gone"},
		"nothing built": {func(c *Call) {
			c.Present = func(context.Context) (*Presentation, error) { return nil, nil }
		}, "{\n  \"path\": \"notes/a.txt\"\n}", nil},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			c := NewController(Options{})
			result := decideLater(t.Context(), c, writeCall().with(tt.change))
			p, err := c.Show(t.Context(), onlyPending(t, c).ID)
			if err != nil {
				t.Fatal(err)
			}
			if p.Presentation.Content != tt.content || p.Presentation.Metadata["error"] != tt.problem {
				t.Errorf("%+v", p.Presentation)
			}
			mustAnswer(t, c, p.ID, Answer{Allow: true})
			(<-result).granted(t)
		}))
	}
}

func TestShowGivesUpWithItsContextAndBuildsAgain(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{})
		call := writeCall().with(func(c *Call) {
			c.Present = func(ctx context.Context) (*Presentation, error) {
				if _, slow := ctx.Deadline(); slow {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return &Presentation{Type: Text, Content: "built"}, nil
			}
		})
		result := decideLater(t.Context(), c, call)
		id := onlyPending(t, c).ID
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		second, cancelSecond := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancelSecond()
		first := make(chan error, 1)
		go func() { _, err := c.Show(ctx, id); first <- err }()
		synctest.Wait()
		if _, err := c.Show(second, id); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for the other's build: %v", err)
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("build cut short: %v", err)
		}
		if p, err := c.Show(t.Context(), id); err != nil || p.Presentation.Content != "built" {
			t.Errorf("%+v, %v", p.Presentation, err)
		}
		mustAnswer(t, c, id, Answer{Allow: true})
		(<-result).granted(t)
	})(t)
}

// prompterFunc is a Prompter.
type prompterFunc func(context.Context, Pending) (Answer, error)

func (f prompterFunc) Prompt(ctx context.Context, p Pending) (Answer, error) { return f(ctx, p) }

func TestPrompter(t *testing.T) {
	t.Run("answers", bubble(func(t *testing.T) {
		var shown Pending
		c := NewController(Options{NoApprover: NoApproverDeny, Prompter: prompterFunc(func(_ context.Context, p Pending) (Answer, error) {
			shown = p
			return Answer{Allow: true}, nil
		})})
		d := decide(t, c, writeCall()).granted(t)
		if d.Approver != "prompter" || shown.Presentation == nil {
			t.Errorf("approver %q, presentation %v", d.Approver, shown.Presentation)
		}
	}))
	t.Run("is told to stop", bubble(func(t *testing.T) {
		stopped := false
		c := NewController(Options{Prompter: prompterFunc(func(ctx context.Context, p Pending) (Answer, error) {
			<-ctx.Done()
			stopped = true
			return Answer{Allow: true}, nil
		})})
		askAndAnswer(t, c, writeCall(), Answer{Reject: RejectSoft}).denied(t)
		synctest.Wait()
		if !stopped {
			t.Error("the prompt stayed after somebody else had answered")
		}
	}))
	broken := prompterFunc(func(context.Context, Pending) (Answer, error) { return Answer{}, errors.New("no terminal") })
	t.Run("broken and alone", bubble(func(t *testing.T) {
		c := NewController(Options{NoApprover: NoApproverDeny, Prompter: broken})
		denied := decide(t, c, writeCall()).denied(t)
		if denied.Code != CodeNoApprover || !strings.Contains(denied.Decision.Reason, "no terminal") {
			t.Errorf("%+v", denied)
		}
	}))
	t.Run("broken, with others", bubble(func(t *testing.T) {
		c := NewController(Options{NoApprover: NoApproverDeny, Prompter: broken})
		defer c.Attach()()
		askAndAnswer(t, c, writeCall(), Answer{Allow: true}).granted(t)
	}))
	t.Run("broken, and nobody comes", bubble(func(t *testing.T) {
		c := NewController(Options{Prompter: broken})
		denied := decide(t, c, writeCall()).denied(t)
		if denied.Code != CodeTimeout || !strings.Contains(denied.Decision.Reason, "no terminal") {
			t.Errorf("%+v", denied)
		}
	}))
}

func TestPromptRate(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{PromptRate: PromptRate{Burst: 2, Every: time.Second}})
		mustOpen(t, c, "s2")
		ask := func(session string) Effect {
			result := decideLater(t.Context(), c, writeCall().with(func(c *Call) { c.SessionID = session }))
			for _, p := range c.Pending() {
				mustAnswer(t, c, p.ID, Answer{Allow: true})
			}
			got := <-result
			if got.err == nil {
				return Allow
			}
			if denied := got.denied(t); denied.Code != CodeLimit {
				t.Errorf("%+v", denied)
			}
			return Deny
		}
		for i, tt := range []struct {
			pause   time.Duration
			session string
			want    Effect
		}{
			{0, "", Allow}, {0, "", Allow}, {0, "", Deny}, {0, "s2", Allow},
			{time.Second - 1, "", Deny}, {1, "", Allow}, {0, "", Deny},
			{time.Hour, "", Allow}, {0, "", Allow}, {0, "", Deny},
		} {
			time.Sleep(tt.pause)
			if got := ask(tt.session); got != tt.want {
				t.Errorf("step %d: %s, want %s", i, got, tt.want)
			}
		}
	})(t)
}

func TestNewDenyEndsWhatWaits(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{})
		result := decideLater(t.Context(), c, writeCall())
		other := decideLater(t.Context(), c, writeCall().with(func(c *Call) {
			c.ToolName, c.Request.ToolName = "shell", "shell"
		}))
		c.SetRules(mustRules(t, Rule{ID: "r7", Effect: Deny, Tool: "write_*", Reason: "read only week"}))
		denied := (<-result).denied(t)
		if denied.Decision.Rule != "r7" || !strings.Contains(denied.Decision.Reason, "read only week") {
			t.Errorf("%+v", denied.Decision)
		}
		mustAnswer(t, c, onlyPending(t, c).ID, Answer{Allow: true})
		(<-other).granted(t)
	})(t)
}

// A deny that reaches the store from elsewhere after the request was shown
// still holds when somebody then says yes.
func TestAllowDoesNotEraseADenyThatCameMeanwhile(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{})
		result := decideLater(t.Context(), c, writeCall())
		q, err := c.question(writeCall())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.opts.Store.Remember(Memory{ID: "m", Key: q.key(Global, Deny, q.fingerprint), Approver: "uid 0"}); err != nil {
			t.Fatal(err)
		}
		var told *AnsweredError
		if _, err := c.Answer(onlyPending(t, c).ID, Answer{Allow: true, Approver: "uid 1000"}); !errors.As(err, &told) || told.Decision.Rule != "m" {
			t.Errorf("the approver was told %v", err)
		}
		if d := (<-result).denied(t).Decision; d.Source != SourceRememberedDeny || d.Approver != "uid 0" {
			t.Errorf("%+v", d)
		}
	})(t)
}

// An answer that is stored after the order was walked, and before the request
// is there to be settled by it, still decides the call.
func TestAnswerStoredWhileTheRequestIsBeingMade(t *testing.T) {
	for effect, source := range map[Effect]Source{Allow: SourceRememberedAllow, Deny: SourceRememberedDeny} {
		t.Run(effect.String(), bubble(func(t *testing.T) {
			store := NewMemoryStore()
			var meanwhile func()
			c := NewController(Options{Store: store, Now: func() time.Time {
				if f := meanwhile; f != nil { // the clock is first read when the request is made
					meanwhile = nil
					f()
				}
				return time.Now()
			}})
			q, err := c.question(writeCall())
			if err != nil {
				t.Fatal(err)
			}
			meanwhile = func() {
				if err := store.Remember(Memory{ID: "m", Key: q.key(Global, effect, q.fingerprint), Approver: "uid 0"}); err != nil {
					t.Error(err)
				}
			}
			got := <-decideLater(t.Context(), c, writeCall())
			d := got.grant.Decision()
			if effect == Deny {
				d = got.denied(t).Decision
			}
			if d.Source != source || d.RequestID == "" {
				t.Errorf("%+v", d)
			}
		}))
	}
}

func TestNoUpdateFollowsTheEnd(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{})
		var kinds []EventKind
		defer c.Subscribe(func(e Event) { kinds = append(kinds, e.Kind) })()
		var id string
		result := decideLater(t.Context(), c, writeCall().with(func(call *Call) {
			call.Present = func(context.Context) (*Presentation, error) { // somebody is faster than the builder
				mustAnswer(t, c, id, Answer{Allow: true})
				return &Presentation{Type: Text, Content: "late"}, nil
			}
		}))
		id = onlyPending(t, c).ID
		if _, err := c.Show(t.Context(), id); err != nil {
			t.Error(err)
		}
		(<-result).granted(t)
		synctest.Wait()
		if fmt.Sprint(kinds) != "[requested resolved]" {
			t.Errorf("events %v", kinds)
		}
	})(t)
}

func TestPendingIDsAreNeverReused(t *testing.T) {
	bubble(func(t *testing.T) {
		seen := map[string]bool{}
		for range 3 {
			c := NewController(Options{})
			for range 20 {
				a, b := decideLater(t.Context(), c, writeCall()), decideLater(t.Context(), c, writeCall())
				for _, p := range c.Pending() { // both calls have the same name
					if seen[p.ID] {
						t.Fatalf("%s was used before", p.ID)
					}
					seen[p.ID] = true
					mustAnswer(t, c, p.ID, Answer{Allow: true})
				}
				(<-a).granted(t)
				(<-b).granted(t)
			}
		}
	})(t)
}

func TestLateAnswersAreForgottenInTheEnd(t *testing.T) {
	var r recentDecisions
	for i := range maxRecent + 1 {
		r.add(fmt.Sprint(i), Decision{})
	}
	if _, ok := r.byID["0"]; ok || len(r.byID) != maxRecent {
		t.Errorf("%d decisions kept, the oldest among them: %v", len(r.byID), ok)
	}
}

func TestSessionsOpenOnce(t *testing.T) {
	c := NewController(Options{})
	mustOpen(t, c, "s1")
	if err := c.OpenSession("s1"); err == nil {
		t.Error("opened twice")
	}
	if n := c.CloseSession("never opened"); n != 0 {
		t.Errorf("%d cancelled", n)
	}
}

// Sessions, answers, approvers and cancellations at once: every request is seen
// to begin and to end exactly once, and nothing is left.
func TestStress(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{DenyCache: time.Millisecond})
		history := map[string][]EventKind{}
		defer c.Subscribe(func(e Event) { history[e.Pending.ID] = append(history[e.Pending.ID], e.Kind) })()
		for range 2 { // two approvers race for each request
			defer c.Subscribe(func(e Event) { answerBySize(t, c, e) })()
		}
		var wg sync.WaitGroup
		for s := range 8 {
			wg.Go(func() { runSession(t, c, fmt.Sprint("s", s), 60) })
		}
		wg.Wait()
		synctest.Wait()
		if waiting := c.Pending(); len(waiting) != 0 || len(history) == 0 {
			t.Fatalf("left waiting: %v, of %d requests", waiting, len(history))
		}
		for id, kinds := range history {
			s := fmt.Sprint(kinds)
			if s != "[requested resolved]" && s != "[requested updated resolved]" {
				t.Errorf("%s: %s", id, s)
			}
		}
	})(t)
}

// answerBySize lets the length of the call's name choose the answer.
func answerBySize(t *testing.T, c *Controller, e Event) {
	if e.Kind != Requested {
		return
	}
	var late *AnsweredError
	if _, err := c.Show(t.Context(), e.Pending.ID); err != nil && !errors.As(err, &late) {
		t.Errorf("Show: %v", err)
	}
	n := len(e.Pending.CallID)
	a := Answer{Allow: n%2 == 0, Scope: []Scope{Once, Session, Agent}[n%3], Approver: "a"}
	if _, err := c.Answer(e.Pending.ID, a); err != nil && !errors.As(err, &late) {
		t.Errorf("Answer: %v", err)
	}
}

func runSession(t *testing.T, c *Controller, id string, calls int) {
	if err := c.OpenSession(id); err != nil {
		t.Error(err)
		return
	}
	defer c.CloseSession(id)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%7 == 0 {
				go cancel()
			}
			defer cancel()
			call := writeCall().with(func(c *Call) {
				c.ID, c.SessionID, c.BatchID = strings.Repeat("x", i+1), id, fmt.Sprint(i/10)
				c.Request.Payload = map[string]any{"n": i % 9}
			})
			var denied *DeniedError
			if g, err := c.Decide(ctx, call); err != nil && !errors.As(err, &denied) || err == nil && g.subject != "the plan" {
				t.Errorf("Decide: %+v, %v", g, err)
			}
		})
	}
	wg.Wait()
}
