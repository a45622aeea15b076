package changes

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestAnUndoKeepsWhatItWrites: a merged text is in no record before the undo has run, and is
// kept until then; a content that is gone is told before anything is changed.
func TestAnUndoKeepsWhatItWrites(t *testing.T) {
	ws, dir := t.TempDir(), t.TempDir()+"/s"
	sh(t, ws, "seq 9 > a; seq 9 > b; head -c 200000 /dev/urandom > ballast")
	w := open(t, dir, ws, options)
	during(t, w, "s", func() { sh(t, ws, "rm ballast") })
	rec := during(t, w, "s", func() { sh(t, ws, "echo call >> a; echo call >> b") })
	sh(t, ws, "sed -i s/^2/two/ a b")
	changed := describe(ws)
	u, err := w.Plan([]Record{rec}, nil)
	if err != nil || len(u.Steps) != 2 || !u.Steps[0].Merged || !u.Steps[1].Merged {
		t.Fatalf("%+v, %v", u, err)
	}
	merged, err := w.Content(u.Steps[1].Was)
	if err != nil {
		t.Fatal(err)
	}
	rest := map[string]bool{}
	for _, sum := range w.objects.packs.hashes() {
		rest[hex.EncodeToString(sum[:])] = true
	}
	w.objects.each(func(hash, _ string) { rest[hash] = true })
	delete(rest, u.Steps[1].Was.Hash)
	w.objects.sweep(rest, true)
	if _, err := w.Apply(u, Call{Tool: "undo"}, false, here(w)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a content: %v", err)
	}
	if diff := cmp.Diff(changed, describe(ws)); diff != "" {
		t.Errorf("half of it was done: %s", diff)
	}
	// With what the oldest call left, it is more than may be kept, as another process finds while it goes on.
	if u, err = w.Plan([]Record{rec}, nil); err != nil {
		t.Fatal(err)
	}
	small := options
	small.Size = w.objects.total() - 100_000
	if _, err := w.Apply(u, Call{Tool: "undo"}, false, func(order io.Reader) error {
		during(t, open(t, dir, ws, small), "t", func() {})
		return here(w)(order)
	}); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(ws + "/b"); string(b) != string(merged) {
		t.Errorf("%q, want %q", b, merged)
	}
	if calls, err := w.Calls(); err != nil || len(calls) != 2 || calls[1].Needs != nil {
		t.Errorf("%+v, %v", calls, err)
	}
}

// TestFullDisks: a disk that is full in the middle of a journal, of a keep and of an undo is
// told, and what was there before can still be had.
func TestFullDisks(t *testing.T) {
	if dir := os.Getenv("CHANGES_DISKS"); dir != "" {
		fullDisks(t, dir)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisks$", "-test.v")
	cmd.Env = append(os.Environ(), "CHANGES_DISKS="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Getuid() != 0 { // root may mount where user namespaces are barred
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) {
		t.Skipf("uid %d may not mount small disks here, neither as root nor in a user namespace", os.Getuid())
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func fullDisks(t *testing.T, dir string) {
	ws, state := dir+"/ws", dir+"/state"
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	for disk, with := range map[string]string{ws: "size=1m,nr_inodes=60", state: "size=2m"} {
		if err := errors.Join(os.Mkdir(disk, 0o700), unix.Mount("none", disk, "tmpfs", 0, with)); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(disk string) {
		t.Helper()
		sh(t, disk, "! cat /dev/zero > fill 2> /dev/null")
	}
	full := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: %v", what, err)
		}
	}
	sh(t, ws, ground+"; mkdir d; for i in $(seq 20); do head -c 10000 /dev/urandom > d/$i; done")
	before := describe(ws)
	w := open(t, state+"/s", ws, options)
	gone := during(t, w, "s", func() { sh(t, ws, "rm -r d") })
	back := func(what string, records ...Record) {
		t.Helper()
		u, err := w.Plan(records, nil)
		if err == nil {
			_, err = w.Apply(u, Call{Tool: "undo"}, false, here(w))
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if diff := cmp.Diff(before, describe(ws)); diff != "" {
			t.Fatalf("%s: %s", what, diff)
		}
	}

	// An undo: more than there is room for changes nothing.
	u, err := w.Plan([]Record{gone}, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(ws)
	left := describe(ws)
	_, err = w.Apply(u, Call{Tool: "undo"}, false, here(w))
	full("undo", err)
	if diff := cmp.Diff(left, describe(ws)); diff != "" {
		t.Errorf("half an undo: %s", diff)
	}
	sh(t, ws, "rm fill")
	// One that ends in the middle all the same leaves whole files, and the next one goes on.
	sh(t, ws, "i=0; while true 2> /dev/null > n$i; do i=$((i+1)); done; rm n0 n1 n2 n3 n4 n5 n6 n7")
	_, err = w.Apply(u, Call{Tool: "undo"}, false, here(w))
	full("an undo without names left", err)
	if half, _ := os.ReadDir(ws + "/d"); len(half) == 0 || len(half) == 20 {
		t.Errorf("%d of 20 came back, so nothing is shown", len(half))
	}
	sh(t, ws, "rm n*; ! ls d/.sandgate* 2> /dev/null")
	back("the rest", gone)

	// A journal: before a call, and after it.
	sh(t, ws, "head -c 100000 /dev/urandom > new")
	fill(state)
	_, err = w.Begin(Call{Started: time.Now()}, all)
	full("before a call", err)
	sh(t, state, "rm fill")
	sh(t, ws, "rm new")
	r, err := w.Begin(Call{Started: time.Now()}, all)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, ws, "echo changed > a/one; head -c 100000 /dev/urandom > new")
	fill(state)
	_, err = r.End()
	full("after a call", err)
	sh(t, state, "rm fill")
	during(t, w, "s", func() {})
	calls, err := w.Calls()
	if err != nil {
		t.Fatal(err)
	}
	back("after a journal that ended in the middle", calls[len(calls)-1])

	// The disk is full for a moment while a call runs, and another one looks.
	r, err = w.Begin(Call{Started: time.Now()}, all)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, ws, "mv d gone")
	fill(state)
	other := open(t, state+"/s", ws, options)
	_, err = other.Begin(Call{Started: time.Now()}, all)
	full("another call", err)
	sh(t, state, "rm fill")
	during(t, other, "s", func() {})
	moved, err := r.End()
	if err != nil {
		t.Fatal(err)
	}
	back("a call that ran while the disk was full", moved)

	// A keep.
	d, err := NewDraft(state+"/drafts", []string{ws}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, d.part(0, "upper"), "mkdir kept; for i in $(seq 8); do head -c 50000 /dev/urandom > kept/$i; done; ls -l kept > list")
	fill(state)
	_, err = d.Plan(0, options, nil)
	full("a draft that is looked at", err)
	sh(t, state, "rm fill")
	p, err := d.Plan(0, options, nil)
	if err != nil {
		t.Fatal(err)
	}
	put := func() error { return d.Keep([]DraftPlan{p}, Keep{}, false, PutBack) }
	fill(ws)
	left = describe(ws)
	full("a keep", put())
	if diff := cmp.Diff(left, describe(ws)); diff != "" {
		t.Errorf("half a keep: %s", diff)
	}
	sh(t, ws, "rm fill")
	if p, err = d.Plan(0, options, nil); err == nil {
		err = put()
	}
	if err != nil {
		t.Fatal(err)
	}
	sh(t, ws, "diff -r kept "+d.part(0, "upper")+"/kept; rm -r kept list")
	if diff := cmp.Diff(before, describe(ws)); diff != "" {
		t.Error(diff)
	}
}

// TestAWorkspaceThatIsNotThere: one that was moved, or that another one took the place of, is
// told; what was kept of it is still there when it comes back.
func TestAWorkspaceThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	ws := dir + "/ws"
	sh(t, dir, "mkdir ws; cd ws; "+ground)
	w := open(t, dir+"/s", ws, options)
	before := describe(ws)
	rec := during(t, w, "s", func() { sh(t, ws, "rm -r a") })
	sh(t, dir, "mv ws away")
	if _, err := w.Begin(Call{Started: time.Now()}, all); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("call: %v", err)
	}
	if _, err := w.Plan([]Record{rec}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("undo: %v", err)
	}
	sh(t, dir, "mv away ws")
	undo(t, w, rec, false)
	if diff := cmp.Diff(before, describe(ws)); diff != "" {
		t.Error(diff)
	}
	rec = during(t, w, "s", func() { sh(t, ws, "echo call > a/one") })
	sh(t, dir, "mv ws away; mkdir -p ws/a; echo other > ws/a/one")
	u, err := w.Plan([]Record{rec}, nil)
	if err != nil || len(u.Blocking(false)) != 1 {
		t.Errorf("another workspace in its place: %+v, %v", u, err)
	}
	sh(t, dir, "rm -r ws; mv away ws")
	undo(t, w, rec, false)
	if diff := cmp.Diff(before, describe(ws)); diff != "" {
		t.Error(diff)
	}
}

// TestTwoSupervisors: two keep what changes in one workspace, and undo at the same time; no
// content is lost.
func TestTwoSupervisors(t *testing.T) {
	ws, store := t.TempDir(), t.TempDir()+"/s"
	sh(t, ws, ground+"; for i in 0 1 2 3; do mkdir $i; echo $i > $i/file; done")
	before := describe(ws)
	var both sync.WaitGroup
	work := func(n int) error {
		s, err := Open(store, options)
		if err != nil {
			return err
		}
		w, err := s.Workspace(ws)
		if err != nil {
			return err
		}
		for i := range 15 {
			r, err := w.Begin(Call{Session: fmt.Sprint(n), Tool: "shell", Started: time.Now()}, all)
			if err != nil {
				return err
			}
			file := fmt.Sprintf("%s/%d/file", ws, n)
			if err := errors.Join(os.WriteFile(file, fmt.Appendf(nil, "%d of %d", i, n), 0o644), os.WriteFile(file+fmt.Sprint(i), nil, 0o600)); err != nil {
				return err
			}
			rec, err := r.End()
			if err != nil {
				return err
			}
			if i%3 != 0 {
				continue
			}
			u, err := w.Plan([]Record{rec}, []string{fmt.Sprint(n)})
			if err == nil {
				_, err = w.Apply(u, Call{Tool: "undo"}, false, here(w))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	for n := range 4 { // two processes would be no more apart: a store shares nothing but its files
		both.Go(func() {
			if err := work(n); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	w := open(t, store, ws, options)
	calls, err := w.Calls()
	if err != nil {
		t.Fatal(err)
	}
	u, err := w.Plan(calls, nil)
	if err == nil {
		_, err = w.Apply(u, Call{Tool: "undo"}, true, here(w))
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, describe(ws)); diff != "" {
		t.Error(diff)
	}
}

// TestAttributes: extended attributes of files come back, with content and alone; a draft has
// them as well, without those of the overlay.
func TestAttributes(t *testing.T) {
	ws := t.TempDir()
	sh(t, ws, "echo one > a; echo two > b; echo three > c")
	set := func(file, name, value string) {
		t.Helper()
		if err := unix.Setxattr(file, name, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	get := func(file, name string) string {
		b := make([]byte, 100)
		n, _ := unix.Getxattr(file, name, b)
		return string(b[:max(n, 0)])
	}
	set(ws+"/a", "user.mine", "1")
	set(ws+"/b", "user.mine", "2\x00\xff")
	w := open(t, t.TempDir()+"/s", ws, options)
	rec := during(t, w, "s", func() {
		sh(t, ws, "rm a")
		set(ws+"/b", "user.mine", "other")
		set(ws+"/c", "user.new", "x")
	})
	if len(rec.Changes) != 3 {
		t.Fatalf("%+v", rec.Changes)
	}
	again := undo(t, w, rec, false)
	for file, want := range map[string]string{"a": "1", "b": "2\x00\xff", "c": ""} {
		if got := get(ws+"/"+file, "user.mine") + get(ws+"/"+file, "user.new"); got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	undo(t, w, again, false)
	if got := get(ws+"/b", "user.mine") + get(ws+"/c", "user.new"); got != "otherx" {
		t.Errorf("undone again: %q", got)
	}

	dir := t.TempDir()
	d, err := NewDraft(dir, []string{ws}, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := d.part(0, "upper") + "/drafted"
	sh(t, dir, "echo drafted > "+file)
	set(file, "user.mine", "3")
	set(file, "user.overlay.uuid", "x")
	p, err := d.Plan(0, options, nil)
	if err == nil {
		err = d.Keep([]DraftPlan{p}, Keep{}, false, PutBack)
	}
	if err != nil || get(ws+"/drafted", "user.mine") != "3" {
		t.Errorf("kept: %q, %v", get(ws+"/drafted", "user.mine"), err)
	}
	if names, _ := unix.Listxattr(ws+"/drafted", make([]byte, 100)); names != len("user.mine\x00") {
		t.Errorf("%d bytes of names", names)
	}
}

// TestAccessLists: where a file has an access control list, the mode's bits of its group are the list's mask. Neither
// an undo nor a keep lets the group do more than it could, with the list or where nobody can give it back.
func TestAccessLists(t *testing.T) {
	t.Parallel()
	// user::rw- user:1234:r-- group::--- mask::r-- other::---, of a file; user::rwx and so on of a directory
	list := func(user, mask byte) string {
		e := func(tag, perm byte, id string) string { return string([]byte{tag, 0, perm, 0}) + id }
		const none = "\xff\xff\xff\xff"
		return "\x02\x00\x00\x00" + e(1, user, none) + e(2, mask, "\xd2\x04\x00\x00") + e(4, 0, none) + e(0x10, mask, none) + e(0x20, 0, none)
	}
	ws := t.TempDir()
	sh(t, ws, "umask 077; echo secret > f; mkdir d; echo x > d/f; echo plain > plain; chmod 640 plain")
	for name, l := range map[string]string{"/f": list(6, 4), "/d": list(7, 5)} {
		if err := unix.Setxattr(ws+name, accessList, []byte(l), 0); err != nil {
			t.Fatal(err)
		}
	}
	before := func(what string) {
		t.Helper()
		for name, want := range map[string]string{"/f": list(6, 4), "/d": list(7, 5)} {
			b := make([]byte, 100)
			if n, err := unix.Getxattr(ws+name, accessList, b); err != nil || string(b[:n]) != want {
				t.Errorf("%s: %s: %q, %v", what, name, b[:max(n, 0)], err)
			}
		}
		sh(t, ws, `test "$(stat -c %a f d plain | tr '\n' ' ')" = "640 750 640 "`)
	}
	w := open(t, t.TempDir()+"/s", ws, options)
	rec := during(t, w, "s", func() { sh(t, ws, "rm -r f d plain") })
	undo(t, w, rec, false)
	before("an undo")
	if e, plain := entries(w)["f"], entries(w)["plain"]; withoutList(e.Mode, e.Attributes)&0o777 != 0o600 || withoutList(plain.Mode, "")&0o777 != 0o640 {
		t.Errorf("without the list: %o", withoutList(e.Mode, e.Attributes))
	}

	time.Sleep(2 * clockTick)
	d, err := NewDraft(t.TempDir(), []string{ws}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, d.part(0, "upper"), "echo more > f; chmod 640 f; mkdir d; chmod 750 d; echo new > d/new") // which has no lists
	p, err := d.Plan(0, options, nil)
	if err == nil {
		err = d.Keep([]DraftPlan{p}, Keep{}, false, PutBack)
	}
	if err != nil || signs(p.Steps) != "+d/new ~f" {
		t.Fatal(signs(p.Steps), err)
	}
	before("a keep")
}

// TestALargeFile: of a file of 10 GiB nothing is read, and its change is told as one that
// cannot be undone; the rest of the call can.
func TestALargeFile(t *testing.T) {
	ws := t.TempDir()
	sh(t, ws, ground+"; truncate -s 10G large")
	w := open(t, t.TempDir()+"/s", ws, options)
	rec := during(t, w, "s", func() { sh(t, ws, "printf x | dd of=large conv=notrunc status=none; echo call > a/one") })
	u, err := w.Plan([]Record{rec}, nil)
	if err != nil || len(u.Steps) != 2 || u.Steps[0].Final || !strings.Contains(u.Steps[1].Conflict, "larger than 1 MiB") || !u.Steps[1].Final {
		t.Fatalf("%+v, %v", u.Steps, err)
	}
	if n := w.objects.total(); n > 1<<10 {
		t.Errorf("%d bytes are kept", n)
	}
	undo(t, w, rec, false, "a")
	if b, _ := os.ReadFile(ws + "/a/one"); string(b) != "one\n" {
		t.Errorf("%q", b)
	}
}

// TestKeepsAreKilled: a keep that is killed at any moment leaves each file as it was or as the
// draft has it; the draft is whole, and the next keep ends what it began.
func TestKeepsAreKilled(t *testing.T) {
	if dir := os.Getenv("CHANGES_KEEP"); dir != "" {
		if err := keepAll(dir); err != nil {
			t.Fatal(err)
		}
		return
	}
	moments := *kills / 4
	none, part, whole := 0, 0, 0
	for i := range moments {
		dir := t.TempDir()
		sh(t, dir, "mkdir -p ws/d drafts; seq 40 | split -l 1 - ws/d/; sed -i s/.*/old/ ws/d/*; cp ws/d/aa ws/gone")
		time.Sleep(2 * clockTick) // what was written within one tick may have been changed since
		d, err := NewDraft(dir+"/drafts", []string{dir + "/ws"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sh(t, d.part(0, "upper"), "cp -r ../../../../ws/d .; sed -i s/old/new/ d/*; cp -r d n; mknod gone c 0 0")
		cmd := exec.Command(os.Args[0], "-test.run=^TestKeepsAreKilled$")
		cmd.Env = append(os.Environ(), "CHANGES_KEEP="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(8*time.Millisecond + 52*time.Millisecond*time.Duration(i)/time.Duration(moments)) // where it is by then: anywhere
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		files, _ := filepath.Glob(dir + "/ws/*/*")
		for _, f := range files {
			if strings.Contains(f, unfinished) {
				continue // the next keep takes it away
			}
			if b, _ := os.ReadFile(f); string(b) != "old\n" && string(b) != "new\n" {
				t.Errorf("killed at %d: %s holds %q", i, f, b)
			}
		}
		switch old, _ := exec.Command("grep", "-rlx", "old", dir+"/ws").Output(); strings.Count(string(old), "\n") {
		case 41:
			none++
		case 0:
			whole++
		default:
			part++
		}
		if err := settleAll(dir); err != nil {
			t.Fatalf("killed at %d: %v", i, err)
		}
		switch old, _ := exec.Command("grep", "-rlx", "old", dir+"/ws").Output(); strings.Count(string(old), "\n") {
		case 0, 41:
		default:
			t.Errorf("killed at %d: half of it, once that was settled", i)
		}
		if err := keepAll(dir); err != nil {
			t.Fatalf("killed at %d: %v", i, err)
		}
		sh(t, dir, "rm -f drafts/*/0/upper/gone; diff -r ws drafts/*/0/upper")
	}
	t.Logf("%d had changed nothing, %d a part, %d all", none, part, whole)
}

func keepAll(dir string) error {
	for _, d := range Drafts(dir + "/drafts") {
		p, err := d.Plan(0, options, nil)
		if err == nil {
			err = d.Keep([]DraftPlan{p}, Keep{}, false, PutBack)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settleAll is what the next start does.
func settleAll(dir string) error {
	for _, d := range Drafts(dir + "/drafts") {
		k, err := d.UnderWay()
		if k == nil {
			if err != nil {
				return err
			}
			continue
		}
		if left, err := d.Settle(k, PutBack); err != nil || len(left) > 0 {
			return fmt.Errorf("%v, %w", left, err)
		}
	}
	return nil
}

// TestAKeepThatFails: where one of two workspaces cannot have all of a draft, neither has any of
// it, or not for longer than until the next start; what somebody changed meanwhile stays.
func TestAKeepThatFails(t *testing.T) {
	dir := t.TempDir()
	sh(t, dir, "mkdir a b drafts; cd b; "+ground+"; echo old > type; echo old > late")
	time.Sleep(2 * clockTick)
	d, err := NewDraft(dir+"/drafts", []string{dir + "/a", dir + "/b"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, d.part(0, "upper"), "mkdir made; echo new > made/file; chmod 500 made")
	sh(t, d.part(1, "upper"), "echo new > first; echo new > late; mkdir type; echo new > type/file; mknod a c 0 0")
	before := describe(dir+"/a") + describe(dir+"/b")
	keep := func(perform Perform) error {
		t.Helper()
		var plans []DraftPlan
		for i := range d.Roots {
			p, err := d.Plan(i, options, nil)
			if err != nil {
				t.Fatal(err)
			}
			plans = append(plans, p)
		}
		return d.Keep(plans, Keep{}, false, perform)
	}
	broken := errors.New("broken")
	// It ends before the second content of the second workspace, and stays broken for some time.
	failing := func(times int) Perform {
		return func(root string, order io.Reader) error {
			if root == dir+"/b" && times > 0 {
				times--
				b, err := io.ReadAll(order)
				return errors.Join(broken, err, PutBack(root, bytes.NewReader(b[:bytes.LastIndexByte(b[:len(b)-1], 'n')])))
			}
			return PutBack(root, order)
		}
	}
	if err := keep(failing(1)); !errors.Is(err, broken) || !strings.Contains(err.Error(), "nothing was kept") {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(before, describe(dir+"/a")+describe(dir+"/b")); diff != "" {
		t.Errorf("half of it: %s", diff)
	}
	if k, err := d.UnderWay(); k != nil || err != nil {
		t.Errorf("%+v, %v", k, err)
	}
	if err := keep(failing(2)); !errors.Is(err, broken) || strings.Contains(err.Error(), "nothing was kept") {
		t.Errorf("%v", err)
	}
	sh(t, dir, "echo later > b/late")
	if k, err := d.UnderWay(); k == nil || !k.Back {
		t.Errorf("%+v, %v", k, err)
	} else if left, err := d.Settle(k, PutBack); err != nil || len(left) != 1 || left[0].Path != "late" {
		t.Errorf("%+v, %v", left, err)
	}
	sh(t, dir, "grep -q later b/late; echo old > b/late")
	if diff := cmp.Diff(before, describe(dir+"/a")+describe(dir+"/b")); diff != "" {
		t.Errorf("once it was settled: %s", diff)
	}
}

// TestATreeThatIsTooLarge: one process has looked until it was too long, the others are told so
// at once, for a time; what was kept by then can be undone meanwhile.
func TestATreeThatIsTooLarge(t *testing.T) {
	ws, store := t.TempDir(), t.TempDir()+"/s"
	sh(t, ws, ground)
	before := describe(ws)
	w := open(t, store, ws, options)
	rec := during(t, w, "s", func() { sh(t, ws, "echo call > a/one") })
	w = open(t, store, ws, options)
	w.patience = 1
	if _, err := w.Begin(Call{Started: time.Now()}, all); !errors.Is(err, errBound) {
		t.Errorf("%v", err)
	}
	w = open(t, store, ws, options)
	if _, err := w.Begin(Call{Started: time.Now()}, all); !errors.Is(err, errBound) || !strings.Contains(err.Error(), "another look") {
		t.Errorf("another process: %v", err)
	}
	undo(t, w, rec, false)
	if diff := cmp.Diff(before, describe(ws)); diff != "" {
		t.Error(diff)
	}
	during(t, open(t, store, ws, options), "s", func() {}) // the undo may have made room
}

// rested is the workspace once the time after a look that was too long has gone by.
func rested(t *testing.T, w *Workspace) {
	t.Helper()
	w.until = time.Time{}
	if err := os.Chtimes(w.tooMuchFile(), time.Time{}, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// TestALookThatWasTooLongGoesOn: what the first look has found by its bound is kept, so that the next one has
// less to do; and it is no call's change, whoever finds the rest.
func TestALookThatWasTooLongGoesOn(t *testing.T) {
	ws, store := t.TempDir(), t.TempDir()+"/s"
	sh(t, ws, "mkdir -p d/e/f/g/h")
	w := open(t, store, ws, options)
	w.patience = 1
	if _, err := w.Begin(Call{Started: time.Now()}, all); !errors.Is(err, errLate) || strings.Count(err.Error(), "not done") != 1 {
		t.Fatalf("%v", err)
	}
	sh(t, ws, ground)
	if kept, err := readTree(w.begunFile()); err != nil || len(kept) == 0 {
		t.Errorf("nothing is kept of it: %v", err)
	}
	rested(t, w)
	w = open(t, store, ws, options)
	before := describe(ws)
	rec := during(t, w, "s", func() { sh(t, ws, "echo call > a/one") })
	if len(rec.Changes) != 1 {
		t.Errorf("the call has changed %v", rec.Changes)
	}
	undo(t, w, rec, false)
	if diff := cmp.Diff(before, describe(ws)); diff != "" {
		t.Error(diff)
	}
}

// TestATreeThatIsLost: what stood there before anybody had looked is nobody's, also for a call that was killed: an
// undo of that would take it away.
func TestATreeThatIsLost(t *testing.T) {
	ws, store := t.TempDir(), t.TempDir()+"/s"
	sh(t, ws, ground)
	w := open(t, store, ws, options)
	r, err := w.Begin(Call{Session: "s", Started: time.Now()}, all)
	if err != nil {
		t.Fatal(err)
	}
	r.beat.Stop()
	r.file.Close() // as a kill does
	if err := os.Remove(w.treeFile()); err != nil {
		t.Fatal(err)
	}
	w = open(t, store, ws, options)
	during(t, w, "s", func() { sh(t, ws, "echo call > a/one") })
	records, err := w.Calls()
	if err != nil || len(records) != 1 || len(records[0].Changes) != 1 {
		t.Errorf("%v %+v", err, records)
	}
}

// TestALargeFileChangesUnseen: a call that gives a file its old size and times back has changed it.
func TestALargeFileChangesUnseen(t *testing.T) {
	ws := t.TempDir()
	sh(t, ws, ground+"; head -c 3000000 /dev/zero > large; touch -d 2020-01-01 large")
	w := open(t, t.TempDir()+"/s", ws, options)
	rec := during(t, w, "s", func() {
		sh(t, ws, "printf x | dd of=large conv=notrunc status=none; touch -d 2020-01-01 large")
	})
	if len(rec.Changes) != 1 || rec.Changes[0].Path != "large" {
		t.Errorf("%+v", rec.Changes)
	}
}

// TestLargeFilesGetTheirNamesBack: what is kept of a renamed file is its name, however large it is: an undo gives that back,
// and an undo of the undo. One that has changed meanwhile, or whose old name is taken, stays what it is; one that nothing
// else has the content of is not removed, nor one that somebody has put there since.
func TestLargeFilesGetTheirNamesBack(t *testing.T) {
	ws := t.TempDir()
	sh(t, ws, "mkdir d; for f in one d/two d/three; do { echo $f; head -c 2000000 /dev/zero; } > $f; done; echo small > d/s")
	w := open(t, t.TempDir()+"/s", ws, options)
	before := describe(ws)
	rec := during(t, w, "s", func() { sh(t, ws, "mv one uno; mv d e; mkdir deep; mv e/three deep; chmod 700 deep") })
	after := describe(ws)
	u, err := w.Plan([]Record{rec}, []string{"uno"})
	if err != nil || len(u.Blocking(true)) != 1 || !strings.Contains(u.Steps[0].Conflict, "it was one") {
		t.Errorf("its new name alone: %+v, %v", u, err)
	}
	back := undo(t, w, rec, false)
	if diff := cmp.Diff(before, describe(ws)); diff != "" {
		t.Errorf("undone: %s", diff)
	}
	undo(t, w, back, false)
	if diff := cmp.Diff(after, describe(ws)); diff != "" {
		t.Errorf("undone, undone: %s", diff)
	}

	for what, meanwhile := range map[string]string{
		"changed":      "echo more >> uno",
		"another file": "cp -p uno dos; mv dos uno",
		"taken":        "cp e/s one",
		"in its place": "head -c 3000000 /dev/zero > s",
	} {
		ws := t.TempDir()
		sh(t, ws, "head -c 2000000 /dev/zero > one; echo s > s; mkdir e; cp s e/s")
		w := open(t, t.TempDir()+"/s", ws, options)
		rec := during(t, w, "s", func() { sh(t, ws, "mv one uno; rm s") })
		sh(t, ws, meanwhile)
		left := describe(ws)
		u, err := w.Plan([]Record{rec}, nil)
		if err != nil || len(u.Blocking(true)) == 0 {
			t.Errorf("%s: %+v, %v", what, u, err)
		}
		if _, err := w.Apply(u, Call{Tool: "undo"}, true, here(w)); !errors.Is(err, ErrConflict) || describe(ws) != left {
			t.Errorf("%s: %v: %s", what, err, cmp.Diff(left, describe(ws)))
		}
	}
}

// TestNamesLikeAnUndosOwn: what a call or a person gives such a name is kept like any other
// file; what a killed undo has left goes.
func TestNamesLikeAnUndosOwn(t *testing.T) {
	ws := t.TempDir()
	shaped, persons := unfinished+strings.Repeat("A", 26), unfinished+strings.Repeat("B", 26)
	sh(t, ws, ground+"; echo mine > "+unfinished+"notes")
	w := open(t, t.TempDir()+"/s", ws, options)
	rec := during(t, w, "s", func() { sh(t, ws, "echo x > new; echo evil > "+unfinished+"payload; echo evil > "+shaped) })
	if len(rec.Changes) != 3 {
		t.Errorf("%+v", rec.Changes)
	}
	sh(t, ws, "echo mine > "+persons)
	r, err := w.begin(Call{Tool: "undo", Started: time.Now()}, all, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	left := unfinished + r.writer.letters + strings.Repeat("C", 26-writingLetters)
	sh(t, ws, "echo half > "+left)
	r.beat.Stop()
	if err := errors.Join(r.file.Close(), r.writer.file.Close()); err != nil { // as a kill does
		t.Fatal(err)
	}
	// Somebody has seen the letters, and renames a person's file to them afterwards.
	seen := unfinished + r.writer.letters + strings.Repeat("D", 26-writingLetters)
	long := time.Now().Add(-time.Minute)
	if err := errors.Join(os.Chtimes(r.writer.file.Name(), long, long), os.Rename(ws+"/"+left, ws+"/"+seen)); err != nil {
		t.Fatal(err)
	}
	undo(t, w, during(t, w, "s", func() { sh(t, ws, "echo call > other") }), false)
	if _, err := os.Lstat(ws + "/" + seen); err != nil {
		t.Errorf("what was renamed to a killed undo's letters: %v", err)
	}
	now := time.Now()
	if err := errors.Join(os.Chtimes(r.writer.file.Name(), now, now), os.Rename(ws+"/"+seen, ws+"/"+left)); err != nil {
		t.Fatal(err)
	}
	undo(t, w, rec, false)
	for name, want := range map[string]bool{unfinished + "notes": true, unfinished + "payload": false, shaped: false, persons: true, left: false, "new": false} {
		if _, err := os.Lstat(ws + "/" + name); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", name, err, want)
		}
	}
}

// TestAKeepTakesNothingForGood: a keep removes and replaces no file whose content is kept nowhere: one that failed or was
// interrupted could not take that back. The rest can be kept, and all of it once a person has removed the file.
func TestAKeepTakesNothingForGood(t *testing.T) {
	dir := t.TempDir()
	sh(t, dir, "mkdir a b drafts; head -c 2000000 /dev/zero > a/large; cp a/large a/replaced; echo old > a/small; echo old > b/file")
	time.Sleep(2 * clockTick)
	d, err := NewDraft(dir+"/drafts", []string{dir + "/a", dir + "/b"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sh(t, d.part(0, "upper"), "mknod large c 0 0; mknod small c 0 0; echo new > replaced")
	sh(t, d.part(1, "upper"), "echo new > file")
	before := describe(dir+"/a") + describe(dir+"/b")
	keep := func(perform Perform, paths ...string) error {
		t.Helper()
		var plans []DraftPlan
		for i := range d.Roots {
			p, err := d.Plan(i, options, paths)
			if err != nil {
				t.Fatal(err)
			}
			plans = append(plans, p)
		}
		return d.Keep(plans, Keep{}, true, perform)
	}
	broken := errors.New("broken")
	if err := keep(func(root string, order io.Reader) error {
		if root == dir+"/b" {
			return broken
		}
		return PutBack(root, order)
	}); !errors.Is(err, ErrConflict) {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff(before, describe(dir+"/a")+describe(dir+"/b")); diff != "" {
		t.Errorf("gone: %s", diff)
	}
	if err := keep(PutBack, "small"); err != nil || describe(dir+"/a") == before {
		t.Errorf("the rest: %v", err)
	}
	sh(t, dir, "rm a/large a/replaced; test ! -e a/small")
	if err := keep(PutBack, "large", "file"); err != nil {
		t.Errorf("what a person has removed: %v", err)
	}
	sh(t, dir, "grep -x new b/file")
}

// TestARootThatWasSwapped: a draft is kept in the directory that it was made over, and not
// where a link that a call left on the way to it leads; nor is an undo.
func TestARootThatWasSwapped(t *testing.T) {
	for _, swap := range []string{
		"mv p/sub p/old; ln -s ../other p/sub",
		"mv p/sub/ws p/sub/old; ln -s ../../other/ws p/sub/ws",
		"mv p/sub p/old; mkdir p/sub; mv other/ws p/sub/ws",
	} {
		dir := t.TempDir()
		sh(t, dir, "mkdir -p drafts p/sub/ws other/ws; echo own > other/ws/own")
		root := dir + "/p/sub/ws"
		w := open(t, dir+"/s", root, options)
		rec := during(t, w, "s", func() { sh(t, root, "echo x > made") })
		d, err := NewDraft(dir+"/drafts", []string{root}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sh(t, d.part(0, "upper"), "echo payload > f")
		p, err := d.Plan(0, options, nil)
		if err != nil {
			t.Fatal(err)
		}
		u, err := w.Plan([]Record{rec}, nil)
		if err != nil {
			t.Fatal(err)
		}
		sh(t, dir, swap)
		if err := d.Keep([]DraftPlan{p}, Keep{}, true, PutBack); err == nil {
			t.Errorf("%s: it was kept", swap)
		}
		if _, err := d.Plan(0, options, nil); err == nil {
			t.Errorf("%s: it was planned", swap)
		}
		if _, err := w.Apply(u, Call{}, true, func(order io.Reader) error { return PutBack(root, order) }); err == nil && !strings.Contains(swap, "mkdir") {
			t.Errorf("%s: it was undone", swap)
		}
		sh(t, dir, "find . -name own | grep -q . && ! find other p/sub/ -name f | grep .")
		back := "rm -f p/sub; mv p/old p/sub"
		switch {
		case strings.Contains(swap, "p/sub/old"):
			back = "rm p/sub/ws; mv p/sub/old p/sub/ws"
		case strings.Contains(swap, "mkdir"):
			back = "mv p/sub/ws other/ws; rmdir p/sub; mv p/old p/sub"
		}
		sh(t, dir, back)
		if err := d.Keep([]DraftPlan{p}, Keep{}, true, PutBack); err != nil {
			t.Errorf("%s: put right: %v", swap, err)
		}
		sh(t, dir, "test -f p/sub/ws/f")
	}
}

// TestContentsLostWithThePower: what was not yet on the disk when the power went has its name there, and not a byte in it.
// After the next start it is kept again, and before that no undo ends in the middle for it.
func TestContentsLostWithThePower(t *testing.T) {
	ws, dir := t.TempDir(), t.TempDir()+"/s"
	sh(t, ws, ground+"; head -c 200000 /dev/urandom > large")
	during(t, open(t, dir, ws, options), "s", func() {})
	empty := func() {
		sh(t, dir, `find . -path '*/objects/*' -type f ! -name '*.idx' -exec truncate -s 0 {} +`)
	}
	empty()
	w := open(t, dir, ws, options)
	gone := during(t, w, "s", func() { sh(t, ws, "rm large a/one; echo made > made") })
	after := describe(ws)
	u, err := w.Plan([]Record{gone}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Apply(u, Call{Tool: "undo"}, true, here(w)); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "damaged") && !strings.Contains(err.Error(), "not kept") {
		t.Errorf("an undo of what is lost: %v", err)
	}
	if diff := cmp.Diff(after, describe(ws)); diff != "" {
		t.Errorf("half an undo: %s", diff)
	}

	ws, dir = t.TempDir(), t.TempDir()+"/s"
	sh(t, ws, ground+"; head -c 200000 /dev/urandom > large")
	before := describe(ws)
	during(t, open(t, dir, ws, options), "s", func() {})
	empty()
	sh(t, dir, "for b in */boot; do echo another > $b; done")
	w = open(t, dir, ws, options)
	if none := during(t, w, "s", func() {}); len(none.Changes) > 0 {
		t.Errorf("a call that did nothing: %+v", none.Changes)
	}
	undo(t, w, during(t, w, "s", func() { sh(t, ws, "rm large a/one; echo made > made") }), false)
	if diff := cmp.Diff(before, describe(ws)); diff != "" {
		t.Errorf("after a start: %s", diff)
	}
}

// TestAnUndoThatFailsIsNotWhole: the call can be undone again, and the log says why.
func TestAnUndoThatFailsIsNotWhole(t *testing.T) {
	ws := t.TempDir()
	sh(t, ws, ground)
	w := open(t, t.TempDir()+"/s", ws, options)
	before := describe(ws)
	gone := during(t, w, "s", func() { sh(t, ws, "rm a/one exact") })
	u, err := w.Plan([]Record{gone}, nil)
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("the disk has failed")
	half, err := w.Apply(u, Call{Tool: "undo"}, false, func(order io.Reader) error {
		if err := PutBack(ws, order); err != nil {
			return err
		}
		return errors.Join(failed, os.Remove(ws+"/exact"))
	})
	if !errors.Is(err, failed) || !half.Unfinished || len(half.Undoes) > 0 {
		t.Errorf("half an undo: %v, %+v", err, half)
	}
	if rest := undo(t, w, gone, false); rest.Unfinished || !slices.Equal(rest.Undoes, []string{gone.ID}) {
		t.Errorf("the rest: %+v", rest)
	}
	if diff := cmp.Diff(before, describe(ws)); diff != "" {
		t.Error(diff)
	}
}

// TestNoCallIsBeyondUndo: whatever a call links or closes, all of it comes back at once. Our own change of one name of a file is
// nobody else's of the other, and a directory that is closed to its owner is opened for as long as it takes.
func TestNoCallIsBeyondUndo(t *testing.T) {
	if os.Getuid() == 0 {
		if os.Getenv("CHANGES_UNPRIVILEGED") == "" {
			cmd := exec.Command(os.Args[0], "-test.run=^TestNoCallIsBeyondUndo$", "-test.v")
			home, err := os.MkdirTemp("/tmp", "changes-")
			if err == nil {
				err = os.Chown(home, 34567, 34567)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(home)
			program := filepath.Join(home, "test")
			sh(t, home, "cp "+os.Args[0]+" test; chmod 755 test")
			cmd.Path = program
			cmd.Env = append(os.Environ(), "CHANGES_UNPRIVILEGED=1", "TMPDIR="+home, "HOME="+home)
			cmd.Dir = home
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 34567, Gid: 34567}}
			if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: TestNoCallIsBeyondUndo/")) {
				t.Fatalf("%v\n%s", err, out)
			}
			return
		}
	}
	for _, row := range []struct{ name, ground, script string }{
		{"both names changed", "ln a b", "echo v1 > a"},
		{"a name is made", "true", "ln a link; echo v1 > a; rm z"},
		{"names that cannot be read", "true", "ln a link; echo v1 > a; chmod 0 a; rm z"},
		{"two are made", "true", "echo x > x; ln x y; rm z"},
		{"one goes", "ln a b", "rm a; echo v1 > b; rm z"},
		{"both go", "ln a b", "rm a b z"},
		{"one becomes another file", "ln a b", "rm b; echo other > b; echo v1 > a"},
		{"closed by the call", "mkdir d; echo p > d/p", "echo x > d/new; rm z; chmod 500 d"},
		{"closed to reading", "mkdir d; echo p > d/p", "rm z; chmod 0 d"},
		{"closed before", "mkdir ro; echo p > ro/p; chmod 555 ro", "echo v1 > ro/p; rm z"},
		{"closed within one another", "true", "mkdir -p m/n; echo x > m/n/f; chmod -R a-w m; rm z"},
		{"a closed directory for a file", "true", "rm z; mkdir -p z/in; echo x > z/in/f; chmod 500 z/in z"},
		{"the workspace itself", "true", "rm z; echo x > new; chmod 500 ."},
	} {
		t.Run(row.name, func(t *testing.T) {
			ws := t.TempDir()
			t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwx", ws).Run() })
			sh(t, ws, "echo v0 > a; echo v0 > z; "+row.ground)
			w := open(t, t.TempDir()+"/s", ws, options)
			sh(t, ws, "true")
			before := described(t, ws)
			rec := during(t, w, "s", func() { sh(t, ws, row.script) })
			out := undo(t, w, rec, false)
			if out.Unfinished || !slices.Equal(out.Undoes, []string{rec.ID}) {
				t.Errorf("%+v", out)
			}
			if row.name == "the workspace itself" {
				sh(t, ws, "chmod 700 .")
			}
			if diff := cmp.Diff(before, described(t, ws)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// described is what each name is, with its mode and content.
func described(t *testing.T, ws string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", "cd "+ws+"; find . -mindepth 1 -printf '%p %y %m\\n' | sort; find . -type f | sort | xargs cat").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestWhatComesBackComesFirst: an undo that fails has removed nothing that it could leave.
func TestWhatComesBackComesFirst(t *testing.T) {
	ws := t.TempDir()
	sh(t, ws, "mkdir refs; echo one > refs/head; chmod 700 .")
	w := open(t, t.TempDir()+"/s", ws, options)
	rec := during(t, w, "s", func() { sh(t, ws, "mkdir objects; echo object > objects/o; echo two > refs/head; echo x > zlast") })
	u, err := w.Plan([]Record{rec}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Apply(u, Call{Tool: "undo"}, false, func(order io.Reader) error {
		sh(t, ws, "echo three > refs/head") // somebody else does, just now
		return PutBack(ws, order)
	})
	if !errors.Is(err, ErrConflict) {
		t.Errorf("%v", err)
	}
	sh(t, ws, "test $(cat objects/o) = object; test -e zlast")
}

// TestLargeFilesThatWereOnlyTouchedSince: a second call, or a second look, does not make a call's rename of a large
// file something that the call has made.
func TestLargeFilesThatWereOnlyTouchedSince(t *testing.T) {
	for _, calls := range []int{1, 2} {
		ws := t.TempDir()
		sh(t, ws, "head -c 2000000 /dev/zero > one; echo s > s")
		w := open(t, t.TempDir()+"/s", ws, options)
		begin := func() *Running {
			r, err := w.Begin(Call{Session: "s", Tool: "shell", Started: time.Now()}, all)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		end := func(r *Running) Record {
			rec, err := r.End()
			if err != nil {
				t.Fatal(err)
			}
			return rec
		}
		r := begin()
		sh(t, ws, "mv one uno; echo t > s; echo new > n")
		var records []Record
		if calls == 2 {
			records = append(records, end(r))
			r = begin()
		} else {
			during(t, w, "t", func() {}) // somebody looks meanwhile
		}
		sh(t, ws, "chmod 600 uno; touch uno; echo u > s")
		records = append(records, end(r))
		u, err := w.Plan(records, []string{"s", "uno"})
		if err != nil || len(u.Blocking(true)) != 1 || !strings.Contains(u.Blocking(true)[0].Conflict, "it was one") {
			t.Errorf("%d calls: %+v, %v", calls, u, err)
		}
		if _, err := w.Apply(u, Call{Tool: "undo"}, true, here(w)); !errors.Is(err, ErrConflict) {
			t.Errorf("%d calls: %v", calls, err)
		}
		if u, err = w.Plan(records, []string{"s", "n"}); err != nil || len(u.Blocking(false)) != 0 || len(u.Steps) != 2 {
			t.Errorf("%d calls, what can be put back: %+v, %v", calls, u, err)
		}
		if st, err := os.Stat(ws + "/uno"); err != nil || st.Size() != 2000000 {
			t.Errorf("%d calls: the file: %v", calls, err)
		}
	}
}

// TestOnlyDirectoriesAreLeftOut: a file or a link that is called like a directory which is made again is kept like
// any other.
func TestOnlyDirectoriesAreLeftOut(t *testing.T) {
	for _, script := range []string{
		"rm node_modules d/node_modules",
		"echo other > node_modules; ln -sfn nowhere d/node_modules",
		"rm -r d",
		"echo made > e/node_modules",
		"mv node_modules d/other",
	} {
		ws := t.TempDir()
		sh(t, ws, "mkdir d e; echo mine > node_modules; ln -s e d/node_modules; mkdir -p f/node_modules; echo x > f/node_modules/x")
		w := open(t, t.TempDir()+"/s", ws, options)
		before := describe(ws)
		rec := during(t, w, "s", func() { sh(t, ws, script) })
		undo(t, w, rec, false)
		if diff := cmp.Diff(before, describe(ws)); diff != "" {
			t.Errorf("%s: %s", script, diff)
		}
	}
	ws := t.TempDir()
	sh(t, ws, "mkdir node_modules; echo x > node_modules/x; echo mine > a; mkdir b; echo mine > b/node_modules")
	w := open(t, t.TempDir()+"/s", ws, options)
	rec := during(t, w, "s", func() {
		sh(t, ws, "echo y > node_modules/x; echo b > a; rm b/node_modules; mkdir b/node_modules; echo z > b/node_modules/z")
	})
	if len(rec.Changes) != 2 || rec.Changes[0].Path != "a" || rec.Changes[1].Path != "b/node_modules" || rec.Changes[1].After != nil {
		t.Errorf("directories: %+v", rec.Changes)
	}
	if rec := during(t, w, "s", func() { sh(t, ws, "echo w > b/node_modules/z; echo c > a") }); len(rec.Changes) != 1 {
		t.Errorf("afterwards: %+v", rec.Changes)
	}
}

// TestALookWithoutDescriptors: a directory or a file that a look could not open for want of descriptors is not passed
// over: what is in it would be lost, and the next look would take it for a call's work.
func TestALookWithoutDescriptors(t *testing.T) {
	const alone = "SANDGATE_TEST_ALONE"
	if os.Getenv(alone) == "" { // a process of its own: what other tests left open is closed at any time, and makes room
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestALookWithoutDescriptors$", "-test.v")
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestALookWithoutDescriptors") {
			t.Fatalf("%v:\n%s", err, out)
		}
		return
	}
	ws := t.TempDir()
	deep := strings.Repeat("d/", 40)
	sh(t, ws, "mkdir -p "+deep+"; echo mine > "+deep+"f")
	w := open(t, t.TempDir()+"/s", ws, options)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]bool{}
	for _, entry := range open {
		taken[entry.Name()] = true
	}
	for _, room := range []int{20, 30, 38} {
		few := unix.Rlimit{Max: was.Max} // it bounds numbers, getrlimit(2): a descriptor with a high one takes nothing of the room
		for left := room; left > 0; few.Cur++ {
			if !taken[strconv.FormatUint(few.Cur, 10)] {
				left--
			}
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		r, err := w.Begin(Call{Tool: "shell", Started: time.Now()}, all)
		if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); e != nil {
			t.Fatal(e)
		}
		if !errors.Is(err, unix.EMFILE) {
			t.Errorf("room for %d: %v", room, err)
		}
		if r != nil {
			_, _ = r.End()
		}
	}
	before := describe(ws)
	rec := during(t, w, "s", func() { sh(t, ws, "rm "+deep+"f") })
	if len(rec.Changes) != 1 {
		t.Errorf("with enough of them: %+v", rec.Changes)
	}
	undo(t, w, rec, false)
	if diff := cmp.Diff(before, describe(ws)); diff != "" {
		t.Errorf("undone: %s", diff)
	}
}

// TestAnUndoLeavesOutWhatNothingRestores: a pipe, or a file that is too large, among what a call removed or put in the
// way does not keep an undo from bringing the rest back. Without such names nothing is left out.
func TestAnUndoLeavesOutWhatNothingRestores(t *testing.T) {
	large := "head -c 3000000 /dev/zero > "
	for what, row := range map[string]struct{ first, call, left, restored string }{
		"a pipe is gone":                  {"mkfifo a/p", "rm -r a exact", "a/p", "mkfifo a/p"},
		"a large file is gone":            {large + "a/large", "rm -r a exact", "a/large", large + "a/large"},
		"a large file was written":        {large + "a/large", "rm exact; echo x >> a/large", "a/large", "rm a/large; " + large + "a/large"},
		"a large file for a directory":    {"", "rm -r a exact; " + large + "a; echo more >> a", "a a/b a/b/two a/one", "rm a; mkdir -p a/b; echo one > a/one; echo two > a/b/two; chmod 755 a/b/two"},
		"it lies in what replaced a file": {large + "a/large", "rm exact; mkdir exact; mv a/large exact; echo x >> exact/large; echo x > exact/y", "a/large exact exact/large", "mv exact/large a; rmdir exact; printf x > exact; chmod 640 exact; rm a/large; " + large + "a/large"},
		"nothing":                         {"", "rm -r a exact; mkfifo p", "", ""},
	} {
		ws := t.TempDir()
		sh(t, ws, ground+"; "+row.first)
		w := open(t, t.TempDir()+"/s", ws, options)
		before := describe(ws)
		rec := during(t, w, "s", func() { sh(t, ws, row.call) })
		u, err := w.Plan([]Record{rec}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if row.left == "a a/b a/b/two a/one" { // somebody writes it, so that nothing may take its place
			sh(t, ws, "echo more >> a")
			if u, err = w.Plan([]Record{rec}, nil); err != nil {
				t.Fatal(err)
			}
		}
		rest, left := u.WithoutFinal()
		var names []string
		for _, s := range left {
			names = append(names, string(s.Path))
		}
		if strings.Join(names, " ") != row.left {
			t.Errorf("%s: it leaves out %q", what, names)
		}
		if len(left) > 0 {
			if _, err := w.Apply(u, Call{Tool: "undo"}, true, here(w)); !errors.Is(err, ErrConflict) {
				t.Errorf("%s: all of it: %v", what, err)
			}
		}
		if _, err := w.Apply(rest, Call{Tool: "undo"}, true, here(w)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if len(left) > 0 && len(rest.Whole) > 0 {
			t.Errorf("%s: it is said to be undone as a whole", what)
		}
		if row.restored != "" {
			sh(t, ws, row.restored)
		}
		if diff := cmp.Diff(before, describe(ws)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}

// TestAClockThatIsSetBack: calls are undone in the order in which they ran, whatever the clock said.
func TestAClockThatIsSetBack(t *testing.T) {
	ws, dir := t.TempDir(), t.TempDir()+"/s"
	sh(t, ws, "echo 1 > f")
	w := open(t, dir, ws, options)
	rec := during(t, w, "s", func() { sh(t, ws, "echo 2 > f") })
	later := rec // the clock was a day ahead
	later.ID = time.Now().UTC().Add(24*time.Hour).Format(idTime) + "-aaaa"
	b, err := json.Marshal(later)
	if err == nil {
		err = errors.Join(os.WriteFile(w.record(later.ID), b, 0o600), os.Remove(w.record(rec.ID)))
	}
	if err != nil {
		t.Fatal(err)
	}
	during(t, w, "s", func() { sh(t, ws, "echo 3 > f") })
	l, err := w.Calls()
	if err != nil || len(l) != 2 || l[0].ID != later.ID {
		t.Fatalf("%+v, %v", l, err)
	}
	u, err := w.Plan(l, nil)
	if err != nil || len(u.Conflicts()) > 0 {
		t.Fatalf("%+v, %v", u, err)
	}
	if _, err := w.Apply(u, Call{Tool: "undo"}, false, here(w)); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(ws + "/f"); string(b) != "1\n" {
		t.Errorf("f holds %q", b)
	}
	// A file that changes while such a call goes on is read again, whatever its times say.
	r, err := w.Begin(Call{Session: "s"}, all)
	if err != nil {
		t.Fatal(err)
	}
	if began := w.beginOfOthers(); began != 1 {
		t.Errorf("others began at %d", began)
	}
	if _, err := r.End(); err != nil {
		t.Fatal(err)
	}
	if began := w.beginOfOthers(); began != 0 {
		t.Errorf("others began at %d, and there are none", began)
	}
}

// TestACallThatNoLookTookIn: a call that leaves more names than a look takes in does not keep what it destroyed from being
// put back at once. It is ended by a later look; a call that goes on is not listed.
func TestACallThatNoLookTookIn(t *testing.T) {
	ws, dir := t.TempDir(), t.TempDir()+"/s"
	sh(t, ws, ground)
	w := open(t, dir, ws, options)
	r, err := w.Begin(Call{Session: "s", Tool: "shell", Started: time.Now()}, all)
	if err != nil {
		t.Fatal(err)
	}
	before := describe(ws)
	sh(t, ws, "mkdir j; cd j; seq 200 | xargs touch; cd ..; rm -r a; echo bad > exact")
	place := func() (p Place, l []Record) {
		s, err := Open(dir, Options{})
		if err == nil {
			p, err = s.Place(ws)
		}
		if err == nil {
			l, err = p.Calls()
		}
		if err != nil {
			t.Fatal(err)
		}
		return p, l
	}
	if _, l := place(); len(l) != 0 {
		t.Errorf("a call that goes on is listed: %+v", l)
	}
	w.mostNames = 100
	if _, err := r.End(); !errors.Is(err, errBound) {
		t.Fatal(err)
	}
	p, l := place()
	if len(l) != 1 || !l[0].Pending || l[0].Interrupted {
		t.Fatalf("%+v", l)
	}
	u, err := p.Plan(l, nil)
	if err != nil || len(u.Blocking(false)) > 0 {
		t.Fatalf("%+v, %v", u, err)
	}
	if _, err := u.Apply(Call{Tool: "undo"}, false, func(root string, in io.Reader) error { return PutBack(root, in) }); err != nil {
		t.Fatal(err)
	}
	sh(t, ws, "rm -r j")
	if diff := cmp.Diff(before, describe(ws)); diff != "" {
		t.Error(diff)
	}
	w = open(t, dir, ws, options)
	during(t, w, "s", func() {})
	if _, l := place(); len(l) != 1 || !l[0].Undo {
		t.Errorf("after a whole look: %+v", l)
	}
}

// TestAnUndoGoesOnPastAnObstacle: what an undo cannot remove or replace keeps nothing else from coming back. The first case
// is a directory with something that is not recorded, in the place of a file. In the second one somebody writes a file
// meanwhile: what it may refer to stays. The twin has no obstacle.
func TestAnUndoGoesOnPastAnObstacle(t *testing.T) {
	const call = "echo EVIL > a/one; rm link; rm -r empty; rm a/b/two; echo new > made"
	for _, row := range []struct {
		name, call, meanwhile, fails string
		made                         bool // is left
	}{
		{"a directory", call + "; rm exact; mkdir -p exact/node_modules; touch exact/node_modules/x", "", "undo exact: a directory stands there", false},
		{"two", call + "; for n in exact a/new; do rm -f $n; mkdir -p $n/node_modules; touch $n/node_modules/x; done", "", "undo exact: ", false},
		{"a person", call + "; echo call > exact", "echo person > exact", "undo exact: changed since", true},
		{"nothing", call, "", "", false},
	} {
		ws := t.TempDir()
		sh(t, ws, ground)
		w := open(t, t.TempDir()+"/s", ws, options)
		rec := during(t, w, "s", func() { sh(t, ws, row.call) })
		u, err := w.Plan([]Record{rec}, nil)
		if err != nil {
			t.Fatal(err)
		}
		undone, err := w.Apply(u, Call{Tool: "undo"}, false, func(in io.Reader) error {
			sh(t, ws, "true; "+row.meanwhile)
			return PutBack(ws, in)
		})
		if (err == nil) != (row.fails == "") || err != nil && !strings.Contains(err.Error(), row.fails) {
			t.Errorf("%s: %v", row.name, err)
		}
		if undone.Unfinished != (row.fails != "") {
			t.Errorf("%s: unfinished: %v", row.name, undone.Unfinished)
		}
		sh(t, ws, "grep -qx one a/one; grep -qx two a/b/two; test -L link; test -d empty")
		if _, err := os.Lstat(ws + "/made"); (err == nil) != row.made {
			t.Errorf("%s: what the call made: %v", row.name, err)
		}
		switch {
		case row.meanwhile != "":
			sh(t, ws, "grep -qx person exact")
		case row.fails != "":
			sh(t, ws, "test -e exact/node_modules/x; mv exact ../away")
			undo(t, w, rec, true) // the next one goes on
			sh(t, ws, "grep -qx x exact")
		}
	}
}

// TestAFileThatGrows: a file that is larger than what is kept by the time it is read is not kept. A part of it would come
// back in the place of the whole.
func TestAFileThatGrows(t *testing.T) {
	ws := t.TempDir()
	w := open(t, t.TempDir()+"/s", ws, options)
	dir, err := os.Open(ws)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for size, kept := range map[int64]bool{options.File: true, options.File + 1: false} {
		if err := os.WriteFile(ws+"/f", make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		l, e := look{w: w, objects: w.objects, limit: options.File}, Entry{Size: 1} // as it was a moment ago
		if err := w.locked(func() error { return l.keep(int(dir.Fd()), "f", &e) }); err != nil {
			t.Fatal(err)
		}
		b, err := w.Content(&e)
		if (e.Unkept == "") != kept || e.Size != size || kept && (err != nil || int64(len(b)) != size) || !kept && e.Hash != "" {
			t.Errorf("%d bytes: %+v, content of %d: %v", size, e, len(b), err)
		}
	}
}

// TestARemovalTakesNobodysSave: what calls made is removed; not a file that somebody saves under its name in the moment
// between the look at it and the removal.
func TestARemovalTakesNobodysSave(t *testing.T) {
	const files = 40
	for range 50 {
		ws := t.TempDir()
		w := open(t, t.TempDir()+"/s", ws, options)
		rec := during(t, w, "s", func() { sh(t, ws, fmt.Sprintf("for i in $(seq %d); do echo call > $i; done", files)) })
		u, err := w.Plan([]Record{rec}, nil)
		if err != nil {
			t.Fatal(err)
		}
		beside := t.TempDir()
		var saved atomic.Int64
		_, err = w.Apply(u, Call{Tool: "undo"}, false, func(order io.Reader) error {
			stop, saving := make(chan struct{}), sync.WaitGroup{}
			saving.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					name := fmt.Sprint(files - i%files)
					if os.WriteFile(beside+"/new", []byte("a person's"), 0o600) == nil && os.Rename(beside+"/new", ws+"/"+name) == nil {
						saved.Store(int64(i + 1))
					}
				}
			})
			for saved.Load() == 0 {
				runtime.Gosched()
			}
			err := here(w)(order)
			close(stop)
			saving.Wait()
			return err
		})
		if err != nil && !errors.Is(err, ErrConflict) {
			t.Fatal(err)
		}
		for i := range min(saved.Load(), files) {
			if b, err := os.ReadFile(fmt.Sprintf("%s/%d", ws, files-i)); err != nil || string(b) != "a person's" {
				t.Fatalf("%d: %q, %v", files-i, b, err)
			}
		}
		left, _ := filepath.Glob(ws + "/.sandgate*")
		for _, file := range left { // saved twice in that moment: both stay
			if b, err := os.ReadFile(file); string(b) != "a person's" {
				t.Fatalf("%s: %q, %v", file, b, err)
			}
		}
	}
}
