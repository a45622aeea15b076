package linux_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestProgramsCannotLockTheQueue: who is granted to read the queue for names
// cannot stop the brokers of its user. Another file there it can lock. The queue lies where
// no other user can have made its name.
func TestProgramsCannotLockTheQueue(t *testing.T) {
	if !withoutUserNamespaces(t) {
		return
	}
	const lock = `import errno, fcntl, os, sys
for name in sys.argv[1:]:
    for how in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        try:
            fd = os.open(name, how)
            fcntl.lockf(fd, (fcntl.LOCK_SH if how == os.O_RDONLY else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            print('locked', end=' ')
        except OSError as e: print(errno.errorcode[e.errno], end=' ')
    try: os.chmod(name, 0o600); print('changed')
    except OSError as e: print(errno.errorcode[e.errno])
`
	t.Setenv("XDG_STATE_HOME", confinetest.Workspace(t))
	l, ws := newLandlock(t, linux.LandlockOptions{}), confinetest.Workspace(t)
	other, err := os.CreateTemp("/tmp", "sandgate-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(other.Name())
	defer other.Close()
	p := confinetest.Profile(t, ws)
	script("true")(t, l, p, ws) // by now the queue is there
	own := linux.QueuePlaces()[0]
	if st, err := os.Stat(own); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the queue lies in %s: %v %v", own, st, err)
	}
	queues, err := filepath.Glob(fmt.Sprintf("%s/.sandgate-names-%d.d/*", own, os.Geteuid()))
	if err != nil || len(queues) != 1 {
		t.Fatalf("the queue: %q, %v", queues, err)
	}
	queue := queues[0]
	// The two files alone: in /tmp itself others come and go while rules are made.
	p.Paths[queue], p.Paths[other.Name()], p.Scratch = sandboxprofile.Read, sandboxprofile.Read, []string{"/home/tool"}
	o := confinetest.Exec(t, context.Background(), l, p, ws, nil, "/usr/bin/python3", "-c", lock, queue, other.Name())
	got := strings.Split(strings.TrimSpace(o.Out), "\n")
	if len(got) != 2 || strings.Contains(got[0], "locked") || strings.Contains(got[0], "changed") || !strings.HasPrefix(got[0], "EACCES ") || !strings.HasPrefix(got[1], "locked ") {
		t.Errorf("the queue and another file: %q %q", got, o.Err)
	}
	if st, err := os.Stat(queue); err != nil || st.Mode().Perm() != 0o200 {
		t.Errorf("the queue: %v %v", st, err)
	}
}

// TestTreesWaitForTheirOwn: while a broker is between looking at a name and acting on it,
// those of sandboxes wait whose trees have something in common with its own, and no others.
func TestTreesWaitForTheirOwn(t *testing.T) {
	if !withoutUserNamespaces(t) {
		return
	}
	l, above, elsewhere := newLandlock(t, linux.LandlockOptions{}), confinetest.Workspace(t), confinetest.Workspace(t)
	tree, link := above+"/tree", elsewhere+"/link"
	mkdir(t, tree+"/below")
	mkdir(t, above+"/beside")
	mkdir(t, elsewhere+"/other")
	if err := os.Symlink(tree, link); err != nil {
		t.Fatal(err)
	}
	held := confinetest.Profile(t, tree)
	held.Scratch = nil // whose places are chosen at random
	queue, ranges, err := linux.NameQueue(held)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range ranges {
		lock := unix.Flock_t{Type: unix.F_WRLCK, Start: r.Start, Len: r.Length}
		if err := unix.FcntlFlock(queue.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
			t.Fatal(err)
		}
	}
	later := confinetest.Profile(t, elsewhere)
	later.Paths = map[string]sandboxprofile.Rights{above + "/later/tree": sandboxprofile.Read | sandboxprofile.Write}
	for root, shared := range map[string]bool{above: true, elsewhere: false} {
		if got := common(t, confinetest.Profile(t, root), later); got != shared {
			t.Errorf("a tree that is not made yet and %s: they wait for each other: %v", root, got)
		}
	}
	if !common(t, later, later) {
		t.Error("two sandboxes with one tree that is not made yet do not wait for each other")
	}
	made := map[string]chan string{}
	for _, x := range []struct {
		root  string
		waits bool
	}{{elsewhere + "/other", false}, {above + "/beside", false}, {tree, true}, {link, true}, {tree + "/below", true}, {above, true}} {
		dir, err := filepath.EvalSymlinks(x.root) // a program starts in no link
		if err != nil {
			t.Fatal(err)
		}
		k := converse(t, l, confinetest.Profile(t, x.root), dir)
		if !x.waits {
			k.gets("os.mkdir('made')", "ok")
			k.end()
			continue
		}
		done := make(chan string, 1)
		made[x.root] = done
		go func() { done <- k.does("os.mkdir('" + x.root + "/made" + "')"); k.end() }()
	}
	time.Sleep(300 * time.Millisecond) // for those that do not wait and should
	for root, done := range made {
		select {
		case got := <-done:
			t.Errorf("%s did not wait: %s", root, got)
			done <- got
		default:
		}
	}
	queue.Close()
	for root, done := range made {
		got := <-done
		if want := map[bool][]string{false: {"ok"}, true: {"EEXIST", "EACCES"}}[root == link]; !slices.Contains(want, got) { // a link lists nothing of where it leads
			t.Errorf("%s: %s", root, got)
		}
	}
}

// common reports whether two sandboxes wait for each other.
func common(t *testing.T, a, b sandboxprofile.Profile) bool {
	t.Helper()
	var last []wire.Range
	for _, p := range []sandboxprofile.Profile{a, b} {
		queue, ranges, err := linux.NameQueue(p)
		if err != nil {
			t.Fatal(err)
		}
		queue.Close()
		for _, r := range ranges {
			if slices.ContainsFunc(last, func(l wire.Range) bool { return l.Start < r.Start+r.Length && r.Start < l.Start+l.Length }) {
				return true
			}
		}
		last = ranges
	}
	return false
}

// TestDirectoriesHaveRanges: the range of a directory lies in that of each above it, however deep; a sandbox's own do not
// overlap and are in order; and of too many none is forgotten.
func TestDirectoriesHaveRanges(t *testing.T) {
	ranges := func(dirs ...string) []wire.Range {
		t.Helper()
		p := sandboxprofile.Profile{Paths: map[string]sandboxprofile.Rights{}}
		for _, dir := range dirs {
			p.Paths[dir] = sandboxprofile.Read | sandboxprofile.Write
		}
		queue, ranges, err := linux.NameQueue(p)
		if err != nil {
			t.Fatal(err)
		}
		queue.Close()
		end := int64(0)
		for _, r := range ranges {
			if r.Start < end || r.Length <= 0 {
				t.Errorf("%v: ranges %v", dirs, ranges)
			}
			end = r.Start + r.Length
		}
		return ranges
	}
	ws := t.TempDir()
	all := ranges("/")
	if len(all) != 1 || all[0].Start != 0 {
		t.Fatalf("the root: %v", all)
	}
	last, dir := all[0], ws
	for range 14 {
		got := ranges(dir)
		if len(got) != 1 || got[0].Start < last.Start || got[0].Start+got[0].Length > last.Start+last.Length {
			t.Fatalf("%s: %v, and above it %v", dir, got, last)
		}
		if both := ranges(filepath.Dir(dir), dir); len(both) != 1 {
			t.Errorf("%s and what is above it: %v", dir, both)
		}
		last, dir = got[0], dir+"/d"
		mkdir(t, dir)
	}
	var many []string
	distinct := map[wire.Range]bool{}
	for i := range 200 {
		many = append(many, fmt.Sprintf("%s/%d", ws, i))
		mkdir(t, many[i])
		distinct[ranges(many[i])[0]] = true
	}
	if len(distinct) < 40 {
		t.Errorf("200 directories have %d ranges", len(distinct))
	}
	if got := ranges(many...); !slices.Equal(got, all) {
		t.Errorf("more than a broker locks: %v", got)
	}
}
