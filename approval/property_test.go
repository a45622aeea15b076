package approval

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A world is everything that can have an opinion on a call. Worlds draw from
// few tools, payloads and names, so that opinions meet.
type world struct {
	mode     Mode
	rules    []Rule
	policy   *ToolPolicy
	memories []worldMemory
	denials  []worldDenial
}

type worldMemory struct {
	scope  Scope
	effect Effect
	call   Call
	// pattern is what is remembered in place of the call, if it is not nil; uses is
	// how often it holds, 0 for good.
	pattern *Pattern
	uses    int
}

type worldDenial struct {
	call   Call
	reject RejectMode
}

var (
	genMode = rapid.SampledFrom([]Mode{Interactive, ApproveAll, Strict})
	genWord = rapid.SampledFrom([]string{"go", "test", "ls"})
	genCall = rapid.Custom(func(t *rapid.T) Call {
		tool := rapid.SampledFrom([]string{"read_file", "write_file"}).Draw(t, "tool")
		c := Call{
			SessionID: rapid.SampledFrom([]string{"", "s1"}).Draw(t, "session"),
			Agent:     rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "agent"),
			ToolName:  tool,
			Connector: rapid.SampledFrom([]string{"", "github"}).Draw(t, "connector"),
			BatchID:   rapid.SampledFrom([]string{"", "b1"}).Draw(t, "batch"),
			Mode:      rapid.SampledFrom([]Mode{"", Interactive, ApproveAll, Strict}).Draw(t, "mode"),
			Subject:   "the plan",
			Request:   &Request{ToolName: tool, Payload: map[string]any{"n": rapid.IntRange(0, 1).Draw(t, "n")}},
		}
		for range rapid.IntRange(0, 2).Draw(t, "elements") {
			c.Reach.Elements = append(c.Reach.Elements, argv(rapid.SliceOfN(genWord, 0, 3).Draw(t, "words")...))
		}
		c.Foreign = rapid.Bool().Draw(t, "foreign")
		switch rapid.IntRange(0, 5).Draw(t, "said") {
		case 0:
			c.Request = nil
		case 1:
			c.Err = &Blocked{Reason: "never"}
		}
		return c
	})
	genRule = rapid.Custom(func(t *rapid.T) Rule {
		return Rule{
			Effect:    rapid.SampledFrom([]Effect{Deny, Allow}).Draw(t, "effect"),
			Tool:      rapid.SampledFrom([]string{"*", "read_*", "write_file", "none"}).Draw(t, "tool"),
			Connector: rapid.SampledFrom([]string{"", "git*", "none"}).Draw(t, "connector"),
		}
	})
	genMemory = rapid.Custom(func(t *rapid.T) worldMemory {
		return worldMemory{
			rapid.SampledFrom([]Scope{Session, Agent, Global}).Draw(t, "scope"),
			rapid.SampledFrom([]Effect{Deny, Allow}).Draw(t, "effect"),
			genCall.Draw(t, "call"),
			rapid.SampledFrom([]*Pattern{nil, {ArgvPrefix, "go"}, {ArgvPrefix, "go test"}, {ArgvPrefix, "ls"}}).Draw(t, "pattern"),
			rapid.IntRange(0, 1).Draw(t, "uses"),
		}
	})
	genPolicy = rapid.SampledFrom([]*ToolPolicy{nil, {Unknown: Allow}, {Unknown: Ask}, {Unknown: Deny}, {Unknown: Ask, Dangerous: []string{"write_*"}}})
	genDenial = rapid.Custom(func(t *rapid.T) worldDenial {
		return worldDenial{
			genCall.Draw(t, "call"),
			rapid.SampledFrom([]RejectMode{RejectSoft, RejectHard, RejectExplain}).Draw(t, "reject"),
		}
	})
	genWorld = rapid.Custom(func(t *rapid.T) world {
		return world{
			genMode.Draw(t, "mode"),
			rapid.SliceOfN(genRule, 0, 4).Draw(t, "rules"),
			genPolicy.Draw(t, "policy"),
			rapid.SliceOfN(genMemory, 0, 6).Draw(t, "memories"),
			rapid.SliceOfN(genDenial, 0, 3).Draw(t, "denials"),
		}
	})
)

func (w world) controller(t *rapid.T) *Controller {
	rules, err := NewRules(w.rules...)
	if err != nil {
		t.Fatal(err)
	}
	c := NewController(Options{Mode: w.mode, Rules: rules, Tools: w.policy})
	if err := c.OpenSession("s1"); err != nil {
		t.Fatal(err)
	}
	for i, m := range w.memories {
		if q := w.about(t, c, m.call); q != nil && (m.scope != Agent || m.call.Agent != "") {
			if err := c.keep(c.storeOf(q, m.scope), m.memory(fmt.Sprint(i), q)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, d := range w.denials {
		if q := w.about(t, c, d.call); q != nil {
			q.session.noteDenial(q, Decision{Reject: d.reject, Time: time.Now()}, time.Hour)
		}
	}
	return c
}

func (m worldMemory) memory(id string, q *question) Memory {
	f := q.fingerprint
	if m.pattern != nil {
		f = m.pattern.fingerprint(q.call.Connector, q.call.ToolName)
	}
	return Memory{ID: id, Key: q.key(m.scope, m.effect, f), Pattern: m.pattern, Uses: m.uses}
}

// about is nil for a call that nobody is ever asked about, so that nobody's
// answer to it can be remembered.
func (w world) about(t *rapid.T, c *Controller, call Call) *question {
	if call.Request == nil {
		return nil
	}
	q, err := c.question(call)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestAddingADenyNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, call := genWorld.Draw(t, "world"), genCall.Draw(t, "call")
		before := w.controller(t).Check(call)
		stricter := w
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			r := genRule.Draw(t, "rule")
			r.Effect = Deny
			at := rapid.IntRange(0, len(w.rules)).Draw(t, "at")
			stricter.rules = slices.Insert(slices.Clone(w.rules), at, r)
		case 1:
			m := genMemory.Draw(t, "memory")
			m.effect = Deny
			stricter.memories = append(slices.Clone(w.memories), m)
		case 2:
			stricter.denials = append(slices.Clone(w.denials), genDenial.Draw(t, "denial"))
		}
		if after := stricter.controller(t).Check(call); after.Effect > before.Effect {
			t.Fatalf("%s by %s became %s by %s", before.Effect, before.Source, after.Effect, after.Source)
		}
	})
}

// standing are the denials that nothing may erase.
var standing = []Source{SourceBlocked, SourceDenyRule, SourceRememberedDeny, SourceBatch}

func TestNeitherModeNorAllowErasesADeny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, call := genWorld.Draw(t, "world"), genCall.Draw(t, "call")
		before := w.controller(t).Check(call)
		looser := w
		looser.mode = genMode.Draw(t, "other mode")
		call.Mode = rapid.SampledFrom([]Mode{"", Interactive, ApproveAll, Strict}).Draw(t, "other call mode")
		for range rapid.IntRange(0, 3).Draw(t, "allows") {
			r, m := genRule.Draw(t, "rule"), genMemory.Draw(t, "memory")
			r.Effect, m.effect = Allow, Allow
			looser.rules = slices.Insert(slices.Clone(looser.rules), 0, r)
			looser.memories = append(slices.Clone(looser.memories), m)
		}
		after := looser.controller(t).Check(call)
		if slices.Contains(standing, before.Source) && (after.Effect != Deny || after.Source != before.Source) {
			t.Fatalf("deny by %s became %s by %s", before.Source, after.Effect, after.Source)
		}
	})
}

func TestTheOrderOfRulesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, call := genWorld.Draw(t, "world"), genCall.Draw(t, "call")
		shuffled := w
		shuffled.rules = rapid.Permutation(w.rules).Draw(t, "shuffled")
		before, after := w.controller(t).Check(call), shuffled.controller(t).Check(call)
		if before.Effect != after.Effect || before.Source != after.Source {
			t.Fatalf("%s by %s became %s by %s", before.Effect, before.Source, after.Effect, after.Source)
		}
	})
}

// Tightening a mode never allows more, and Decide does what Check says.
func TestDecideAgreesWithCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, call := genWorld.Draw(t, "world"), genCall.Draw(t, "call")
		c := w.controller(t)
		v := c.Check(call)
		strict := call
		strict.Mode = Strict
		if s := c.Check(strict); s.Effect > v.Effect {
			t.Fatalf("strict makes %s of %s", s.Effect, v.Effect)
		}
		if v.Effect == Ask {
			return
		}
		g, err := c.Decide(t.Context(), call)
		if (err == nil) != (v.Effect == Allow) || (g.subject != nil) != (v.Effect == Allow) {
			t.Fatalf("Check says %+v, Decide %+v, %v", v, g, err)
		}
	})
}
