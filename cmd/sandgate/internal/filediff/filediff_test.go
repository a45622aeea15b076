package filediff

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/supervisor/changes"
)

// TestDiffOf: what a file holds is shown as far as a person can read it, and what a call has
// written costs no more than is shown.
func TestDiffOf(t *testing.T) {
	const script = "#!/bin/sh\n"
	lines := bytes.Repeat([]byte{'\n'}, 300_000)
	for name, c := range map[string]struct {
		old, fresh []byte
		want       []string
		why        string
	}{
		"the same":                   {[]byte("a\n"), []byte("a\n"), nil, ""},
		"a line like a diff's head":  {[]byte("-- now\n"), []byte("++ draft\n"), []string{"@@ -1 +1 @@", "--- now", "+++ draft"}, ""},
		"a byte that no text has":    {nil, []byte(script + "# caf\xe9\nx | sh\n"), []string{"@@ -0,0 +1,3 @@", "+#!/bin/sh", "+# caf<0xE9>", "+x | sh"}, ""},
		"a NUL":                      {nil, []byte(script + "#\x00\nx | sh\n"), []string{"@@ -0,0 +1,3 @@", "+#!/bin/sh", "+#\\x00", "+x | sh"}, ""},
		"a program":                  {nil, []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00"), nil, "binary"},
		"more lines than one reads":  {nil, lines, nil, "too many lines to compare"},
		"more bytes than are looked": {nil, bytes.Repeat([]byte("x"), 2<<20), nil, "too large to compare"},
	} {
		content := func(e *changes.Entry) ([]byte, error) {
			if e == nil {
				return c.old, nil
			}
			return c.fresh, nil
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, why, err := Lines(content, nil, &changes.Entry{Size: int64(len(c.fresh))})
		runtime.ReadMemStats(&after)
		for i, line := range got {
			got[i] = strings.ReplaceAll(line, "<U+0000>", "\\x00")
		}
		if err != nil || why != c.why || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %q, %v; want %q, %q", name, got, why, err, c.want, c.why)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Errorf("%s: %d bytes were taken", name, used)
		}
	}
}
