package undo

import (
	"testing"

	"github.com/sandgate/sandgate/supervisor/changes"
)

// TestAnAgentNamesNoUndo: the id that an agent gave its call stands for nothing on the
// command line, where it could be the name of a file.
func TestAnAgentNamesNoUndo(t *testing.T) {
	records := []changes.Record{{Call: changes.Call{ID: "20260102T150405.000000001-aaaa", Session: "s-1", Call: "src/main.go"}}}
	if l := named(records, "src/main.go"); len(l) != 0 {
		t.Errorf("a path means the call %+v", l)
	}
	for _, name := range []string{"20260102T150405", "s-1"} {
		if l := named(records, name); len(l) != 1 {
			t.Errorf("%s names %d calls", name, len(l))
		}
	}
	records = append(records, changes.Record{Call: changes.Call{ID: "20260102T150405.000000002-bbbb", Session: "s-2"}})
	for name, one := range map[string]bool{"20260102T150405": false, "20260102T150405.000000002": true, "s-2": true} {
		if err := oneMeant(named(records, name), name); (err == nil) != one {
			t.Errorf("%s: %v", name, err)
		}
	}
}
