package linux_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
)

// TestThreadsShareTheirDescriptors: no thread has a table of its own, in which nothing would
// be counted, neither from its start nor later. A thread with its process's is made, and a
// process parts with the one it was copied from.
func TestThreadsShareTheirDescriptors(t *testing.T) {
	const program = `
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static int act(void *a) { syscall(SYS_exit, 0); return 0; }
static int thread(int flags) {
	char *stack = malloc(1 << 16);
	return clone(act, stack + (1 << 16), CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | flags, 0) < 0 ? errno : 0;
}
int main(void) {
	int own = thread(0), shared = thread(CLONE_FILES);
	int parted = syscall(SYS_close_range, 1000, 1000, 2) < 0 ? errno : 0, closed = syscall(SYS_close_range, 1000, 1000, 0) < 0 ? errno : 0;
	int child = fork(), status = 0;
	if (child == 0) _exit(0);
	waitpid(child, &status, 0);
	printf("%d %d %d %d %d\n", own, shared, parted, closed, status);
	return 0;
}`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.c"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-static", "-o", filepath.Join(dir, "p"), filepath.Join(dir, "p.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	for name, c := range map[string]confine.Confiner{"bwrap": newBwrap(t), "landlock": newLandlock(t, linux.LandlockOptions{})} {
		ws := confinetest.Workspace(t)
		if b, err := os.ReadFile(filepath.Join(dir, "p")); err != nil || os.WriteFile(ws+"/p", b, 0o755) != nil {
			t.Fatal(err)
		}
		o := confinetest.Exec(t, context.Background(), c, confinetest.Profile(t, ws), ws, nil, ws+"/p")
		if o.Out != "22 0 22 0 0\n" {
			t.Errorf("%s: %q %+v %s, want EINVAL of the first and third alone", name, o.Out, o.Result, o.Err)
		}
	}
}

// TestHugePagesAreOff: where memory is counted by what is mapped, a huge page of which one small
// one stays mapped would count for that one. A program cannot turn them on again; where a
// cgroup counts they stay.
func TestHugePagesAreOff(t *testing.T) {
	const asks = `
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for line in open('/proc/self/status'):
    if line.startswith('THP_enabled:'): print(line.split()[1], 'sandgate' in open('/proc/self/cgroup').read())
print(libc.prctl(41, 0, 0, 0, 0), ctypes.get_errno(), libc.prctl(15, b'name', 0, 0, 0))`
	for name, c := range map[string]confine.Confiner{"bwrap": newBwrap(t), "landlock": newLandlock(t, linux.LandlockOptions{})} {
		ws := confinetest.Workspace(t)
		o := confinetest.Exec(t, context.Background(), c, confinetest.Profile(t, ws), ws, nil, "/usr/bin/python3", "-c", asks)
		switch o.Out {
		case "0 False\n-1 22 0\n", "1 True\n-1 22 0\n", "-1 22 0\n": // the last on a kernel without them
		default:
			t.Errorf("%s: %q %s", name, o.Out, o.Err)
		}
	}
}

// TestProgramsMakeNoRulesets: without a cgroup, nothing counts what the kernel keeps of a Landlock
// ruleset. A program gets none, as on a kernel without Landlock; outside the same calls reach it.
func TestProgramsMakeNoRulesets(t *testing.T) {
	const asks = `
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    return 'ok' if libc.syscall(*a) >= 0 else errno.errorcode[ctypes.get_errno()]
print(call(444, 0, 0, 1), call(445, -1, 1, 0, 0), call(446, -1, 0), call(443, -1, 0, 0, 0))` // the last is quotactl_fd(2)
	out, err := exec.Command("/usr/bin/python3", "-c", asks).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "ok ") || strings.Contains(string(out), "ENOSYS") {
		t.Fatalf("outside: %v %s", err, out)
	}
	for name, c := range map[string]confine.Confiner{"bwrap": newBwrap(t), "landlock": newLandlock(t, linux.LandlockOptions{})} {
		ws := confinetest.Workspace(t)
		o := confinetest.Exec(t, context.Background(), c, confinetest.Profile(t, ws), ws, nil, "/usr/bin/python3", "-c", asks)
		want := "ENOSYS ENOSYS ENOSYS EPERM\n"
		if name == "bwrap" && inCgroup(t, c) {
			want = "ok EBADF EBADF EPERM\n"
		}
		if o.Out != want {
			t.Errorf("%s: %q %s %+v, want %q", name, o.Out, o.Err, o.Result, want)
		}
	}
}

// TestNoTableOfFutexesIsEnlarged: one call could have the kernel keep a GiB that no figure of a process
// shows. The options that programs use work.
func TestNoTableOfFutexesIsEnlarged(t *testing.T) {
	const asks = `
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def call(*a):
    return 'ok' if libc.prctl(*a) >= 0 else errno.errorcode[ctypes.get_errno()]
print(call(78, 2, 0, 0, 0), call(79, 0, 0, 0, 0), call(1000, 0, 0, 0, 0), call(15, b'name', 0, 0, 0), call(38, 1, 0, 0, 0), call(3, 0, 0, 0, 0))`
	for name, c := range map[string]confine.Confiner{"bwrap": newBwrap(t), "landlock": newLandlock(t, linux.LandlockOptions{})} {
		ws := confinetest.Workspace(t)
		o := confinetest.Exec(t, context.Background(), c, confinetest.Profile(t, ws), ws, nil, "/usr/bin/python3", "-c", asks)
		if o.Out != "EINVAL EINVAL EINVAL ok ok ok\n" {
			t.Errorf("%s: %q %s %+v", name, o.Out, o.Err, o.Result)
		}
	}
	var release unix.Utsname
	if err := unix.Uname(&release); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(release.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("/usr/bin/python3", "-c", asks).CombinedOutput(); err != nil || (major > 6 || major == 6 && minor >= 16) && !strings.HasPrefix(string(out), "ok ") {
		t.Errorf("outside: %s, %v", out, err)
	}
}

// inCgroup reports whether a cgroup holds the memory of a sandbox.
func inCgroup(t *testing.T, c confine.Confiner) bool {
	t.Helper()
	box, err := c.Prepare(context.Background(), confinetest.Profile(t, confinetest.Workspace(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	return strings.Contains(box.Enforced().Limits, "by a cgroup")
}
