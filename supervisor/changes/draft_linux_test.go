package changes

import (
	"errors"
	"strings"
	"testing"
	"time"
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
		{"too deep", "d=.; for i in $(seq 70); do d=$d/d; done; mkdir -p $d", "mknod d c 0 0", "", "what is there now is not known: it is nested too deep", ""},
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

// TestWhatCameSinceIsAConflict: whatever stands there at a keep and is not what the draft began with
// is a conflict: also what is older and was moved there, alone or with a directory, what a
// directory of the draft's is to lie in, and what became of modes.
func TestWhatCameSinceIsAConflict(t *testing.T) {
	t.Parallel()
	const ground = "mkdir -p old/photos v2 ws/dir/sub ws/other; echo precious > old/photos/p; echo two > v2/a; echo letter > letter; cd ws; echo one > dir/a; echo one > dir/sub/b; chmod 755 dir other"
	for _, row := range []struct {
		name, draft, since string
		steps, conflicts   string
	}{
		{"nothing", "mknod dir c 0 0", "true", "-dir -dir/a -dir/sub -dir/sub/b", ""},
		{"a directory moved into one that goes", "mknod dir c 0 0", "mv ../old/photos dir/photos", "-dir -dir/a -dir/photos -dir/photos/p -dir/sub -dir/sub/b", "dir/photos dir/photos/p"},
		{"a file linked into it", "mknod dir c 0 0", "ln ../letter dir/letter", "-dir -dir/a -dir/letter -dir/sub -dir/sub/b", "dir/letter"},
		{"a directory exchanged for another", "mkdir dir; echo draft > dir/a", "mv dir ../v1; mv ../v2 dir", "~dir/a", "dir/a"},
		{"and what is made in it", "mkdir dir; echo draft > dir/new", "mv dir ../v1; mv ../v2 dir", "+dir/new", "dir/new"},
		{"and what goes with it", "mkdir dir; mknod dir/sub c 0 0", "mv dir/sub ../sub; mv ../old dir/sub", "-dir/sub -dir/sub/photos -dir/sub/photos/p", "dir/sub dir/sub/photos dir/sub/photos/p"},
		{"a file of the same name and time", "mkdir dir; echo draft > dir/a", "cp -p dir/a ../c; rm dir/a; mv ../c dir/a", "~dir/a", "dir/a"},
		{"the directory went elsewhere", "mkdir dir; echo draft > dir/a", "mv dir lib", "+dir +dir/a", "dir dir/a"},
		{"a sibling", "mkdir dir; echo draft > dir/a", "echo mine > dir/mine; mv ../old dir/old", "~dir/a", ""},
		{"a link in its place", "mkdir dir; echo draft > dir/new", "mv dir lib; ln -s lib dir", "~dir +dir/new", "dir dir/new"},
		{"made by both, and closed", "mkdir -m 777 priv; echo x > priv/x", "mkdir -m 700 priv; echo secret > priv/s", "~priv +priv/x", "priv priv/x"},
		{"made by both", "mkdir -m 700 made; echo x > made/x", "mkdir -m 700 made", "+made/x", "made/x"},
		{"closed since, and no call changed its mode", "mkdir -m 755 dir; echo x > dir/x", "chmod 700 dir", "+dir/x", ""},
		{"closed since, and a call opened it", "mkdir -m 775 other", "chmod 700 other", "~other", "other"},
		{"opened by a call", "mkdir -m 775 other", "true", "~other", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			sh(t, dir, "umask 022; mkdir drafts; "+ground)
			time.Sleep(2 * clockTick)
			d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			sh(t, d.part(0, "upper"), "umask 022; "+row.draft)
			sh(t, dir+"/ws", "umask 022; "+row.since)
			p, err := d.Plan(0, options, nil)
			if err != nil {
				t.Fatal(err)
			}
			var conflicts []string
			for _, s := range p.Blocking(false) {
				conflicts = append(conflicts, string(s.Path))
			}
			if got := signs(p.Steps); got != row.steps || strings.Join(conflicts, " ") != row.conflicts {
				t.Errorf("%s, conflicts %v\nwant %s, %s", got, conflicts, row.steps, row.conflicts)
			}
			err = d.Keep([]DraftPlan{p}, Keep{}, false, PutBack)
			if errors.Is(err, ErrConflict) != (row.conflicts != "") || err != nil && row.conflicts == "" {
				t.Error(err)
			}
		})
	}
}

// TestAPartOfADraftIsNobodyElses: what a keep of a part has put there, or one that was taken back, is
// no conflict for the rest, unless somebody changes it.
func TestAPartOfADraftIsNobodyElses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh(t, dir, "mkdir drafts ws; cd ws; echo one > a; mkdir gone; echo one > gone/b")
	time.Sleep(2 * clockTick)
	d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	plan := func(paths ...string) DraftPlan {
		t.Helper()
		p, err := d.Plan(0, options, paths)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	upper := d.part(0, "upper")
	sh(t, upper, "echo two > a; mkdir new; echo new > new/x; echo new > new/y; mknod gone c 0 0")
	if err := d.Keep([]DraftPlan{plan("a", "new/x", "gone")}, Keep{}, false, PutBack); err != nil {
		t.Fatal(err)
	}
	sh(t, upper, "echo three > a; echo three > new/x; rm gone; echo three > gone")
	p := plan()
	if got := signs(p.Steps); got != "~a +gone ~new/x +new/y" || len(p.Conflicts()) > 0 {
		t.Errorf("%s, %v", got, p.Conflicts())
	}
	sh(t, dir+"/ws", "echo mine > a; mkdir gone")
	if l := plan().Conflicts(); len(l) != 2 || l[0].Path != "a" || l[1].Path != "gone" {
		t.Errorf("%+v", l)
	}
}

// TestALookAtADraftIsBounded: files of holes take no disk, and as much time as others: what is beyond
// the bound is not read, and cannot be kept; what is within it can.
func TestALookAtADraftIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sh(t, dir, "for i in 1 2 3; do truncate -s 1M f$i; done")
	u := newUpper(opened(t, t.TempDir()), 1<<20)
	u.bytes = draftBytes - 2<<20
	if err := u.read(dir); err != nil {
		t.Fatal(err)
	}
	unread := 0
	for _, e := range u.found {
		if e.Unkept != "" {
			unread++
		}
	}
	if unread != 1 {
		t.Errorf("%d of 3 files were not read: %v", unread, u.found)
	}
	u.names = lookNames
	if err := u.read(dir); !errors.Is(err, errBound) {
		t.Errorf("one name more than may be looked at: %v", err)
	}
}
