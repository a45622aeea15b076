package linux_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/confine/proctree"
	"github.com/sandgate/sandgate/confine/wire"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// hidden is a tree of processes that nothing but a namespace or an ancestor finds: they
// have left their session and lost their parent, take no signal, take orphans for
// themselves, and some do nothing but fork.
const hidden = `
import os, signal, time, ctypes
def hide(levels):
    for _ in range(levels):
        if os.fork(): os._exit(0)
        os.setsid()
    for s in range(1, 32):
        try: signal.signal(s, signal.SIG_IGN)
        except OSError: pass
    while True: time.sleep(1)
for levels in (1, 2, 5):
    if os.fork() == 0: hide(levels)
if os.fork() == 0:
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) # PR_SET_CHILD_SUBREAPER
    if os.fork() == 0: hide(3)
    while True: time.sleep(600)
if os.fork() == 0:
    os.setsid()
    while True:
        if os.fork(): os._exit(0)
time.sleep(0.05)
open('ready', 'w').close()
while True: time.sleep(600)
`

// TestKilledSandboxesLeaveNobody: whichever process of ours is killed, alone or with the
// supervisor, no process of the tool's runs on.
func TestKilledSandboxesLeaveNobody(t *testing.T) {
	const mark = "SANDGATE_TEST_KILLED"
	if backend, ws, inner := strings.Cut(os.Getenv(mark), ":"); inner {
		superviseHidden(t, backend, ws)
	}
	temporaryOfItsOwn(t)
	for _, backend := range []string{"bwrap", "landlock"} {
		t.Run(backend, func(t *testing.T) {
			kills := func(pick func(supervisor int, ours []int) []int) (of int) {
				t.Helper()
				ws := confinetest.Workspace(t)
				supervisor := exec.Command(os.Args[0], "-test.run=^TestKilledSandboxesLeaveNobody$")
				supervisor.Env = append(os.Environ(), mark+"="+backend+":"+ws)
				if err := supervisor.Start(); err != nil {
					t.Fatal(err)
				}
				defer func() { _ = supervisor.Wait() }()
				defer func() { _ = supervisor.Process.Kill() }()
				until(t, func() bool {
					_, err := os.Stat(ws + "/ready")
					return err == nil && len(confinetest.WorkingIn(t, ws)) >= 6
				})
				ours := slices.DeleteFunc(proctree.Descendants(supervisor.Process.Pid), func(pid int) bool {
					at, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/cwd")
					return err != nil || at == ws || isWarden(pid) // which is of no one sandbox
				})
				if len(ours) < 2 {
					t.Fatalf("processes of ours: %v", ours)
				}
				for _, pid := range pick(supervisor.Process.Pid, ours) {
					if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH { // one may take the other along
						t.Fatal(err)
					}
				}
				until(t, func() bool { return len(confinetest.WorkingIn(t, ws)) == 0 })
				for _, pid := range ours {
					until(t, func() bool { return !isLive(pid) })
				}
				return len(ours)
			}
			n := kills(func(supervisor int, _ []int) []int { return []int{supervisor} })
			for i := range n {
				kills(func(_ int, ours []int) []int { return []int{ours[i]} })
				kills(func(supervisor int, ours []int) []int { return []int{ours[i], supervisor} })
			}
		})
	}
}

// temporaryOfItsOwn is for a test that kills a process of this program: what that has in the
// directory for temporary files goes with the test.
func temporaryOfItsOwn(t *testing.T) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
}

// isWarden recognises the process that a supervisor has for what it leaves: by what it was
// started with, and as a zombie by the name that it has given itself.
func isWarden(pid int) bool {
	dir := "/proc/" + strconv.Itoa(pid)
	line, _ := os.ReadFile(dir + "/cmdline")
	name, _ := os.ReadFile(dir + "/comm")
	return strings.HasSuffix(string(line), "\x00"+wire.Warden+"\x00") || string(name) == "sandgate-warden\n"
}

// isLive reports whether a process is there and no zombie.
func isLive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.HasPrefix(string(b[strings.LastIndexByte(string(b), ')')+1:]), " Z")
}

// superviseHidden runs the tree, and stays when it is gone.
func superviseHidden(t *testing.T, backend, ws string) {
	var c confine.Confiner = newLandlock(t, linux.LandlockOptions{})
	if backend == "bwrap" {
		c = newBwrap(t)
	}
	box, err := c.Prepare(context.Background(), confinetest.Profile(t, ws))
	if err != nil {
		t.Fatal(err)
	}
	program := sandboxprofile.Program{Path: "/usr/bin/python3", Argv: []string{"python3", "-c", hidden}, Dir: ws}
	_, _ = box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &program}, confine.Stdio{})
	select {}
}

// TestAStoppedInitIsWoken: a sandbox whose init somebody has stopped ends like any other
// when its call is cancelled.
func TestAStoppedInitIsWoken(t *testing.T) {
	for _, c := range memoryConfiners(t) {
		t.Run(c.Name(), func(t *testing.T) {
			ws := confinetest.Workspace(t)
			box, err := c.Prepare(context.Background(), confinetest.Profile(t, ws))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			ended := make(chan error, 1)
			var result confine.Result
			go func() {
				var err error
				result, err = box.Run(ctx, sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
					Path: "/usr/bin/sleep", Argv: []string{"sleep", "600"}, Dir: ws,
				}}, confine.Stdio{Stderr: os.Stderr})
				ended <- err
			}()
			until(t, func() bool { return len(confinetest.WorkingIn(t, ws)) > 0 })
			init := initOf(t, ws)
			if err := unix.Kill(init, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			until(t, func() bool { return stateOf(init) == "T" })
			cancel()
			if err := <-ended; err != nil || result.Cause != confine.Cancelled {
				t.Errorf("%+v, %v", result, err)
			}
			if err := unix.Kill(init, unix.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			if err := box.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func stateOf(pid int) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(b), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}
