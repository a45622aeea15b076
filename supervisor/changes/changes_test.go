package changes

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var options = Options{Size: 1 << 30, File: 1 << 20, Age: time.Hour, LeaveOut: []string{"node_modules"}}

func all(string) bool { return true }

func open(t failing, dir, root string, o Options) *Workspace {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Workspace(root)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// failing is a test, a benchmark or a rapid check.
type failing interface {
	Helper()
	Fatal(...any)
}

// during runs act as a call.
func during(t failing, w *Workspace, session string, act func()) Record {
	t.Helper()
	r, err := w.Begin(Call{Session: session, Call: "c", Tool: "shell", Started: time.Now()}, all)
	if err != nil {
		t.Fatal(err)
	}
	act()
	rec, err := r.End()
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// describe is a tree as text: what undo has to bring back.
func describe(root string) string {
	var b strings.Builder
	_ = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			fmt.Fprintln(&b, err)
			return nil
		}
		info, _ := d.Info()
		fmt.Fprintf(&b, "%s %v", strings.TrimPrefix(file, root), info.Mode())
		switch {
		case info.Mode().IsRegular():
			content, _ := os.ReadFile(file)
			fmt.Fprintf(&b, " %q", content)
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(file)
			fmt.Fprintf(&b, " -> %s", to)
		}
		b.WriteByte('\n')
		return nil
	})
	return b.String()
}

func sh(t testing.TB, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

const ground = `mkdir -p a/b empty; echo one > a/one; echo two > a/b/two; chmod 755 a/b/two; ln -s a/one link; printf x > exact; chmod 640 exact`

// TestUndoPutsBack: whatever a call does to names, undo brings the tree back as it was,
// and undoing that brings the call's work back.
func TestUndoPutsBack(t *testing.T) {
	for _, row := range []struct{ name, script string }{
		{"content", "echo changed > a/one"},
		{"of the same size and at once", "printf y > exact"},
		{"in place by a mapping", `python3 -c 'import mmap; f = open("a/one", "r+b"); m = mmap.mmap(f.fileno(), 0); m[0:3] = b"map"'`},
		{"times put back", "touch -r a/one t; echo eno > a/one; touch -r t a/one; rm t"},
		{"removed", "rm a/one"},
		{"a tree", "rm -rf a"},
		{"made", "mkdir -p n/m; echo new > n/m/x; ln -s x n/l; mkfifo n/p"},
		{"mode", "chmod 600 a/b/two; chmod 700 a"},
		{"a closed directory", "rm -r a/b; mkdir a/b; chmod 500 a/b"},
		{"renamed", "mv a z"},
		{"over another", "mv a/one a/b/two"},
		{"link", "ln -sf nowhere link"},
		{"a file for a directory", "rm -r a; echo file > a"},
		{"a directory for a file", "rm exact; mkdir exact; echo in > exact/in"},
		{"a link for a directory", "mv a z; ln -s z a; echo through > a/one"},
		{"odd bytes", `printf x > "$(printf 'z\351z')"; printf y > "$(printf 'z\357\277\275z')"; ln -s "$(printf 'z\351z')" odd; rm exact`},
		{"a tag", `printf 'Signature: 8a477f597d28d172789f06886806bc55' > a/CACHEDIR.TAG; echo evil > a/one`},
		{"a repository", "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m m"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ws := t.TempDir()
			sh(t, ws, ground)
			w := open(t, t.TempDir()+"/s", ws, options)
			before := describe(ws)
			rec := during(t, w, "s", func() { sh(t, ws, row.script) })
			changed := describe(ws)
			if changed == before || len(rec.Changes) == 0 {
				t.Fatalf("nothing changed: %+v", rec)
			}
			undo(t, w, rec, false)
			if diff := cmp.Diff(before, describe(ws)); diff != "" {
				t.Errorf("undone: %s", diff)
			}
			if row.name == "made" {
				return // a pipe is nothing that could be put back
			}
			calls, err := w.Calls()
			if err != nil || len(calls) != 2 || !slices.Equal(calls[1].Undoes, []string{rec.ID}) {
				t.Fatalf("%+v, %v", calls, err)
			}
			undo(t, w, calls[1], false)
			if diff := cmp.Diff(changed, describe(ws)); diff != "" {
				t.Errorf("and undone again: %s", diff)
			}
		})
	}
}

// here puts back without a sandbox.
func here(w *Workspace) func(io.Reader) error {
	return func(order io.Reader) error { return PutBack(w.Root, order) }
}

func undo(t *testing.T, w *Workspace, rec Record, force bool, paths ...string) Record {
	t.Helper()
	u, err := w.Plan([]Record{rec}, paths)
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.Apply(u, Call{Session: "person", Tool: "undo"}, force, here(w))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestUndoOfRandomCalls: after any sequence of calls, and of changes of a person between
// them that touch other names, undoing all calls brings every name of theirs back.
func TestUndoOfRandomCalls(t *testing.T) {
	names := []string{"a", "b", "a/c", "a/d", "a/d/e", "b/f", "g"}
	rapid.Check(t, func(t *rapid.T) {
		base, err := os.MkdirTemp("", "changes-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(base)
		ws := base + "/ws"
		if err := errors.Join(os.MkdirAll(ws+"/a/d", 0o755), os.WriteFile(ws+"/a/c", []byte("0"), 0o644), os.WriteFile(ws+"/g", []byte("1"), 0o600)); err != nil {
			t.Fatal(err)
		}
		w := open(t, base+"/s", ws, options)
		before := describe(ws)
		for range rapid.IntRange(1, 5).Draw(t, "calls") {
			during(t, w, "s", func() {
				for range rapid.IntRange(1, 6).Draw(t, "acts") {
					name := ws + "/" + rapid.SampledFrom(names).Draw(t, "name")
					other := ws + "/" + rapid.SampledFrom(names).Draw(t, "other")
					switch rapid.IntRange(0, 6).Draw(t, "act") { // what cannot be done is not
					case 0, 1:
						_ = os.WriteFile(name, []byte{byte(rapid.IntRange(0, 3).Draw(t, "content"))}, 0o644)
					case 2:
						_ = os.RemoveAll(name)
					case 3:
						_ = os.Mkdir(name, 0o755)
					case 4:
						_ = os.Rename(name, other)
					case 5:
						_ = os.Symlink("../g", name)
					case 6:
						_ = os.Chmod(name, fs.FileMode(rapid.SampledFrom([]int{0o700, 0o755, 0o711}).Draw(t, "mode")))
					}
				}
			})
		}
		records, err := w.Calls()
		if err != nil {
			t.Fatal(err)
		}
		u, err := w.Plan(records, nil)
		if err != nil || len(u.Conflicts()) > 0 {
			t.Fatal(err, u.Conflicts())
		}
		if _, err := w.Apply(u, Call{Tool: "undo"}, false, here(w)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, describe(ws)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestUndoRefuses: what somebody else changed since is named and not overwritten, unless
// it is forced, and then it is kept.
func TestUndoRefuses(t *testing.T) {
	ws := t.TempDir()
	sh(t, ws, ground)
	w := open(t, t.TempDir()+"/s", ws, options)
	rec := during(t, w, "s", func() { sh(t, ws, "echo call > a/one; echo call > a/b/two") })
	sh(t, ws, "echo person > a/one")
	u, err := w.Plan([]Record{rec}, nil)
	if err != nil || len(u.Conflicts()) != 1 || u.Conflicts()[0].Path != "a/one" {
		t.Fatalf("%+v, %v", u, err)
	}
	if _, err := w.Apply(u, Call{Tool: "undo"}, false, here(w)); !errors.Is(err, ErrConflict) {
		t.Errorf("applied with a conflict: %v", err)
	}
	if b, _ := os.ReadFile(ws + "/a/b/two"); string(b) != "call\n" {
		t.Errorf("half of it was done: %q", b)
	}
	undo(t, w, rec, false, "a/b")
	if b, _ := os.ReadFile(ws + "/a/b/two"); string(b) != "two\n" {
		t.Errorf("the part without a conflict: %q", b)
	}
	forced := undo(t, w, rec, true)
	if b, _ := os.ReadFile(ws + "/a/one"); string(b) != "one\n" {
		t.Errorf("forced: %q", b)
	}
	undo(t, w, forced, false)
	if b, _ := os.ReadFile(ws + "/a/one"); string(b) != "person\n" {
		t.Errorf("what was forced away is lost: %q", b)
	}
}

// TestUndoFollowsNoLink: a directory that was swapped for a link after the plan leads
// nowhere, and what lies behind it stays as it is.
func TestUndoFollowsNoLink(t *testing.T) {
	ws, out := t.TempDir(), t.TempDir()
	sh(t, ws, ground)
	sh(t, out, "echo outside > one")
	w := open(t, t.TempDir()+"/s", ws, options)
	rec := during(t, w, "s", func() { sh(t, ws, "echo call > a/one") })
	u, err := w.Plan([]Record{rec}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, ws, "mv a z; ln -s "+out+" a")
	if _, err := w.Apply(u, Call{Tool: "undo"}, true, here(w)); !errors.Is(err, syscall.ENOTDIR) && !errors.Is(err, syscall.ELOOP) {
		t.Errorf("through a link: %v", err)
	}
	if b, _ := os.ReadFile(out + "/one"); string(b) != "outside\n" {
		t.Errorf("outside: %q", b)
	}
}

// TestUndoChangesNoModeThroughALink: the mode of a directory is not given to what a link
// in its place leads to.
func TestUndoChangesNoModeThroughALink(t *testing.T) {
	ws, out := t.TempDir(), t.TempDir()
	sh(t, ws, "mkdir d; chmod 777 d")
	sh(t, out, "echo key > key; chmod 600 key; mkdir dir; chmod 700 dir")
	w := open(t, t.TempDir()+"/s", ws, options)
	rec := during(t, w, "s", func() { sh(t, ws, "chmod 700 d") })
	u, err := w.Plan([]Record{rec}, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := describe(out)
	for _, target := range []string{"key", "dir"} {
		sh(t, ws, "rm -rf d; ln -s "+out+"/"+target+" d")
		if _, err := w.Apply(u, Call{Tool: "undo"}, true, here(w)); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v", target, err)
		}
		if err := chmodDirectory(-100, ws+"/d", 0o777); err == nil { // AT_FDCWD
			t.Errorf("%s: the mode went through the link", target)
		}
	}
	if now := describe(out); now != before {
		t.Errorf("outside: %s", now)
	}
	// The right of others to write does not come back: no sandbox gives it.
	sh(t, ws, "rm d; mkdir d; chmod 700 d")
	undo(t, w, rec, true)
	if info, err := os.Lstat(ws + "/d"); err != nil || info.Mode().Perm() != 0o775 {
		t.Errorf("twin: %v, %v", info.Mode(), err)
	}
}

// TestUndoOfWhatCameAndWent: what one call made and another removed, in a directory of
// theirs, is nothing to bring back.
func TestUndoOfWhatCameAndWent(t *testing.T) {
	ws := t.TempDir()
	sh(t, ws, ground)
	w := open(t, t.TempDir()+"/s", ws, options)
	before := describe(ws)
	during(t, w, "s", func() {
		sh(t, ws, "mkdir -p p/c; echo x > p/c/HEAD")
		during(t, w, "t", func() { sh(t, ws, "echo note > note; rm p/c/HEAD") })
	})
	records, err := w.Calls()
	if err != nil || len(records) != 2 {
		t.Fatal(records, err)
	}
	u, err := w.Plan(records, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Apply(u, Call{Tool: "undo"}, true, here(w)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, describe(ws)); diff != "" {
		t.Error(diff)
	}
}

// TestWhatSomebodyPutAmongCallsComesBack: into a directory that one call made, and another took away or
// wrote into. It comes back with its directory, and what the calls made does not.
func TestWhatSomebodyPutAmongCallsComesBack(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	w := open(t, t.TempDir()+"/s", ws, options)
	during(t, w, "s", func() { sh(t, ws, "mkdir d e; echo agent > d/agent; echo agent > e/agent; echo f > f; mkdir g") })
	sh(t, ws, "echo letter > d/p; echo letter > e/p; mkdir g/h; chmod 700 g/h; echo letter > g/h/p")
	during(t, w, "s", func() { sh(t, ws, "rm -r d g; echo agent > e/p; rm f") })
	records, err := w.Calls()
	if err != nil || len(records) != 2 {
		t.Fatal(records, err)
	}
	u, err := w.Plan(records, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Apply(u, Call{Tool: "undo"}, false, here(w)); err != nil {
		t.Fatal(err)
	}
	sh(t, ws, `test "$(cat d/p e/p g/h/p; find . | LC_ALL=C sort | tr '\n' ' ')" = "letter
letter
letter
. ./d ./d/p ./e ./e/p ./g ./g/h ./g/h/p "; test $(stat -c %a g/h) = 700`)
}

// TestWhatAKilledCallDidNot: what is changed after the supervisor of a call has died is listed with the call,
// and an undo leaves it alone. What the call changed comes back.
func TestWhatAKilledCallDidNot(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	sh(t, ws, "echo old > mine; echo old > gone; echo old > gone2; mkdir d; echo old > d/gone; echo old > agents")
	dir := t.TempDir() + "/s"
	w := open(t, dir, ws, options)
	during(t, w, "s", func() {})
	r, err := w.Begin(Call{Session: "s", Started: time.Now()}, all)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, ws, "echo agent > agents; rm d/gone; echo agent > made")
	r.beat.Stop()
	close(r.stop)
	if err := os.Chtimes(r.file.Name(), time.Time{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2*beatEvery + 100*time.Millisecond)
	if err := os.Chtimes(r.file.Name(), time.Time{}, time.Now().Add(-2*beatEvery-50*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	sh(t, ws, "echo chapter > new; echo mine > mine; rm gone")
	r.file.Close() // and with it the lock
	other := open(t, dir, ws, options)
	if _, err := other.Plan(nil, nil); err != nil { // a look of somebody else is no sign of the call's life
		t.Fatal(err)
	}
	during(t, other, "t", func() {})
	records, err := other.Calls()
	if err != nil || len(records) != 1 || !records[0].Interrupted {
		t.Fatal(records, err)
	}
	u, err := other.Plan(records, nil)
	var conflicts []string
	for _, s := range u.Conflicts() {
		conflicts = append(conflicts, string(s.Path))
	}
	if got := strings.Join(conflicts, " "); err != nil || got != "gone mine new" {
		t.Errorf("conflicts: %s, %v", got, err)
	}
	undo(t, other, records[0], false, "agents", "d", "made")
	sh(t, ws, `test "$(cat agents d/gone mine new | tr '\n' ' ')" = "old old mine chapter "; test ! -e made`)
}

// TestAKilledUndoIsNoCall: it is listed as an undo, which took back nothing as a whole: the next one goes on.
func TestAKilledUndoIsNoCall(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	sh(t, ws, "echo one > f; echo one > g")
	dir := t.TempDir() + "/s"
	w := open(t, dir, ws, options)
	during(t, w, "s", func() { sh(t, ws, "echo two > f; echo two > g") })
	r, err := w.begin(Call{Tool: "undo", Started: time.Now()}, all, false, []Step{{Path: "f"}})
	if err != nil {
		t.Fatal(err)
	}
	sh(t, ws, "echo one > f")
	r.file.Close() // and with it the lock
	other := open(t, dir, ws, options)
	during(t, other, "t", func() {})
	records, err := other.Calls()
	if err != nil || len(records) != 2 || records[0].Undo || !records[1].Undo || !records[1].Interrupted || len(records[1].Undoes) != 0 {
		t.Fatalf("%+v, %v", records, err)
	}
	undo(t, other, records[0], false)
	sh(t, ws, "grep -x one f; grep -x one g")
}

// TestALineThatADiskCutOff: what a look could write only half of a call's record is in it after the next one.
func TestALineThatADiskCutOff(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	sh(t, ws, "mkdir src; echo one > src/a; echo one > src/b")
	w := open(t, t.TempDir()+"/s", ws, options)
	r, err := w.Begin(Call{Session: "s", Started: time.Now()}, all)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, ws, "mv src gone")
	if _, err := r.file.WriteString(`
{"id":"","changes":[{"path":"src/a","before":{"mode":33188,"hash":"d2df`); err != nil { // and no more room
		t.Fatal(err)
	}
	rec, err := r.End()
	if err != nil {
		t.Fatal(err)
	}
	undo(t, w, rec, false)
	sh(t, ws, "grep -x one src/a; grep -x one src/b; ! test -e gone")
}

// TestNoTagTakesADirectoryFromTheRecord: a directory whose files were kept, under whatever name, is looked into
// whatever tag a call gives it. One that is new with its tag is not.
func TestNoTagTakesADirectoryFromTheRecord(t *testing.T) {
	t.Parallel()
	const tag = "echo 'Signature: 8a477f597d28d172789f06886806bc55' > "
	for name, calls := range map[string][]string{
		"renamed":             {"mv src x; " + tag + "x/CACHEDIR.TAG", "mv x src"},
		"kept in a cache":     {"mkdir y; " + tag + "y/CACHEDIR.TAG", "mv src y/src; " + tag + "y/src/CACHEDIR.TAG", "mv y/src src"},
		"removed and made":    {"rm -r src", "mkdir src; " + tag + "src/CACHEDIR.TAG; echo v1 > src/a"},
		"a cache of its own ": {"mkdir target; " + tag + "target/CACHEDIR.TAG"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws := t.TempDir()
			sh(t, ws, "mkdir src; echo v1 > src/a")
			w := open(t, t.TempDir()+"/s", ws, options)
			for _, script := range calls {
				during(t, w, "s", func() { sh(t, ws, script) })
			}
			if tree := entries(w); tree["target"].Cache != strings.HasPrefix(name, "a cache") || tree["src"].Cache {
				t.Errorf("%+v, %+v", tree["target"], tree["src"])
			}
			sh(t, ws, "echo v2 > src/a")
			rec := during(t, w, "s", func() { sh(t, ws, "rm -r src") })
			undo(t, w, rec, false)
			sh(t, ws, "grep -x v2 src/a")
		})
	}
}

// TestWhatIsNotLookedIntoIsSaid: what is nested too deep, or is closed, cannot be kept. That is said before it
// can be lost, and by an undo, which brings the rest back if it is forced to.
func TestWhatIsNotLookedIntoIsSaid(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	deep := strings.Repeat("d/", lookDepth+5)
	sh(t, ws, "mkdir -p near "+deep+"; echo far > "+deep+"f; echo near > near/f; echo near > d/f")
	w := open(t, t.TempDir()+"/s", ws, options)
	r, err := w.Begin(Call{Session: "s", Started: time.Now()}, all)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Blind) != 1 || r.Blind[0] != (Blind{strings.Repeat("d/", lookDepth) + "d", tooDeep}) {
		t.Errorf("before: %q", r.Blind)
	}
	sh(t, ws, "rm -r d; echo call > near/f")
	rec, err := r.End()
	if err != nil || len(r.Blind) != 0 {
		t.Fatal(err, r.Blind)
	}
	u, err := w.Plan([]Record{rec}, nil)
	if l := u.Conflicts(); err != nil || len(l) != 1 || l[0].Conflict != "its content was not kept: "+tooDeep || l[0].Final {
		t.Errorf("%+v, %v", l, err)
	}
	undo(t, w, rec, false, "near")
	undo(t, w, rec, true)
	sh(t, ws, "grep -x near near/f; grep -x near d/f; test -d "+strings.Repeat("d/", lookDepth)+"; ! test -e "+deep+"f")
}

// TestDeepTreesAreBounded: what lies deeper than a look goes is left out, costs little, and
// the look goes on.
func TestDeepTreesAreBounded(t *testing.T) {
	ws := t.TempDir()
	w := open(t, t.TempDir()+"/s", ws, options)
	asked := 0
	count := func(string) bool { asked++; return true }
	call := func(script string) Record {
		r, err := w.Begin(Call{Session: "s", Started: time.Now()}, count)
		if err != nil {
			t.Fatal(err)
		}
		sh(t, ws, script)
		rec, err := r.End()
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	made := call("i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done")
	if n := len(made.Changes); n != lookDepth+1 {
		t.Errorf("%d directories are in the record", n)
	}
	asked = 0
	if gone := call("rm -rf d"); len(gone.Changes) != lookDepth+1 || asked > 10*lookDepth {
		t.Errorf("%d are gone, after %d questions", len(gone.Changes), asked)
	}
}

// TestTooMuchToLookAt: a look that comes to its bound is an error that names it, and is not
// tried again by each call.
func TestTooMuchToLookAt(t *testing.T) {
	ws := t.TempDir()
	sh(t, ws, ground)
	w := open(t, t.TempDir()+"/s", ws, options)
	l := look{w: w, limit: 1 << 20}
	l.until = time.Now().Add(-time.Second)
	if err := l.bound(); !errors.Is(err, errBound) {
		t.Errorf("got %v", err)
	}
	w.tooMuch, w.until = errBound, time.Now().Add(restTime)
	if _, err := w.Begin(Call{Started: time.Now()}, all); !errors.Is(err, errBound) {
		t.Errorf("it is looked at again: %v", err)
	}
	w.until = time.Time{}
	during(t, w, "s", func() {})
}

// TestLooksFollowNoLink: while a call swaps a directory for a link to a secret, nothing of
// the secret is ever kept.
func TestLooksFollowNoLink(t *testing.T) {
	ws, out, store := t.TempDir(), t.TempDir(), t.TempDir()+"/s"
	sh(t, ws, "mkdir d; echo mine > d/key")
	sh(t, out, "echo secret > key")
	w := open(t, store, ws, options)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(ws+"/d", ws+"/e")
			_ = os.Symlink(out, ws+"/d")
			_ = os.Remove(ws + "/d")
			_ = os.Rename(ws+"/e", ws+"/d")
		}
	}()
	for range 250 {
		during(t, w, "s", func() {})
	}
	close(stop)
	<-stopped
	kept := 0
	for _, sum := range w.objects.packs.hashes() {
		b, err := w.objects.get(hex.EncodeToString(sum[:]))
		if err != nil {
			t.Error(err)
		}
		if kept++; string(b) != "mine\n" {
			t.Errorf("kept %q", b)
		}
	}
	if kept == 0 {
		t.Error("nothing is kept, so nothing is shown")
	}
}

// TestWhoChangedWhat: a person's changes are nobody's call, and calls at the same time
// say so.
func TestWhoChangedWhat(t *testing.T) {
	ws := t.TempDir()
	sh(t, ws, ground)
	w := open(t, t.TempDir()+"/s", ws, options)
	during(t, w, "s", func() {})
	sh(t, ws, "echo person > a/one")
	if rec := during(t, w, "s", func() {}); len(rec.Changes) != 0 {
		t.Errorf("a call that changed nothing: %+v", rec.Changes)
	}
	var inner Record
	outer := during(t, w, "s", func() {
		inner = during(t, w, "t", func() { sh(t, ws, "echo both > exact") })
		sh(t, ws, "echo outer > a/b/two")
	})
	paths := func(r Record) (l []string) {
		for _, c := range r.Changes {
			l = append(l, string(c.Path))
		}
		return l
	}
	if got := paths(inner); !slices.Equal(got, []string{"exact"}) || len(inner.With) != 1 {
		t.Errorf("inner: %v with %v", got, inner.With)
	}
	if got := paths(outer); !slices.Equal(got, []string{"a/b/two", "exact"}) || !slices.Equal(outer.With, []string{inner.ID}) {
		t.Errorf("outer: %v with %v", got, outer.With)
	}
	undo(t, w, inner, false)
	r, err := w.Begin(Call{Session: "t", Started: time.Now()}, all)
	if err != nil || !slices.Equal(r.Undone, []string{"exact"}) {
		t.Errorf("the session hears of %v, %v", r.Undone, err)
	}
	if _, err := r.End(); err != nil {
		t.Error(err)
	}
}

// TestATagIsTold: what a tag takes from the record is said before a call can lose it. The twin without one
// is kept, and comes back.
func TestATagIsTold(t *testing.T) {
	t.Parallel()
	for _, tagged := range []bool{true, false} {
		ws := t.TempDir()
		sh(t, ws, "mkdir src; echo main > src/main.c; echo other > src/CACHEDIR.TAG")
		if tagged {
			sh(t, ws, "echo 'Signature: 8a477f597d28d172789f06886806bc55' > src/CACHEDIR.TAG")
		}
		w := open(t, t.TempDir()+"/s", ws, options)
		for call, told := range []bool{tagged, false} {
			r, err := w.Begin(Call{Session: "s", Started: time.Now()}, all)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(r.Blind) == 1 && r.Blind[0].Name == "src" && strings.Contains(r.Blind[0].Why, "CACHEDIR.TAG"); got != told || len(r.Blind) > 1 {
				t.Errorf("tagged %t, call %d: told %q", tagged, call, r.Blind)
			}
			sh(t, ws, "rm -f src/main.c")
			rec, err := r.End()
			if err != nil {
				t.Fatal(err)
			}
			if kept := len(rec.Changes) > 0; call == 0 && kept == tagged {
				t.Errorf("tagged %t: %+v", tagged, rec.Changes)
			}
		}
	}
}

// TestKeptWithinBounds: what is left out is not looked at, what is too large is said, and
// the oldest calls go.
func TestKeptWithinBounds(t *testing.T) {
	ws := t.TempDir()
	sh(t, ws, ground+`; mkdir -p node_modules/x cache; echo dep > node_modules/x/y
		printf 'Signature: 8a477f597d28d172789f06886806bc55' > cache/CACHEDIR.TAG; echo c > cache/c`)
	o := options
	o.Size, o.File = 300<<10, 100<<10
	w := open(t, t.TempDir()+"/s", ws, o)
	rec := during(t, w, "s", func() {
		sh(t, ws, "echo other > node_modules/x/y; echo d > cache/c; head -c 200000 /dev/zero > large; echo x > a/one")
	})
	var got []string
	for _, c := range rec.Changes {
		got = append(got, string(c.Path))
	}
	if !slices.Equal(got, []string{"a/one", "large"}) || rec.Changes[1].After.Unkept == "" {
		t.Errorf("%+v", rec.Changes)
	}
	gone := during(t, w, "s", func() { sh(t, ws, "rm large") })
	u, err := w.Plan([]Record{gone}, nil)
	if err != nil || len(u.Steps) != 1 || !u.Steps[0].Final {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := w.Apply(u, Call{Tool: "undo"}, true, here(w)); !errors.Is(err, ErrConflict) {
		t.Errorf("what was not kept: %v", err)
	}
	random := rand.NewChaCha8([32]byte{})
	dropped := 0
	for range 20 {
		r, err := w.Begin(Call{Session: "s", Started: time.Now()}, all)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 50<<10)
		_, _ = random.Read(b)
		if err := os.WriteFile(ws+"/noise", b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := r.End(); err != nil {
			t.Fatal(err)
		}
		dropped += r.Dropped
	}
	calls, err := w.Calls()
	if total := 22; len(calls)+dropped != total {
		t.Errorf("%d calls are there, %d are told to have gone, of %d", len(calls), dropped, total)
	}
	if err != nil || len(calls) > 8 || len(calls) == 0 || w.objects.total() > o.Size {
		t.Errorf("%d calls, %d bytes, %v", len(calls), w.objects.total(), err)
	}
	undo(t, w, calls[len(calls)-1], false)
}

// TestAWorkspaceTooLarge is refused as that, and leaves nothing behind.
func TestAWorkspaceTooLarge(t *testing.T) {
	ws := t.TempDir()
	b := make([]byte, 900<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	if err := os.WriteFile(ws+"/x", b, 0o600); err != nil {
		t.Fatal(err)
	}
	o := options
	o.Size = 100 << 10
	w := open(t, t.TempDir()+"/s", ws, o)
	if _, err := w.Begin(Call{Started: time.Now()}, all); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	if n := w.objects.total(); n > 100 {
		t.Errorf("%d bytes are left", n)
	}
}

var kills = flag.Int("kills", 40, "processes to kill in TestKilledAtAnyMoment, within the first 80 ms of each")

// TestKilledAtAnyMoment: a process that looks, changes files and looks again is killed
// (SIGKILL) at 200 moments. What it changed can be put back each time.
func TestKilledAtAnyMoment(t *testing.T) {
	if dir := os.Getenv("CHANGES_WORK"); dir != "" {
		work(t, dir)
		return
	}
	dir := t.TempDir()
	ws := dir + "/ws"
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	sh(t, ws, ground)
	for i := range 40 {
		sh(t, ws, fmt.Sprintf("echo %d > a/f%d", i, i))
	}
	w := open(t, dir+"/s", ws, options)
	during(t, w, "s", func() {})
	before := describe(ws)
	interrupted, finished := 0, 0
	for i := range *kills {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledAtAnyMoment$")
		cmd.Env = append(os.Environ(), "CHANGES_WORK="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(80 * time.Millisecond * time.Duration(i) / time.Duration(*kills)) // where it is by then: anywhere
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		during(t, w, "s", func() {}) // the next call, of a new process
		records, err := w.Calls()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.Interrupted {
				interrupted++
			} else if len(r.Undoes) == 0 {
				finished++
			}
		}
		u, err := w.Plan(records, nil)
		if err != nil || len(u.Conflicts()) > 0 {
			t.Fatal(err, u.Conflicts())
		}
		if _, err := w.Apply(u, Call{Tool: "undo"}, false, here(w)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, describe(ws)); diff != "" {
			t.Fatalf("killed after %d: %s", i, diff)
		}
		for _, r := range records {
			_ = os.Remove(w.record(r.ID))
		}
		records, _ = w.Calls()
		for _, r := range records {
			_ = os.Remove(w.record(r.ID))
		}
	}
	t.Logf("%d calls interrupted, %d finished", interrupted, finished)
	if interrupted == 0 {
		t.Error("none was interrupted, so nothing is shown")
	}
}

func work(t *testing.T, dir string) {
	w := open(t, dir+"/s", dir+"/ws", options)
	for {
		during(t, w, "s", func() {
			for i := range 40 {
				_ = os.WriteFile(fmt.Sprintf("%s/ws/a/f%d", dir, i), []byte(fmt.Sprint("worked ", rand.Int())), 0o644)
			}
			_ = os.Rename(dir+"/ws/a/one", dir+"/ws/a/moved")
			_ = os.Rename(dir+"/ws/a/moved", dir+"/ws/a/one")
		})
	}
}

func BenchmarkLook(b *testing.B) {
	for _, files := range []int{100, 10_000, 100_000} {
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			ws := b.TempDir()
			for i := range files {
				if i%50 == 0 {
					_ = os.Mkdir(fmt.Sprintf("%s/%d", ws, i/50), 0o755)
				}
				_ = os.WriteFile(fmt.Sprintf("%s/%d/%d", ws, i/50, i), []byte(strings.Repeat("line\n", i%400)), 0o644)
			}
			w := open(b, b.TempDir()+"/s", ws, options)
			began := time.Now()
			during(b, w, "s", func() {})
			first := time.Since(began)
			time.Sleep(2 * clockTick)
			during(b, w, "s", func() {})
			var act time.Duration
			for b.Loop() {
				during(b, w, "s", func() {
					began := time.Now()
					defer func() { act += time.Since(began) }()
					for i := range 20 {
						_ = os.WriteFile(fmt.Sprintf("%s/%d/%d", ws, i%2, i%2*50+i), []byte(fmt.Sprint(rand.Int())), 0o644)
					}
				})
			}
			b.ReportMetric(float64(first.Milliseconds()), "first-ms")
			b.ReportMetric(float64((b.Elapsed()-act).Microseconds())/float64(b.N), "kept-us")
		})
	}
}

// TestAnUndoIsOfItsOwnNames: what somebody has changed beside the names of an undo is none of its record, whoever looks
// while it goes on: to undo the undo would take that away.
func TestAnUndoIsOfItsOwnNames(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		ws, dir := t.TempDir(), t.TempDir()+"/s"
		sh(t, ws, "mkdir d; echo one > d/f; echo one > g")
		w := open(t, dir, ws, options)
		rec := during(t, w, "s", func() { sh(t, ws, "echo two > d/f") })
		sh(t, ws, "echo person > g; echo person > new; echo person > d/beside") // before the undo
		u, err := w.Plan([]Record{rec}, nil)
		if err != nil {
			t.Fatal(err)
		}
		other := open(t, dir, ws, options)
		meanwhile := func() {
			r, err := other.Begin(Call{Session: "t", Started: time.Now()}, all)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.End(); err != nil {
				t.Fatal(err)
			}
		}
		if killed {
			r, err := w.begin(Call{Session: "person", Tool: "undo"}, w.tree.known("d/f"), false, u.Steps)
			if err != nil {
				t.Fatal(err)
			}
			sh(t, ws, "echo one > d/f")
			r.beat.Stop()
			r.file.Close()
			meanwhile()
			records, err := other.Calls()
			if err != nil {
				t.Fatal(err)
			}
			rec = records[len(records)-1]
		} else {
			rec, err = w.Apply(u, Call{Session: "person", Tool: "undo"}, false, func(order io.Reader) error {
				err := here(w)(order)
				meanwhile()
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if !rec.Undo || len(rec.Changes) != 1 || rec.Changes[0].Path != "d/f" {
			t.Errorf("killed %v: the undo has changed %v", killed, rec.Changes)
		}
		undo(t, other, rec, false)
		sh(t, ws, "grep -x person g; grep -x person new; grep -x person d/beside; grep -x two d/f")
	}
}

// TestACallThatFillsTheWorkspace: a call that takes something away and leaves more than may be kept pushes nothing of it
// out, nor what calls before it have taken away.
func TestACallThatFillsTheWorkspace(t *testing.T) {
	ws, dir := t.TempDir(), t.TempDir()+"/s"
	sh(t, ws, "mkdir src old; head -c 20000 /dev/urandom > src/a; echo one > src/b; head -c 20000 /dev/urandom > old/a; echo one > person")
	before := describe(ws)
	o := options
	o.Size = 300 << 10
	w := open(t, dir, ws, o)
	during(t, w, "s", func() { sh(t, ws, "rm -r old") })
	r, err := w.Begin(Call{Session: "s", Started: time.Now()}, all)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, ws, "rm -r src; mkdir fill; for i in 1 2 3 4 5; do head -c 90000 /dev/urandom > fill/$i; done")
	rec, err := r.End()
	if !errors.Is(err, ErrFull) || len(rec.Changes) != 9 {
		t.Fatalf("%v: %v", err, rec.Changes)
	}
	if _, err := w.Begin(Call{Session: "s", Started: time.Now()}, all); !errors.Is(err, ErrFull) {
		t.Errorf("it is not told: %v", err)
	}
	w = open(t, dir, ws, o)
	if _, err := w.Begin(Call{Session: "s", Started: time.Now()}, all); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "another look") {
		t.Errorf("another process looks again: %v", err)
	}
	calls, err := w.Calls()
	if err != nil || len(calls) != 2 || w.objects.total() > o.Size {
		t.Fatalf("%d calls are left, %d bytes: %v", len(calls), w.objects.total(), err)
	}
	for i := len(calls) - 1; i >= 0; i-- {
		// What the call has left was kept no longer than it fitted: an undo takes it away all the same.
		if done := undo(t, w, calls[i], false); len(done.Changes) == 0 || !slices.Contains(done.Undoes, calls[i].ID) {
			t.Errorf("the undo of %s is not recorded: %+v", calls[i].ID, done)
		}
	}
	if diff := cmp.Diff(before, describe(ws)); diff != "" {
		t.Error(diff)
	}
	during(t, w, "s", func() { sh(t, ws, "echo two > person") })
}

func entries(w *Workspace) tree { return entriesOf(w.tree) }

func entriesOf(s *snapshot) tree {
	t := tree{}
	for name, e := range s.all() {
		t[name] = *e
	}
	return t
}

// hashes are all that are there.
func (p *packs) hashes() (l [][sha256.Size]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for sum := range p.known.all() {
		l = append(l, sum)
	}
	return l
}
