package approval

import "testing"

// TestAGrantIsForOnePlan: a grant gives back the plan that was decided on, and none of another type;
// the zero grant carries none.
func TestAGrantIsForOnePlan(t *testing.T) {
	c := NewController(Options{Mode: ApproveAll})
	grant, err := c.Decide(t.Context(), Call{Request: Simple("shell", nil), Subject: []string{"git", "status"}})
	if err != nil {
		t.Fatal(err)
	}
	if plan, err := Granted[[]string](grant); err != nil || len(plan) != 2 || plan[1] != "status" {
		t.Errorf("%q, %v", plan, err)
	}
	if plan, err := Granted[string](grant); err == nil || plan != "" {
		t.Errorf("another type: %q, %v", plan, err)
	}
	if plan, err := Granted[[]string](Grant{}); err == nil || plan != nil {
		t.Errorf("no grant: %q, %v", plan, err)
	}
}
