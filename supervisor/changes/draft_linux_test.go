package changes

import (
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
