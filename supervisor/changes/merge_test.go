package changes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAnUndoMergesTexts: what somebody changed since stays if it is in another place of a text;
// the same place, a neighbour's line, and what is no text are conflicts.
func TestAnUndoMergesTexts(t *testing.T) {
	const base = "1\n2\n3\n4\n5\n6\n7\n8\n"
	for name, row := range map[string]struct {
		before, left, now, want string // want "" is a conflict
	}{
		"another place":      {base, strings.Replace(base, "2", "two", 1), strings.Replace(strings.Replace(base, "2", "two", 1), "7", "seven", 1), strings.Replace(base, "7", "seven", 1)},
		"lines more":         {base, base + "9\n", "0\n" + base + "9\n", "0\n" + base},
		"the same line":      {base, strings.Replace(base, "2", "two", 1), strings.Replace(base, "2", "zwei", 1), ""},
		"the line beside it": {base, strings.Replace(base, "2", "two", 1), strings.Replace(strings.Replace(base, "2", "two", 1), "3", "three", 1), ""},
		"no text":            {base, strings.Replace(base, "2", "two", 1), strings.Replace(base, "2", "two", 1) + "\x00\n", ""},
		"gone":               {base, "", "1\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			w := open(t, filepath.Join(t.TempDir(), "kept"), root, options)
			file := filepath.Join(root, "file")
			write := func(text string) {
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write(row.before)
			rec := during(t, w, "s", func() { write(row.left) })
			write(row.now)
			u, err := w.Plan([]Record{rec}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if conflict := len(u.Conflicts()) > 0; conflict != (row.want == "") {
				t.Fatalf("%+v", u.Steps)
			}
			if row.want == "" {
				return
			}
			again, err := w.Apply(u, Call{Tool: "undo"}, false, here(w))
			if err != nil {
				t.Fatal(err)
			}
			if b, _ := os.ReadFile(file); string(b) != row.want {
				t.Errorf("%q, want %q", b, row.want)
			}
			if u, err = w.Plan([]Record{again}, nil); err != nil || len(u.Steps) != 1 {
				t.Fatal(u.Steps, err)
			}
			if _, err := w.Apply(u, Call{Tool: "undo"}, false, here(w)); err != nil {
				t.Fatal(err)
			}
			if b, _ := os.ReadFile(file); string(b) != row.now {
				t.Errorf("undone again: %q, want %q", b, row.now)
			}
		})
	}
}

// TestMergesAreExact: one who changed nothing changes nothing, it does not matter who is who, and
// each line that both left is there.
func TestMergesAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "\n", "d"}), 0, 12).Draw(t, "lines"), "")
		})
		base, a, b := text.Draw(t, "base"), text.Draw(t, "a"), text.Draw(t, "b")
		for _, row := range [][4]string{{base, a, base, a}, {base, base, b, b}, {base, a, a, a}} {
			if got, ok := merge3(row[0], row[1], row[2]); !ok || got != row[3] {
				t.Fatalf("merge of %q: %q, %t", row, got, ok)
			}
		}
		one, okOne := merge3(base, a, b)
		other, okOther := merge3(base, b, a)
		if okOne != okOther || one != other {
			t.Fatalf("%q, %q and %q: %q %t, %q %t", base, a, b, one, okOne, other, okOther)
		}
	})
}
