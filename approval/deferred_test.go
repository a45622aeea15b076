package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// deferCall makes a call that does not wait, and gives the id of its request.
func deferCall(t *testing.T, c *Controller, call Call) string {
	t.Helper()
	_, err := c.Defer(t.Context(), call)
	var later *DeferredError
	if !errors.As(err, &later) {
		t.Fatalf("Defer: %v, want a *DeferredError", err)
	}
	return later.ID
}

func withApproval(id string) func(*Call) { return func(c *Call) { c.ApprovalID = id } }

func TestDeferredApprovals(t *testing.T) {
	t.Run("used once", bubble(func(t *testing.T) {
		c := NewController(Options{})
		id := deferCall(t, c, writeCall())
		if !onlyPending(t, c).Deferred {
			t.Error("the approver is not told that nobody waits")
		}
		mustAnswer(t, c, id, Answer{Allow: true})
		if v := c.Check(writeCall()); v.Effect != Ask {
			t.Errorf("without the id: %+v", v)
		}
		for range 2 { // looking uses nothing up
			if v := c.Check(writeCall().with(withApproval(id))); v.Effect != Allow || v.Source != SourceDeferred {
				t.Errorf("check: %+v", v)
			}
		}
		d := decide(t, c, writeCall().with(withApproval(id))).granted(t)
		if d.Source != SourceDeferred || d.RequestID != id || d.Approver != "uid 1000" {
			t.Errorf("%+v", d)
		}
		again := decide(t, c, writeCall().with(withApproval(id))).denied(t)
		if !strings.Contains(again.Decision.Reason, "was already used") {
			t.Errorf("%+v", again)
		}
	}))
	t.Run("of many that come at once, one", bubble(func(t *testing.T) {
		c := NewController(Options{})
		id := deferCall(t, c, writeCall())
		var results []<-chan decided
		for range 20 { // they wait for the answer
			results = append(results, decideLater(t.Context(), c, writeCall().with(withApproval(id))))
		}
		mustAnswer(t, c, id, Answer{Allow: true})
		granted := 0
		for _, r := range results {
			if got := <-r; got.err == nil {
				granted++
			}
		}
		if granted != 1 {
			t.Errorf("%d calls ran by one approval", granted)
		}
	}))
	t.Run("expires", bubble(func(t *testing.T) {
		c := NewController(Options{})
		id := deferCall(t, c, writeCall())
		time.Sleep(4 * time.Minute)
		mustAnswer(t, c, id, Answer{Allow: true})
		time.Sleep(deferredFor - time.Nanosecond)
		if v := c.Check(writeCall().with(withApproval(id))); v.Effect != Allow {
			t.Errorf("just before: %+v", v)
		}
		time.Sleep(time.Nanosecond)
		denied := decide(t, c, writeCall().with(withApproval(id))).denied(t)
		if !strings.Contains(denied.Decision.Reason, "has expired") {
			t.Errorf("%+v", denied)
		}
	}))
	t.Run("not answered", bubble(func(t *testing.T) {
		c := NewController(Options{})
		id := deferCall(t, c, writeCall())
		if got := deferCall(t, c, writeCall().with(withApproval(id))); got != id {
			t.Errorf("asking again made %s of %s", got, id)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if denied := decide(t, c, writeCall().with(withApproval(id))).denied(t); denied.Code != CodeTimeout {
			t.Errorf("%+v", denied)
		}
	}))
	t.Run("belongs to its call", bubble(func(t *testing.T) {
		c := NewController(Options{})
		mustOpen(t, c, "s2")
		id := deferCall(t, c, writeCall())
		mustAnswer(t, c, id, Answer{Allow: true})
		for text, change := range map[string]func(*Call){
			"another agent's":                 func(c *Call) { c.Agent = "stranger" },
			"does not belong to this session": func(c *Call) { c.SessionID = "s2" },
			`for the tool "write_file"`:       func(c *Call) { c.ToolName, c.Request.ToolName = "shell", "shell" },
			"for other arguments":             func(c *Call) { c.Digest = "sha256:2" },
			"for other arguments, or fi":      func(c *Call) { c.Request.Payload = map[string]any{"path": "b"} },
		} {
			call := writeCall().with(withApproval(id)).with(change)
			if denied := decide(t, c, call).denied(t); !strings.Contains(denied.Decision.Reason, text) || denied.Decision.Source != SourceDeferred {
				t.Errorf("%+v, want %q", denied, text)
			}
		}
		decide(t, c, writeCall().with(withApproval(id))).granted(t)
	}))
	t.Run("ends with its session, and a deny ends it", bubble(func(t *testing.T) {
		c := NewController(Options{})
		mustOpen(t, c, "s")
		in := func(c *Call) { c.SessionID = "s" }
		id := deferCall(t, c, writeCall().with(in))
		mustAnswer(t, c, id, Answer{Allow: true})
		c.SetRules(mustRules(t, Rule{Effect: Deny, Tool: "write_*"}))
		if d := decide(t, c, writeCall().with(in).with(withApproval(id))).denied(t); d.Decision.Source != SourceDenyRule {
			t.Errorf("%+v", d)
		}
		c.SetRules(nil)
		c.CloseSession("s")
		mustOpen(t, c, "s")
		if d := decide(t, c, writeCall().with(in).with(withApproval(id))).denied(t); d.Decision.Source != SourceDeferred {
			t.Errorf("%+v", d)
		}
	}))
	t.Run("cancelled while it waits for the answer", bubble(func(t *testing.T) {
		c := NewController(Options{})
		id := deferCall(t, c, writeCall())
		ctx, cancel := context.WithCancel(t.Context())
		result := decideLater(ctx, c, writeCall().with(withApproval(id)))
		cancel()
		if d := (<-result).denied(t); d.Code != CodeCancelled {
			t.Errorf("%+v", d)
		}
		mustAnswer(t, c, id, Answer{Allow: true}) // and the request waits on
		decide(t, c, writeCall().with(withApproval(id))).granted(t)
	}))
}

// editable gives a call arguments, and a tool that plans any but those that block.
func editable(c *Call) {
	c.Args = json.RawMessage(`{"path":"notes/a.txt"}`)
	c.Revise = func(args json.RawMessage) (Call, error) {
		var a struct{ Path string }
		if err := json.Unmarshal(args, &a); err != nil || a.Path == "" {
			return Call{}, errors.New("argument path: is empty")
		}
		if a.Path == "/etc/passwd" {
			return Call{Err: &Blocked{Reason: "outside every root"}}, nil
		}
		r := &Request{ToolName: "write_file", Description: "Write " + a.Path, Payload: map[string]any{"path": a.Path}}
		if a.Path == "free" {
			r = nil
		}
		return Call{Request: r, Digest: "sha256:" + a.Path, Subject: "the plan for " + a.Path}, nil
	}
}

func TestEditedArguments(t *testing.T) {
	edit := func(path string) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"path":%q}`, path)) }
	t.Run("what was edited is what is granted and remembered", bubble(func(t *testing.T) {
		c := NewController(Options{})
		result := decideLater(t.Context(), c, writeCall().with(editable))
		id := onlyPending(t, c).ID
		p, _, err := c.Preview(t.Context(), id, edit("b"), nil)
		if err != nil || p.Digest != "sha256:b" || p.Description != "Write b" || string(p.Args) != `{"path":"b"}` || p.Presentation == nil {
			t.Errorf("preview %+v, %v", p, err)
		}
		mustAnswer(t, c, id, Answer{Allow: true, Scope: Agent, Args: edit("b")})
		got := <-result
		d := got.grant.Decision()
		if got.err != nil || got.grant.subject != "the plan for b" || got.grant.Digest() != "sha256:b" ||
			d.Digest != "sha256:b" || d.AskedDigest != "sha256:1" || string(d.Args) != `{"path":"b"}` {
			t.Errorf("%+v, %v", got.grant, got.err)
		}
		if v := c.Check(writeCall()); v.Effect != Ask {
			t.Errorf("what was asked for is remembered: %+v", v)
		}
		edited := writeCall().with(func(c *Call) { c.Request.Payload = map[string]any{"path": "b"} })
		if v := c.Check(edited); v.Effect != Allow {
			t.Errorf("what was answered is not remembered: %+v", v)
		}
	}))
	t.Run("what the tool or a rule refuses leaves the request", bubble(func(t *testing.T) {
		c := NewController(Options{DenyCache: time.Minute})
		deny := Answer{Scope: Session, Reject: RejectSoft}
		askAndAnswer(t, c, writeCall().with(func(c *Call) { c.Request.Payload = map[string]any{"path": "denied"} }), deny).denied(t)
		result := decideLater(t.Context(), c, writeCall().with(editable))
		id := onlyPending(t, c).ID
		for path, text := range map[string]string{
			"": "argument path: is empty", "/etc/passwd": "outside every root", "denied": "denied for this session by uid 1000",
		} {
			_, err := c.Answer(id, Answer{Allow: true, Approver: "uid 1000", Args: edit(path)})
			var invalid *InvalidAnswerError
			if !errors.As(err, &invalid) || invalid.Field != "args" || !strings.Contains(invalid.Reason, text) {
				t.Errorf("%q: %v, want %q", path, err, text)
			}
		}
		for field, a := range map[string]Answer{
			"args":  {Args: edit("b")},
			"scope": {Allow: true, Scope: Session, Args: edit("free")},
		} {
			a.Approver = "uid 1000"
			var invalid *InvalidAnswerError
			if _, err := c.Answer(id, a); !errors.As(err, &invalid) || invalid.Field != field {
				t.Errorf("%+v: %v, want %s refused", a, err, field)
			}
		}
		mustAnswer(t, c, id, Answer{Allow: true, Args: edit("free")})
		if got := <-result; got.err != nil || got.grant.subject != "the plan for free" {
			t.Errorf("%+v", got)
		}
	}))
	t.Run("not where nothing can be edited", bubble(func(t *testing.T) {
		c := NewController(Options{})
		result := decideLater(t.Context(), c, writeCall())
		id := onlyPending(t, c).ID
		if _, err := c.Answer(id, Answer{Allow: true, Approver: "x", Args: edit("b")}); err == nil || !strings.Contains(err.Error(), "cannot be edited") {
			t.Error(err)
		}
		mustAnswer(t, c, id, Answer{})
		(<-result).denied(t)
	}))
	t.Run("and deferred", bubble(func(t *testing.T) {
		c := NewController(Options{})
		id := deferCall(t, c, writeCall().with(editable))
		mustAnswer(t, c, id, Answer{Allow: true, Args: edit("b")})
		g, err := c.Decide(t.Context(), writeCall().with(editable).with(withApproval(id)))
		if err != nil || g.subject != "the plan for b" || g.Decision().AskedDigest != "sha256:1" || g.Decision().Digest != "sha256:b" {
			t.Errorf("%+v, %v", g, err)
		}
	}))
}

func TestInterruptEndsTheBatch(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{})
		in := func(c *Call) { c.BatchID = "b" }
		got := askAndAnswer(t, c, writeCall().with(in), Answer{Reject: RejectSoft, Interrupt: true, Feedback: "wrong repository"}).denied(t)
		if !got.Decision.Interrupt || !strings.Contains(got.Hint, "End your turn") || !strings.Contains(got.Hint, "wrong repository") {
			t.Errorf("%+v", got)
		}
		next := writeCall().with(in).with(func(c *Call) { c.Request.Payload = map[string]any{"path": "b"} })
		if d := decide(t, c, next).denied(t); d.Decision.Source != SourceBatch || !d.Decision.Interrupt || !strings.Contains(d.Hint, "End your turn") {
			t.Errorf("the rest of the batch: %+v", d)
		}
	})(t)
}

// memoryJournal keeps requests in a map, and fails if told to.
type memoryJournal struct {
	there map[string]Pending
	err   error
	order []string
}

func (j *memoryJournal) Add(p Pending) error {
	if j.err != nil {
		return j.err
	}
	j.there[p.ID] = p
	j.order = append(j.order, "added")
	return nil
}

func (j *memoryJournal) Remove(id string) error {
	delete(j.there, id)
	return nil
}

func TestRequestsAreKeptBeforeAnybodyIsAsked(t *testing.T) {
	t.Run("kept", bubble(func(t *testing.T) {
		j := &memoryJournal{there: map[string]Pending{}}
		c := NewController(Options{Journal: j})
		defer c.Subscribe(func(e Event) { j.order = append(j.order, string(e.Kind)) })()
		d := askAndAnswer(t, c, writeCall(), Answer{Allow: true}).granted(t)
		synctest.Wait()
		if !slices.Equal(j.order, []string{"added", "requested", "resolved"}) {
			t.Errorf("in the order %v", j.order)
		}
		if p, ok := j.there[d.RequestID]; !ok || p.Description != "Write notes/a.txt" {
			t.Errorf("before it is recorded elsewhere, the journal has %+v", j.there)
		}
		if err := c.Recorded(d.RequestID); err != nil || len(j.there) != 0 {
			t.Errorf("afterwards %+v, %v", j.there, err)
		}
	}))
	t.Run("what cannot be kept is not asked about", bubble(func(t *testing.T) {
		full := errors.New("no space left on device")
		c := NewController(Options{Journal: &memoryJournal{err: full}})
		events := 0
		defer c.Subscribe(func(Event) { events++ })()
		denied := decide(t, c, writeCall()).denied(t)
		synctest.Wait()
		if !errors.Is(denied, full) || events != 0 || len(c.Pending()) != 0 {
			t.Errorf("%+v, %d events", denied, events)
		}
	}))
	t.Run("nothing is kept of what memory answers", bubble(func(t *testing.T) {
		j := &memoryJournal{there: map[string]Pending{}}
		c := NewController(Options{Journal: j, Mode: ApproveAll})
		decide(t, c, writeCall()).granted(t)
		if len(j.there) != 0 {
			t.Error(j.there)
		}
	}))
}

func TestExpiry(t *testing.T) {
	t.Run("after a time", bubble(func(t *testing.T) {
		for _, scope := range []Scope{Session, Agent, Global} {
			c := NewController(Options{})
			askAndAnswer(t, c, writeCall(), Answer{Allow: true, Scope: scope, ExpiresAfter: time.Hour}).granted(t)
			time.Sleep(time.Hour - time.Nanosecond)
			if v := c.Check(writeCall()); v.Effect != Allow {
				t.Errorf("%s, just before: %+v", scope, v)
			}
			time.Sleep(time.Nanosecond)
			if v := c.Check(writeCall()); v.Effect != Ask {
				t.Errorf("%s, afterwards: %+v", scope, v)
			}
		}
	}))
	t.Run("after some uses", bubble(func(t *testing.T) {
		for _, scope := range []Scope{Session, Agent} {
			c := NewController(Options{})
			askAndAnswer(t, c, writeCall(), Answer{Allow: true, Scope: scope, Uses: 2}).granted(t)
			for range 3 {
				c.Check(writeCall()) // looking uses nothing up
			}
			decide(t, c, writeCall()).granted(t)
			decide(t, c, writeCall()).granted(t)
			if v := c.Check(writeCall()); v.Effect != Ask {
				t.Errorf("%s: %+v", scope, v)
			}
		}
	}))
	t.Run("a last use is given once", bubble(func(t *testing.T) {
		c := NewController(Options{NoApprover: NoApproverDeny})
		detach := c.Attach()
		askAndAnswer(t, c, writeCall(), Answer{Allow: true, Scope: Agent, Uses: 5}).granted(t)
		detach()
		results := make(chan bool)
		for range 20 {
			go func() { _, err := c.Decide(t.Context(), writeCall()); results <- err == nil }()
		}
		granted := 0
		for range 20 {
			if <-results {
				granted++
			}
		}
		if granted != 5 {
			t.Errorf("%d runs by 5 uses", granted)
		}
	}))
	t.Run("a deny, too", bubble(func(t *testing.T) {
		c := NewController(Options{})
		askAndAnswer(t, c, writeCall(), Answer{Scope: Agent, Reject: RejectSoft, Uses: 1}).denied(t)
		decide(t, c, writeCall()).denied(t)
		if v := c.Check(writeCall()); v.Effect != Ask {
			t.Errorf("%+v", v)
		}
	}))
}

// TestWhatIsOverIsForgotten: what is used up or out of time is not listed, whatever
// keeps it, and leaves the store: at once where it cannot hold again, and a day after
// its time, since a clock may have been wrong.
func TestWhatIsOverIsForgotten(t *testing.T) {
	for name, x := range map[string]struct {
		answer    Answer
		wait      time.Duration
		use       bool
		listed    bool
		forgotten bool
	}{
		"in time":         {Answer{Allow: true, ExpiresAfter: time.Hour}, time.Hour - 1, true, true, false},
		"out of time":     {Answer{Allow: true, ExpiresAfter: time.Hour}, time.Hour, false, false, false},
		"a deny":          {Answer{Reject: RejectSoft, ExpiresAfter: time.Hour}, time.Hour, false, false, false},
		"for a day":       {Answer{Allow: true, ExpiresAfter: time.Hour}, time.Hour + keptFor, false, false, true},
		"with uses left":  {Answer{Allow: true, Uses: 2}, 0, true, true, false},
		"used up":         {Answer{Allow: true, Uses: 1}, 0, true, false, true},
		"without a limit": {Answer{Allow: true}, 1000 * time.Hour, true, true, false},
	} {
		for _, scope := range []Scope{Session, Agent, Global} {
			t.Run(name+" "+string(scope), bubble(func(t *testing.T) {
				c := NewController(Options{})
				x.answer.Scope = scope
				askAndAnswer(t, c, writeCall(), x.answer)
				time.Sleep(x.wait)
				if x.use {
					decide(t, c, writeCall()).granted(t)
				}
				if list, err := c.Remembered(); err != nil || (len(list) == 1) != x.listed {
					t.Errorf("listed: %+v, %v", list, err)
				}
				q, err := c.question(writeCall())
				if err != nil {
					t.Fatal(err)
				}
				if kept, err := c.storeOf(q, scope).List(); err != nil || (len(kept) == 0) != x.forgotten {
					t.Errorf("kept: %+v, %v", kept, err)
				}
			}))
		}
	}
}

// TestClockJumps: an allow that is bound to a time does not come back, or last
// longer, when the clock is set back; a deny does not end by it.
func TestClockJumps(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC) // no monotonic reading: as read from a file
	for _, tt := range []struct {
		name  string
		now   time.Duration
		used  time.Duration
		allow bool
		deny  bool
	}{
		{"in time", 30 * time.Minute, 0, true, true},
		{"over", time.Hour, 0, false, false},
		{"far ahead", 24 * 365 * time.Hour, 0, false, false},
		{"set back a little", -clockTolerance, 0, true, true},
		{"set back before it was made", -clockTolerance - 1, 0, false, true},
		{"set back before its last use", 10 * time.Minute, 40 * time.Minute, false, true},
	} {
		m := Memory{Created: start, Expires: start.Add(time.Hour)}
		if tt.used > 0 {
			m.LastUsed = start.Add(tt.used)
		}
		for effect, want := range map[Effect]bool{Allow: tt.allow, Deny: tt.deny} {
			m.Key.Effect = effect
			if got := m.live(start.Add(tt.now)); got != want {
				t.Errorf("%s, %s: live is %v", tt.name, effect, got)
			}
		}
	}
}

func TestAShorterDenyDoesNotReplaceALongerOne(t *testing.T) {
	s := NewMemoryStore()
	c := NewController(Options{Store: s})
	key := Key{Scope: Global, Effect: Deny}
	now := time.Now()
	for _, tt := range []struct {
		m    Memory
		kept string
	}{
		{Memory{ID: "one use", Uses: 1}, "one use"},
		{Memory{ID: "an hour", Expires: now.Add(time.Hour)}, "an hour"},
		{Memory{ID: "for good"}, "for good"},
		{Memory{ID: "a day", Expires: now.Add(24 * time.Hour)}, "for good"},
		{Memory{ID: "twice", Uses: 2}, "for good"},
	} {
		tt.m.Key, tt.m.Created = key, now
		if err := c.keep(s, tt.m); err != nil {
			t.Fatal(err)
		}
		if got, _ := s.Lookup(key); got[0].ID != tt.kept {
			t.Errorf("after %q: %q, want %q", tt.m.ID, got[0].ID, tt.kept)
		}
	}
}

func TestToolPolicy(t *testing.T) {
	destructive, harmless := &Annotations{DestructiveHint: true}, &Annotations{ReadOnlyHint: true}
	for _, tt := range []struct {
		unknown     Effect
		tool        string
		annotations *Annotations
		needs       bool // the tool asks for approval itself
		want        Effect
		cause       string
	}{
		{Ask, "mystery", nil, false, Ask, CauseUnknownTool},
		{Ask, "mystery", harmless, false, Ask, CauseUnknownTool},
		{Allow, "mystery", nil, false, Allow, ""},
		{Allow, "mystery", destructive, false, Ask, CauseAnnotations},
		{Allow, "mystery", &Annotations{OpenWorldHint: true}, false, Ask, CauseAnnotations},
		{Allow, "mystery", harmless, true, Ask, ""},
		{Deny, "mystery", harmless, false, Deny, ""},
		{Deny, "read_file", nil, false, Allow, ""},
		{Deny, "read_file", destructive, false, Allow, ""},
		{Deny, "read_file", nil, true, Ask, ""},
		{Deny, "shell", destructive, false, Allow, ""},
		{Deny, "mcp_search", destructive, false, Allow, ""},
	} {
		c := NewController(Options{Tools: &ToolPolicy{Unknown: tt.unknown, Safe: []string{"read_*"}, Dangerous: []string{"shell"}, Known: []string{"mcp_*"}}})
		call := writeCall().with(func(c *Call) {
			c.ToolName, c.Request.ToolName, c.Annotations = tt.tool, tt.tool, tt.annotations
			c.Args = json.RawMessage(`{"id":9007199254740993}`)
			if !tt.needs {
				c.Request = nil
			}
		})
		if v := c.Check(call); v.Effect != tt.want {
			t.Errorf("%+v: %+v", tt, v)
		}
		if q, err := c.question(call); err != nil || q.cause != tt.cause {
			t.Errorf("%+v: cause %q, %v", tt, q.cause, err)
		} else if tt.cause != "" && !strings.Contains(q.payload, "9007199254740993") {
			t.Errorf("%+v: the request has the payload %s", tt, q.payload)
		}
	}
}

// Nothing that a tool says about itself makes a decision less careful.
func TestAnnotationsOnlyRaiseCaution(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "c*", "*"})
	rapid.Check(t, func(t *rapid.T) {
		p := &ToolPolicy{
			Unknown: rapid.SampledFrom([]Effect{Deny, Ask, Allow}).Draw(t, "unknown"),
			Safe:    rapid.SliceOfN(names, 0, 1).Draw(t, "safe"), Dangerous: rapid.SliceOfN(names, 0, 1).Draw(t, "dangerous"),
			Known: rapid.SliceOfN(names, 0, 1).Draw(t, "known"),
		}
		a := &Annotations{ReadOnlyHint: rapid.Bool().Draw(t, "readOnly"), DestructiveHint: rapid.Bool().Draw(t, "destructive"), OpenWorldHint: rapid.Bool().Draw(t, "openWorld")}
		call := genCall.Draw(t, "call")
		call.SessionID, call.Foreign = "", false // of a tool that has looked at the call
		without := NewController(Options{Tools: p}).Check(call)
		call.Annotations = a
		if with := NewController(Options{Tools: p}).Check(call); with.Effect > without.Effect {
			t.Fatalf("%+v makes %s of %s", a, with.Effect, without.Effect)
		}
		if bare := NewController(Options{}).Check(call); without.Effect > bare.Effect {
			t.Fatalf("the policy makes %s of %s", without.Effect, bare.Effect)
		}
	})
}

func TestDangerousToolsNeedTheirName(t *testing.T) {
	policy := &ToolPolicy{Unknown: Ask, Dangerous: []string{"write_*"}}
	for _, tt := range []struct {
		rules []Rule
		want  Effect
	}{
		{[]Rule{{Effect: Allow, Tool: "*"}}, Ask},
		{[]Rule{{Effect: Allow, Tool: "write_*"}}, Ask},
		{[]Rule{{Effect: Allow, Connector: "github"}}, Ask},
		{[]Rule{{Effect: Allow, Tool: "write_file"}}, Allow},
		{[]Rule{{Effect: Allow, Tool: "*"}, {Effect: Allow, Tool: "write_file"}}, Allow},
		{[]Rule{{Effect: Allow, Tool: "write_file"}, {Effect: Deny, Tool: "*"}}, Deny},
	} {
		c := NewController(Options{Tools: policy, Rules: mustRules(t, tt.rules...)})
		if v := c.Check(writeCall().with(func(c *Call) { c.Connector = "github" })); v.Effect != tt.want {
			t.Errorf("%+v: %+v", tt.rules, v)
		}
	}
}

// TestAFloodOfPromptsHarmsNobodyElse: one session uses up its own rate.
func TestAFloodOfPromptsHarmsNobodyElse(t *testing.T) {
	bubble(func(t *testing.T) {
		c := NewController(Options{PromptRate: PromptRate{Burst: 10, Every: time.Second}})
		mustOpen(t, c, "flood")
		var waiting []<-chan decided
		limited := 0
		for i := range 1000 {
			call := writeCall().with(func(c *Call) { c.SessionID, c.Request.Payload = "flood", map[string]any{"n": i} })
			r := decideLater(t.Context(), c, call)
			select {
			case got := <-r:
				if got.denied(t).Code != CodeLimit {
					t.Fatalf("%+v", got)
				}
				limited++
			default:
				waiting = append(waiting, r)
			}
		}
		if limited != 990 || len(waiting) != 10 {
			t.Errorf("%d limited, %d wait", limited, len(waiting))
		}
		other := decideLater(t.Context(), c, writeCall())
		next := c.Pending()[2] // its turn comes after two of the flood's
		if next.SessionID != "" {
			t.Errorf("the third in the list is of %q", next.SessionID)
		}
		mustAnswer(t, c, next.ID, Answer{Allow: true})
		(<-other).granted(t)
		c.CloseSession("flood")
		for _, r := range waiting {
			(<-r).denied(t)
		}
	})(t)
}
