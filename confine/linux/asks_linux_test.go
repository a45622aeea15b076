package linux_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// A hearer notes the changes that it is told of, and says no to those that no says.
type hearer struct {
	ws string
	no func(name string) bool

	mu    sync.Mutex
	heard []string
}

func (h *hearer) hear(_ context.Context, c confine.Change) bool {
	name, _ := filepath.Rel(h.ws, c.Path)
	what := name
	if c.Before != nil {
		b, err := io.ReadAll(c.Before)
		what = fmt.Sprintf("%s: %s %v", name, b, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, what)
	return h.no == nil || !h.no(name)
}

func (h *hearer) wants(t *testing.T, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.heard, want) {
		t.Errorf("heard %q, want %q", h.heard, want)
	}
	h.heard = nil
}

// TestChangesAreHeardBefore: who wants to hear of changes hears of each file once, before
// it is changed, whichever call changes it, and can refuse it.
func TestChangesAreHeardBefore(t *testing.T) {
	l, ws, p := brokered(t)
	h := &hearer{ws: ws, no: func(name string) bool { return name == "no" || name == "free" }}
	for _, name := range strings.Fields("a b c d e f g h no") {
		put(t, filepath.Join(ws, name), "old "+name)
	}
	mkdir(t, ws+"/dir")
	put(t, ws+"/dir/in", "old in")
	k := converseWith(t, l, p, ws, confine.Stdio{Changes: h.hear})
	for _, x := range []struct {
		does, gets string
		heard      []string
	}{
		{"r = open('a').read()", "old a", nil},
		{"open('a', 'w').write('new')", "ok", []string{"a: old a <nil>"}},
		{"open('a', 'a').write('er'); os.chmod('a', 0o600); os.utime('a'); os.truncate('a', 1)", "ok", nil},
		{"os.rename('a', 'moved')", "ok", []string{"moved"}},
		{"open('moved', 'a').close()", "ok", []string{"moved: n <nil>"}},
		{"os.rename('b', 'c')", "ok", []string{"b: old b <nil>", "c: old c <nil>"}},
		{"os.unlink('d')", "ok", []string{"d: old d <nil>"}},
		{"os.chmod('e', 0o600)", "ok", []string{"e: old e <nil>"}},
		{"os.truncate('f', 0)", "ok", []string{"f: old f <nil>"}},
		{"os.link('g', 'hard')", "ok", []string{"g: old g <nil>", "hard"}},
		{"os.utime('h')", "ok", []string{"h: old h <nil>"}},
		{"open('new', 'w').close(); open('new', 'a').close(); os.unlink('new'); open('new', 'w').close()", "ok", []string{"new"}},
		{"os.mkdir('sub'); os.chmod('sub', 0o700); os.symlink('x', 'link'); os.mknod('node')", "ok", []string{"sub", "link", "node"}},
		{"os.mkfifo('fifo'); s = socket.socket(socket.AF_UNIX); s.bind('sock')", "ok", []string{"fifo", "sock"}},
		{"os.rename('dir', 'elsewhere')", "ok", []string{"dir", "elsewhere"}},
		{"open('elsewhere/in', 'w').close()", "ok", []string{"elsewhere/in: old in <nil>"}},
		{"os.makedirs('r/.git/hooks'); open('r/.git/hooks/x.sample', 'w').close(); open('r/.git/config', 'w').close()", "ok",
			[]string{"r", "r/.git", "r/.git/hooks", "r/.git/hooks/x.sample", "r/.git/config"}},
		{"open('no', 'a')", "EROFS", []string{"no: old no <nil>"}},
		{"open('no', 'a')", "EROFS", nil},
		{"open('free', 'w')", "EROFS", []string{"free"}},
		{"open(os.environ['HOME'] + '/x', 'w').close(); open('/tmp/heard-%d' % os.getpid(), 'w').close()", "ok", nil}, // the sandbox's own
		{"open('.bashrc', 'w')", "EROFS", nil},                                                                        // a pattern's
	} {
		k.gets(x.does, x.gets)
		h.wants(t, x.heard...)
	}
	if b, err := os.ReadFile(ws + "/no"); err != nil || string(b) != "old no" {
		t.Errorf("%q, %v", b, err)
	}
	r := k.end()
	if !slices.ContainsFunc(r.Refused, func(x confine.Refused) bool { return x.Path == ws+"/no" }) {
		t.Errorf("refused: %+v", r.Refused)
	}
}

// TestChangesOfManyThreads: threads of a program change many files at once, and each is
// heard of once before it changes.
func TestChangesOfManyThreads(t *testing.T) {
	l, ws, p := brokered(t)
	h := &hearer{ws: ws}
	want := []string{}
	for i := range 300 {
		put(t, fmt.Sprintf("%s/%d", ws, i), "old")
		want = append(want, fmt.Sprintf("%d: old <nil>", i))
	}
	k := converseWith(t, l, p, ws, confine.Stdio{Changes: h.hear})
	k.gets(`
def change():
    for i in range(300): open(str(i), 'w').write('new')
g['change'] = change
ts = [threading.Thread(target=change) for _ in range(20)]
[t.start() for t in ts]; [t.join() for t in ts]`, "ok")
	slices.Sort(h.heard)
	slices.Sort(want)
	h.wants(t, want...)
}

// TestRefusalsWait: a protected name that is about to be refused waits for an answer, and
// others go on. Yes is for that name and this action.
func TestRefusalsWait(t *testing.T) {
	l, ws, p := brokered(t)
	put(t, ws+"/.gitconfig", "kept")
	answers := make(chan bool)
	waiting := make(chan string)
	ask := func(ctx context.Context, c confine.Change) bool {
		select {
		case waiting <- filepath.Base(c.Path):
		case <-ctx.Done():
			return false
		}
		select {
		case yes := <-answers:
			return yes
		case <-ctx.Done():
			return false
		}
	}
	k := converseWith(t, l, p, ws, confine.Stdio{Refusals: ask})
	asked := func(want string, answer bool) {
		t.Helper()
		if got := <-waiting; got != want {
			t.Errorf("asked about %s, want %s", got, want)
		}
		answers <- answer
	}
	k.starts("open('.bashrc', 'w').write('x')")
	asked(".bashrc", true)
	if got := k.hears(); got != "ok" {
		t.Error(got)
	}
	k.gets("open('.bashrc', 'a').write('y'); os.unlink('.bashrc'); open('.bashrc', 'w').write('xyz')", "ok") // not asked again
	k.starts("open('.gitconfig', 'a').write('!')")                                                           // there from the start
	asked(".gitconfig", true)
	if got := k.hears(); got != "ok" {
		t.Error(got)
	}
	k.starts("os.makedirs('.vim/plugin')")
	asked("plugin", false)
	if got := k.hears(); got != "EROFS" {
		t.Error(got)
	}
	k.gets("os.mkdir('.vim/plugin')", "EROFS") // no stays no
	k.gets("open('.env', 'w')", "EACCES")      // nobody is asked about what is hidden

	// While one thread waits others go on; a signal ends its wait as it would in the kernel.
	k.gets(`
def plant():
    g['got'] = 'nothing'
    try: os.makedirs('.config/git'); open('.config/git/config', 'w').close(); g['got'] = 'made'
    except OSError as e: g['got'] = errno.errorcode[e.errno]
g['plant'] = plant; t = threading.Thread(target=plant); t.start()`, "ok")
	if got := <-waiting; got != "config" {
		t.Error(got)
	}
	k.gets("open('other', 'w').write('x'); r = open('other').read()", "x")
	answers <- true
	k.gets("t.join(); r = got", "made")
	pid, err := strconv.Atoi(k.does("signal.signal(signal.SIGALRM, lambda *_: 1/0); r = str(os.getpid())"))
	if err != nil {
		t.Fatal(err)
	}
	k.starts("os.mkdir('.git'); os.mkdir('.git/hooks'); open('.git/hooks/pre-push', 'w')")
	if got := <-waiting; got != "pre-push" {
		t.Error(got)
	}
	if err := unix.Kill(pid, unix.SIGALRM); err != nil {
		t.Fatal(err)
	}
	if got := k.hears(); !strings.Contains(got, "ZeroDivisionError") {
		t.Error(got)
	}
	answers <- true // too late, for that call
	if b, _ := os.ReadFile(ws + "/.bashrc"); string(b) != "xyz" {
		t.Errorf("%q", b)
	}
	if b, _ := os.ReadFile(ws + "/.gitconfig"); string(b) != "kept!" {
		t.Errorf("%q", b)
	}
	k.starts("os.mkdir('x'); threading.Thread(target=open, args=('x/.gitconfig', 'w'), daemon=True).start()")
	<-waiting
	k.end() // nobody answers: the program is killed at the end, and nothing hangs
}

// TestOpensOutsideWait: a file outside of what may be written is opened for a program when
// that is allowed: with its flags and its umask, and no other name is.
func TestOpensOutsideWait(t *testing.T) {
	l, ws, p := brokered(t)
	outside := confinetest.Workspace(t)
	put(t, outside+"/old", "old")
	put(t, outside+"/kept", "kept")
	mkdir(t, outside+"/dir")
	if err := unix.Mkfifo(outside+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	h := &hearer{ws: outside, no: func(name string) bool { return name == "no" || name == "kept" }}
	journal := &hearer{ws: outside}
	k := converseWith(t, l, p, ws, confine.Stdio{Refusals: h.hear, Changes: journal.hear})
	for _, x := range []struct {
		does, gets string
		heard      []string
	}{
		{"o = '" + outside + "'; os.umask(0o077); open(o + '/new', 'w').write('made'); r = '%o' % (os.stat(o + '/new').st_mode & 0o777)", "600", []string{"new"}},
		{"open(o + '/new', 'a').write(' more')", "ok", nil},
		{"r = os.read(os.open(o + '/old', os.O_RDWR), 9).decode()", "old", []string{"old: old <nil>"}},
		{"f = os.open(o + '/old', os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC); os.write(f, b'N'); r = str(fcntl.fcntl(f, fcntl.F_GETFD))", "1", nil},
		{"os.open(o + '/old', os.O_CREAT | os.O_EXCL | os.O_WRONLY)", "EEXIST", nil},
		{"open(o + '/no', 'w')", "EACCES", []string{"no"}},
		{"open(o + '/no', 'w')", "EACCES", nil},
		{"open(o + '/kept', 'a')", "EACCES", []string{"kept: kept <nil>"}},
		{"open(o + '/fifo', 'w')", "EACCES", []string{"fifo"}}, // allowed, and still none for a program
		{"os.unlink(o + '/new')", "EACCES", nil},
		{"os.rename(o + '/new', o + '/x')", "EACCES", nil},
		{"os.mkdir(o + '/d')", "EACCES", nil},
		{"os.open(o, os.O_TMPFILE | os.O_WRONLY)", "EACCES", nil},
		{"open(o + '/dir', 'w')", "EISDIR", nil},
		{"open('/proc/self/mem', 'r+b')", "EACCES", nil},
		{"open('inside', 'w').write('x')", "ok", nil},
	} {
		k.gets(x.does, x.gets)
		h.wants(t, x.heard...)
	}
	journal.wants(t, "new", "old: old <nil>", "fifo", "../"+filepath.Base(ws)+"/inside")
	k.end()
	for name, want := range map[string]string{"new": "made more", "old": "N", "kept": "kept"} {
		if b, err := os.ReadFile(outside + "/" + name); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if _, err := os.Lstat(outside + "/no"); err == nil {
		t.Error("what was refused is there")
	}

	// No answer lifts a ceiling.
	box, err := l.Prepare(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Ceiling: &sandboxprofile.Ceiling{Class: sandboxprofile.ClassRead, AnyProgram: true},
		Exec: &sandboxprofile.Program{Path: "/bin/sh", Argv: []string{"sh", "-c", "echo x > " + outside + "/ceiling; echo x > here"}, Dir: ws, Env: []string{"PATH=/bin"}}}, confine.Stdio{Refusals: h.hear})
	if err != nil || r.ExitCode == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	h.wants(t)
}

// TestRefusalsAreAskedAboutWithinABound: a program cannot have a person asked for ever.
func TestRefusalsAreAskedAboutWithinABound(t *testing.T) {
	l, ws, p := brokered(t)
	h := &hearer{ws: ws, no: func(string) bool { return true }}
	k := converseWith(t, l, p, ws, confine.Stdio{Refusals: h.hear})
	k.gets(`
for i in range(40):
    os.mkdir(str(i))
    try: open('%d/.bashrc' % i, 'w'); r = 'made'
    except OSError: pass`, "ok")
	if len(h.heard) != 16 {
		t.Errorf("heard of %d", len(h.heard))
	}
}
