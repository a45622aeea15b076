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

const stats = `find . -printf '%P %u:%g %m %y %l\n' | sort`

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to others")
	}
}

// TestOwnersComeBack: what comes back belongs to whom it belonged, and what a draft changes to whom the draft says.
func TestOwnersComeBack(t *testing.T) {
	t.Parallel()
	asRoot(t)
	const ground = `echo own > own; echo other > other; chmod 640 other; chown 1234:2345 other; echo group > group; chgrp 2345 group
		mkdir dir; echo in > dir/in; chown 1234:1234 dir dir/in; chgrp 2345 dir; chmod 2775 dir; ln -s other link; chown -h 1234:2345 link`
	t.Run("undo", func(t *testing.T) {
		t.Parallel()
		ws := t.TempDir()
		sh(t, ws, ground+"; "+stats+" > ../before")
		w := open(t, t.TempDir()+"/s", ws, options)
		rec := during(t, w, "s", func() {
			sh(t, ws, "rm -r other dir link; echo new > other; chmod 640 other; cp group g; mv g group; chmod 1755 .") // group: the same for another owner
		})
		undo(t, w, rec, false)
		sh(t, ws, stats+" > ../after; diff ../before ../after")
	})
	t.Run("keep", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		sh(t, dir, "mkdir ws drafts; cd ws; "+ground)
		time.Sleep(2 * clockTick)
		d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sh(t, d.part(0, "upper"), "echo more > other; chmod 640 other; chown 1234:2345 other; echo new > group; echo made > made") // group was replaced
		p, err := d.Plan(0, options, nil)
		if err == nil {
			err = d.Keep([]DraftPlan{p}, Keep{}, false, PutBack)
		}
		if err != nil || signs(p.Steps) != "~group +made ~other" {
			t.Fatal(signs(p.Steps), err)
		}
		sh(t, dir+"/ws", `test "$(stat -c %u:%g other group made own | tr '\n' ' ')" = "1234:2345 0:0 0:0 0:0 "; test "$(cat other)" = more`)
	})
	t.Run("copy", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		sh(t, dir, "mkdir ws drafts; cd ws; "+ground)
		time.Sleep(2 * clockTick)
		d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
		if err == nil {
			_, err = d.Copy(all, nil, 1<<30)
		}
		if err != nil {
			t.Fatal(err)
		}
		sh(t, d.copyOf(0), "echo more >> other; echo more >> dir/in")
		p, err := d.Plan(0, options, nil)
		if err == nil {
			err = d.Keep([]DraftPlan{p}, Keep{}, false, PutBack)
		}
		if err != nil || signs(p.Steps) != "~dir/in ~other" {
			t.Fatal(signs(p.Steps), err)
		}
		sh(t, dir+"/ws", `test "$(stat -c %u:%g,%a other dir dir/in | tr '\n' ' ')" = "1234:2345,640 1234:2345,2775 1234:1234,644 "`)
	})
}

// TestNothingOfACallIsGiven: what a call puts in the place of what comes back, or writes meanwhile, belongs to nobody
// else by that.
func TestNothingOfACallIsGiven(t *testing.T) {
	t.Parallel()
	asRoot(t)
	for name, meanwhile := range map[string]func(t *testing.T, ws string) (end func()){
		"nothing": func(*testing.T, string) func() { return func() {} },
		"another file": func(t *testing.T, ws string) func() {
			sh(t, ws, "rm f; echo evil > f")
			return func() {}
		},
		"another file of its size": func(t *testing.T, ws string) func() {
			sh(t, ws, "rm f; echo EVIL > f")
			return func() {}
		},
		"another name": func(t *testing.T, ws string) func() {
			sh(t, ws, "ln f g")
			return func() {}
		},
		"a link": func(t *testing.T, ws string) func() {
			sh(t, ws, "echo mine > mine; rm f; ln -s mine f")
			return func() {}
		},
		"a writer": func(t *testing.T, ws string) func() {
			f, err := os.OpenFile(ws+"/f", os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			return func() { f.Close() }
		},
		"a mapping": func(t *testing.T, ws string) func() {
			f, err := os.OpenFile(ws+"/f", os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			b, err := unix.Mmap(int(f.Fd()), 0, 4, unix.PROT_WRITE, unix.MAP_SHARED)
			if err != nil {
				t.Fatal(err)
			}
			return func() { _ = unix.Munmap(b) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws := t.TempDir()
			sh(t, ws, "echo good > f; chown 1234:2345 f")
			w := open(t, t.TempDir()+"/s", ws, options)
			rec := during(t, w, "s", func() { sh(t, ws, "rm f") })
			u, err := w.Plan([]Record{rec}, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.Apply(u, Call{Tool: "undo"}, false, func(order io.Reader) error {
				err := PutBack(ws, order)
				t.Cleanup(meanwhile(t, ws))
				return err
			})
			if name == "nothing" {
				if err != nil {
					t.Error(err)
				}
				sh(t, ws, `test "$(stat -c %u:%g f)" = 1234:2345`)
				return
			}
			if !errors.Is(err, ErrConflict) {
				t.Errorf("got %v", err)
			}
			sh(t, ws, `test -z "$(find . -uid 1234)"`)
		})
	}
}

// TestNoDirectoryOfACallIsGiven: a directory that has something of a call's belongs to nobody else by an undo.
func TestNoDirectoryOfACallIsGiven(t *testing.T) {
	t.Parallel()
	asRoot(t)
	for name, evil := range map[string]string{"nothing": "", "a file": "echo evil > d/evil", "another directory": "mv d x; mkdir d; echo evil > d/evil"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws := t.TempDir()
			sh(t, ws, "mkdir d; echo good > d/f; chown -R 1234:2345 d")
			w := open(t, t.TempDir()+"/s", ws, options)
			rec := during(t, w, "s", func() { sh(t, ws, "rm -r d") })
			u, err := w.Plan([]Record{rec}, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.Apply(u, Call{Tool: "undo"}, false, func(order io.Reader) error {
				err := PutBack(ws, order)
				sh(t, ws, evil)
				return err
			})
			if evil == "" {
				if err != nil {
					t.Error(err)
				}
				sh(t, ws, `test "$(stat -c %u:%g d d/f | tr '\n' ' ')" = "1234:2345 1234:2345 "`)
				return
			}
			if !errors.Is(err, ErrConflict) {
				t.Errorf("got %v", err)
			}
			sh(t, ws, `test "$(stat -c %u d)" = 0`)
		})
	}
}

// TestTheTopOfAWorkspace: a call may change the mode and the lists of the workspace itself.
func TestTheTopOfAWorkspace(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	const none = "\xff\xff\xff\xff"
	list := "\x02\x00\x00\x00\x01\x00\x07\x00" + none + "\x02\x00\x05\x00\xd2\x04\x00\x00\x04\x00\x05\x00" + none + "\x10\x00\x05\x00" + none + "\x20\x00\x00\x00" + none
	sh(t, ws, "echo x > f; mkdir d; chmod 2750 . d")
	if err := unix.Setxattr(ws+"/d", defaultList, []byte(list), 0); err != nil {
		t.Fatal(err)
	}
	w := open(t, t.TempDir()+"/s", ws, options)
	lists := func() (l string) {
		for _, name := range []string{ws, ws + "/d"} {
			for _, attr := range []string{accessList, defaultList} {
				b := make([]byte, 100)
				n, _ := unix.Getxattr(name, attr, b)
				l += strings.TrimPrefix(name, ws) + attr + string(b[:max(n, 0)])
			}
		}
		return l
	}
	before := describe(ws) + lists()
	rec := during(t, w, "s", func() {
		sh(t, ws, "chmod 775 .; chmod g-s .")
		for name, attr := range map[string]string{ws: defaultList, ws + "/d": accessList} {
			if err := unix.Setxattr(name, attr, []byte(list), 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := unix.Removexattr(ws+"/d", defaultList); err != nil {
			t.Fatal(err)
		}
	})
	if len(rec.Changes) != 2 || rec.Changes[0].Path != topName {
		t.Fatalf("%+v", rec.Changes)
	}
	after := describe(ws) + lists()
	back := undo(t, w, rec, false)
	if got := describe(ws) + lists(); got != before {
		t.Errorf("%q\nwant %q", got, before)
	}
	undo(t, w, back, false)
	if got := describe(ws) + lists(); got != after {
		t.Errorf("undone again: %q\nwant %q", got, after)
	}

	// In a draft calls see the mode that it has, and what they make of it is a change of theirs.
	time.Sleep(2 * clockTick)
	sh(t, ws, "chmod 2750 .")
	d, err := NewDraft(t.TempDir(), []string{ws}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(d.part(0, "upper")); err != nil || info.Mode()&os.ModePerm != 0o750 || info.Mode()&os.ModeSetgid == 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	p, err := d.Plan(0, options, nil)
	if err != nil || signs(p.Steps) != "" {
		t.Errorf("nothing was done: %s, %v", signs(p.Steps), err)
	}
	sh(t, d.part(0, "upper"), "chmod 770 .")
	if p, err = d.Plan(0, options, nil); err == nil {
		err = d.Keep([]DraftPlan{p}, Keep{}, false, PutBack)
	}
	if info, _ := os.Stat(ws); err != nil || signs(p.Steps) != "~." || info.Mode()&os.ModePerm != 0o770 {
		t.Errorf("%s, %v, %v", signs(p.Steps), info.Mode(), err)
	}
}
