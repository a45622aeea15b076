package changes

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"
)

// TestNamesThatNoLookHasSeen: a process that begins takes a directory whose time is the same for the one that the tree
// has. A name that was there, and that the tree does not have, is found all the same, and comes back when a call removes it.
func TestNamesThatNoLookHasSeen(t *testing.T) {
	t.Parallel()
	wide := options
	wide.LeaveOut = nil
	for name, c := range map[string]struct {
		before Options
		in     func(name string) bool // what the call before could change
		path   string
	}{
		"hidden from the call before": {options, func(name string) bool { return name != "d/e/f" }, "d/e/f"},
		"its directory was left out":  {options, all, "d/node_modules/f"},
		"a twin: everything was seen": {options, all, "d/e/f"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws, store := t.TempDir(), t.TempDir()+"/s"
			sh(t, ws, "mkdir -p d/e d/node_modules; echo mine > d/e/f; echo mine > d/node_modules/f")
			time.Sleep(2 * clockTick)
			first := open(t, store, ws, c.before)
			r, err := first.Begin(Call{Session: "s", Tool: "shell", Started: time.Now()}, func(path string) bool {
				return path == ws || c.in(path[len(ws)+1:])
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.End(); err != nil {
				t.Fatal(err)
			}
			second := open(t, store, ws, wide)
			if err := second.locked(func() error { return second.load() }); err != nil {
				t.Fatal(err)
			}
			if e, seen := entries(second)[c.path]; seen != (name == "a twin: everything was seen") {
				t.Fatalf("the first process has %+v, %v", e, seen)
			}
			rec := during(t, second, "s", func() { sh(t, ws, "rm "+c.path) })
			i := slices.IndexFunc(rec.Changes, func(ch Change) bool { return string(ch.Path) == c.path })
			if i < 0 || rec.Changes[i].Before == nil {
				t.Fatalf("its removal: %+v", rec.Changes)
			}
			undo(t, second, rec, false)
			if b, err := os.ReadFile(ws + "/" + c.path); string(b) != "mine\n" {
				t.Errorf("got %q, %v", b, err)
			}
		})
	}
}

// TestNamesOfOneSecond: what comes into a directory within the time that its clock can tell apart is found by the next
// process, though the directory's time is the same.
func TestNamesOfOneSecond(t *testing.T) {
	t.Parallel()
	disk := secondsDisk(t)
	ws, store := disk+"/ws", t.TempDir()+"/s"
	for n := time.Now().Nanosecond(); n < 50e6 || n > 200e6; n = time.Now().Nanosecond() {
		time.Sleep(10 * time.Millisecond)
	}
	sh(t, disk, "mkdir -p ws/d") // a file of that second would be read again, and its directory with it
	during(t, open(t, store, ws, options), "s", func() {})
	sh(t, ws, "echo mine > d/f")
	rec := during(t, open(t, store, ws, options), "s", func() { sh(t, ws, "rm d/f") })
	if len(rec.Changes) != 1 || rec.Changes[0].Before == nil {
		t.Errorf("%+v", rec.Changes)
	}
}

// TestOnePatienceForACall: what is compared ahead of a call is of the time that one look may take, and the next call has
// its own.
func TestOnePatienceForACall(t *testing.T) {
	t.Parallel()
	ws, store := t.TempDir(), t.TempDir()+"/s"
	sh(t, ws, "mkdir d; echo mine > d/f")
	during(t, open(t, store, ws, options), "s", func() {})
	w := open(t, store, ws, options)
	err := w.locked(func() error { return errors.Join(w.load(), w.confirm()) })
	if err != nil || w.spent <= 0 {
		t.Fatalf("%v after %v", err, w.spent)
	}
	w.spent = w.patience
	if _, err := w.Begin(Call{Session: "s", Tool: "shell", Started: time.Now()}, all); !errors.Is(err, errLate) {
		t.Errorf("with no time left: %v", err)
	}
	w.until = time.Time{}
	if err := os.Remove(w.tooMuchFile()); err != nil {
		t.Fatal(err)
	}
	if rec := during(t, w, "s", func() { sh(t, ws, "rm d/f") }); len(rec.Changes) != 1 {
		t.Errorf("%+v", rec.Changes)
	}
}
