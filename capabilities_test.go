package sandgate_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var capabilityTest = regexp.MustCompile("`(Test[A-Za-z0-9]+)(?:/([a-z_]+))?`")

// TestCapabilitiesAreTested proves that each capability in docs/seeds.md names a document
// and at least one test, and that all of them are there.
func TestCapabilitiesAreTested(t *testing.T) {
	known := testNames(t)
	rows := 0
	for line := range strings.Lines(read(t, "docs/seeds.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| capability ") {
			continue
		}
		rows++
		if len(cells) != 3 {
			t.Errorf("%d cells, want a capability, a document and tests: %s", len(cells), line)
			continue
		}
		if !linkInDoc.MatchString(cells[1]) {
			t.Errorf("no document: %s", line)
		}
		tests := capabilityTest.FindAllStringSubmatch(cells[2], -1)
		if len(tests) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, name := range tests {
			if !known[name[1]] {
				t.Errorf("%s does not exist: %s", name[1], line)
			}
			if name[2] == "" {
				continue
			}
			if name[1] != "TestScript" {
				t.Errorf("%s: only scripts are named below a test: %s", name[0], line)
			}
			if _, err := os.Stat(filepath.Join("cmd/sandgate/testdata/script", name[2]+".txtar")); err != nil {
				t.Errorf("%v: %s", err, line)
			}
		}
		if left := strings.Trim(capabilityTest.ReplaceAllString(cells[2], ""), ", "); left != "" {
			t.Errorf("%q is no test: %s", left, line)
		}
	}
	if rows == 0 {
		t.Fatal("docs/seeds.md has no capabilities")
	}
}
