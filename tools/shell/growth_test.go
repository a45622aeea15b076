package shell

import (
	"fmt"
	"testing"

	"github.com/sandgate/sandgate/tools"
)

// BenchmarkGrowthRules is a decision by the number of rules: of rules that allow other
// programs, that deny them, and that are all about one program.
func BenchmarkGrowthRules(b *testing.B) {
	no := false
	for _, c := range []struct {
		name    string
		rule    func(i int) Rule
		command string
	}{
		{"allow", func(i int) Rule { return Rule{Pattern: fmt.Sprintf("tool%d sub", i), Approval: &no} }, "go test ./..."},
		{"deny", func(i int) Rule { return Rule{Pattern: fmt.Sprintf("tool%d sub", i), Allowed: &no} }, "go test ./..."},
		{"one program", func(i int) Rule { return Rule{Pattern: fmt.Sprintf("go run tool%d", i), Approval: &no} }, "go run tool4"},
	} {
		for _, n := range []int{10, 100, 1000, 10_000} {
			var rules []Rule
			for i := range n {
				rules = append(rules, c.rule(i))
			}
			p, err := NewPolicy(Default{Allowed: true, Approval: true}, append(rules, Rule{Pattern: "go test", Approval: &no}), nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				for b.Loop() {
					if p.Decide(c.command, "bash").Effect != tools.Allow {
						b.Fatal("not allowed")
					}
				}
			})
		}
	}
}
