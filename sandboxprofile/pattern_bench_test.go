package sandboxprofile

import (
	"fmt"
	"testing"
)

// BenchmarkRights is what a question about one path costs a tool, by how many
// patterns the profile has.
func BenchmarkRights(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		p := Profile{Paths: map[string]Rights{"/home/someone/project": Read | Write}}
		for i := range n {
			p.Hide = append(p.Hide, fmt.Sprintf(".config/%d/*.key", i), fmt.Sprintf(".secret%d", i))
		}
		b.Run(fmt.Sprint(2*n), func(b *testing.B) {
			for b.Loop() {
				p.Rights("/home/someone/project/internal/files/file.go")
			}
		})
	}
}
