package linux_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestPosture reads from outside what a confined process is, and compares it
// with the whole of what it should be. The second process is init, the trusted
// one, which must be no more than the tools it forks.
func TestPosture(t *testing.T) {
	ws := confinetest.Workspace(t)
	box, err := newBwrap(t).Prepare(context.Background(), confinetest.Profile(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	marker := "600." + filepath.Base(ws)[len("sandgate-test-"):] // found in no other command line
	done := make(chan confine.Result, 1)
	go func() {
		r, _ := box.Run(ctx, sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
			Path: "/bin/sleep", Argv: []string{"sleep", marker}, Dir: ws, Env: []string{"PATH=/bin"},
		}}, confine.Stdio{})
		done <- r
	}()
	tool := findProcess(t, "sleep\x00"+marker)
	init := parent(t, tool)

	want := map[string]string{
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
		"CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
		"NoNewPrivs": "1", "Seccomp": "2",
		"Uid": strings.Repeat(fmt.Sprint(os.Getuid())+" ", 4), "Gid": strings.Repeat(fmt.Sprint(os.Getgid())+" ", 4),
	}
	for name, pid := range map[string]int{"tool": tool, "init": init} {
		status := readStatus(t, pid)
		want["Seccomp_filters"] = map[string]string{"tool": "3", "init": "1"}[name] // a tool's others are for set-group-id bits and its threads' descriptors
		for field, value := range want {
			if got := strings.Join(strings.Fields(status[field]), " "); got != strings.TrimSpace(value) {
				t.Errorf("%s: %s is %q, want %q", name, field, got, value)
			}
		}
		if name == "init" && os.Geteuid() != 0 {
			continue // the kernel keeps an undumpable process to itself; root looks further
		}
		for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
			own, theirs := readlink(t, "/proc/self/ns/"+ns), readlink(t, fmt.Sprintf("/proc/%d/ns/%s", pid, ns))
			if own == theirs {
				t.Errorf("%s: shares the %s namespace of the host", name, ns)
			}
		}
	}
	status := readStatus(t, tool)
	if got := lastField(status["NSpid"]); got == "1" || lastField(readStatus(t, init)["NSpid"]) != "1" {
		t.Errorf("NSpid: the tool is %q, init is %q", status["NSpid"], readStatus(t, init)["NSpid"])
	}
	if sid := lastField(status["NSsid"]); sid != lastField(status["NSpid"]) {
		t.Errorf("the tool does not lead a session of its own: NSsid %q, NSpid %q", status["NSsid"], status["NSpid"])
	}
	if tty := statField(t, tool, 7); tty != "0" {
		t.Errorf("the tool has the controlling terminal %s", tty)
	}
	if fds := listFDs(t, tool); !slices.Equal(fds, []string{"0", "1", "2"}) {
		t.Errorf("descriptors of the tool: %v", fds)
	}
	if os.Geteuid() == 0 {
		checkInitFromOutside(t, init)
	}
	stop()
	if r := <-done; r.Cause != confine.Cancelled {
		t.Errorf("the tool ended with %+v", r)
	}
}

// TestSandboxesGoFirst: when memory runs out on the host, the kernel ends them before what
// else its user runs, the supervisor among that.
func TestSandboxesGoFirst(t *testing.T) {
	for _, c := range memoryConfiners(t) {
		ws := confinetest.Workspace(t)
		if o := confinetest.Exec(t, context.Background(), c, confinetest.Profile(t, ws), ws, nil, "/bin/cat", "/proc/self/oom_score_adj"); o.Out != "500\n" {
			t.Errorf("%s: a program is at %q %q", c.Name(), o.Out, o.Err)
		}
	}
	if own, err := os.ReadFile("/proc/self/oom_score_adj"); err != nil || string(own) == "500\n" {
		t.Errorf("we are at %q, %v", own, err)
	}
}

func checkInitFromOutside(t *testing.T, init int) {
	t.Helper()
	// 0 to 3, what the action is watched with, what programs' set-group-id bits are served
	// with, what tells of ended connections, and the runtime's own. No file, and no other socket but the one that tells what sockets hold.
	want := regexp.MustCompile(`^(/dev/null|/proc/sysvipc/(shm|sem|msg)|/|/proc|/proc/[0-9]+/fd|/proc/[0-9]+/net/sockstat|anon_inode:(\[(pidfd|eventpoll|eventfd)\]|seccomp notify)|pipe:.*)$`)
	sockets := 0
	for _, fd := range listFDs(t, init) {
		switch to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", init, fd)); {
		case errors.Is(err, os.ErrNotExist): // closed since
		case strings.HasPrefix(to, "socket:"):
			sockets++
		case err != nil || !want.MatchString(to):
			t.Errorf("descriptor %s of init: %s, %v", fd, to, err)
		}
	}
	if sockets != 2 {
		t.Errorf("init has %d sockets, and needs its own one and that of the kernel's answers", sockets)
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", init))
	for _, v := range strings.Split(strings.Trim(string(env), "\x00"), "\x00") {
		if err != nil || !slices.Contains([]string{"", "PWD=/", "GOMAXPROCS=1"}, v) { // bubblewrap sets the first, and ours are numbers
			t.Errorf("environment of init: %q, %v", v, err)
		}
	}
}

// findProcess waits for a process whose command line is argv.
func findProcess(t *testing.T, argv string) int {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, f := range dirs {
			if b, err := os.ReadFile(f); err == nil && string(b) == argv+"\x00" {
				pid, err := strconv.Atoi(strings.Split(f, "/")[2])
				if err != nil {
					t.Fatal(err)
				}
				return pid
			}
		}
	}
	t.Fatalf("no process %q", argv)
	return 0
}

func readStatus(t *testing.T, pid int) map[string]string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]string{}
	for _, line := range strings.Split(string(b), "\n") {
		k, v, _ := strings.Cut(line, ":")
		status[k] = strings.TrimSpace(v)
	}
	return status
}

func parent(t *testing.T, pid int) int {
	t.Helper()
	n, err := strconv.Atoi(readStatus(t, pid)["PPid"])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func lastField(s string) string {
	f := strings.Fields(s)
	if len(f) == 0 {
		return ""
	}
	return f[len(f)-1]
}

// statField is a field of /proc/PID/stat, counted from 1 as in proc(5).
func statField(t *testing.T, pid, n int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.Fields(rest)[n-3]
}

func readlink(t *testing.T, path string) string {
	t.Helper()
	s, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func listFDs(t *testing.T, pid int) []string {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
