package changes

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWhatComesMeanwhileStays: what somebody saves while an undo writes a file stays, whether it
// is written in place, put there by a rename, or made where nothing was.
func TestWhatComesMeanwhileStays(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, before, meanwhile string
		want                    string
	}{
		{"nothing", "echo planned > f", "true", "undone"},
		{"nothing, where nothing was", "true", "true", "undone"},
		{"written in place", "echo planned > f", "echo mine > f", "mine"},
		{"renamed", "echo planned > f", "echo mine > g; mv g f", "mine"},
		{"another mode", "echo planned > f", "chmod 4755 f", "planned"},
		{"a link", "ln -s planned f", "ln -sfn mine f; echo mine > mine", "mine"},
		{"made", "true", "echo mine > f", "mine"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			ws := t.TempDir()
			sh(t, ws, row.before)
			var now *Entry
			var st unix.Stat_t
			if unix.Lstat(ws+"/f", &st) == nil {
				now = &Entry{Mode: uint32(st.Mode), Seen: stampOf(&st)} //nolint:unconvert // uint16 on darwin
			}
			time.Sleep(2 * clockTick)
			sh(t, ws, "echo undone > tmp; "+row.meanwhile)
			dir, err := openDirectory(unix.AT_FDCWD, ws)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(dir)
			err = (&application{}).place(dir, "tmp", "f", now)
			if conflict := row.want != "undone"; errors.Is(err, ErrConflict) != conflict || !conflict && err != nil {
				t.Errorf("%v", err)
			}
			if b, err := os.ReadFile(ws + "/f"); err != nil || strings.TrimSpace(string(b)) != row.want {
				t.Errorf("%q, %v", b, err)
			}
			if _, err := os.Lstat(ws + "/tmp"); err == nil {
				t.Error("what was to be put there is left")
			}
		})
	}
}

// TestASettledKeepLeavesWhatOthersMade: a keep that was cut off is brought to its end, and what
// somebody made, removed or closed meanwhile is left alone and named.
func TestASettledKeepLeavesWhatOthersMade(t *testing.T) {
	t.Parallel()
	const mine = "mkdir -m 700 new; echo mine > new/key"
	for _, row := range []struct {
		name, call string
		back       bool
		meanwhile  string
		left, want string
	}{
		{"cut off before a directory is filled", "mkdir -m 755 new; echo draft > new/x", false, "mkdir -m 700 new", "", "test $(stat -c %a new)$(cat new/x) = 755draft"},
		{"somebody's directory", "mkdir -m 755 new; echo draft > new/x", false, mine, "new", "test $(stat -c %a new)$(cat new/key) = 700mine"},
		{"somebody's mode", "chmod 700 dir", false, "chmod 711 dir", "dir", "test $(stat -c %a dir) = 711"},
		{"the keep's mode", "chmod 500 dir; echo draft > dir/f", false, "chmod 700 dir", "", "test $(stat -c %a dir)$(cat dir/f) = 500draft"},
		{"taken back: somebody removed a file", "echo draft > f", true, "rm f", "f", "test ! -e f"},
		{"taken back: cut off between two types", "rm f; mkdir f; echo draft > f/x", true, "rm f", "", "test $(cat f) = old"},
		{"taken back: somebody's directory", "rm f; mkdir f; echo draft > f/x", true, "rm f; mkdir -m 700 f; echo mine > f/key", "f", "test $(cat f/key) = mine"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			sh(t, dir, "mkdir ws drafts; cd ws; echo old > f; mkdir dir; echo old > dir/f")
			time.Sleep(2 * clockTick)
			d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
			if err == nil {
				_, err = d.Copy(all, nil, 1<<20)
			}
			if err != nil {
				t.Fatal(err)
			}
			sh(t, d.copyOf(0), row.call)
			p, err := d.Plan(0, options, nil)
			if err != nil {
				t.Fatal(err)
			}
			k := Keep{Steps: [][]Step{p.Steps}, File: options.File, Back: row.back}
			if err := d.write(&k); err != nil {
				t.Fatal(err)
			}
			sh(t, dir+"/ws", row.meanwhile)
			left, err := d.Settle(&k, func(root string, order io.Reader) error { return PutBack(root, order) })
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimLeft(signs(left), "+~-"); got != row.left {
				t.Errorf("left alone: %q", got)
			}
			sh(t, dir+"/ws", row.want)
		})
	}
}
