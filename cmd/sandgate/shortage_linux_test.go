package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/confine/proctree"
	"github.com/sandgate/sandgate/protocol"
)

// bounded is a cgroup of this host with a limit, which a command enters by this prefix.
// Its file is named first as version 1 of cgroups has it.
func bounded(t *testing.T, controller string, files [2]string, most int) (prefix []string) {
	t.Helper()
	for i, parent := range []string{"/sys/fs/cgroup/" + controller, "/sys/fs/cgroup"} {
		dir := filepath.Join(parent, fmt.Sprintf("sandgate-test-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			continue
		}
		t.Cleanup(func() { _ = unix.Rmdir(dir) })
		if os.WriteFile(dir+"/"+files[i], fmt.Append(nil, most), 0o644) == nil {
			return []string{"sh", "-c", "echo $$ > " + dir + "/cgroup.procs && exec \"$@\"", "sh"}
		}
	}
	t.Skipf("uid %d may not make a cgroup with the %s controller on this machine\nhint: `scripts/vm cgroups` boots one that has it", os.Geteuid(), controller)
	return nil
}

func boundedProcesses(t *testing.T, most int) (prefix []string) {
	return bounded(t, "pids", [2]string{"pids.max", "pids.max"}, most)
}

// outcomes are how calls of many sessions ended, by code; "" is well, "closed" a
// connection that ended without a word.
type outcomes struct {
	mu    sync.Mutex
	count map[string]int
	fault error // one of a sandbox that failed
}

func (o *outcomes) add(err error) {
	code := ""
	var e *protocol.Error
	switch {
	case errors.As(err, &e) && strings.HasPrefix(e.HintText, "nothing ran: "):
		code = "nothing ran" // and it says what to do
	case errors.As(err, &e):
		code = string(e.Code)
	case err != nil:
		code = "closed"
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count[code]++; code == string(protocol.CodeSandboxFailed) {
		o.fault = err
	}
}

// callsOf lets each of n sessions make one call, over their own connections or over one.
func (h *host) callsOf(n int, own bool, command string) map[string]int {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	socket := h.dir + "/rt/sandgate/agent.sock"
	dial := func() (agent *client.Agent, err error) {
		h.asItsUser(func() { agent, err = client.DialAgent(ctx, socket) })
		return agent, err
	}
	o := outcomes{count: map[string]int{}}
	shared, err := dial()
	if err != nil { // it is told to come again
		o.add(err)
		return o.count
	}
	defer shared.Close()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			agent := shared
			if own {
				var err error
				if agent, err = dial(); err != nil {
					o.add(err)
					return
				}
				defer agent.Close()
			}
			s, err := agent.OpenSession(ctx, protocol.SessionOpen{Agent: fmt.Sprintf("agent-%d", i)})
			if err == nil {
				_, err = s.Call(ctx, "shell", map[string]any{"command": command})
			}
			o.add(err)
		})
	}
	all.Wait()
	if o.fault != nil {
		h.t.Logf("a sandbox failed: %v", o.fault)
	}
	return o.count
}

// operatorAnswers asks for the status, and has the answer within a bound.
func (h *host) operatorAnswers() protocol.Status {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var p *client.Approver
	var err error
	h.asItsUser(func() { p, err = client.DialApprover(ctx, h.dir+"/rt/sandgate/operator.sock") })
	if err != nil {
		h.t.Fatal(err)
	}
	defer p.Close()
	st, err := p.Status(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	return st
}

// asBefore: when it is over a call is as confined as the first was, the log is whole and
// nothing has ended the supervisor.
func (h *host) asBefore() {
	h.t.Helper()
	const act = `command=test -e /proc/1/status && ! test -e /proc/` + "$OUTER" + ` && grep -q '^Seccomp:.2' /proc/self/status && ! cat ../home/x 2>/dev/null && echo confined`
	out, err := h.command("call", "shell", strings.Replace(act, "$OUTER", strconv.Itoa(h.serve.Process.Pid), 1)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "confined") {
		h.t.Errorf("the next call: %v\n%s", err, out)
	}
	if st := h.operatorAnswers(); !st.Sandbox.Ready || st.Sandbox.EnforcedBy.Backend != "bwrap" {
		h.t.Errorf("status: %+v", st.Sandbox)
	}
	if out, err := h.command("audit", "verify").CombinedOutput(); err != nil {
		h.t.Errorf("the log: %v\n%s", err, out)
	}
	h.interrupt()
	if err := h.serve.Wait(); err != nil {
		h.t.Errorf("the supervisor: %v", err)
	}
	if out, err := h.command("audit", "verify").CombinedOutput(); err != nil || strings.Contains(string(out), "not ended") {
		h.t.Errorf("the log after the end: %v\n%s", err, out)
	}
}

// TestTheSupervisorOutlivesItsTools: a tool that starts all the processes that there may
// be in a container ends for it, and not the supervisor; others are told to call again.
func TestTheSupervisorOutlivesItsTools(t *testing.T) {
	h := newHost(t)
	h.prefix = boundedProcesses(t, 300)
	h.start()
	h.call(0, "shell", "command=true")
	for range 3 {
		h.call(124, "shell", "command=for i in $(seq 400); do sleep 8 & done; wait")
		h.operatorAnswers()
	}
	got := h.callsOf(12, false, "for i in $(seq 60); do sleep 1 & done; wait")
	for code, n := range got {
		switch protocol.Code(code) {
		case "", protocol.CodeLimitExceeded, protocol.CodeTooManyRequests, protocol.CodeTimedOut:
		default:
			t.Errorf("%d calls ended with %q", n, code)
		}
	}
	t.Logf("%v", got)
	h.asBefore()
}

// TestFewDescriptors: with room for few sandboxes and connections, calls wait or are told
// to come again, and nobody is left without a word.
func TestFewDescriptors(t *testing.T) {
	h := newHost(t)
	h.prefix = []string{"sh", "-c", "ulimit -n 256 && exec \"$@\"", "sh"}
	h.start()
	h.call(0, "shell", "command=true")
	for _, own := range []bool{true, false} {
		got := h.callsOf(64, own, "true")
		for code, n := range got {
			if code != "" && code != string(protocol.CodeTooManyRequests) {
				t.Errorf("%d calls ended with %q", n, code)
			}
		}
		if got[""] < 16 {
			t.Errorf("only %d of 64 calls ended well", got[""])
		}
		t.Logf("%v", got)
	}
	h.asBefore()
}

// TestManySessions: standing sandboxes are bounded over all sessions, and those that wait
// go when a call needs room.
func TestManySessions(t *testing.T) {
	h := newHost(t)
	h.prefix = []string{"sh", "-c", "ulimit -n 1024 && exec \"$@\"", "sh"}
	h.start()
	const n = 300
	got := h.callsOf(n, false, "true")
	if got[""] != n {
		t.Errorf("%v, want all %d to end well", got, n)
	}
	if standing := len(proctree.Descendants(h.serve.Process.Pid)); standing > 3*64 {
		t.Errorf("%d processes stand below the supervisor", standing)
	}
	h.asBefore()
}

// A resource is something that a host has little of.
type resource struct {
	name    string
	prefix  func(t *testing.T) []string // of the supervisor
	place   string                      // a directory of the host's that is a small disk
	disk    string                      // its file system
	user    bool                        // it is counted for a user, who runs the supervisor
	exhaust func(h *host)
	release func(h *host)
}

// scarce are what tools and others use up. What a call meets while there is none is its
// own affair, but for a fault.
var scarce = []resource{
	{name: "processes", prefix: func(t *testing.T) []string { return boundedProcesses(t, 300) },
		exhaust: func(h *host) { h.callsInShortage(4, false, "for i in $(seq 400); do sleep 3 & done; wait") }},
	// Many small processes, none of them as large as the supervisor.
	{name: "memory", prefix: func(t *testing.T) []string {
		return bounded(t, "memory", [2]string{"memory.limit_in_bytes", "memory.max"}, 400<<20)
	}, exhaust: func(h *host) {
		h.callsInShortage(4, false, `for i in $(seq 50); do python3 -c 'x = b"x" * (9 << 20); import time; time.sleep(9)' & done; sleep 3`)
	}},
	{name: "keys", user: true, exhaust: func(h *host) { h.outside(takeKeys, 20) }},
	{name: "watchers", user: true, exhaust: func(h *host) { h.outside(takeWatchers, 20) }},
	{name: "pipes", user: true, exhaust: func(h *host) { h.outside(takePipes, 16) }},
	{name: "descriptors", prefix: func(*testing.T) []string { return []string{"sh", "-c", "ulimit -n 256 && exec \"$@\"", "sh"} },
		exhaust: func(h *host) { h.callsInShortage(64, true, "true") }},
	// A sandbox takes one or two. A user namespace has a count of its own for what is below it.
	{name: "namespaces", prefix: func(*testing.T) []string {
		return []string{"unshare", "--user", "--map-root-user", "sh", "-c", "echo 6 > /proc/sys/user/max_user_namespaces && exec \"$@\"", "sh"}
	}, exhaust: func(h *host) { h.callsInShortage(32, false, "sleep 1") }},
	// A call that has begun when there was room ends when there is none.
	{name: "room for the log", place: "state", disk: "tmpfs",
		exhaust: func(h *host) {
			var one sync.WaitGroup
			one.Go(func() { h.callsInShortage(1, false, "sleep 2") })
			time.Sleep(time.Second)
			h.fill("state")
			h.callsInShortage(4, false, "true")
			one.Wait()
		}, release: func(h *host) { h.empty("state") }},
	{name: "room in the workspace", place: "ws", disk: "ext4",
		exhaust: func(h *host) { h.fill("ws"); h.callsInShortage(4, false, "echo x > more; mkdir d") }, release: func(h *host) { h.empty("ws") }},
}

// What the kernel counts for a user is taken by a program outside, which gets more of it
// than any tool. The user is one that nobody else here is.
const (
	quotaUser    = 54321
	takeKeys     = "import ctypes; libc = ctypes.CDLL(None); take = lambda n: libc.syscall(%d, b'user', b'%%d' %% n, b'x', 1, -2) > 0"
	takeWatchers = "import ctypes; libc = ctypes.CDLL(None); take = lambda n: libc.inotify_init() >= 0"
	takePipes    = "import fcntl, os; take = lambda n: fcntl.fcntl(os.pipe()[0], 1031, 1 << 20) > 0"
)

// outside has a program of the supervisor's user take all that it gets, at least so much,
// and hold it while calls are made. None needs what it holds.
func (h *host) outside(take string, least int) {
	h.t.Helper()
	if strings.Contains(take, "%d") {
		take = fmt.Sprintf(take, unix.SYS_ADD_KEY)
	}
	program := take + `
n = 0
try:
    while n < 100000 and take(n): n += 1
except OSError: pass
print(n, flush=True); input()`
	cmd := exec.Command("/usr/bin/python3", "-c", program) // another user may not reach the one on our PATH
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: quotaUser, Gid: quotaUser}}
	ends, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	defer func() { ends.Close(); _ = cmd.Wait() }()
	var n int
	if _, err := fmt.Fscan(said, &n); err != nil || n < least || n == 100000 {
		h.t.Errorf("a program outside took %d, %v; want all that there is, at least %d", n, err, least)
	}
	h.callsInShortage(8, false, "echo x | cat; sleep 1")
}

// callsInShortage makes calls that may fail, and not as a fault of the sandbox's.
func (h *host) callsInShortage(n int, own bool, command string) {
	h.t.Helper()
	got := h.callsOf(n, own, command)
	for _, bad := range []protocol.Code{protocol.CodeSandboxFailed, protocol.CodeSandboxUnavailable, protocol.CodeInternal, "closed"} {
		if got[string(bad)] > 0 {
			h.t.Errorf("calls in a shortage: %v", got)
		}
	}
	h.t.Logf("calls: %v", got)
}

func (h *host) fill(dir string) {
	h.t.Helper()
	f, err := os.Create(filepath.Join(h.dir, dir, "fill"))
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		h.t.Fatal(err)
	}
}

func (h *host) empty(dir string) {
	h.t.Helper()
	if err := os.Remove(filepath.Join(h.dir, dir, "fill")); err != nil {
		h.t.Fatal(err)
	}
}

// TestShortages: while each resource is used up, and any two of them together, operators are
// answered, and no call ends with a fault; when it is over a call is as confined as the
// first was, and the log is whole.
func TestShortages(t *testing.T) {
	const mark = "SANDGATE_TEST_SHORTAGES"
	if os.Geteuid() != 0 {
		t.Skipf("uid %d may not mount small disks, nor bound processes", os.Geteuid())
	}
	if os.Getenv(mark) == "" { // again, with mounts of its own
		cmd := exec.Command("unshare", "--mount", "--propagation", "private", "--", os.Args[0], "-test.run=^TestShortages$", "-test.v")
		cmd.Env = append(os.Environ(), mark+"=1")
		out, err := cmd.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Error(err)
		}
		return
	}
	for i, one := range scarce {
		for _, two := range scarce[i:] {
			name := one.name
			if two.name != one.name {
				name += " and " + two.name
			}
			t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { shortage(t, one, two) })
		}
	}
}

// smallDisk mounts a file system of 8 MiB: one in memory, or one in a file that a loop
// device shows as a disk, which ends with the mount.
func smallDisk(t *testing.T, kind, dir string) {
	t.Helper()
	var err error
	if _, none := os.Stat("/dev/loop-control"); none != nil {
		kind = "tmpfs" // a container has no loop devices
	}
	if kind == "tmpfs" {
		err = unix.Mount("tmpfs", dir, kind, 0, "size=8m,mode=0700")
	} else {
		image := filepath.Join(t.TempDir(), "disk")
		script := fmt.Sprintf("truncate -s 8M %[1]s && /sbin/mkfs.%[2]s -q %[1]s && mount -o loop %[1]s %[3]s && rmdir %[3]s/lost+found", image, kind, dir)
		var out []byte
		if out, err = exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
}

// ofItsUser gives a host's directories to the user who runs the supervisor and its clients.
func (h *host) ofItsUser() {
	h.t.Helper()
	if h.uid == 0 {
		return
	}
	if err := filepath.WalkDir(h.dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, h.uid, h.uid))
	}); err != nil {
		h.t.Fatal(err)
	}
	program, err := exec.LookPath("sandgate")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, dir := range []string{filepath.Dir(h.dir), filepath.Dir(program), filepath.Dir(filepath.Dir(program))} {
		if err := os.Chmod(dir, 0o755); err != nil {
			h.t.Fatal(err)
		}
	}
}

// asItsUser does what the kernel or a server looks at the user for, on a thread that is the
// supervisor's user meanwhile (credentials(7)).
func (h *host) asItsUser(do func()) {
	if h.uid == 0 {
		do()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(uid int) {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			h.t.Errorf("become user %d: %v", uid, errno)
		}
	}
	become(h.uid)
	defer become(0)
	do()
}

func shortage(t *testing.T, one, two resource) {
	both := []resource{one, two}
	if one.name == two.name {
		both = both[:1]
	}
	h := newHost(t)
	for _, r := range both {
		if r.place != "" {
			dir := filepath.Join(h.dir, r.place)
			smallDisk(t, r.disk, dir)
		}
		if r.user && h.uid == 0 {
			h.uid = quotaUser
			h.prefix = append(h.prefix, "setpriv", fmt.Sprint("--reuid=", quotaUser), fmt.Sprint("--regid=", quotaUser), "--clear-groups")
		}
		if r.prefix != nil {
			h.prefix = append(h.prefix, r.prefix(t)...)
		}
	}
	h.ofItsUser()
	h.start()
	h.call(0, "shell", "command=true")
	var all sync.WaitGroup
	for _, r := range both {
		all.Go(func() { r.exhaust(h) })
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	var took []time.Duration
	for done := false; !done; {
		start := time.Now()
		h.operatorAnswers()
		took = append(took, time.Since(start))
		select {
		case <-over:
			done = true
		case <-time.After(50 * time.Millisecond):
		}
	}
	slices.Sort(took)
	t.Logf("operators were answered within %v, at most %v", took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > time.Second { // one answer may wait for a machine that does other things, half of them not
		t.Errorf("operators were answered after %v", took)
	}
	for _, r := range both {
		if r.release != nil {
			r.release(h)
		}
	}
	h.asBefore()
}
