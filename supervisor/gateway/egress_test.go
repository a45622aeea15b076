package gateway

import (
	"fmt"
	"testing"

	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/supervisor/outcome"
)

// records is a caller whose log takes everything.
type records struct{ Caller }

func (records) Record(egress.Event) error { return nil }

// TestRefusedHostsThatAreNotListedCount: a list of refused hosts that ends says how many more there were, each once.
func TestRefusedHostsThatAreNotListedCount(t *testing.T) {
	for more, want := range map[int]string{0: "", 1: "the list ends here: more was refused (1)", 30: "the list ends here: more was refused (30)"} {
		d := &decider{c: records{}}
		for i := range outcome.MaxViolations + more {
			d.record(egress.Event{Decision: egress.Deny, Host: fmt.Sprintf("h%d.example", i), Port: 443})
		}
		d.record(egress.Event{Decision: egress.Deny, Host: "h0.example", Port: 443})
		d.record(egress.Event{Decision: egress.Allow, Host: "allowed.example", Port: 443})
		got, rest := d.ended().Violations, ""
		if len(got) > outcome.MaxViolations {
			rest = got[outcome.MaxViolations].Reason
		}
		if len(got) < outcome.MaxViolations || got[0].Host != "h0.example" || rest != want {
			t.Errorf("%d more: %d violations, and %q, want %q", more, len(got), rest, want)
		}
	}
}
