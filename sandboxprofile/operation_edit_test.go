package sandboxprofile_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/sandboxprofile"
)

type edit = sandboxprofile.Edit

func TestEdit(t *testing.T) {
	for _, c := range []struct {
		name  string
		file  string
		edits []edit
		want  string // of the file, or of the error
		n     int64  // 0 is an error
	}{
		{"one place", "a b c", []edit{{Old: "b", New: "B"}}, "a B c", 1},
		{"deleting", "a b c", []edit{{Old: " b"}}, "a c", 1},
		{"the whole file", "a", []edit{{Old: "a", New: ""}}, "", 1},
		{"lines", "a\nb\nc\n", []edit{{Old: "b\n", New: "1\n2\n"}}, "a\n1\n2\nc\n", 1},
		{"all", "x y x", []edit{{Old: "x", New: "zz", All: true}}, "zz y zz", 2},
		{"all of one", "x", []edit{{Old: "x", New: "z", All: true}}, "z", 1},
		{"as many as expected", "x y x", []edit{{Old: "x", New: "", Count: 2}}, " y ", 2},
		{"bytes that are not UTF-8", "\xff b \xfe", []edit{{Old: "b", New: "é"}}, "\xff é \xfe", 1},
		{"one after the other", "a", []edit{{Old: "a", New: "bb"}, {Old: "bb", New: "c"}}, "c", 2},
		{"beside each other", "abab", []edit{{Old: "ab", New: "x", All: true}}, "xx", 2},
		{"as large as it may be", "a", []edit{{Old: "a", New: "0123456789abcdefghij"}}, "0123456789abcdefghij", 1},

		{"absent", "a b", []edit{{Old: "c", New: "d"}}, "old_string does not occur in the file", 0},
		{"absent for all", "a b", []edit{{Old: "c", New: "d", All: true}}, "old_string does not occur in the file", 0},
		{"empty file", "", []edit{{Old: "c", New: "d"}}, "old_string does not occur in the file", 0},
		{"empty old text", "abc", []edit{{Old: "", New: "d"}}, "old_string does not occur in the file", 0},
		{"twice", "b b", []edit{{Old: "b", New: "d"}}, "old_string occurs 2 times in the file; it must be unique", 0},
		{"not as often as expected", "b b", []edit{{Old: "b", New: "d", Count: 3}}, "old_string occurs 2 times in the file, not 3", 0},
		{"overlapping", "aaa", []edit{{Old: "aa", New: "b"}}, "occurrences of old_string overlap, so the replacement is ambiguous", 0},
		{"overlapping, all", "ababa", []edit{{Old: "aba", New: "b", All: true}}, "occurrences of old_string overlap, so the replacement is ambiguous", 0},
		{"the second is absent", "a", []edit{{Old: "a", New: "b"}, {Old: "a", New: "c"}}, "edit 2 of 2: old_string does not occur in the file", 0},
		{"too large", "a", []edit{{Old: "a", New: "0123456789abcdefghijk"}}, "the edited file would be too large", 0},
	} {
		got, n, err := sandboxprofile.Operation{Edits: c.edits, MaxBytes: 20}.Edit([]byte(c.file))
		if err != nil {
			got = []byte(err.Error())
		}
		if string(got) != c.want || n != c.n {
			t.Errorf("%s: %q, %d; want %q, %d", c.name, got, n, c.want, c.n)
		}
	}
}

func TestEditErrorsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		file  string
		edits []edit
		hint  string
	}{
		{"a", []edit{{Old: "b"}}, "read the file again"},
		{"a", []edit{{Old: "a", New: "b"}, {Old: "a", New: "c"}}, "the result of the ones before it"},
		{"a\r\nb\r\n", []edit{{Old: "a\nb"}}, `\r\n`},
		{"aa", []edit{{Old: "a"}}, "replace_all or expected_count"},
		{"aa", []edit{{Old: "a", Count: 3}}, "expected_count"},
		{"a", []edit{{Old: "a", New: strings.Repeat("b", 21)}}, "sandbox.limits.file_size"},
	} {
		_, _, err := sandboxprofile.Operation{Edits: c.edits, MaxBytes: 20}.Edit([]byte(c.file))
		var e *sandboxprofile.EditError
		if !errors.As(err, &e) || !strings.Contains(e.Hint(), c.hint) {
			t.Errorf("%q %+v: %v, hint %q; want %q in it", c.file, c.edits, err, e.Hint(), c.hint)
		}
	}
}

// TestEditReplacesWhatItCounts holds Edit against package strings: it succeeds
// exactly when the count is right and no two occurrences overlap.
func TestEditReplacesWhatItCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file := rapid.StringMatching(`[ab\n]{0,30}`).Draw(t, "file")
		e := edit{
			Old: rapid.StringMatching(`[ab\n]{1,4}`).Draw(t, "old"), New: rapid.StringMatching(`[abc]{0,4}`).Draw(t, "new"),
			Count: rapid.Int64Range(0, 3).Draw(t, "count"), All: rapid.Bool().Draw(t, "all"),
		}
		apart, touching := int64(strings.Count(file, e.Old)), int64(0)
		for i := range file {
			if strings.HasPrefix(file[i:], e.Old) {
				touching++
			}
		}
		fits := apart > 0 && apart == touching
		switch {
		case e.Count > 0:
			fits = fits && apart == e.Count
		case !e.All:
			fits = fits && apart == 1
		}
		got, n, err := sandboxprofile.Operation{Edits: []edit{e}, MaxBytes: 1000}.Edit([]byte(file))
		if (err == nil) != fits || err == nil && (n != apart || string(got) != strings.ReplaceAll(file, e.Old, e.New)) {
			t.Fatalf("%+v of %q: %q, %d, %v; occurs %d times", e, file, got, n, err, apart)
		}
	})
}

func TestEditIsLinear(t *testing.T) {
	file, old := strings.Repeat("a", 8<<20), strings.Repeat("a", 4<<20)+"b"
	if _, _, err := (sandboxprofile.Operation{Edits: []edit{{Old: old, New: "x"}}, MaxBytes: 1 << 30}).Edit([]byte(file)); err == nil {
		t.Error("text that is not there was replaced")
	}
	many := sandboxprofile.Operation{Edits: []edit{{Old: "a", New: strings.Repeat("b", 1<<20), All: true}}, MaxBytes: 32 << 20}
	if _, _, err := many.Edit([]byte(file)); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("8 TiB of new text: %v", err)
	}
}
