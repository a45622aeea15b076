package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine/proctree"
)

// TestNothingIsLeftOnTheHost compares the host before and after a call that ends
// in one of the ways in which calls end: mounts, processes, sockets, cgroups, the
// supervisor's descriptors, and every file and directory with its mode and times,
// but for the log.
func TestNothingIsLeftOnTheHost(t *testing.T) {
	// What the supervisor leaves behind becomes ours and is found.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	for _, x := range []struct {
		name  string
		leave func(h *host)
		// ends is set if the scenario ends the supervisor.
		ends bool
	}{
		{name: "a call that ends well", leave: func(h *host) { h.call(0, "shell", "command=echo x > /tmp/x; cat note.txt") }},
		{name: "a search and a read", leave: func(h *host) { h.call(0, "grep", "pattern=note"); h.call(0, "read_file", "path=note.txt") }},
		{name: "a program that crashes", leave: func(h *host) { h.call(139, "shell", "command=kill -SEGV $$") }},
		{name: "a program that is not there", leave: func(h *host) { h.call(127, "run", `argv:=["no-such-program"]`) }},
		{name: "a daemon", leave: func(h *host) { h.call(0, "shell", "command=setsid sleep 71.5 >/dev/null 2>&1 & true") }},
		{name: "a socket in tmp", leave: func(h *host) {
			h.call(0, "run", `argv:=["python3", "-c", "import socket; socket.socket(socket.AF_UNIX).bind('/tmp/s')"]`)
		}},
		{name: "time that is used up", leave: func(h *host) { h.call(124, "shell", "command=trap '' TERM; sleep 72.5") }},
		// Each process stays below its own limit, or its MemoryError would end the call instead.
		{name: "memory that is used up", leave: func(h *host) {
			h.call(124, "run", `argv:=["python3", "-c", "import os, time; [os.fork() for _ in range(3)]; x = b'x' * (60 << 20); time.sleep(78.5)"]`)
		}},
		{name: "a denied call", leave: func(h *host) { h.call(121, "shell", "command=rm -rf x") }},
		{name: "a run", leave: func(h *host) {
			if out, err := h.command("run", "--config", "../sandgate.yaml", "--", "/bin/cat", "note.txt").CombinedOutput(); err != nil || string(out) != "note\n" {
				h.t.Errorf("run: %v\n%s", err, out)
			}
		}},
		{name: "a sandbox that cannot be built", leave: func(h *host) {
			restore := h.link("note.txt", ".envrc") // a protected name that no mount can cover
			h.call(122, "shell", "command=true")
			restore()
		}},
		{name: "a client that goes away", leave: func(h *host) {
			h.during("73.5", func(client, _, _ int) { h.kill(client) })
		}},
		{name: "process 1 is killed", leave: func(h *host) {
			h.during("74.5", func(_, init, _ int) { h.kill(init) })
		}},
		{name: "bubblewrap is killed", leave: func(h *host) {
			h.during("75.5", func(_, _, bwrap int) { h.kill(bwrap) })
		}},
		{name: "the supervisor is killed", ends: true, leave: func(h *host) {
			h.during("76.5", func(_, _, _ int) { h.kill(h.serve.Process.Pid) })
		}},
		{name: "the supervisor is interrupted", ends: true, leave: func(h *host) {
			h.during("77.5", func(_, _, _ int) { h.interrupt() })
		}},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			h := newHost(t)
			h.start()
			h.first()
			h.settle(nil)
			before, descriptors := h.state(), h.descriptors()
			x.leave(h)
			if x.ends {
				_ = h.serve.Wait() // its status is not the matter
				h.orphans()
				h.start() // which replaces the sockets of one that was killed
				h.first()
			}
			h.settle(descriptors)
			if after := h.state(); !maps.Equal(before, after) {
				t.Errorf("left behind or lost:\n%s", difference(before, after))
			}
			h.interrupt()
			_ = h.serve.Wait()
			h.orphans()
			if left, _ := filepath.Glob(h.dir + "/rt/*/*"); len(left) != 0 {
				t.Errorf("left in the runtime directory: %q", left)
			}
		})
	}
}

// first has what a first call makes made: programs have the caches of the workspace and file
// tools do not, so that each looks at its own directories.
func (h *host) first() {
	h.call(0, "shell", "command=true")
	h.call(0, "read_file", "path=note.txt")
}

// TestStateNoticesResidue: what the test above compares tells each kind of residue.
func TestStateNoticesResidue(t *testing.T) {
	h := newHost(t)
	ws := h.dir + "/ws"
	for name, leave := range map[string]func() error{
		"a file":                        func() error { return os.WriteFile(ws+"/stub", nil, 0o444) },
		"a mode":                        func() error { return os.Chmod(ws+"/note.txt", 0o755) },
		"a directory's time":            func() error { return os.Chtimes(ws+"/sub", time.Time{}, time.Unix(1, 0)) },
		"a file of a runtime directory": func() error { return os.WriteFile(h.dir+"/rt/x", nil, 0o600) },
		"a socket": func() error {
			l, err := net.Listen("unix", h.dir+"/tmp/s")
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		},
		"a mount": func() error {
			err := unix.Mount(h.dir+"/tmp", h.dir+"/tmp", "", unix.MS_BIND, "")
			if err == nil {
				t.Cleanup(func() { _ = unix.Unmount(h.dir+"/tmp", unix.MNT_DETACH) })
			}
			if os.Geteuid() != 0 && err == unix.EPERM { // nobody else can mount, and leave a mount
				return os.Mkdir(h.dir+"/tmp/mountpoint", 0o700)
			}
			return err
		},
	} {
		before := h.state()
		if err := leave(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if after := h.state(); maps.Equal(before, after) {
			t.Errorf("%s was not noticed", name)
		}
	}
}

// A host is a supervisor with a workspace, a home and a runtime directory of its own.
type host struct {
	t      *testing.T
	dir    string
	serve  *exec.Cmd
	prefix []string // of the supervisor's command line
	uid    int      // whose it is, where it is not this process's
}

const residueConfig = `version: 1
sandbox:
  paths: {workspace: {root: ws, mode: rw, write_approval: false}}
  limits: {timeout: 3s, memory: 128MiB}
shell:
  default: {allowed: true, approval: false}
  rules: [{pattern: rm, allowed: false}]
approval: {mode: approve_all}
`

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, dir: t.TempDir()}
	for _, dir := range []string{"ws/sub/deep", "home", "rt", "tmp", "state"} {
		if err := os.MkdirAll(filepath.Join(h.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"sandgate.yaml": residueConfig, "ws/note.txt": "note\n", "ws/sub/deep/.env": "TOKEN=1\n"} {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h.git("init", "-q")
	h.git("add", "note.txt")
	h.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x")
	return h
}

func (h *host) env() []string {
	return []string{
		// None of the developer's own tools, of which sandgate run would say that they are not shown.
		"PATH=/usr/bin:/bin", "HOME=" + h.dir + "/home", "XDG_RUNTIME_DIR=" + h.dir + "/rt", "TMPDIR=" + h.dir + "/tmp",
		"XDG_STATE_HOME=" + h.dir + "/state", "GIT_OPTIONAL_LOCKS=0", // git status must not write the index
	}
}

func (h *host) git(args ...string) string {
	h.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = h.dir+"/ws", h.env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func (h *host) command(args ...string) *exec.Cmd {
	cmd := exec.Command("sandgate", args...)
	cmd.Dir, cmd.Env = h.dir+"/ws", h.env()
	if h.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(h.uid), Gid: uint32(h.uid)}}
	}
	return cmd
}

// start runs the supervisor and waits until it says that it is ready.
func (h *host) start() {
	h.t.Helper()
	h.serve = h.command("serve", "--config", "../sandgate.yaml")
	if len(h.prefix) > 0 {
		outer := exec.Command(h.prefix[0], slices.Concat(h.prefix[1:], []string{h.serve.Path}, h.serve.Args[1:])...)
		outer.Dir, outer.Env = h.serve.Dir, h.serve.Env
		h.serve = outer
	}
	said, err := h.serve.StderrPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := h.serve.Start(); err != nil {
		h.t.Fatal(err)
	}
	serve := h.serve
	h.t.Cleanup(func() { // what a test that fails leaves would fail the next one too
		_ = serve.Process.Kill()
		_ = serve.Wait()
	})
	lines, before := bufio.NewScanner(said), ""
	for lines.Scan() {
		before += lines.Text() + "\n"
		if lines.Text() == "sandgate: ready" {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return
		}
	}
	h.t.Fatalf("the supervisor did not get ready: %v\n%s", lines.Err(), before)
}

// call makes one call, which has to end with status.
func (h *host) call(status int, args ...string) {
	h.t.Helper()
	cmd := h.command(append([]string{"call"}, args...)...)
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != status {
		h.t.Errorf("call %q: %v, want status %d\n%q", args, err, status, out[max(0, len(out)-400):])
	}
}

// during makes a call that would take minutes, and acts in the middle of it.
func (h *host) during(marker string, act func(client, init, bwrap int)) {
	h.t.Helper()
	client := h.command("call", "shell", "command=sleep "+marker)
	if err := client.Start(); err != nil {
		h.t.Fatal(err)
	}
	init := h.processOne("sleep\x00" + marker + "\x00")
	act(client.Process.Pid, init, parentOf(init))
	_ = client.Wait() // its status is not the matter
}

// processOne finds the process 1 of the namespace in which a command line runs.
func (h *host) processOne(cmdline string) int {
	h.t.Helper()
	for deadline := time.Now().Add(waitforLimit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		for _, pid := range pids() {
			if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || string(b) != cmdline {
				continue
			}
			for ; pid > 1; pid = parentOf(pid) {
				if f := strings.Fields(statusOf(pid, "NSpid")); len(f) > 1 && f[len(f)-1] == "1" {
					return pid
				}
			}
		}
	}
	h.t.Fatalf("no process %q", cmdline)
	return 0
}

func (h *host) kill(pid int) {
	h.t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) interrupt() {
	h.t.Helper()
	if err := unix.Kill(h.serve.Process.Pid, unix.SIGINT); err != nil {
		h.t.Fatal(err)
	}
}

// settle waits until the supervisor has no process below it, no client, and the
// descriptors that are given, if any are, and until nothing has fallen to us.
func (h *host) settle(descriptors []string) {
	h.t.Helper()
	h.orphans()
	for deadline := time.Now().Add(waitforLimit); ; time.Sleep(time.Millisecond) {
		below, now := slices.DeleteFunc(proctree.Children(h.serve.Process.Pid), isWarden), h.descriptors()
		if len(below) == 0 && h.connections() == 0 && (descriptors == nil || slices.Equal(now, descriptors)) {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("processes of the supervisor: %v; its descriptors %q, before %q; %d clients", below, now, descriptors, h.connections())
		}
	}
}

// isWarden recognises the process that a supervisor has for as long as it lives.
func isWarden(pid int) bool {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && string(comm) == "sandgate-warden\n"
}

// connections counts the sockets that the supervisor has accepted. They have the
// name of the one that listens, and outlive their client by a moment.
func (h *host) connections() int {
	const connected, disconnecting = "03", "04" // SS_* of linux/net.h
	n := 0
	for _, line := range h.lines("/proc/net/unix", h.dir) {
		// proc_net_unix(5): Num RefCount Protocol Flags Type St Inode Path
		if state := strings.Fields(line)[5]; state == connected || state == disconnecting {
			n++
		}
	}
	return n
}

// orphans waits until no process is left that has lost its parent. They are ours
// to reap.
func (h *host) orphans() {
	h.t.Helper()
	for deadline := time.Now().Add(waitforLimit); ; time.Sleep(time.Millisecond) {
		left := slices.DeleteFunc(proctree.Children(os.Getpid()), func(pid int) bool {
			if pid == h.serve.Process.Pid {
				return true
			}
			got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
			return got == pid || err != nil
		})
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("processes that nobody waits for: %v", left)
		}
	}
}

// descriptors are the kinds of the supervisor's open files.
func (h *host) descriptors() []string {
	h.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", h.serve.Process.Pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		h.t.Fatal(err)
	}
	var kinds []string
	for _, e := range entries {
		if target, err := os.Readlink(dir + "/" + e.Name()); err == nil {
			kind, _, _ := strings.Cut(target, ":[")
			kind = strings.Replace(kind, fmt.Sprintf("/proc/%d/", h.serve.Process.Pid), "/proc/self/", 1)
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// state is what the host holds: each thing with what must not change about it.
func (h *host) state() map[string]string {
	h.t.Helper()
	state := map[string]string{"git status": h.git("status", "--porcelain", "--ignored")}
	for _, line := range h.lines("/proc/self/mountinfo", "") {
		state["mount "+line] = ""
	}
	for _, dir := range cgroupsOf(h.serve) {
		state["cgroup "+dir] = ""
	}
	state["named sockets"] = fmt.Sprint(len(h.lines("/proc/net/unix", h.dir)))
	err := filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path == h.dir+"/state" {
			return fs.SkipDir // the log and what was answered
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		state[path] = fmt.Sprintf("%v %d bytes, %v", info.Mode(), info.Size(), info.ModTime())
		if !d.IsDir() && d.Type()&fs.ModeSocket != 0 || strings.HasPrefix(path, h.dir+"/rt") {
			state[path] = info.Mode().String() // made anew by each start
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return state
}

// lines are those of a table that hold text.
func (h *host) lines(file, text string) []string {
	h.t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		h.t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(string(b), "\n"), func(line string) bool { return !strings.Contains(line, text) })
}

// link makes a symbolic link in the workspace. Its result takes it away again, and
// leaves the directory as it was.
func (h *host) link(target, name string) (restore func()) {
	h.t.Helper()
	info, err := os.Stat(h.dir + "/ws")
	if err == nil {
		err = os.Symlink(target, filepath.Join(h.dir, "ws", name))
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return func() {
		h.t.Helper()
		if err := os.Remove(filepath.Join(h.dir, "ws", name)); err != nil {
			h.t.Fatal(err)
		}
		if err := os.Chtimes(h.dir+"/ws", time.Time{}, info.ModTime()); err != nil {
			h.t.Fatal(err)
		}
	}
}

func difference(before, after map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(before)) {
		if now, ok := after[k]; !ok {
			fmt.Fprintf(&b, "lost: %s\n", k)
		} else if now != before[k] {
			fmt.Fprintf(&b, "changed: %s: %s, now %s\n", k, before[k], now)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[k]; !ok {
			fmt.Fprintf(&b, "new: %s %s\n", k, after[k])
		}
	}
	return b.String()
}

// cgroupsOf lists the cgroups that a supervisor has made, wherever it could.
func cgroupsOf(serve *exec.Cmd) []string {
	var dirs []string
	for _, top := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		// What cannot be read, or has just gone, has none of ours in it.
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && serve != nil && strings.HasPrefix(d.Name(), fmt.Sprintf("sandgate-%d-", serve.Process.Pid)) {
				dirs = append(dirs, path)
			}
			return nil
		})
	}
	return dirs
}

func pids() []int {
	var all []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil {
			all = append(all, pid)
		}
	}
	return all
}

func statusOf(pid int, field string) string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // nothing for one that has ended
	for line := range strings.Lines(string(b)) {
		if name, value, _ := strings.Cut(line, ":"); name == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func parentOf(pid int) int {
	ppid, _ := strconv.Atoi(statusOf(pid, "PPid"))
	return ppid
}

// TestFloodsLeaveTheSupervisorUnharmed: what programs write, on whichever stream and
// however fast, takes a bounded part of the supervisor's memory, and a client that
// does not read holds up nobody else.
func TestFloodsLeaveTheSupervisorUnharmed(t *testing.T) {
	h := newHost(t)
	patient := strings.Replace(residueConfig, "timeout: 3s", "timeout: 1m", 1)
	if err := os.WriteFile(h.dir+"/sandgate.yaml", []byte(patient), 0o600); err != nil {
		t.Fatal(err)
	}
	h.start()
	h.call(0, "shell", "command=true")
	idle := h.peakMemory()
	for _, flood := range []string{"yes", "yes >&2", "yes & yes >&2", "yes | tee /dev/stderr"} {
		h.call(124, "shell", fmt.Sprintf("command=timeout 1 bash -c '%s'", flood))
	}
	h.call(3, "shell", "command=yes | head -c 20M; exit 3") // more than the limit, and not without end
	deaf := h.command("call", "shell", "command=yes")       // nobody reads what it prints
	pipe, err := deaf.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := deaf.Start(); err != nil {
		t.Fatal(err)
	}
	h.call(0, "shell", "command=echo fine")
	pipe.Close()
	_ = deaf.Wait()        // its status is not the matter
	const most = 256 << 20 // some copies of a message of 16 MiB, until they are collected
	if peak := h.peakMemory(); peak > idle+most {
		t.Errorf("the supervisor's memory has grown from %d to %d MiB", idle>>20, peak>>20)
	} else {
		t.Logf("the supervisor's memory has grown from %d to %d MiB", idle>>20, peak>>20)
	}
	h.interrupt()
	_ = h.serve.Wait()
}

// peakMemory is the most memory that the supervisor has had so far, in bytes.
func (h *host) peakMemory() int {
	h.t.Helper()
	kib, _, _ := strings.Cut(statusOf(h.serve.Process.Pid, "VmHWM"), " ")
	n, err := strconv.Atoi(kib)
	if err != nil {
		h.t.Fatal(err)
	}
	return n << 10
}
