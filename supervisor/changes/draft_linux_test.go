package changes

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDraftsSeeWhatTheyChange: whatever a look passes over elsewhere, a draft is compared with
// what is there, also in what says that it is a cache. What cannot be looked into is not kept.
func TestDraftsSeeWhatTheyChange(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, ground, draft, paths string
		conflict                   string
		want                       string // ls of the workspace after a keep
	}{
		{"a cache", "mkdir cache gone node_modules; for d in cache gone; do echo 'Signature: 8a477f597d28d172789f06886806bc55' > $d/CACHEDIR.TAG; echo old > $d/a; echo old > $d/b; done; echo old > node_modules/m",
			"mkdir cache node_modules; echo new > cache/a; mknod cache/b c 0 0; mknod gone c 0 0; mknod node_modules/m c 0 0",
			"~cache/a -cache/b -gone -gone/CACHEDIR.TAG -gone/a -gone/b -node_modules/m", "", ". ./cache ./cache/CACHEDIR.TAG ./cache/a ./node_modules"},
		{"a name of an undo's own", "echo old > " + unfinished + "x", "echo new > " + unfinished + "x", "~" + unfinished + "x", "", ". ./" + unfinished + "x"},
		{"too deep", "d=.; for i in $(seq 70); do d=$d/d; done; mkdir -p $d", "mknod d c 0 0", "", "what is there now is not known: it lies too deep", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			sh(t, dir, "mkdir ws drafts; cd ws; "+row.ground)
			time.Sleep(2 * clockTick) // what was written within one tick may have been changed since
			d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			sh(t, d.part(0, "upper"), row.draft)
			p, err := d.Plan(0, options, nil)
			if err != nil {
				t.Fatal(err)
			}
			if row.conflict != "" {
				if l := p.Blocking(true); len(l) == 0 || l[len(l)-1].Conflict != row.conflict {
					t.Errorf("%+v", l)
				}
				return
			}
			if got := signs(p.Steps); got != row.paths {
				t.Errorf("%s\nwant %s", got, row.paths)
			}
			if err := d.Keep([]DraftPlan{p}, Keep{}, false, PutBack); err != nil {
				t.Fatal(err)
			}
			sh(t, dir+"/ws", `test "$(find . | LC_ALL=C sort | tr '\n' ' ')" = "`+row.want+` "; ! grep -r old . --exclude-dir=node_modules`)
		})
	}
}

// TestAnOverlaySaysNoModes: the mode that an overlay has of a directory is that of when something was
// made in it. What somebody makes of it since stays, or is a conflict if a call has changed it too.
func TestAnOverlaySaysNoModes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh(t, dir, "mkdir -p ws/d ws/e drafts; chmod 755 ws/d ws/e")
	d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan := func() []Step {
		t.Helper()
		p, err := d.Plan(0, options, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p.Steps
	}
	upper := d.part(0, "upper")
	sh(t, upper, "mkdir d e; chmod 755 d; chmod 775 e; echo new > d/new")
	for _, name := range []string{"/d", "/e"} { // the kernel's sign of what was copied up
		if err := unix.Setxattr(upper+name, "user.overlay.origin", []byte("x"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := plan(); signs(got) != "+d/new ~e" || got[1].Conflict != "" {
		t.Errorf("at the end of the run: %+v", got)
	}
	sh(t, dir+"/ws", "chmod 700 d e")
	if got := plan(); signs(got) != "+d/new ~e" || got[1].Conflict != "it was changed since" {
		t.Errorf("closed since: %+v", got)
	}
}
