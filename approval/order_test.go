package approval

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// stage is where a row of the order is made to speak.
type stage struct {
	opts Options
	call Call
	// arrange runs on the finished controller.
	arrange []func(*Controller, *question)
}

// rows makes each step of the order have an opinion.
var rows = map[Source]func(*stage){
	SourceBlocked: func(s *stage) { s.call.Err = &Blocked{Reason: "outside every root", Rule: "sandbox.paths"} },
	SourceDenyRule: func(s *stage) {
		s.addRule(Rule{Effect: Deny, Tool: "write_*"})
	},
	SourceUnknownTool:    func(s *stage) { s.opts.Tools = &ToolPolicy{Unknown: Deny} },
	SourceRememberedDeny: func(s *stage) { s.remember(Deny) },
	SourceBatch: func(s *stage) {
		s.call.BatchID = "batch"
		s.arrange = append(s.arrange, func(c *Controller, q *question) {
			q.session.rejected["batch"] = Decision{Approver: "uid 1000"}
		})
	},
	SourceDeferred:        func(s *stage) { s.call.ApprovalID = "unheard of" },
	SourceNotNeeded:       func(s *stage) { s.call.Request = nil },
	SourceMode:            func(s *stage) { s.opts.Mode = ApproveAll },
	SourceRememberedAllow: func(s *stage) { s.remember(Allow) },
	SourceAllowRule: func(s *stage) {
		s.addRule(Rule{Effect: Allow, Tool: "write_*"})
	},
	SourceDenialCache: func(s *stage) {
		s.arrange = append(s.arrange, func(c *Controller, q *question) {
			q.session.noteDenial(q, Decision{Approver: "uid 1000", Time: time.Now()}, time.Hour)
		})
	},
	SourceAsk: func(*stage) {},
}

func (s *stage) addRule(r Rule) {
	var rules []Rule
	if l, ok := s.opts.Rules.(*RuleList); ok {
		rules = l.rules
	}
	l, err := NewRules(append(rules, r)...)
	if err != nil {
		panic(err)
	}
	s.opts.Rules = l
}

func (s *stage) remember(e Effect) {
	s.arrange = append(s.arrange, func(c *Controller, q *question) {
		m := Memory{ID: "m", Key: q.key(Session, e, q.fingerprint), Approver: "uid 1000"}
		if err := q.session.memory.Remember(m); err != nil {
			panic(err)
		}
	})
}

// check says what becomes of a call when all of sources have an opinion.
func check(t *testing.T, sources ...Source) Verdict {
	t.Helper()
	s := stage{call: writeCall()}
	full := s.call
	for _, source := range sources {
		rows[source](&s)
	}
	c := NewController(s.opts)
	q, err := c.question(full) // the memory is about the call as it is with a request
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range s.arrange {
		f(c, q)
	}
	return c.Check(s.call)
}

// documentedOrder reads the table of the package comment.
func documentedOrder(t *testing.T) (order []Source, effects map[Source]string) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "//\tstep ")
	if !found {
		t.Fatal("doc.go has no table of steps")
	}
	effects = map[Source]string{}
	for _, line := range strings.Split(table, "\n")[1:] {
		words := strings.Fields(strings.TrimPrefix(line, "//"))
		if len(words) == 0 {
			return order, effects
		}
		source := Source(words[0])
		order = append(order, source)
		effects[source] = words[len(words)-1]
	}
	t.Fatal("doc.go: the table of steps does not end")
	return nil, nil
}

func TestDocumentedOrderIsTheOrder(t *testing.T) {
	documented, _ := documentedOrder(t)
	actual := make([]Source, 0, len(order)+1)
	for _, step := range order {
		actual = append(actual, step.source)
	}
	actual = append(actual, SourceAsk)
	if len(documented) != len(actual) {
		t.Fatalf("doc.go lists %v, the code %v", documented, actual)
	}
	for i := range actual {
		if documented[i] != actual[i] {
			t.Errorf("row %d: doc.go says %s, the code %s", i, documented[i], actual[i])
		}
	}
}

// Every row decides when it alone has an opinion, with the effect that the
// table gives it, and decides before every row below it.
func TestEveryRowOfTheOrder(t *testing.T) {
	order, effects := documentedOrder(t)
	want := map[string]Effect{"block": Deny, "deny": Deny, "allow": Allow}
	for i, upper := range order {
		v := check(t, upper)
		if v.Source != upper {
			t.Errorf("%s alone: decided by %s (%s)", upper, v.Source, v.Reason)
		}
		if e, fixed := want[effects[upper]]; fixed && v.Effect != e {
			t.Errorf("%s alone: %s, the table says %s", upper, v.Effect, effects[upper])
		}
		for _, lower := range order[i+1:] {
			if upper == SourceRememberedDeny && lower == SourceNotNeeded {
				continue // without a request there is no payload to remember
			}
			if v := check(t, lower, upper); v.Source != upper {
				t.Errorf("%s and %s: decided by %s, want %s", upper, lower, v.Source, upper)
			}
		}
	}
}

func TestModes(t *testing.T) {
	type cell struct {
		effect Effect
		source Source
		action Action // of the decision; "" where a person is asked
	}
	said := map[string]func(*Call){
		"nothing": func(c *Call) { c.Request = nil },
		"request": func(*Call) {},
		"blocked": func(c *Call) { c.Request, c.Err = nil, &Blocked{Reason: "never"} },
	}
	for _, row := range []struct {
		said  string
		cells map[Mode]cell
	}{
		{"nothing", map[Mode]cell{
			Interactive: {Allow, SourceNotNeeded, NotNeeded},
			ApproveAll:  {Allow, SourceNotNeeded, NotNeeded},
			Strict:      {Allow, SourceNotNeeded, NotNeeded},
		}},
		{"request", map[Mode]cell{
			Interactive: {Ask, SourceAsk, ""},
			ApproveAll:  {Allow, SourceMode, Approved},
			Strict:      {Deny, SourceMode, Denied},
		}},
		{"blocked", map[Mode]cell{
			Interactive: {Deny, SourceBlocked, BlockedAction},
			ApproveAll:  {Deny, SourceBlocked, BlockedAction},
			Strict:      {Deny, SourceBlocked, BlockedAction},
		}},
	} {
		for mode, want := range row.cells {
			t.Run(row.said+"/"+string(mode), func(t *testing.T) {
				c := NewController(Options{Mode: mode})
				call := writeCall().with(said[row.said])
				v := c.Check(call)
				if v.Effect != want.effect || v.Source != want.source {
					t.Errorf("Check: %s by %s, want %s by %s", v.Effect, v.Source, want.effect, want.source)
				}
				if want.effect == Ask {
					return
				}
				grant, err := c.Decide(t.Context(), call)
				d := grant.Decision()
				if want.effect == Deny {
					d = decided{grant, err}.denied(t).Decision
				} else if err != nil || grant.subject != call.Subject || grant.Digest() != call.Digest {
					t.Errorf("grant %+v, %v: want the call's subject and digest", grant, err)
				}
				if d.Action != want.action || d.Source != want.source {
					t.Errorf("decision %s by %s, want %s by %s", d.Action, d.Source, want.action, want.source)
				}
			})
		}
	}
}

func TestCallModeOnlyTightens(t *testing.T) {
	for _, tt := range []struct{ own, call, want Mode }{
		{"", "", Interactive},
		{ApproveAll, "", ApproveAll},
		{ApproveAll, ApproveAll, ApproveAll},
		{ApproveAll, Interactive, Interactive},
		{ApproveAll, Strict, Strict},
		{Interactive, ApproveAll, Interactive},
		{Interactive, Strict, Strict},
		{Strict, ApproveAll, Strict},
		{Strict, Interactive, Strict},
		{Interactive, "aprove_all", Strict},
		{"aprove_all", "", Strict},
	} {
		c := NewController(Options{Mode: tt.own})
		if got := c.opts.Mode.tighten(tt.call); got != tt.want {
			t.Errorf("controller %q, call %q: %q, want %q", tt.own, tt.call, got, tt.want)
		}
	}
}

func TestBlockedSaysWhatTheToolSaid(t *testing.T) {
	b := &Blocked{Reason: "outside every root", Rule: "sandbox.paths", Hint: "stay below /work"}
	for name, tt := range map[string]struct {
		err          error
		reason, hint string
	}{
		"blocked":   {b, b.Reason, b.Hint},
		"failed":    {errors.New("disk on fire"), "the tool's check failed: disk on fire", ""},
		"typed nil": {(*Blocked)(nil), "the tool gave no reason", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewController(Options{Mode: ApproveAll})
			denied := decide(t, c, writeCall().with(func(c *Call) { c.Err = tt.err })).denied(t)
			if denied.Code != CodeBlocked || denied.Decision.Reason != tt.reason || denied.Hint != tt.hint {
				t.Errorf("code %s, reason %q, hint %q", denied.Code, denied.Decision.Reason, denied.Hint)
			}
			if got, want := IsBlocked(denied), tt.err == error(b); got != want {
				t.Errorf("IsBlocked = %v, want %v", got, want)
			}
		})
	}
}

func TestInvalidCallsAreRefused(t *testing.T) {
	c := NewController(Options{Mode: ApproveAll})
	for name, tt := range map[string]struct {
		change func(*Call)
		code   Code
	}{
		"session not open": {func(c *Call) { c.SessionID = "nobody" }, CodeCancelled},
		"other tool":       {func(c *Call) { c.Request.ToolName = "shell" }, CodeDenied},
		"payload no JSON":  {func(c *Call) { c.Request.Payload = map[string]any{"f": func() {}} }, CodeDenied},
		"payload no UTF-8": {func(c *Call) { c.Request.Payload = map[string]any{"p": "a\xff"} }, CodeDenied},
	} {
		t.Run(name, func(t *testing.T) {
			denied := decide(t, c, writeCall().with(tt.change)).denied(t)
			if v := c.Check(writeCall().with(tt.change)); v.Effect != Deny || v.Source != SourceInvalid {
				t.Errorf("Check: %+v", v)
			}
			if denied.Code != tt.code || denied.Decision.Source != SourceInvalid {
				t.Errorf("code %s by %s, want %s by %s", denied.Code, denied.Decision.Source, tt.code, SourceInvalid)
			}
		})
	}
	decide(t, c, writeCall()).granted(t)
}

func TestZeroGrantPermitsNothing(t *testing.T) {
	var g Grant
	if g.subject != nil || g.Digest() != "" || g.Decision().Action.State() == StateApproved {
		t.Errorf("the zero Grant carries something: %+v", g)
	}
}

func TestStates(t *testing.T) {
	for action, want := range map[Action]State{
		NotNeeded: StateApproved, Approved: StateApproved, SessionApproved: StateApproved,
		Denied: StateDenied, BlockedAction: StateDenied, TimedOut: StateDenied,
		Dismissed: StateDismissed, "unheard of": StateDenied, "": StateDenied,
	} {
		if got := action.State(); got != want {
			t.Errorf("%q: %s, want %s", action, got, want)
		}
	}
}
