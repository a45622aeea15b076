package approval

import (
	"strings"
	"testing"
)

// TestAnAnswerUsesNothingUp: what an answer remembers counts no use for the call that it
// was given for, however early the answer comes; the next call is the first use.
func TestAnAnswerUsesNothingUp(t *testing.T) {
	for _, scope := range []Scope{Session, Agent, Global} {
		t.Run(string(scope), func(t *testing.T) {
			bubble(func(t *testing.T) {
				c := NewController(Options{})
				at := func(id string) { mustAnswer(t, c, id, Answer{Allow: true, Scope: scope, Uses: 1}) }
				d := decide(t, c, writeCall().with(func(c *Call) { c.Asked = at })).granted(t) // before Decide looks again
				if d.Source != SourceAsk {
					t.Errorf("decided by %s", d.Source)
				}
				if list, err := c.Remembered(); err != nil || len(list) != 1 || list[0].Hits != 0 {
					t.Fatalf("%+v, %v", list, err)
				}
				if d := decide(t, c, writeCall()).granted(t); d.Source != SourceRememberedAllow {
					t.Errorf("the next call: %s", d.Source)
				}
				asked := decideLater(t.Context(), c, writeCall())
				mustAnswer(t, c, onlyPending(t, c).ID, Answer{})
				(<-asked).denied(t)
			})(t)
		})
	}
}

// TestWholeToolIsRemembered: every call of a tool can be allowed for a session or an
// agent, and for nobody else; the narrower choices are offered before it.
func TestWholeToolIsRemembered(t *testing.T) {
	search := func(session, agent, query string) Call {
		return Call{
			SessionID: session, Agent: agent, ToolName: "WebSearch", Subject: "the plan",
			Request: &Request{ToolName: "WebSearch", Description: "Search " + query, Payload: map[string]any{"query": query}},
		}
	}
	whole := &Pattern{WholeTool, "WebSearch"}
	for _, scope := range []Scope{Session, Agent} {
		t.Run(string(scope), bubble(func(t *testing.T) {
			c := NewController(Options{})
			for _, id := range []string{"s1", "s2"} {
				if err := c.OpenSession(id); err != nil {
					t.Fatal(err)
				}
			}
			d := askAndAnswer(t, c, search("s1", "helper", "a"), Answer{Allow: true, Scope: scope, Pattern: whole}).granted(t)
			if !strings.Contains(d.Reason, `of the tool "WebSearch"`) {
				t.Errorf("the record says %q", d.Reason)
			}
			if d := decide(t, c, search("s1", "helper", "b")).granted(t); d.Source != SourceRememberedAllow || d.Scope != scope {
				t.Errorf("%+v", d)
			}
			elsewhere := search("s2", "other", "c")
			if scope == Session {
				elsewhere.Agent = "helper"
			}
			others := []Call{elsewhere, search("s1", "helper", "d").with(func(c *Call) { c.Connector = "remote" }),
				search("s1", "helper", "e").with(func(c *Call) { c.Changed = true })}
			for _, call := range others {
				asked := decideLater(t.Context(), c, call)
				mustAnswer(t, c, onlyPending(t, c).ID, Answer{Reject: RejectSoft})
				(<-asked).denied(t)
			}
		}))
	}
	t.Run("refused", bubble(func(t *testing.T) {
		c := NewController(Options{Tools: &ToolPolicy{Dangerous: []string{"WebSearch"}, Unknown: Ask}})
		result := decideLater(t.Context(), c, search("", "helper", "a"))
		for _, a := range []Answer{{Scope: Session, Pattern: whole}, {Scope: Global, Pattern: whole}, {Scope: Session, Pattern: &Pattern{WholeTool, "*"}}, {Scope: Session, Pattern: &Pattern{WholeTool, "other"}}} {
			a.Allow, a.Approver = true, "uid 1000"
			if d, err := c.Answer(onlyPending(t, c).ID, a); err == nil {
				t.Errorf("%+v: %+v", a, d)
			}
		}
		if shown, err := c.Show(t.Context(), onlyPending(t, c).ID); err != nil || len(shown.Offers) != 0 {
			t.Errorf("%+v, %v", shown.Offers, err)
		}
		mustAnswer(t, c, onlyPending(t, c).ID, Answer{Scope: Session, Pattern: whole, Reject: RejectSoft}) // a denial may be wide
		(<-result).denied(t)
		if d := decide(t, c, search("", "helper", "b")).denied(t); d.Decision.Source != SourceRememberedDeny {
			t.Errorf("%+v", d.Decision)
		}
	}))
}

// TestSingleQuestionsAreNeverAWholeTool: where each call is a question of its own, the tool
// is neither offered nor remembered as a whole, what is remembered already allows nothing,
// and no glob of a standing rule does. A rule with the full name, and the very call
// remembered, do.
func TestSingleQuestionsAreNeverAWholeTool(t *testing.T) {
	bubble(func(t *testing.T) {
		one := func(path, single string) Call {
			return Call{ToolName: "path", Subject: "the plan", Reach: Reach{Single: single},
				Request: &Request{ToolName: "path", Description: "Read " + path, Payload: map[string]any{"path": path}}}
		}
		const why = "each path is asked about by its name"
		whole := &Pattern{WholeTool, "path"}
		c := NewController(Options{})
		askAndAnswer(t, c, one("/x", ""), Answer{Allow: true, Scope: Session, Pattern: whole}).granted(t)
		if d := decide(t, c, one("/y", "")).granted(t); d.Source != SourceRememberedAllow {
			t.Errorf("the twin: %+v", d)
		}
		result := decideLater(t.Context(), c, one("/y", why))
		p := onlyPending(t, c)
		if _, err := c.Answer(p.ID, Answer{Allow: true, Approver: "uid 1000", Scope: Session, Pattern: whole}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("the whole tool was remembered: %v", err)
		}
		if shown, err := c.Show(t.Context(), p.ID); err != nil || len(shown.Offers) != 0 {
			t.Errorf("offers %+v, %v", shown.Offers, err)
		}
		mustAnswer(t, c, p.ID, Answer{Allow: true, Scope: Session})
		(<-result).granted(t)
		if d := decide(t, c, one("/y", why)).granted(t); d.Source != SourceRememberedAllow {
			t.Errorf("the very call: %+v", d)
		}
		for tool, want := range map[string]Effect{"*": Ask, "pat*": Ask, "path": Allow} {
			rules, err := NewRules(Rule{Effect: Allow, Tool: tool})
			if err != nil {
				t.Fatal(err)
			}
			c := NewController(Options{Rules: rules})
			if v := c.Check(one("/y", why)); v.Effect != want {
				t.Errorf("an allow rule for %s: %+v, want %v", tool, v, want)
			}
			exact := one("/y", "")
			exact.Reach.Exact = why
			if v := c.Check(exact); v.Effect != Ask {
				t.Errorf("an allow rule for %s, where only an answer to the very call counts: %+v", tool, v)
			}
			if v := c.Check(one("/y", "")); v.Effect != Allow {
				t.Errorf("an allow rule for %s, of another tool: %+v", tool, v)
			}
		}
	})(t)
}

// TestAnswersSayWhatTheyCover: what a remembered answer covers beyond the call stands in
// the prompt and in the record.
func TestAnswersSayWhatTheyCover(t *testing.T) {
	bubble(func(t *testing.T) {
		call := writeCall().with(func(c *Call) { c.Request.Covers = "this file, with any content" })
		for scope, want := range map[Scope]string{Once: "approved by uid 1000", Session: "approved by uid 1000 for this session: this file, with any content"} {
			c := NewController(Options{})
			result := decideLater(t.Context(), c, call)
			p := onlyPending(t, c)
			if shown := p.Details["remembered"]; p.Covers != "this file, with any content" || shown != "a remembered answer covers "+p.Covers {
				t.Errorf("the prompt says %q, and %q", p.Covers, shown)
			}
			mustAnswer(t, c, p.ID, Answer{Allow: true, Scope: scope})
			if d := (<-result).granted(t); d.Reason != want {
				t.Errorf("%s: %q", scope, d.Reason)
			}
		}
	})(t)
}
