package approval

import (
	"fmt"
	"testing"
)

// BenchmarkGrowthRemembered is a decision by the number of answers that are remembered.
func BenchmarkGrowthRemembered(b *testing.B) {
	for _, n := range []int{0, 1000, 100_000} {
		c := NewController(Options{})
		q, err := c.question(writeCall())
		if err != nil {
			b.Fatal(err)
		}
		for i := range n {
			other := q.key(Session, Allow, q.fingerprint)
			other.Fingerprint[0], other.Fingerprint[1], other.Fingerprint[2] = byte(i), byte(i>>8), byte(i>>16)
			if err := q.session.memory.Remember(Memory{Key: other}); err != nil {
				b.Fatal(err)
			}
		}
		if err := q.session.memory.Remember(Memory{Key: q.key(Session, Allow, q.fingerprint)}); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := c.Decide(b.Context(), writeCall()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGrowthStandingRules is a decision by the number of rules about other tools.
func BenchmarkGrowthStandingRules(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		var rules []Rule
		for i := range n {
			rules = append(rules, Rule{Effect: Deny, Tool: fmt.Sprint("tool", i)})
		}
		c := NewController(Options{Rules: mustRules(b, append(rules, Rule{Effect: Allow, Tool: "write_*"})...)})
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := c.Decide(b.Context(), writeCall()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
