package changes

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestADraftMergesTexts: what somebody changed since a draft was looked at stays if it is in another place of a text,
// whoever saves it how, and whatever of the draft is kept by then.
func TestADraftMergesTexts(t *testing.T) {
	t.Parallel()
	const base = "1\n2\n3\n4\n5\n6\n7\n8\n"
	mine, theirs, both := strings.Replace(base, "2", "two", 1), strings.Replace(base, "7", "seven", 1), strings.Replace(strings.Replace(base, "2", "two", 1), "7", "seven", 1)
	for name, row := range map[string]struct {
		before, draft, now, want string // want "" is a conflict
		how                      string
	}{
		"another place":      {base, mine, theirs, both, "cat ../text > file"},
		"saved beside it":    {base, mine, theirs, both, "cp ../text new; mv new file"},
		"touched":            {base, mine, base, mine, "touch file"},
		"the same change":    {base, mine, mine, mine, "cat ../text > file"},
		"the same line":      {base, mine, strings.Replace(base, "2", "zwei", 1), "", "cat ../text > file"},
		"the line beside it": {base, mine, strings.Replace(base, "3", "three", 1), "", "cat ../text > file"},
		"no text":            {base, mine, base + "\x00", "", "cat ../text > file"},
		"a link":             {base, mine, base, "", "mv file other; ln -s other file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(dir+"/"+name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			sh(t, dir, "mkdir ws drafts")
			write("ws/file", row.before)
			time.Sleep(2 * clockTick)
			d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			plan := func() DraftPlan {
				t.Helper()
				p, err := d.Plan(0, options, nil)
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			draft := func(text string) {
				t.Helper()
				if err := os.WriteFile(d.part(0, "upper")+"/file", []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			draft(row.draft)
			plan() // as at the end of the command
			write("text", row.now)
			time.Sleep(2 * clockTick)
			sh(t, dir+"/ws", row.how)
			p := plan()
			if conflict := len(p.Conflicts()) > 0; conflict != (row.want == "") {
				t.Fatalf("%+v", p.Steps)
			}
			if row.want == "" {
				if err := d.Keep([]DraftPlan{p}, Keep{}, false, PutBack); !errors.Is(err, ErrConflict) {
					t.Error(err)
				}
				saved, err := d.SaveReplaced([]DraftPlan{p})
				if b, unread := os.ReadFile(saved + "/0/file"); err != nil || unread == nil && string(b) != row.now || unread != nil && name != "a link" {
					t.Errorf("%q, %v, %v", b, err, unread)
				}
				return
			}
			keep := func(want string) {
				t.Helper()
				if err := d.Keep([]DraftPlan{p}, Keep{}, false, PutBack); err != nil {
					t.Fatal(err)
				}
				if b, _ := os.ReadFile(dir + "/ws/file"); string(b) != want {
					t.Errorf("%q, want %q", b, want)
				}
			}
			keep(row.want)
			// The draft goes on: what was merged is no change of its own, and nothing of it is taken away.
			if p = plan(); len(p.Steps) != 0 {
				t.Errorf("again: %+v", p.Steps)
			}
			draft(row.draft + "9\n")
			p = plan()
			keep(row.want + "9\n")
		})
	}
}

// TestNamesThatAreNoText: a name that is not UTF-8 stands for itself in what a draft notes, and for no name that looks
// like it.
func TestNamesThatAreNoText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	raw, like, key := "f\xff", "f\ufffd", "base64:Zv8="
	names := map[Name]*Entry{Name(raw): {Size: 1}, Name(like): {Size: 2}, Name(key): {Size: 3}, "f": {Size: 4}}
	if err := writeEntries(dir+"/names", names); err != nil {
		t.Fatal(err)
	}
	got, err := readEntries(dir + "/names")
	if err != nil || len(got) != len(names) {
		t.Fatalf("%d names, %v", len(got), err)
	}
	for name, e := range names {
		if got[name] == nil || got[name].Size != e.Size {
			t.Errorf("%q: %+v", name, got[name])
		}
	}
}

// TestAKeepOfAMergeIsTakenBack: a keep that fails leaves what somebody had changed, and merges it again.
func TestAKeepOfAMergeIsTakenBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh(t, dir, `mkdir ws drafts; seq 8 > ws/file; echo old > ws/forced; echo old > ws/z; sleep 0.1`)
	d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, d.part(0, "upper"), `seq 8 | sed s/2/two/ > file; echo draft > forced; echo draft > z`)
	if _, err := d.Plan(0, options, nil); err != nil {
		t.Fatal(err)
	}
	sh(t, dir+"/ws", `sleep 0.1; sed -i s/7/seven/ file; echo person > forced`)
	p, err := d.Plan(0, options, nil)
	if err != nil || len(p.Conflicts()) != 1 || len(p.Steps) != 3 {
		t.Fatal(p.Steps, err)
	}
	failed := errors.New("it failed")
	err = d.Keep([]DraftPlan{p}, Keep{}, true, func(root string, order io.Reader) error {
		if err := PutBack(root, order); err != nil || failed == nil {
			return err
		}
		defer func() { failed = nil }()
		return failed
	})
	if err == nil || !strings.Contains(err.Error(), "nothing was kept: it failed") {
		t.Fatal(err)
	}
	sh(t, dir+"/ws", `test "$(grep -c seven file)" = 1; ! grep two file; test "$(cat forced)" = person; test "$(cat z)" = old`)
	if p, err = d.Plan(0, options, nil); err != nil || len(p.Conflicts()) != 1 || len(p.Steps) != 3 {
		t.Fatalf("what somebody had changed is no conflict any more: %+v, %v", p.Steps, err)
	}
	if err := d.Keep([]DraftPlan{p}, Keep{}, true, PutBack); err != nil {
		t.Fatal(err)
	}
	sh(t, dir+"/ws", `grep seven file; grep two file; test "$(cat forced)" = draft`)
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
