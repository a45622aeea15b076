package changes

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestDraftsOnCopies: what calls do to a copy is what a draft says, and what they did not
// touch is not in it. Signs of overlays that a call makes in a copy are files like any other.
func TestDraftsOnCopies(t *testing.T) {
	t.Parallel()
	const ground = "mkdir -p dir/below moved hides; echo old > dir/a; echo old > dir/below/b; echo old > moved/m; echo old > hides/shown; echo secret > hides/hidden; echo same > same; ln same twice; ln -s same link; mkfifo pipe; ln hides/hidden known; mkdir -p closed/in; echo secret > closed/in/f; ln closed/in/f moved/known; echo secret > ../other/hidden; ln ../other/hidden known3; echo shown > ../other/shown; ln ../other/shown shown; echo run > run; truncate -s 10G sparse; chmod 700 dir"
	for _, row := range []struct{ name, call, meanwhile, steps, conflict, want string }{
		{"nothing", "true", "", "", "", ""},
		{"read", "cat dir/a same; ls -R; test ! -e hides/hidden; test ! -e pipe; test ! -e closed; test $(cat shown) = shown; ! grep -rl secret .; test $(stat -c %h same) = 2; test $(du -k sparse | cut -f1) = 0; test $(stat -c %a dir) = 700", "", "", "", ""},
		{"all kinds", "echo new > dir/a; chmod 755 run; rm twice; mkdir -p n/e; echo new > n/e/w; mv moved there; ln -sf run link; touch same", "",
			"~dir/a ~link -moved -moved/m +n +n/e +n/e/w ~run +there +there/m -twice", "", "test $(cat dir/a)$(cat n/e/w)$(cat there/m) = newnewold; test ! -e twice; test -x run; test $(readlink link) = run"},
		{"signs", "python3 -c 'import os; os.setxattr(\"dir\", \"user.overlay.opaque\", b\"y\")'; mknod same2 c 0 0; rm dir/a", "", "-dir/a +same2", "it is a device, a socket or a pipe, or runs with the rights of its owner", ""},
		{"a directory that has something hidden", "rm -r hides", "", "-hides -hides/shown", "", "test $(cat hides/hidden) = secret; test ! -e hides/shown"},
		{"changed since", "echo new > dir/a", "echo mine > dir/a", "~dir/a", "it was changed since", ""},
		{"a mode of somebody's", "echo new > dir/a", "chmod 711 dir", "~dir/a", "", "test $(stat -c %a dir)$(cat dir/a) = 711new"},
		{"two modes", "chmod 755 dir", "chmod 711 dir", "~dir", "it was changed since", ""},
		{"removed since", "echo new > dir/a", "rm dir/a", "+dir/a", "it was removed since", ""},
		{"made since in what was removed", "rm -r dir", "echo mine > dir/c", "-dir -dir/a -dir/below -dir/below/b", "", "test \"$(ls dir)\" = c"},
		{"another type", "rm -r dir; echo new > dir", "", "~dir -dir/a -dir/below -dir/below/b", "", "test $(cat dir) = new"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			sh(t, dir, "mkdir ws drafts other; cd ws; "+ground)
			time.Sleep(2 * clockTick)
			d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Copy(func(path string) bool {
				return path != dir+"/ws/hides/hidden" && path != dir+"/ws/closed" && path != dir+"/other/hidden"
			}, []string{dir + "/other"}, 1<<20); err != nil {
				t.Fatal(err)
			}
			if err := d.Move(); err != nil {
				t.Fatal(err)
			}
			if d, err = OpenDraft(d.Dir()); err != nil {
				t.Fatal(err)
			}
			sh(t, d.Place(dir+"/ws"), row.call)
			for _, path := range []string{dir + "/ws", dir + "/ws/a", dir + "/wsx", "/usr"} {
				if of := d.Of(d.Place(path)); of != path {
					t.Errorf("%s, as it is kept: %s", path, of)
				}
			}
			sh(t, dir+"/ws", row.meanwhile)
			p, err := d.Plan(0, options, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := signs(p.Steps); got != row.steps {
				t.Fatalf("%s\nwant %s", got, row.steps)
			}
			if l := p.Blocking(false); len(l) > 0 || row.conflict != "" {
				if len(l) == 0 || l[0].Conflict != row.conflict {
					t.Errorf("%+v", l)
				}
				return
			}
			if err := d.Keep([]DraftPlan{p}, Keep{}, false, PutBack); err != nil {
				t.Fatal(err)
			}
			sh(t, dir+"/ws", row.want)
			if err := d.Drop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestCopiesAreBounded: what is too large to copy is refused by its size, and no link leads a
// copy elsewhere.
func TestCopiesAreBounded(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, ground string }{
		{"too deep", "d=.; for i in $(seq 70); do d=$d/d; done; mkdir -p $d"},
		{"too large", "head -c 2M /dev/zero > large"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			sh(t, dir, "mkdir ws drafts; cd ws; "+row.ground)
			d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.Copy(all, nil, 1<<20); !errors.Is(err, ErrTooLarge) {
				t.Error(err)
			}
			if d, err = OpenDraft(d.Dir()); err != nil || d.Copied {
				t.Errorf("%v, copied %v", err, d.Copied)
			}
		})
	}
	dir := t.TempDir()
	sh(t, dir, "mkdir ws drafts other; ")
	d, err := NewDraft(filepath.Join(dir, "drafts"), []string{dir + "/ws"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, dir, "mv ws old; ln -s other ws")
	if _, err := d.Copy(all, nil, 1<<20); err == nil {
		t.Error("a copy of what a link leads to")
	}
	sh(t, dir, "rm ws; mkdir ws")
	if _, err := d.Copy(all, nil, 1<<20); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
}

// TestAnOverlayBecomesNoCopy: what calls have done in an overlay stays in the draft where it cannot
// be mounted later. One that nobody has written becomes a copy.
func TestAnOverlayBecomesNoCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh(t, dir, "mkdir ws drafts; echo old > ws/a")
	time.Sleep(2 * clockTick)
	d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, d.part(0, "upper"), "echo precious > step1")
	for range 2 {
		if _, err := d.Copy(all, nil, 1<<20); err == nil || d.Copied {
			t.Fatalf("copied: %v", err)
		}
	}
	if p, err := d.Plan(0, options, nil); err != nil || signs(p.Steps) != "+step1" {
		t.Errorf("%v, %v", p.Steps, err)
	}
	sh(t, d.part(0, "upper"), "rm step1; mkdir -p ../copy/ws; echo half > ../copy/ws/half")
	if _, err := d.Copy(all, nil, 1<<20); err != nil {
		t.Fatal(err)
	}
	if p, err := d.Plan(0, options, nil); err != nil || signs(p.Steps) != "" {
		t.Errorf("%v, %v", p.Steps, err)
	}
	sh(t, d.part(0, "upper"), "echo precious > step1")
	if p, err := d.Plan(0, options, nil); err == nil {
		t.Errorf("a copy beside an overlay: %v", p.Steps)
	}
}

// signs lists steps: + made, ~ changed, - removed.
func signs(steps []Step) string {
	var l []string
	for _, s := range steps {
		sign := map[bool]string{s.Now == nil: "+", s.Was == nil: "-"}[true]
		if sign == "" {
			sign = "~"
		}
		l = append(l, sign+string(s.Path))
	}
	return strings.Join(l, " ")
}
