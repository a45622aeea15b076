package linux_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/confine/proctree"
	"github.com/sandgate/sandgate/sandboxprofile"
)

func newWarmPool(t *testing.T) *linux.WarmPool {
	t.Helper()
	c := linux.NewWarmPool(newBwrap(t))
	t.Cleanup(func() { c.Close() })
	return c
}

func TestWarmSandboxesKeepEveryClaim(t *testing.T) { confinetest.Run(t, newWarmPool(t)) }

// identity names the sandbox that a call ran in, by a mark in its private /tmp.
// The number of a namespace would not do: the kernel gives it out again.
func identity(t *testing.T, c confine.Confiner, p sandboxprofile.Profile, dir string) string {
	t.Helper()
	o := confinetest.Shell(t, c, p, dir, "[ -e /tmp/id ] || cat /proc/sys/kernel/random/uuid > /tmp/id; cat /tmp/id")
	if o.ExitCode != 0 {
		t.Fatalf("%+v", o)
	}
	return strings.TrimSpace(o.Out)
}

// TestWarmSandboxesAreReusedOnlyAsTheyWere: a call is followed by the next in
// the same warm sandbox, unless the first left something or the host has changed.
func TestWarmSandboxesAreReusedOnlyAsTheyWere(t *testing.T) {
	for _, x := range []struct {
		name    string
		between func(t *testing.T, c confine.Confiner, p sandboxprofile.Profile, ws string)
		same    bool
	}{
		{"nothing happened", func(*testing.T, confine.Confiner, sandboxprofile.Profile, string) {}, true},
		{"a file in the workspace", script("echo x > made"), true},
		{"a file in tmp", script("echo x > /tmp/made"), true},
		{"a program that was killed", script("kill -KILL $$"), true},
		{"a daemon", script("(setsid sleep 600 &) ; true"), true},
		{"a file in HOME", script("echo 'alias ls=evil' > ~/.bashrc"), false},
		{"a directory deep in HOME", script("mkdir -p ~/.config/git"), false},
		{"shared memory", script("echo x > /dev/shm/x"), false},
		{"a System V segment", script("ipcmk -M 4096 >/dev/null"), false},
		{"a System V queue", script("ipcmk -Q >/dev/null"), false},
		{"tmp is closed", script("chmod 0 /tmp"), false},
		{"HOME is closed", script("chmod 0 ~"), false},
		{"shared memory is closed", script("chmod 0 /dev/shm"), false},
		{"tmp has a default list of access", script(defaultAccess("/tmp")), false},
		{"shared memory has a default list of access", script(defaultAccess("/dev/shm")), false},
		{"terminals are closed", script("chmod 0 /dev/pts/ptmx"), false},
		{"the directory of terminals is closed", script("chmod 0 /dev/pts"), false},
		{"process 1 is nice", fromOutside(func(pid int) error { return unix.Setpriority(unix.PRIO_PROCESS, pid, 19) }), false},
		{"process 1 may write little", fromOutside(func(pid int) error {
			return unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 20, Max: unix.RLIM_INFINITY}, nil)
		}), false},
		{"process 1 is scheduled when nothing else is", fromOutside(func(pid int) error {
			return unix.SchedSetAttr(pid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
		}), false},
		{"connections keep their ports", script(connections + "c.close(); a.close()\n'"), false},
		{"connections have ended at once", script(connections + "c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack(\"ii\", 1, 0)); c.close()\n'"), true},
		{"a repository with hooks has appeared", script("mkdir -p sub/.git/hooks"), false},
		{"a secret has appeared", func(t *testing.T, _ confine.Confiner, _ sandboxprofile.Profile, ws string) {
			if err := os.WriteFile(ws+"/.env", []byte("TOKEN=1"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			ws := confinetest.Workspace(t)
			c, p := newWarmPool(t), confinetest.Profile(t, ws)
			before := identity(t, c, p, ws)
			x.between(t, c, p, ws)
			if after := identity(t, c, p, ws); (before == after) != x.same {
				t.Errorf("before %s, after %s, want the same: %v", before, after, x.same)
			}
		})
	}
}

// connections begins a program that is connected to itself.
const connections = `python3 -c 'import socket, struct
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); c = socket.create_connection(s.getsockname()); a, _ = s.accept()
`

// defaultAccess has new files in dir closed to everybody (acl(5)).
func defaultAccess(dir string) string {
	return fmt.Sprintf(`python3 -c 'import os, struct; os.setxattr(%q, "system.posix_acl_default", struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, 0, 2**32 - 1) for tag in (1, 4, 32)))'`, dir)
}

// fromOutside does to the sandbox's processes what no program in it can, and then has a
// program run there.
func fromOutside(do func(pid int) error) func(*testing.T, confine.Confiner, sandboxprofile.Profile, string) {
	return func(t *testing.T, c confine.Confiner, p sandboxprofile.Profile, ws string) {
		t.Helper()
		for _, pid := range proctree.Descendants(os.Getpid()) {
			if err := do(pid); err != nil {
				t.Fatal(err)
			}
		}
		script("true")(t, c, p, ws)
	}
}

func script(s string) func(*testing.T, confine.Confiner, sandboxprofile.Profile, string) {
	return func(t *testing.T, c confine.Confiner, p sandboxprofile.Profile, ws string) {
		t.Helper()
		if o := confinetest.Shell(t, c, p, ws, s); o.ExitCode != 0 && o.Signal == "" {
			t.Fatalf("%q: %+v %s", s, o.Result, o.Err)
		}
	}
}

// TestACellBuiltAheadIsHeldAgainstTheHost: the next call gets it, unless the host has
// changed meanwhile, and then one that fits.
func TestACellBuiltAheadIsHeldAgainstTheHost(t *testing.T) {
	plant := func(t *testing.T, ws string) {
		t.Helper()
		if err := os.WriteFile(ws+"/.env", []byte("TOKEN=1"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range []struct {
		name           string
		before, during func(t *testing.T, ws string)
		out            string
	}{
		{name: "nothing happened", out: "none"},
		{name: "a secret was there", before: plant, out: "empty"},
		{name: "a secret has appeared", during: plant, out: "empty"},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			ws := confinetest.Workspace(t)
			c, p := newWarmPool(t), confinetest.Profile(t, ws)
			if x.before != nil {
				x.before(t, ws)
			}
			c.Ahead(p)
			c.Await(p)
			if n := children(t); n != 1 {
				t.Fatalf("%d processes, want the one sandbox that was built ahead", n)
			}
			if x.during != nil {
				x.during(t, ws)
			}
			o := confinetest.Shell(t, c, p, ws, "if [ -s .env ]; then cat .env; elif [ -e .env ]; then echo empty; else echo none; fi")
			if got := strings.TrimSpace(o.Out); got != x.out {
				t.Errorf("the call saw %q, want %q", got, x.out)
			}
			if c.Close(); children(t) != 0 {
				t.Error("a sandbox is left")
			}
		})
	}
}

// TestClosingEndsWhatIsBuiltAhead: at any moment of the building.
func TestClosingEndsWhatIsBuiltAhead(t *testing.T) {
	ws := confinetest.Workspace(t)
	p := confinetest.Profile(t, ws)
	b := newBwrap(t)
	script("true")(t, b, p, ws) // by now the backend's own process is there
	for wait := time.Duration(0); wait < 40*time.Millisecond; wait = 2*wait + time.Millisecond {
		c := linux.NewWarmPool(b)
		c.Ahead(p)
		time.Sleep(wait)
		c.Close()
		if n := children(t); n != 0 {
			t.Fatalf("closed after %v: %d processes are left", wait, n)
		}
		c.Ahead(p) // refused: it is closed
		if c.Await(p); children(t) != 0 {
			t.Fatal("a sandbox was built for closed warm sandboxes")
		}
	}
}

// TestWarmSandboxesAreNotShared: between profiles of another shape, with other sessions,
// or with a profile that asks for a fresh sandbox. Limits are set for each call.
func TestWarmSandboxesAreNotShared(t *testing.T) {
	ws := confinetest.Workspace(t)
	b := newBwrap(t)
	one, two := linux.NewWarmPool(b), linux.NewWarmPool(b)
	defer one.Close()
	defer two.Close()
	p := confinetest.Profile(t, ws)
	first := identity(t, one, p, ws)
	if identity(t, two, p, ws) == first {
		t.Error("two sessions share a warm sandbox")
	}
	narrow := confinetest.Profile(t, ws)
	narrow.Paths[ws] = sandboxprofile.Read
	if identity(t, one, narrow, ws) == first {
		t.Error("two shapes share a warm sandbox")
	}
	fresh := p
	fresh.Fresh = true
	if identity(t, one, fresh, ws) == first {
		t.Error("a fresh sandbox was not one")
	}
	limited := p
	limited.Limits.OpenFiles = 33
	if identity(t, one, limited, ws) != first {
		t.Error("another limit made another warm sandbox")
	}
	if o := confinetest.Shell(t, one, limited, ws, "ulimit -n"); strings.TrimSpace(o.Out) != "33" {
		t.Errorf("the limit of the call: %q", o.Out)
	}
	if o := confinetest.Shell(t, one, p, ws, "ulimit -n"); strings.TrimSpace(o.Out) != "256" {
		t.Errorf("the limit of the next call: %q", o.Out)
	}
}

// sharing prepares sandboxes for calls that share their /tmp.
type sharing struct {
	confine.Confiner
	words string
}

func (s sharing) Prepare(ctx context.Context, p sandboxprofile.Profile) (confine.Sandbox, error) {
	return s.Confiner.Prepare(confine.WithShares(ctx, s.words), p)
}

// TestCallsShareATmpByTheirWords: calls of a session with other words find nothing in /tmp of each other; that
// warm sandbox goes first which has waited longest, and the session's own last.
func TestCallsShareATmpByTheirWords(t *testing.T) {
	ws, pool := confinetest.Workspace(t), newWarmPool(t)
	p := confinetest.Profile(t, ws)
	see := func(words string) string {
		return confinetest.Shell(t, sharing{pool, words}, p, ws, "cat /tmp/x 2>&1; echo "+words+" > /tmp/x").Out
	}
	const nothing = "cat: /tmp/x: No such file or directory\n"
	for _, words := range []string{"", "a", "b"} {
		if got := see(words); got != nothing {
			t.Errorf("%q finds %q", words, got)
		}
	}
	for _, words := range []string{"", "a", "b"} {
		if got := see(words); got != words+"\n" {
			t.Errorf("%q finds of itself %q", words, got)
		}
	}
	for _, words := range []string{"c", "d"} { // four wait at most, and "a" has waited longest
		if got := see(words); got != nothing {
			t.Errorf("%q finds %q", words, got)
		}
	}
	for words, want := range map[string]string{"": "\n", "d": "d\n", "c": "c\n"} {
		if got := see(words); got != want {
			t.Errorf("%q finds of itself, beside two, %q", words, got)
		}
	}
	if got := see("a"); got != nothing {
		t.Errorf("the one that has waited longest has %q", got)
	}
}

// TestHostileProgramsLeaveASandboxCleanOrDead runs what a program could do to the
// sandbox it is in, over and over, and then asks an innocent call what it sees.
func TestHostileProgramsLeaveASandboxCleanOrDead(t *testing.T) {
	hostile := []string{
		"for s in $(seq 1 64); do kill -$s 1; done 2>/dev/null",
		"kill -STOP -1; kill -KILL -1",
		"(while :; do (sleep 1 &) ; done) & sleep 0.01",
		"exec 3</proc/1/fd/3", "cat /proc/1/mem", "echo x > /proc/1/oom_score_adj",
		"ulimit -n 3; umask 777; cd /; trap '' TERM; exec sleep 0.01",
		"exec >&- 2>&- <&-; sleep 0.01", "head -c 2000000 /dev/zero", "kill -SEGV $$",
		"nice -n 19 sh -c 'while :; do :; done' & sleep 0.01",
		"mkdir -p /tmp/a/b/c; ln -s / /tmp/root; mkfifo /tmp/fifo; sleep 100 < /tmp/fifo & sleep 0.01",
	}
	ws := confinetest.Workspace(t)
	c, p := newWarmPool(t), confinetest.Profile(t, ws)
	for i := range 120 {
		confinetest.Shell(t, c, p, ws, hostile[i%len(hostile)])
		if i%4 != 0 {
			continue
		}
		o := confinetest.Shell(t, c, p, ws, "cd /proc && echo [0-9]* && umask && ulimit -n && ls -A ~ && pwd")
		f := strings.Fields(o.Out)
		if o.ExitCode != 0 || len(f) < 5 || f[0] != "1" || f[len(f)-1] != "/proc" || f[len(f)-2] != "256" {
			t.Fatalf("after %q: %q %+v %s", hostile[i%len(hostile)], o.Out, o.Result, o.Err)
		}
	}
}

// TestWarmPoolLeavesNothing counts what a session's warm sandboxes cost when it is closed.
func TestWarmPoolLeavesNothing(t *testing.T) {
	ws := confinetest.Workspace(t)
	b := newBwrap(t)
	c := linux.NewWarmPool(b)
	identity(t, c, confinetest.Profile(t, ws), ws) // what the guard keeps of the workspace is not the warm sandboxes'
	c.Close()
	before, keeping := descriptorsOfThisProcess(t), children(t)
	c = linux.NewWarmPool(b)
	for range 3 {
		identity(t, c, confinetest.Profile(t, ws), ws)
	}
	c.Close()
	if after := descriptorsOfThisProcess(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if n := children(t); n > keeping {
		t.Errorf("%d child processes before, %d after", keeping, n)
	}
}

func descriptorsOfThisProcess(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// children counts the processes of sandboxes: a backend's warden is there until the backend
// is closed.
func children(t *testing.T) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, task := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%s/children", task.Name()))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, field := range strings.Fields(string(b)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			if !isWarden(pid) && unix.Kill(pid, 0) == nil {
				n++
			}
		}
	}
	return n
}
