package linux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// fakeTree makes files as the kernel would show them in a cgroup v2 directory.
func fakeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestFindCgroups: only a directory with both controllers, and given to us, counts.
func TestFindCgroups(t *testing.T) {
	both := map[string]string{"cgroup.controllers": "cpu memory pids\n", "cgroup.procs": "", "cgroup.subtree_control": ""}
	for _, x := range []struct {
		name, self string
		files      map[string]string
		reason     string // "" if it counts
	}{
		{"at the top of a container", "0::/\n", both, ""},
		{"beside version 1", "3:memory:/x\n0::/\n", both, ""},
		{"version 1 alone", "3:memory:/\n", both, "no cgroup of version 2"},
		{"outside of the namespace", "0::/../x\n", both, "no cgroup of version 2"},
		{"nothing mounted", "0::/\n", nil, "no cgroup v2 tree"},
		{"without memory", "0::/\n", map[string]string{"cgroup.controllers": "pids hugetlb\n", "cgroup.procs": ""}, "the memory controller"},
		{"without pids", "0::/\n", map[string]string{"cgroup.controllers": "memory\n", "cgroup.procs": ""}, "the pids controller"},
		{"names that contain the names", "0::/\n", map[string]string{"cgroup.controllers": "memoryx pidsy\n"}, "the memory controller"},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			root := fakeTree(t, x.files)
			tree, err := findCgroups(root, x.self)
			var u *confine.Unenforceable
			switch {
			case x.reason == "" && (err != nil || tree.dir != root):
				t.Errorf("%+v, %v", tree, err)
			case x.reason != "" && (!errors.As(err, &u) || !strings.Contains(u.Reason, x.reason) || u.Hint == ""):
				t.Errorf("%+v, %v, want %q", tree, err, x.reason)
			}
		})
	}
}

// TestRootNeedsADelegation: root may write to every cgroup, and takes only what is
// marked as given.
func TestRootNeedsADelegation(t *testing.T) {
	root := fakeTree(t, map[string]string{"unit/cgroup.controllers": "memory pids", "unit/cgroup.procs": ""})
	_, err := findCgroups(root, "0::/unit\n")
	if os.Geteuid() != 0 {
		if err != nil {
			t.Errorf("a directory of our own: %v", err)
		}
		return
	}
	if err == nil {
		t.Error("root took a cgroup that nobody had delegated")
	}
	if err := unix.Setxattr(root+"/unit", "trusted.delegate", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := findCgroups(root, "0::/unit\n"); err != nil {
		t.Errorf("with the mark of systemd's: %v", err)
	}
}

// TestCgroupLimits: what is used already does not count against an action, and what the
// kernel gives up when it must is not in use.
func TestCgroupLimits(t *testing.T) {
	for _, x := range []struct {
		limits       sandboxprofile.Limits
		memory, pids string
	}{
		{sandboxprofile.Limits{Memory: 1000, Pids: 10}, "6000", "49"},
		{sandboxprofile.Limits{Memory: sandboxprofile.Unlimited, Pids: sandboxprofile.Unlimited}, "max", "max"},
		{sandboxprofile.Limits{Memory: sandboxprofile.Unlimited - 10, Pids: 1}, "max", "40"},
		{sandboxprofile.Limits{}, "5000", "39"},
	} {
		dir := fakeTree(t, map[string]string{
			"memory.current": "9000\n", "memory.stat": "anon 4000\nactive_file 1000\ninactive_file 3000\n", "pids.current": "7\n", "memory.max": "a longer text", "pids.max": "a longer text",
		})
		g := &cgroup{dir: dir, controllers: cgroupControllers}
		if err := g.limit(x.limits); err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]string{"memory.max": x.memory, "pids.max": x.pids} {
			if b, err := os.ReadFile(dir + "/" + file); string(b) != want || err != nil {
				t.Errorf("%+v: %s is %q, %v, want %q", x.limits, file, b, err, want)
			}
		}
	}
	if err := (*cgroup)(nil).limit(sandboxprofile.Limits{}); err != nil {
		t.Errorf("without a cgroup: %v", err)
	}
	if err := (&cgroup{dir: t.TempDir(), controllers: cgroupControllers}).limit(sandboxprofile.Limits{}); err == nil {
		t.Error("a cgroup that has gone takes limits")
	}
}

// TestOutOfMemoryIsToldOnce: the kernel's count only grows, and a warm sandbox serves on.
func TestOutOfMemoryIsToldOnce(t *testing.T) {
	g := &cgroup{dir: t.TempDir()}
	for _, x := range []struct {
		events string
		want   bool
	}{
		{"", false},
		{"low 0\nhigh 0\nmax 12\noom 0\noom_kill 0\noom_group_kill 0\n", false},
		{"low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n", true},
		{"low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n", false},
		{"oom_kill 3\n", true},
	} {
		if err := os.WriteFile(g.dir+"/memory.events", []byte(x.events), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := g.outOfMemory(); got != x.want {
			t.Errorf("%q: %v", x.events, got)
		}
	}
}

// realTree is a cgroup of this host in which cgroups can be made, with those of
// cgroupControllers that it has.
func realTree(t *testing.T) *cgroupTree {
	t.Helper()
	tree, lack := ownCgroups()
	if lack == nil {
		t.Cleanup(func() {
			if err := tree.close(); err != nil {
				t.Error(err)
			}
		})
		return tree
	}
	mount, self, err := hostCgroups()
	if err != nil {
		t.Fatal(err)
	}
	dir := mount
	for line := range strings.Lines(self) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			dir = filepath.Join(mount, strings.TrimSpace(path))
		}
	}
	if err := unix.Access(dir, unix.W_OK); err != nil {
		machineLacks(t, fmt.Sprintf("a cgroup v2 directory in which it may make cgroups: %s: %v; %v", dir, err, lack))
	}
	return &cgroupTree{dir: dir} // no controllers: what the kernel does without them is tried all the same
}

// machineLacks ends a test of cgroups that this machine cannot run, and says what
// exactly it would have to have. Not every machine that the tests run on is one that
// somebody can give that: a container's /sys/fs/cgroup is read-only, and an ordinary
// user has only what systemd delegates.
func machineLacks(t *testing.T, what string) {
	t.Helper()
	name, _ := os.Hostname()
	t.Skipf("the machine %q (uid %d) lacks %s\nhint: `scripts/vm cgroups` boots one that has it; or start the tests with `systemd-run --user --scope -p Delegate=yes`, or as root in a cgroup namespace", name, os.Geteuid(), what)
}

func needControllers(t *testing.T, tree *cgroupTree) {
	t.Helper()
	if len(tree.controllers) == 0 {
		machineLacks(t, fmt.Sprintf("the controllers %q in %s", cgroupControllers, tree.dir))
	}
}

// TestTheKernelHoldsCgroups is without bubblewrap and init, which count for themselves:
// a cgroup ends as a whole when its memory does, has no more processes than it may,
// and leaves a program alone that stays within.
func TestTheKernelHoldsCgroups(t *testing.T) {
	tree := realTree(t)
	needControllers(t, tree)
	const memory = "import os, time\nif os.fork() == 0: time.sleep(600)\nx = b'x' * (N << 20)\nos._exit(7)"
	const fork = "import os, time\nfor n in range(N):\n    try: pid = os.fork()\n    except BlockingIOError: os._exit(n)\n    if pid == 0: time.sleep(600)\nos._exit(7)"
	limits := sandboxprofile.Limits{Memory: 64 << 20, Pids: 10}
	for _, x := range []struct {
		name, program string
		status        unix.WaitStatus
		starved       bool
		refused       bool // forks
	}{
		{"memory", strings.Replace(memory, "N", "300", 1), unix.WaitStatus(unix.SIGKILL), true, false},
		{"memory within", strings.Replace(memory, "N", "30", 1), 7 << 8, false, false},
		{"processes", strings.Replace(fork, "N", "300", 1), (10 + supervisedTasks - 1) << 8, false, true},
		{"processes within", strings.Replace(fork, "N", "30", 1), 7 << 8, false, false},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			g, err := tree.create()
			if err != nil {
				t.Fatal(err)
			}
			defer g.remove()
			if err := g.limit(limits); err != nil {
				t.Fatal(err)
			}
			fd, err := g.open()
			if err != nil {
				t.Fatal(err)
			}
			defer fd.Close()
			cmd := startIn(t, fd, "/usr/bin/python3", "-c", x.program)
			_ = cmd.Wait()
			if status := unix.WaitStatus(cmd.ProcessState.Sys().(syscall.WaitStatus)); status != x.status {
				t.Errorf("it ended with %#x, want %#x", status, x.status)
			}
			if g.outOfMemory() != x.starved {
				t.Errorf("out of memory: %v", !x.starved)
			}
			if b, err := os.ReadFile(g.dir + "/pids.events"); err != nil || strings.Contains(string(b), "max 0\n") == x.refused {
				t.Errorf("%q, %v, want processes refused: %v", b, err, x.refused)
			}
			if x.starved && !becomesEmpty(g) {
				t.Error("the program was killed, and not what it had started")
			}
		})
	}
}

// TestOneTreeForAProcess: whoever confines in one process shares the cgroup that it
// has moved to, none can take the controllers from another, and the last one goes
// back to where the process was.
func TestOneTreeForAProcess(t *testing.T) {
	before := cgroupOf(t)
	one, err := ownCgroups()
	if err != nil {
		machineLacks(t, "a cgroup v2 directory that is delegated to it: "+err.Error())
	}
	two, err := ownCgroups()
	if err != nil {
		t.Fatal(err)
	}
	if err := one.close(); err != nil {
		t.Error(err)
	}
	g, err := two.create()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.limit(sandboxprofile.Limits{Memory: 1 << 20, Pids: 1}); err != nil {
		t.Errorf("after somebody else has closed it: %v", err)
	}
	g.remove()
	if err := two.close(); err != nil {
		t.Error(err)
	}
	if after := cgroupOf(t); after != before {
		t.Errorf("it is in %q, and was in %q", after, before)
	}
}

func cgroupOf(t *testing.T) string {
	t.Helper()
	_, self, err := hostCgroups()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// becomesEmpty gives the kernel some time to take away what it has killed.
func becomesEmpty(g *cgroup) bool {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if b, _ := os.ReadFile(g.dir + "/cgroup.events"); strings.Contains(string(b), "populated 0\n") {
			return true
		}
	}
	return false
}

// TestSandboxesHaveCgroupsOfTheirOwn runs a sandbox in a real cgroup: all of its
// processes are in it, none can look out of it, and it goes with the sandbox. Where
// the host gives us the controllers, they end a memory bomb and stop a fork bomb.
func TestSandboxesHaveCgroupsOfTheirOwn(t *testing.T) {
	b, err := NewBwrap("")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.cgroups == nil {
		b.cgroups = realTree(t)
	}
	p := probeProfile()
	p.Limits.Memory, p.Limits.Pids, p.Limits.Wall = 256<<20, 40, 2*time.Minute
	prepare := func() confine.Sandbox {
		t.Helper()
		box, err := b.Prepare(context.Background(), p)
		if err != nil {
			t.Fatal(err)
		}
		return box
	}
	run := func(box confine.Sandbox, argv ...string) (confine.Result, string) {
		t.Helper()
		var out bytes.Buffer
		r, err := box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec,
			Exec: &sandboxprofile.Program{Path: argv[0], Argv: argv, Dir: "/"}}, confine.Stdio{Stdout: &out, Stderr: &out})
		if err != nil {
			t.Fatal(err)
		}
		return r, out.String()
	}
	box := prepare()
	s := box.(*bwrapSandbox)
	if _, out := run(box, "/bin/sh", "-c", "grep ^0: /proc/self/cgroup"); out != "0::/\n" {
		t.Errorf("the cgroup of a tool, seen from inside: %q", out)
	}
	// What the kernel keeps of a ruleset counts there, so programs may confine themselves.
	if _, out := run(box, "/usr/bin/python3", "-c", "import ctypes; print(ctypes.CDLL(None).syscall(444, 0, 0, 1) > 0)"); out != "True\n" {
		t.Errorf("landlock_create_ruleset(2) for its version, in a cgroup: %q", out)
	}
	procs, err := os.ReadFile(s.group.dir + "/cgroup.procs")
	if err != nil || len(strings.Fields(string(procs))) < 2 {
		t.Errorf("processes of the cgroup: %q, %v, want bubblewrap and init", procs, err)
	}
	t.Run("limits", func(t *testing.T) {
		needControllers(t, b.cgroups)
		forks, hoards := prepare(), prepare() // a bomb may end its sandbox
		defer forks.Close()
		defer hoards.Close()
		if r, out := run(forks, "/usr/bin/python3", "-c", "import os, time\nfor _ in range(400):\n  os.fork() or time.sleep(60)"); r.Cause == confine.Exited && r.ExitCode == 0 {
			t.Errorf("a fork bomb: %+v %q", r, out)
		}
		if r, out := run(hoards, "/usr/bin/python3", "-c", "x = [b'x' * (1 << 20) for _ in range(4000)]"); r.Cause != confine.MemoryLimit || r.Duration <= 0 {
			t.Errorf("a memory bomb: %+v %q", r, out)
		}
	})
	t.Run("what was read", func(t *testing.T) {
		needControllers(t, b.cgroups)
		if r, out := run(box, "/bin/sh", "-c", "cat /usr/bin/* | head -c 80000000 >/dev/null"); r.ExitCode != 0 {
			t.Fatalf("%+v %q", r, out)
		}
		current, err := s.group.number("memory.current")
		if err != nil {
			t.Fatal(err)
		}
		run(box, "/bin/true")
		if most, err := s.group.number("memory.max"); err != nil || most > p.Limits.Memory+40<<20 {
			t.Errorf("an action after one that read files may use %d MiB, %v; %d MiB were in the cgroup", most>>20, err, current>>20)
		}
	})
	dir := s.group.dir
	box.Close()
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dir, err)
	}
}

// TestCgroupsOfTheDeadAreSwept: a supervisor that was killed leaves empty cgroups.
func TestCgroupsOfTheDeadAreSwept(t *testing.T) {
	tree := realTree(t)
	const nobody = "4194305" // above the largest pid that there can be (PID_MAX_LIMIT)
	dead, own := filepath.Join(tree.dir, "sandgate-"+nobody+"-1"), filepath.Join(tree.dir, cgroupName("test"))
	for _, dir := range []string{dead, own} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(dir)
	}
	tree.sweep()
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", dead, err)
	}
	if _, err := os.Stat(own); err != nil {
		t.Errorf("of a process that lives: %v", err)
	}
}

// TestRemoveKills: what is still in a cgroup ends with it.
func TestRemoveKills(t *testing.T) {
	tree := realTree(t)
	g, err := tree.create()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := g.open()
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	cmd := startIn(t, fd, "/bin/sleep", "60")
	start := time.Now()
	go g.remove()
	if err := cmd.Wait(); err == nil || time.Since(start) > 30*time.Second {
		t.Errorf("it ended with %v after %v", err, time.Since(start))
	}
}

func startIn(t *testing.T, cgroup *os.File, argv ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}
