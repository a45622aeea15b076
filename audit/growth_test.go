package audit

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// growthEntries are the lengths of the logs. SANDGATE_GROWTH_ENTRIES adds a longer one:
// 10 million entries take 4 GB.
func growthEntries(b *testing.B) []int {
	lengths := []int{1000, 10_000, 100_000}
	if s := os.Getenv("SANDGATE_GROWTH_ENTRIES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		lengths = append(lengths, n)
	}
	return lengths
}

// BenchmarkGrowthAudit is what a start, an entry and a question about the last hour
// cost by the length of the log.
func BenchmarkGrowthAudit(b *testing.B) {
	for _, n := range growthEntries(b) {
		path := b.TempDir() + "/audit.jsonl"
		l := mustOpen(b, path, Options{Sync: SyncNever})
		for i := range n / 2 {
			mustAppend(b, l, decision(fmt.Sprint(i)))
			mustAppend(b, l, end(fmt.Sprint(i)))
		}
		b.Run(fmt.Sprintf("append/%d", n), func(b *testing.B) {
			for b.Loop() {
				mustAppend(b, l, end("x"))
			}
		})
		mustClose(b, l)
		b.Run(fmt.Sprintf("open/%d", n), func(b *testing.B) {
			for b.Loop() {
				mustClose(b, mustOpen(b, path, Options{Sync: SyncNever}))
			}
		})
		b.Run(fmt.Sprintf("query/%d", n), func(b *testing.B) {
			for b.Loop() {
				found := 0
				for _, err := range Query(path, Filter{Call: "0"}) {
					if err != nil {
						b.Fatal(err)
					}
					found++
				}
				if found == 0 {
					b.Fatal("nothing found")
				}
			}
		})
	}
}
