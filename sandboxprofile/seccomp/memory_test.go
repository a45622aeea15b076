package seccomp

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEveryAllowedCallSaysWhatTheKernelKeeps: docs/kernel-memory.md has a row for each call that the filter
// allows, and no other, and one for each option of prctl(2) below those that are refused.
func TestEveryAllowedCallSaysWhatTheKernelKeeps(t *testing.T) {
	text, err := os.ReadFile("../../docs/kernel-memory.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := func(name string) []string {
		_, rest, _ := strings.Cut(string(text), "<!-- "+name+" -->\n")
		table, _, ok := strings.Cut(rest, "<!-- /"+name+" -->")
		if !ok {
			t.Fatalf("no table of %s", name)
		}
		return strings.Split(strings.TrimSpace(table), "\n")[2:]
	}
	said, allows := map[string]int{}, map[string]bool{}
	for _, row := range rows("calls") {
		f := strings.Split(row, " | ")
		if len(f) != 3 || strings.Trim(f[2], " |") == "" {
			t.Fatalf("not three columns: %s", row)
		}
		for _, call := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(f[1], -1) {
			said[call[1]]++
		}
	}
	for _, r := range allowed() {
		allows[r.Call] = true
	}
	for call := range allows {
		if said[call] != 1 {
			t.Errorf("%s is allowed, and has %d rows: what does the kernel keep for it, and who counts that?", call, said[call])
		}
		delete(said, call)
	}
	for call := range said {
		t.Errorf("%s has a row, and is not allowed", call)
	}
	const refused = 78 // from there on: see together_linux.go of confine/sandboxinit
	options := [refused]int{}
	for _, row := range rows("options") {
		for _, m := range regexp.MustCompile(`\b(\d+)(?: to (\d+))?`).FindAllStringSubmatch(strings.Split(row, " | ")[0], -1) {
			var from, to int
			_, _ = fmt.Sscan(m[1], &from)
			if to = from; m[2] != "" {
				_, _ = fmt.Sscan(m[2], &to)
			}
			for n := from; n <= to && n < refused; n++ {
				options[n]++
			}
		}
	}
	for n := 1; n < refused; n++ {
		if options[n] != 1 {
			t.Errorf("option %d of prctl(2) has %d rows", n, options[n])
		}
	}
}
