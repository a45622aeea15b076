package shell

import (
	"fmt"
	"testing"

	"github.com/sandgate/sandgate/tools"
)

// BenchmarkGrowthRules is a decision by the number of rules.
func BenchmarkGrowthRules(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10_000} {
		no := false
		var rules []Rule
		for i := range n {
			rules = append(rules, Rule{Pattern: fmt.Sprintf("tool%d sub", i), Approval: &no})
		}
		p, err := NewPolicy(Default{Allowed: true, Approval: true}, append(rules, Rule{Pattern: "go test", Approval: &no}), nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if p.Decide("go test ./...", "bash").Effect != tools.Allow {
					b.Fatal("not allowed")
				}
			}
		})
	}
}
