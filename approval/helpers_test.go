package approval

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// payload is what most tests ask about.
func payload() map[string]any { return map[string]any{"path": "notes/a.txt"} }

func writeCall() Call {
	return Call{
		ID: "call-1", Agent: "helper", ToolName: "write_file", Subject: "the plan", Digest: "sha256:1",
		Request: &Request{ToolName: "write_file", Description: "Write notes/a.txt", Payload: payload()},
	}
}

// with changes a call for a test that needs it a little different.
func (c Call) with(change func(*Call)) Call {
	if c.Request != nil {
		r := *c.Request
		c.Request = &r
	}
	change(&c)
	return c
}

type decided struct {
	grant Grant
	err   error
}

// decideLater starts Decide inside a synctest bubble and returns once it waits
// or has ended.
func decideLater(ctx context.Context, c *Controller, call Call) <-chan decided {
	result := make(chan decided, 1)
	go func() {
		g, err := c.Decide(ctx, call)
		result <- decided{g, err}
	}()
	synctest.Wait()
	return result
}

// onlyPending returns the one request that waits.
func onlyPending(t *testing.T, c *Controller) Pending {
	t.Helper()
	waiting := c.Pending()
	if len(waiting) != 1 {
		t.Fatalf("%d requests wait, want 1: %+v", len(waiting), waiting)
	}
	return waiting[0]
}

func mustAnswer(t *testing.T, c *Controller, id string, a Answer) Decision {
	t.Helper()
	if a.Approver == "" {
		a.Approver = "uid 1000"
	}
	d, err := c.Answer(id, a)
	if err != nil {
		t.Fatalf("Answer(%q, %+v): %v", id, a, err)
	}
	return d
}

// askAndAnswer has one call decided by a person.
func askAndAnswer(t *testing.T, c *Controller, call Call, a Answer) decided {
	t.Helper()
	result := decideLater(t.Context(), c, call)
	mustAnswer(t, c, onlyPending(t, c).ID, a)
	return <-result
}

func (d decided) denied(t *testing.T) *DeniedError {
	t.Helper()
	var denied *DeniedError
	if !errors.As(d.err, &denied) {
		t.Fatalf("error is %v, want a *DeniedError", d.err)
	}
	if d.grant.subject != nil {
		t.Errorf("a refused call came with a subject: %v", d.grant.subject)
	}
	return denied
}

func (d decided) granted(t *testing.T) Decision {
	t.Helper()
	if d.err != nil {
		t.Fatalf("refused: %v", d.err)
	}
	if d.grant.subject != "the plan" {
		t.Errorf("the grant's subject is %v, want the call's own", d.grant.subject)
	}
	return d.grant.Decision()
}

func decide(t *testing.T, c *Controller, call Call) decided {
	t.Helper()
	g, err := c.Decide(t.Context(), call)
	return decided{g, err}
}

func mustRules(t testing.TB, rules ...Rule) *RuleList {
	t.Helper()
	l, err := NewRules(rules...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
