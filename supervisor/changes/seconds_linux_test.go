package changes

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// secondsDisk is a disk whose files have times of whole seconds. A pack on it stays open.
func secondsDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	disk := dir + "/disk"
	for _, args := range [][]string{{"mkdir", disk}, {"truncate", "-s", "16M", dir + "/img"}, {"mkfs.ext4", "-q", "-I", "128", dir + "/img"}, {"mount", "-o", "loop", dir + "/img", disk}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("no disk of whole seconds can be made: %v: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	sh(t, disk, `touch x; case "$(stat -c %z x)" in *.000000000*) ;; *) exit 1;; esac`)
	return disk
}

// TestTimesOfWholeSeconds: where several changes bear one time, none of them is missed.
func TestTimesOfWholeSeconds(t *testing.T) {
	t.Parallel()
	disk := secondsDisk(t)
	early := func() { // what follows is within one second
		for n := time.Now().Nanosecond(); n < 100e6 || n > 300e6; n = time.Now().Nanosecond() {
			time.Sleep(10 * time.Millisecond)
		}
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ws := disk + "/ws"
	sh(t, disk, "mkdir ws drafts; echo a > ws/f")
	w := open(t, t.TempDir()+"/s", ws, options)
	during(t, w, "s", func() {})
	early()
	during(t, w, "s", func() { put(ws+"/f", "one") })
	time.Sleep(2 * clockTick)
	rec := during(t, w, "s", func() { put(ws+"/f", "two") })
	if len(rec.Changes) != 1 {
		t.Fatalf("the second change was missed: %+v", rec.Changes)
	}
	undo(t, w, rec, false)
	if b, _ := os.ReadFile(ws + "/f"); string(b) != "one" {
		t.Errorf("got %q", b)
	}

	// What somebody does in the second in which a draft began is a conflict, and what a call does in that in which a
	// copy was made is in the draft.
	for _, copied := range []bool{false, true} {
		time.Sleep(time.Second)
		early()
		put(ws+"/f", "old")
		time.Sleep(2 * clockTick)
		d, err := NewDraft(disk+"/drafts", []string{ws}, nil)
		at := ws
		if err == nil && copied {
			_, err = d.Copy(all, nil, 1<<30)
			at = d.copyOf(0)
		}
		if err != nil {
			t.Fatal(err)
		}
		put(at+"/f", "new")
		if !copied {
			put(d.part(0, "upper")+"/f", "draft")
		}
		p, err := d.Plan(0, options, nil)
		if err != nil || len(p.Steps) != 1 || !copied && p.Steps[0].Conflict == "" {
			t.Errorf("copied %v: %+v, %v", copied, p.Steps, err)
		}
	}
}
