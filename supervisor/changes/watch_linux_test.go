package changes

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/internal/dirwatch"
)

// TestQuietDirectoriesAreNotReadAgain: after a look, only what has changed since is looked
// at. What another name can change, or another call may, is looked at each time.
func TestQuietDirectoriesAreNotReadAgain(t *testing.T) {
	ws := t.TempDir()
	sh(t, ws, "mkdir -p a/b/empty c/d linked; echo 1 >a/b/one; echo 2 >c/d/two; echo 3 >linked/three; ln linked/three linked/again")
	w := open(t, t.TempDir()+"/s", ws, options)
	stirredBy := func(script string) string {
		t.Helper()
		for range 2 { // to keep a file is to open it
			time.Sleep(2 * clockTick)
			during(t, w, "s", func() {})
		}
		sh(t, ws, script)
		if err := w.locked(func() error { w.hear(); return nil }); err != nil {
			t.Fatal(err)
		}
		return strings.Join(w.stirred(), " ")
	}
	for _, c := range []struct{ script, want string }{
		{"true", "linked"},
		{"stat a/b/one; ls a/b", "linked"},
		{"cat a/b/one", "a/b linked"}, // who opens a file may map it
		{"echo more >>a/b/one", "a/b linked"},
		{"touch a/b/empty/new", "a/b/empty linked"},
		{"chmod 600 c/d/two", "c/d linked"},
		{"mv c/d a/d", "a c c/d linked"},
		{"echo 4 >a/d/two", "a/d linked"},
		{"rm linked/again", "linked"},
		{"true", ""},
		{"mkdir x; echo 5 >x/five", " a"},
	} {
		got := stirredBy(c.script)
		if c.want == " a" { // the workspace itself
			c.want = ""
			if len(w.stirred()) != 1 {
				t.Errorf("%s: %q", c.script, w.stirred())
			}
		}
		if got != c.want {
			t.Errorf("%s: stirred %q, want %q", c.script, got, c.want)
		}
	}
	r := during(t, w, "s", func() { sh(t, ws, "echo 6 >x/five") })
	if len(r.Changes) != 1 || r.Changes[0].Path != "x/five" {
		t.Errorf("changes: %+v", r.Changes)
	}
	narrow, err := w.Begin(Call{Session: "s", Call: "n", Started: time.Now()}, func(p string) bool { return filepath.Base(p) != "five" })
	if err != nil {
		t.Fatal(err)
	}
	sh(t, ws, "echo 7 >x/five; touch x/six")
	if rec, err := narrow.End(); err != nil || len(rec.Changes) != 1 || rec.Changes[0].Path != "x/six" {
		t.Errorf("changes of a call that may change less: %+v, %v", rec.Changes, err)
	}
	if got := strings.Join(w.stirred(), " "); got != "x" {
		t.Errorf("stirred after a look that left a name out: %q", got)
	}
}

// TestAChangeThroughAnotherName: a file that a call changes by a name that it gives it for a
// moment has changed: in a directory that is watched, in one that is left out, and in one that is
// there for no longer than the name.
func TestAChangeThroughAnotherName(t *testing.T) {
	for _, aside := range []string{"b", "node_modules", "b/new", "b/new/node_modules"} {
		for _, script := range []string{
			"mkdir -p %[1]s; ln a/x %[1]s/y; echo changed >%[1]s/y; rm -r %[1]s",
			"mkdir -p %[1]s; ln a/x %[1]s/y; exec 3>%[1]s/y; rm -r %[1]s; echo changed >&3",
			"mkdir -p %[1]s; ln a/x %[1]s/y; echo changed >%[1]s/y; rm %[1]s/y",
			"mkdir -p %[1]s; ln a/x %[1]s/y; mv %[1]s/y %[1]s/z; echo changed >%[1]s/z; rm %[1]s/z",
			"mkdir -p %[1]s; ln a/x %[1]s/y; echo changed >%[1]s/y",
		} {
			script = fmt.Sprintf(script, aside)
			ws := t.TempDir()
			sh(t, ws, "mkdir a b; echo kept >a/x; echo other >a/other")
			if aside == "node_modules" { // without one, nothing is left out when the call begins
				sh(t, ws, "mkdir node_modules")
			}
			w := open(t, t.TempDir()+"/s", ws, options)
			during(t, w, "s", func() {})
			time.Sleep(2 * clockTick)
			during(t, w, "s", func() {})
			rec := during(t, w, "s", func() { sh(t, ws, script) })
			i := slices.IndexFunc(rec.Changes, func(c Change) bool { return c.Path == "a/x" })
			if i < 0 {
				t.Errorf("%s: a/x has not changed: %+v", script, rec.Changes)
				continue
			}
			if b, err := w.Content(rec.Changes[i].Before); err != nil || string(b) != "kept\n" {
				t.Errorf("%s: before: %q, %v", script, b, err)
			}
		}
	}
}

// TestAMappingThatOutlivesTheLook: what a call writes through a mapping is recorded though nothing closes the file. A
// descriptor that was sent to a socket which nobody can read any more is open until the kernel collects that, after the
// call and its look. The second case opens the file before another call's look, which hears of that and finds nothing.
func TestAMappingThatOutlivesTheLook(t *testing.T) {
	for _, looked := range []bool{false, true} {
		ws := t.TempDir()
		sh(t, ws, "mkdir a b; echo kept >a/x; echo kept >b/y")
		w := open(t, t.TempDir()+"/s", ws, options)
		during(t, w, "s", func() {})
		time.Sleep(2 * clockTick)
		during(t, w, "s", func() {})
		var f *os.File
		rec := during(t, w, "s", func() {
			var err error
			if f, err = os.OpenFile(ws+"/a/x", os.O_RDWR, 0); err != nil {
				t.Fatal(err)
			}
			page, err := unix.Mmap(int(f.Fd()), 0, 4, unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			if looked {
				during(t, w, "t", func() {})
			}
			copy(page, "EVIL")
			if err := unix.Munmap(page); err != nil {
				t.Fatal(err)
			}
		})
		f.Close() // the twin: what nobody writes has not changed
		if len(rec.Changes) != 1 || rec.Changes[0].Path != "a/x" {
			t.Errorf("another look meanwhile %v: %+v", looked, rec.Changes)
			continue
		}
		undo(t, w, rec, false)
		if b, _ := os.ReadFile(ws + "/a/x"); string(b) != "kept\n" {
			t.Errorf("another look meanwhile %v: undone: %q", looked, b)
		}
	}
}

// TestAnotherCallsEndHidesNothing: a call that may change less ends while another one has
// changed a file by a name that was there for a moment.
func TestAnotherCallsEndHidesNothing(t *testing.T) {
	ws := t.TempDir()
	sh(t, ws, "mkdir a b; echo kept >a/x")
	w := open(t, t.TempDir()+"/s", ws, options)
	during(t, w, "s", func() { time.Sleep(2 * clockTick) })
	during(t, w, "s", func() {})
	narrow, err := w.Begin(Call{Session: "s", Call: "n", Started: time.Now()}, func(p string) bool { return strings.HasPrefix(p, ws+"/b") })
	if err != nil {
		t.Fatal(err)
	}
	rec := during(t, w, "s", func() {
		sh(t, ws, "ln a/x b/y; echo changed >b/y; rm b/y")
		if _, err := narrow.End(); err != nil {
			t.Error(err)
		}
	})
	if !slices.ContainsFunc(rec.Changes, func(c Change) bool { return c.Path == "a/x" }) {
		t.Errorf("a/x has not changed: %+v", rec.Changes)
	}
}

// TestAnotherWorkspacesLookLosesNothing: two workspaces, one in the other, share what the
// kernel tells.
func TestAnotherWorkspacesLookLosesNothing(t *testing.T) {
	outer := t.TempDir()
	sh(t, outer, "mkdir -p in/deep; echo 1 >in/deep/f")
	s, err := Open(t.TempDir()+"/s", options)
	if err != nil {
		t.Fatal(err)
	}
	var l []*Workspace
	for _, root := range []string{outer, outer + "/in"} {
		w, err := s.Workspace(root)
		if err != nil {
			t.Fatal(err)
		}
		during(t, w, "s", func() {})
		l = append(l, w)
	}
	for i := range 3 {
		sh(t, outer, fmt.Sprintf("echo %d >in/deep/f", i+2))
		during(t, l[0], "s", func() {})
		during(t, l[1], "s", func() {})
		for _, w := range l {
			name := strings.TrimPrefix(outer+"/in/deep/f", w.Root+"/")
			e := entries(w)[name]
			if b, err := w.Content(&e); err != nil || string(b) != fmt.Sprintln(i+2) {
				t.Errorf("%s holds %q, %v", name, b, err)
			}
		}
	}
}

var steps = map[string]func(one, other string, n int) error{
	"make":   func(one, _ string, _ int) error { return os.MkdirAll(one, 0o755) },
	"remove": func(one, _ string, _ int) error { return os.RemoveAll(one) },
	"rename": func(one, other string, _ int) error { return os.Rename(one, other) },
	"exchange": func(one, other string, _ int) error {
		return unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
	},
	"write": func(one, _ string, n int) error { return os.WriteFile(one, []byte{byte(n)}, 0o644) },
	"append": func(one, _ string, n int) error {
		f, err := os.OpenFile(one, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write([]byte{byte(n)})
		return errors.Join(err, f.Close())
	},
	"link":  os2(os.Link),
	"point": os2(os.Symlink),
	"mode":  func(one, _ string, n int) error { return os.Chmod(one, fs.FileMode(0o700|n<<3)) },
}

func os2(do func(string, string) error) func(string, string, int) error {
	return func(one, other string, _ int) error { return do(one, other) }
}

// TestLooksMissNothing: whatever happens between looks, the tree is what a look by somebody
// who has seen nothing finds, and the changes lead from one to the other.
func TestLooksMissNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		ws, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		w := open(rt, ws+".kept", ws, options)
		eitherWatch(rt, w)
		name := rapid.SampledFrom([]string{"a", "b", "a/x", "b/x", "a/x/y", "b/x/y", "a/x/y/z", "c"})
		for range rapid.IntRange(1, 6).Draw(rt, "looks") {
			allowed := all
			if rapid.Bool().Draw(rt, "narrow") {
				only := name.Draw(rt, "only")
				allowed = func(p string) bool { return strings.HasPrefix(p, filepath.Join(ws, only)) }
			}
			call, err := w.Begin(Call{Session: "s", Call: "c", Started: time.Now()}, allowed)
			if err != nil {
				rt.Fatal(err)
			}
			begun := entries(w)
			for range rapid.IntRange(0, 8).Draw(rt, "steps") {
				one, other := filepath.Join(ws, name.Draw(rt, "name")), filepath.Join(ws, name.Draw(rt, "other"))
				step := rapid.SampledFrom(slices.Sorted(maps.Keys(steps))).Draw(rt, "step")
				_ = steps[step](one, other, rapid.IntRange(4, 7).Draw(rt, "n")) // some cannot be
			}
			rec, err := call.End()
			if err != nil {
				rt.Fatal(err)
			}
			after := entries(w)
			for _, c := range rec.Changes {
				if c.After == nil {
					delete(begun, string(c.Path))
				} else {
					begun[string(c.Path)] = *c.After
				}
			}
			sameTree(rt, "by its changes", begun, after)
			during(rt, w, "s", func() {})
			fresh := open(rt, ws+".fresh", ws, options)
			during(rt, fresh, "s", func() {})
			sameTree(rt, "for somebody who has seen nothing", entries(fresh), entries(w))
			_ = os.RemoveAll(ws + ".fresh")
		}
	})
}

// eitherWatch has a workspace hear of changes as on a kernel that does not report files.
func eitherWatch(rt *rapid.T, w *Workspace) {
	if rapid.Bool().Draw(rt, "names alone") {
		w.watching = &dirWatcher{kernel: dirwatch.New[inWorkspace](maxWatches, dirwatch.Contents)}
	}
}

func sameTree(t failing, what string, want, got tree) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Entry{}, "Seen", "Listed")); diff != "" {
		t.Fatal("the tree is another ", what, " (-want +got):\n", diff)
	}
}

// TestWhatAMappingWrites: a call that has a file mapped writes it without a new time. What was
// there at its end is what is recorded, whoever looked meanwhile.
func TestWhatAMappingWrites(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"this process", "another one"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			ws, store := t.TempDir(), t.TempDir()+"/s"
			sh(t, ws, "echo original > f")
			w := open(t, store, ws, options)
			other := w
			if who != "this process" {
				other = open(t, store, ws, options)
			}
			rec := during(t, w, "s", func() {
				f, err := os.OpenFile(ws+"/f", os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				page, err := unix.Mmap(int(f.Fd()), 0, 8, unix.PROT_WRITE, unix.MAP_SHARED)
				if err != nil {
					t.Fatal(err)
				}
				copy(page, "harmless")
				time.Sleep(2 * clockTick)
				during(t, other, "t", func() { sh(t, ws, "echo b > other") })
				copy(page, "EVILEVIL")
				if err := errors.Join(unix.Munmap(page), f.Close()); err != nil {
					t.Fatal(err)
				}
			})
			i := slices.IndexFunc(rec.Changes, func(c Change) bool { return c.Path == "f" })
			if i < 0 {
				t.Fatalf("%+v", rec.Changes)
			}
			if b, err := w.Content(rec.Changes[i].After); err != nil || string(b) != "EVILEVIL\n" {
				t.Errorf("recorded: %q, %v", b, err)
			}
			undo(t, w, undo(t, w, rec, false), false)
			if b, _ := os.ReadFile(ws + "/f"); string(b) != "EVILEVIL\n" {
				t.Errorf("undone twice: %q", b)
			}
		})
	}
}

// TestALookAhead: a call that follows a look ahead has what was changed after that look as it was before the call, and
// records what it has changed itself; a look that nobody wants any more ends, and the next call looks as if there had been none.
func TestALookAhead(t *testing.T) {
	ws, dir := t.TempDir(), t.TempDir()+"/s"
	sh(t, ws, ground)
	during(t, open(t, dir, ws, options), "s", func() {})
	for _, stopped := range []bool{false, true} {
		w := open(t, dir, ws, options)
		s := w.store
		s.Load([]string{ws, t.TempDir()})
		if stopped {
			s.ended.Store(true)
		}
		s.LookAhead(ws, all)
		s.ahead.Wait()
		if looked := w.looks > 0; looked == stopped {
			t.Errorf("stopped %v: it has looked: %v", stopped, looked)
		}
		sh(t, ws, "echo person > a/one; echo person > came")
		before := describe(ws)
		rec := during(t, w, "s", func() { sh(t, ws, "echo call > a/one; rm came") })
		if len(rec.Changes) != 2 {
			t.Errorf("stopped %v: the call has changed %v", stopped, rec.Changes)
		}
		undo(t, w, rec, false)
		if diff := cmp.Diff(before, describe(ws)); diff != "" {
			t.Errorf("stopped %v: %s", stopped, diff)
		}
	}
}

// TestAPersonsSecondName: what a person writes between calls by another name of a file is what the next call's undo
// brings back.
func TestAPersonsSecondName(t *testing.T) {
	for _, script := range []string{
		"ln a/x b/y; echo person >b/y; rm b/y",
		"ln a/x b/y; echo person >b/y; mv b/y b/z; rm b/z",
		"ln a/x b/y; echo person >b/y",
		"mkdir b/new; ln a/x b/new/y; echo person >b/new/y; rm -r b/new",
		"echo person >a/x", // the twin
	} {
		ws := t.TempDir()
		sh(t, ws, "mkdir a b; echo kept >a/x; echo other >a/other")
		w := open(t, t.TempDir()+"/s", ws, options)
		during(t, w, "s", func() {})
		time.Sleep(2 * clockTick)
		during(t, w, "s", func() {})
		during(t, w, "s", func() {})
		sh(t, ws, script)
		rec := during(t, w, "s", func() { sh(t, ws, "echo call >a/new; mv a/new a/x") })
		undo(t, w, rec, false)
		if b, err := os.ReadFile(ws + "/a/x"); err != nil || string(b) != "person\n" {
			t.Errorf("%s: %q, %v", script, b, err)
		}
	}
}

// TestSecondNamesMissNothing: whatever calls, and people between them, do with several names of files, a look finds it,
// although it compares nothing where each name that came is its file's only one.
func TestSecondNamesMissNothing(t *testing.T) {
	compared, spared := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		ws, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		sh(t, ws, "mkdir a b c; echo 1 >a/x; echo 2 >b/x; echo 3 >c/x")
		w := open(rt, ws+".kept", ws, options)
		eitherWatch(rt, w)
		during(rt, w, "s", func() {})
		name := rapid.SampledFrom([]string{"a/x", "b/x", "c/x", "a/y", "b/y", "c/y", "b/z", "b/d/y", "c/d/y"})
		deeds := rapid.SampledFrom([]string{"create", "write", "write", "link", "link", "rename", "remove", "exchange", "write"})
		act := func() {
			for range rapid.IntRange(1, 6).Draw(rt, "steps") {
				one, other := filepath.Join(ws, name.Draw(rt, "name")), filepath.Join(ws, name.Draw(rt, "other"))
				n := rapid.IntRange(4, 7).Draw(rt, "n")
				switch deed := deeds.Draw(rt, "deed"); deed {
				case "create":
					if filepath.Base(filepath.Dir(one)) == "d" {
						_ = os.Mkdir(filepath.Dir(one), 0o755)
					}
					_ = steps["write"](one, "", n)
				case "write":
					_ = steps["append"](one, "", n)
				case "remove":
					_ = os.Remove(one)
					_ = os.Remove(filepath.Dir(one)) // only if it is empty
				default:
					_ = steps[deed](one, other, n)
				}
			}
		}
		for range rapid.IntRange(1, 3).Draw(rt, "calls") {
			if rapid.Bool().Draw(rt, "a person") {
				act()
			}
			call, err := w.Begin(Call{Session: "s", Call: "c", Started: time.Now()}, all)
			if err != nil {
				rt.Fatal(err)
			}
			look := func(when string) {
				fresh := open(rt, ws+".fresh", ws, options)
				during(rt, fresh, "s", func() {})
				sameTree(rt, when, entries(fresh), entries(w))
				_ = os.RemoveAll(ws + ".fresh")
			}
			look("before the call")
			before := w.secondNames()
			act()
			if _, err := call.End(); err != nil {
				rt.Fatal(err)
			}
			if w.secondNames() == before {
				spared++
			} else {
				compared++
			}
			look("after the call")
		}
	})
	if compared == 0 || spared == 0 {
		t.Errorf("%d calls had all files compared, and %d had not", compared, spared)
	}
}
