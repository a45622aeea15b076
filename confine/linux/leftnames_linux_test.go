package linux_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/confine/confinetest"
	"github.com/sandgate/sandgate/confine/linux"
	"github.com/sandgate/sandgate/confine/proctree"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// entries makes one of each kind in each private place, and some that move.
const entries = `
import os, socket, sys, time
name, keep = sys.argv[1], []
for place in '/tmp', '/var/tmp', '/dev/shm':
    at = place + '/' + name
    os.symlink('/etc/passwd', at + '-link'); os.symlink('/etc', at + '-was'); os.rename(at + '-was', at + '-moved')
    os.symlink('/etc', at + '-gone'); os.unlink(at + '-gone')
    open(at + '-file', 'w').write('x'); os.mkdir(at + '-dir'); os.symlink('/etc', at + '-dir/link')
    s = socket.socket(socket.AF_UNIX); s.bind(at + '-sock'); s.listen(); keep.append(s)
    c = socket.socket(socket.AF_UNIX); c.connect(at + '-sock')
    if place == '/tmp': os.mkfifo(at + '-fifo')
open('made', 'w').close()
time.sleep(600)
`

// TestKilledSandboxesLeaveNoName: what programs have made in private places is gone when
// the sandbox's init was killed, and when the supervisor was too, at the next start. What
// others have made there stays.
func TestKilledSandboxesLeaveNoName(t *testing.T) {
	const mark = "SANDGATE_TEST_NAMES"
	if ws := os.Getenv(mark); ws != "" {
		runEntries(t, ws)
		select {} // the sandbox is closed, and killed meanwhile in one of the cases
	}
	temporaryOfItsOwn(t)
	places := []string{"/tmp", "/var/tmp", "/dev/shm"}
	for _, x := range []struct {
		name string
		kill func(supervisor, init int)
		next bool // the next start clears up
	}{
		{"init", func(_, init int) { kill(t, init) }, false},
		{"init and supervisor", func(supervisor, init int) {
			_ = unix.Kill(supervisor, unix.SIGSTOP) // so that it does not see the other's end
			kill(t, init)
			kill(t, supervisor)
		}, true},
		{"supervisor", func(supervisor, _ int) { kill(t, supervisor) }, false},
	} {
		t.Run(strings.ReplaceAll(x.name, " ", "-"), func(t *testing.T) {
			ws := confinetest.Workspace(t)
			name := namesOf(ws)
			found := func() (list []string) {
				for _, p := range places {
					l, _ := filepath.Glob(p + "/" + name + "-*")
					list = append(list, l...)
				}
				return list
			}
			for _, p := range places { // another's, beside them
				other := p + "/" + name + "-other"
				if err := os.Symlink("/etc", other); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.Remove(other) })
			}
			supervisor := exec.Command(os.Args[0], "-test.run=^TestKilledSandboxesLeaveNoName$")
			supervisor.Env = append(os.Environ(), mark+"="+ws)
			supervisor.Stderr = os.Stderr
			if err := supervisor.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = supervisor.Process.Kill(); _ = supervisor.Wait() }()
			until(t, func() bool { _, err := os.Stat(ws + "/made"); return err == nil })
			if n := len(found()); n != 3*6+1 {
				t.Fatalf("%d names: %q", n, found())
			}
			x.kill(supervisor.Process.Pid, initOf(t, ws))
			if x.next {
				_ = supervisor.Wait()
				until(t, func() bool { return len(confinetest.WorkingIn(t, ws)) == 0 })
				if n := len(found()); n <= len(places) {
					t.Fatalf("somebody has cleared up already: %q", found())
				}
				fresh := newLandlock(t, linux.LandlockOptions{})
				confinetest.Shell(t, fresh, confinetest.Profile(t, ws), ws, "true")
			}
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("left: %q", found())
				}
			})
			until(t, func() bool { return len(found()) <= len(places) })
			for _, p := range places {
				if !slices.Contains(found(), p+"/"+name+"-other") {
					t.Errorf("another's is gone: %q", found())
				}
			}
		})
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// initOf is the process that holds the broker: the parent of the program that works in ws.
func initOf(t *testing.T, ws string) int {
	t.Helper()
	for _, pid := range confinetest.WorkingIn(t, ws) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		parent, err := strconv.Atoi(fields[1])
		if err == nil && slices.Contains(proctree.Children(parent), pid) {
			return parent
		}
	}
	t.Fatal("no program works there")
	return 0
}

func runEntries(t *testing.T, ws string) {
	p := confinetest.Profile(t, ws)
	p.Scratch = append(p.Scratch, "/var/tmp")
	box, err := newLandlock(t, linux.LandlockOptions{}).Prepare(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	program := sandboxprofile.Program{Path: "/usr/bin/python3", Argv: []string{"python3", "-c", entries, namesOf(ws)}, Dir: ws}
	_, _ = box.Run(context.Background(), sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &program}, confine.Stdio{Stderr: os.Stderr})
	_ = box.Close()
}

// namesOf begins the names: those that begin as sandgate's own are refused.
func namesOf(ws string) string { return strings.TrimPrefix(filepath.Base(ws), "sandgate-") }
