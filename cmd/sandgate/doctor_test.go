package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/confine"
)

// TestDoctorIsShort: what it comes to takes five lines at most, wherever it is asked.
func TestDoctorIsShort(t *testing.T) {
	refuses := []confine.Limitation{{Part: "a"}, {Part: "b"}, {Part: "c"}, {Part: "d"}}
	works := confine.BackendReport{Name: "landlock", Works: true, Refuses: refuses}
	barred := confine.BackendReport{Name: "bwrap", Reason: "why", Remedy: "what to do"}
	for name, r := range map[string]doctorReport{
		"a host":           {Report: confine.Report{Ready: true, Chosen: "bwrap", Backends: []confine.BackendReport{{Name: "bwrap", Works: true}, works}}},
		"a container":      {Report: confine.Report{Ready: true, Chosen: "landlock", Found: []string{"a filter", "/proc is masked"}, Backends: []confine.BackendReport{barred, works}}},
		"nothing works":    {Report: confine.Report{Backends: []confine.BackendReport{barred, {Name: "landlock", Reason: "none", Remedy: "a kernel"}}}},
		"run is refused":   {Report: confine.Report{Backends: []confine.BackendReport{barred, works}}, Run: doctorRun{Error: "no"}},
		"run has a remedy": {Report: confine.Report{Backends: []confine.BackendReport{barred, works}}, Run: doctorRun{Error: "no", Hint: "so"}},
	} {
		var out bytes.Buffer
		if err := printReport(newApp(nil, &out, io.Discard), r, false); err != nil {
			t.Fatal(err)
		}
		lines := 0
		for line := range strings.Lines(out.String()) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
		if lines > 5 || lines < 3 {
			t.Errorf("%s: %d lines\n%s", name, lines, &out)
		}
	}
}
